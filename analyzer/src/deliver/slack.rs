//! The message: a JSON body in the form of Slack's incoming webhooks, which Mattermost, Rocket.Chat and others take too.
//!
//! Limits: 150 characters in a header block, 3,000 in a section's text
//! (docs.slack.dev/reference/block-kit/blocks/header-block and section-block). `&`, `<` and `>` are written as entities
//! (docs.slack.dev/messaging/formatting-message-text); escaped so, no name can mention a channel or become a link.

use serde_json::{Value, json};

use crate::report::{FindingGroup, Report, text};

/// Longest text of a header block.
const MAX_HEADER: usize = 150;
/// Longest text of a section block.
const MAX_SECTION: usize = 3000;
/// Longest name, before it is escaped: a finding's three names make less than a third of a section even if every
/// character becomes an entity.
const MAX_NAME: usize = 60;
/// Findings that are named.
const FINDINGS: usize = 3;

/// The message about a report: its first findings, in its order. `link` is where people reach the analyzer.
#[must_use]
pub fn message(report: &Report, link: Option<&str>) -> Value {
    let headline = format!("Goodput {}: {}", report.period.label, headline(report));
    let mut blocks = vec![
        json!({"type": "header", "text": {"type": "plain_text", "text": cut(&headline, MAX_HEADER)}}),
        section(&against(report)),
        section(&losses(report)),
    ];
    if let Some(base) = link {
        let url = format!("{}/report?week={}", base.trim_end_matches('/'), report.period.label);
        blocks.push(section(&format!("<{}|The whole report>", escaped(&url))));
    }
    json!({"text": escaped(&format!("{headline}. {}", report.against())), "blocks": blocks})
}

/// Goodput; with little data, that of the time with data, and how much that is.
fn headline(report: &Report) -> String {
    let headline = report.fleet.headline;
    let of = if headline.is_of_known { format!(" of the time with data; {}", report.covered()) } else { String::new() };
    format!("{}{of}", text::percent(headline.goodput))
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": cut(text, MAX_SECTION)}})
}

fn against(report: &Report) -> String {
    let fleet = &report.fleet;
    let money = if report.has_money() { format!(", {}", fleet.lost.money()) } else { String::new() };
    format!(
        "*{}* of goodput; {} of {} GPU-hours were lost{money}; {}. {}",
        text::percent(fleet.headline.goodput),
        fleet.lost.hours(),
        fleet.capacity.hours(),
        report.covered(),
        escaped(&report.against()),
    )
}

fn losses(report: &Report) -> String {
    let first = report.first_groups().iter().take(FINDINGS).enumerate();
    let lines: Vec<String> = first.map(|(n, group)| line(n + 1, group, report)).collect();
    if !lines.is_empty() {
        return lines.join("\n");
    }
    report.smaller_groups().unwrap_or_else(|| "No loss with a known cause.".into())
}

fn line(n: usize, group: &FindingGroup, report: &Report) -> String {
    let (hours, share) = (group.lost.hours(), group.lost.percent());
    let money = if report.has_money() { format!(", {}", group.lost.money()) } else { String::new() };
    let count = if group.findings.len() > 1 { format!(" ({})", group.count()) } else { String::new() };
    let subject = format!("{}{}", report.whose(group), report.within(&group.cluster));
    let (title, class) = (group.class.title(), group.class.name());
    format!("{n}. *{title}* ({class}): {hours} GPU-hours, {share} of capacity{money}: {}{count}", name(&subject))
}

/// On one line, not too long, escaped.
fn name(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    escaped(&cut(&one_line, MAX_NAME))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// No more than `max` characters; text that was cut ends in an ellipsis.
fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::report::{Period, build};
    use goodput_testing::bare;
    use goodput_verdict::{Class, Interval};

    const HOUR: i64 = 3_600_000;

    fn interval(class: Class, owner: &str, hours: i64, period: &Period) -> Interval {
        let span = period.start_ms..period.start_ms + hours * HOUR;
        Interval { owner: Some(owner.into()), ..bare(class, span) }
    }

    fn report(owner: &str) -> Report {
        let week = Period::iso_week("2026-W47", &TimeZone::UTC).unwrap();
        let before = week.previous();
        let losses = [(Class::IdleHeld, 4), (Class::DataloaderCpu, 3), (Class::ColdStart, 2), (Class::Checkpoint, 1)];
        let all = |class, hours, of: &Period| {
            let ms = hours * HOUR;
            Interval { ms, ..interval(class, owner, 168, of) }
        };
        let mut now: Vec<Interval> = losses.map(|(class, hours)| all(class, hours, &week)).into();
        now.push(all(Class::Productive, 30, &week));
        let then = [all(Class::Productive, 20, &before), all(Class::IdleHeld, 20, &before)];
        build(&now, &then, week, &[])
    }

    #[test]
    fn headline_change_three_findings_and_the_link() {
        let message = message(&report("a&b"), Some("https://goodput.example/"));
        let against =
            "Against 2026-W46: +25.0 points of goodput (then 50.0 % of 40.0 GPU-hours); lost: −10.0 GPU-hours.";
        assert_eq!(message["text"], format!("Goodput 2026-W47: 75.0 %. {against}"));
        let expected = json!([
            {"type": "header", "text": {"type": "plain_text", "text": "Goodput 2026-W47: 75.0 %"}},
            {"type": "section", "text": {"type": "mrkdwn", "text":
                format!("*75.0 %* of goodput; 10.0 of 40.0 GPU-hours were lost; 100 % of capacity has data. {against}")}},
            {"type": "section", "text": {"type": "mrkdwn", "text":
                "1. *Held without work* (idle_held): 4.00 GPU-hours, 10.0 % of capacity: a&amp;b\n\
                 2. *Late input from CPU workers* (dataloader_cpu): 3.00 GPU-hours, 7.5 % of capacity: a&amp;b\n\
                 3. *Starting up* (cold_start): 2.00 GPU-hours, 5.0 % of capacity: a&amp;b"}},
            {"type": "section", "text": {"type": "mrkdwn", "text":
                "<https://goodput.example/report?week=2026-W47|The whole report>"}},
        ]);
        assert_eq!(message["blocks"], expected);
    }

    #[test]
    fn hostile_names_stay_names_and_limits_hold() {
        let name = format!("<!channel>\n{}", "&".repeat(5000));
        let message = message(&report(&name), None);
        let text = message["blocks"][2]["text"]["text"].as_str().unwrap();
        assert!(text.contains("&lt;!channel&gt; &amp;") && !text.contains('<'), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.ends_with("&amp;…") && text.chars().count() <= MAX_SECTION, "{}", text.len());
    }

    #[test]
    fn a_cut_is_seen() {
        assert_eq!([cut("abcd", 4), cut("äöüß!", 4)], ["abcd", "äöü…"]);
    }

    #[test]
    fn nothing_known_is_said() {
        let empty = build(&[], &[], Period::iso_week("2026-W47", &TimeZone::UTC).unwrap(), &[]);
        let message = message(&empty, None);
        assert!(
            message["text"].as_str().unwrap().starts_with("Goodput 2026-W47: unknown. Change: no verdicts"),
            "{message}"
        );
        assert_eq!(message["blocks"][2]["text"]["text"], "No loss with a known cause.");
    }
}
