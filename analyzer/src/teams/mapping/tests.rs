use proptest::prelude::*;

use super::super::{Pattern, ValidFrom};
use super::*;

fn team(name: &str, patterns: &[(Field, &str)]) -> Team {
    let patterns = patterns.iter().map(|(field, text)| Pattern { field: *field, text: (*text).into() }).collect();
    Team { name: name.into(), patterns, parent: None, cost_centre: None, contacts: Vec::new(), valid_from: None }
}

fn teams(all: Vec<Team>) -> Teams {
    Teams { all, ..Teams::default() }
}

fn from(day: &str, ms: TimeMs, team: Team) -> Team {
    Team { valid_from: Some(ValidFrom::new(day.parse().unwrap(), ms)), ..team }
}

const UNKNOWN: Who<'static> = Who { node: "n1", account: None, owner: None, run: None };

#[test]
fn the_first_entry_has_the_time_whatever_its_pattern_looks_at() {
    let teams = teams(vec![
        team("vision", &[(Field::Namespace, "vision"), (Field::Account, "cv-*")]),
        team("ml", &[(Field::Account, "ml"), (Field::Owner, "*/PyTorchJob/*")]),
        team("lab", &[(Field::Node, "lab-*"), (Field::Owner, "jupyter-*")]),
        team("rest", &[(Field::Account, "*")]),
    ]);
    let mapping = Mapping::at(&teams, 0);
    let mut mapper = Mapper::new(&mapping);
    for (who, class, expected) in [
        (Who { account: Some("ml"), ..UNKNOWN }, Class::Productive, Some("ml")),
        (Who { account: Some("ml"), owner: Some("vision/pod-1"), ..UNKNOWN }, Class::IdleHeld, Some("vision")),
        // An account of Slurm is not a namespace.
        (Who { account: Some("vision"), owner: Some("slurm-1"), ..UNKNOWN }, Class::IdleHeld, Some("rest")),
        (Who { run: Some("a/PyTorchJob/llm"), owner: Some("a/llm-0"), ..UNKNOWN }, Class::IdleHeld, Some("ml")),
        (Who { node: "lab-7", ..UNKNOWN }, Class::StrandedMig, Some("lab")),
        (Who { node: "lab-7", account: Some("cv-2"), ..UNKNOWN }, Class::IdleHeld, Some("vision")),
        (UNKNOWN, Class::IdleHeld, None),
    ] {
        let line = mapper.line(class, who);
        let named = expected.map_or(Line::Unassigned, |name| Line::Team(mapping.place(name).unwrap()));
        assert_eq!(line, named, "{who:?}");
        assert_eq!(mapping.claimants(&who).first().copied(), mapper.team(who), "{who:?}");
    }
    for class in [Class::Unallocated, Class::NoData, Class::Down, Class::Maintenance] {
        assert_eq!(mapper.line(class, Who { account: Some("ml"), ..UNKNOWN }), Line::Platform, "{class:?}");
    }
    let both = Who { node: "lab-7", account: Some("ml"), ..UNKNOWN };
    let names = mapping.claimants(&both).into_iter().map(|n| mapping.teams()[n].name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["ml", "lab", "rest"]);
}

#[test]
fn the_latest_entry_of_a_name_is_valid_and_a_parent_that_is_not_yet_there_is_none() {
    let child = Team { parent: Some("science".into()), ..team("vision", &[(Field::Account, "cv")]) };
    let teams = teams(vec![
        child.clone(),
        from("1970-01-02", 100, team("science", &[(Field::Account, "s*")])),
        from(
            "1970-01-03",
            200,
            Team { patterns: vec![Pattern { field: Field::Account, text: "cv2".into() }], ..child },
        ),
    ]);
    let at = |time| {
        let mapping = Mapping::at(&teams, time);
        let mut mapper = Mapper::new(&mapping);
        let found = ["cv", "cv2"].map(|account| mapper.team(Who { account: Some(account), ..UNKNOWN }));
        let named = found.map(|place| place.map(|n| mapping.teams()[n].name.clone()));
        let parent = mapping.parent(mapping.place("vision").unwrap()).map(|n| mapping.teams()[n].name.clone());
        (named.map(Option::unwrap_or_default), parent.unwrap_or_default(), mapping.teams().len())
    };
    let shown = |(named, parent, count): ([String; 2], String, usize)| format!("{named:?} {parent} {count}");
    assert_eq!(shown(at(99)), "[\"vision\", \"\"]  1");
    assert_eq!(shown(at(100)), "[\"vision\", \"\"] science 2");
    assert_eq!(shown(at(200)), "[\"\", \"vision\"] science 2");
    let mapping = Mapping::at(&teams, 100);
    let place = |name| mapping.place(name).unwrap();
    assert_eq!(mapping.below(place("science")), [place("science"), place("vision")]);
    assert_eq!(mapping.below(place("vision")), [place("vision")]);
}

fn pattern() -> impl Strategy<Value = (usize, &'static str)> {
    (0..FIELDS, prop::sample::select(vec!["a", "a*", "*b", "ab", "*", "a/b", "b*a"]))
}

proptest! {
    /// Looking every pattern up for every name, in order, as the documentation says it.
    #[test]
    fn a_line_is_that_of_the_first_entry_that_matches(
        entries in prop::collection::vec(prop::collection::vec(pattern(), 1..3), 0..6),
        whos in prop::collection::vec(prop::collection::vec(prop::sample::select(vec!["", "a", "ab", "b", "a/b", "ba"]), 4), 1..20),
    ) {
        let of = |(n, patterns): (usize, &Vec<(usize, &'static str)>)| {
            team(&n.to_string(), &patterns.iter().map(|(field, text)| (Field::ALL[*field], *text)).collect::<Vec<_>>())
        };
        let teams = teams(entries.iter().enumerate().map(of).collect());
        let mapping = Mapping::at(&teams, 0);
        let mut mapper = Mapper::new(&mapping);
        for names in &whos {
            let some = |name: &'static str| Some(name).filter(|name| !name.is_empty());
            let who = Who { node: names[0], account: some(names[1]), owner: some(names[2]), run: some(names[3]) };
            let is_match = |team: &&Team| {
                team.patterns.iter().any(|p| who.names().any(|(field, name)| field == p.field && matches(&p.text, name)))
            };
            let expected = teams.all.iter().position(|team| is_match(&team));
            prop_assert_eq!(mapper.team(who), expected, "{:?}", who);
            prop_assert_eq!(mapping.claimants(&who).first().copied(), expected);
        }
    }
}
