//! A GPU's health apart from single readings: its NVLinks, and its PCIe link under load.

use nvml_wrapper::Device;

use super::absent::{Absent, Reading};
use super::raw;
use super::shared::{Shared, Slot};

/// Utilisation in percent from which on a link must have come up: it does within milliseconds of the first copy.
const BUSY_PERCENT: f64 = 50.0;

/// Is an NVLink up? The scope is the link.
const LINK_STATE: u32 = 165;

/// Links asked for at most.
const LINKS: u32 = 64;

/// The health of one GPU.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// NVLinks that are up, and that are down.
    pub links: Reading<(u32, u32)>,
    /// The PCIe link when the GPU was last seen busy.
    pub busy_link: Option<PcieLink>,
}

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieLink {
    /// Generation.
    pub generation: f64,
    /// Lanes.
    pub width: f64,
}

impl Default for Health {
    fn default() -> Self {
        Self { links: Err(Absent::NotSupported), busy_link: None }
    }
}

impl Health {
    /// Reads the state of every link; the GPU has `count` links.
    pub(super) fn read_links(&mut self, shared: &Shared, slot: &Slot, device: &Device<'_>, count: Reading<f64>) {
        self.links = count.and_then(|count| links(shared, slot, device, count as u32));
    }

    /// Keeps the link if the GPU is busy in the very cycle it was read in.
    pub(super) fn judge_link(&mut self, util_percent: Reading<f64>, generation: Reading<f64>, width: Reading<f64>) {
        let link = generation.and_then(|generation| width.map(|width| PcieLink { generation, width }));
        if util_percent.is_ok_and(|percent| percent >= BUSY_PERCENT) {
            self.busy_link = link.ok().or(self.busy_link);
        }
    }
}

fn links(shared: &Shared, slot: &Slot, device: &Device<'_>, count: u32) -> Reading<(u32, u32)> {
    let entries: Vec<_> = (0..count.min(LINKS)).map(|link| (LINK_STATE, link)).collect();
    if entries.is_empty() {
        return Err(Absent::NotSupported);
    }
    let states = shared.ask(slot, || raw::field_values(device, &entries))?;
    let states: Vec<f64> = states.into_iter().collect::<Reading<_>>()?;
    if states.iter().any(|state| ![0.0, 1.0].contains(state)) {
        return Err(Absent::UNKNOWN);
    }
    let up = states.iter().filter(|state| **state == 1.0).count() as u32;
    Ok((up, states.len() as u32 - up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_judged_while_the_gpu_is_busy_and_remembered() {
        let mut health = Health::default();
        let link = |generation| Some(PcieLink { generation, width: 16.0 });
        for (util, generation, kept) in [
            (Ok(0.0), Ok(1.0), None),
            (Ok(49.0), Ok(1.0), None),
            (Err(Absent::NotSupported), Ok(1.0), None),
            (Ok(50.0), Ok(5.0), link(5.0)),
            (Ok(0.0), Ok(1.0), link(5.0)),
            (Ok(90.0), Err(Absent::UNKNOWN), link(5.0)),
            (Ok(90.0), Ok(4.0), link(4.0)),
        ] {
            health.judge_link(util, generation, Ok(16.0));
            assert_eq!(health.busy_link, kept, "{util:?} {generation:?}");
        }
    }
}
