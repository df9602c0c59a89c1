use goodput_store::Results as _;
use goodput_verdict::{Class, Culprit, Energy, Evidence, Outlook};
use jiff::tz::TimeZone;

use super::*;
use crate::config::Config;
use crate::judge::tests::{START, store};
use crate::report::build;
use goodput_testing::bare;

const HOURS: i64 = 60;
const PRICES: &str = "prices:\n\
    - {model: '*', currency: EUR, per_gpu_hour: 1.234567, per_kwh: 0.31, pue: 1.3, valid_from: 1970-01-01}\n\
    - {model: H100, node: n1, currency: EUR, per_gpu_hour: 3.7, valid_from: 2026-11-17}\n";

/// Numbers below `n`, by a linear congruential generator.
struct Rolls(u64);

impl Rolls {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn interval(&mut self, node: &str, gpu: u64, hour: i64) -> Interval {
        let start = START + hour * HOUR_MS + self.one(&[0, 10, 15, 30]) * 60_000;
        let end = START + (hour + 1) * HOUR_MS - self.one(&[0, 5, 15]) * 60_000;
        let owner = self.one(&[None, Some("a/x-0"), Some("a/x-1"), Some("b/y")]).map(str::to_owned);
        // With more time without data, nothing would be compared.
        let held = self.one(&[Class::Productive, Class::IdleHeld, Class::ColdStart, Class::Straggler]);
        let class = if self.below(20) == 0 { Class::NoData } else { held };
        let proof =
            |signal: &str, value| Evidence { signal: signal.into(), value, unit: "ratio".into(), threshold: 0.3 };
        Interval {
            node: node.into(),
            gpu: format!("GPU-{node}-{gpu}"),
            model: self.one(&[Some("H100"), Some("T4"), None]).map(str::to_owned),
            run: owner.as_ref().filter(|owner| owner.starts_with('a')).map(|_| "a/x".to_owned()),
            account: owner.as_ref().map(|owner| owner[..1].to_owned()),
            owner,
            class,
            charged_to: (class == Class::Straggler)
                .then(|| Culprit { node: "n1".into(), gpu: Some("GPU-n1-0".into()) }),
            ms: 1 + self.below(1_000_000) as i64,
            confidence: 0.1 * (1 + self.below(9)) as f64,
            busy_signal: self.one(&[None, Some("gpu_busy")]).map(str::to_owned),
            evidence: vec![
                proof("gpu_busy", self.below(100) as f64),
                proof(self.one(&["gpu_power", "gpu_power contradicts"]), 1.0),
            ],
            missing: self.one(&[&[][..], &["gr_engine_active"]]).iter().map(|name| (*name).to_owned()).collect(),
            energy: self.one(&[None, Some(Energy { mj: 77_777_777, ms: 9, counted_ms: 5 })]),
            variance_ms2: Some(self.below(1_000_000) as i64),
            ..bare(class, start..end)
        }
    }
}

/// What several hours of several GPUs went into.
fn verdicts(hours: Range<i64>) -> Vec<Interval> {
    let mut rolls = Rolls(hours.start as u64);
    let mut all = Vec::new();
    for node in ["n1", "n2"] {
        for (gpu, hour) in (0..3).flat_map(|gpu| hours.clone().map(move |hour| (gpu, hour))) {
            all.extend((0..=rolls.below(3)).map(|_| rolls.interval(node, gpu, hour)));
        }
    }
    all
}

/// Without what floats change that were written and read, or are summed in another order.
fn exact(report: &Report) -> serde_json::Value {
    let bare = |finding: &Finding| {
        let confidence = (finding.confidence * 1e9).round() / 1e9;
        Finding { evidence: Vec::new(), confidence, ..finding.clone() }
    };
    let findings = report.findings.iter().map(bare).collect();
    let unjudged = report.unjudged.iter().map(bare).collect();
    serde_json::to_value(Report { findings, unjudged, ..report.clone() }).unwrap()
}

#[tokio::test]
async fn a_stored_report_is_that_of_its_intervals_to_the_millisecond_and_the_micro_unit() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).await;
    let (now, before) = (verdicts(0..HOURS), verdicts(-HOURS..0));
    for hour in -HOURS..HOURS {
        let window = START + hour * HOUR_MS..START + (hour + 1) * HOUR_MS;
        for node in ["n1", "n2"] {
            let of_node = now.iter().chain(&before).filter(|i| i.node == node && window.contains(&i.start_ms));
            store.replace(node.into(), window.clone(), &of_node.cloned().collect::<Vec<_>>()).await.unwrap();
        }
    }
    let [from, to] = [START, START + HOURS * HOUR_MS].map(shown);
    let period = Period::between(&from, &to, &TimeZone::UTC).unwrap();
    let prices = Config::parse(PRICES).unwrap().prices;
    let expected = build(&now, &before, period.clone(), &prices).with_outlook(&Outlook::default());
    let found = stored(&store, period.clone(), &prices).await.unwrap();
    let day = period.start_ms.div_euclid(DAY_MS) * DAY_MS + DAY_MS;
    store.roll_up_days().await.unwrap();
    assert_eq!(store.day(day).await.unwrap().len(), 2);
    let by_day = serde_json::to_value(stored(&store, period, &prices).await.unwrap()).unwrap();
    assert_eq!(by_day, serde_json::to_value(&found).unwrap(), "rolled up or not");
    assert!(expected.findings.len() > 4 && expected.previous.is_some() && expected.contradictions.len() == 1);
    for (one, other) in found.findings.iter().zip(&expected.findings) {
        let proofs = |f: &Finding| f.evidence.iter().map(|p| (p.signal.clone(), p.min, p.max)).collect::<Vec<_>>();
        let sorted = |mut all: Vec<(String, f64, f64)>| {
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        assert_eq!(sorted(proofs(one)), sorted(proofs(other)));
        assert!(!one.evidence.is_empty() && one.curves.len() == other.curves.len());
    }
    let lanes = |report: &Report| report.timeline.lanes.iter().map(|l| l.gpu.clone()).collect::<Vec<_>>();
    assert_eq!(lanes(&found), lanes(&expected));
    let (found, expected) = (exact(&found), exact(&expected));
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(found[field], *value, "{field}");
    }
}

#[test]
fn days_leave_nothing_out_and_take_nothing_twice() {
    for start in [0, HOUR_MS / 2, 5 * HOUR_MS] {
        let range = start..start + 49 * HOUR_MS;
        let days: Vec<_> = days(&range).collect();
        assert!(days.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % DAY_MS == 0));
        assert_eq!((days[0].start, days[days.len() - 1].end), (range.start, range.end));
    }
    assert_eq!(days(&(5..5)).count(), 0);
}
