//! `report.destinations` and `report.mail`: who gets messages about reports, and how.

use std::collections::BTreeSet;
use std::fmt;

use goodput_settings::kind::{Count, Path, Switch};
use lettre::Address as MailAddress;
use lettre::message::Mailbox;
use serde_saphyr::Spanned;

use super::file::{non_empty, text};
use super::rows;
use super::yaml::{Fields, Mistake, Value, line, list, scalar};
use crate::deliver::target::{AT_MOST, Audience, MailServer, OnlyIf, Security, Target, Way, is_loopback};
use crate::deliver::{Address, Destination};
use crate::teams::Team;

const KINDS: [&str; 5] = ["smtp", "slack", "teams", "webhook", "directory"];

/// Reads the list. Mail needs a server.
pub(super) fn destinations(
    (name, value): (&str, &Spanned<Value>),
    has_mail: bool,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Target> {
    let (mut targets, mut names) = (Vec::new(), BTreeSet::new());
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}].");
        let Some(target) = target(&path, item, mistakes) else { continue };
        let mut mistake = |text| mistakes.push(Mistake { line: line(item), text });
        if !names.insert(target.name.clone()) {
            mistake(format!("{path}name: {:?} is listed twice", target.name));
        }
        if matches!(target.way, Way::Mail(_)) && !has_mail {
            mistake(format!("{path}kind: expected report.mail, the server that takes mail, for smtp"));
        }
        if matches!(target.way, Way::Directory(_)) && target.teams != Audience::Fleet {
            mistake(format!("{path}teams: expected nothing for directory, which has the whole report"));
        }
        targets.push(target);
    }
    targets
}

fn target(path: &str, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Target> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let name = fields.required("name", mistakes, target_name);
    let kind = fields.required("kind", mistakes, |value| one_of(value, &KINDS));
    let to = fields.take("to");
    let way = match (kind, to) {
        (Some(kind), Some((name, value))) => way(kind, &name, value, mistakes),
        (Some(_), None) => {
            mistakes.push(Mistake { line: line(item), text: format!("{path}to: missing") });
            None
        }
        (None, _) => None,
    };
    let teams = fields.section("teams", mistakes, audience);
    let only_if =
        fields.optional("only_if", OnlyIf::default(), mistakes, |value| named(value, OnlyIf::ALL, OnlyIf::name));
    let at_most = fields.optional("at_most", AT_MOST, mistakes, rows::of::<Count>);
    fields.finish(mistakes);
    Some(Target { name: name?, way: way?, teams, only_if, at_most })
}

/// It stands in metrics and in names of files.
fn target_name(value: &Value) -> Result<String, String> {
    let name = non_empty(value)?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let is_taken = Destination::ALL.iter().any(|taken| taken.name() == name);
    let expected = "a name of letters, digits, - and _, other than directory and webhook";
    if is_plain && !is_taken { Ok(name) } else { Err(expected.to_owned()) }
}

fn one_of<'n>(value: &Value, names: &[&'n str]) -> Result<&'n str, String> {
    let known = text(value).and_then(|text| names.iter().find(|name| **name == text));
    known.copied().ok_or_else(|| format!("one of {}", names.join(", ")))
}

fn named<T: Copy>(value: &Value, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    let known = one_of(value, &names)?;
    all.iter().copied().find(|one| name(*one) == known).ok_or_else(|| format!("one of {}", names.join(", ")))
}

fn way(kind: &str, name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Way> {
    match kind {
        "smtp" => addresses(name, value, mistakes).map(Way::Mail),
        "directory" => scalar(name, value, mistakes, rows::of::<Path>).map(Way::Directory),
        "slack" => url(name, value, mistakes).map(Way::Slack),
        "teams" => url(name, value, mistakes).map(Way::Teams),
        _ => url(name, value, mistakes).map(Way::Webhook),
    }
}

/// Addresses of mail: a list, or one.
fn addresses(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Vec<MailAddress>> {
    let Value::List(items) = &value.value else {
        return scalar(name, value, mistakes, mail_address).map(|one| vec![one]);
    };
    let before = mistakes.len();
    let read = |(n, item)| scalar(&format!("{name}[{n}]"), item, mistakes, mail_address);
    let all: Vec<MailAddress> = items.iter().enumerate().filter_map(read).collect();
    if all.is_empty() && mistakes.len() == before {
        mistakes.push(Mistake { line: line(value), text: format!("{name}: expected an address of mail or more") });
    }
    (!all.is_empty()).then_some(all)
}

fn mail_address(value: &Value) -> Result<MailAddress, String> {
    let read = text(value).and_then(|text| text.parse().ok());
    read.ok_or_else(|| "an address of mail such as ml@example.org".to_owned())
}

/// An address of a webhook is a secret: a file has it.
fn url(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Address> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let file = fields.required("url_file", mistakes, rows::of::<Path>);
    fields.finish(mistakes);
    file.map(Address::File)
}

fn audience(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Audience {
    let expected = || "all, owners or a list of teams".to_owned();
    let Value::List(items) = &value.value else {
        let read = |value: &Value| match text(value) {
            Some("all") => Ok(Audience::All),
            Some("owners") => Ok(Audience::Owners),
            _ => Err(expected()),
        };
        return scalar(name, value, mistakes, read).unwrap_or_default();
    };
    let read = |(n, item)| scalar(&format!("{name}[{n}]"), item, mistakes, non_empty);
    let names: Vec<String> = items.iter().enumerate().filter_map(read).collect();
    if names.is_empty() { Audience::Fleet } else { Audience::Named(names) }
}

/// Reads the mail server.
pub(super) fn mail(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<MailServer> {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let host = fields.required("host", mistakes, non_empty);
    let port = fields.optional("port", None, mistakes, |value| port(value).map(Some));
    let security =
        fields.optional("security", Security::default(), mistakes, |v| named(v, Security::ALL, Security::name));
    let from = fields.required("from", mistakes, mailbox);
    let username = fields.optional("username", None, mistakes, |value| non_empty(value).map(Some));
    let password_file = fields.optional("password_file", None, mistakes, |value| rows::of::<Path>(value).map(Some));
    let ca_file = fields.optional("ca_file", None, mistakes, |value| rows::of::<Path>(value).map(Some));
    let insecure = fields.optional("insecure", false, mistakes, rows::of::<Switch>);
    fields.finish(mistakes);
    let mut mistake = |text| mistakes.push(Mistake { line: line(value), text });
    if username.is_some() != password_file.is_some() {
        mistake(format!("{name}: expected both username and password_file, or neither"));
    }
    if insecure && host.as_ref().is_some_and(|host| !is_loopback(host)) {
        mistake(format!("{name}.insecure: expected false for a host other than localhost, 127.0.0.1 or ::1"));
    }
    let port = port.unwrap_or_else(|| MailServer::default_port(security, insecure));
    Some(MailServer { host: host?, port, security, from: from?, username, password_file, ca_file, insecure })
}

fn port(value: &Value) -> Result<u16, String> {
    let read = text(value).and_then(|text| text.parse().ok()).filter(|port| *port > 0);
    read.ok_or_else(|| "a port from 1 to 65535".to_owned())
}

fn mailbox(value: &Value) -> Result<Mailbox, String> {
    let read = text(value).and_then(|text| text.parse().ok());
    read.ok_or_else(|| "an address of mail such as \"Goodput <goodput@example.org>\"".to_owned())
}

/// Teams that destinations name and the list does not have.
pub(super) fn unknown_teams(root: &Spanned<Value>, teams: &[Team]) -> Vec<Mistake> {
    let listed = |value: &'_ Value| matches!(value, Value::List(_));
    let mut mistakes = Vec::new();
    let of_report = field(root, "report").and_then(|report| field(report, "destinations"));
    let Some(Value::List(items)) = of_report.map(|value| &value.value) else { return mistakes };
    for (n, item) in items.iter().enumerate() {
        let Some(names) = field(item, "teams").filter(|value| listed(&value.value)) else { continue };
        let Value::List(names) = &names.value else { continue };
        for (m, name) in names.iter().enumerate() {
            let is_known = |known: &str| teams.iter().any(|team| team.name == known);
            if text(&name.value).is_some_and(|name| !is_known(name)) {
                let text =
                    format!("report.destinations[{n}].teams[{m}]: expected a team of the list, found {}", name.value);
                mistakes.push(Mistake { line: line(name), text });
            }
        }
    }
    mistakes
}

fn field<'v>(value: &'v Spanned<Value>, key: &str) -> Option<&'v Spanned<Value>> {
    match &value.value {
        Value::Map(entries) => entries.iter().find(|(name, _)| name.value == key).map(|(_, value)| value),
        _ => None,
    }
}

/// In the file's own form.
pub(super) fn write(targets: &[Target], server: Option<&MailServer>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(server) = server {
        let MailServer { host, port, security, from, username, password_file, ca_file, insecure } = server;
        write!(f, "  mail: {{host: {host:?}, port: {port}, security: {}", security.name())?;
        write!(f, ", from: {:?}", from.to_string())?;
        if let Some(username) = username {
            write!(f, ", username: {username:?}")?;
        }
        for (key, path) in [("password_file", password_file), ("ca_file", ca_file)] {
            if let Some(path) = path {
                write!(f, ", {key}: {:?}", path.display().to_string())?;
            }
        }
        writeln!(f, ", insecure: {insecure}}}")?;
    }
    if !targets.is_empty() {
        writeln!(f, "  destinations:")?;
    }
    targets.iter().try_for_each(|target| write_target(target, f))
}

fn write_target(target: &Target, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Target { name, way, teams, only_if, at_most } = target;
    write!(f, "  - {{name: {name:?}, kind: {}, to: ", way.kind())?;
    match way {
        Way::Mail(to) => write!(f, "{:?}", to.iter().map(ToString::to_string).collect::<Vec<_>>())?,
        Way::Directory(path) => write!(f, "{:?}", path.display().to_string())?,
        Way::Slack(Address::File(path)) | Way::Teams(Address::File(path)) | Way::Webhook(Address::File(path)) => {
            write!(f, "{{url_file: {:?}}}", path.display().to_string())?;
        }
        Way::Slack(_) | Way::Teams(_) | Way::Webhook(_) => f.write_str("{}")?,
    }
    writeln!(f, ", teams: {teams}, only_if: {}, at_most: {at_most}}}", only_if.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const WHOLE: &str = "\
teams:
- {name: vision, match: [{account: cv}]}
report:
  schedule: {weekday: monday, time: '06:00'}
  mail: {host: mail.example.org, from: 'Goodput <goodput@example.org>', username: u, password_file: /etc/p}
  destinations:
  - {name: people, kind: smtp, to: [ops@example.org, b@example.org], teams: all, only_if: always, at_most: 20}
  - {name: heads, kind: smtp, to: heads@example.org, teams: [vision]}
  - {name: chat, kind: slack, to: {url_file: /etc/s}}
  - {name: ms, kind: teams, to: {url_file: /etc/t}, teams: owners}
  - {name: hook, kind: webhook, to: {url_file: /etc/w}}
  - {name: files, kind: directory, to: /var/reports}
";

    #[test]
    fn every_kind_is_read_and_printed() {
        let config = Config::parse(WHOLE).unwrap();
        let settings = config.report.clone().unwrap();
        let kinds: Vec<_> = settings.targets.iter().map(|t| (t.name.as_str(), t.way.kind())).collect();
        let expected = [
            ("people", "smtp"),
            ("heads", "smtp"),
            ("chat", "slack"),
            ("ms", "teams"),
            ("hook", "webhook"),
            ("files", "directory"),
        ];
        assert_eq!(kinds, expected);
        let [people, heads] = [&settings.targets[0], &settings.targets[1]];
        assert_eq!((people.at_most, people.only_if, &people.teams), (20, OnlyIf::Always, &Audience::All));
        let named = Audience::Named(vec!["vision".to_owned()]);
        assert_eq!((heads.at_most, heads.only_if, &heads.teams), (500, OnlyIf::Findings, &named));
        let server = settings.mail.clone().unwrap();
        assert_eq!((server.port, server.security, server.insecure), (587, Security::StartTls, false));
        let printed = config.to_string();
        let again = Config::parse(&printed).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{printed}"));
        assert_eq!(again.report, Some(settings));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        const HEAD: &str = "report:\n  schedule: {weekday: monday, time: '06:00'}\n";
        const MAIL: &str = "  mail: {host: m.example.org, from: g@example.org}\n";
        for (lines, errors) in [
            ("  destinations: x\n", &["3: report.destinations: expected a list, found \"x\""][..]),
            (
                "  destinations:\n  - {name: 'a b', kind: pigeon, to: x}\n",
                &[
                    "4: report.destinations[0].kind: expected one of smtp, slack, teams, webhook, directory, found \"pigeon\"",
                    "4: report.destinations[0].name: expected a name of letters, digits, - and _, other than directory and \
                     webhook, found \"a b\"",
                ],
            ),
            (
                "  destinations:\n  - {name: a, kind: smtp, to: a@example.org}\n",
                &["4: report.destinations[0].kind: expected report.mail, the server that takes mail, for smtp"],
            ),
            (
                "MAIL  destinations:\n  - {name: a, kind: smtp, to: nobody, at_most: 0, only_if: never}\n",
                &[
                    "5: report.destinations[0].at_most: expected a whole number above 0, found \"0\"",
                    "5: report.destinations[0].only_if: expected one of findings, always, found \"never\"",
                    "5: report.destinations[0].to: expected an address of mail such as ml@example.org, found \"nobody\"",
                ],
            ),
            (
                "  destinations:\n  - {name: a, kind: slack, to: {url: 'https://h.example/x'}}\n",
                &[
                    "4: report.destinations[0].to.url: unknown key, expected one of url_file",
                    "4: report.destinations[0].to.url_file: missing",
                ],
            ),
            (
                "MAIL  destinations:\n  - {name: a, kind: smtp, to: []}\n  - {name: a, kind: directory, to: /r, teams: all}\n",
                &[
                    "5: report.destinations[0].to: expected an address of mail or more",
                    "6: report.destinations[1].teams: expected nothing for directory, which has the whole report",
                ],
            ),
            (
                "  destinations:\n  - {name: a, kind: directory, to: /r}\n  - {name: a, kind: directory, to: /s}\n",
                &["5: report.destinations[1].name: \"a\" is listed twice"],
            ),
            (
                "  destinations:\n  - {name: a, kind: webhook, to: {url_file: /f}, teams: [x, y]}\nteams: [{name: x}]\n",
                &["4: report.destinations[0].teams[1]: expected a team of the list, found \"y\""],
            ),
            (
                "  destinations:\n  - {name: a, kind: webhook, to: {url_file: /f}, teams: some}\n  - {name: b, kind: slack}\n",
                &[
                    "4: report.destinations[0].teams: expected all, owners or a list of teams, found \"some\"",
                    "5: report.destinations[1].to: missing",
                ],
            ),
            (
                "  directory: /r\n  mail: {host: m.example.org, from: x, insecure: true, username: u, port: 0}\n",
                &[
                    "4: report.mail.from: expected an address of mail such as \"Goodput <goodput@example.org>\", found \"x\"",
                    "4: report.mail.insecure: expected false for a host other than localhost, 127.0.0.1 or ::1",
                    "4: report.mail.port: expected a port from 1 to 65535, found \"0\"",
                    "4: report.mail: expected both username and password_file, or neither",
                ],
            ),
        ] {
            let file = format!("{HEAD}{}", lines.replace("MAIL", MAIL));
            let mistakes = Config::parse(&file).unwrap_err();
            let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
            assert_eq!(shown, errors, "{file}");
        }
    }
}
