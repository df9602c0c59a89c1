//! `kill -9` between any two steps of delivery: never two mails of different identity, never none.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};

use anyhow::{Context as _, Result, ensure};
use goodput_lab::process::until;
use goodput_tests::mail::{Sink, copy};
use goodput_tests::programs::Analyzer;
use serde_json::Value;

use crate::history::{PATIENCE, last_week};
use crate::{DONE, report, sink, teams, two_hours, until_logged, zone};

const NAMESPACES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// What the mail server sees of a mail, and the lines that the analyzer logs between its own steps.
const STEPS: [&str; 12] = [
    "connect",
    "ehlo",
    "auth",
    "mail",
    "rcpt",
    "data",
    "taken",
    "quit",
    "messages planned",
    "message begun",
    "message tried",
    "message sent",
];

/// Kills while one week is delivered.
const OF_A_WEEK: usize = 6;

/// 10, unless `GOODPUT_DELIVERY_KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("GOODPUT_DELIVERY_KILLS").map_or(10, |kills| kills.parse().unwrap())
}

/// Anything below the bound.
fn random(bound: u64) -> u64 {
    RandomState::new().hash_one(0) % bound
}

#[test]
fn a_message_is_never_lost_and_never_has_two_identities() -> Result<()> {
    let (base, week) = (tempfile::tempdir()?, last_week()?);
    let base = base.path();
    two_hours(base, &week, &NAMESPACES)?;
    let mut sink = sink(base, "starttls")?;
    let people = "  - {name: people, kind: smtp, to: fleet@e.org, teams: all, only_if: always}\n";
    let config = format!("{}{}{}", zone(&week), teams(&NAMESPACES), report(base, &sink, "starttls", people)?);
    let (kills, mut killed) = (kills(), 0);
    // No step is left out, and each may come first.
    let mut step = usize::try_from(random(STEPS.len() as u64))?;
    while killed < kills {
        let dir = tempfile::tempdir()?;
        copy(&base.join("analyzer"), &dir.path().join("analyzer"))?;
        let seen = sink.mails().len();
        for _ in 0..OF_A_WEEK.min(kills - killed) {
            let analyzer = Analyzer::start_with_arguments(dir.path(), &config, &["--log.level=debug".to_owned()])?;
            // A week that is delivered has nothing to be killed in.
            if kill_at(STEPS[step % STEPS.len()], analyzer, &mut sink)? {
                killed += 1;
            }
            step += 1;
        }
        let last = Analyzer::start_with(dir.path(), &config)?;
        until_logged(&last, DONE)?;
        let state = last.get("/state")?;
        let told = || format!("after {killed} kills: {}\n{state}", last.running.log_text());
        check(&sink.mails()[seen..]).with_context(told)?;
    }
    Ok(())
}

/// Was it killed at that step? It was not where it had nothing left to send.
fn kill_at(step: &str, analyzer: Analyzer, sink: &mut Sink) -> Result<bool> {
    let is_done = |analyzer: &Analyzer| analyzer.running.log_text().contains(DONE);
    if step.starts_with("message") {
        let nth = 1 + usize::try_from(random(2))?;
        let is_plan = step == "messages planned";
        let found = until(step, PATIENCE, || {
            let log = analyzer.running.log_text();
            let is_there = log.matches(step).count() >= if is_plan { 1 } else { nth };
            Ok((is_there || is_done(&analyzer)).then_some(is_there))
        })?;
        let was_done = is_done(&analyzer);
        analyzer.running.kill()?;
        return Ok(found && !was_done);
    }
    let count = |sink: &Sink| sink.events().iter().filter(|event| event["event"] == "killed").count();
    let before = count(sink);
    sink.order_kill(analyzer.running.pid(), step, 1 + random(2))?;
    until(step, PATIENCE, || Ok((count(sink) > before || is_done(&analyzer)).then_some(())))?;
    Ok(count(sink) > before)
}

/// Each contact has its mail, and however often it has it, it is the same.
fn check(mails: &[Value]) -> Result<()> {
    let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for mail in mails {
        let id = mail["headers"]["message-id"].as_str().context("a mail without Message-ID")?;
        ids.entry(mail["to"].as_str().context("a mail without a receiver")?).or_default().insert(id);
    }
    ensure!(ids.len() == NAMESPACES.len() + 1, "not every contact has its mail: {ids:?}");
    ensure!(ids.values().all(|ids| ids.len() == 1), "two identities: {ids:?}");
    let all: BTreeSet<&&str> = ids.values().flatten().collect();
    ensure!(all.len() == ids.len(), "one identity for two contacts: {ids:?}");
    Ok(())
}
