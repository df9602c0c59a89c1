//! What stands around what was lost: the time picker, search, how a GPU is, and when reports are delivered.

use super::*;
use crate::app::{Awaited, Due, Outcomes, Refused};
use goodput_exposition::sample::{Batch, Labels, Sample, Series};
use goodput_store::Ingest as _;

#[tokio::test]
async fn the_form_of_the_picker_asks_for_hours_and_for_a_week() {
    let served = serve(NODE).await;
    let hours = page(&served, "/?start=2026-11-21T03%3A00&end=2026-11-21T05%3A00").await;
    assert!(text_of(&hours).contains("Sat 2026-11-21 03:00 to Sat 2026-11-21 05:00, UTC"), "{hours}");
    assert!(
        hours.contains("name=\"start\" value=\"2026-11-21T03:00\"") && hours.contains("value=\"2026-W47\""),
        "{hours}"
    );
    assert_eq!(hours.matches("aria-current=\"true\">Sat 21 Nov 2026 03:00–05:00</a>").count(), 1, "{hours}");
    for path in ["/?period=2026-W47", "/findings?period=2026-W47", "/runs", NODE_PATH, "/gpus/GPU-a"] {
        let shown = page(&served, path).await;
        let marked: Vec<&str> = shown.split("aria-current=\"true\"").skip(1).collect();
        let zoomed = usize::from(path.starts_with("/gpus/") && marked.len() > 1);
        assert_eq!(marked.len() - zoomed, 1, "{path}: {shown}");
        assert_eq!(shown.matches("<form action=").count(), 2, "for hours and for a week: {path}");
    }
    let (status, _, wrong) = served.get("/?start=2026-11-21T03%3A30&end=2026-11-21T05%3A00").await;
    assert!(status == 400 && wrong.contains("start, end: "), "{wrong}");
}

#[tokio::test]
async fn a_part_of_a_name_finds_nodes_gpus_runs_owners_and_accounts() {
    let served = with_a_starving_gpu().await;
    let now = served.store.intervals(START..START + HOUR_MS).await.unwrap();
    served.progress.send_modify(|progress| progress.last_hour.extend(now));
    for (asked, kind, start) in [
        ("%3Cb%3En%2F", "Nodes", NODE_PATH),
        ("N2", "Nodes", "/clusters/e%2F%3Ci%3E7/nodes/n2?"),
        ("gpu-b", "GPUs", "/gpus/GPU-b?"),
        ("0%40%3Cb%3E", "GPUs", "/gpus/GPU-a?"),
        ("mpijob", "Runs", "/clusters/e%2F%3Ci%3E7/runs/ml%2FMPIJob%2F%3Ci%3E7?"),
        ("job%26", "Owners", "/clusters/e%2F%3Ci%3E7/runs/ml%2FMPIJob%2F%3Ci%3E7?"),
        ("ml", "Accounts", "/runs?period=24h&account=ml"),
    ] {
        let found = page(&served, &format!("/search?q={asked}")).await;
        let (_, rest) = found.split_once(&format!("<h2>{kind}</h2>")).unwrap_or_else(|| panic!("{asked}: {found}"));
        let hits = links(rest.split("</section>").next().unwrap());
        assert!(hits.iter().any(|href| href.starts_with(start)), "{asked}: {hits:?}");
        for href in hits {
            page(&served, &href).await;
        }
    }
    let runs = page(&served, "/runs?account=ml").await;
    assert!(text_of(&runs).contains("Runs of ml") && !runs.contains("GPU-a"), "{runs}");
    assert!(page(&served, "/runs?account=none").await.contains("No run has such a name or account."));
}

#[tokio::test]
async fn what_ended_is_found_by_its_whole_name_and_what_is_not_there_says_so() {
    let served = with_a_starving_gpu().await;
    served.progress.send_modify(|progress| progress.last_hour.clear());
    let found = page(&served, "/search?q=GPU-b").await;
    assert!(text_of(&found).contains("GPUs GPU-b, seen on 2026-11-21"), "{found}");
    let href = links(&found).into_iter().find(|href| href.starts_with("/gpus/GPU-b?start=")).unwrap();
    page(&served, &href).await;
    assert!(page(&served, "/search?q=GPU-").await.contains("Nothing has this name"));
    assert!(!page(&served, "/search").await.contains("Nothing has this name"));
}

#[tokio::test]
async fn a_gpu_begins_with_its_index_and_how_it_is_and_lists_losses_by_job() {
    let served = with_a_starving_gpu().await;
    let labels = [("__name__", "DCGM_FI_DEV_XID_ERRORS"), ("gpu", "3"), ("UUID", "GPU-b"), ("Hostname", "n2")];
    let of = |name: &'static str, value| Series {
        labels: Labels::new(labels.map(|(key, own)| if key == "__name__" { (key, name) } else { (key, own) })),
        samples: vec![Sample { time_ms: START + HOUR_MS / 2, value }],
    };
    let util = Series {
        labels: Labels::new([
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("gpu", "3"),
            ("UUID", "GPU-b"),
            ("DCGM_FI_DRIVER_VERSION", "580.1"),
        ]),
        samples: vec![Sample { time_ms: START, value: 1.0 }],
    };
    let told = [of("DCGM_FI_DEV_XID_ERRORS", 79.0), of("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0.0), util];
    served.store.append(Batch::from_iter(told)).await.unwrap();
    let period = format!("start={}&end={}", rfc3339(START), rfc3339(START + HOUR_MS));
    let gpu = page(&served, &format!("/gpus/GPU-b?{period}")).await;
    let text = text_of(&gpu);
    for part in [
        "<h1>GPU 3 on n2</h1>",
        "held now by unknown driver 580.1 last XID 79 DCGM_FI_DEV_XID_ERRORS zero ECC errors, uncorrected",
        "Late input from storage dataloader_storage",
        "1.00 GPU-hours, 0.75 lost.",
        "1 more: productive time, and losses below 6 minutes",
    ] {
        assert!(gpu.contains(part) || text.contains(part), "{part:?} is not in\n{text}");
    }
    let minutes = served.store.intervals(START..START + HOUR_MS).await.unwrap();
    served.progress.send_modify(|progress| progress.last_minutes = minutes);
    let held = text_of(&page(&served, &format!("/gpus/GPU-b?{period}")).await);
    assert!(held.contains("held now by ml/MPIJob/&#60;i&#62;7 driver"), "{held}");
    assert!(page(&served, &format!("/nodes/n2?{period}")).await.contains(">GPU 3</a>"));
}

#[tokio::test]
async fn the_state_page_says_what_a_report_waits_for_and_when_the_next_is_due() {
    let served = serve(NODE).await;
    let state = async || text_of(&page(&served, "/state").await);
    assert!(state().await.contains("No report is delivered: the configuration has none of"));
    served.deliveries.send_modify(|deliveries| {
        let outcomes =
            Outcomes { delivered: 2, failed: 1, last_success_ms: Some(START), overdue: true, ..Outcomes::default() };
        deliveries.destinations.insert("webhook".to_owned(), outcomes);
        let reason = "550 no <such> user".to_owned();
        let refused_now = vec![Refused { contact: "a@example.org".into(), reason }];
        let people = Outcomes { pending: 2, held: Some(3), refused_now, ..Outcomes::default() };
        deliveries.destinations.insert("people".to_owned(), people);
        let what = "the next attempt, after one that failed";
        deliveries.awaited = Some(Awaited { week: "2026-W46".into(), what, until_ms: Some(START + HOUR_MS) });
        deliveries.next = Some(Due { week: "2026-W47".into(), at_ms: START + 48 * HOUR_MS });
    });
    let text = state().await;
    for part in [
        "The report of 2026-W46 waits for the next attempt, after one that failed, until Sat 2026-11-21 04:00 at least.",
        "Next by the schedule: 2026-W47, from Mon 2026-11-23 03:00 on, UTC.",
        "2 messages to be sent, 3 held back by at_most refused for a@example.org: 550 no &#60;such&#62; user",
        "webhook Sat 2026-11-21 03:00 2 1 overdue: the last attempt failed",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
