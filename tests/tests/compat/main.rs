//! A drop-in for dcgm-exporter: its recorded scrapes, its dashboard's queries, and what the pages about moving here say.
//!
//! For each recorded scrape the fake NVML is set to what the machine had, and our scrape is held to theirs, series by
//! series. What differs is in [`DIFFERENCES`] and in `docs/use/dcgm-exporter.md`, with the reason, and nothing else may.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy spares tests, but not the helpers beside them")]

mod compare;
mod pages;
mod queries;
mod recording;
mod scrape;

use std::collections::BTreeSet;

use compare::{Differences, Kind, differences};
use recording::{Node, RECORDINGS, Recording};

/// Families or labels, how they differ, in which recordings, and why.
struct Row(&'static [&'static str], Kind, &'static [&'static str], &'static str);

const DIFFERENCES: &[Row] = &[
    Row(
        &["DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"],
        Kind::Absent,
        &["a100", "a100-mig", "l4", "t4"],
        "NVML has profiling from Hopper on; before, it takes DCGM, whose families can be relayed",
    ),
    Row(&["DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_PCIE_TX_BYTES"], Kind::Absent, &["a100", "l4", "t4"], "as above"),
    Row(
        &["DCGM_FI_DEV_MEMORY_TEMP"],
        Kind::Absent,
        &["l4", "t4"],
        "these boards have no such sensor; dcgm-exporter says 0 C",
    ),
    Row(
        &["DCGM_FI_DEV_VGPU_LICENSE_STATUS"],
        Kind::Absent,
        &["l4", "t4"],
        "means something inside a virtual machine only; 0 on both",
    ),
    Row(
        &["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"],
        Kind::Absent,
        &["a100-mig"],
        "the driver has no NVLink counters under MIG; 0 in all",
    ),
    Row(
        &[
            "DCGM_FI_DEV_GPU_TEMP",
            "DCGM_FI_DEV_MEMORY_TEMP",
            "DCGM_FI_DEV_MEM_CLOCK",
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "DCGM_FI_DEV_POWER_USAGE",
            "DCGM_FI_DEV_SM_CLOCK",
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            "DCGM_FI_DEV_XID_ERRORS",
        ],
        Kind::OncePerGpu,
        &["a100-mig"],
        "they are the board's: repeated per instance, a sum counts them several times",
    ),
    Row(
        &["DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED"],
        Kind::GpuToo,
        &["a100-mig"],
        "the GPU keeps its series when it is cut up",
    ),
    Row(
        &["DCGM_FI_DEV_POWER_USAGE"],
        Kind::Value,
        &["a100-mig"],
        "dcgm-exporter read the one board twice, 116.043 W and 116.163 W, and gave either to an instance",
    ),
    Row(&["pci_bus_id"], Kind::LabelMore, &["a100", "a100-mig"], "newer releases of dcgm-exporter have it too"),
    Row(
        &["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"],
        Kind::Type,
        &["a100"],
        "a rate is a gauge, as dcgm-exporter has it from 4.8.3 on",
    ),
    Row(&["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"], Kind::Help, &["a100"], "says that it is a rate, and in MB/s"),
    Row(
        &["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"],
        Kind::Help,
        &["a100", "a100-mig", "l4"],
        "counts since the driver was loaded, not since boot",
    ),
    Row(
        &[
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
            "DCGM_FI_DEV_ROW_REMAP_FAILURE",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        ],
        Kind::Help,
        &["a100", "l4"],
        "ends with a full stop",
    ),
];

impl Row {
    /// As the documentation has it.
    fn markdown(&self) -> String {
        let Self(what, kind, recordings, why) = self;
        let what: Vec<_> = what.iter().map(|name| format!("`{name}`")).collect();
        format!("| {} | {} | {} | {why} |", what.join(", "), kind.text(), recordings.join(", "))
    }
}

fn expected(recording: &str) -> Differences {
    let rows = DIFFERENCES.iter().filter(|row| row.2.contains(&recording));
    rows.flat_map(|Row(what, kind, ..)| what.iter().map(|name| ((*name).to_owned(), *kind))).collect()
}

fn differs_as_listed(name: &str) {
    let recording = Recording::named(name);
    let (recorded, node, expected) = (recording.scrape(), Node::of(recording), expected(name));
    let gpus = recorded.series.iter().map(scrape::Series::gpu).max().unwrap() + 1;
    let mut exporter = node.start(&["--dcgm.hostname-label=Hostname"]);
    let served = exporter.settled(gpus, |served| differences(&recorded, served) == expected);
    assert_eq!(differences(&recorded, &served), expected, "found, and in DIFFERENCES\n{:#?}", served.series);
}

#[test]
fn eight_h100_of_which_a_pod_holds_one() {
    differs_as_listed("8xh100");
}

#[test]
fn an_a100() {
    differs_as_listed("a100");
}

#[test]
fn an_a100_that_is_cut_up() {
    differs_as_listed("a100-mig");
}

#[test]
fn an_l4() {
    differs_as_listed("l4");
}

#[test]
fn a_t4_under_load() {
    differs_as_listed("t4");
}

/// Written as a counters file, their own types and help texts are ours too.
#[test]
fn a_counters_file_keeps_types_and_help_texts() {
    let recording = Recording::named("a100");
    let (recorded, node) = (recording.scrape(), Node::of(recording));
    let row = |(name, help): (&String, &String)| format!("{name}, {}, {help}\n", recorded.types[name]);
    let rows: String = recorded.helps.iter().map(row).collect();
    let file = node.folder().join("counters.csv");
    std::fs::write(&file, format!("{rows}DCGM_FI_DRIVER_VERSION, label, Driver Version\n")).unwrap();
    let mut expected = expected(recording.name);
    expected.retain(|(_, kind)| !matches!(kind, Kind::Type | Kind::Help));
    let mut exporter = node.start(&[&format!("--dcgm.counters={}", file.display())]);
    let served = exporter.settled(1, |served| differences(&recorded, served) == expected);
    assert_eq!(differences(&recorded, &served), expected, "{:#?}", served.helps);
    let names = |of: &scrape::Scrape| of.series.iter().map(|series| series.name.clone()).collect::<BTreeSet<_>>();
    assert!(names(&served).is_subset(&names(&recorded)), "more than the file lists");
}

#[test]
fn the_documentation_lists_these_differences_and_no_others() {
    let page = pages::read("docs/use/dcgm-exporter.md");
    let (_, table) = page.split_once("| What | Here | In | Why |\n|---|---|---|---|\n").unwrap();
    let documented: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let listed: Vec<_> = DIFFERENCES.iter().map(Row::markdown).collect();
    assert_eq!(documented, listed, "docs/use/dcgm-exporter.md, and DIFFERENCES");
    for recording in RECORDINGS {
        assert!(page.contains(&format!("| {} |", recording.name)), "{} is not explained", recording.name);
    }
    for Row(what, _, recordings, _) in DIFFERENCES {
        let known = |name: &str| RECORDINGS.iter().any(|recording| recording.name == name);
        assert!(recordings.iter().all(|name| known(name)), "{what:?} is about unknown recordings");
    }
}
