//! Every rule over signals that are all zero, fall, stand still or are missing: no panic, and nothing that is no number.

use proptest::prelude::*;

use super::{Cell, Class, DERATES, Fact, Node, RULES, Thresholds, Verdict, judge_series, work};
use crate::frame::{self};
use crate::signal::{Signal, examples};
use goodput_exposition::sample::{Sample, Series};

const MINUTE: i64 = 60_000;
/// Scrapes of 15 s, two hours of them.
const SCRAPES: i64 = 480;

/// The course of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Missing,
    Zero,
    Falling,
    Frozen,
    Rising,
    /// As little as a number can be.
    Tiny,
}

const SHAPES: [Shape; 6] = [Shape::Missing, Shape::Zero, Shape::Falling, Shape::Frozen, Shape::Rising, Shape::Tiny];

impl Shape {
    fn value(self, top: f64, n: i64) -> f64 {
        let share = n as f64 / SCRAPES as f64;
        match self {
            Shape::Missing | Shape::Zero => 0.0,
            Shape::Falling => top * (1.0 - share),
            Shape::Frozen => top,
            Shape::Rising => top * share,
            Shape::Tiny => f64::MIN_POSITIVE,
        }
    }
}

/// The most that a sample may be, of some orders of magnitude.
fn top(signal: Signal) -> f64 {
    let all = [1e9, 1e6, 1e3, 16.0, 1.0];
    all.into_iter().find(|value| signal.admits(*value)).unwrap_or(0.0)
}

fn series(shape: impl Fn(usize) -> Shape) -> Vec<Series> {
    let of = |(n, (signal, scale, labels)): (usize, (Signal, f64, goodput_exposition::sample::Labels))| {
        let shape = shape(n);
        let sample = |i: i64| Sample { time_ms: i * MINUTE / 4, value: shape.value(top(signal), i) / scale };
        (shape != Shape::Missing).then(|| Series { labels, samples: (0..SCRAPES).map(sample).collect() })
    };
    examples().into_iter().enumerate().filter_map(of).collect()
}

/// What each rule says of each cell of the second hour.
fn verdicts(series: &[Series]) -> Vec<(Class, Verdict)> {
    let (sources, t) = (frame::sources(series), Thresholds::default());
    let framed = frame::frames(sources.iter(), &(60 * MINUTE..120 * MINUTE), 30 * MINUTE);
    let mut nodes: Vec<Node> = framed.nodes.into_iter().map(Node::from).collect();
    nodes.iter_mut().for_each(|node| work::note(node, &t));
    nodes.iter().flat_map(|node| of_node(node, &t)).collect()
}

fn of_node(node: &Node, t: &Thresholds) -> Vec<(Class, Verdict)> {
    let indices = node.body.clone().flat_map(|index| [None, Some("train")].map(|owner| (index, owner)));
    let cells =
        node.gpus.iter().flat_map(|gpu| indices.clone().map(move |(index, owner)| Cell::of(node, gpu, owner, index)));
    let told = |cell: Cell<'_>| {
        let rules = RULES.iter().map(|rule| (rule.class, (rule.judge)(&cell, t)));
        rules.chain(DERATES.iter().map(|derate| (derate.class, (derate.judge)(&cell, t)))).collect::<Vec<_>>()
    };
    cells.flat_map(told).collect()
}

fn claims(series: &[Series]) -> Vec<(Class, f64, Vec<Fact>)> {
    let claim = |(class, verdict)| match verdict {
        Verdict::Claim { max_share, facts, .. } => Some((class, max_share, facts)),
        _ => None,
    };
    verdicts(series).into_iter().filter_map(claim).collect()
}

fn assert_numbers(series: &[Series]) {
    for (class, max_share, facts) in claims(series) {
        assert!(max_share.is_finite() && facts.iter().all(Fact::is_number), "{class:?}: {max_share} {facts:?}");
    }
    let judged = judge_series(series, 60 * MINUTE..120 * MINUTE, &Thresholds::default()).unwrap();
    for interval in &judged.intervals {
        assert!((0.0..=1.0).contains(&interval.confidence), "{interval:?}");
        assert!(interval.evidence.iter().all(|e| e.value.is_finite() && e.threshold.is_finite()), "{interval:?}");
        let watts = interval.energy.map(|energy| energy.mj as f64 / energy.ms as f64);
        assert!(watts.is_none_or(|watts| (0.0..=crate::signal::MOST_WATTS + 1.0).contains(&watts)), "{interval:?}");
    }
}

#[test]
fn no_rule_claims_anything_of_zeros_or_of_values_that_stand_still() {
    assert_eq!(claims(&series(|_| Shape::Zero)), []);
    assert_numbers(&series(|_| Shape::Frozen));
}

#[test]
fn what_each_rule_says_of_signals_that_fall_is_a_number() {
    for shape in SHAPES {
        assert_numbers(&series(|_| shape));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_zero_or_falls_beside_the_others_is_no_division_by_nothing(
        shapes in prop::collection::vec(0..SHAPES.len(), examples().len())
    ) {
        assert_numbers(&series(|n| SHAPES[shapes[n]]));
    }
}
