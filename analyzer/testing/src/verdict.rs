//! One of each that is stored.

use std::ops::Range;

use goodput_exposition::sample::TimeMs;
use goodput_verdict::{
    Advice, Advisory, Cause, CauseKind, CheckEnd, Class, CollectiveUse, Damage, Drift, Evidence, Exhaustion, Fault,
    Forecast, HOUR_MS as HOUR, Interval, Kind, Level, Measure, Memory, MountUse, Outlook, Paired, PortUse, Prospect,
    Risk, Shape, Standing, TimeToLimit, Version,
};

/// A verdict without further detail: all of this time of the GPU `GPU-a` on the node `n1`.
#[must_use]
pub fn bare(class: Class, span: Range<TimeMs>) -> Interval {
    Interval {
        gpu: "GPU-a".to_owned(),
        node: "n1".to_owned(),
        start_ms: span.start,
        end_ms: span.end,
        ms: span.end - span.start,
        confidence: 0.9,
        ..Interval::untimed(class)
    }
}

/// A verdict on an hour since the epoch of the GPU `GPU-1`.
#[must_use]
pub fn interval(node: &str, hour: TimeMs, class: Class) -> Interval {
    Interval {
        gpu: "GPU-1".to_owned(),
        node: node.to_owned(),
        model: Some("NVIDIA H100 80GB HBM3".to_owned()),
        evidence: vec![Evidence { signal: "s".to_owned(), value: 0.1, unit: "ratio".to_owned(), threshold: 0.3 }],
        missing: vec!["t".to_owned()],
        version: Some(Version { rule: 2, rules: 40 }),
        ..bare(class, hour * HOUR..(hour + 1) * HOUR)
    }
}

/// What was at risk in an hour since the epoch, of the entity `e`.
#[must_use]
pub fn risk(node: &str, hour: TimeMs, kind: Kind) -> Risk {
    let made_ms = hour * HOUR + HOUR / 2;
    let (forecast, earliest_ms) = match kind {
        Kind::Hardware(_) => (Forecast::Damage(damage()), None),
        _ => (Forecast::Exhaustion(exhaustion()), Some(made_ms + 900_000)),
    };
    let (node, entity, owners) = (node.to_owned(), "e".to_owned(), vec!["o".to_owned()]);
    let last = Prospect { cluster: Some("east".to_owned()), node, entity, owners, made_ms, kind, forecast };
    Risk { start_ms: hour * HOUR, end_ms: made_ms + HOUR / 12, earliest_ms, last }
}

fn exhaustion() -> Exhaustion {
    let at_risk = Some(TimeToLimit { soonest_seconds: 600.0, likely_seconds: 900.5, latest_seconds: None });
    let shape = Shape::Leak;
    Exhaustion { shape, used: 7e10, limit: 8e10, slope: 1e6, slope_low: 5e5, slope_high: 2e6, at_risk }
}

fn damage() -> Damage {
    let evidence = interval("a", 1, Class::CrossNuma).evidence;
    Damage { level: Level::Act, evidence, window_seconds: 7200.0 }
}

/// An advisory of an hour since the epoch.
#[must_use]
pub fn advisory(node: &str, hour: TimeMs) -> Advisory {
    let Interval { gpu, node, model, owner, start_ms, end_ms, confidence, evidence, .. } =
        interval(node, hour, Class::CrossNuma);
    let run = Some("ml/MPIJob/llm".to_owned());
    Advisory {
        cluster: Some("east".to_owned()),
        gpu,
        node,
        model,
        owner,
        run,
        advice: Advice::CrossNuma,
        cause: Some(Cause { kind: CauseKind::Errors, which: Some("mlx5_0/1".to_owned()) }),
        free: Some("n2: GPU-1 GPU-2".to_owned()),
        start_ms,
        end_ms,
        confidence,
        evidence,
    }
}

/// How a node was set up in an hour since the epoch.
#[must_use]
pub fn standing(node: &str, hour: TimeMs) -> Standing {
    let paired = Paired {
        cluster: Some("east".to_owned()),
        node: node.to_owned(),
        owner: "slurm/7".to_owned(),
        measure: Measure::OwnTime,
        start_ms: hour * HOUR,
        cells: 60,
        others: 3,
        slowdown: 1.25,
        next: 1.0,
    };
    let drift = Drift {
        setting: "power limit".to_owned(),
        gpu: Some("GPU-1".to_owned()),
        value: "500 W".to_owned(),
        usual: "700 W".to_owned(),
        alike: 3,
        of: 4,
    };
    let (check, status) = ("swap_off".to_owned(), "fail".to_owned());
    Standing {
        cluster: Some("east".to_owned()),
        node: node.to_owned(),
        start_ms: hour * HOUR,
        end_ms: (hour + 1) * HOUR,
        pool: Some("H100".to_owned()),
        pool_nodes: 4,
        checks: vec![CheckEnd { check, status, usual: None }],
        drift: vec![drift],
        paired: vec![paired],
        ports: vec![port(node, hour)],
        mounts: vec![mount(node, hour)],
        collectives: vec![collectives(node, hour)],
    }
}

/// What a GPU did in collectives in an hour.
fn collectives(node: &str, hour: TimeMs) -> CollectiveUse {
    CollectiveUse {
        cluster: Some("east".to_owned()),
        node: node.to_owned(),
        owner: "llm".to_owned(),
        gpu: "GPU-1".to_owned(),
        start_ms: hour * HOUR,
        seconds: 900.0,
        late_seconds: 300.0,
        collectives: 200,
        last: 20,
    }
}

/// What a port did in an hour.
fn port(node: &str, hour: TimeMs) -> PortUse {
    PortUse {
        cluster: Some("east".to_owned()),
        node: node.to_owned(),
        owner: "llm".to_owned(),
        port: "mlx5_0/1".to_owned(),
        start_ms: hour * HOUR,
        ports: 16,
        rate: Some(5e10),
        down_ms: Some(60_000),
        sent_bytes: Some(2e12),
        timeouts: Some(214.0),
        retransmits: Some(1000.0),
        link_changes: Some(0.0),
        paused_ms: None,
    }
}

/// What a network file system did in an hour.
fn mount(node: &str, hour: TimeMs) -> MountUse {
    MountUse {
        cluster: Some("east".to_owned()),
        node: node.to_owned(),
        owner: "llm".to_owned(),
        mount: "/data".to_owned(),
        export: Some("nas:/data".to_owned()),
        start_ms: hour * HOUR,
        mounts: 2,
        read_bytes: Some(2e11),
        reads: Some(2e5),
        read_seconds: Some(4000.0),
        read_trip_seconds: Some(3000.0),
        best_read_seconds: Some(0.004),
        others: Some(100.0),
        other_seconds: Some(0.5),
        written_bytes: Some(0.0),
        retransmissions: None,
    }
}

/// Risks of two kinds, an advisory and a standing.
#[must_use]
pub fn outlook() -> Outlook {
    let kinds = [Kind::Memory(Memory::Gpu), Kind::Hardware(Fault::RemapPending)];
    Outlook {
        risks: kinds.map(|kind| risk("a", 1, kind)).into(),
        advisories: vec![advisory("a", 1)],
        standings: vec![standing("a", 1)],
    }
}
