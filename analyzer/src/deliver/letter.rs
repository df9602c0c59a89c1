//! What a message says, in words: one content for mail, cards, blocks and JSON. Pure.

use serde::Serialize;

use super::outbox::FINDINGS;
use crate::report::{FindingGroup, Report, Site, text};

/// Longest name.
const MAX_NAME: usize = 60;
/// Longest command.
const MAX_COMMAND: usize = 300;
/// Teams of a contact that are listed.
const MAX_PARTS: usize = 20;
/// Bytes of an address.
const MAX_LINK: usize = 500;

/// What a message says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Letter {
    /// ISO week, such as 2026-W47.
    pub week: String,
    /// The fleet, or the teams that it is about.
    pub about: Vec<Part>,
    /// Teams beyond those.
    pub further_teams: usize,
    /// The findings that it names, greatest loss first.
    pub findings: Vec<Told>,
    /// In their place, or after them.
    pub more: Option<String>,
    /// The whole report.
    pub link: Option<String>,
}

/// The fleet or a team in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The team; null for the fleet.
    pub team: Option<String>,
    /// Goodput; with little data, that of the time with data, and how much that is.
    pub headline: String,
    /// Goodput alone.
    pub goodput: String,
    /// What was lost, and how much of capacity has data.
    pub figures: String,
    /// Against the week before.
    pub against: String,
    /// Its report.
    pub link: Option<String>,
}

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Its id, which is the same in every week.
    pub id: String,
    /// The class, to be read.
    pub title: &'static str,
    /// The class.
    pub class: &'static str,
    /// The team; null in a message about the fleet.
    pub team: Option<String>,
    /// Whose it is.
    pub subject: String,
    /// Of how many findings, where it is more than one.
    pub count: Option<String>,
    /// GPU-hours lost.
    pub gpu_hours: String,
    /// Share of capacity.
    pub share: String,
    /// What that cost; null without prices.
    pub cost: Option<String>,
    /// What the class means.
    pub meaning: &'static str,
    /// What to type first.
    pub command: Option<String>,
    /// Its line on the page of findings.
    pub link: Option<String>,
    #[serde(skip)]
    lost_ms: i64,
}

impl Told {
    fn of(report: &Report, group: &FindingGroup, team: Option<&str>, site: &Site) -> Self {
        let largest = report.largest(group);
        let command = largest.and_then(|finding| finding.commands.iter().flatten().next());
        let subject = format!("{}{}", report.whose(group), report.within(&group.cluster));
        Self {
            id: group.id.clone(),
            title: group.class.title(),
            class: group.class.name(),
            team: team.map(str::to_owned),
            subject: short(&subject, MAX_NAME),
            count: (group.findings.len() > 1).then(|| group.count()),
            gpu_hours: group.lost.hours(),
            share: group.lost.percent(),
            cost: report.has_money().then(|| group.lost.money()),
            meaning: group.class.info().meaning,
            command: command.map(|command| short(command, MAX_COMMAND)),
            link: site.finding(report, group),
            lost_ms: group.lost.gpu_ms,
        }
    }

    /// Class and owner with what was lost, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { title, subject, gpu_hours, share, .. } = self;
        let count = self.count.as_ref().map_or_else(String::new, |count| format!(" ({count})"));
        let cost = self.cost.as_ref().map_or_else(String::new, |cost| format!(", {cost}"));
        format!("{title}: {subject}{count} lost {gpu_hours} GPU-hours, {share} of capacity{cost}.")
    }
}

impl Part {
    fn of(report: &Report, team: Option<&str>, link: Option<&str>) -> Self {
        let fleet = &report.fleet;
        let money = if report.has_money() { format!(", {}", fleet.lost.money()) } else { String::new() };
        let (lost, capacity) = (fleet.lost.hours(), fleet.capacity.hours());
        let goodput = text::percent(fleet.headline.goodput);
        let little = || format!(" of the time with data; {}", report.covered());
        let of = if fleet.headline.is_of_known { little() } else { String::new() };
        Self {
            team: team.map(|name| short(name, MAX_NAME)),
            headline: format!("{goodput}{of}"),
            goodput,
            figures: format!("of goodput; {lost} of {capacity} GPU-hours were lost{money}; {}.", report.covered()),
            against: report.against(),
            link: link.and_then(|link| of_report(link, &report.period.label, team)),
        }
    }
}

/// The page of a report; none where the address would be longer than mail and cards have room for.
fn of_report(link: &str, week: &str, team: Option<&str>) -> Option<String> {
    let team = team.map_or_else(String::new, |name| format!("&team={}", crate::report::site::escaped(name)));
    let url = format!("{}/report?week={week}{team}", link.trim_end_matches('/'));
    Some(url).filter(|url| url.len() <= MAX_LINK)
}

impl Letter {
    /// The message about a report of the fleet, or of a team. It names every first finding.
    #[must_use]
    pub fn of(report: &Report, team: Option<&str>, link: Option<&str>) -> Self {
        let (site, week) = (Site::file(link), report.period.label.clone());
        let findings: Vec<Told> =
            report.first_groups().iter().map(|group| Told::of(report, group, team, &site)).collect();
        let more = || report.smaller_groups().unwrap_or_else(|| "No loss with a known cause.".to_owned());
        Self {
            about: vec![Part::of(report, team, link)],
            further_teams: 0,
            more: findings.is_empty().then(more),
            findings,
            link: link.and_then(|link| of_report(link, &week, team)),
            week,
        }
    }

    /// One message in place of several about teams; `link` is where people reach the analyzer. None of none.
    #[must_use]
    pub fn joined(letters: Vec<Self>, link: Option<&str>) -> Option<Self> {
        let (mut all, mut parts) = (None::<Self>, Vec::new());
        for mut letter in letters {
            parts.append(&mut letter.about);
            match &mut all {
                None => all = Some(letter),
                Some(all) => all.findings.append(&mut letter.findings),
            }
        }
        let mut all = all?;
        if parts.len() > 1 {
            all.findings.sort_by_key(|told| std::cmp::Reverse(told.lost_ms));
            all.more = if all.findings.is_empty() { all.more } else { None };
            all.link = link.and_then(|link| of_report(link, &all.week, None));
        }
        all.further_teams = parts.len().saturating_sub(MAX_PARTS);
        parts.truncate(MAX_PARTS);
        all.about = parts;
        Some(all)
    }

    /// The ids of its findings, in their order.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.findings.iter().map(|told| told.id.as_str()).collect()
    }

    /// The same with these findings alone, and no more than a message names.
    #[must_use]
    pub fn naming(mut self, ids: &[String]) -> Self {
        self.findings.retain(|told| ids.contains(&told.id));
        self.findings.truncate(FINDINGS);
        if self.findings.is_empty() && self.more.is_none() {
            self.more = Some("Nothing new: every finding was in a message of the last seven days.".to_owned());
        }
        self
    }

    /// The line that stands for all of it.
    #[must_use]
    pub fn headline(&self) -> String {
        match self.about.as_slice() {
            [Part { team: None, headline, .. }] => format!("Goodput {}: {headline}", self.week),
            [Part { team: Some(team), headline, .. }] => format!("Goodput {}, {team}: {headline}", self.week),
            parts => format!("Goodput {}: {} teams", self.week, parts.len() + self.further_teams),
        }
    }
}

/// On one line, and not too long.
pub(super) fn short(text: &str, max: usize) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(&one_line, max)
}

/// No more than `max` characters; text that was cut ends in an ellipsis.
pub(super) fn cut(text: &str, max: usize) -> String {
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

    /// Two hours of work of 10, and these losses.
    pub(crate) fn report(owner: &str, losses: &[(Class, i64)]) -> Report {
        let week = Period::iso_week("2026-W47", &TimeZone::UTC).unwrap();
        let all = |class, hours: i64| {
            let span = week.start_ms..week.start_ms + hours * HOUR;
            Interval { owner: Some(owner.into()), ms: hours * HOUR, ..bare(class, span) }
        };
        let mut now: Vec<Interval> = losses.iter().map(|(class, hours)| all(*class, *hours)).collect();
        now.push(all(Class::Productive, 2));
        build(&now, &[], week, &[])
    }

    fn ids(letter: &Letter) -> Vec<String> {
        letter.ids().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_finding_is_a_sentence_with_its_link() {
        let report = report("train\n0", &[(Class::IdleHeld, 5), (Class::ColdStart, 3)]);
        let letter = Letter::of(&report, None, Some("https://g.example/"));
        let first = &letter.findings[0];
        assert_eq!(first.sentence(), "Held without work: train 0 lost 5.00 GPU-hours, 50.0 % of capacity.");
        let link = first.link.as_deref().unwrap();
        assert!(
            link.starts_with("https://g.example/findings?start=2026-11-16T") && link.ends_with(&first.id),
            "{link}"
        );
        assert_eq!(letter.headline(), "Goodput 2026-W47: 20.0 %");
        let of_team = Letter::of(&report, Some("a b"), Some("https://g.example/"));
        assert_eq!(of_team.headline(), "Goodput 2026-W47, a b: 20.0 %");
        assert_eq!(of_team.link.as_deref(), Some("https://g.example/report?week=2026-W47&team=a%20b"));
    }

    #[test]
    fn one_message_about_several_teams_has_the_greatest_losses_of_all() {
        let one = report("a", &[(Class::IdleHeld, 5), (Class::ColdStart, 1)]);
        let other = report("b", &[(Class::IdleHeld, 7), (Class::Checkpoint, 2)]);
        let letters = vec![Letter::of(&one, Some("x"), None), Letter::of(&other, Some("y"), None)];
        let joined = Letter::joined(letters, None).unwrap();
        let told: Vec<_> = joined.findings.iter().map(|t| (t.team.as_deref().unwrap(), t.gpu_hours.as_str())).collect();
        assert_eq!(told, [("y", "7.00"), ("x", "5.00"), ("y", "2.00"), ("x", "1.00")]);
        assert_eq!((joined.headline(), joined.about.len()), ("Goodput 2026-W47: 2 teams".to_owned(), 2));
        let all = ids(&joined);
        assert_eq!(joined.naming(&all).findings.len(), 3);
        let many: Vec<Letter> = (0..30).map(|n| Letter::of(&one, Some(&format!("t{n}")), None)).collect();
        let many = Letter::joined(many, None).unwrap();
        assert_eq!((many.about.len(), many.further_teams), (20, 10));
        assert_eq!(Letter::joined(Vec::new(), None), None);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let whole = Letter::of(&report("a", &[(Class::IdleHeld, 5), (Class::ColdStart, 3)]), None, None);
        let all = ids(&whole);
        let one = whole.clone().naming(&all[1..]);
        assert_eq!((ids(&one), one.more), (all[1..].to_vec(), None));
        let none = whole.naming(&[]);
        assert!(none.findings.is_empty() && none.more.unwrap().starts_with("Nothing new"));
        let empty = Letter::of(&report("a", &[]), None, None).naming(&[]);
        assert_eq!(empty.more.as_deref(), Some("No loss with a known cause."));
    }
}
