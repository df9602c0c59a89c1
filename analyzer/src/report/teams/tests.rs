use proptest::prelude::*;

use super::super::golden_tests::{check, intervals, prices, week};
use super::super::{Report, Site, build_by_team, html, markdown, team_csv};
use super::*;
use crate::config::Config;
use goodput_testing::bare;
use goodput_verdict::Interval;

const HOUR: i64 = 3_600_000;

fn teams(text: &str) -> Teams {
    (*Config::parse(text).unwrap().teams()).clone()
}

const TEAMS: &str = "teams:\n\
    - {name: science, match: [{account: physics}], cost_centre: '4711'}\n\
    - {name: vision, match: [{account: team-vision}], parent: science}\n\
    - {name: language, match: [{namespace: 'team-n*'}], parent: science, cost_centre: '815'}\n\
    - {name: robots, match: [{account: robots}]}\n";

fn fixture(teams: &Teams) -> Report {
    let [now, before] = ["week.json", "week_before.json"].map(intervals);
    build_by_team(&now, &before, week(), (&prices(), teams))
}

#[test]
fn a_table_of_teams_golden() {
    let report = fixture(&teams(TEAMS));
    check("teams.md", &section(&markdown::render(&report).unwrap(), "## By team", "## By account"));
    check(
        "teams.html",
        &section(
            &html::render(&report, &Site::file(Some("http://g"))).unwrap(),
            "<section id=\"teams\">",
            "</section>",
        ),
    );
    check("teams.json", &(serde_json::to_string_pretty(&report.teams).unwrap() + "\n"));
    check("teams.csv", &team_csv::render(&report));
    let names: Vec<&str> = report.teams.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.last(), Some(&PLATFORM), "{names:?}");
    assert!(!names.contains(&"robots"), "it has no time");
}

/// From one text to the next.
fn section(page: &str, from: &str, to: &str) -> String {
    let (_, rest) = page.split_once(from).unwrap();
    format!("{from}{}\n", rest.split(to).next().unwrap())
}

#[test]
fn without_teams_there_is_no_section_and_the_csv_has_two_rows_of_lines() {
    let report = fixture(&Teams::default());
    assert!(!markdown::render(&report).unwrap().contains("By team") && !report.json().unwrap().contains("\"teams\""));
    assert!(!html::render(&report, &Site::default()).unwrap().contains("id=\"teams\""));
    let names: Vec<&str> = report.teams.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, [UNASSIGNED, PLATFORM]);
}

#[test]
fn shared_loss_is_divided_by_what_was_held_or_stays_where_nothing_was() {
    let spread = |text: &str| teams(&format!("{text}showback: {{spread: by_allocation}}\n"));
    let report = fixture(&spread(TEAMS));
    assert!(report.teams.row(PLATFORM).is_none());
    let shared: i64 = report.teams.rows.iter().map(|row| row.shared.gpu_ms).sum();
    let of = |which: &[Class]| -> i64 {
        report.classes.iter().filter(|row| which.contains(&row.class)).map(|row| row.amount.gpu_ms).sum()
    };
    assert_eq!(shared, of(&[Class::Unallocated, Class::NoData, Class::Down, Class::Maintenance]));
    let free = [bare(Class::Unallocated, week().start_ms..week().start_ms + HOUR)];
    let report = build_by_team(&free, &[], week(), (&[], &spread(TEAMS)));
    let names: Vec<&str> = report.teams.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, [PLATFORM]);
}

/// Sums of a table: milliseconds, and millionths by currency.
type Total = (i64, BTreeMap<String, i64>);

fn total<'a>(amounts: impl Iterator<Item = &'a Amount>) -> Total {
    let mut total = Total::default();
    for amount in amounts {
        total.0 += amount.gpu_ms;
        amount.cost.iter().for_each(|cost| *total.1.entry(cost.currency.clone()).or_default() += cost.micros);
    }
    total
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Of any week and any tree of teams, with or without loss that is divided.
    #[test]
    fn rows_sum_to_the_fleet_to_the_millisecond_and_the_micro_unit(
        rolls in prop::collection::vec((0..Class::ALL.len(), 0..4usize, 0..5usize, 1..50_000_000i64), 1..40),
        parents in prop::collection::vec(0..4usize, 4),
        is_spread in any::<bool>(),
    ) {
        let interval = |(class, gpu, account, ms): &(usize, usize, usize, i64)| Interval {
            gpu: format!("GPU-{gpu}"),
            node: format!("n{}", gpu % 2),
            model: Some(["A", "B", "C", "D"][*gpu].into()),
            account: (*account < 4).then(|| format!("t{account}")),
            owner: Some(format!("run-{account}")),
            ms: *ms,
            energy: Some(Energy { mj: 7 * ms, ms: *ms, counted_ms: ms / 2 }),
            ..bare(Class::ALL[*class], week().start_ms..week().start_ms + 20 * HOUR)
        };
        let all: Vec<Interval> = rolls.iter().map(interval).collect();
        let price = |model: &str, currency: &str, per: f64| format!(
            "- {{model: {model}, currency: {currency}, per_gpu_hour: {per}, per_kwh: 0.31, valid_from: 1970-01-01}}\n"
        );
        let prices = Config::parse(&format!("prices:\n{}{}{}", price("A", "EUR", 1.234567), price("B", "USD", 0.7), price("C", "EUR", 3.0)));
        // A team is part of an earlier one, or of none.
        let entry = |n: usize| {
            let parent = parents[n].checked_sub(1).filter(|parent| *parent < n).map(|p| format!(", parent: t{p}"));
            format!("- {{name: t{n}, match: [{{account: 't{n}*'}}]{}}}\n", parent.unwrap_or_default())
        };
        let spread = if is_spread { "by_allocation" } else { "none" };
        let teams = teams(&format!("teams:\n{}showback: {{spread: {spread}}}\n", (0..4).map(entry).collect::<String>()));
        let report = build_by_team(&all, &[], week(), (&prices.unwrap().prices, &teams));
        let capacity = total(std::iter::once(&report.fleet.capacity));
        let rows = &report.teams.rows;
        prop_assert_eq!(&total(rows.iter().map(|row| &row.total)), &capacity);
        // Those at the top, with all that is part of them.
        let tops = rows.iter().filter(|row| row.parent.is_none());
        let tops = total(tops.map(|row| row.with_parts.as_ref().unwrap_or(&row.total)));
        let orphans = rows.iter().filter(|row| {
            row.parent.as_ref().is_some_and(|parent| report.teams.row(parent).is_none())
        }).count();
        if orphans == 0 {
            prop_assert_eq!(&tops, &capacity);
        }
        for row in rows {
            let parts = row.productive.gpu_ms + row.lost.gpu_ms + row.no_data.gpu_ms;
            prop_assert_eq!(parts, row.total.gpu_ms);
            prop_assert_eq!(total(row.classes.iter().map(|class| &class.amount)), total(std::iter::once(&row.total)));
            prop_assert_eq!(row.parts.iter().map(|part| part.ms).sum::<i64>(), row.total.gpu_ms);
        }
        // By class, so that no time changes its class.
        for class in &report.classes {
            let of = rows.iter().flat_map(|row| &row.classes).filter(|c| c.class == class.class).map(|c| &c.amount);
            prop_assert_eq!(total(of), total(std::iter::once(&class.amount)));
        }
        let energy: i64 = rows.iter().filter_map(|row| row.total.energy).map(|energy| energy.mj).sum();
        prop_assert_eq!(Some(energy), report.fleet.capacity.energy.map(|energy| energy.mj));
    }
}

/// As many teams and accounts as an organisation has: names are compared once, so that this ends within the test's time.
#[test]
fn two_hundred_teams_and_ten_thousand_accounts_are_mapped_exactly() {
    let list: String =
        (0..200).map(|n| format!("- {{name: t{n}, match: [{{account: 'a{n}-*'}}, {{account: b{n}}}]}}\n")).collect();
    let teams = teams(&format!("teams:\n{list}"));
    let of = |n: i64| Interval {
        gpu: format!("GPU-{n}"),
        account: Some(format!("a{}-{n}", n % 200)),
        owner: Some(format!("job-{n}")),
        ms: n + 1,
        ..bare(Class::IdleHeld, week().start_ms..week().start_ms + HOUR)
    };
    let all: Vec<Interval> = (0..10_000).map(of).collect();
    let report = build_by_team(&all, &[], week(), (&[], &teams));
    assert_eq!(report.teams.rows.len(), 200);
    for n in [0, 7, 199] {
        let expected: i64 = (0..10_000).filter(|k| k % 200 == n).map(|k| k + 1).sum();
        assert_eq!(report.teams.row(&format!("t{n}")).unwrap().total.gpu_ms, expected);
    }
}
