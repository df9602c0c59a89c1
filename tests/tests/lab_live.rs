//! The live lab: its recorded traces under the analyzer, and one recording that is made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use goodput_analyzer::evaluate::evaluate;
use goodput_catalog::gpu::BUSY;
use goodput_catalog::host::{CGROUP_CPU_PERIODS, NODE_CPU_SECONDS};
use goodput_lab::bin;
use goodput_lab::cgroup::JobCgroup;
use goodput_lab::demo::stop::Stop;
use goodput_lab::floors::missed;
use goodput_lab::gpu::FakeNvml;
use goodput_lab::live::machine::Programs;
use goodput_lab::live::scenario::{Act, BASE, HEAVY, HOLD, SCENARIOS, Scenario, Step, work};
use goodput_lab::live::{Settings, record};
use goodput_rules::classify::Thresholds;

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces")
}

/// The class that each recorded trace was made to show, and the least F1 that it must have there: what was measured less
/// some hundredths, for these are minutes of one machine.
const FLOORS: &[(&str, &str, f64)] = &[
    ("healthy", "productive", 0.9),
    ("cpu_throttled", "cpu_throttled", 0.9),
    ("dataloader_cpu", "dataloader_cpu", 0.8),
    ("dataloader_storage", "dataloader_storage", 0.95),
    ("memory_pressure", "memory_pressure", 0.9),
    ("memory_swap", "memory_pressure", 0.9),
    ("host_noise", "host_noise", 0.9),
    ("checkpoint", "checkpoint", 0.75),
    ("cold_start", "cold_start", 0.85),
    ("idle_held", "idle_held", 0.95),
];

#[test]
fn what_was_done_to_real_jobs_is_told() -> Result<()> {
    for (scenario, class, floor) in FLOORS {
        let trace = traces().join(format!("live-{scenario}"));
        assert_eq!(missed(&trace, &[(*class, *floor)])?, [] as [String; 0]);
    }
    Ok(())
}

#[test]
fn every_scenario_is_recorded_held_to_a_floor_and_told_of() -> Result<()> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/README.md"))?;
    for Scenario { name, .. } in SCENARIOS {
        let about = fs::read_to_string(traces().join(format!("live-{name}/about.md")))?;
        assert!(about.starts_with(&format!("# live-{name}\n")), "{about}");
        assert!(FLOORS.iter().any(|(scenario, ..)| scenario == name), "{name} has no floor");
        assert!(readme.lines().any(|line| line.starts_with(&format!("| `live-{name}` |"))), "no line of {name}");
    }
    Ok(())
}

/// Half a minute, for the recording itself: which share of it the GPU works is up to the machine. Whose the GPU is becomes
/// known within six seconds, on a busy machine some more.
const SHORT: Scenario = Scenario {
    name: "short",
    shows: "a quota comes and goes",
    steps: &[
        Step { seconds: 4, acts: &[HEAVY, HOLD, work(BASE)], waiting: "unexplained", also: &[] },
        Step { seconds: 30, acts: &[Act::Quota(Some(200))], waiting: "cpu_throttled", also: &[] },
    ],
};

#[test]
fn a_real_job_is_recorded_and_nothing_is_left_of_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let programs = Programs {
        exporter: bin("goodput-exporter")?,
        library: FakeNvml::build()?.path().to_owned(),
        job: bin("goodput-lab-job")?,
    };
    let settings =
        Settings { dir: folder.path().to_owned(), interval: Duration::from_secs(1), seed: 7, note: String::new() };
    let trace = record(&SHORT, &programs, &settings, &Stop::default())?;

    let metrics = fs::read_to_string(trace.join("metrics.om"))?;
    for row in [&CGROUP_CPU_PERIODS, &NODE_CPU_SECONDS, &BUSY] {
        let name = row.name;
        assert!(metrics.contains(&format!("\n{name}{{")), "the real kernel's {name} is recorded");
    }
    let score = evaluate(std::slice::from_ref(&trace), &Thresholds::default())?.all;
    assert_eq!(score.total_ms % 60_000, 0, "the truth is of whole minutes");
    assert!(score.classes["no_data"].truth_ms > 0, "and knows of those that were not scraped: {:?}", score.confusion);
    let left: Vec<_> = fs::read_dir(folder.path())?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    assert_eq!(left, [trace], "data, logs and checkpoints are gone");
    // One that is still there could not be made again.
    JobCgroup::create()?;
    Ok(())
}
