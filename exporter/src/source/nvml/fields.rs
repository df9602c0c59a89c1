//! What is read of a GPU: made of the selected rows, and of what the exporter's own metrics and checks need.

use std::collections::BTreeSet;

use super::activity;
use goodput_catalog::dcgm::{Call, Event, Field, HEALTH, Read, Row, Scope, Selection};

/// Single-entry fields that the exporter's own metrics and readings are made of. Ids and units are those of nvml.h
/// (API 13).
const fn gpu(id: u32) -> Field {
    Field { id, scope: Scope::Gpu }
}

/// Celsius; 0 where the memory has no sensor.
pub(super) const MEMORY_TEMPERATURE: Field = gpu(82);
/// mW, averaged over one second (Ampere and later, without GA100).
pub(super) const POWER_AVERAGE: Field = gpu(185);
/// mW at this instant.
pub(super) const POWER_INSTANT: Field = gpu(186);
/// Recovery action that the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.
pub const RECOVERY_ACTION: Field = gpu(230);
/// Does the GPU wait for a reset, or to be drained and reset?
pub const RESETS: [(&str, Field); 2] = [("reset", gpu(226)), ("drain_and_reset", gpu(227))];
/// mW, the power limit in force.
pub const POWER_LIMIT_ENFORCED: Field = gpu(190);
/// mW, the power limit that the board starts with.
pub const POWER_LIMIT_DEFAULT: Field = gpu(189);
/// Double-bit ECC errors since the driver was loaded.
pub const ECC_DBE_VOLATILE: Field = gpu(4);
/// Is ECC on?
pub const ECC_MODE: Field = gpu(1);
/// Is ECC on from the next reboot on?
pub const ECC_MODE_PENDING: Field = gpu(2);
/// Does a row remapping wait for a reset?
pub const REMAP_PENDING: Field = gpu(144);
/// Has a row remapping failed?
pub const REMAP_FAILURE: Field = gpu(145);
/// NVLinks that the GPU has.
pub(super) const LINK_COUNT: Field = gpu(91);
/// Does a page wait to be retired (before Ampere)?
pub const RETIRED_PENDING: Field = gpu(31);
/// ns at lowered clocks by reason, of the reasons that the driver has a counter for.
pub const CLOCK_EVENTS: [(&str, Field); 5] = [
    ("power_cap", gpu(74)),
    ("sync_boost", gpu(76)),
    ("sw_thermal", gpu(269)),
    ("hw_thermal", gpu(270)),
    ("hw_power_brake", gpu(271)),
];
/// ns below the clocks asked for by the policy that held them.
pub const CLOCK_VIOLATIONS: [(&str, Field); 6] = [
    ("thermal", gpu(75)),
    ("board_limit", gpu(77)),
    ("low_utilization", gpu(78)),
    ("reliability", gpu(79)),
    ("application_clocks", gpu(80)),
    ("base_clocks", gpu(81)),
];
/// NVLink errors of all links by kind (NVLink 4 and older).
pub const NVLINK_ERRORS: [(&str, Field); 4] =
    [("crc_flit", gpu(38)), ("crc_data", gpu(45)), ("replay", gpu(52)), ("recovery", gpu(59))];
/// PCIe errors by kind.
pub const PCIE_ERRORS: [(&str, Field); 12] = [
    ("l0_to_recovery", gpu(169)),
    ("correctable", gpu(173)),
    ("nak_received", gpu(174)),
    ("receiver", gpu(175)),
    ("bad_tlp", gpu(176)),
    ("nak_sent", gpu(177)),
    ("bad_dllp", gpu(178)),
    ("non_fatal", gpu(179)),
    ("fatal", gpu(180)),
    ("unsupported_request", gpu(181)),
    ("lcrc", gpu(182)),
    ("lane", gpu(183)),
];

/// KiB of NVLink payload sent and received.
#[must_use]
pub const fn nvlink_data(scope: Scope) -> [(&'static str, Field); 2] {
    [("tx", Field { id: 138, scope }), ("rx", Field { id: 139, scope })]
}

/// Scope id of an NVLink counter that the driver sums over all links.
const ALL_LINKS: u32 = u32::MAX;

/// NVLinks that a GPU can have, up to Blackwell.
const LINKS: u32 = 18;

/// Field ids from 251 on were renumbered with this driver (NVML's known issues): what was 251 to 253 is 269 to 271.
const RENUMBERED: (u32, u32) = (580, 82);

/// What to read of every GPU.
#[derive(Debug)]
pub(super) struct Plan {
    reads: BTreeSet<Read>,
    pub(super) fields: Vec<Field>,
    pub(super) gpm: Vec<u32>,
}

impl Plan {
    pub(super) fn new(selection: &Selection) -> Self {
        let reads: BTreeSet<_> = selection.rows().flat_map(sources).chain(own()).flat_map(parts).collect();
        let fields = reads.iter().filter_map(|read| if let Read::Field(field) = read { Some(*field) } else { None });
        let gpm = reads.iter().filter_map(|read| if let Read::Gpm(id) = read { Some(*id) } else { None });
        Self { fields: fields.collect(), gpm: gpm.collect(), reads }
    }

    pub(super) fn has(&self, read: Read) -> bool {
        self.reads.contains(&read)
    }

    /// Is any of these to be read?
    pub(super) fn wants(&self, calls: &[Call]) -> bool {
        calls.iter().any(|call| self.has(Read::Call(*call)))
    }

    /// The scopes whose NVLink rates are read.
    pub(super) fn rates(&self) -> impl Iterator<Item = Scope> {
        self.reads.iter().filter_map(|read| if let Read::NvlinkRate(scope) = read { Some(*scope) } else { None })
    }
}

/// What a row is read from: itself, or what is counted or judged for it.
fn sources(row: &Row) -> Vec<Read> {
    match row.read {
        Read::Event(Event::ClockWindow | Event::ClockTotal) => vec![row.read, Read::Call(Call::ClockEventReasons)],
        Read::Event(Event::Health) => HEALTH.iter().map(|row| row.read).collect(),
        read => vec![read],
    }
}

/// Calls of the same.
const OWN_CALLS: [Call; 16] = [
    Call::GpuUtilization,
    Call::Power,
    Call::ClockEventReasons,
    Call::PcieGeneration,
    Call::PcieGenerationMax,
    Call::PcieWidth,
    Call::PcieWidthMax,
    Call::MemoryTotal,
    Call::RemapMax,
    Call::RemapHigh,
    Call::RemapPartial,
    Call::RemapLow,
    Call::RemapNone,
    Call::FabricStatus,
    Call::FabricError,
    Call::FabricHealthMask,
];

/// What the exporter's own metrics, its audit and its clock events read whatever is selected.
fn own() -> impl Iterator<Item = Read> {
    let audit = [POWER_LIMIT_ENFORCED, POWER_LIMIT_DEFAULT, ECC_DBE_VOLATILE, REMAP_PENDING, REMAP_FAILURE];
    let fields = [RECOVERY_ACTION, LINK_COUNT, RETIRED_PENDING, ECC_MODE, ECC_MODE_PENDING].into_iter().chain(audit);
    let named = RESETS.into_iter().chain(CLOCK_EVENTS).chain(CLOCK_VIOLATIONS).chain(NVLINK_ERRORS);
    let named = named.chain(PCIE_ERRORS).chain(nvlink_data(Scope::AllLinks)).map(|(_, field)| field);
    let fields = fields.chain(named).map(Read::Field);
    fields.chain(OWN_CALLS.map(Read::Call)).chain(activity::shares().map(Read::Gpm))
}

/// A reading and those that it is made of.
fn parts(read: Read) -> Vec<Read> {
    let mut parts = vec![read];
    match read {
        Read::Call(Call::Power) => parts.extend([POWER_AVERAGE, POWER_INSTANT].map(Read::Field)),
        Read::Call(Call::MemoryTemperature) => parts.push(Read::Field(MEMORY_TEMPERATURE)),
        Read::NvlinkRate(scope) => parts.extend(nvlink_data(scope).map(|(_, field)| Read::Field(field))),
        _ => {}
    }
    parts
}

/// The entries of a batched `nvmlDeviceGetFieldValues` that the field is read with on that driver: id and scope id.
pub(super) fn entries(field: Field, driver: (u32, u32)) -> impl Iterator<Item = (u32, u32)> {
    let id = match field.id {
        269..=271 if driver < RENUMBERED => field.id - 18,
        id => id,
    };
    let scopes = match field.scope {
        Scope::Gpu => 0..=0,
        Scope::AllLinks => ALL_LINKS..=ALL_LINKS,
        Scope::Link(link) => link..=link,
        Scope::EachLink => 0..=LINKS - 1,
    };
    scopes.map(move |scope| (id, scope))
}

/// Major and minor number of a driver version.
pub(super) fn driver_number(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_catalog::dcgm::{ECC_SBE_AGG, HW_THERMAL_NS, NVLINK_BANDWIDTH, NVLINK5_TX_BYTES, SW_POWER_CAP_NS};

    fn of(row: &Row, driver: &str) -> Vec<(u32, u32)> {
        let Read::Field(field) = row.read else { panic!("{row:?}") };
        entries(field, driver_number(driver)).collect()
    }

    #[test]
    fn ids_are_those_of_the_driver() {
        assert_eq!(of(&HW_THERMAL_NS, "580.105.08"), [(270, 0)]);
        assert_eq!(of(&HW_THERMAL_NS, "580.65.06"), [(252, 0)]);
        assert_eq!(of(&HW_THERMAL_NS, "570.86.15"), [(252, 0)]);
        assert_eq!(of(&SW_POWER_CAP_NS, "570.86.15"), [(74, 0)]);
    }

    #[test]
    fn what_the_driver_does_not_sum_is_read_link_by_link() {
        let entries = of(&NVLINK5_TX_BYTES, "590.48.01");
        assert_eq!((entries.len(), entries[0], entries[17]), (18, (202, 0), (202, 17)));
    }

    #[test]
    fn only_what_is_selected_is_read_and_what_it_is_made_of() {
        let none = Plan::new(&Selection::new([]));
        assert!(!none.has(ECC_SBE_AGG.read) && none.gpm == activity::shares().collect::<Vec<_>>());
        let two = Plan::new(&Selection::new([ECC_SBE_AGG.id, NVLINK_BANDWIDTH.id]));
        assert!(two.has(ECC_SBE_AGG.read) && two.fields.contains(&POWER_AVERAGE));
        assert_eq!(two.rates().collect::<Vec<_>>(), [Scope::AllLinks]);
        assert_eq!(two.fields.len(), none.fields.len() + 1);
    }
}
