//! The message: a JSON body in the form of Slack's incoming webhooks, which Mattermost, Rocket.Chat and others take too.
//!
//! Limits: 150 characters in a header block, 3,000 in a section's text
//! (docs.slack.dev/reference/block-kit/blocks/header-block and section-block). `&`, `<` and `>` are written as entities
//! (docs.slack.dev/messaging/formatting-message-text); escaped so, no name can mention a channel or become a link.

use serde_json::{Value, json};

use super::letter::{Letter, Part, Told, cut};

/// Longest text of a header block.
const MAX_HEADER: usize = 150;
/// Longest text of a section block.
const MAX_SECTION: usize = 3000;

/// The message. `channel` is for receivers that post where a message says, as Mattermost does; `mark` stands before it.
#[must_use]
pub fn message(letter: &Letter, channel: Option<&str>, mark: &str) -> Value {
    let headline = format!("{mark}{}", letter.headline());
    let mut blocks =
        vec![json!({"type": "header", "text": {"type": "plain_text", "text": cut(&headline, MAX_HEADER)}})];
    let parts: Vec<String> = letter.about.iter().map(part).collect();
    blocks.push(section(&parts.join("\n")));
    let lines: Vec<String> = letter.findings.iter().enumerate().map(|(n, told)| line(n + 1, told)).collect();
    blocks.push(section(&lines.into_iter().chain(letter.more.clone()).collect::<Vec<_>>().join("\n")));
    if let Some(url) = &letter.link {
        blocks.push(section(&format!("<{}|The whole report>", escaped(url))));
    }
    let against = letter.about.first().filter(|_| letter.about.len() == 1).map_or("", |part| part.against.as_str());
    let mut message = json!({"text": escaped(format!("{headline}. {against}").trim_end()), "blocks": blocks});
    if let Some(channel) = channel {
        message["channel"] = channel.into();
    }
    message
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": cut(text, MAX_SECTION)}})
}

fn part(part: &Part) -> String {
    let Part { team, goodput, figures, against, .. } = part;
    let of = team.as_ref().map_or_else(String::new, |team| format!("{}: ", escaped(team)));
    format!("{of}*{goodput}* {figures} {}", escaped(against))
}

fn line(n: usize, told: &Told) -> String {
    let Told { title, class, gpu_hours, share, subject, .. } = told;
    let cost = told.cost.as_ref().map_or_else(String::new, |cost| format!(", {cost}"));
    let count = told.count.as_ref().map_or_else(String::new, |count| format!(" ({count})"));
    format!("{n}. *{title}* ({class}): {gpu_hours} GPU-hours, {share} of capacity{cost}: {}{count}", escaped(subject))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::report::{Period, Report, build};
    use goodput_testing::bare;
    use goodput_verdict::{Class, Interval};

    const HOUR: i64 = 3_600_000;

    fn interval(class: Class, owner: &str, hours: i64, period: &Period) -> Interval {
        let span = period.start_ms..period.start_ms + hours * HOUR;
        Interval { owner: Some(owner.into()), ..bare(class, span) }
    }

    fn posted(report: &Report, link: Option<&str>) -> Value {
        let letter = Letter::of(report, None, link);
        let ids: Vec<String> = letter.ids().into_iter().map(str::to_owned).collect();
        message(&letter.naming(&ids), None, "")
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
        let message = posted(&report("a&b"), Some("https://goodput.example/"));
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
        let message = posted(&report(&name), None);
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
        let message = posted(&empty, None);
        assert!(
            message["text"].as_str().unwrap().starts_with("Goodput 2026-W47: unknown. Change: no verdicts"),
            "{message}"
        );
        assert_eq!(message["blocks"][2]["text"]["text"], "No loss with a known cause.");
    }
}
