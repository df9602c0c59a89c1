//! What is to be expected, as at the last minute that is judged.

use goodput_catalog::Metric;
use goodput_catalog::analyzer::verdicts as rows;

use super::Page;
use goodput_verdict::{Kind, Prospect, Sort};

/// The gauges of one sort of what runs out.
struct RunsOut {
    sort: Sort,
    used: &'static Metric,
    likely: &'static Metric,
    soonest: &'static Metric,
    latest: &'static Metric,
}

static RUNS_OUT: [RunsOut; 3] = [
    RunsOut {
        sort: Sort::Memory,
        used: &rows::MEMORY_USED,
        likely: &rows::OOM_LIKELY,
        soonest: &rows::OOM_SOONEST,
        latest: &rows::OOM_LATEST,
    },
    RunsOut {
        sort: Sort::Disk,
        used: &rows::DISK_USED,
        likely: &rows::DISK_LIKELY,
        soonest: &rows::DISK_SOONEST,
        latest: &rows::DISK_LATEST,
    },
    RunsOut {
        sort: Sort::Eviction,
        used: &rows::EVICTION_USED,
        likely: &rows::EVICTION_LIKELY,
        soonest: &rows::EVICTION_SOONEST,
        latest: &rows::EVICTION_LATEST,
    },
];

pub(super) fn push(page: &mut Page, prospects: &[Prospect]) {
    for gauges in &RUNS_OUT {
        for prospect in prospects.iter().filter(|p| p.kind.sort() == gauges.sort) {
            runs_out(page, gauges, prospect);
        }
    }
    for prospect in prospects {
        if let Some(damage) = prospect.damage() {
            let entity = &*prospect.entity;
            let (gpu, device) = if prospect.kind.is_of_gpu() { (entity, "") } else { ("", entity) };
            let values = [&*prospect.node, prospect.kind.which(), damage.level.name()];
            page.push_with(&rows::HARDWARE, &[cluster(prospect), gpu, device], &values, 1.0);
        }
    }
}

fn runs_out(page: &mut Page, gauges: &RunsOut, prospect: &Prospect) {
    let (node, which, entity) = (&*prospect.node, prospect.kind.which(), &*prospect.entity);
    let all = [node, which, entity];
    let values = if matches!(prospect.kind, Kind::Eviction(_)) { &all[..2] } else { &all };
    let mut push = |row, value: f64| page.push_with(row, &[cluster(prospect)], values, value);
    let Some(exhaustion) = prospect.exhaustion() else { return };
    push(gauges.used, exhaustion.used / exhaustion.limit);
    let Some(limit) = exhaustion.at_risk else { return };
    push(gauges.likely, limit.likely_seconds);
    push(gauges.soonest, limit.soonest_seconds);
    if let Some(seconds) = limit.latest_seconds {
        push(gauges.latest, seconds);
    }
}

/// Empty, and so no label, where there is none.
fn cluster(prospect: &Prospect) -> &str {
    prospect.cluster.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_two_clusters_call_alike_have_series_of_their_own() {
        let east = goodput_testing::outlook().risks.remove(0).last;
        let (west, nowhere) = (Some("west".to_owned()), None);
        let [west, nowhere] = [west, nowhere].map(|cluster| Prospect { cluster, ..east.clone() });
        let mut page = Page::default();
        push(&mut page, &[east, west, nowhere]);
        let text = page.text().unwrap();
        let used = |labels: &str| text.contains(&format!("goodput_memory_used_ratio{{{labels}\"}} 0.875\n"));
        for cluster in ["cluster=\"east\",", "cluster=\"west\",", ""] {
            assert!(used(&format!("{cluster}node=\"a\",memory=\"gpu\",entity=\"e")), "{cluster}: {text}");
        }
    }
}
