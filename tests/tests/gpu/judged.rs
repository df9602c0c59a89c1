//! The analyzer's verdicts on instances, from the exporter's metrics.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_exposition::{Format, Limits, parse};
use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Class;
use serde_json::json;

use crate::probe::Probe;

const MINUTE: TimeMs = 60_000;

const MINUTES: TimeMs = 4;

/// From one scrape to the next: what is read rarely is read in every sixth.
const STEP: Duration = Duration::from_secs(5);

/// Scrapes of a minute that is not judged, and of those that are.
fn scraped(node: &FakeNode) -> Vec<Series> {
    let begin = SystemTime::now();
    node.fix_clock(begin).unwrap();
    let mut probe = Probe::stepped(node);
    let mut all: BTreeMap<Labels, Vec<Sample>> = BTreeMap::new();
    for time_ms in (-MINUTE..=MINUTES * MINUTE).step_by(STEP.as_millis() as usize) {
        node.fix_clock(begin + Duration::from_millis((time_ms + MINUTE) as u64)).unwrap();
        let scrape = probe.step(STEP);
        // What the test harness prints at its start is before the first one.
        let text = &scrape.0[scrape.0.find('#').unwrap()..];
        let batch = parse(text, Format::OpenMetrics, Limits::NONE, time_ms).unwrap();
        batch.series().for_each(|s| all.entry(s.labels.to_labels()).or_default().extend(s.samples));
    }
    all.into_iter().map(|(labels, samples)| Series { labels, samples }).collect()
}

/// Of two instances of three slices one works, and the other is held by a process that does nothing; no profile fits
/// what is left. Every millisecond of the GPU is accounted for.
#[test]
fn each_instance_has_its_class_and_what_no_profile_fits_is_stranded() {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(1)).unwrap();
    let layout = json!([{"id": 1, "profile": "3g.40gb"}, {"id": 2, "profile": "3g.40gb"}]);
    node.append(&json!({"mig": {"gpu": 0, "instances": layout}})).unwrap();
    node.process_in(0, 1, 4711, 30 << 30).unwrap();
    node.process_in(0, 2, 4712, 30 << 30).unwrap();
    let load = json!({"gpu": 60, "sm": 40});
    node.append(&json!({"start": {"gpu": 0, "instance": 1, "id": "work", "at_us": 1, "load": load}})).unwrap();
    let judged = judge_series(&scraped(&node), 0..MINUTES * MINUTE, &Thresholds::default()).unwrap();
    let mut sums: BTreeMap<(Option<u32>, Class), i64> = BTreeMap::new();
    for i in &judged.intervals {
        *sums.entry((i.gpu_instance.as_ref().map(|instance| instance.id), i.class)).or_default() += i.ms;
    }
    let whole = MINUTES * MINUTE;
    assert_eq!(sums.values().sum::<i64>(), whole, "{sums:?}");
    let share = |key| sums.get(&key).copied().unwrap_or(0) as f64 / whole as f64;
    for (key, expected) in [
        ((Some(1), Class::Productive), 0.6 * 3.0 / 7.0),
        ((None, Class::StrandedMig), 1.0 / 7.0),
        ((Some(2), Class::Productive), 0.0),
    ] {
        assert!((share(key) - expected).abs() < 0.01, "{key:?}: {} of the GPU, not {expected}: {sums:?}", share(key));
    }
    let held: i64 = sums.iter().filter(|((id, _), _)| *id == Some(2)).map(|(_, ms)| ms).sum();
    assert!((held as f64 / whole as f64 - 3.0 / 7.0).abs() < 0.01, "{sums:?}");
}
