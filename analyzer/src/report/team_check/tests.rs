use super::super::golden_tests::{intervals, prices, week};
use super::super::summed::Summed;
use super::*;
use crate::config::Config;

#[test]
fn what_matches_nothing_what_matches_twice_and_what_is_free() {
    let teams = "teams:\n\
        - {name: science, match: [{account: physics}, {node: 'cpu-*'}]}\n\
        - {name: vision, match: [{account: 'team-*'}]}\n\
        - {name: language, match: [{namespace: team-nlp}, {owner: nobody}]}\n";
    let teams = Config::parse(teams).unwrap().teams();
    let (all, prices) = (intervals("week.json"), prices());
    let items = Summed::of(&all, &prices);
    let mapping = Mapping::at(&teams, week().start_ms);
    let check = TeamCheck::of(&week(), &mapping, &items);
    let unused: Vec<String> =
        check.unused.iter().map(|one| format!("{} {} {}", one.team, one.field, one.pattern)).collect();
    assert_eq!(unused, ["science node cpu-*", "language owner nobody"]);
    let [twice] = check.matched_twice.as_slice() else { panic!("{:?}", check.matched_twice) };
    assert_eq!((twice.team.as_str(), &twice.also[..]), ("vision", &["language".to_owned()][..]));
    assert_eq!((twice.amount.gpu_ms, &twice.names[..]), (720_000_000, &["team-nlp".to_owned()][..]));
    let [next] = check.map_next.as_slice() else { panic!("{:?}", check.map_next) };
    assert!(next.field == "owner" && next.name.starts_with("<script>"), "{next:?}");
    assert_eq!((next.amount.gpu_ms, check.unassigned.gpu_ms), (738_000_000, 738_000_000));
}
