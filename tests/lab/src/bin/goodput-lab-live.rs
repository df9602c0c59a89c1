//! Records traces of real processes in real cgroups: `goodput-lab-live DIR [SCENARIO…]` writes `DIR/live-SCENARIO`.
//! Needs root: cgroups are made, limits set, and with `memory_swap` a swap file used.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use goodput_lab::demo::stop::Stop;
use goodput_lab::live::machine::Programs;
use goodput_lab::live::scenario::SCENARIOS;
use goodput_lab::live::{Settings, record};

/// Records traces of real processes in real cgroups; needs root.
#[derive(Parser)]
struct Args {
    /// Where to, on a disk; 6 GB are needed there for a while
    dir: PathBuf,
    /// Only these scenarios
    scenarios: Vec<String>,
    /// Seconds between scrapes
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Gives the scrapes their phase
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Folder of goodput-exporter and libfake_nvml.so, where it is not this program's own
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Said in about.md besides: what else the machine did
    #[arg(long, default_value = "")]
    note: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let names: Vec<&str> = SCENARIOS.iter().map(|s| s.name).collect();
    for name in &args.scenarios {
        ensure!(names.contains(&name.as_str()), "no scenario {name}; expected one of {names:?}");
    }
    let stop = Stop::watch()?;
    let programs = Programs::find(args.programs.as_deref())?;
    let interval = Duration::from_secs(args.interval);
    let settings = Settings { dir: args.dir, interval, seed: args.seed, note: args.note };
    let asked = |name: &str| args.scenarios.is_empty() || args.scenarios.iter().any(|s| s == name);
    for (n, scenario) in SCENARIOS.iter().enumerate().filter(|(_, s)| asked(s.name)) {
        let seed = settings.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n as u64 * 7919);
        let dir = record(scenario, &programs, &Settings { seed, ..settings.clone() }, &stop)?;
        writeln!(std::io::stdout(), "{}", dir.display())?;
    }
    Ok(())
}
