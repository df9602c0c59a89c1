//! Every table of every page: its heads sort it, a form filters it, and CSV and JSON of it are linked.

use super::*;
use crate::app::{Deliveries, Outcomes};
use crate::config::Config;
use goodput_testing::{START as BEGUN, ended, event, risk};
use goodput_verdict::event::{Event, Place as EventPlace, Status};
use goodput_verdict::{Achieved, Fault, Kind, Memory, Prospect};

const RANGE: &str = "start=2026-11-21T03:00:00Z&end=2026-11-21T05:00:00Z";

/// Heads that no order has: of bars, of what is the same in every row, of words that explain, of intervals that mostly are
/// empty, and of shares whose figures stand next to them.
const UNSORTED: [&str; 7] =
    ["where the time went", "window", "meaning", "90 % interval", "A, of capacity", "B, of capacity", ""];

/// A table of four lines with four different units, whose order means nothing.
const MIXED: &str = "of the time";

/// A store in which every page has all of its tables.
async fn full() -> Served {
    let served = with_a_starving_gpu().await;
    let hour = START..START + HOUR_MS;
    let mut all = served.store.intervals(hour.clone()).await.unwrap();
    all.retain(|i| i.node == "n2");
    // A quarter of what it waited is charged to the other GPU.
    let starving = all.iter_mut().find(|i| i.class == Class::DataloaderStorage).unwrap();
    starving.ms /= 2;
    let culprit = Some(Culprit { node: NODE.into(), gpu: Some("GPU-a".into()) });
    let waiting = Interval { class: Class::Straggler, charged_to: culprit, ..starving.clone() };
    all.push(waiting);
    served.store.replace(STARVING_NODE, hour.clone(), &all).await.unwrap();

    let of = |kind, entity: &str| Prospect { entity: entity.into(), ..risk("n2", START / HOUR_MS, kind).last };
    let (due, ill) = (of(Kind::Memory(Memory::Gpu), "GPU-b"), of(Kind::Hardware(Fault::Xid), "GPU-b"));
    served.progress.send_modify(|progress| progress.prospects = vec![due, ill]);
    let outcomes = [("file".to_owned(), Outcomes::default()), ("slack".to_owned(), Outcomes::default())].into();
    served.deliveries.send_replace(Deliveries { destinations: outcomes, ..Deliveries::default() });
    let teams = "teams: [{name: ml, match: [{account: ml}]}, {name: rest, match: [{node: '*'}]}]\n";
    served.teams.set(Ok((*Config::parse(teams).unwrap().teams()).clone()));

    let place = EventPlace { node: Some("n2".into()), ..EventPlace::default() };
    let at = |ms, attempt, what| Event { place: place.clone(), ..event(START + ms, attempt, what) };
    let told = [at(0, 1, BEGUN), at(900_000, 1, ended(Status::Failed)), at(960_000, 2, BEGUN)];
    goodput_store::Events::add_events(&served.store, &told).await.unwrap();
    let answers = Achieved { model: Some("llama".into()), ..serving::answers() };
    served.store.replace_achieved(hour, &[answers]).await.unwrap();
    served
}

/// Each page, and how many tables it has at least.
async fn pages(served: &Served) -> Vec<(String, usize)> {
    let gpu = format!("/gpus/GPU-b?{RANGE}");
    let evidence = links(&page(served, &gpu).await).into_iter().find(|href| href.contains("class=dataloader_storage"));
    let run = format!("/clusters/e%2F%3Ci%3E7/runs/ml%2FMPIJob%2F%3Ci%3E7?{RANGE}");
    vec![
        (format!("/?{RANGE}"), 5),
        (format!("/findings?{RANGE}"), 1),
        (format!("/runs?{RANGE}"), 1),
        (run, 3),
        ("/teams?period=2026-W47".to_owned(), 1),
        ("/teams/ml?period=2026-W47".to_owned(), 4),
        (format!("/nodes/n2?{RANGE}"), 2),
        (gpu, 3),
        (format!("/gpus/GPU-a?{RANGE}"), 3),
        (evidence.unwrap(), 1),
        (format!("/compare?{RANGE}&node=n2"), 2),
        ("/state".to_owned(), 3),
    ]
}

/// Name and address, empty without one, of each head of a table.
fn heads(table: &str) -> Vec<(String, Option<String>)> {
    let head = table.split_once("</thead>").map_or("", |(head, _)| head);
    head.split("<th ").skip(1).map(|th| (text_of(&format!("<th {th}")), links(th).into_iter().next())).collect()
}

#[tokio::test]
async fn every_table_of_every_page_is_sorted_and_leads_to_its_csv_and_json() {
    let served = full().await;
    for (path, least) in pages(&served).await {
        let html = page(&served, &path).await;
        let tables: Vec<&str> = html.match_indices("<table").map(|(at, _)| &html[at..]).collect();
        assert!(tables.len() >= least, "{path}: {} tables", tables.len());
        for table in tables {
            let heads = heads(table);
            let first = heads.first().unwrap_or_else(|| panic!("a table of {path} has no heads: {table}")).0.clone();
            if first == MIXED {
                continue;
            }
            for (name, href) in heads.iter().filter(|(name, _)| !UNSORTED.contains(&name.as_str())) {
                let href = href.clone().unwrap_or_else(|| panic!("{path}: {name} does not sort the table of {first}"));
                let sorted = page(&served, href.split('#').next().unwrap()).await;
                assert!(sorted.contains("aria-sort=\""), "{href}");
                let anchor = href.split_once('#').map_or("", |(_, anchor)| anchor);
                let count = sorted.matches(&format!("id=\"{anchor}\"")).count();
                assert!(anchor.is_empty() || count == 1, "{href}: {count} places have this name");
            }
            let section = table.split("</section>").next().unwrap();
            let files: Vec<String> = links(section).into_iter().filter(|href| href.starts_with("/api/v1/")).collect();
            // Weeks of a team are a list of weeks only.
            let of = |csv: bool| files.iter().find(|href| href.ends_with("format=csv") == csv);
            let (csv, json) =
                of(true).zip(of(false)).unwrap_or_else(|| panic!("{path}: no files of {first}: {files:?}"));
            for (href, kind) in [(csv, "text/csv; charset=utf-8; header=present"), (json, "application/json")] {
                let (status, found, text) = served.get(href).await;
                assert_eq!((status, found.as_str()), (200, kind), "{href}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn every_table_of_every_page_is_filtered_by_a_part_of_its_text() {
    let served = full().await;
    for (path, _) in pages(&served).await {
        let html = page(&served, &path).await;
        let ids = links(&html).into_iter().filter_map(|href| Some(href.split_once('#')?.1.to_owned()));
        let ids: BTreeSet<String> = ids.filter(|id| html.contains(&format!("{id}.sort="))).collect();
        let single = ["/findings", "/runs?", "/teams?"].iter().any(|start| path.starts_with(start));
        assert_eq!(ids.is_empty(), single, "{path}: {ids:?}");
        let and = if path.contains('?') { "&" } else { "?" };
        for id in ids {
            let none = page(&served, &format!("{path}{and}{id}.has=no+such+row")).await;
            assert!(none.contains(&format!("name=\"{id}.has\" value=\"no such row\"")), "{path}: {id}");
            assert!(text_of(&none).contains("No row has this text."), "{path}: {id}");
            let picker = none.contains(&format!("&#38;{id}.has=no%20such%20row"))
                || path.contains("/evidence")
                || path == "/state";
            assert!(picker, "{path}: another period loses the filter of {id}");
        }
    }
}

#[tokio::test]
async fn models_are_put_in_an_order_and_filtered() {
    let served = full().await;
    let path = format!("/serving?{RANGE}");
    let html = page(&served, &path).await;
    let orders: Vec<String> = links(&html).into_iter().filter(|href| href.contains("models.sort=")).collect();
    assert_eq!(orders.len(), 5, "{orders:?}");
    for order in orders {
        assert!(page(&served, &order).await.contains("llama"), "{order}");
    }
    let none = page(&served, &format!("{path}&models.has=other")).await;
    assert!(!none.contains("llama") && none.contains("No row has this text."), "{none}");
    for format in ["", "&format=csv"] {
        let files =
            links(&html).into_iter().filter(|href| href.starts_with("/api/v1/serving?") && href.ends_with(format));
        assert!(files.count() >= 2, "{format}");
    }
}

/// Bytes of a page.
const MAX_BYTES: usize = 150_000;

#[tokio::test]
async fn no_page_of_a_thousand_gpus_is_heavier_than_150_kb() {
    let served = serve(NODE).await;
    let hour = START..START + HOUR_MS;
    for node in 0..125 {
        let name = format!("gpu-node-{node:04}.rack-{:02}.example", node % 40);
        let time = |gpu: usize, class, ms| Interval {
            node: name.clone(),
            gpu: format!("GPU-{node:08}-0000-4000-8000-{gpu:012}"),
            model: Some("NVIDIA H100 80GB HBM3".into()),
            owner: Some(format!("slurm-{}", 4700 + node / 2)),
            account: Some(format!("account-{}", node % 20)),
            ms,
            ..bare(class, hour.clone())
        };
        let classes = [Class::Productive, Class::DataloaderStorage, Class::CpuThrottled, Class::Checkpoint];
        let all: Vec<Interval> = (0..8).flat_map(|gpu| classes.map(|class| time(gpu, class, HOUR_MS / 4))).collect();
        served.store.replace(Place { cluster: None, node: &name }, hour.clone(), &all).await.unwrap();
    }
    let node = "gpu-node-0007.rack-07.example";
    for path in [
        "/?".to_owned(),
        "/findings?".to_owned(),
        "/runs?".to_owned(),
        "/teams?".to_owned(),
        "/compare?".to_owned(),
        format!("/nodes/{node}?"),
        "/runs/slurm-4703?".to_owned(),
        "/gpus/GPU-00000007-0000-4000-8000-000000000003?".to_owned(),
    ] {
        let bytes = page(&served, &format!("{path}{RANGE}")).await.len();
        assert!(bytes <= MAX_BYTES, "{path}: {bytes} bytes");
    }
}
