//! Forecasts held against the truth: what ran out, how long before it was said, and what was said for nothing. Hardware
//! has no end that could come true.

use std::ops::Range;

use serde::Serialize;

use super::join::Entities;
use super::trace::{Row, Trace};
use crate::classify::Thresholds;
use crate::forecast::{Kind, Memory, Risk, STEP_MS, Sort, risks};
use crate::sample::TimeMs;

/// What became of warnings.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Forecasts {
    /// Times that memory or a disk ran out, or pods were evicted.
    pub ooms: usize,
    /// Of those that were warned of, how long before, in seconds; in rising order.
    pub lead_seconds: Vec<f64>,
    /// The middle one of these.
    pub median_lead_seconds: Option<f64>,
    /// Warnings that nothing followed within the horizon.
    pub false_alarms: usize,
}

impl Forecasts {
    /// Of one trace.
    pub(super) fn of(trace: &Trace, entities: &Entities, window: &Range<TimeMs>, t: &Thresholds) -> Forecasts {
        let mut risks = risks(&trace.series, window, window.end, t);
        risks.retain(|risk| risk.last.kind.sort() != Sort::Hardware);
        let horizon_ms = (t.forecast_horizon_seconds * 1000.0) as i64;
        let lead = |oom: &Row| {
            let lasts = |r: &&Risk| r.start_ms < oom.span.start && r.end_ms + STEP_MS >= oom.span.start;
            let warned = risks.iter().filter(|r| is_about(r, oom, entities)).filter(lasts);
            warned.map(|r| (oom.span.start - r.start_ms) as f64 / 1000.0).reduce(f64::max)
        };
        let comes_true = |risk: &&Risk| {
            let soon = |oom: &&Row| (risk.start_ms..=risk.start_ms + horizon_ms).contains(&oom.span.start);
            trace.ooms.iter().filter(soon).any(|oom| is_about(risk, oom, entities))
        };
        let mut forecasts = Forecasts {
            ooms: trace.ooms.len(),
            lead_seconds: trace.ooms.iter().filter_map(lead).collect(),
            false_alarms: risks.iter().filter(|risk| !comes_true(risk)).count(),
            ..Forecasts::default()
        };
        forecasts.settle();
        forecasts
    }

    /// Adds those of another trace.
    pub(super) fn add(&mut self, other: Forecasts) {
        self.ooms += other.ooms;
        self.false_alarms += other.false_alarms;
        self.lead_seconds.extend(other.lead_seconds);
        self.settle();
    }

    fn settle(&mut self) {
        self.lead_seconds.sort_by(f64::total_cmp);
        self.median_lead_seconds = self.lead_seconds.get(self.lead_seconds.len() / 2).copied();
    }
}

/// Is the warning about what ran out? Pods are evicted before the node's memory or its disk is at its end.
fn is_about(risk: &Risk, oom: &Row, entities: &Entities) -> bool {
    let (kind, (host, _)) = (risk.last.kind, oom.host_and_index());
    let names: &[&str] = match kind {
        Kind::Memory(memory) => &[memory.name()],
        Kind::Eviction(_) => &["eviction", "host", "disk"],
        Kind::Disk(_) | Kind::Hardware(_) => &[kind.sort().name()],
    };
    let is_asked = oom.charged_to.as_deref().is_none_or(|name| names.contains(&name));
    let is_there = match kind {
        Kind::Memory(Memory::Gpu) => {
            // That of an instance is a part of the GPU's.
            let uuid = risk.last.entity.split_once('/').map_or(risk.last.entity.as_str(), |(uuid, _)| uuid);
            entities.get(&oom.entity).is_some_and(|uuids| uuids.contains(uuid))
        }
        _ => risk.last.node == host,
    };
    is_asked && is_there
}
