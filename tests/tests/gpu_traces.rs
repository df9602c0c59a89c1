//! Traces of a real GPU under the analyzer: `tests/lab/pytorch` recorded them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use goodput_analyzer::evaluate::evaluate;
use goodput_lab::floors::missed;
use goodput_rules::classify::Thresholds;

/// Least F1 of each class: what was measured less some hundredths, for these are minutes of one machine.
const FLOORS: &[(&str, &[(&str, f64)])] = &[
    ("h200-healthy", &[("productive", 0.85), ("cold_start", 0.9)]),
    ("h200-two-cpus", &[("productive", 0.9), ("dataloader_cpu", 0.7)]),
    ("h200-faults", &[("host_to_device", 0.9), ("dataloader_storage", 0.8), ("productive", 0.8), ("checkpoint", 0.65)]),
    (
        "h200-repeated",
        &[
            ("productive", 0.88),
            ("dataloader_cpu", 0.58),
            ("dataloader_storage", 0.86),
            ("host_to_device", 0.89),
            ("launch_bound", 0.8),
            ("idle_held", 0.94),
            ("collective_wait", 0.88),
        ],
    ),
    ("h100-varied", &[("productive", 0.9), ("dataloader_storage", 0.95), ("idle_held", 0.9), ("cold_start", 0.8)]),
    ("h100-repeated", &[("productive", 0.92), ("dataloader_storage", 0.95), ("no_demand", 0.95)]),
    ("h100-libraries", &[("productive", 0.8), ("dataloader_cpu", 0.77), ("checkpoint", 0.64)]),
    ("h100-libraries-repeated", &[("productive", 0.92), ("dataloader_cpu", 0.92), ("launch_bound", 0.81)]),
];

fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn trace(name: &str) -> PathBuf {
    tests().join("traces").join(name)
}

#[test]
fn faults_of_a_real_gpu_are_told() -> Result<()> {
    for (name, floors) in FLOORS {
        assert_eq!(missed(&trace(name), floors)?, [] as [String; 0]);
    }
    Ok(())
}

/// Half of the healthy time the power cap is in force, and the clock is all the same what the board can do.
#[test]
fn a_gpu_at_its_stock_power_limit_is_not_derated() -> Result<()> {
    for (name, _) in FLOORS {
        let told = evaluate(&[trace(name)], &Thresholds::default())?.all.confusion;
        let derated: BTreeSet<&str> = (told.values().flat_map(|told| told.keys()))
            .map(AsRef::as_ref)
            .filter(|class: &&str| {
                class.ends_with("_throttle") || *class == "clock_locked" || *class == "pcie_degraded"
            })
            .collect();
        assert_eq!(derated, BTreeSet::new(), "{name}");
    }
    Ok(())
}

/// Copies beside kernels, kernels of memory alone and kernels on few multiprocessors are work; a wait for the network
/// takes no CPU.
#[test]
fn what_looks_like_a_fault_of_a_real_gpu_is_none() -> Result<()> {
    let told = evaluate(&[trace("h100-varied")], &Thresholds::default())?.all.confusion;
    let told: BTreeSet<&str> = told.values().flat_map(|told| told.keys()).map(AsRef::as_ref).collect();
    for class in ["collective_wait", "host_noise", "host_to_device", "memory_pressure", "straggler", "timeslice_gap"] {
        assert!(!told.contains(class), "{class} was told: {told:?}");
    }
    Ok(())
}

#[test]
fn every_trace_says_what_it_is_and_has_a_floor() -> Result<()> {
    let readme = fs::read_to_string(tests().join("lab/README.md"))?;
    let folders =
        fs::read_dir(tests().join("traces"))?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = folders.collect::<Result<_>>()?;
    for name in names.iter().filter(|name| !name.starts_with("live-")) {
        assert!(FLOORS.iter().any(|(floor, _)| floor == name), "{name} has no floor");
        assert!(fs::read_to_string(trace(name).join("about.md"))?.starts_with(&format!("# {name}\n")));
        assert!(readme.lines().any(|line| line.starts_with(&format!("| `{name}` |"))), "no line of {name}");
    }
    Ok(())
}
