//! A message in the form that its destination takes. Pure.

use lettre::Message as Mail;
use serde::Serialize;
use serde_json::Value;

use super::letter::Letter;
use super::mail::{self, Cover};
use super::recipients::Recipient;
use super::target::{MailServer, Target, Way};
use super::unsubscribe::Key;
use super::{card, slack};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Message;

/// What is sent.
#[derive(Debug)]
pub enum Form {
    /// By SMTP.
    Mail(Box<Mail>),
    /// To a webhook.
    Json(Value),
}

/// What forms of all messages have in common.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// The server that takes mail.
    pub server: Option<&'a MailServer>,
    /// Where people reach the analyzer.
    pub link: Option<&'a str>,
    /// What signs links to unsubscribe.
    pub key: Option<&'a Key>,
    /// Marks what is not sent by the schedule; empty otherwise.
    pub mark: &'a str,
    /// Unix milliseconds.
    pub now: TimeMs,
}

/// A message as programs read it.
#[derive(Serialize)]
struct Posted<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// The same for every attempt.
    id: &'a str,
    destination: &'a str,
    contact: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mark: &'a str,
    version: u32,
    headline: String,
    #[serde(flatten)]
    letter: &'a Letter,
}

impl Form {
    /// The message to a recipient. `to` is the mailbox; that of the recipient, but for copies.
    pub fn of(
        target: &Target,
        (recipient, to): (&Recipient, &str),
        message: &Message,
        letter: &Letter,
        style: Style<'_>,
    ) -> anyhow::Result<Self> {
        Ok(match &target.way {
            Way::Mail(_) | Way::Directory(_) => {
                let server = style.server.ok_or_else(|| anyhow::anyhow!("report.mail: missing"))?;
                let link = style.link.zip(style.key);
                let unsubscribe = link.map(|(link, key)| key.link(link, &target.name, &recipient.contact));
                let cover = Cover {
                    from: &server.from,
                    to,
                    message_id: &message.message_id,
                    mark: style.mark,
                    unsubscribe: unsubscribe.as_deref(),
                    time_ms: style.now,
                };
                Self::Mail(Box::new(mail::mail(letter, &cover)?))
            }
            Way::Slack(_) => Self::Json(slack::message(letter, recipient.channel.as_deref(), style.mark)),
            Way::Teams(_) => Self::Json(card::message(letter, style.mark)),
            Way::Webhook(_) => Self::Json(serde_json::to_value(Posted {
                kind: "goodput.report",
                id: &message.message_id,
                destination: &target.name,
                contact: &recipient.contact,
                mark: style.mark,
                version: message.version,
                headline: letter.headline(),
                letter,
            })?),
        })
    }

    /// The ending of a file with it.
    #[must_use]
    pub fn ending(&self) -> &'static str {
        match self {
            Self::Mail(_) => "eml",
            Self::Json(_) => "json",
        }
    }

    /// As it is sent.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Mail(mail) => mail.formatted(),
            Self::Json(value) => value.to_string().into_bytes(),
        }
    }
}

impl Style<'_> {
    /// What stands behind the `@` of ids.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.server.map_or("goodput.invalid", |server| server.from.email.domain())
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::deliver::Address;
    use crate::deliver::outbox::{About, planned};
    use crate::deliver::target::{Audience, OnlyIf, Security};
    use crate::report::{Period, Report, build};
    use goodput_testing::bare;
    use goodput_verdict::{Class, Interval};

    const HOUR: i64 = 3_600_000;

    fn server() -> MailServer {
        MailServer {
            host: "localhost".into(),
            port: 25,
            security: Security::Tls,
            from: "Goodput <g@example.org>".parse().unwrap(),
            username: None,
            password_file: None,
            ca_file: None,
            insecure: true,
        }
    }

    /// A report whose owners have this name.
    fn report(owner: &str) -> Report {
        let week = Period::iso_week("2026-W47", &TimeZone::UTC).unwrap();
        let all = |class, hours: i64| {
            let span = week.start_ms..week.start_ms + hours * HOUR;
            Interval { owner: Some(owner.into()), ms: hours * HOUR, ..bare(class, span) }
        };
        let losses = [Class::IdleHeld, Class::ColdStart, Class::Checkpoint, Class::DataloaderCpu];
        build(&losses.map(|class| all(class, 4)), &[], week, &[])
    }

    fn form(way: Way, owner: &str, teams: usize, mark: &str) -> Form {
        let target = Target { name: "d".into(), way, teams: Audience::All, only_if: OnlyIf::Always, at_most: 5 };
        let (key_dir, server) = (tempfile::tempdir().unwrap(), server());
        let path = key_dir.path().join("key");
        std::fs::write(&path, [7; 32]).unwrap();
        let key = Key::of_file(&path).unwrap();
        let report = report(owner);
        let link = "https://g.example/";
        let letters = (0..teams).map(|n| Letter::of(&report, Some(&format!("{owner}{n}")), Some(link))).collect();
        let letter = Letter::joined(letters, Some(link)).unwrap_or_else(|| Letter::of(&report, None, Some(link)));
        let about = About { destination: "d", contact: "a@b.c", week: "2026-W47", edition: (1, 7), domain: "b.c" };
        let message = planned(&about, &letter.ids(), &Default::default(), OnlyIf::Always, 0);
        let recipient = Recipient { contact: "a@b.c".into(), teams: Vec::new(), channel: None };
        let style = Style { server: Some(&server), link: Some(link), key: Some(&key), mark, now: 1_795_413_600_000 };
        let letter = letter.naming(&message.findings);
        Form::of(&target, (&recipient, "a@b.c"), &message, &letter, style).unwrap()
    }

    fn mail(owner: &str, teams: usize, mark: &str) -> String {
        let form = form(Way::Mail(Vec::new()), owner, teams, mark);
        assert_eq!(form.ending(), "eml");
        String::from_utf8(form.bytes()).unwrap()
    }

    #[test]
    fn a_mail_is_text_and_html_and_can_be_ended() {
        let text = mail("train-0", 0, "");
        for header in [
            "From: Goodput <g@example.org>\r\n",
            "To: a@b.c\r\n",
            "Subject: Goodput 2026-W47: 0 %\r\n",
            "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
            "List-Unsubscribe: <https://g.example/unsubscribe?destination=d&contact=a%40b.c&token=",
            "Auto-Submitted: auto-generated\r\n",
            "Content-Type: multipart/alternative;",
            "Content-Type: text/plain; charset=utf-8",
            "Content-Type: text/html; charset=utf-8",
        ] {
            assert!(text.contains(header), "{header}\nis not in\n{text}");
        }
        assert_eq!(text, mail("train-0", 0, ""), "the same mail has the same bytes");
        assert!(mail("train-0", 0, "[test] ").contains("Subject: [test] Goodput"));
    }

    #[test]
    fn no_name_makes_a_mail_load_run_or_grow() {
        let owner =
            format!("<script src=//evil.example/x></script><img src=\"https://evil.example/\">\n{}", "ä".repeat(4000));
        let text = mail(&owner, 60, "");
        assert!(text.len() < mail::MAX_BYTES, "{} bytes", text.len());
        let lower = text.to_ascii_lowercase();
        for tag in ["<script", "<img", "<link", "<iframe", "@import", "url(", "onload"] {
            assert!(!lower.contains(tag), "{tag}");
        }
    }

    #[test]
    fn a_card_has_its_size_whatever_names_are_like() {
        let way = || Way::Teams(Address::File("/f".into()));
        for (owner, teams) in [("train-0", 0), ("train-0", 60), (&*"[x](y)*ä".repeat(900), 60)] {
            let bytes = form(way(), owner, teams, "").bytes();
            assert!(bytes.len() <= card::MAX_BYTES, "{} bytes", bytes.len());
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let content = &value["attachments"][0]["content"];
            assert_eq!((&content["type"], &content["version"]), (&"AdaptiveCard".into(), &"1.4".into()));
            let containers = content["body"].as_array().unwrap().iter().filter(|block| block["type"] == "Container");
            assert_eq!(containers.count(), 3);
        }
    }

    #[test]
    fn programs_get_an_id_and_every_finding_in_figures() {
        let form = form(Way::Webhook(Address::File("/f".into())), "train-0", 0, "");
        assert_eq!(form.ending(), "json");
        let value: Value = serde_json::from_slice(&form.bytes()).unwrap();
        assert_eq!((&value["type"], &value["week"]), (&"goodput.report".into(), &"2026-W47".into()));
        assert_eq!(value["findings"].as_array().map(Vec::len), Some(3));
        assert!(value["id"].as_str().unwrap().ends_with("@b.c") && value["mark"].is_null(), "{value}");
    }
}
