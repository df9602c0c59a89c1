//! What almost never changes: who the GPU is, its texts, its settings and its peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Brand, InfoRom, P2pCapabilitiesIndex};
use nvml_wrapper::error::NvmlError;

use super::super::absent::{Absent, Reading};
use super::super::calls::{ASKS, Ask, Pace};
use super::super::fields::LINK_COUNT;
use super::super::shared::{Identity, Shared, Slot};
use super::super::single;
use super::sampling::Profiler;
use super::{Due, PEER_CYCLES, Reader, raw};
use goodput_catalog::dcgm::{self, Call, Event, Read, Text};

/// GPUs that are asked about as peers at most.
const MOST_PEERS: u32 = 64;

impl Reader<'_> {
    pub(super) fn read_settings(&mut self, due: &Due) -> Reading<()> {
        self.values.persistence_mode = self.wrapped(|d| d.is_in_persistent_mode());
        self.values.compute_mode = self.wrapped(|d| d.compute_mode());
        // What stays is asked for again where it could not be had.
        let missing: Vec<Call> = ASKS.iter().flat_map(|ask| ask.gives).copied().collect();
        let missing: Vec<Call> = missing.into_iter().filter(|call| self.values.is_missing(Read::Call(*call))).collect();
        let lacks = |ask: &Ask| ask.pace == Pace::Once && ask.gives.iter().any(|call| missing.contains(call));
        self.ask_all(|ask| ask.pace == Pace::Setting || lacks(ask));
        self.read_limits();
        let links = self.values.field(LINK_COUNT);
        self.values.health.read_links(&self.shared, &self.slot, &self.device, links);
        if self.gpm.as_ref().is_err_and(|why| *why != Absent::NotSupported) {
            self.gpm = self.ask(Profiler::open);
            if let Ok(profiler) = &mut self.gpm {
                profiler.want(&self.plan.gpm);
            }
        }
        if self.shared.is_half_identified(&self.slot) {
            self.shared.identify(&self.slot, identify(&self.shared, &self.slot, &self.device)?)?;
        }
        if due.every(PEER_CYCLES) && self.plan.has(Read::Event(Event::PeerToPeer)) {
            self.read_peers();
        }
        Ok(())
    }

    /// What does not change while the GPU is there, of the texts that the selection wants.
    pub(super) fn read_texts(&mut self) {
        let mut texts = BTreeMap::new();
        for row in dcgm::TEXTS {
            let Read::Text(text) = row.read else { continue };
            if self.plan.has(row.read) && text != Text::DriverVersion {
                texts.extend(self.text(text).ok().map(|value| (text, value)));
            }
        }
        self.values.texts = Arc::new(texts);
    }

    fn text(&self, text: Text) -> Reading<String> {
        self.wrapped(|d| match text {
            Text::DriverVersion => self.nvml.sys_driver_version(),
            Text::NvmlVersion => self.nvml.sys_nvml_version(),
            Text::Brand => match d.brand()? {
                Brand::Unknown => Err(NvmlError::NotSupported),
                brand => Ok(format!("{brand:?}")),
            },
            Text::Serial => d.serial(),
            Text::OemInforom => d.info_rom_version(InfoRom::OEM),
            Text::EccInforom => d.info_rom_version(InfoRom::ECC),
            Text::PowerInforom => d.info_rom_version(InfoRom::Power),
            Text::InforomImage => d.info_rom_image_version(),
            Text::Vbios => d.vbios_version(),
        })
    }

    /// NVLink to every other GPU that can be asked about.
    fn read_peers(&mut self) {
        let Ok(count) = self.wrapped(|_| self.nvml.device_count()) else { return };
        let mut peers = Vec::new();
        for index in (0..count.min(MOST_PEERS)).filter(|index| *index != self.slot.index) {
            let Ok(peer) = self.wrapped(|_| self.nvml.device_by_index(index)) else { continue };
            let status = self.wrapped(|d| d.p2p_status(&peer, P2pCapabilitiesIndex::NvLink));
            peers.extend(status.ok().map(|status| (index, status.as_c())));
        }
        self.values.peers = Arc::new(peers);
    }
}

/// More than any minor number of a device file of NVIDIA's.
const MINOR_MOST: u32 = 1 << 20;

/// How often a GPU is asked for its UUID. A name that changes is another GPU to everything that reads metrics, so a single
/// answer that fails must not make one.
const UUID_TRIES: usize = 3;

/// Who the GPU is. Of a Jetson's GPU the driver tells neither address nor serial number: it has its readings all the same. One
/// that does not tell its UUID is called by its address, or by its index. A GPU that is lost is not one yet.
pub(super) fn identify(shared: &Shared, slot: &Slot, device: &Device<'_>) -> Reading<Identity> {
    let text = |call: &dyn Fn() -> Result<String, NvmlError>| shared.ask(slot, || call().map_err(Absent::from));
    let there = |part: Reading<String>| match part {
        Err(why) if why == Absent::Lost || why.is_driver_gone() || why == Absent::TOO_SLOW => Err(why),
        part => Ok(part),
    };
    let ask = || shared.ask(slot, || raw::uuid(device));
    let again =
        |uuid: Reading<String>| if uuid.as_ref().is_err_and(|why| *why != Absent::NotSupported) { ask() } else { uuid };
    let uuid = there((1..UUID_TRIES).fold(ask(), |uuid, _| again(uuid)))?;
    let pci_bus_id = there(text(&|| device.pci_info().map(|pci| pci.bus_id.to_ascii_uppercase())))?;
    let minor = shared.call(&slot.clock, || device.minor_number()).map_err(Absent::from);
    let stand_in = || pci_bus_id.as_ref().map_or_else(|_| format!("index-{}", slot.index), |id| format!("PCI-{id}"));
    Ok(Identity {
        nameless: uuid.as_ref().err().copied(),
        uuid: uuid.unwrap_or_else(|_| stand_in()),
        pci_bus_id,
        model: there(shared.ask(slot, || raw::name(device)))?,
        minor: minor.and_then(|minor| if minor <= MINOR_MOST { Ok(minor) } else { Err(Absent::NotSupported) }),
        serial: text(&|| device.serial()),
        virtualization: shared.ask(slot, || single::virtualization(device)),
    })
}
