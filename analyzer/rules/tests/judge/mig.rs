//! GPUs that are cut into MIG instances: whose time is whose, and that it sums to the GPU's.

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, Thresholds, judge_series};
use goodput_verdict::{Class, Energy, Interval};
use proptest::prelude::*;

const MINUTE: TimeMs = 60_000;
const GPU: &str = "GPU-1";
const MODEL: &str = "NVIDIA H100 80GB HBM3";

fn series(labels: &[(&str, &str)], times: Range<TimeMs>, value: impl Fn(TimeMs) -> f64) -> Series {
    let at = |time_ms| Sample { time_ms, value: value(time_ms) };
    let ended = Sample { time_ms: times.end, value: f64::from_bits(STALE_BITS) };
    let samples = times.clone().step_by(15_000).map(at).chain([ended]).collect();
    Series { labels: Labels::new(labels.iter().copied()), samples }
}

/// An instance as goodput-exporter reports it, busy for a share of its time; `None` as on A100s, which do not report
/// that.
struct Told<'a> {
    id: &'a str,
    profile: &'a str,
    busy: Option<f64>,
    used_mib: f64,
    owner: Option<&'a str>,
    times: Range<TimeMs>,
}

impl Told<'_> {
    fn series(&self) -> Vec<Series> {
        let Told { id, profile, busy, used_mib, owner, times } = self;
        let own =
            [("UUID", GPU), ("GPU_I_ID", id), ("GPU_I_PROFILE", profile), ("modelName", MODEL), ("instance", "n1")];
        let of = |name: &str, value: &dyn Fn(TimeMs) -> f64| {
            series(&[&[("__name__", name)], &own[..]].concat(), times.clone(), value)
        };
        let slices: f64 = profile.split('g').next().unwrap().parse().unwrap();
        let mut all = vec![of("goodput_gpu_mig_slices", &|_| slices), of("DCGM_FI_DEV_FB_USED", &|_| *used_mib)];
        if let Some(share) = busy {
            all.push(of("goodput_gpu_mig_busy_seconds_total", &|time| time as f64 / 1000.0 * share));
            all.push(of("goodput_gpu_mig_observed_seconds_total", &|time| time as f64 / 1000.0));
        }
        let holds = |owner: &&str| {
            let labels = [("__name__", "goodput_gpu_owner_info"), ("UUID", GPU), ("GPU_I_ID", id), ("owner", owner)];
            series(&[&labels[..], &[("instance", "n1")]].concat(), times.clone(), |_| 1.0)
        };
        all.extend(owner.iter().map(holds));
        all
    }
}

const BUSY: Told<'static> =
    Told { id: "1", profile: "3g.40gb", busy: Some(0.5), used_mib: 9000.0, owner: Some("a"), times: 0..60 * MINUTE };

/// What the GPU reports about itself in MIG mode.
fn board(times: Range<TimeMs>) -> Vec<Series> {
    let of = |name, value: fn(TimeMs) -> f64| {
        let labels = [("__name__", name), ("UUID", GPU), ("modelName", MODEL), ("Hostname", "n1"), ("instance", "n1")];
        series(&labels, times.clone(), value)
    };
    vec![
        of("goodput_gpu_mig_capacity_slices", |_| 7.0),
        of("goodput_gpu_processes", |_| 2.0),
        of("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", |time| 300.0 * time as f64),
    ]
}

fn judged(told: &[Told<'_>], window: Range<TimeMs>) -> Judged {
    let all: Vec<Series> = told.iter().flat_map(Told::series).chain(board(0..60 * MINUTE)).collect();
    judge_series(&all, window, &Thresholds::default()).unwrap()
}

/// A seventh of a cell is no whole number of milliseconds: in each one may be here or there.
#[track_caller]
fn assert_near(ms: i64, expected: i64) {
    assert!((ms - expected).abs() <= 7, "{ms} ms, expected {expected}");
}

/// GPU-milliseconds by instance and class.
fn by_instance(judged: &Judged) -> BTreeMap<(Option<u32>, Class), i64> {
    let mut sums = BTreeMap::new();
    for Interval { gpu_instance, class, ms, .. } in &judged.intervals {
        *sums.entry((gpu_instance.as_ref().map(|instance| instance.id), *class)).or_default() += ms;
    }
    sums
}

#[test]
fn every_instance_is_judged_by_itself_and_weighs_its_slices() {
    let idle = Told { id: "2", busy: Some(0.0), owner: Some("b"), ..BUSY };
    let judged = judged(&[BUSY, idle], 20 * MINUTE..27 * MINUTE);
    let sums = by_instance(&judged);
    assert_near(sums[&(Some(1), Class::Productive)], 3 * MINUTE / 2);
    assert_near(sums[&(Some(2), Class::IdleHeld)], 3 * MINUTE);
    // Two times 3g leave a slice and no memory for it.
    assert_near(sums[&(None, Class::StrandedMig)], MINUTE);
    assert_eq!(sums.values().sum::<i64>(), 7 * MINUTE);
    let whose = |class| judged.intervals.iter().find(|i| i.class == class).unwrap();
    assert_eq!(whose(Class::IdleHeld).owner.as_deref(), Some("b"));
    assert_eq!(whose(Class::StrandedMig).owner, None);
    assert_eq!(whose(Class::Productive).gpu_instance.as_ref().unwrap().to_string(), "1 (3g.40gb)");
    assert_eq!(whose(Class::Productive).model.as_deref(), Some(MODEL));
    let drawn = judged.intervals.iter().fold(None, |sum, i| Energy::sum(sum, i.energy)).unwrap();
    assert_eq!((drawn.mj, drawn.ms), (300 * 7 * MINUTE, 7 * MINUTE), "the board's, shared out and counted once");
}

#[test]
fn where_another_profile_fits_the_rest_is_unallocated() {
    let rest = |told: &[Told<'_>]| {
        let sums = by_instance(&judged(told, 20 * MINUTE..27 * MINUTE));
        let rest = sums.into_iter().filter(|((id, _), _)| id.is_none());
        rest.map(|((_, class), ms)| (class, (ms + MINUTE / 2) / MINUTE)).collect::<Vec<_>>()
    };
    assert_eq!(rest(&[BUSY]), [(Class::Unallocated, 4)]);
    assert_eq!(rest(&[BUSY, Told { id: "2", profile: "4g.40gb", ..BUSY }]), []);
    assert_eq!(rest(&[]), [(Class::Unallocated, 7)], "in MIG mode, and cut into nothing");
    let third = |id| Told { id, ..BUSY };
    assert_eq!(rest(&[third("1"), third("2")]), [(Class::StrandedMig, 1)]);
}

#[test]
fn what_tells_nothing_of_its_work_is_held_and_neither_busy_nor_idle() {
    let (held, free) = (Told { busy: None, ..BUSY }, Told { id: "2", busy: None, used_mib: 98.0, owner: None, ..BUSY });
    let judged = judged(&[held, free], 20 * MINUTE..27 * MINUTE);
    let sums = by_instance(&judged);
    assert_near(sums[&(Some(1), Class::Unexplained)], 3 * MINUTE);
    // It uses no more memory than a bare instance does.
    assert_near(sums[&(Some(2), Class::Unallocated)], 3 * MINUTE);
    assert!(judged.missing[GPU].contains("gpu_busy"), "{:?}", judged.missing);
}

#[test]
fn dcgm_exporter_alone_tells_by_labels_and_pods() {
    let repeated = |name, id, profile, pod, value: f64| {
        let labels = [
            ("__name__", name),
            ("UUID", GPU),
            ("GPU_I_ID", id),
            ("GPU_I_PROFILE", profile),
            ("modelName", "NVIDIA A100-SXM4-40GB"),
            ("Hostname", "n1"),
            ("pod", pod),
            ("namespace", "ml"),
        ];
        series(&labels, 0..60 * MINUTE, move |_| value)
    };
    let instance = |id, profile, pod, busy: f64, used: f64| {
        ["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"]
            .into_iter()
            .zip([busy, used, 70.0])
            .map(move |(name, value)| repeated(name, id, profile, pod, value))
    };
    let all = instance("5", "2g.10gb", "", 0.0, 153.0).chain(instance("9", "1g.5gb", "infer", 1.0, 4384.0));
    let judged = judge_series(&all.collect::<Vec<_>>(), 20 * MINUTE..27 * MINUTE, &Thresholds::default()).unwrap();
    let sums = by_instance(&judged);
    let work = (Some(9), Class::Productive);
    // The board's power says nothing of one instance.
    assert_near(sums[&work], MINUTE);
    assert_near(sums[&(Some(5), Class::Unallocated)], 2 * MINUTE);
    assert_near(sums[&(None, Class::Unallocated)], 4 * MINUTE);
    let owner = judged.intervals.iter().find(|i| i.class == Class::Productive).unwrap().owner.clone();
    assert_eq!(owner.as_deref(), Some("ml/infer"));
    assert_eq!(judged.intervals.iter().map(|i| i.energy.map_or(0, |e| e.mj)).sum::<i64>(), 70 * 7 * MINUTE);
}

#[test]
fn without_slices_nothing_is_given_out() {
    let nameless = |name, value: f64| {
        let labels = [("__name__", name), ("UUID", GPU), ("GPU_I_ID", "9"), ("Hostname", "n1")];
        series(&labels, 0..60 * MINUTE, move |_| value)
    };
    let all = [nameless("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0), nameless("DCGM_FI_DEV_FB_USED", 9000.0)];
    let judged = judge_series(&all, 20 * MINUTE..30 * MINUTE, &Thresholds::default()).unwrap();
    assert_eq!(by_instance(&judged), BTreeMap::from([((None, Class::Unexplained), 10 * MINUTE)]));
    assert!(judged.missing[GPU].contains("mig_slices"), "{:?}", judged.missing);
}

#[test]
fn a_gpu_that_is_cut_anew_within_a_cell_is_shared_out_by_time() {
    let cut_at = 22 * MINUTE + 30_000;
    let whole = Told { id: "0", profile: "7g.80gb", busy: Some(1.0), times: 0..cut_at, ..BUSY };
    let one = Told { busy: Some(1.0), times: cut_at..60 * MINUTE, ..BUSY };
    let other = Told { id: "2", owner: None, used_mib: 0.0, busy: Some(0.0), times: cut_at..60 * MINUTE, ..BUSY };
    let sums = by_instance(&judged(&[whole, one, other], 22 * MINUTE..23 * MINUTE));
    let seventh = 30_000.0 / 7.0;
    let near = |key, slices: f64| assert!((sums[&key] as f64 - slices * seventh).abs() <= 1.0, "{sums:?}");
    near((Some(0), Class::Productive), 7.0);
    near((Some(1), Class::Productive), 3.0);
    near((Some(2), Class::Unallocated), 3.0);
    near((None, Class::StrandedMig), 1.0);
    assert_eq!(sums.values().sum::<i64>(), MINUTE);
}

/// Profiles of an H100; some go together.
const PROFILES: [&str; 6] = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn however_a_gpu_is_cut_its_milliseconds_sum_to_the_window(
        told in prop::collection::vec((0..9u32, 0..PROFILES.len(), 0..50i64, 1..30i64, 0..4u8), 0..9),
        hole in 0..50i64,
    ) {
        let ids: Vec<String> = told.iter().map(|(id, ..)| id.to_string()).collect();
        let instance = |((_, profile, from, minutes, busy), id): (&(u32, usize, i64, i64, u8), &'_ String)| {
            let times = from * MINUTE + 7_000..(from + minutes) * MINUTE + 11_000;
            let busy = (*busy < 3).then(|| f64::from(*busy) / 2.0);
            Told { id, profile: PROFILES[*profile], busy, times, ..BUSY }.series()
        };
        let mut all: Vec<Series> = told.iter().zip(&ids).flat_map(instance).collect();
        // Overlapping tellings of one instance are one series.
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        all.dedup_by(|b, a| a.labels == b.labels);
        all.extend(board(0..hole * MINUTE + 1_000));
        all.extend(board((hole + 5) * MINUTE..60 * MINUTE).into_iter().map(|s| Series {
            labels: Labels::new(s.labels.iter().map(|(n, v)| (n, if n == "instance" { "n1:2" } else { v }))),
            ..s
        }));
        let judged = judge_series(&all, 0..60 * MINUTE, &Thresholds::default()).unwrap();
        prop_assert_eq!(judged.intervals.iter().map(|i| i.ms).sum::<i64>(), 60 * MINUTE);
        prop_assert!(judged.intervals.iter().all(|i| i.ms > 0));
        let halves = [0..30 * MINUTE, 30 * MINUTE..60 * MINUTE];
        let halves = halves.map(|half| judge_series(&all, half, &Thresholds::default()).unwrap());
        let mut sums = by_instance(&halves[0]);
        for (key, ms) in by_instance(&halves[1]) {
            *sums.entry(key).or_default() += ms;
        }
        prop_assert_eq!(sums, by_instance(&judged), "the window in two parts");
    }
}
