//! The pages as a browser gets them, over a store with two judged hours of one idle GPU.

mod acting;
mod around;
mod compare;
mod ownership;
mod serving;
mod tables;
mod teams;
mod views;

use std::collections::{BTreeSet, VecDeque};

use super::assets;
use super::clock::rfc3339;
use crate::judge::tests::START;
use crate::report::text;
use crate::serve::tests::{Served, serve};
use goodput_store::{Place, ReadVerdicts as _, Results};
use goodput_testing::bare;
use goodput_verdict::{Cause, CauseKind, Class, Culprit, Evidence, HOUR_MS, Interval, Version};

/// A name that is markup, a path and an escape at once.
const NODE: &str = "<b>n/50%";
const NODE_PATH: &str = "/nodes/%3Cb%3En%2F50%25";
const OWNER: &str = "job&<i>7\"";

/// Where the GPU is that starves.
const STARVING_NODE: Place<'static> = Place { cluster: Some("e/<i>7"), node: "n2" };

/// A GPU that starved for the first hour, in addition to the one that is idle.
async fn with_a_starving_gpu() -> Served {
    let served = serve(NODE).await;
    let evidence =
        |signal: &str, value, unit: &str| Evidence { signal: signal.into(), value, unit: unit.into(), threshold: 0.1 };
    let starving = Interval {
        cluster: STARVING_NODE.cluster.map(str::to_owned),
        gpu: "GPU-b".into(),
        node: "n2".into(),
        model: Some("NVIDIA H100".into()),
        owner: Some(OWNER.into()),
        ms: HOUR_MS * 3 / 4,
        busy_signal: Some("gpu_busy".into()),
        evidence: vec![evidence("job_io_pressure", 0.75, "seconds per second")],
        missing: vec!["job_cpu_pressure".into()],
        run: Some("ml/MPIJob/<i>7".into()),
        account: Some("ml".into()),
        version: Some(Version { rule: 3, rules: 40 }),
        ..bare(Class::DataloaderStorage, START..START + HOUR_MS)
    };
    let rest = Interval { class: Class::Productive, ms: HOUR_MS / 4, evidence: vec![], ..starving.clone() };
    served.store.replace(STARVING_NODE, START..START + HOUR_MS, &[starving, rest]).await.unwrap();
    served
}

async fn page(served: &Served, path: &str) -> String {
    let (status, kind, page) = served.get(path).await;
    assert_eq!((status, kind.as_str()), (200, "text/html; charset=utf-8"), "{path}: {page}");
    assert!(!page.contains("<b>n") && !page.contains("<i>7"), "{path} is not escaped: {page}");
    page
}

/// Addresses that the page links to, as a browser reads them.
fn links(page: &str) -> Vec<String> {
    let hrefs = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    hrefs.map(|href| href.replace("&#38;", "&")).collect()
}

fn text_of(page: &str) -> String {
    let parts = page.split('<').skip(1).filter_map(|part| part.split_once('>'));
    parts.map(|(_, text)| text).collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn every_link_from_the_fleet_to_the_evidence_leads_on() {
    let served = with_a_starving_gpu().await;
    let mut seen = BTreeSet::new();
    let mut open = VecDeque::from(["/".to_owned()]);
    // Earlier and later go on for ever; the first pages hold all kinds of links.
    for _ in 0..250 {
        let Some(path) = open.pop_front() else { break };
        let (status, _, page) = served.get(&path).await;
        // A period of the same GPU or node without verdicts is not an error of the link.
        assert!(status == 200 || (status == 404 && path.contains('?')), "{path}: {status}: {page}");
        let inside = links(&page).into_iter().filter(|href| href.starts_with('/') && !href.starts_with("/-/"));
        open.extend(inside.filter(|href| seen.insert(href.clone())));
    }
    for start in
        [&format!("{NODE_PATH}?"), "/gpus/GPU-a?", "/gpus/GPU-b?", "/gpus/GPU-b/evidence?", "/findings?", "/runs?"]
    {
        assert!(seen.iter().any(|path| path.starts_with(start)), "{start} is not linked: {seen:?}");
    }
}

#[tokio::test]
async fn the_fleet_lists_nodes_with_goodput_and_greatest_loss() {
    let served = with_a_starving_gpu().await;
    let page = page(&served, "/").await;
    let text = text_of(&page);
    assert!(text.contains("Fri 2026-11-20 05:00 to Sat 2026-11-21 06:00, UTC"), "{text}");
    assert!(text.contains("n2 e/&#60;i&#62;7 1 1.00 25.0 %"), "{text}");
    assert!(text.contains("dataloader_storage 0.75 GPU-hours, 75.0 %"), "{text}");
    assert!(page.contains("productive 25.0 %, dataloader_storage 75.0 %"), "the bar in words");
}

#[tokio::test]
async fn what_another_releases_rules_judged_is_said_with_how_to_judge_it_anew() {
    let served = with_a_starving_gpu().await;
    let command = "goodput-analyzer classify --start 2026-11-21T03:00:00Z --end 2026-11-21T04:00:00Z judges them again";
    for path in ["/", "/nodes/n2", "/gpus/GPU-b"] {
        let page = text_of(&page(&served, path).await);
        assert!(page.contains("1.00 GPU-hours, between Sat 2026-11-21 03:00 and") && page.contains(command), "{page}");
    }
    assert!(!page(&served, NODE_PATH).await.contains("rules of other releases"), "it is this release's");
}

#[tokio::test]
async fn a_node_is_that_of_its_cluster() {
    let served = with_a_starving_gpu().await;
    let path = "/clusters/e%2F%3Ci%3E7/nodes/n2";
    assert!(links(&page(&served, "/").await).iter().any(|link| link.starts_with(path)));
    assert!(text_of(&page(&served, path).await).contains("Cluster e/&#60;i&#62;7."));
    page(&served, "/nodes/n2").await;
    let (status, ..) = served.get("/clusters/west/nodes/n2").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_node_shows_each_gpu_as_links_with_names() {
    let served = with_a_starving_gpu().await;
    let page = page(&served, "/nodes/n2").await;
    let day = text::hours(HOUR_MS * 3 / 4);
    let name = format!("{day} GPU-hours, 75.0 % of that time</title>");
    assert!(page.contains("<title>dataloader_storage, ") && page.contains(&name), "{page}");
    assert!(page.contains("job&#38;&#60;i&#62;7&#34;"), "the owner: {page}");
    let text = text_of(&page);
    assert!(text.contains("run ml/MPIJob/&#60;i&#62;7 account ml 1.00"), "whose it is: {text}");
    let idle = self::page(&served, NODE_PATH).await;
    assert!(idle.contains("<title>idle_held, "), "{idle}");
}

#[tokio::test]
async fn the_evidence_of_a_stretch_has_numbers_with_unit_and_window() {
    let served = with_a_starving_gpu().await;
    let gpu = page(&served, "/gpus/GPU-b").await;
    let evidence = links(&gpu).into_iter().find(|href| href.contains("class=dataloader_storage")).unwrap();
    let page = page(&served, &evidence).await;
    let text = text_of(&page);
    for part in [
        "The GPU waited for input that storage was late to deliver.",
        "0.75 GPU-hours, 75.0 % of the 60 min from first to last cell",
        "confidence 90.0 %, weighted over its cells rule version 3, by rules of another release; this one&#39;s is",
        "job_io_pressure 75 % of the time 75 % of the time 10 % of the time Sat 21 Nov",
        "Missing, so that rules abstained; with them the class might be another: job_cpu_pressure",
        "No samples of it are stored for this time",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let other = evidence.replace("dataloader_storage", "checkpoint");
    let (status, _, text) = served.get(&other).await;
    assert_eq!(status, 404);
    assert!(text.contains("No verdict checkpoint is stored for GPU GPU-b"), "{text}");
}

#[tokio::test]
async fn who_waited_leads_to_who_caused_it_and_back() {
    let served = with_a_starving_gpu().await;
    let hour = START..START + HOUR_MS;
    let mut waiting = served.store.intervals(hour.clone()).await.unwrap();
    waiting.retain(|i| i.node == "n2" && i.class == Class::DataloaderStorage);
    waiting[0].class = Class::Straggler;
    waiting[0].charged_to = Some(Culprit { node: NODE.into(), gpu: Some("GPU-a".into()) });
    served.store.replace(STARVING_NODE, hour, &waiting).await.unwrap();
    let victim = page(&served, "/gpus/GPU-b").await;
    assert!(text_of(&victim).contains("caused by GPU-a on &#60;b&#62;n/50%"), "{victim}");
    let evidence = links(&victim).into_iter().find(|href| href.contains("class=straggler")).unwrap();
    assert!(evidence.ends_with("&charged_to=GPU-a"), "{evidence}");
    let evidence = page(&served, &evidence).await;
    let culprit = links(&evidence).into_iter().find(|href| href.starts_with("/gpus/GPU-a?")).unwrap();
    let culprit = page(&served, &culprit).await;
    assert!(text_of(&culprit).contains("Other GPUs lost 0.75 GPU-hours while they waited for this one."), "{culprit}");
    assert!(links(&culprit).iter().any(|href| href.starts_with("/gpus/GPU-b/evidence?class=straggler")), "{culprit}");
    let idle = links(&culprit).into_iter().find(|href| href.contains("class=idle_held")).unwrap();
    let idle = text_of(&page(&served, &idle).await);
    assert!(idle.contains("caused elsewhere 0.75 GPU-hours of GPUs that waited for this one"), "{idle}");
}

#[tokio::test]
async fn two_ports_that_were_waited_for_at_once_have_pages_of_their_own() {
    let served = with_a_starving_gpu().await;
    let hour = START..START + HOUR_MS;
    let mut waiting = served.store.intervals(hour.clone()).await.unwrap();
    waiting.retain(|i| i.node == "n2" && i.class == Class::DataloaderStorage);
    waiting.truncate(1);
    let mut slow = |port: &str, kind, ms| {
        let charged_to = Some(Culprit { node: NODE.into(), gpu: None });
        let cause = Some(Cause { kind, which: Some(port.to_owned()) });
        waiting.push(Interval { class: Class::NetworkSlow, charged_to, cause, ms, ..waiting[0].clone() });
    };
    slow("mlx5_4/1", CauseKind::Link, 1_200_000);
    slow("mlx5_5/1", CauseKind::Errors, 600_000);
    waiting.remove(0);
    served.store.replace(STARVING_NODE, hour, &waiting).await.unwrap();
    let victim = page(&served, "/gpus/GPU-b").await;
    for part in ["caused by port mlx5_4/1 of", "link: A port is down, or runs below the line rate of its peers."] {
        assert!(text_of(&victim).contains(part), "{part:?} is not in\n{victim}");
    }
    let evidence: Vec<String> = links(&victim).into_iter().filter(|href| href.contains("class=network_slow")).collect();
    for (port, hours) in [("mlx5_4%2F1", "0.33 GPU-hours"), ("mlx5_5%2F1", "0.17 GPU-hours")] {
        let href = evidence.iter().find(|href| href.ends_with(&format!("&which={port}"))).unwrap();
        let shown = page(&served, href).await;
        assert!(text_of(&shown).contains(hours), "{href}: {shown}");
        assert!(links(&shown).iter().any(|href| href.contains("/nodes/%3Cb%3En%2F50%25?")), "{shown}");
        let (status, ..) = served.get(&href.replace("charged_node=", "charged_node=another")).await;
        assert_eq!(status, 404, "{href}");
    }
}

#[tokio::test]
async fn what_a_verdict_rests_on_is_drawn_from_the_samples() {
    let served = with_a_starving_gpu().await;
    let (start, end) = (rfc3339(START), rfc3339(START + 2 * HOUR_MS));
    let page = page(&served, &format!("/gpus/GPU-a/evidence?class=idle_held&start={start}&end={end}")).await;
    assert!(page.contains("gpu_utilization: mean 0 %, range 0 %, over 120 cells of 1 min"), "{page}");
    assert!(page.contains("fb_used: mean 19.5 GiB"), "{page}");
    assert!(page.contains("<path class=\"mean\" d=\"M"), "{page}");
}

#[tokio::test]
async fn what_is_not_there_says_what_to_do_and_what_is_wrong_is_named() {
    let served = with_a_starving_gpu().await;
    for (path, status, what) in [
        ("/nodes/n3", 404, "No verdict is stored for node n3 from "),
        ("/nodes/%3Cb%3E", 404, "No verdict is stored for node &#60;b&#62; from "),
        ("/gpus/GPU-x", 404, "No verdict is stored for GPU GPU-x from "),
        ("/no/such/page", 404, "There is no such page"),
        ("/?period=2d", 400, "period: &#34;2d&#34;: expected 1h, 24h, 7d or an ISO week such as 2026-W47"),
        ("/nodes/n2?start=2026-11-21", 400, "end: missing"),
        ("/gpus/GPU-b/evidence?class=x", 400, "class: &#34;x&#34;: expected one of productive, no_data, "),
        ("/gpus/GPU-b/evidence?class=no_data&start=now", 400, "start: &#34;now&#34;: expected a time such as 2026-"),
        ("/report?week=2027-W53", 400, "week: 2027-W53: 2027 has 52 ISO weeks"),
    ] {
        let (found, _, page) = served.get(path).await;
        assert_eq!(found, status, "{path}");
        assert!(page.contains(what), "{path}: {what} is not in {page}");
    }
}

#[tokio::test]
async fn the_description_of_the_api_is_found_at_the_root_too() {
    let served = serve(NODE).await;
    let description = served.get("/openapi.json").await;
    assert_eq!(description, served.get("/api/v1/openapi.json").await);
    assert_eq!(description.0, 200);
}

#[tokio::test]
async fn an_empty_store_says_how_to_send_data() {
    assert!(page(&Served::empty().await, "/").await.contains("remote_write:"));
}

#[tokio::test]
async fn the_report_of_a_week_and_the_state_of_the_analyzer() {
    let served = serve(NODE).await;
    let report = page(&served, "/report?week=2026-W47").await;
    assert!(report.contains("Held without work: &#60;b&#62;n"), "the finding, escaped");
    assert_eq!(page(&served, "/report").await, report, "this week, if none is named");
    let state = page(&served, "/state").await;
    // Nothing has told this intake that its samples are judged.
    let runbooks: Vec<_> = state.split("docs/runbooks/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(runbooks, ["GoodputAnalyzerJudgingStale.md"], "{state}");
    assert!(state.contains("&#60;b&#62;n/50%:9400") && state.contains("/report?week=2026-W47"), "{state}");
}

#[tokio::test]
async fn assets_have_their_content_in_their_name() {
    let served = serve(NODE).await;
    let page = page(&served, "/").await;
    for asset in [&assets::STYLE, &assets::SCRIPT, &assets::ICON] {
        let path = format!("/assets/{}", asset.name);
        assert!(page.contains(&path), "{path}");
        assert_eq!(served.get(&path).await.0, 200);
    }
    assert_eq!(served.get("/assets/goodput-00000000.css").await.0, 404);
    let style = served.get(&format!("/assets/{}", assets::STYLE.name)).await.2;
    for class in Class::ALL {
        assert!(style.contains(&format!(".c-{} {{", class.name())), "no colour for {}", class.name());
    }
}

#[tokio::test]
async fn a_finding_of_the_report_leads_to_its_evidence_and_the_report_back_to_the_pages() {
    let served = with_a_starving_gpu().await;
    let report = page(&served, "/report?week=2026-W47").await;
    let all = links(&report);
    let evidence: Vec<&String> = all.iter().filter(|href| href.contains("/evidence?")).collect();
    assert!(evidence.len() >= 2, "{all:?}");
    for href in evidence {
        page(&served, href).await;
    }
    let gpu = all.iter().find(|href| href.starts_with("/gpus/GPU-b?")).unwrap();
    page(&served, gpu).await;
    assert!(all.contains(&"/".to_owned()) && all.contains(&"/state".to_owned()) && all.contains(&"#first".to_owned()));
    let anchors: Vec<&str> = all.iter().filter_map(|href| href.strip_prefix('#')).collect();
    for anchor in anchors {
        assert!(report.contains(&format!("id=\"{anchor}\"")), "{anchor}");
    }
    assert!(report.contains("2026-W47, so far"));
}

#[tokio::test]
async fn a_period_without_data_says_where_there_is_some() {
    let served = serve(NODE).await;
    let (status, _, text) = served.get("/report?week=2030-W01").await;
    assert_eq!(status, 404);
    assert!(text.contains("No data for 2030-W01") && text.contains("/report?week=2026-W47"), "{text}");
    assert!(text.contains("Data reaches from Sat 2026-11-21 03:00 to Sat 2026-11-21 05:00, UTC"), "{text}");
    let fleet = page(&served, "/?period=2026-W40").await;
    assert!(
        text_of(&fleet).contains("Data reaches from Sat 2026-11-21 03:00") && !fleet.contains("remote_write"),
        "{fleet}"
    );
    let newest = links(&fleet).into_iter().find(|href| href.starts_with("/?start=")).unwrap();
    assert!(page(&served, &newest).await.contains("Nodes by loss"), "{newest}");
}
