//! What a finding says of its loss.

use super::super::{Site, build, html, markdown};
use super::*;
use goodput_rules::classify::sampling::Bounds;
use goodput_testing::bare;
use goodput_verdict::{Cause, CauseKind, Culprit};
use jiff::tz::TimeZone;

const HOUR: i64 = 3_600_000;

fn interval(gpu: &str, class: Class, hour: i64, ms: i64) -> Interval {
    Interval {
        gpu: gpu.into(),
        owner: Some("train".into()),
        ms,
        confidence: 0.75,
        ..bare(class, hour * HOUR..(hour + 1) * HOUR)
    }
}

/// What is recoverable of the first finding, in milliseconds.
fn range(intervals: &[Interval]) -> (i64, i64) {
    let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
    let report = build(intervals, &[], period, &[]);
    let back = report.findings[0].recoverable.as_ref().unwrap();
    (back.low.gpu_ms, back.high.gpu_ms)
}

#[test]
fn more_throughput_saves_held_time_and_no_more_than_was_lost() {
    let mut week = vec![
        interval("GPU-a", Class::CrossNuma, 0, HOUR / 2),
        interval("GPU-a", Class::Productive, 0, HOUR / 2),
        // Another GPU of the owner, without this finding, has no part in it.
        interval("GPU-b", Class::Productive, 0, HOUR),
    ];
    // An hour takes 1 / 1.05 and 1 / 1.10 of it.
    assert_eq!(range(&week), (171_429, 327_273));
    week.extend((1..9).map(|hour| interval("GPU-a", Class::Productive, hour, HOUR)));
    assert_eq!(range(&week), (1_542_857, HOUR / 2));
}

#[test]
fn what_sampling_leaves_unknown_adds_up_within_a_finding_alone() {
    let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
    let loss = |gpu, owner: &str, variance_ms2| {
        let one = interval(gpu, Class::CrossNuma, 0, 600_000);
        Interval { owner: Some(owner.into()), variance_ms2, ..one }
    };
    let all = [
        loss("GPU-a", "train", Some(900_000_000)),
        loss("GPU-b", "train", Some(1_600_000_000)),
        loss("GPU-c", "serve", Some(0)),
        loss("GPU-d", "told by an earlier release", None),
    ];
    let report = build(&all, &[], period, &[]);
    let of = |owner| report.findings.iter().find(|f| f.owner.as_deref() == Some(owner)).unwrap().interval;
    // 1.645 times the root of 2.5e9 ms².
    assert_eq!(of("train"), Some(Bounds { low_ms: 1_117_750, high_ms: 1_282_250 }));
    assert_eq!(of("serve"), Some(Bounds { low_ms: 600_000, high_ms: 600_000 }));
    assert_eq!(of("told by an earlier release"), None);
}

#[test]
fn a_finding_names_the_ports_and_causes_of_its_loss() {
    let slow = |node: &str, which: Option<&str>, kind, ms| Interval {
        charged_to: Some(Culprit { node: node.into(), gpu: None }),
        cause: Some(Cause { kind, which: which.map(str::to_owned) }),
        ..interval("GPU-a", Class::NetworkSlow, 0, ms)
    };
    let week = [
        slow("n2", Some("mlx5_4/1"), CauseKind::Link, 600_000),
        slow("n2", Some("mlx5_5/1"), CauseKind::Link, 300_000),
        slow("n2", Some("mlx5_4/1"), CauseKind::Errors, 600_000),
        slow("n3", None, CauseKind::RdmaUnused, 60_000),
    ];
    let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
    let report = build(&week, &[], period, &[]);
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    let ports: Vec<_> = finding.ports.iter().map(|port| (port.name(), port.amount.gpu_ms)).collect();
    let expected = [("port mlx5_4/1 of n2", 1_200_000), ("port mlx5_5/1 of n2", 300_000), ("node n3", 60_000)];
    assert_eq!(ports, expected.map(|(name, ms)| (name.to_owned(), ms)));
    let causes: Vec<_> = finding.causes.iter().map(|cause| (cause.cause, cause.amount.gpu_ms)).collect();
    assert_eq!(causes, [(CauseKind::Link, 900_000), (CauseKind::Errors, 600_000), (CauseKind::RdmaUnused, 60_000)]);
    assert!(finding.culprits.is_empty() && finding.storage.is_empty());
    assert_eq!(finding.remedies, CauseKind::Link.remedies());
    assert_eq!(finding.commands[0].as_deref(), Some("mlxlink -d mlx5_4 -m -c"));
    let markdown = markdown::render(&report).unwrap();
    for line in [
        "\n- Caused by: port mlx5_4/1 of n2 0.33 h; port mlx5_5/1 of n2 0.08 h; node n3 0.02 h\n",
        "\n- Cause: link: A port is down, or runs below the line rate of its peers. 0.25 h\n",
    ] {
        assert!(markdown.contains(line), "{line:?} is not in\n{markdown}");
    }
    let html = html::render(&report, &Site::default()).unwrap();
    for part in ["<div>port mlx5_4/1 of n2 · 0.33&nbsp;h</div>", "<div><code>link</code>: A port is down"] {
        assert!(html.contains(part), "{part:?} is not in\n{html}");
    }
}

#[test]
fn a_finding_names_the_mounts_of_its_loss() {
    let late = |which: Option<&str>, ms| Interval {
        cause: which.map(|which| Cause { kind: CauseKind::SlowMount, which: Some(which.to_owned()) }),
        ..interval("GPU-a", Class::DataloaderStorage, 0, ms)
    };
    let week = [late(Some("/data"), 600_000), late(Some("/home"), 900_000), late(None, 60_000)];
    let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
    let report = build(&week, &[], period, &[]);
    let storage: Vec<_> = report.findings[0].storage.iter().map(|one| (one.name(), one.amount.gpu_ms)).collect();
    assert_eq!(storage, [("/home of n1".to_owned(), 900_000), ("/data of n1".to_owned(), 600_000)]);
    let pages = [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()];
    assert!(pages.iter().all(|page| page.contains("/home of n1") && page.contains("slow_mount")));
    assert_eq!(report.findings[0].commands[0].as_deref(), Some("nfsiostat 5 3 /home"));
}

#[test]
fn remedies_are_those_of_the_cause_of_most_of_the_loss() {
    let late = |owner: &str, kind: Option<CauseKind>, ms| Interval {
        owner: Some(owner.into()),
        cause: kind.map(|kind| Cause { kind, which: Some("/data".to_owned()) }),
        ..interval("GPU-a", Class::DataloaderStorage, 0, ms)
    };
    let week = [
        late("a", Some(CauseKind::SlowMount), 600_000),
        late("a", None, 700_000),
        late("b", Some(CauseKind::Metadata), 600_000),
        late("b", None, 500_000),
        late("c", Some(CauseKind::Metadata), 900_000),
    ];
    let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
    let report = build(&week, &[], period, &[]);
    let of = |owner| report.findings.iter().find(|f| f.owner.as_deref() == Some(owner)).unwrap();
    assert_eq!(of("a").remedies, Class::DataloaderStorage.info().remedies);
    assert_eq!((of("b").remedies, of("c").remedies), (CauseKind::Metadata.remedies(), CauseKind::Metadata.remedies()));
    // What one of them has stands under the first that has it.
    assert_eq!(report.first_like(of("b")), report.first_like(of("c")));
    assert_ne!(report.first_like(of("a")), report.first_like(of("b")));
}

#[test]
fn each_start_of_each_gpu_counts() {
    let starts = [("GPU-a", 0), ("GPU-a", 1), ("GPU-a", 5), ("GPU-b", 0)];
    let week = starts.map(|(gpu, hour)| interval(gpu, Class::ColdStart, hour, 60_000));
    assert_eq!(range(&week), (3_000, 9_000), "hours that touch are one start");
}

#[test]
fn a_finding_names_who_waited_while_gpus_were_free() {
    let free = |kind: Option<CauseKind>, which: Option<&str>, ms| Interval {
        cause: kind.map(|kind| Cause { kind, which: which.map(str::to_owned) }),
        owner: None,
        ..interval("GPU-a", Class::Unallocated, 0, ms)
    };
    let week = [
        free(Some(CauseKind::FreeWhileWaiting), Some("ml/train"), 900_000),
        free(Some(CauseKind::FreeUnfit), Some("cpu for ml/big"), 600_000),
        free(Some(CauseKind::Free), None, 300_000),
        free(None, None, 1_800_000),
    ];
    let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
    let report = build(&week, &[], period, &[]);
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    let waiting: Vec<_> = finding.waiting.iter().map(|one| (one.which.as_str(), one.amount.gpu_ms)).collect();
    assert_eq!(waiting, [("ml/train", 900_000), ("cpu for ml/big", 600_000)]);
    assert!(finding.storage.is_empty(), "{:?}", finding.storage);
    let back = finding.recoverable.as_ref().map(|back| (back.low.gpu_ms, back.high.gpu_ms));
    assert_eq!((finding.lost.gpu_ms, back), (3_600_000, Some((0, 1_500_000))), "what was waited for, and no more");
    assert_eq!(report.groups[0].recoverable.as_ref().map(|back| back.high.gpu_ms), Some(1_500_000));
    let markdown = markdown::render(&report).unwrap();
    for line in [
        "\n- Who waited: ml/train 0.25 h; cpu for ml/big 0.17 h\n",
        "\n- Cause: free_unfit: A pod waited for a GPU, and something else kept it out. 0.17 h\n",
    ] {
        assert!(markdown.contains(line), "{line:?} is not in\n{markdown}");
    }
    let html = html::render(&report, &Site::default()).unwrap();
    assert!(html.contains("<dt>Who waited</dt><dd class=\"places\"><div>ml/train · 0.25 h</div>"), "{html}");
}
