//! Webhooks: cards for Microsoft Teams, blocks for Slack, JSON for programs, and files.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use goodput_tests::mail::validate_card;
use goodput_tests::programs::Analyzer;
use goodput_tests::webhook::Webhook;

use crate::history::{PATIENCE, last_week};
use crate::{DONE, command, folder, printed, teams, two_hours, until_logged, zone};

#[test]
fn each_kind_gets_its_form_once() -> Result<()> {
    let (dir, week, webhook) = (tempfile::tempdir()?, last_week()?, Webhook::answering(&["503 Later"])?);
    let (dir, names) = (dir.path(), ["vision"]);
    two_hours(dir, &week, &names)?;
    let url = |name: &str| {
        let path = dir.join(name);
        fs::write(&path, format!("http://{}/{name}/secret", webhook.address))?;
        Ok::<_, anyhow::Error>(path.display().to_string())
    };
    let config = format!(
        "{}{}report:\n  schedule: {{weekday: monday, time: '00:00'}}\n  settle: 1s\n  link: https://goodput.example/\n  \
         destinations:\n  - {{name: ms, kind: teams, to: {{url_file: {}}}}}\n  - {{name: chat, kind: slack, to: {{url_file: {}}}, \
         teams: all}}\n  - {{name: hook, kind: webhook, to: {{url_file: {}}}, teams: owners}}\n  - {{name: files, kind: \
         directory, to: {}}}\n",
        zone(&week),
        teams(&names),
        url("ms")?,
        url("chat")?,
        url("hook")?,
        dir.join("files").display()
    );
    let analyzer = Analyzer::start_with(dir, &config)?;
    until_logged(&analyzer, DONE)?;
    let mut received = Vec::new();
    for _ in 0..4 {
        received.push(webhook.next(PATIENCE)?);
    }
    ensure!(webhook.is_silent(), "more than one message each");
    let of = |name: &str| {
        let path = format!("/{name}/secret");
        received.iter().filter(|(asked, _)| *asked == path).map(|(_, body)| body.clone()).collect::<Vec<_>>()
    };
    // The first was put off, and came again.
    let cards = of("ms");
    assert_eq!((cards.len(), cards[0] == cards[1]), (2, true));
    let card = &cards[0]["attachments"][0]["content"];
    validate_card(&folder(), card)?;
    let mut wrong = card.clone();
    wrong["body"][0]["wrap"] = "yes".into();
    validate_card(&folder(), &wrong).expect_err("the judge takes anything");

    let blocks = of("chat").pop().context("nothing for Slack")?;
    ensure!(blocks["text"].as_str().is_some_and(|text| text.contains(", vision: 50.0 %")), "{blocks}");
    let json = of("hook").pop().context("nothing for programs")?;
    assert_eq!((&json["contact"], &json["findings"][0]["class"]), (&"team/vision".into(), &"idle_held".into()));
    assert_eq!(fs::read_dir(dir.join("files"))?.count(), 6, "each form of the report");
    ensure!(!analyzer.running.log_text().contains("secret"), "the log has an address");

    let tested = printed(command(dir, &config, &["deliver", "test", "ms"])?)?;
    assert_eq!(tested, "fleet: sent\n");
    let (_, marked) = webhook.next(PATIENCE)?;
    validate_card(&folder(), &marked["attachments"][0]["content"])?;
    ensure!(marked.to_string().contains("test"), "{marked}");
    Ok(())
}
