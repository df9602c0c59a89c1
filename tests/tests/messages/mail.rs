//! Mail: what arrives, what a server may do to it, and who gets none.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use goodput_lab::process::until;
use goodput_tests::axe;
use goodput_tests::browser::Browser;
use goodput_tests::mail::{LOGIN, Sink};
use goodput_tests::programs::Analyzer;
use serde_json::{Value, json};

use crate::history::{PATIENCE, last_week};
use crate::{DONE, command, folder, printed, report, sink, teams, two_hours, until_logged, zone};

fn mails_to(sink: &Sink, to: &str) -> Vec<Value> {
    sink.mails().into_iter().filter(|mail| mail["to"] == to).collect()
}

fn header<'m>(mail: &'m Value, name: &str) -> &'m str {
    mail["headers"][name].as_str().unwrap_or_default()
}

#[test]
fn whatever_the_server_does_each_contact_has_its_mail_once_or_is_named() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let (dir, names) = (dir.path(), ["good", "cut", "later", "refuse", "silent"]);
    two_hours(dir, &week, &names)?;
    let sink = sink(dir, "starttls")?;
    let people = "  - {name: people, kind: smtp, to: fleet@e.org, teams: all}\n";
    let config = format!("{}{}{}", zone(&week), teams(&names), report(dir, &sink, "starttls", people)?);
    let analyzer = Analyzer::start_with(dir, &config)?;
    until_logged(&analyzer, DONE)?;
    for (name, times) in [("fleet", 1), ("good", 1), ("cut", 2), ("later", 1), ("refuse", 0), ("silent", 1)] {
        let mails = mails_to(&sink, &format!("{name}@e.org"));
        ensure!(mails.len() == times, "{name}: {mails:#?}\n{}", analyzer.running.log_text());
        ensure!(mails.windows(2).all(|two| header(&two[0], "message-id") == header(&two[1], "message-id")), "{name}");
        ensure!(mails.iter().all(|mail| mail["tls"] == true && mail["user"] == LOGIN[0]), "{mails:#?}");
    }
    let good = mails_to(&sink, "good@e.org").remove(0);
    let subject = format!("Goodput {}, good: 50.0 %", week.label);
    assert_eq!((header(&good, "subject"), header(&good, "from")), (subject.as_str(), "Goodput <goodput@example.org>"));
    let (text, html) = (good["parts"]["text/plain"].as_str().unwrap(), good["parts"]["text/html"].as_str().unwrap());
    let sentence = "Held without work: good/train-0 lost 1.00 GPU-hours, 50.0 % of capacity.";
    for part in [text, html] {
        ensure!(part.contains(sentence) && part.contains("https://goodput.example/findings?start="), "{part}");
    }
    assert_eq!(header(&good, "list-unsubscribe-post"), "List-Unsubscribe=One-Click");
    looks(dir, html)?;

    // One refusal is on the State page and in the metrics; nothing says the password.
    let state = analyzer.get("/state")?;
    ensure!(state.contains("refused for refuse@e.org: ") && state.contains("no such user here"), "{state}");
    let count = |outcome: &str| {
        let labels = format!("destination=\"people\",outcome=\"{outcome}\"");
        analyzer.metric(&format!("goodput_analyzer_report_deliveries_total{{{labels}}}"))
    };
    assert_eq!((count("delivered")?, count("refused")?), (Some(5.0), Some(1.0)));
    ensure!(!analyzer.running.log_text().contains(LOGIN[1]), "the log has the password");

    // One click ends the mails to a contact.
    let link = header(&good, "list-unsubscribe").trim_matches(['<', '>']).to_owned();
    let path = link.strip_prefix("https://goodput.example").context("no link to unsubscribe")?;
    let url = format!("http://{}{path}", analyzer.address);
    ureq::post(&url).header("content-type", "application/x-www-form-urlencoded").send("List-Unsubscribe=One-Click")?;
    let preview = ["deliver", "preview", "--week", &week.label, "--destination", "people"];
    let told = printed(command(dir, &config, &preview)?)?;
    ensure!(told.contains("good@e.org: unsubscribed\n") && told.contains("cut@e.org: 1 findings, "), "{told}");
    analyzer.running.kill()?;

    // Nothing is sent twice, though no sample comes in.
    let before = sink.mails().len();
    let again = Analyzer::start_with(dir, &config)?;
    until_logged(&again, DONE)?;
    assert_eq!(sink.mails().len(), before);
    Ok(())
}

/// On a telephone and on a desk, light and dark, a mail fits, has links that a finger hits, breaks no rule of WCAG that a
/// program can see, and loads nothing. Pictures are kept for the eye.
fn looks(dir: &Path, html: &str) -> Result<()> {
    let file = dir.join("mail.html");
    fs::write(&file, html)?;
    let url = format!("file://{}", file.display());
    let axe = axe::script(&folder().join("axe"))?;
    let mut browser = Browser::start(dir)?;
    let mut backgrounds = Vec::new();
    for (width, is_dark) in [(360, false), (640, false), (360, true), (640, true)] {
        browser.look(width, is_dark)?;
        browser.open(&url)?;
        let look = format!("{width} px, {}", if is_dark { "dark" } else { "light" });
        let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.eval(overflow)?, 0, "{look}: it scrolls sideways");
        let low = "[...document.querySelectorAll('a')].filter(a => a.getBoundingClientRect().height < 24).map(a => a.innerText)";
        assert_eq!(browser.eval(low)?, json!([]), "{look}: these links are lower than 24 px");
        assert_eq!(axe::violations(&mut browser, &axe)?, Vec::<String>::new(), "{look}");
        backgrounds.push(browser.text("getComputedStyle(document.body).backgroundColor")?);
        let picture = format!("mail-{width}-{}.png", if is_dark { "dark" } else { "light" });
        browser.screenshot(&folder().join(picture))?;
    }
    ensure!(backgrounds[0] == backgrounds[1] && backgrounds[2] == backgrounds[3], "{backgrounds:?}");
    ensure!(backgrounds[0] != backgrounds[2], "it is light in the dark: {backgrounds:?}");
    assert_eq!(browser.complaints(&url), Vec::<String>::new(), "it loads something, or complains");
    Ok(())
}

#[test]
fn no_more_than_at_most_are_sent_until_the_limit_is_raised() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let (dir, names) = (dir.path(), ["a", "b", "c"]);
    two_hours(dir, &week, &names)?;
    let sink = sink(dir, "tls")?;
    let config = |at_most: usize| {
        let people = format!("  - {{name: people, kind: smtp, to: fleet@e.org, teams: all, at_most: {at_most}}}\n");
        Ok::<_, anyhow::Error>(format!("{}{}{}", zone(&week), teams(&names), report(dir, &sink, "tls", &people)?))
    };
    let held = |analyzer: &Analyzer| analyzer.metric("goodput_analyzer_report_held_messages{destination=\"people\"}");
    let analyzer = Analyzer::start_with(dir, &config(2)?)?;
    until_logged(&analyzer, DONE)?;
    assert_eq!((held(&analyzer)?, sink.mails().len()), (Some(2.0), 2));
    ensure!(analyzer.get("/state")?.contains("2 messages held back by at_most"));
    ensure!(analyzer.get("/api/v1/health")?.contains("messages_held"));
    ensure!(analyzer.running.terminate()?.success());
    let again = Analyzer::start_with(dir, &config(4)?)?;
    until_logged(&again, DONE)?;
    assert_eq!((held(&again)?, sink.mails().len()), (Some(0.0), 4));
    Ok(())
}

#[test]
fn a_login_that_fails_is_tried_again_and_nothing_is_refused() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let dir = dir.path();
    two_hours(dir, &week, &["a"])?;
    let sink = sink(dir, "starttls")?;
    let config =
        format!("{}{}", zone(&week), report(dir, &sink, "starttls", "  - {name: people, kind: smtp, to: a@e.org}\n")?);
    fs::write(dir.join("password"), "wrong")?;
    let analyzer = Analyzer::start_with(dir, &config)?;
    until_logged(&analyzer, "the message is not sent yet")?;
    until("the destination to be overdue", PATIENCE, || {
        let overdue = analyzer.metric("goodput_analyzer_report_overdue{destination=\"people\"}")?;
        Ok(overdue.filter(|overdue| *overdue == 1.0))
    })?;
    fs::write(dir.join("password"), LOGIN[1])?;
    until_logged(&analyzer, DONE)?;
    assert_eq!(sink.mails().len(), 1);
    Ok(())
}

#[test]
fn a_preview_is_what_is_sent_and_leaves_no_trace() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let (dir, names) = (dir.path(), ["a", "b"]);
    two_hours(dir, &week, &names)?;
    let sink = sink(dir, "starttls")?;
    let people = "  - {name: people, kind: smtp, to: fleet@e.org, teams: all}\n";
    let config = format!("{}{}{}", zone(&week), teams(&names), report(dir, &sink, "starttls", people)?);
    // The week is judged, and not delivered.
    let analyzer = Analyzer::start_with(dir, &zone(&week))?;
    until("the first round of judging", PATIENCE, || {
        Ok(analyzer.metric("goodput_analyzer_judge_duration_seconds")?.filter(|took| *took > 0.0))
    })?;
    ensure!(analyzer.running.terminate()?.success());

    let out = dir.join("out");
    let preview = ["deliver", "preview", "--week", &week.label, "--destination", "people"];
    let told = printed(command(dir, &config, &[&preview[..], &["--out", out.to_str().unwrap()]].concat())?)?;
    assert_eq!(told.lines().count(), 3, "{told}");
    let eml = fs::read_to_string(out.join("people-a@e.org.eml"))?;
    let admins =
        printed(command(dir, &config, &[&preview[..], &["--contact", "a@e.org", "--to-admins-only"]].concat())?)?;
    assert_eq!(admins, "fleet@e.org: sent\n");
    let copied = mails_to(&sink, "fleet@e.org").remove(0);
    ensure!(header(&copied, "subject").starts_with("[for a@e.org] Goodput "), "{copied:#?}");
    let tested = printed(command(dir, &config, &["deliver", "test", "people"])?)?;
    assert_eq!(tested, "fleet@e.org: sent\n");
    ensure!(header(&sink.mails()[1], "subject").starts_with("[test] "));

    let analyzer = Analyzer::start_with(dir, &config)?;
    until_logged(&analyzer, DONE)?;
    assert_eq!(sink.mails().len(), 2 + 3, "neither counts as sent");
    let sent = mails_to(&sink, "a@e.org").remove(0);
    let id = header(&sent, "message-id");
    ensure!(eml.contains(&format!("Message-ID: {id}\r\n")), "{id} is not in\n{eml}");
    ensure!(header(&copied, "message-id") != id, "a copy is another message");
    let unknown = command(dir, &config, &["deliver", "test", "pigeon"])?;
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    ensure!(!unknown.status.success() && said.contains("expected one of people, found \"pigeon\""), "{said}");
    Ok(())
}
