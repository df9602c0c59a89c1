//! `evaluate`: verdicts on traces whose faults are known.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use crate::evaluate::{ablate, ablation_table, dump, evaluate, find_all, table};
use goodput_rules::classify::Thresholds;

/// What `evaluate` looks at.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folders that are traces (metrics.om and truth.csv), or hold some
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Form of the result
    #[arg(long, default_value = "table")]
    pub format: EvaluateFormat,
    /// Say what each signal is worth: judge again without it, for every signal of the traces
    #[arg(long, conflicts_with_all = ["dump", "floor"])]
    pub ablation: bool,
    /// Write every verdict as CSV (entity, start, end, class, weight, trace, charged_to, confidence, cause, which)
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Fail if macro-F1 is below this
    #[arg(long, value_name = "RATIO")]
    pub floor: Option<f64>,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EvaluateFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Evaluates, and prints what came out.
pub(super) fn run(args: &Args, thresholds: &Thresholds) -> anyhow::Result<()> {
    if args.ablation {
        return run_ablation(args, thresholds);
    }
    let evaluation = evaluate(&args.dirs, thresholds)?;
    if let Some(path) = &args.dump {
        std::fs::write(path, dump(&evaluation.cells)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match args.format {
        EvaluateFormat::Table => super::print(&table(&evaluation))?,
        EvaluateFormat::Json => super::print(&format!("{}\n", serde_json::to_string_pretty(&evaluation)?))?,
    }
    let macro_f1 = evaluation.all.macro_f1;
    match args.floor {
        Some(floor) if macro_f1 < floor => bail!("macro-F1 is {macro_f1:.3}, below the floor of {floor}"),
        _ => Ok(()),
    }
}

fn run_ablation(args: &Args, thresholds: &Thresholds) -> anyhow::Result<()> {
    let traces = find_all(&args.dirs)?;
    let bar = progress_bar(traces.len() as u64);
    let ablation = ablate(&traces, thresholds, || bar.inc(1))?;
    bar.finish_and_clear();
    match args.format {
        EvaluateFormat::Table => super::print(&ablation_table(&ablation)),
        EvaluateFormat::Json => super::print(&format!("{}\n", serde_json::to_string_pretty(&ablation)?)),
    }
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(traces: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("judging {wide_bar} {pos}/{len} {eta}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(traces).with_style(style)
}
