//! What `deploy/` ships, judged by the tools of those who read it: systemd, Helm, Kubernetes, Prometheus, shells.

#![allow(clippy::print_stdout, reason = "says what was skipped")]

mod ansible;
mod built;
mod chart;
mod compose;
mod manual;
mod monitoring;
mod packages;
mod scripts;
mod units;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(deploy(path)).with_context(|| path.to_owned())
}

#[allow(clippy::disallowed_methods, reason = "the judges are programs")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// Is there such a program? Where there is none, a test that needs it says so and judges nothing.
fn has(program: &str) -> bool {
    let found = command("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!("skipped: {program} is missing (deploy/local/packages test)");
    }
    found
}

/// Runs a program that must succeed; what it printed, on both of its outputs.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {text}");
    Ok(text.into_owned())
}

/// Compares a text with the file that records it; `UPDATE_GOLDEN=1` records it.
fn is_golden(path: &Path, text: &str) -> Result<()> {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text)?;
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    ensure!(recorded == text, "{} differs; UPDATE_GOLDEN=1 records it:\n{text}", path.display());
    Ok(())
}
