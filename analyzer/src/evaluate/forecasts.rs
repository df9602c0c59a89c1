//! Forecasts compared with the truth: what ran out, how long before that a forecast said so, and which warnings were
//! false; which GPUs were damaged, and how soon that was reported. When a damaged GPU fails is unknown, so nothing is
//! said before.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use super::join::Entities;
use super::trace::{Row, Trace};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::Thresholds;
use goodput_rules::forecast::{STEP_MS, risks};
use goodput_verdict::{Kind, Memory, Risk, Sort};

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
    /// GPUs and parts of networks that were damaged.
    pub damages: usize,
    /// Of those that were told, how soon after, in seconds; in rising order.
    pub damage_seconds: Vec<f64>,
    /// GPUs and parts of networks that were told to be damaged, in a way in which they were not.
    pub false_damages: usize,
}

impl Forecasts {
    /// Of one trace.
    pub(super) fn of(trace: &Trace, entities: &Entities, window: &Range<TimeMs>, t: &Thresholds) -> Forecasts {
        let all = risks(&trace.series, window, window.end, t).into_iter();
        let (hardware, risks): (Vec<Risk>, Vec<Risk>) = all.partition(|r| r.last.kind.sort() == Sort::Hardware);
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
            ..Forecasts::damages(&trace.damages, &hardware, entities)
        };
        forecasts.settle();
        forecasts
    }

    /// Reports of damaged GPUs; damage reported twice, by signals of several kinds, is one.
    fn damages<'a>(rows: &[Row], hardware: &'a [Risk], entities: &Entities) -> Forecasts {
        let told = |risk: &Risk, row: &Row| {
            let is_its = row.charged_to.as_deref().is_none_or(|fault| fault == risk.last.kind.which());
            let is_there = match risk.last.kind.is_of_gpu() {
                true => entities.get(&row.entity).is_some_and(|uuids| uuids.contains(board(&risk.last.entity))),
                false => row.entity == format!("{}/{}", risk.last.node, risk.last.entity),
            };
            is_its && is_there && (row.span.start..=row.span.end + STEP_MS).contains(&risk.start_ms)
        };
        let soon = |row: &Row| {
            let all = hardware.iter().filter(|risk| told(risk, row));
            all.map(|risk| (risk.start_ms - row.span.start) as f64 / 1000.0).reduce(f64::min)
        };
        let is_false = |risk: &&Risk| !rows.iter().any(|row| told(risk, row));
        let what = |r: &'a Risk| (&r.last.node, &r.last.entity, r.last.kind);
        let wrong: BTreeSet<_> = hardware.iter().filter(is_false).map(what).collect();
        Forecasts {
            damages: rows.len(),
            damage_seconds: rows.iter().filter_map(soon).collect(),
            false_damages: wrong.len(),
            ..Forecasts::default()
        }
    }

    /// Adds those of another trace.
    pub(super) fn add(&mut self, other: Forecasts) {
        self.ooms += other.ooms;
        self.false_alarms += other.false_alarms;
        self.lead_seconds.extend(other.lead_seconds);
        self.damages += other.damages;
        self.damage_seconds.extend(other.damage_seconds);
        self.false_damages += other.false_damages;
        self.settle();
    }

    fn settle(&mut self) {
        self.lead_seconds.sort_by(f64::total_cmp);
        self.damage_seconds.sort_by(f64::total_cmp);
        self.median_lead_seconds = self.lead_seconds.get(self.lead_seconds.len() / 2).copied();
    }
}

/// The UUID of the GPU, or of the one that it is an instance of.
fn board(entity: &str) -> &str {
    entity.split_once('/').map_or(entity, |(uuid, _)| uuid)
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
            entities.get(&oom.entity).is_some_and(|uuids| uuids.contains(board(&risk.last.entity)))
        }
        _ => risk.last.node == host,
    };
    is_asked && is_there
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_verdict::{Fault, Outlook};

    const HOUR: TimeMs = 3_600_000;

    /// Reported `minute` minutes after the damage began.
    fn risk(entity: &str, fault: Fault, minute: i64) -> Risk {
        let Outlook { risks, .. } = goodput_testing::outlook();
        let start_ms = HOUR + minute * 60_000;
        let mut risk = risks.into_iter().find(|risk| risk.last.damage().is_some()).unwrap();
        (risk.start_ms, risk.end_ms) = (start_ms, start_ms + STEP_MS);
        (risk.last.entity, risk.last.kind) = (entity.to_owned(), Kind::Hardware(fault));
        risk
    }

    fn damage(fault: Option<Fault>) -> Row {
        let charged_to = fault.map(|fault| fault.name().to_owned());
        Row {
            line: 2,
            entity: "n1/gpu0".into(),
            span: HOUR..2 * HOUR,
            class: "damage",
            charged_to,
            cause: None,
            also: Vec::new(),
        }
    }

    /// How many were damaged, how soon that was told, and how many were told for nothing.
    fn told(rows: &[Row], hardware: &[Risk]) -> (usize, Vec<f64>, usize) {
        let entities = Entities::from([("n1/gpu0".to_owned(), ["GPU-a".to_owned()].into())]);
        let Forecasts { damages, damage_seconds, false_damages, .. } = Forecasts::damages(rows, hardware, &entities);
        (damages, damage_seconds, false_damages)
    }

    #[test]
    fn a_damaged_gpu_is_told_once_however_many_signals_tell_it() {
        let all = [risk("GPU-a", Fault::Xid, 5), risk("GPU-a/3", Fault::RemapPending, 3)];
        assert_eq!(told(&[damage(None)], &all), (1, vec![180.0], 0));
        assert_eq!(told(&[damage(None)], &[]), (1, vec![], 0));
    }

    #[test]
    fn a_port_is_named_with_its_node() {
        let fault = Fault::RdmaPortSlow;
        let port = |device: &str| Row { entity: format!("a/{device}/1"), ..damage(Some(fault)) };
        let told_of = risk("mlx5_4/1", fault, 5);
        assert_eq!(told_of.last.node, "a");
        assert_eq!(told(&[port("mlx5_4")], std::slice::from_ref(&told_of)), (1, vec![300.0], 0));
        assert_eq!(told(&[port("mlx5_5")], &[told_of]), (1, vec![], 1));
    }

    #[test]
    fn what_is_told_of_a_sound_gpu_is_wrong_and_so_is_another_fault_or_time() {
        let (xid, pending) = (Fault::Xid, Fault::RemapPending);
        for (row, wrong) in [
            (damage(None), risk("GPU-b", xid, 5)),
            (damage(None), risk("GPU-a", xid, -1)),
            (damage(None), risk("GPU-a", xid, 66)),
            (damage(Some(pending)), risk("GPU-a", xid, 5)),
        ] {
            assert_eq!(told(&[row], std::slice::from_ref(&wrong)), (1, vec![], 1), "{wrong:?}");
        }
        let twice = [risk("GPU-b", xid, 5), risk("GPU-b", xid, 30), risk("GPU-b", pending, 5)];
        assert_eq!(told(&[], &twice), (0, vec![], 2), "a GPU and a fault are told once");
    }
}
