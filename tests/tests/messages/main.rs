//! Messages about weekly reports, by the real analyzer: to a real mail server that behaves well and badly, to webhooks, and
//! with `kill -9` between any two steps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

#[allow(dead_code)]
#[path = "../reports/history.rs"]
mod history;
mod killed;
mod mail;
mod webhooks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Result, ensure};
use goodput_analyzer::report::Period;
use goodput_lab::bin;
use goodput_lab::process::until;
use goodput_tests::mail::{LOGIN, Sink};
use goodput_tests::programs::Analyzer;

use history::{HOUR, Line, PATIENCE, store};

pub(crate) const DONE: &str = "nothing is left to deliver";

/// Where the virtual environment is kept.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Two hours of a GPU of each of these namespaces in the past week: one of work, one of none.
pub(crate) fn two_hours(dir: &Path, week: &Period, namespaces: &[&str]) -> Result<()> {
    let busy = |at: i64, then: f64, afterwards: f64| if at < HOUR { then } else { afterwards };
    let names: Vec<[String; 3]> = namespaces
        .iter()
        .enumerate()
        .map(|(n, namespace)| [format!("GPU-{n}"), n.to_string(), (*namespace).to_owned()])
        .collect();
    let labels = |metric: &'static str, [uuid, index, namespace]: &'static [String; 3]| {
        [
            ("__name__", metric),
            ("UUID", uuid.as_str()),
            ("gpu", index.as_str()),
            ("Hostname", "n1"),
            ("job", "dcgm"),
            ("instance", "n1:9400"),
            ("pod", "train-0"),
            ("namespace", namespace.as_str()),
        ]
    };
    // Lines borrow their labels, which live as long as the test.
    let names: &'static [[String; 3]] = names.leak();
    let metrics = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED"];
    let all: Vec<_> = names.iter().flat_map(|name| metrics.map(|metric| labels(metric, name))).collect();
    let (used, drawn) = (|at| busy(at, 100.0, 0.0), |at| busy(at, 600.0, 120.0));
    let value = |n: usize| -> &dyn Fn(i64) -> f64 {
        match n % 3 {
            0 => &used,
            1 => &drawn,
            _ => &|_| 20_000.0,
        }
    };
    let lines: Vec<Line> = all.iter().enumerate().map(|(n, labels)| Line { labels, value: value(n) }).collect();
    let start = week.start_ms + 30 * HOUR;
    store(dir, &zone(week), start..start + 2 * HOUR, &lines)
}

pub(crate) fn zone(week: &Period) -> String {
    format!("zone: {}\n", week.zone)
}

/// A certificate for `localhost` and its key, in files.
pub(crate) fn certificate(dir: &Path) -> Result<[PathBuf; 2]> {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let files = [dir.join("mail.crt"), dir.join("mail.key")];
    fs::write(&files[0], signed.cert.pem())?;
    fs::write(&files[1], signed.signing_key.serialize_pem())?;
    Ok(files)
}

/// A mail server with files of its own in the folder.
pub(crate) fn sink(dir: &Path, mode: &str) -> Result<Sink> {
    let [certificate, key] = certificate(dir)?;
    Sink::start(&folder(), dir, [&certificate, &key], mode)
}

/// The section `report` with this mail server and these destinations, delivering at once; files of secrets are in the folder.
pub(crate) fn report(dir: &Path, sink: &Sink, security: &str, destinations: &str) -> Result<String> {
    fs::write(dir.join("password"), format!("{}\n", LOGIN[1]))?;
    fs::write(dir.join("unsubscribe"), [7; 32])?;
    let file = |name: &str| dir.join(name).display().to_string();
    Ok(format!(
        "report:\n  schedule: {{weekday: monday, time: '00:00'}}\n  settle: 1s\n  link: https://goodput.example/\n  \
         unsubscribe_key_file: {}\n  mail: {{host: localhost, port: {}, security: {security}, from: 'Goodput \
         <goodput@example.org>', username: {}, password_file: {}, ca_file: {}}}\n  destinations:\n{destinations}",
        file("unsubscribe"),
        sink.port,
        LOGIN[0],
        file("password"),
        file("mail.crt"),
    ))
}

/// A team of each namespace, whose contact is at `e.org`.
pub(crate) fn teams(namespaces: &[&str]) -> String {
    let team = |name: &&str| {
        format!("- {{name: {name}, match: [{{namespace: {name}}}], contacts: [{{mail: {name}@e.org}}]}}\n")
    };
    format!("teams:\n{}", namespaces.iter().map(team).collect::<String>())
}

pub(crate) fn until_logged(analyzer: &Analyzer, text: &str) -> Result<()> {
    until(text, PATIENCE, || Ok(analyzer.running.log_text().contains(text).then_some(())))
        .map_err(|error| error.context(analyzer.running.log_text()))
}

/// Runs the analyzer's command over the data of the folder.
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
pub(crate) fn command(dir: &Path, config: &str, arguments: &[&str]) -> Result<Output> {
    let file = dir.join("command.yml");
    fs::write(&file, config)?;
    let mut command = Command::new(bin("goodput-analyzer")?);
    command.args(arguments).arg("--config.file").arg(file).arg("--data.dir").arg(dir.join("analyzer"));
    Ok(command.output()?)
}

/// What it prints, where it succeeds.
pub(crate) fn printed(output: Output) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    Ok(String::from_utf8(output.stdout)?)
}
