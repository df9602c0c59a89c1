//! The list `teams` of the configuration file, or of the file that `teams_file` names, and the section `showback`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use goodput_settings::{Kind, settings};
use jiff::tz::TimeZone;
use serde_saphyr::Spanned;

use super::file::{ConfigError, non_empty, text};
use super::prices::{date, first_instant};
use super::yaml::{Fields, Mistake, Value, line, list, parse, scalar};
use crate::teams::{Channel, Contact, Field, PLATFORM, Pattern, Spread, Team, UNASSIGNED, ValidFrom};

settings! {
    /// How shared loss is charged.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Showback: "showback" {}
    spread: Spreading = Spread::None,
        "What becomes of loss that all teams share: `none` leaves it on the line `platform`, `by_allocation` divides it by the GPU time that each line held.";
}

/// A [`Spread`].
pub struct Spreading;

impl Kind for Spreading {
    type Value = Spread;
    const EXPECTED: &'static str = "none or by_allocation";

    fn read(text: &str) -> Option<Spread> {
        Spread::ALL.iter().copied().find(|spread| spread.name() == text)
    }

    fn write(value: &Spread) -> Option<String> {
        Some(value.name().to_owned())
    }
}

/// Reads the list; dates are days of the zone.
pub(super) fn teams(name: &str, value: &Spanned<Value>, zone: &TimeZone, mistakes: &mut Vec<Mistake>) -> Vec<Team> {
    let mut entries: Vec<Entry> = Vec::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}].");
        let Some(team) = team(&path, item, zone, mistakes) else { continue };
        let is_same = |other: &Entry| other.team.name == team.name && other.team.valid_from == team.valid_from;
        if entries.iter().any(is_same) {
            let text = format!(
                "{path}name: {:?} is listed twice; entries of one team are each valid from another day",
                team.name
            );
            mistakes.push(Mistake { line: line(item), text });
        }
        entries.push(Entry { team, path, line: line(item) });
    }
    parents(&entries, mistakes);
    entries.into_iter().map(|entry| entry.team).collect()
}

/// An entry, and where it is.
struct Entry {
    team: Team,
    path: String,
    line: u64,
}

fn team(path: &str, item: &Spanned<Value>, zone: &TimeZone, mistakes: &mut Vec<Mistake>) -> Option<Team> {
    let mut fields = Fields::of(item, path.to_owned(), mistakes);
    let name = fields.required("name", mistakes, team_name);
    let patterns = fields.section("match", mistakes, patterns);
    let parent = fields.optional("parent", None, mistakes, |value| non_empty(value).map(Some));
    let cost_centre = fields.optional("cost_centre", None, mistakes, |value| non_empty(value).map(Some));
    let contacts = fields.section("contacts", mistakes, contacts);
    let day = fields.optional("valid_from", None, mistakes, |value| date(value).map(Some));
    fields.finish(mistakes);
    let valid_from = day.and_then(|day| Some(ValidFrom::new(day, first_instant(day, zone)?)));
    Some(Team { name: name?, patterns, parent, cost_centre, contacts, valid_from })
}

fn team_name(value: &Value) -> Result<String, String> {
    let name = non_empty(value)?;
    let is_taken = [UNASSIGNED, PLATFORM].contains(&name.as_str());
    if is_taken { Err(format!("a name other than {UNASSIGNED} and {PLATFORM}")) } else { Ok(name) }
}

fn patterns(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<Pattern> {
    let names = Field::ALL.iter().map(|field| (field.name(), *field));
    let expected = "one of account, namespace, owner and node, such as {account: 'ml-*'}";
    let all = one_key_each(name, value, mistakes, &names.collect::<Vec<_>>(), expected, pattern);
    all.into_iter().map(|(field, text)| Pattern { field, text }).collect()
}

fn pattern(value: &Value) -> Result<String, String> {
    let some = text(value).filter(|text| !text.is_empty());
    some.map(str::to_owned).ok_or_else(|| "a name, in which * stands for any others, such as ml-*".into())
}

fn contacts(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<Contact> {
    let names = Channel::ALL.iter().map(|channel| (channel.name(), *channel));
    let expected = "one of mail, slack and teams, such as {mail: ml@example.org}";
    let all = one_key_each(name, value, mistakes, &names.collect::<Vec<_>>(), expected, non_empty);
    let mut contacts = Vec::new();
    for (channel, to) in all {
        let is_mail = to.split_once('@').is_some_and(|(who, host)| !who.is_empty() && !host.is_empty());
        if channel == Channel::Mail && (!is_mail || to.contains(char::is_whitespace)) {
            let text = format!("{name}: expected an address of mail such as ml@example.org, found {to:?}");
            mistakes.push(Mistake { line: line(value), text });
        }
        contacts.push(Contact { channel, to });
    }
    contacts
}

/// A list of mappings of one key each.
fn one_key_each<K: Copy>(
    name: &str,
    value: &Spanned<Value>,
    mistakes: &mut Vec<Mistake>,
    keys: &[(&str, K)],
    expected: &str,
    read: fn(&Value) -> Result<String, String>,
) -> Vec<(K, String)> {
    let mut all = Vec::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}]");
        let entry = match &item.value {
            Value::Map(entries) if entries.len() == 1 => entries.first(),
            _ => None,
        };
        let known = entry.and_then(|(key, value)| Some((keys.iter().find(|(known, _)| *known == key.value)?, value)));
        match known {
            Some(((key, kind), value)) => {
                all.extend(scalar(&format!("{path}.{key}"), value, mistakes, read).map(|text| (*kind, text)));
            }
            None => {
                let found = entry.map_or_else(|| item.value.to_string(), |(key, _)| format!("{:?}", key.value));
                let text = format!("{path}: expected {expected}, found {found}");
                mistakes.push(Mistake { line: line(item), text });
            }
        }
    }
    all
}

/// A parent is a team, and no team is part of itself, whatever the day.
fn parents(entries: &[Entry], mistakes: &mut Vec<Mistake>) {
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.team.name.as_str()).collect();
    for Entry { team, path, line } in entries {
        if let Some(parent) = team.parent.as_ref().filter(|parent| !names.contains(parent.as_str())) {
            let text = format!("{path}parent: expected the name of a team of this list, found {parent:?}");
            mistakes.push(Mistake { line: *line, text });
        }
    }
    let since = |entry: &Entry| entry.team.valid_from.as_ref().map(|from| from.ms);
    let days: BTreeSet<_> = entries.iter().map(since).collect();
    let mut told = BTreeSet::new();
    for day in days {
        let mut valid: BTreeMap<&str, &Entry> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| since(entry) <= day) {
            let known = valid.entry(&entry.team.name).or_insert(entry);
            *known = if since(known) <= since(entry) { entry } else { known };
        }
        for entry in valid.values() {
            if let Some(circle) = circle(entry, &valid)
                && told.insert(circle.iter().copied().collect::<BTreeSet<_>>())
            {
                let text = format!("{}parent: {:?} is part of itself: {}", entry.path, circle[0], circle.join(", "));
                mistakes.push(Mistake { line: entry.line, text });
            }
        }
    }
}

/// From a team by its parents to itself.
fn circle<'e>(entry: &'e Entry, valid: &BTreeMap<&'e str, &'e Entry>) -> Option<Vec<&'e str>> {
    let mut way = vec![entry.team.name.as_str()];
    let mut next = entry;
    loop {
        let parent = next.team.parent.as_deref()?;
        let at = way.iter().position(|name| *name == parent);
        way.push(parent);
        match at {
            Some(0) => return Some(way),
            // A circle further up, which its own teams name.
            Some(_) => return None,
            None => next = valid.get(parent)?,
        }
    }
}

/// The teams of a file.
pub(super) fn teams_of_file(path: &Path, zone: &TimeZone) -> Result<Vec<Team>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|e| ConfigError::Io(path.into(), e))?;
    teams_of_text(path, &text, zone)
}

/// The teams of a file's text.
pub fn teams_of_text(path: &Path, text: &str, zone: &TimeZone) -> Result<Vec<Team>, ConfigError> {
    let mut mistakes = Vec::new();
    let read = parse(text).map(|root| teams("teams", &root, zone, &mut mistakes));
    mistakes.extend(read.as_ref().err().cloned());
    mistakes.sort();
    match read {
        Ok(teams) if mistakes.is_empty() => Ok(teams),
        _ => Err(ConfigError::Mistakes(path.into(), mistakes)),
    }
}

/// In the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, teams: &[Team], file: Option<&Path>) -> fmt::Result {
    if let Some(file) = file {
        return writeln!(f, "teams_file: {file:?}");
    }
    writeln!(f, "teams:{}", if teams.is_empty() { " []" } else { "" })?;
    for Team { name, patterns, parent, cost_centre, contacts, valid_from } in teams {
        let patterns: Vec<String> = patterns.iter().map(|p| format!("{{{}: {:?}}}", p.field.name(), p.text)).collect();
        write!(f, "  - {{name: {name:?}, match: [{}]", patterns.join(", "))?;
        for (key, value) in [("parent", parent), ("cost_centre", cost_centre)] {
            value.as_ref().map_or(Ok(()), |value| write!(f, ", {key}: {value:?}"))?;
        }
        if !contacts.is_empty() {
            let contacts: Vec<String> =
                contacts.iter().map(|c| format!("{{{}: {:?}}}", c.channel.name(), c.to)).collect();
            write!(f, ", contacts: [{}]", contacts.join(", "))?;
        }
        valid_from.as_ref().map_or(Ok(()), |from| write!(f, ", valid_from: {}", from.day()))?;
        writeln!(f, "}}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const WHOLE: &str = "zone: Europe/Berlin\nteams:\n\
        - {name: science}\n\
        - name: vision\n  match: [{account: 'cv-*'}, {namespace: vision}]\n  parent: science\n  cost_centre: '4711'\n  \
          contacts: [{mail: cv@example.org}, {slack: '#cv'}, {teams: CV}]\n\
        - {name: vision, match: [{owner: 'jupyter-*'}, {node: 'lab-*'}], valid_from: 2026-12-01}\n\
        showback: {spread: by_allocation}\n";

    #[test]
    fn teams_are_read_and_printed() {
        let config = Config::parse(WHOLE).unwrap();
        let teams = config.teams();
        assert_eq!(teams.all.len(), 3);
        assert_eq!(teams.all[2].valid_from.as_ref().map(|from| from.ms), Some(1_796_079_600_000));
        assert_eq!(Config::parse(&config.to_string()).unwrap().teams(), teams);
        let content = teams.content().unwrap();
        assert_eq!(&crate::teams::Teams::of_content(&content).unwrap(), &*teams);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let file = "teams:\n\
                    - {match: [{account: a}], colour: red}\n\
                    - {name: platform, match: [{account: a}]}\n\
                    - {name: a, match: [{account: ''}, {user: b}, {account: a, node: b}, x]}\n\
                    - {name: b, parent: nowhere, contacts: [{mail: nobody}, {phone: 1}]}\n\
                    - {name: c, parent: d, match: {account: c}}\n\
                    - {name: d, parent: e}\n\
                    - {name: e, parent: c}\n\
                    - {name: f, parent: f, valid_from: soon}\n\
                    - {name: a, match: []}\n";
        let mistakes = Config::parse(file).unwrap_err();
        let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
        let expected = [
            "2: teams[0].colour: unknown key, expected one of name, match, parent, cost_centre, contacts, valid_from",
            "2: teams[0].name: missing",
            "3: teams[1].name: expected a name other than unassigned and platform, found \"platform\"",
            "4: teams[2].match[0].account: expected a name, in which * stands for any others, such as ml-*, found \"\"",
            "4: teams[2].match[1]: expected one of account, namespace, owner and node, such as {account: 'ml-*'}, found \"user\"",
            "4: teams[2].match[2]: expected one of account, namespace, owner and node, such as {account: 'ml-*'}, found a mapping",
            "4: teams[2].match[3]: expected one of account, namespace, owner and node, such as {account: 'ml-*'}, found \"x\"",
            "5: teams[3].contacts: expected an address of mail such as ml@example.org, found \"nobody\"",
            "5: teams[3].contacts[1]: expected one of mail, slack and teams, such as {mail: ml@example.org}, found \"phone\"",
            "5: teams[3].parent: expected the name of a team of this list, found \"nowhere\"",
            "6: teams[4].match: expected a list, found a mapping",
            "6: teams[4].parent: \"c\" is part of itself: c, d, e, c",
            "9: teams[7].parent: \"f\" is part of itself: f, f",
            "9: teams[7].valid_from: expected a date such as 2026-01-01, found \"soon\"",
            "10: teams[8].name: \"a\" is listed twice; entries of one team are each valid from another day",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn teams_of_another_file_are_read_and_its_mistakes_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let (main, other) = (dir.path().join("goodput.yml"), dir.path().join("teams.yml"));
        std::fs::write(&main, format!("teams_file: {other:?}\n")).unwrap();
        let missing = Config::load(Some(&main)).unwrap_err().to_string();
        assert!(missing.contains("teams.yml: No such file"), "{missing}");
        std::fs::write(&other, "- {name: a, match: [{account: a}]}\n- {name: a}\n").unwrap();
        let wrong = Config::load(Some(&main)).unwrap_err().to_string();
        assert!(
            wrong.ends_with(
                "teams.yml:2: teams[1].name: \"a\" is listed twice; entries of one team are each valid from another day"
            ),
            "{wrong}"
        );
        std::fs::write(&other, "- {name: a, match: [{account: a}]}\n").unwrap();
        let config = Config::load(Some(&main)).unwrap();
        assert_eq!(config.teams().all.len(), 1);
        assert!(config.to_string().contains(&format!("teams_file: {other:?}\n")), "{config}");
        let both = Config::parse("teams: [{name: a}]\nteams_file: /x\n").unwrap_err();
        assert_eq!(both[0].text, "teams_file: expected only one of teams and teams_file");
    }
}
