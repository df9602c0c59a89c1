//! The section about delivering reports.

use std::fmt;

use goodput_settings::kind::{Path, Unset};
use goodput_settings::{Kind, settings};
use jiff::civil::{Time, Weekday};
use serde_saphyr::Spanned;

use super::destinations::{self, destinations, mail};
use super::file::text;
use super::rows;
use super::yaml::{Fields, Mistake, Value, line};
use crate::deliver::{Address, Settings, webhook};
use crate::schedule::Schedule;

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

settings! {
    /// What reports show.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Shown: "report" {}
    first_at_least: Unset<Sum> = None,
        "A finding that costs this much, in the currency of the prices, is in \"What to do first\", also below 0.5 % of capacity.";
}

/// An amount of money.
pub struct Sum;

impl Kind for Sum {
    type Value = f64;
    const EXPECTED: &'static str = "an amount of money above 0, such as 100";

    fn read(text: &str) -> Option<f64> {
        text.parse().ok().filter(|amount: &f64| *amount > 0.0 && amount.is_finite())
    }

    fn write(value: &f64) -> Option<String> {
        Some(value.to_string())
    }
}

/// Reads the section: how reports are delivered, none when something of it is wrong or nothing is said of it; and what
/// they show.
pub(super) fn report(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> (Option<Settings>, Shown) {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let mut shown = Shown::default();
    rows::read(&mut shown, &mut fields, mistakes);
    let is_delivered = !fields.is_empty() || shown == Shown::default();
    let settings = if is_delivered { delivery(name, value, fields, mistakes) } else { None };
    (settings, shown)
}

fn delivery(
    name: &str,
    value: &Spanned<Value>,
    mut fields: Fields<'_>,
    mistakes: &mut Vec<Mistake>,
) -> Option<Settings> {
    let schedule = match fields.take("schedule") {
        Some((name, value)) => schedule(&name, value, mistakes),
        None => {
            mistakes.push(Mistake { line: line(value), text: format!("{name}.schedule: missing") });
            None
        }
    };
    let server = fields.take("mail").map(|(name, value)| mail(&name, value, mistakes));
    let has_mail = server.is_some();
    let targets = fields.take("destinations");
    let targets = targets.map(|(name, value)| destinations((&name, value), has_mail, mistakes));
    let webhook = fields.take("webhook").map(|(name, value)| address(&name, value, mistakes));
    let mut settings = Settings::default();
    rows::read(&mut settings, &mut fields, mistakes);
    fields.finish(mistakes);
    if settings.directory.is_none() && webhook.is_none() && targets.is_none() {
        let text =
            format!("{name}: expected destinations, a directory or a webhook, so that there is where to deliver to");
        mistakes.push(Mistake { line: line(value), text });
    }
    let (targets, mail) = (targets.unwrap_or_default(), server.flatten());
    Some(Settings { schedule: schedule?, webhook: webhook.flatten(), targets, mail, ..settings })
}

fn schedule(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Schedule> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let weekday = fields.required("weekday", mistakes, weekday);
    let time = fields.required("time", mistakes, time);
    fields.finish(mistakes);
    Some(Schedule { weekday: weekday?, time: time? })
}

fn weekday(value: &Value) -> Result<Weekday, String> {
    let named = |word: &str| WEEKDAYS.iter().find(|(name, _)| *name == word).map(|(_, weekday)| *weekday);
    text(value).and_then(named).ok_or_else(|| format!("one of {}", WEEKDAYS.map(|(name, _)| name).join(", ")))
}

fn time(value: &Value) -> Result<Time, String> {
    let whole = text(value).filter(|text| text.len() == "06:00".len());
    whole.and_then(|text| Time::strptime("%H:%M", text).ok()).ok_or_else(|| "a time of day such as \"06:00\"".into())
}

/// The address or the file that holds it. A mistake does not show what was found: it may be most of a secret.
fn address(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Address> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let file = fields
        .optional("url_file", None, mistakes, |value| rows::of::<Path>(value).map(|path| Some(Address::File(path))));
    let plain = fields.take("url").map(|(name, value)| {
        let url = text(&value.value).filter(|text| webhook::parse(text).is_some());
        if url.is_none() {
            mistakes.push(Mistake { line: line(value), text: format!("{name}: expected {}", webhook::EXPECTED) });
        }
        Address::Plain(url.unwrap_or_default().to_owned())
    });
    fields.finish(mistakes);
    if file.is_some() == plain.is_some() {
        mistakes.push(Mistake { line: line(value), text: format!("{name}: expected either url_file or url") });
    }
    file.or(plain)
}

/// In the file's own form, but for an address that stands in the file itself: it is a secret.
pub(super) fn write(settings: Option<&Settings>, shown: &Shown, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if settings.is_none() && *shown == Shown::default() {
        return Ok(());
    }
    writeln!(f, "report:")?;
    settings.map_or(Ok(()), |settings| write_delivery(settings, f))?;
    rows::write(shown, f)
}

fn write_delivery(settings: &Settings, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Schedule { weekday, time } = settings.schedule;
    let weekday = WEEKDAYS.iter().find(|(_, other)| *other == weekday).map_or("", |(name, _)| *name);
    let time = time.strftime("%H:%M");
    writeln!(f, "  schedule: {{weekday: {weekday}, time: \"{time}\"}}")?;
    match &settings.webhook {
        Some(Address::File(path)) => writeln!(f, "  webhook: {{url_file: {:?}}}", path.display().to_string())?,
        Some(Address::Plain(_)) => writeln!(f, "  # webhook: {{url: not shown}}")?,
        None => {}
    }
    destinations::write(&settings.targets, settings.mail.as_ref(), f)?;
    rows::write(settings, f)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    const WHOLE: &str = "report:\n  schedule: {weekday: friday, time: 16:30}\n  directory: /var/lib/goodput/reports\n  \
                         webhook: {url_file: /etc/goodput/slack-url}\n  link: https://goodput.example/\n  settle: 90s\n";

    #[test]
    fn a_whole_section_is_read_and_printed() {
        let config = Config::parse(WHOLE).unwrap();
        let expected = Settings {
            schedule: Schedule { weekday: Weekday::Friday, time: Time::constant(16, 30, 0, 0) },
            directory: Some("/var/lib/goodput/reports".into()),
            webhook: Some(Address::File("/etc/goodput/slack-url".into())),
            link: Some("https://goodput.example/".into()),
            settle: Duration::from_secs(90),
            ..Settings::default()
        };
        assert_eq!(config.report, Some(expected.clone()));
        assert_eq!(Config::parse(&config.to_string()).unwrap().report, Some(expected));
    }

    #[test]
    fn a_plain_address_is_taken_and_not_printed() {
        let text = "report: {schedule: {weekday: monday, time: '06:00'}, webhook: {url: 'https://h.example/secret'}}";
        let config = Config::parse(text).unwrap();
        let shown = format!("{config} {config:?}");
        assert!(!shown.contains("secret"), "{shown}");
        let webhook = config.report.and_then(|report| report.webhook);
        assert_eq!(webhook, Some(Address::Plain("https://h.example/secret".into())));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        const SCHEDULE: &str = "report:\n  schedule: {weekday: monday, time: '06:00'}\n";
        for (file, errors) in [
            (
                "report: {directory: /r, schedule: {weekday: Mon, time: '6:00'}}".to_owned(),
                &[
                    "1: report.schedule.time: expected a time of day such as \"06:00\", found \"6:00\"",
                    "1: report.schedule.weekday: expected one of monday, tuesday, wednesday, thursday, friday, \
                     saturday, sunday, found \"Mon\"",
                ][..],
            ),
            (
                "report:\n  directory: /r\n  schedule: {weekday: monday, time: '24:00'}\n".into(),
                &["3: report.schedule.time: expected a time of day such as \"06:00\", found \"24:00\""],
            ),
            ("report: {directory: /r}".into(), &["1: report.schedule: missing"]),
            (
                SCHEDULE.into(),
                &["2: report: expected destinations, a directory or a webhook, so that there is where to deliver to"],
            ),
            (
                format!("{SCHEDULE}  webhook: {{url: 'ftp://secret'}}\n"),
                &["3: report.webhook.url: expected an http or https URL such as https://hooks.slack.com/services/…"],
            ),
            (
                format!("{SCHEDULE}  webhook: {{url: 'http://h/', url_file: /f}}\n"),
                &["3: report.webhook: expected either url_file or url"],
            ),
            (format!("{SCHEDULE}  webhook: {{}}\n"), &["3: report.webhook: expected either url_file or url"]),
            (
                format!("{SCHEDULE}  directory: /r\n  link: goodput.example\n"),
                &[
                    "4: report.link: expected an http or https URL such as https://goodput.example/, found \"goodput.example\"",
                ],
            ),
        ] {
            let mistakes = Config::parse(&file).unwrap_err();
            let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
            assert_eq!(shown, errors, "{file}");
        }
    }
}
