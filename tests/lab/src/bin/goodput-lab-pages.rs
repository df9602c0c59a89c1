//! Makes a trace of what `tests/lab/pytorch/record.py` recorded:
//! `gunzip < pages.jsonl.gz | goodput-lab-pages --log edges --entity HOST/gpu0 --about about.md DIR`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use goodput_exposition::sample::TimeMs;
use goodput_lab::live::pages::{Settings, trace};

/// Makes a trace of recorded pages, which are read from standard input.
#[derive(Parser)]
struct Args {
    /// Where to
    dir: PathBuf,
    /// What the job wrote down
    #[arg(long)]
    log: PathBuf,
    /// The job's GPU, as HOST/gpuN
    #[arg(long)]
    entity: String,
    /// Least seconds from one scrape to the next
    #[arg(long, default_value_t = 10)]
    interval: TimeMs,
    /// What about.md says
    #[arg(long)]
    about: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let read = |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let (log, about) = (read(&args.log)?, read(&args.about)?);
    // The scrapes were made a little late or early.
    let interval_ms = args.interval * 1000 - 500;
    let settings = Settings { entity: args.entity, interval_ms, about };
    trace(&args.dir, std::io::stdin().lock(), &log, &settings)
}
