//! The renderings against recorded ones; `UPDATE_GOLDEN=1` records them again, to be reviewed as a diff.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use goodput_exposition::sample::Labels;
use goodput_rules::forecast::STEP_MS;
use goodput_store::Place;
use goodput_verdict::{
    Advice, Advisory, CheckEnd, Drift, Energy, Evidence, Interval, Measure, Paired, RollUp, Standing, Version,
};
use goodput_verdict::{
    Damage, Eviction, Exhaustion, Fault, Forecast, Kind, Level, Memory, Prospect, Risk, Room, Shape, TimeToLimit,
};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report").join(name)
}

/// As this release judges.
pub(super) fn intervals(name: &str) -> Vec<Interval> {
    let mut all: Vec<Interval> = serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap();
    all.iter_mut().for_each(|i| i.version = Some(Version::of(i.class)));
    all
}

pub(super) fn week() -> Period {
    Period::iso_week("2026-W47", &TimeZone::get("Europe/Berlin").unwrap()).unwrap()
}

pub(super) fn prices() -> Vec<Price> {
    Config::load(Some(&fixture("prices.yml"))).unwrap().prices
}

fn report(intervals: &[Interval], previous: &[Interval]) -> Report {
    build(intervals, previous, week(), &prices())
}

fn fixture_report() -> Report {
    let report = report(&intervals("week.json"), &intervals("week_before.json")).with_outlook(&outlook());
    Report { names: names(), ..report }
}

/// Of two GPUs; the others have no series that tells.
fn names() -> Names {
    let told = [("GPU-e4c2e8ed-ac36-4aca-8712-3654b9e73432", "0"), ("GPU-777d45bb-bcdf-40d4-8c42-c70ad7acf5fe", "1")];
    let series = |(uuid, gpu)| Labels::new([("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", uuid), ("gpu", gpu)]);
    Names::of(&told.map(series))
}

const HOUR: i64 = 3_600_000;
/// Thursday noon of the week.
const THURSDAY: i64 = 1_795_086_000_000;

/// A GPU that is at risk twice, one after it, a job whose name breaks pages, a disk and the pods that it costs, a GPU that is
/// damaged, and an advisory across a full hour.
fn outlook() -> Outlook {
    let risk = |kind: Kind, entity: &str, hour: i64, likely_seconds: f64| {
        let limit = TimeToLimit {
            soonest_seconds: 0.8 * likely_seconds,
            likely_seconds,
            latest_seconds: Some(1.5 * likely_seconds).filter(|s| *s < 14_400.0),
        };
        let exhaustion = Exhaustion {
            shape: Shape::Leak,
            used: 70e9,
            limit: 80e9,
            slope: 10e9 / likely_seconds,
            slope_low: 10e9 / (1.5 * likely_seconds),
            slope_high: 12.5e9 / likely_seconds,
            at_risk: Some(limit),
        };
        let is_held = matches!(kind, Kind::Memory(Memory::Gpu) | Kind::Eviction(_) | Kind::Hardware(_));
        let owners = if is_held { vec!["team-vision/resnet-sweep-7".to_owned()] } else { Vec::new() };
        let (start_ms, end_ms) = (THURSDAY + hour * HOUR, THURSDAY + (hour + 1) * HOUR);
        let made_ms = end_ms - STEP_MS;
        let (forecast, earliest_ms) = match kind {
            Kind::Hardware(_) => (Forecast::Damage(damage()), None),
            _ => (Forecast::Exhaustion(exhaustion), Some(start_ms + (likely_seconds * 1000.0) as i64)),
        };
        let last = Prospect {
            cluster: None,
            node: "gpu-01".to_owned(),
            entity: entity.to_owned(),
            owners,
            made_ms,
            kind,
            forecast,
        };
        Risk { start_ms, end_ms, earliest_ms, last }
    };
    let gpu = "GPU-e4c2e8ed-ac36-4aca-8712-3654b9e73432";
    let hostile = "<script>alert(1)</script> | [x](http://evil.example) `rm`";
    let advisory = |hour: i64, value| Advisory {
        cluster: None,
        gpu: gpu.to_owned(),
        node: "gpu-01".to_owned(),
        model: Some("NVIDIA H100 80GB HBM3".to_owned()),
        owner: Some("team-vision/resnet-sweep-7".to_owned()),
        run: None,
        advice: Advice::CrossNuma,
        cause: None,
        free: None,
        start_ms: THURSDAY + hour * HOUR,
        end_ms: THURSDAY + (hour + 1) * HOUR,
        confidence: 0.9,
        evidence: vec![Evidence {
            signal: "gpu_allowed_cpus on its NUMA node / all".to_owned(),
            value,
            unit: "ratio".to_owned(),
            threshold: 0.1,
        }],
    };
    Outlook {
        risks: vec![
            risk(Kind::Memory(Memory::Gpu), gpu, 0, 12_000.0),
            risk(Kind::Memory(Memory::Gpu), gpu, 1, 8_000.0),
            risk(Kind::Memory(Memory::Gpu), gpu, 5, 3_000.0),
            risk(Kind::Memory(Memory::Gpu), "GPU-ab56a2b5-32b4-4e0e-9a8e-ef0b1d3a0d11", 3, 5_000.0),
            risk(Kind::Memory(Memory::Cgroup), hostile, 2, 3_600.0),
            risk(Kind::Memory(Memory::Host), "gpu-01", 5, 13_000.0),
            risk(Kind::Disk(Room::Inodes), "/scratch", 2, 9_000.0),
            risk(Kind::Eviction(Eviction::Nodefs), "gpu-01", 1, 7_000.0),
            risk(Kind::Hardware(Fault::EccCorrected), gpu, 1, 0.0),
        ],
        advisories: vec![advisory(0, 0.0), advisory(1, 0.04)],
        standings: (0..8).flat_map(standings).collect(),
    }
}

fn damage() -> Damage {
    let evidence = Evidence {
        signal: "growth of gpu_ecc_corrected".to_owned(),
        value: 120.0,
        unit: "errors".to_owned(),
        threshold: 100.0,
    };
    Damage { level: Level::Watch, evidence: vec![evidence], window_seconds: 3600.0 }
}

/// Three nodes in an hour; one is set up differently, and slower than another that it works with.
fn standings(hour: i64) -> Vec<Standing> {
    let (start_ms, end_ms) = (THURSDAY + hour * HOUR, THURSDAY + (hour + 1) * HOUR);
    let text = str::to_owned;
    let check = |id, status, usual| CheckEnd { check: text(id), status: text(status), usual: Some(text(usual)) };
    let drift = |setting, gpu: Option<&str>, value, usual, of| Drift {
        setting: text(setting),
        gpu: gpu.map(text),
        value: text(value),
        usual: text(usual),
        alike: of - 1,
        of,
    };
    let standing = |node: &str, slowdown| Standing {
        cluster: None,
        node: text(node),
        start_ms,
        end_ms,
        pool: Some(text("NVIDIA H100 80GB HBM3")),
        pool_nodes: 3,
        checks: vec![check("irq_affinity", "warn", "warn")],
        drift: Vec::new(),
        paired: vec![Paired {
            cluster: None,
            node: text(node),
            owner: text("slurm/4211"),
            measure: Measure::OwnTime,
            start_ms,
            cells: 60,
            others: 2,
            slowdown,
            next: if slowdown > 1.0 { 0.9 } else { 1.3 },
        }],
        ports: Vec::new(),
        mounts: Vec::new(),
        collectives: Vec::new(),
    };
    let slow = Standing {
        checks: vec![check("thp_enabled", "fail", "pass")],
        drift: vec![
            drift("transparent huge pages", None, "always", "madvise | <never>", 3),
            drift("power limit", Some("GPU-4341447b-6ad7-4bf4-87eb-59ebb5a53d63"), "500 W", "700 W", 24),
        ],
        ..standing("gpu-01", 1.3 + 0.01 * hour as f64)
    };
    let few = Standing { paired: Vec::new(), ..standing("gpu-03", 1.0) };
    vec![slow, standing("gpu-02", 0.8), if hour < 3 { standing("gpu-03", 0.9) } else { few }]
}

#[test]
fn what_was_at_risk_is_joined_and_the_latest_comes_first() {
    let report = fixture_report();
    let shown: Vec<(Kind, Vec<i64>)> = report
        .risks
        .iter()
        .map(|r| (r.kind, r.stretches.iter().map(|s| (s.end_ms - s.start_ms) / HOUR).collect()))
        .collect();
    let expected = [
        (Kind::Memory(Memory::Gpu), vec![2, 1]),
        (Kind::Memory(Memory::Host), vec![1]),
        (Kind::Memory(Memory::Gpu), vec![1]),
        (Kind::Memory(Memory::Cgroup), vec![1]),
        (Kind::Disk(Room::Inodes), vec![1]),
        (Kind::Hardware(Fault::EccCorrected), vec![1]),
        (Kind::Eviction(Eviction::Nodefs), vec![1]),
    ];
    assert_eq!(shown, expected);
    assert_eq!(report.risks[0].earliest_ms, Some(THURSDAY + HOUR + 8_000_000), "of all its forecasts");
    let first: Vec<bool> = report.risks.iter().map(|r| report.is_first_risk(r)).collect();
    assert_eq!(first, [true, true, false, true, true, true, true]);
    let advised = &report.advisories[0];
    assert_eq!((advised.stretches.len(), advised.places.len(), advised.evidence[0].mean), (1, 1, 0.02));
}

pub(super) fn check(name: &str, actual: &str) {
    let path = fixture(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let differs = expected.lines().zip(actual.lines()).enumerate().find(|(_, (e, a))| e != a);
    if let Some((line, (expected, actual))) = differs {
        panic!("{name}:{}: expected\n{expected}\ngot\n{actual}\n(UPDATE_GOLDEN=1 records it again)", line + 1);
    }
    assert_eq!(expected.len(), actual.len(), "{name}: one is longer (UPDATE_GOLDEN=1 records it again)");
}

#[test]
fn markdown_golden() {
    check("week.md", &markdown::render(&fixture_report()).unwrap());
}

#[test]
fn json_golden() {
    check("week.report.json", &fixture_report().json().unwrap());
}

/// What is folded is not printed; the annex leaves nothing folded.
#[test]
fn the_annex_unfolds_everything() {
    let report = fixture_report();
    let folded = |site: &Site| html::render(&report, site).unwrap().matches("<details><summary>").count();
    assert!(folded(&Site::default()) > 5);
    assert_eq!(folded(&Site::default().with_annex(true)), 0);
}

/// From Tuesday 20:00 to Friday 12:00, so that the axis begins on Monday at noon: its marks stand at midnights all the same.
#[test]
fn charts_are_zoomed_to_their_finding() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let at = |text: &str| text.parse::<jiff::civil::DateTime>().unwrap().to_zoned(zone.clone()).unwrap().timestamp();
    let hour = |start_ms: i64| Interval {
        evidence: vec![Evidence { signal: "s".into(), value: 0.1, unit: "ratio".into(), threshold: 0.3 }],
        ..goodput_testing::bare(Class::CrossNuma, start_ms..start_ms + HOUR)
    };
    let (first, last) = (at("2026-11-17T20:00").as_millisecond(), at("2026-11-20T12:00").as_millisecond());
    let around = [week().start_ms, week().end_ms - HOUR].map(|start_ms| Interval {
        gpu: "GPU-z".into(),
        ..goodput_testing::bare(Class::Productive, start_ms..start_ms + HOUR)
    });
    let lost = (first..last).step_by(HOUR as usize).map(hour);
    let report = report(&lost.chain(around).collect::<Vec<_>>(), &[]);
    let finding = &report.findings[0];
    let labels: Vec<_> = finding.ticks.iter().map(|tick| tick.label.as_str()).collect();
    assert_eq!(labels, ["Tue 17 Nov", "Wed 18 Nov", "Thu 19 Nov", "Fri 20 Nov", "Sat 21 Nov"]);
    assert_eq!(text::fixed(finding.ticks[0].x), text::fixed(12.0 / 128.0 * chart::WIDTH));
    // A quarter of the axis before the loss, a quarter after it.
    assert!(finding.curves[0].values.starts_with("M250 ") && finding.curves[0].values.ends_with("H750"), "{finding:?}");
}

#[test]
fn html_golden() {
    check("week.html", &html::render(&fixture_report(), &Site::default()).unwrap());
}

#[test]
fn csv_golden() {
    let mut all = intervals("week.json");
    all.iter_mut().for_each(|i| i.version = Some(Version { rule: 2, rules: 40 }));
    all[0].version = None;
    check("week.csv", &csv::render(&all));
}

#[test]
fn showback_golden() {
    check("week.showback.csv", &showback::render(&week(), &intervals("week.json"), &prices()));
}

#[test]
fn what_two_clusters_call_alike_is_told_apart() {
    let within = |cluster: &str| {
        let mut all = intervals("week.json");
        for interval in &mut all {
            interval.cluster = Some(cluster.to_owned());
            interval.gpu += cluster;
        }
        all
    };
    let one = report(&within("east"), &[]).with_outlook(&outlook());
    let both = report(&[within("east"), within("west")].concat(), &[]).with_outlook(&outlook());
    let counts = |r: &Report| [r.fleet.nodes, r.nodes.len(), r.owners.len(), r.findings.len() + r.unjudged.len()];
    assert_eq!(counts(&both), counts(&one).map(|count| 2 * count));
    assert_eq!(both.accounts.len(), one.accounts.len(), "an account is one in all clusters");
    let rows: Vec<_> = both.clusters.iter().map(|row| (row.name.as_deref(), row.total.gpu_ms)).collect();
    let half = one.fleet.capacity.gpu_ms;
    assert_eq!(rows, [(Some("east"), half), (Some("west"), half)]);
    for (report, is_said) in [(&one, false), (&both, true)] {
        for page in [markdown::render(report).unwrap(), html::render(report, &Site::default()).unwrap()] {
            assert_eq!(page.contains("By cluster"), is_said);
            assert_eq!(page.contains(&format!("{} in east", report.findings[0].subject())), is_said);
        }
    }
}

#[test]
fn verdicts_of_before_there_were_clusters_are_of_the_same_runs_and_nodes() {
    let (now, before) = (intervals("week.json"), intervals("week_before.json"));
    let plain = report(&now, &before);
    let (mut some, mut older) = (now.clone(), before);
    // Each GPU's last verdict is of the release that tells.
    let last = |gpu: &str| now.iter().filter(|i| i.gpu == gpu).map(|i| i.end_ms).max();
    some.iter_mut().filter(|i| Some(i.end_ms) == last(&i.gpu)).for_each(|i| i.cluster = Some("east".to_owned()));
    let known = recall::known_clusters(some.iter().chain(&older));
    recall::recall(&known, some.iter_mut().chain(&mut older));
    assert!(some.iter().chain(&older).all(|i| i.cluster.as_deref() == Some("east")));
    let told = report(&some, &older);
    let nodes =
        |report: &Report| report.nodes.iter().map(|r| (r.name.clone(), r.lost_before.clone())).collect::<Vec<_>>();
    assert_eq!((told.fleet.nodes, nodes(&told)), (plain.fleet.nodes, nodes(&plain)));
}

#[test]
fn what_was_judged_by_other_rules_is_said_with_how_to_judge_it_again() {
    let mut all = intervals("week.json");
    assert_eq!(report(&all, &[]).coverage.other_rules, None);
    let class = Class::DataloaderStorage;
    let Version { rule, rules } = Version::of(class);
    let others = [None, Some(Version { rule: rule + 1, rules: rules + 1 }), Some(Version { rule, rules: rules - 1 })];
    let mut gpu_ms = 0;
    for (interval, version) in all.iter_mut().filter(|i| i.class == class).zip(others) {
        interval.version = version;
        gpu_ms += interval.ms;
    }
    let report = report(&all, &[]);
    assert_eq!(report.coverage.other_rules.as_ref().map(|other| other.gpu_ms), Some(gpu_ms));
    let command = "goodput-analyzer classify --start 2026-11-17T06:00:00+01:00 --end 2026-11-20T00:00:00+01:00 judges";
    for page in [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()] {
        assert!(page.contains(&format!("{} GPU-hours, between", text::hours(gpu_ms))), "{page}");
        assert!(page.contains(command), "{page}");
    }
    let finding = report.findings.iter().find(|f| f.class == class).unwrap();
    assert_eq!(finding.rule_versions, [None, Some(rule), Some(rule + 1)]);
    assert_eq!(text::versions(&finding.rule_versions), format!("unknown, {rule}, {}", rule + 1));
}

#[test]
fn a_period_without_verdicts_is_unknown_and_not_zero() {
    let empty = report(&[], &[]);
    assert_eq!(empty.fleet.goodput, None);
    let markdown = markdown::render(&empty).unwrap();
    assert!(markdown.contains("**Goodput: unknown**"), "{markdown}");
    assert!(html::render(&empty, &Site::default()).unwrap().contains("<b>unknown</b><span>goodput</span>"));
}

#[test]
fn time_without_any_data_has_no_goodput() {
    let mut blind = intervals("week.json");
    blind.iter_mut().for_each(|i| i.class = Class::NoData);
    let report = report(&blind, &[]);
    assert_eq!(report.fleet.goodput, None);
    assert_eq!(report.fleet.goodput_of_known, None);
    assert_eq!(report.fleet.goodput_at_most, Some(1.0));
}

#[test]
fn every_sum_is_the_sum_of_the_intervals() {
    let intervals = intervals("week.json");
    let total: i64 = intervals.iter().map(|i| i.ms).sum();
    let report = fixture_report();
    let sum = |rows: &[Row]| rows.iter().map(|row| row.total.gpu_ms).sum::<i64>();
    let lost: i64 = report.findings.iter().chain(&report.unjudged).map(|f| f.lost.gpu_ms).sum();
    assert_eq!(report.classes.iter().map(|row| row.amount.gpu_ms).sum::<i64>(), total);
    assert_eq!(report.fleet.capacity.gpu_ms, total);
    assert_eq!(lost + report.fleet.productive.gpu_ms, total);
    let fleet = &report.fleet;
    assert_eq!(fleet.productive.gpu_ms + fleet.lost.gpu_ms + fleet.no_data.gpu_ms, total);
    assert_eq!([sum(&report.nodes), sum(&report.models), sum(&report.gpus)], [total; 3]);
    assert_eq!([sum(&report.accounts), sum(&report.owners)], [report.fleet.allocated.gpu_ms; 2]);
    for row in report.gpus.iter().chain(&report.accounts).chain(&report.owners) {
        let losses: i64 = row.losses.iter().map(|l| l.amount.gpu_ms).sum();
        assert_eq!(losses, row.lost.gpu_ms);
        assert_eq!(row.productive.gpu_ms + row.lost.gpu_ms + row.no_data.gpu_ms, row.total.gpu_ms);
    }
    for finding in report.findings.iter().chain(&report.unjudged) {
        assert_eq!(finding.places.iter().map(|p| p.amount.gpu_ms).sum::<i64>(), finding.lost.gpu_ms);
        assert_eq!(finding.spans.iter().map(|s| s.gpu_ms).sum::<i64>(), finding.lost.gpu_ms);
    }
}

/// Energy and money of every table are those of the intervals, to the unit.
fn check_sums(intervals: &[Interval], report: &Report) {
    let energy: i64 = intervals.iter().filter_map(|i| i.energy).map(|e| e.mj).sum();
    let prices = prices();
    let mut priced: BTreeMap<_, (i64, Option<Energy>)> = BTreeMap::new();
    for hour in RollUp::fold(intervals) {
        for (allocation, part) in hour.parts() {
            let place = Place::new(&hour.cluster, &hour.node);
            let price = price::price_of(&prices, allocation.model.as_deref(), place, hour.start_ms);
            let Some(price) = price.and_then(|price| prices.iter().position(|one| std::ptr::eq(one, price))) else {
                continue;
            };
            let place = (hour.cluster.clone(), hour.node.clone(), allocation.clone());
            let who = (part.charged_to.clone(), part.cause.clone());
            let what = (part.class, who, hour.grounds[part.grounds].clone(), part.version);
            let (ms, energy) = priced.entry((price, place, what)).or_default();
            (*ms, *energy) = (*ms + part.ms, Energy::sum(*energy, part.energy));
        }
    }
    let mut money: BTreeMap<String, i64> = BTreeMap::new();
    for ((price, ..), (ms, energy)) in priced {
        *money.entry(prices[price].currency.clone()).or_default() += prices[price].cost(ms, energy);
    }
    let sums = |amounts: Vec<&Amount>| {
        let mut money: BTreeMap<String, i64> = BTreeMap::new();
        for cost in amounts.iter().flat_map(|a| &a.cost) {
            *money.entry(cost.currency.clone()).or_default() += cost.micros;
        }
        (amounts.iter().filter_map(|a| a.energy).map(|e| e.mj).sum::<i64>(), money)
    };
    let rows = |rows: &'static str| match rows {
        "nodes" => report.nodes.iter().map(|r| &r.total).collect(),
        "models" => report.models.iter().map(|r| &r.total).collect(),
        "gpus" => report.gpus.iter().flat_map(|r| [&r.productive, &r.lost, &r.no_data]).collect(),
        "losses" => report
            .gpus
            .iter()
            .flat_map(|r| r.losses.iter().map(|l| &l.amount).chain([&r.productive, &r.no_data]))
            .collect(),
        "classes" => report.classes.iter().map(|r| &r.amount).collect(),
        "fleet" => vec![&report.fleet.productive, &report.fleet.lost, &report.fleet.no_data],
        "findings" => report.all_findings().map(|f| &f.lost).chain([&report.fleet.productive]).collect(),
        _ => report
            .all_findings()
            .flat_map(|f| f.places.iter().map(|p| &p.amount))
            .chain([&report.fleet.productive])
            .collect(),
    };
    for table in ["nodes", "models", "gpus", "losses", "classes", "fleet", "findings", "places"] {
        let (mj, micros) = sums(rows(table));
        assert_eq!(mj, energy, "{table}");
        assert!(money.iter().all(|(currency, sum)| micros.get(currency).copied().unwrap_or(0) == *sum), "{table}");
    }
}

#[test]
fn what_was_caused_is_what_others_lost_and_is_added_to_nothing() {
    let all = intervals("week.json");
    let charged: i64 = all.iter().filter(|i| i.charged_to.is_some()).map(|i| i.ms).sum();
    assert!(charged > 0);
    let report = fixture_report();
    let caused = |rows: &[Row]| rows.iter().filter_map(|row| row.caused.as_ref()).map(|c| c.gpu_ms).sum::<i64>();
    assert_eq!([caused(&report.nodes), caused(&report.gpus)], [charged; 2]);
    assert!(report.owners.iter().chain(&report.models).all(|row| row.caused.is_none()));
    let culprits = report.findings.iter().flat_map(|f| &f.culprits).map(|p| p.amount.gpu_ms).sum::<i64>();
    assert_eq!(culprits, charged);
    let mut uncharged = all;
    uncharged.iter_mut().for_each(|i| i.charged_to = None);
    let without = super::golden_tests::report(&uncharged, &intervals("week_before.json"));
    let lost = |report: &Report| report.gpus.iter().map(|row| row.lost.clone()).collect::<Vec<_>>();
    assert_eq!(lost(&report), lost(&without), "what was lost here does not depend on who caused it");
    assert!(!Report::has_caused(&without.nodes) && !markdown::render(&without).unwrap().contains("caused here"));
}

#[test]
fn energy_and_money_of_every_table_are_those_of_the_intervals() {
    check_sums(&intervals("week.json"), &fixture_report());
}

#[test]
fn every_hour_of_long_and_short_weeks_is_priced() {
    let fixture = intervals("week.json");
    let price = &prices()[0];
    for (label, hours) in [("2026-W13", 167), ("2026-W43", 169), ("2026-W53", 168)] {
        let period = Period::iso_week(label, &TimeZone::get("Europe/Berlin").unwrap()).unwrap();
        let ends = period.start_ms..period.end_ms;
        let hour = |start_ms| Interval {
            start_ms,
            end_ms: start_ms + 3_600_000,
            ms: 3_600_000,
            energy: None,
            run: None,
            account: None,
            variance_ms2: Some(0),
            ..fixture[0].clone()
        };
        let week: Vec<Interval> = ends.step_by(3_600_000).map(hour).collect();
        let report = build(&week, &[], period, std::slice::from_ref(price));
        let cost = &report.fleet.capacity.cost[0];
        assert_eq!((cost.micros, cost.priced_ms), (hours * price.micros_per_gpu_hour, hours * 3_600_000), "{label}");
    }
}

#[test]
fn what_is_recoverable_is_never_more_than_what_was_lost_and_no_rank() {
    let report = fixture_report();
    let backs: Vec<Option<i64>> =
        report.findings.iter().map(|f| f.recoverable.as_ref().map(|r| r.low.gpu_ms + r.high.gpu_ms)).collect();
    assert!(!backs.is_sorted_by(|a, b| a >= b), "{backs:?}");
    assert!(backs.iter().any(Option::is_some) && backs.iter().any(Option::is_none), "{backs:?}");
    for f in &report.findings {
        let Some(back) = &f.recoverable else { continue };
        assert!(back.low.gpu_ms <= back.high.gpu_ms && 0 < back.high.gpu_ms && back.high.gpu_ms <= f.lost.gpu_ms);
    }
}

#[test]
fn without_prices_there_is_no_money_and_a_line_that_says_how_to_get_it() {
    let report = build(&intervals("week.json"), &[], week(), &[]);
    for page in [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()] {
        assert!(page.contains("per_gpu_hour and valid_from under prices"), "{page}");
        assert!(!page.contains("EUR") && !page.contains("cost"), "{page}");
    }
}

#[test]
fn without_power_there_is_no_energy_and_a_line_that_says_so() {
    let mut blind = intervals("week.json");
    blind.iter_mut().for_each(|i| i.energy = None);
    let report = report(&blind, &[]);
    let page = markdown::render(&report).unwrap();
    assert!(page.contains("No energy: neither") && !page.contains("kWh lost"), "{page}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_intervals_every_sum_is_theirs(
        rolls in prop::collection::vec((0..2usize, 0..3usize, 0..Class::ALL.len(), 0..168i64, 1..3_600_000i64, prop::option::of(0..5_000_000_000i64)), 1..40)
    ) {
        let fixture = intervals("week.json");
        let week = week();
        let interval = |(node, gpu, class, hour, ms, mj): &(usize, usize, usize, i64, i64, Option<i64>)| Interval {
            node: format!("n{node}"),
            gpu: format!("GPU-{node}{gpu}"),
            model: [None, Some("NVIDIA H100 80GB HBM3".into()), Some("NVIDIA A100-SXM4-80GB".into())][*gpu].clone(),
            class: Class::ALL[*class],
            start_ms: week.start_ms + hour * 3_600_000,
            end_ms: week.start_ms + (hour + 1) * 3_600_000,
            ms: *ms,
            energy: mj.map(|mj| Energy { mj, ms: *ms, counted_ms: ms / 2 }),
            ..fixture[0].clone()
        };
        let intervals: Vec<Interval> = rolls.iter().map(interval).collect();
        let report = report(&intervals, &fixture);
        prop_assert_eq!(report.fleet.capacity.gpu_ms, intervals.iter().map(|i| i.ms).sum::<i64>());
        check_sums(&intervals, &report);
    }
}

#[test]
fn html_fetches_nothing_and_escapes_hostile_names() {
    let page = html::render(&fixture_report(), &Site::default()).unwrap();
    // It leads to its own sections alone.
    let page = page.replace("http://evil.example", "").replace("href=\"#", "");
    for needle in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe", " style="] {
        let hit = page.find(needle);
        assert_eq!(hit, None, "the page contains {needle}");
    }
    assert!(page.contains("&#60;script&#62;alert(1)"), "the hostile owner is shown, escaped");
}

#[test]
fn markdown_escapes_hostile_names() {
    let text = markdown::render(&fixture_report()).unwrap();
    assert!(text.contains(r"&lt;script>alert(1)&lt;/script> \| \[x\](http://evil.example) \`rm\`"), "{text}");
}

#[test]
fn every_class_has_a_colour_in_both_themes() {
    let page = html::render(&fixture_report(), &Site::default()).unwrap();
    for class in Class::ALL {
        for colour in [class.info().light, class.info().dark] {
            assert!(page.contains(&format!("--{}: {colour};", class.name())), "{}", class.name());
        }
    }
}
