//! Pages of teams.

use super::*;
use crate::config::Config;

const TEAMS: &str = "teams:\n\
    - {name: '<i>7 & ml/ops', match: [{account: ml}], parent: all, cost_centre: '4711', contacts: [{mail: ml@example.org}]}\n\
    - {name: all, match: [{node: '<b>n*'}]}\n";

async fn served() -> Served {
    let served = with_a_starving_gpu().await;
    set(&served, TEAMS);
    served
}

fn set(served: &Served, teams: &str) {
    served.teams.set(Ok((*Config::parse(teams).unwrap().teams()).clone()));
}

const ML: &str = "/teams/%3Ci%3E7%20%26%20ml%2Fops";

#[tokio::test]
async fn teams_are_listed_and_lead_to_their_pages() {
    let served = served().await;
    let list = page(&served, "/teams?period=2026-W47").await;
    let text = text_of(&list);
    assert!(text.contains("part of all") && text.contains("cost centre 4711"), "{text}");
    assert!(text.contains("&#60;i&#62;7 &#38; ml/ops part of all cost centre 4711 1.00 25.0 % 0.75"), "{text}");
    assert!(links(&list).contains(&format!("{ML}?period=2026-W47")), "{:?}", links(&list));
    let team = page(&served, &format!("{ML}?period=2026-W47")).await;
    let shown = text_of(&team);
    for part in ["part of all", "mail ml@example.org", "account ml", "dataloader_storage", "2026-W47", "ml/MPIJob/"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let parent = text_of(&page(&served, "/teams/all?period=2026-W47").await);
    assert!(
        parent.contains("parts &#60;i&#62;7 &#38; ml/ops") && parent.contains("3.00 GPU-hours held")
            || parent.contains("GPU-hours held 3.00"),
        "with its part: {parent}"
    );
    let (status, _, missing) = served.get("/teams/none?period=2026-W47").await;
    assert!(status == 404 && missing.contains("No team none was valid"), "{missing}");
    let (status, _, report) = served.get("/report?week=2026-W47").await;
    assert!(status == 200 && report.contains(&format!("href=\"{ML}?period=2026-W47\"")), "{report}");
    let (status, _, report) = served.get(&format!("/report?week=2026-W47&team={}", "%3Ci%3E7%20%26%20ml%2Fops")).await;
    assert!(status == 200 && report.contains("25.0 %") && !report.contains("&#60;b&#62;n/50%"), "{report}");
    assert_eq!(served.get("/report?week=2026-W47&team=none").await.0, 404);
}

#[tokio::test]
async fn without_teams_the_page_says_how_to_name_some() {
    let served = with_a_starving_gpu().await;
    let shown = text_of(&page(&served, "/teams").await);
    assert!(shown.contains("No teams are configured") && shown.contains("unassigned"), "{shown}");
}

/// A week keeps the teams that it was delivered with, whatever the configuration says later.
#[tokio::test]
async fn a_changed_mapping_does_not_alter_a_delivered_week() {
    let served = served().await;
    let json = async || served.get("/api/v1/teams?week=2026-W47").await.2;
    let before = json().await;
    let terms = crate::report::Terms { teams: served.teams.clone(), ..Default::default() };
    let period = crate::report::Period::iso_week("2026-W47", &jiff::tz::TimeZone::UTC).unwrap();
    let report = served.reads.report(&served.store, period, &terms).await.unwrap();
    let content = served.teams.teams().content().unwrap();
    let times = report.teams.times("2026-W47");
    served.store.note_teams(("2026-W47", 0), &content, &times).await.unwrap();
    set(&served, "teams: [{name: others, match: [{account: '*'}, {node: '*'}]}]\nshowback: {spread: by_allocation}\n");
    assert_eq!(json().await, before);
    let page = text_of(&page(&served, "/teams?period=24h").await);
    assert!(page.contains("others"), "another period has the teams of now: {page}");
    let one = served.get(&format!("/api/v1{ML}?week=2026-W47")).await.2;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["weeks"][0]["total"]["gpu_ms"], HOUR_MS, "{one}");
    assert_eq!(one["contacts"][0]["to"], "ml@example.org");
}
