//! Who gets a message of a destination. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::target::{Audience, Target, Way};
use crate::report::Report;
use crate::teams::{Channel, Mapping};

/// Who gets the message about the fleet where a webhook takes it.
pub const FLEET: &str = "fleet";

/// Who gets a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// An address of mail; of a webhook, `fleet` or `team/NAME`.
    pub contact: String,
    /// The teams that it is about; the fleet, where there is none.
    pub teams: Vec<String>,
    /// The channel of the team, where the receiver has channels.
    pub channel: Option<String>,
}

/// The teams that have one of the first findings of the report as theirs.
#[must_use]
pub fn owners(report: &Report) -> BTreeSet<String> {
    let first: BTreeSet<&str> = report.first_groups().iter().map(|group| group.id.as_str()).collect();
    let rows = report.teams.rows.iter();
    let has = rows.filter(|row| row.first_finding.as_ref().is_some_and(|finding| first.contains(finding.id.as_str())));
    has.map(|row| row.name.clone()).collect()
}

/// The recipients of a destination: those who get the message about the fleet first.
#[must_use]
pub fn recipients(target: &Target, mapping: &Mapping<'_>, owners: &BTreeSet<String>) -> Vec<Recipient> {
    let teams = mapping.teams().iter().filter(|team| match &target.teams {
        Audience::Fleet => false,
        Audience::All => true,
        Audience::Owners => owners.contains(&team.name),
        Audience::Named(names) => names.contains(&team.name),
    });
    let fleet = |contact: &str| Recipient { contact: contact.to_owned(), teams: Vec::new(), channel: None };
    match &target.way {
        Way::Directory(_) => Vec::new(),
        Way::Mail(to) => {
            let mut all: Vec<Recipient> = Vec::new();
            let to: BTreeSet<String> = to.iter().map(ToString::to_string).collect();
            all.extend(to.iter().map(|address| fleet(address)));
            let mut by_contact: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for team in teams {
                let mail = team.contacts.iter().filter(|contact| contact.channel == Channel::Mail);
                mail.for_each(|contact| by_contact.entry(&contact.to).or_default().push(team.name.clone()));
            }
            // Who gets the message about the fleet has the team's part in it.
            by_contact.retain(|contact, _| !to.contains(*contact));
            let of_teams = by_contact.into_iter();
            all.extend(of_teams.map(|(contact, teams)| Recipient { teams, ..fleet(contact) }));
            all
        }
        Way::Slack(_) | Way::Teams(_) | Way::Webhook(_) if target.teams == Audience::Fleet => vec![fleet(FLEET)],
        way => teams
            .map(|team| {
                let channel =
                    team.contacts.iter().find(|c| matches!(way, Way::Slack(_)) && c.channel == Channel::Slack);
                let contact = format!("team/{}", team.name);
                Recipient { contact, teams: vec![team.name.clone()], channel: channel.map(|c| c.to.clone()) }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::Address;
    use crate::deliver::target::OnlyIf;
    use crate::teams::{Contact, Team, Teams};

    fn teams() -> Teams {
        let team = |name: &str, contacts: &[(Channel, &str)]| Team {
            name: name.to_owned(),
            patterns: Vec::new(),
            parent: None,
            cost_centre: None,
            contacts: contacts
                .iter()
                .map(|(channel, to)| Contact { channel: *channel, to: (*to).to_owned() })
                .collect(),
            valid_from: None,
        };
        let all = vec![
            team("vision", &[(Channel::Mail, "v@e.org"), (Channel::Slack, "#vision"), (Channel::Mail, "ops@e.org")]),
            team("language", &[(Channel::Mail, "l@e.org"), (Channel::Mail, "v@e.org")]),
            team("silent", &[]),
        ];
        Teams { all, ..Teams::default() }
    }

    fn of(way: Way, audience: Audience) -> Vec<(String, Vec<String>, Option<String>)> {
        let target = Target { name: "d".into(), way, teams: audience, only_if: OnlyIf::Always, at_most: 500 };
        let (teams, owners) = (teams(), BTreeSet::from(["language".to_owned()]));
        let found = recipients(&target, &Mapping::at(&teams, 0), &owners);
        found.into_iter().map(|r| (r.contact, r.teams, r.channel)).collect()
    }

    fn one(contact: &str, teams: &[&str], channel: Option<&str>) -> (String, Vec<String>, Option<String>) {
        (contact.into(), teams.iter().map(|team| (*team).to_owned()).collect(), channel.map(str::to_owned))
    }

    #[test]
    fn one_mail_for_each_contact_whatever_it_is_the_contact_of() {
        let mail = || Way::Mail(vec!["ops@e.org".parse().unwrap()]);
        let fleet = one("ops@e.org", &[], None);
        assert_eq!(of(mail(), Audience::Fleet), std::slice::from_ref(&fleet));
        let all = [fleet.clone(), one("l@e.org", &["language"], None), one("v@e.org", &["vision", "language"], None)];
        assert_eq!(of(mail(), Audience::All), all);
        let named = Audience::Named(vec!["vision".into(), "silent".into()]);
        assert_eq!(of(mail(), named), [fleet.clone(), one("v@e.org", &["vision"], None)]);
        let owners = [fleet, one("l@e.org", &["language"], None), one("v@e.org", &["language"], None)];
        assert_eq!(of(mail(), Audience::Owners), owners);
    }

    #[test]
    fn one_post_for_each_team_or_one_about_the_fleet() {
        let address = || Address::File("/f".into());
        assert_eq!(of(Way::Webhook(address()), Audience::Fleet), [one("fleet", &[], None)]);
        let slack = [
            one("team/vision", &["vision"], Some("#vision")),
            one("team/language", &["language"], None),
            one("team/silent", &["silent"], None),
        ];
        assert_eq!(of(Way::Slack(address()), Audience::All), slack);
        assert_eq!(of(Way::Teams(address()), Audience::Owners), [one("team/language", &["language"], None)]);
        assert_eq!(of(Way::Directory("/d".into()), Audience::Fleet), []);
    }
}
