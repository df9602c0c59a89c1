//! The clients of `docs/use/events.md`, as they stand, against the real analyzer.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use goodput_tests::programs::Analyzer;
use serde_json::Value;

/// The text of the only block in this language after the heading of clients.
fn block(language: &str) -> Result<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use/events.md"))?;
    let (_, clients) = page.split_once("## A client").context("docs/use/events.md has no clients")?;
    let (_, block) = clients.split_once(&format!("```{language}\n")).context("no such block")?;
    Ok(block.split("```").next().unwrap_or_default().to_owned())
}

/// What it prints the second time that it runs: a client may send everything again.
#[allow(clippy::disallowed_methods, reason = "runs the client")]
fn twice(program: &str, text: &str, analyzer: &Analyzer) -> Result<String> {
    let mut last = String::new();
    for _ in 0..2 {
        let mut command = Command::new(program);
        command.args(["-c", text]).env("GOODPUT", format!("http://{}", analyzer.address));
        command.env("SLURM_JOB_ID", "4712").env("SLURM_RESTART_COUNT", "1").env("no_proxy", "*");
        let output = command.output()?;
        ensure!(
            output.status.success(),
            "{program}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        last = String::from_utf8(output.stdout)?;
    }
    Ok(last)
}

#[test]
fn the_clients_of_the_docs_tell_what_they_say() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let analyzer = Analyzer::start(dir.path())?;
    // In the past, whatever the clock says.
    let curl = block("sh")?.replace("localhost:9401", &analyzer.address.to_string()).replace("2026-", "2020-");
    assert_eq!(twice("sh", &curl, &analyzer)?, r#"{"stored":0,"duplicate":1}"#);
    // At another second it would be another event.
    let python = block("python")?.replace("time.gmtime()", "time.gmtime(1605517200)");
    assert_eq!(twice("python3", &python, &analyzer)?.trim(), "{'stored': 0, 'duplicate': 1}");
    let week = "start=2020-11-10T00:00:00Z&end=2020-11-24T00:00:00Z";
    let runs: Value = serde_json::from_str(&analyzer.get(&format!("/api/v1/runs?{week}"))?)?;
    let (saved, told) = (&runs["data"][0], &runs["data"][1]);
    assert_eq!((&told["run"], &told["attempts"][0]["attempt"]), (&"llama".into(), &0.into()), "{runs}");
    assert_eq!((&saved["run"], &saved["attempts"][0]["last_step"]), (&"4712".into(), &1200.into()), "{runs}");
    Ok(())
}
