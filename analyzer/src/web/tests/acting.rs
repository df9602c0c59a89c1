//! What to do now: the first findings, what runs out, GPUs and links that may fail, the pages of findings and runs.

use super::*;
use crate::config::Config;
use crate::report::{Losses, Summed};
use crate::web::chosen::Chosen;
use crate::web::clock::Clock;
use crate::web::finding::Lines;
use goodput_testing::{START as BEGUN, ended, event, risk, saved};
use goodput_verdict::event::{Place as EventPlace, Status};
use goodput_verdict::{Fault, Kind, Memory, Prospect, Room};
use jiff::tz::TimeZone;

/// The run of the GPU that starves, as an address has it.
const RUN_PATH: &str = "/clusters/e%2F%3Ci%3E7/runs/ml%2FMPIJob%2F%3Ci%3E7";

/// The text of the section with this heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<h2>{heading}</h2>")).unwrap_or_else(|| panic!("no {heading} in {page}"));
    rest.split("</section>").next().unwrap()
}

#[tokio::test]
async fn the_first_page_begins_with_what_costs_most_and_leads_to_its_evidence() {
    let served = with_a_starving_gpu().await;
    let fleet = page(&served, "/").await;
    let order: Vec<usize> =
        ["What to do first", "Runs out within 24 h", "GPUs and links that may fail", "Nodes by loss"]
            .map(|h| fleet.find(h).unwrap())
            .into();
    assert!(order.is_sorted(), "{order:?}");
    let first = section(&fleet, "What to do first");
    let text = text_of(first);
    // Two hours of the idle GPU cost more than three quarters of one.
    let (idle, starved) = (text.find("Held without work: ").unwrap(), text.find("Late input from storage: ").unwrap());
    assert!(idle < starved, "{text}");
    assert!(text.contains("0.75 25.0 % "), "{text}");
    let evidence = links(first).into_iter().find(|href| href.contains("class=dataloader_storage")).unwrap();
    assert!(page(&served, &evidence).await.contains("job_io_pressure"));
    assert!(links(first).iter().any(|href| href.starts_with(&format!("{RUN_PATH}?"))), "{first}");
}

#[tokio::test]
async fn nothing_at_risk_is_said_only_where_something_is_watched() {
    let served = with_a_starving_gpu().await;
    let said = async |heading| text_of(section(&page(&served, "/").await, heading));
    let (out, fail) = ("Runs out within 24 h", "GPUs and links that may fail");
    served.progress.send_modify(|progress| {
        progress.prospects.clear();
        progress.last_minutes = vec![bare(Class::NoData, 0..HOUR_MS)];
    });
    assert!(said(out).await.contains("Not known: no memory or disk has samples of the last minutes."));
    assert!(said(fail).await.contains("Not known: no GPU has samples of the last minutes."));
    let mut room = risk("n2", START / HOUR_MS, Kind::Disk(Room::Bytes)).last;
    if let goodput_verdict::Forecast::Exhaustion(exhaustion) = &mut room.forecast {
        exhaustion.at_risk = None;
    }
    served.progress.send_modify(|progress| {
        progress.prospects.push(room);
        progress.last_minutes.push(bare(Class::Productive, 0..HOUR_MS));
    });
    assert!(said(out).await.contains("Nothing is expected to."));
    assert!(said(fail).await.contains("No signal shows damage."));
}

/// At risk within the day, at risk later, and a GPU that may fail.
fn prospects() -> Vec<Prospect> {
    let of = |kind, entity: &str| Prospect { entity: entity.into(), ..risk("n2", START / HOUR_MS, kind).last };
    let mut later = of(Kind::Disk(Room::Bytes), "/scratch");
    if let goodput_verdict::Forecast::Exhaustion(exhaustion) = &mut later.forecast {
        let left = exhaustion.at_risk.as_mut().unwrap();
        left.likely_seconds = 25.0 * 3600.0;
    }
    vec![
        later,
        of(Kind::Memory(Memory::Gpu), "GPU-b/3"),
        of(Kind::Hardware(Fault::Xid), "GPU-b"),
        of(Kind::Hardware(Fault::RdmaPortSlow), "mlx5_4/1"),
    ]
}

#[tokio::test]
async fn what_runs_out_within_a_day_and_gpus_that_may_fail_are_named_with_their_page() {
    let served = with_a_starving_gpu().await;
    served.progress.send_modify(|progress| progress.prospects = prospects());
    let fleet = page(&served, "/").await;
    let due = section(&fleet, "Runs out within 24 h");
    assert!(text_of(due).contains("gpu memory GPU-b on n2 Sat 2026-11-21"), "{due}");
    assert!(text_of(due).contains("65.2 of 74.5 GiB (87.5 %)") && !due.contains("/scratch"), "{due}");
    assert!(links(due).iter().any(|href| href.starts_with("/gpus/GPU-b?")), "of the GPU, for its instance: {due}");
    let ill = text_of(section(&fleet, "GPUs and links that may fail"));
    assert!(ill.contains("network hardware, rdma port slow mlx5_4/1 on n2 act before"), "{ill}");
    assert!(ill.contains("GPU hardware, xid GPU-b on n2 act before the next job s 10 % (threshold 30 %) o"), "{ill}");
}

#[tokio::test]
async fn findings_lead_to_runs_and_to_the_report_of_their_week_and_the_report_leads_back() {
    let served = with_a_starving_gpu().await;
    let findings = page(&served, "/findings?period=2026-W47").await;
    let all = links(&findings);
    assert!(all.contains(&"/report?week=2026-W47".to_owned()), "{all:?}");
    let report = page(&served, "/report?week=2026-W47").await;
    let back: Vec<String> = links(&report).into_iter().filter(|href| href.starts_with("/findings?")).collect();
    assert_eq!(back.len(), 2, "{back:?}");
    for href in back {
        let (_, id) = href.split_once('#').unwrap();
        assert!(page(&served, &href).await.contains(&format!("<tr id=\"{id}\">")), "{href}");
    }
    let rows: Vec<String> =
        links(&report).into_iter().filter(|href| href.contains("/runs/") || href.contains("/nodes/")).collect();
    assert!(rows.iter().any(|href| href.starts_with(RUN_PATH)), "{rows:?}");
    for href in rows {
        page(&served, &href).await;
    }
}

#[tokio::test]
async fn a_run_has_its_time_its_gpus_its_findings_and_its_attempts() {
    let served = with_a_starving_gpu().await;
    let runs = page(&served, "/runs").await;
    let path = links(&runs).into_iter().find(|href| href.starts_with(RUN_PATH)).unwrap();
    let shown = text_of(&runs);
    assert!(shown.contains("cluster e/&#60;i&#62;7 account ml 1 1.00 25.0 %"), "{shown}");

    let place = EventPlace { node: Some("n2".into()), ..EventPlace::default() };
    let at =
        |ms, attempt, what| goodput_verdict::event::Event { place: place.clone(), ..event(START + ms, attempt, what) };
    let elsewhere = EventPlace { node: Some("n3".into()), ..EventPlace::default() };
    let other = goodput_verdict::event::Event { place: elsewhere, ..event(START, 7, BEGUN) };
    let other = goodput_verdict::event::Event {
        run: goodput_verdict::event::RunId { cluster: String::new(), name: "another run".into() },
        ..other
    };
    let told = [
        at(0, 1, BEGUN),
        at(600_000, 1, saved(40)),
        at(900_000, 1, ended(Status::Failed)),
        at(960_000, 2, BEGUN),
        other,
    ];
    goodput_store::Events::add_events(&served.store, &told).await.unwrap();

    let run = page(&served, &path).await;
    let text = text_of(&run);
    for part in [
        "GPU-hours held 1.00",
        "productive 25.0 % GPUs in this period: 1",
        "GPU-hours lost 0.75",
        "Late input from storage: ml/MPIJob/",
        "Attempts at r",
        "1 Sat 2026-11-21 03:00 Sat 2026-11-21 03:15 failed 40 Sat 2026-11-21 03:10 unknown",
        "2 Sat 2026-11-21 03:16 may go on open",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("another run"), "its place is another: {text}");
    let all = links(&run);
    for start in ["/gpus/GPU-b?", "/gpus/GPU-b/evidence?class=dataloader_storage", "/clusters/e%2F%3Ci%3E7/nodes/n2?"] {
        assert!(all.iter().any(|href| href.starts_with(start)), "{start}: {all:?}");
    }
    assert_eq!(served.get("/clusters/west/runs/ml%2FMPIJob%2F%3Ci%3E7").await.0, 404);
    let (status, _, none) = served.get("/runs/nothing").await;
    assert!(status == 404 && none.contains("No GPU time of nothing is stored from "), "{none}");
}

#[test]
fn with_prices_findings_are_ranked_by_money_and_say_it() {
    let loss = |gpu: &str, model: &str, ms| Interval {
        gpu: gpu.into(),
        model: Some(model.into()),
        owner: Some(format!("of-{gpu}")),
        ms,
        ..bare(Class::IdleHeld, 0..HOUR_MS)
    };
    let prices = "prices:\n- {model: H100, currency: EUR, per_gpu_hour: 4, valid_from: 1970-01-01}\n\
                  - {model: T4, currency: EUR, per_gpu_hour: 0.5, valid_from: 1970-01-01}\n";
    let prices = Config::parse(prices).unwrap().prices;
    let items = Summed::of(&[loss("a", "T4", HOUR_MS), loss("b", "H100", HOUR_MS / 2)], &prices);
    let losses = Losses::of(&items, None, 2 * HOUR_MS);
    let chosen = Chosen::hours(&(0..HOUR_MS), HOUR_MS, Clock { zone: TimeZone::UTC });
    let all = Lines::of(&losses, &losses.groups, &chosen);
    let shown: Vec<(&str, &str)> = all.lines.iter().map(|l| (l.sentence.as_str(), l.cost.as_str())).collect();
    assert!(all.has_money);
    assert_eq!(shown, [("Held without work: of-b", "EUR\u{a0}2.00"), ("Held without work: of-a", "EUR\u{a0}0.50")]);
}
