//! `why` without a target: it starts the exporter next to it, and leaves none behind.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use goodput_lab::bin;
use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
use goodput_lab::process::{Running, until};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// `why` by this program, which finds the fake driver. The name marks the exporter that it starts.
#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn why(program: &Path, node: &FakeNode, name: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["why", "--format=json"]).envs([node.env()]);
    command.env("GOODPUT_EXPORTER_NVML_LIBRARY", FakeNvml::build().unwrap().path());
    command.env("GOODPUT_EXPORTER_DCGM_HOSTNAME", name);
    command
}

/// Exporters with this mark.
fn exporters(name: &str) -> usize {
    let is_one = |folder: &Path| {
        let command_line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let variables = fs::read(folder.join("environ")).unwrap_or_default();
        let has = |text: &[u8], part: &str| text.windows(part.len()).any(|window| window == part.as_bytes());
        has(&command_line, "goodput-exporter\0serve") && has(&variables, name)
    };
    fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_one(&entry.path())).count()
}

#[test]
fn why_starts_the_exporter_next_to_it_and_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let analyzer = bin("goodput-analyzer").unwrap();
    bin("goodput-exporter").unwrap();
    let output = why(&analyzer, &node, "why-to-the-end").arg("--for=5s").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["gpus"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(exporters("why-to-the-end"), 0);
}

#[test]
fn an_exporter_of_why_ends_when_why_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let mut command = why(&bin("goodput-analyzer").unwrap(), &node, "why-killed");
    bin("goodput-exporter").unwrap();
    let running = Running::start(&mut command, &dir.path().join("log")).unwrap();
    let there = |wanted: usize| {
        let are = || Ok((exporters("why-killed") == wanted).then_some(()));
        until(&format!("{wanted} exporters"), PATIENCE, are).unwrap();
    };
    there(1);
    running.kill().unwrap();
    there(0);
}

#[test]
fn without_an_exporter_and_without_a_gpu_why_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let alone = dir.path().join("goodput-analyzer");
    fs::copy(bin("goodput-analyzer").unwrap(), &alone).unwrap();
    let output = why(&alone, &node, "why-alone").env("PATH", dir.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("without --target, goodput-exporter is needed"), "{told}");

    let library = "/no/such/libnvidia-ml.so.1";
    let mut command = why(&bin("goodput-analyzer").unwrap(), &node, "why-no-gpu");
    let output = command.env("GOODPUT_EXPORTER_NVML_LIBRARY", library).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("no GPU to look at") && told.contains(library), "{told}");
}
