//! What a signal is worth: the same traces judged again, each time without one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;

use super::forecasts::Forecasts;
use super::join::{self, Entities};
use super::matrix::{Matrix, Score};
use super::{EvaluateError, One, Trace};
use goodput_exposition::sample::Series;
use goodput_rules::classify::Thresholds;
use goodput_rules::signal::resolve;
use goodput_verdict::Class;

/// Name of what leaves out every metric that only goodput-exporter has.
pub const OURS: &str = "every goodput_ metric";

/// What came out.
#[derive(Debug, Serialize)]
pub struct Ablation {
    /// Traces judged.
    pub traces: usize,
    /// With all of their signals.
    pub all: Score,
    /// Warnings of memory that runs out, with all signals.
    pub forecasts: Forecasts,
    /// Without one of them each, what costs most first.
    pub without: Vec<Without>,
}

/// The same without a signal.
#[derive(Debug, Serialize)]
pub struct Without {
    /// The signal's name, or [`OURS`].
    pub signal: &'static str,
    /// Metrics of the traces that give it.
    pub metrics: BTreeSet<String>,
    /// Traces that have it.
    pub traces: usize,
    /// All traces, also those that never had it.
    pub score: Score,
    /// Warnings of memory that runs out.
    pub forecasts: Forecasts,
}

/// Judges every trace with all that it has, and without each signal that it has. `done` is called
/// whenever one is through.
///
/// # Errors
/// Those of [`super::evaluate`].
pub fn ablate(paths: &[PathBuf], t: &Thresholds, done: impl Fn() + Sync) -> Result<Ablation, EvaluateError> {
    let piece = |path: &PathBuf| Piece::of(Trace::read(path)?, t).inspect(|_| done());
    let pieces = paths.par_iter().map(piece).collect::<Result<Vec<Piece>, EvaluateError>>()?;
    let all = Verdicts::sum(pieces.iter().map(|piece| &piece.with_all));
    let signals: BTreeSet<&'static str> = pieces.iter().flat_map(|piece| piece.without.keys().copied()).collect();
    let mut without: Vec<Without> = signals.into_iter().map(|signal| Without::of(signal, &pieces)).collect();
    without.sort_by(|a, b| a.score.macro_f1.total_cmp(&b.score.macro_f1));
    Ok(Ablation { traces: paths.len(), all: all.matrix.score(), forecasts: all.forecasts, without })
}

impl Without {
    fn of(signal: &'static str, pieces: &[Piece]) -> Without {
        let has = || pieces.iter().filter_map(|piece| piece.without.get(signal));
        let sum = Verdicts::sum(pieces.iter().map(|piece| piece.without(signal)));
        Without {
            signal,
            metrics: has().flat_map(|(metrics, _)| metrics.iter().cloned()).collect(),
            traces: has().count(),
            score: sum.matrix.score(),
            forecasts: sum.forecasts,
        }
    }
}

/// Verdicts on a trace, compared with its truth.
#[derive(Default)]
struct Verdicts {
    matrix: Matrix,
    forecasts: Forecasts,
}

impl Verdicts {
    fn sum<'a>(all: impl Iterator<Item = &'a Verdicts>) -> Verdicts {
        all.fold(Verdicts::default(), |mut sum, one| {
            sum.matrix.add(&one.matrix);
            sum.forecasts.add(one.forecasts.clone());
            sum
        })
    }
}

/// A trace with everything, and without each signal that it has, and the metrics that gave that.
struct Piece {
    with_all: Verdicts,
    without: BTreeMap<&'static str, (BTreeSet<String>, Verdicts)>,
}

impl Piece {
    fn of(mut trace: Trace, t: &Thresholds) -> Result<Piece, EvaluateError> {
        let one = One::of(&trace, t)?;
        let mut metrics: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
        for series in &trace.series {
            for signal in signals(series).into_iter().flatten() {
                metrics.entry(signal).or_default().insert(series.labels.metric().to_owned());
            }
        }
        let mut without = BTreeMap::new();
        for (signal, metrics) in metrics {
            let gives = |series: &Series| signals(series).contains(&Some(signal));
            let (dropped, kept) = std::mem::take(&mut trace.series).into_iter().partition(gives);
            trace.series = kept;
            without.insert(signal, (metrics, verdicts(&trace, &one.entities, t)?));
            trace.series.extend::<Vec<Series>>(dropped);
        }
        Ok(Piece { with_all: Verdicts { matrix: one.matrix, forecasts: one.forecasts }, without })
    }

    /// Where the signal never was, its absence changes nothing.
    fn without(&self, signal: &str) -> &Verdicts {
        self.without.get(signal).map_or(&self.with_all, |(_, verdicts)| verdicts)
    }
}

/// Which GPU is which is known from the whole trace.
fn verdicts(trace: &Trace, entities: &Entities, t: &Thresholds) -> Result<Verdicts, EvaluateError> {
    let judged = super::judge(trace, &trace.series, t)?;
    let cells = join::cells(trace, entities, &judged.intervals, Class::name);
    let forecasts = Forecasts::of(trace, entities, &super::hours(trace), t);
    Ok(Verdicts { matrix: Matrix::of(trace, &cells), forecasts })
}

/// What goes when the series does: its signal, and all of ours.
fn signals(series: &Series) -> [Option<&'static str>; 2] {
    let signal = resolve(&series.labels).map(|meaning| meaning.signal.name());
    let is_ours = series.labels.metric().starts_with("goodput_");
    [signal, signal.filter(|_| is_ours).map(|_| OURS)]
}
