//! Two periods or two nodes side by side.

use super::*;

/// An hour of one GPU: these parts of it.
fn hour(place: Place<'_>, gpu: &str, start: i64, parts: &[(Class, i64)]) -> Vec<Interval> {
    let part = |(class, minutes): &(Class, i64)| Interval {
        cluster: place.cluster.map(str::to_owned),
        node: place.node.to_owned(),
        gpu: gpu.to_owned(),
        owner: Some("job".to_owned()),
        ms: minutes * HOUR_MS / 60,
        ..bare(*class, start..start + HOUR_MS)
    };
    parts.iter().map(part).collect()
}

/// A node whose storage was late for 30 minutes of an hour, and for six of the hour before; a second that did well.
async fn two_hours() -> Served {
    let served = Served::empty().await;
    let (before, place) = (START - HOUR_MS, Place { cluster: None, node: "n1" });
    let put = async |place: Place<'static>, start: i64, verdicts: Vec<Interval>| {
        served.store.replace(place, start..start + HOUR_MS, &verdicts).await.unwrap();
    };
    let late = |storage, cpu| {
        [(Class::Productive, 60 - storage - cpu), (Class::DataloaderStorage, storage), (Class::DataloaderCpu, cpu)]
    };
    put(place, before, hour(place, "GPU-a", before, &late(6, 3))).await;
    put(place, START, hour(place, "GPU-a", START, &late(30, 6))).await;
    put(STARVING_NODE, before, hour(STARVING_NODE, "GPU-b", before, &[(Class::Productive, 60)])).await;
    put(STARVING_NODE, START, hour(STARVING_NODE, "GPU-b", START, &[(Class::Productive, 60)])).await;
    served
}

fn between(start: i64, end: i64) -> String {
    format!("start={}&end={}", rfc3339(start), rfc3339(end))
}

async fn compared(served: &Served, more: &str) -> String {
    text_of(&page(served, &format!("/compare?{}{more}", between(START, START + HOUR_MS))).await)
}

/// All of it, in this order.
fn has_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is not in the rest of\n{text}")).1;
    }
}

#[tokio::test]
async fn a_period_is_compared_with_the_one_before_and_the_greatest_change_is_first() {
    let served = two_hours().await;
    let fleet = compared(&served, "").await;
    let parts = [
        "A : Fleet , Sat 2026-11-21 03:00 to Sat 2026-11-21 04:00, UTC",
        "B : Fleet , Sat 2026-11-21 02:00 to Sat 2026-11-21 03:00, UTC",
        "Changes are A less B, in GPU-hours",
        "capacity, GPU-hours 2.00 100 % 2.00 100 % ±0",
        "goodput 70.0 % 92.5 % -22.5 points",
        "lost, GPU-hours 0.60 30.0 % 0.15 7.5 % +0.45",
        "without data, GPU-hours 0 0 % 0 0 % ±0",
        "productive −0.45 1.40 70.0 % 1.85 92.5 %",
        "dataloader_storage +0.40 0.50 25.0 % 0.10 5.0 %",
        "dataloader_cpu +0.05 0.10 5.0 % 0.05 2.5 %",
    ];
    has_in_order(&fleet, &parts);
    let node = compared(&served, "&node=n1").await;
    has_in_order(&node, &["A : Node n1 , Sat", "goodput 40.0 % 85.0 % -45.0 points", "dataloader_storage +0.40"]);
}

#[tokio::test]
async fn another_period_may_be_named() {
    let served = two_hours().await;
    let both = format!("&against_start={}&against_end={}", rfc3339(START - HOUR_MS), rfc3339(START + HOUR_MS));
    let longer = compared(&served, &both).await;
    let points = [
        "Changes are A less B, in points of capacity, because capacity differs by more than 2 %.",
        "capacity, GPU-hours 2.00 100 % 4.00 100 % −2.00",
        "lost, GPU-hours 0.60 30.0 % 0.75 18.8 % +11.2 points",
        "productive -11.3 points 1.40",
    ];
    has_in_order(&longer, &points);
    let week = compared(&served, "&against=2026-W47").await;
    has_in_order(
        &week,
        &[
            "B : Fleet , Mon 2026-11-16",
            "not comparable: 2 of 124 h of data in Mon 16 Nov 2026 00:00 – Sat 21 Nov 2026 04:00.",
        ],
    );
    assert!(!week.contains(" points") && !week.contains("change "), "{week}");
}

#[tokio::test]
async fn two_nodes_are_compared_over_one_period() {
    let served = two_hours().await;
    let nodes = compared(&served, "&node=n1&with=n2&with_cluster=e%2F%3Ci%3E7").await;
    let parts =
        ["A : Node n1 , Sat", "B : Node n2 , Sat", "goodput 40.0 % 100 % -60.0 points", "productive −0.60 0.40"];
    has_in_order(&nodes, &parts);
    served
        .store
        .replace(
            Place { cluster: None, node: "n3" },
            START..START + HOUR_MS,
            &[Interval {
                node: "n3".to_owned(),
                gpu: "GPU-c".to_owned(),
                ..bare(Class::NoData, START..START + HOUR_MS)
            }],
        )
        .await
        .unwrap();
    let silent = compared(&served, "&node=n1&with=n3").await;
    has_in_order(&silent, &["not comparable: 0 of 1 h of data in Sat 21 Nov 2026 03:00–04:00 on n3."]);
}

#[tokio::test]
async fn a_period_that_goes_on_is_compared_with_as_much_of_the_one_before() {
    let served = two_hours().await;
    let early = START - 3 * HOUR_MS;
    let verdicts = hour(Place { cluster: None, node: "n1" }, "GPU-a", early, &[(Class::Productive, 60)]);
    served.store.replace(Place { cluster: None, node: "n1" }, early..early + HOUR_MS, &verdicts).await.unwrap();
    // Now is two hours after the start, and of the three hours the first is judged.
    let open = format!("/compare?{}&node=n1", between(START, START + 3 * HOUR_MS));
    let open = text_of(&page(&served, &open).await);
    let parts =
        ["A : Node n1 , Sat 2026-11-21 03:00", "B : Node n1 , Sat 2026-11-21 00:00 to Sat 2026-11-21 01:00, UTC"];
    has_in_order(&open, &parts);
    has_in_order(&open, &["goodput 40.0 % 100 % -60.0 points", "dataloader_storage +0.50"]);
}

#[tokio::test]
async fn what_cannot_be_compared_is_named() {
    let served = two_hours().await;
    let time = between(START, START + HOUR_MS);
    for (more, status, what) in [
        ("&node=n9", 404, "No verdict is stored for node n9 from Sat 2026-11-21 03:00"),
        ("&node=n1&with=n9", 404, "No verdict is stored for node n9 from Sat 2026-11-21 03:00"),
        ("&node=n2&cluster=west", 404, "No verdict is stored for node n2 of cluster west from"),
        ("&against=2026-W40", 404, "No verdict is stored from Mon 2026-09-28 00:00"),
        ("&against=2026-W40", 404, "Data reaches from Sat 2026-11-21 02:00 to Sat 2026-11-21 04:00, UTC"),
        ("&against=2d", 400, "compared with: period: &#34;2d&#34;: expected 1h, 24h, 7d or an ISO week"),
        ("&against_start=2026-11-21", 400, "compared with: end: missing"),
        ("&with=n1", 400, "node: missing, while there is with; expected the name of a node"),
        ("&node=n1&with=n2&against=1h", 400, "with: given together with another period; expected one or the other"),
    ] {
        let (found, _, page) = served.get(&format!("/compare?{time}{more}")).await;
        assert_eq!(found, status, "{more}");
        assert!(page.contains(what), "{more}: {what} is not in {page}");
    }
    assert_eq!(served.get("/compare?period=2026-W40").await.0, 404);
}

#[tokio::test]
async fn pages_lead_to_it_and_it_leads_to_the_same_as_json() {
    let served = with_a_starving_gpu().await;
    for (from, to) in [
        ("/", "/compare?period=24h"),
        ("/findings?period=2026-W47", "/compare?period=2026-W47"),
        ("/clusters/e%2F%3Ci%3E7/nodes/n2", "/compare?period=24h&node=n2&cluster=e%2F%3Ci%3E7"),
    ] {
        assert!(links(&page(&served, from).await).contains(&to.to_owned()), "{from}");
    }
    let shown = page(&served, "/compare?period=24h&node=n2&cluster=e%2F%3Ci%3E7").await;
    let all = links(&shown);
    let later = all.iter().find(|href| href.starts_with("/compare?period=7d")).unwrap();
    assert_eq!(later, "/compare?period=7d&node=n2&cluster=e%2F%3Ci%3E7", "the node is kept");
    let json: Vec<&String> = all.iter().filter(|href| href.starts_with("/api/v1/summary?by=class&node=n2")).collect();
    assert_eq!(json.len(), 4, "A and B, as CSV and as JSON: {all:?}");
    for href in json {
        assert_eq!(served.get(href).await.0, 200, "{href}");
    }
    let hidden = "<input type=\"hidden\" name=\"node\" value=\"n2\"><input type=\"hidden\" name=\"cluster\" value=\"e/&#60;i&#62;7\">";
    assert!(shown.matches(hidden).count() >= 4, "forms keep the node: {shown}");
}
