//! What tells of a GPU's health and hardly moves: read every ten cycles, and some of it once a minute.

use nvml_wrapper::Device;

use super::absent::{Absent, Reading};
use super::fields::Field;
use super::raw;
use super::shared::{Shared, Slot};

/// Utilisation in percent from which on a link must have come up: it does within milliseconds of the first copy.
const BUSY_PERCENT: f64 = 50.0;

/// The field ids are those of nvml.h. Numbers 251 to 273 changed with driver 580.82; both are asked for, and which
/// means what is told by the driver's version.
macro_rules! fields {
    ($($(#[doc = $doc:literal])* $name:ident = $id:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: Field = Field { id: $id, scope: 0 };)*
        /// Everything that one reading of health asks for.
        static BATCH: &[Field] = &[$($name),*];
    };
}

fields! {
    /// ns below the clocks asked for, by the application clocks.
    VIOLATION_APP_CLOCKS = 80;
    /// ns below the base clocks.
    VIOLATION_BASE_CLOCKS = 81;
    /// NVLinks the GPU has.
    LINK_COUNT = 91;
    /// Does the GPU need a reset?
    RESET = 226;
    /// Does it need to be drained and reset?
    DRAIN_AND_RESET = 227;
    /// ns of software thermal slowdown; something else from driver 580.82 on.
    SW_THERMAL_OLD = 251;
    /// ns of hardware thermal slowdown; something else from driver 580.82 on.
    HW_THERMAL_OLD = 252;
    /// ns of hardware power brake; something else from driver 580.82 on.
    HW_POWER_BRAKE_OLD = 253;
    /// ns of software thermal slowdown; something else before driver 580.82.
    SW_THERMAL = 269;
    /// ns of hardware thermal slowdown; something else before driver 580.82.
    HW_THERMAL = 270;
    /// ns of hardware power brake; something else before driver 580.82.
    HW_POWER_BRAKE = 271;
}

/// Is an NVLink up? The scope is the link.
const LINK_STATE: u32 = 165;

/// Links asked for at most.
const LINKS: u32 = 64;

/// The health of one GPU.
#[derive(Clone, Debug)]
pub struct Health {
    fields: Vec<Reading<f64>>,
    /// NVLinks that are up, and that are down.
    pub links: Reading<(u32, u32)>,
    /// Memory banks with all, many, some, few and none of their spare rows left.
    pub banks: Reading<[u32; 5]>,
    /// How the NVLink fabric stands.
    pub fabric: Reading<Fabric>,
    /// The PCIe link when the GPU was last seen busy.
    pub busy_link: Option<PcieLink>,
    asked: bool,
}

/// What `nvmlDeviceGetGpuFabricInfoV` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// `NVML_GPU_FABRIC_STATE_*`.
    pub state: u8,
    /// The outcome of a completed registration, an NVML return code.
    pub status: u32,
    /// `NVML_GPU_FABRIC_HEALTH_MASK_*`.
    pub health_mask: u32,
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
        Self {
            fields: vec![Err(Absent::NotSupported); BATCH.len()],
            links: Err(Absent::NotSupported),
            banks: Err(Absent::NotSupported),
            fabric: Err(Absent::NotSupported),
            busy_link: None,
            asked: false,
        }
    }
}

impl Health {
    /// The value of a field of this file, in NVML's unit.
    pub fn field(&self, field: Field) -> Reading<f64> {
        let position = BATCH.iter().position(|known| *known == field);
        position.and_then(|i| self.fields.get(i)).copied().unwrap_or(Err(Absent::NotSupported))
    }

    /// Reads what moves within seconds.
    pub(super) fn read(&mut self, shared: &Shared, slot: &Slot, device: &Device<'_>) {
        let fields = shared.ask(slot, || raw::field_values(device, BATCH));
        self.fields = fields.unwrap_or_else(|why| vec![Err(why); BATCH.len()]);
    }

    /// Reads what moves within hours. What this GPU does not have is asked for once.
    pub(super) fn read_slow(&mut self, shared: &Shared, slot: &Slot, device: &Device<'_>) {
        let had = |missing: bool| !self.asked || !missing;
        let (links, banks, fabric) = (had(lacks(&self.links)), had(lacks(&self.banks)), had(lacks(&self.fabric)));
        if links {
            self.links = self.read_links(shared, slot, device);
        }
        if banks {
            self.banks = shared.ask(slot, || raw::row_remap_banks(device));
        }
        if fabric {
            self.fabric = shared.ask(slot, || raw::fabric(device));
        }
        self.asked = true;
    }

    fn read_links(&self, shared: &Shared, slot: &Slot, device: &Device<'_>) -> Reading<(u32, u32)> {
        let count = self.field(LINK_COUNT)? as u32;
        let fields: Vec<_> = (0..count.min(LINKS)).map(|scope| Field { id: LINK_STATE, scope }).collect();
        if fields.is_empty() {
            return Err(Absent::NotSupported);
        }
        let states = shared.ask(slot, || raw::field_values(device, &fields))?;
        let states: Vec<f64> = states.into_iter().collect::<Reading<_>>()?;
        let up = states.iter().filter(|state| **state == 1.0).count() as u32;
        Ok((up, states.len() as u32 - up))
    }

    /// Keeps the link if the GPU is busy in the very cycle it was read in.
    pub(super) fn judge_link(&mut self, util_percent: Reading<f64>, generation: Reading<f64>, width: Reading<f64>) {
        let link = generation.and_then(|generation| width.map(|width| PcieLink { generation, width }));
        if util_percent.is_ok_and(|percent| percent >= BUSY_PERCENT) {
            self.busy_link = link.ok().or(self.busy_link);
        }
    }
}

fn lacks<T>(reading: &Reading<T>) -> bool {
    matches!(reading, Err(Absent::NotSupported))
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
