use super::super::{Period, build};
use super::*;
use goodput_verdict::{CheckEnd, Drift};

const HOUR: i64 = 3_600_000;

fn standing(node: &str, hour: i64, slowdowns: &[(&str, f64)]) -> Standing {
    let pair = |(owner, slowdown): &(&str, f64)| Paired {
        cluster: None,
        node: node.to_owned(),
        owner: (*owner).to_owned(),
        measure: Measure::OwnTime,
        start_ms: hour * HOUR,
        cells: 60,
        others: 3,
        slowdown: *slowdown,
        next: 1.0,
    };
    Standing {
        node: node.to_owned(),
        start_ms: hour * HOUR,
        end_ms: (hour + 1) * HOUR,
        pool: Some("H100".to_owned()),
        pool_nodes: 4,
        paired: slowdowns.iter().map(pair).collect(),
        ..Standing::default()
    }
}

fn of(standings: &[Standing]) -> Tuning {
    tuning(standings, [Place::from("n1")].into_iter())
}

#[test]
fn the_interval_of_a_median_is_that_of_the_tables() {
    // Ranks of the 95 % interval: Conover's table A3 for n to 20, and the usual ones for 30, 100 and 2,000.
    for (n, low) in [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (30, 10), (100, 40), (2000, 956)] {
        let sorted: Vec<f64> = (1..=n).map(f64::from).collect();
        let expected = (f64::from(low), f64::from(n + 1 - low));
        assert_eq!(median_interval(&sorted), Some(expected), "{n}");
    }
    assert_eq!(median_interval(&[2.0; 5]), None);
}

#[test]
fn slow_is_slower_by_a_tenth_and_not_by_chance() {
    let hours = |ratios: &[f64]| -> Vec<Standing> {
        (0..).zip(ratios).map(|(hour, ratio)| standing("n1", hour, &[("slurm/1", *ratio)])).collect()
    };
    let slow = |ratios: &[f64]| of(&hours(ratios)).slow.into_iter().map(|s| s.slowdown).next();
    assert_eq!(slow(&[1.3, 1.2, 1.4, 1.3, 1.2, 1.3]), Some(1.3));
    assert_eq!(slow(&[1.05; 50]), None, "too little to act on");
    assert_eq!(slow(&[1.3, 1.2, 1.4, 1.3, 1.2, 0.9]), None, "once it was the faster one, of six");
    assert_eq!(slow(&[2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 2.0]), None, "by chance");
    let few = of(&hours(&[3.0; 5]));
    let too_few = TooFew { cluster: None, node: "n1".to_owned(), measure: Measure::OwnTime, pairs: 5 };
    assert_eq!((few.slow, few.too_few, few.steady), (vec![], vec![too_few], 0));
}

/// By the facts of two production jobs (ByteDance, StragglerAnalysis): of one, a single worker is 2.50 times as slow,
/// the next 1.07 times; of the other, the last pipeline stage is 2.06 and 2.08 times as slow on both of its ranks.
#[test]
fn a_node_that_is_slow_alone_is_named_and_two_that_are_slow_alike_are_not() {
    let of_two = |slowdown: f64, next: f64| {
        let hours = (0..8).map(|hour| {
            let mut one = standing("n1", hour, &[("slurm/1", slowdown)]);
            one.paired.iter_mut().for_each(|pair| pair.next = next);
            one
        });
        let tuning = of(&hours.collect::<Vec<_>>());
        (tuning.slow.len(), tuning.alike.len(), tuning.steady)
    };
    assert_eq!(of_two(2.5, 1.07), (1, 0, 0));
    assert_eq!(of_two(2.08, 2.06), (0, 1, 0));
    assert_eq!(of_two(2.06, 2.08), (0, 1, 0));
    assert_eq!(of_two(1.07, 2.5), (0, 0, 1));
}

#[test]
fn the_slowest_comes_first_with_what_differs_there() {
    let mut all = Vec::new();
    for hour in 0..8 {
        all.push(standing("n1", hour, &[("slurm/1", 1.0)]));
        all.push(standing("n2", hour, &[("slurm/1", 1.2), ("slurm/2", 1.25)]));
        let mut drifted = standing("n3", hour, &[("slurm/1", 1.5)]);
        let text = str::to_owned;
        let (setting, value, usual) = (text("swappiness"), text("60"), text("1"));
        drifted.drift.push(Drift { setting, gpu: None, value, usual, alike: 3, of: 4 });
        let (check, status, usual) = (text("swap_off"), text("fail"), Some(text("fail")));
        drifted.checks.push(CheckEnd { check, status, usual });
        all.push(drifted);
    }
    let tuning = of(&all);
    let short: Vec<_> =
        tuning.slow.iter().map(|s| (s.node.as_str(), s.slowdown, s.pairs, s.runs, s.differs.join(", "))).collect();
    let differs = "swappiness: 60 (usual: 1)".to_owned();
    assert_eq!(short, [("n3", 1.5, 8, 1, differs), ("n2", 1.225, 16, 2, String::new())]);
    assert_eq!(tuning.steady, 1);
    let rows: Vec<_> = tuning.rows.iter().map(|r| (r.what.as_str(), r.value.as_str(), r.nodes.join(", "))).collect();
    assert_eq!(rows, [("swap_off", "fail", "n3".to_owned()), ("swappiness", "60", "n3".to_owned())]);
    assert_eq!((tuning.rows[0].since_ms, tuning.rows[0].until_ms), (0, 8 * HOUR));
}

#[test]
fn what_is_not_known_is_said() {
    let small = Standing { pool_nodes: 2, ..standing("n2", 0, &[]) };
    let blind = Standing { pool: None, pool_nodes: 0, ..standing("n1", 0, &[]) };
    let tuning = of(&[small, blind]);
    let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
    assert_eq!(tuning.small(&build(&[], &[], week, &[])), "H100 (nodes: 2)");
    assert_eq!(tuning.untold, ["n1"]);
}

#[test]
fn warnings_of_the_whole_pool_are_counted() {
    let mut one = standing("n1", 0, &[]);
    for (check, status, usual) in
        [("a", "warn", "warn"), ("b", "warn", "pass"), ("c", "fail", "fail"), ("d", "error", "error")]
    {
        let [check, status, usual] = [check, status, usual].map(str::to_owned);
        one.checks.push(CheckEnd { check, status, usual: Some(usual) });
    }
    let tuning = of(&[one]);
    let shown: Vec<&str> = tuning.shown_rows().into_iter().map(|row| row.what.as_str()).collect();
    assert_eq!((shown, tuning.more_rows()), (vec!["c", "b"], 2));
}
