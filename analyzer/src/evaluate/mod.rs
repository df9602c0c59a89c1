//! Verdicts compared with the truth: recorded traces whose faults are known, judged as `classify` judges a store.
//!
//! [`trace`] reads a trace directory, [`join`] finds the GPUs that its truth names, [`matrix`] counts classes,
//! [`calibration`] whether confidence means something, [`culprits`] who and which cause is named, [`ablation`] leaves signals out,
//! [`render`] shows. Nothing here knows a rule: a class is a name.

mod ablation;
mod calibration;
mod charged;
mod culprits;
mod forecasts;
mod join;
mod matrix;
mod render;
mod trace;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

pub use ablation::{Ablation, OURS, Without, ablate};
pub use calibration::{Band, Calibration};
pub use culprits::{Culprits, Named};
pub use forecasts::Forecasts;
use goodput_exposition::sample::{Series, TimeMs};
use goodput_rules::classify::{self, Judged, Thresholds, judge_cells};
use goodput_rules::signal::{Signal, resolve};
use goodput_verdict::{Class, HOUR_MS};
use join::{Entities, Gpus};
use matrix::Matrix;
pub use matrix::{ClassScore, Confusion, Score};
pub use render::{ablation_table, dump, table};
pub use trace::{Trace, find};

/// Why a trace cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder holds no trace.
    #[error("{}: no trace in it; expected a folder with metrics.om and truth.csv, or folders of such", .0.display())]
    NoTrace(PathBuf),
    /// A file does not say what it should.
    #[error("{}:{line}: {reason}", path.display())]
    Text {
        /// Which.
        path: PathBuf,
        /// Where, counted from 1.
        line: u64,
        /// What was expected and what is there.
        reason: String,
    },
    /// The ledger does not add up.
    #[error("{}: the ledger does not add up", path.display())]
    Judge {
        /// Whose.
        path: PathBuf,
        /// What does not.
        source: classify::JudgeError,
    },
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// Traces evaluated.
    pub traces: usize,
    /// All of them together.
    pub all: Score,
    /// What a dashboard of utilisation alone would have said: busy time is productive, the rest idle.
    pub baseline: Score,
    /// By the name of the folder that holds the traces.
    pub families: BTreeMap<String, Score>,
    /// Each trace by its path.
    pub by_trace: BTreeMap<String, Score>,
    /// Whom GPUs are said to have waited for, and why.
    pub culprits: Culprits,
    /// Warnings of memory that runs out.
    pub forecasts: Forecasts,
    /// Every cell of every GPU that a trace's truth names.
    #[serde(skip)]
    pub cells: Vec<Cell>,
}

/// One class of one cell of one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The trace's path.
    pub trace: String,
    /// `host/gpuN`, as the truth spells it.
    pub entity: String,
    /// The cell.
    pub span: Range<TimeMs>,
    /// The class.
    pub class: &'static str,
    /// 0 to 1.
    pub confidence: f64,
    /// Who caused it, where a verdict names another GPU or a port: `host/gpuN` or `host/which`, as the truth spells it; `host`
    /// where it names the node alone.
    pub charged_to: Option<String>,
    /// The cause, where the class has several.
    pub cause: Option<&'static str>,
    /// The port that has it.
    pub which: Option<String>,
    /// GPU-milliseconds of it.
    pub ms: i64,
}

/// The traces in these folders, in order of folder and path.
pub fn find_all(dirs: &[PathBuf]) -> Result<Vec<PathBuf>, EvaluateError> {
    let mut traces = Vec::new();
    for dir in dirs {
        traces.extend(find(dir)?);
    }
    Ok(traces)
}

/// Evaluates every trace in these folders.
pub fn evaluate(dirs: &[PathBuf], t: &Thresholds) -> Result<Evaluation, EvaluateError> {
    let traces = find_all(dirs)?;
    let (mut all, mut baseline) = (Matrix::default(), Matrix::default());
    let mut families: BTreeMap<String, Matrix> = BTreeMap::new();
    let mut by_trace = BTreeMap::new();
    let (mut culprits, mut forecasts, mut cells) = (Culprits::default(), Forecasts::default(), Vec::new());
    for path in &traces {
        let trace = Trace::read(path)?;
        let one = One::of(&trace, t)?;
        all.add(&one.matrix);
        baseline.add(&one.baseline);
        families.entry(trace.family.clone()).or_default().add(&one.matrix);
        by_trace.insert(trace.path.display().to_string(), one.matrix.score());
        culprits.add(&one.culprits);
        forecasts.add(one.forecasts);
        cells.extend(one.cells);
    }
    Ok(Evaluation {
        traces: traces.len(),
        all: all.score(),
        baseline: baseline.score(),
        families: families.into_iter().map(|(name, matrix)| (name, matrix.score())).collect(),
        by_trace,
        culprits,
        forecasts,
        cells,
    })
}

/// One trace.
struct One {
    entities: Entities,
    matrix: Matrix,
    baseline: Matrix,
    culprits: Culprits,
    forecasts: Forecasts,
    cells: Vec<Cell>,
}

impl One {
    fn of(trace: &Trace, t: &Thresholds) -> Result<One, EvaluateError> {
        let judged = judge(trace, &trace.series, t)?;
        let entities = Gpus::of(trace, &judged).join(trace)?;
        let cells = join::cells(trace, &entities, &judged.intervals, Class::name);
        let utilisation = judge(trace, &utilisation(&trace.series), t)?;
        let plain = join::cells(trace, &entities, &utilisation.intervals, plain_class);
        Ok(One {
            matrix: Matrix::of(trace, &cells),
            baseline: Matrix::of(trace, &plain),
            culprits: Culprits::of(trace, &cells),
            forecasts: Forecasts::of(trace, &entities, &hours(trace), t),
            entities,
            cells,
        })
    }
}

fn judge(trace: &Trace, series: &[Series], t: &Thresholds) -> Result<Judged, EvaluateError> {
    let error = |source| EvaluateError::Judge { path: trace.path.clone(), source };
    judge_cells(series, hours(trace), t).map_err(error)
}

/// The UTC hours that the truth touches: windows of `classify` are whole ones.
fn hours(trace: &Trace) -> Range<TimeMs> {
    let start = trace.truth.iter().map(|row| row.span.start).min().unwrap_or_default();
    let end = trace.truth.iter().map(|row| row.span.end).max().unwrap_or_default();
    start.div_euclid(HOUR_MS) * HOUR_MS..(end + HOUR_MS - 1).div_euclid(HOUR_MS) * HOUR_MS
}

/// The series of a dashboard that knows utilisation and nothing else.
fn utilisation(series: &[Series]) -> Vec<Series> {
    let known = [Signal::GpuUtilization, Signal::NodeInfo];
    let kept = series.iter().filter(|s| resolve(&s.labels).is_some_and(|m| known.contains(&m.signal)));
    kept.cloned().collect()
}

/// What such a dashboard says of a class.
fn plain_class(class: Class) -> &'static str {
    match class {
        Class::Productive | Class::NoData => class.name(),
        _ => Class::IdleHeld.name(),
    }
}
