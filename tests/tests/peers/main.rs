//! Other people's programs read the fake GPUs correctly: it is not shaped to our own calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy spares tests, but not the helpers beside them")]

use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
use goodput_tests::venv;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions this was seen to work with.
const NVITOP: [&str; 2] = ["nvitop==1.7.2", "nvidia-ml-py==13.615.71"];

#[allow(clippy::disallowed_methods, reason = "the peers are programs")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A Python with nvitop.
fn python_with_nvitop() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvitop");
    venv::programs(&folder, &NVITOP.join(" "), &[&NVITOP]).unwrap().join("python")
}

#[test]
fn nvitop_reads_what_was_injected() {
    let dir = tempfile::tempdir().unwrap();
    FakeNvml::build().unwrap().link_into(dir.path()).unwrap();
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(3)).unwrap();
    let pid = std::process::id();
    node.process(1, pid, 20 << 30).unwrap();
    node.set(2, "temperature_c", 83.0).unwrap();
    let load = json!({"gpu": 70, "memory": 20, "sm": 50, "pcie_rx": 2_000_000_000_u64});
    let _work = node.work_at(1, Some(pid), load).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/nvitop_read.py");
    let (key, log) = node.env();
    let text = run(command(python_with_nvitop()).arg(script).env("LD_LIBRARY_PATH", dir.path()).env(key, log));
    let gpus: Value = serde_json::from_str(&text).unwrap();

    let (idle, busy, hot) = (&gpus[0], &gpus[1], &gpus[2]);
    assert_eq!(gpus.as_array().unwrap().len(), 3);
    assert_eq!((&busy["name"], &busy["bus_id"]), (&json!("NVIDIA H100 80GB HBM3"), &json!("00000000:3B:00.0")));
    assert_eq!((&busy["gpu"], &busy["memory"]), (&json!(70), &json!(20)));
    assert_eq!((&busy["used"], &busy["total"]), (&json!(20_u64 << 30), &json!(81559_u64 << 20)));
    assert_eq!(busy["processes"], json!({pid.to_string(): [20_u64 << 30, 70]}));
    assert_eq!((&busy["sm_mhz"], &busy["pcie_rx_kb_s"]), (&json!(1980), &json!(2_000_000)));
    assert_eq!((&idle["gpu"], &idle["used"], &idle["power_mw"]), (&json!(0), &json!(0), &json!(68_920)));
    assert_eq!((&idle["processes"], &idle["nvlinks"]), (&json!({}), &json!(18)));
    assert_eq!(hot["temperature"], 83);
}
