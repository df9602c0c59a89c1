//! NVLinks that are down: fewer than the GPU had, or than its peers on the node have.

use super::super::course::{Course, entity_of};
use super::super::{Forecast, Kind};
use super::{Fault, lasts, within};
use crate::classify::Thresholds;
use crate::frame::Levels;
use crate::links::{self, Links};
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Damage, Evidence, Level};

/// Of every GPU. Series of one node stand together.
pub(in super::super) fn courses<'a>(levels: &'a [Levels<'a>]) -> Vec<Course<'a>> {
    let nodes = levels.chunk_by(|a, b| (&a.cluster, &a.node) == (&b.cluster, &b.node));
    let of_node = |node: &'a [Levels<'a>]| {
        let gpus = node.iter().filter(|levels| matches!(levels.entity, Entity::Gpu(_)));
        let with_links = gpus.filter(|gpu| !gpu.samples(Signal::NvlinkUp).is_empty() || has_fabric(gpu));
        with_links.map(move |gpu| Course {
            kind: Kind::Hardware(Fault::NvlinkDown),
            cluster: &gpu.cluster,
            node: &gpu.node,
            entity: entity_of(gpu),
            gpus: vec![gpu],
            look: Box::new(move |now, t| {
                let told = fewer(gpu, node, now, t).into_iter().chain(failed(gpu, now, t));
                Damage::new(Level::Act, t.link_down_seconds, told).map(Forecast::Damage)
            }),
        })
    };
    nodes.flat_map(of_node).collect()
}

/// A system with NVSwitches, where every GPU has all its links.
fn has_fabric(gpu: &Levels<'_>) -> bool {
    !gpu.samples(Signal::FabricFailed).is_empty()
}

/// A GPU in MIG mode exchanges nothing over NVLink. One without any link, now and before, may have no bridge.
fn fewer(gpu: &Levels<'_>, node: &[Levels<'_>], now: TimeMs, t: &Thresholds) -> Option<Evidence> {
    let samples = gpu.samples(Signal::NvlinkUp);
    let up = gpu.at(Signal::NvlinkUp, now).filter(|_| gpu.at(Signal::MigCapacity, now).is_none())?;
    let before = within(samples, now, t.forecast_window_seconds).iter().map(|s| s.value).reduce(f64::max)?;
    let peers = if before > 0.0 || has_fabric(gpu) { usual(gpu, node, now) } else { None };
    let full = peers.map_or(before, |usual| usual.max(before));
    lasts(samples, now, t.link_down_seconds, |up| up < full).then(|| Evidence {
        signal: Signal::NvlinkUp.name().to_owned(),
        value: up,
        unit: Signal::NvlinkUp.unit().to_owned(),
        threshold: full,
    })
}

/// What most of the node's other GPUs of its model have up.
fn usual(gpu: &Levels<'_>, node: &[Levels<'_>], now: TimeMs) -> Option<f64> {
    let links = |levels: &Levels<'_>| {
        let (up, down) = (levels.at(Signal::NvlinkUp, now)?, levels.at(Signal::NvlinkDown, now)?);
        Some(Links { up, all: up + down })
    };
    links::usual(links(gpu)?, node.iter().filter(|other| other.entity != gpu.entity).filter_map(links))
}

fn failed(gpu: &Levels<'_>, now: TimeMs, t: &Thresholds) -> Option<Evidence> {
    let signal = Signal::FabricFailed;
    lasts(gpu.samples(signal), now, t.link_down_seconds, |failed| failed >= 1.0).then(|| Evidence {
        signal: signal.name().to_owned(),
        value: 1.0,
        unit: "GPUs".to_owned(),
        threshold: 1.0,
    })
}
