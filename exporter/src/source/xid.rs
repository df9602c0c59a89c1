//! XIDs of all GPUs, by whichever channel they came: the driver's events, the kernel log, or both.
//!
//! The same error usually comes by both. It is counted once: an event pairs with one of the same code about the same GPU
//! that came by the other channel at most [`TWINS`] before it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::oom::Kills;
use crate::parse::bus_id::Address;
use crate::parse::xid::{self, Severity, SwitchXid};

/// How far apart the two channels may tell of one error. They do so within milliseconds; this leaves room for a machine
/// that is short of CPU.
const TWINS: Duration = Duration::from_secs(5);

/// Distinct codes kept per GPU or switch; NVIDIA's list has about 175, a GPU meets a handful.
pub const CODES: usize = 64;

/// Distinct devices kept. The kernel log can name any.
const DEVICES: usize = 128;

/// How XIDs are heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// NVML's event set.
    Nvml,
    /// `/dev/kmsg`.
    Kmsg,
}

/// How a channel fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelState {
    /// No thread listens.
    #[default]
    Off,
    /// Events come through.
    Ok,
    /// A call of the driver does not come back.
    Stale,
    /// This process may not listen.
    Denied,
    /// This driver or kernel has no such channel.
    Unsupported,
    /// It fails in another way, and is tried again.
    Failing,
}

/// What was heard of one GPU since the exporter's start.
#[derive(Clone, Debug, Default)]
pub struct Xids {
    uuid: Option<String>,
    /// Events by code and MIG GPU instance.
    pub counts: BTreeMap<(u64, Option<u32>), u64>,
    /// Events of further codes, after too many different ones were seen.
    pub others: u64,
    /// The last code.
    pub last: Option<u64>,
    /// When each code came last; the kernel log tells also of what came before the exporter's start.
    pub seen: BTreeMap<u64, SystemTime>,
    /// Events by channel and code, before those that came by both are counted once.
    pub by_channel: BTreeMap<(Channel, u64), u64>,
    /// Events of NVLink 5 by code, sub-unit and severity; from the kernel log alone.
    pub links: BTreeMap<(u64, String, Severity), u64>,
    single: Vec<Single>,
}

/// An event whose twin of the other channel may still come.
#[derive(Clone, Debug)]
struct Single {
    channel: Channel,
    code: u64,
    instance: Option<u32>,
    at: SystemTime,
}

impl Single {
    /// May the event of the other channel be the same one? The channels need not both name the instance, but not two.
    fn is_twin(&self, channel: Channel, code: u64, instance: Option<u32>) -> bool {
        let same_instance = self.instance.is_none() || instance.is_none() || self.instance == instance;
        self.channel != channel && self.code == code && same_instance
    }
}

/// Which GPU an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The one at this address, which is all that the kernel log tells.
    Pci(Address),
    /// The one of this UUID, whose address the driver does not tell: as an integrated GPU's.
    Gpu(String),
}

impl Place {
    /// The GPU's, by its address where there is one.
    #[must_use]
    pub fn of(pci_bus_id: &str, uuid: &str) -> Self {
        Address::parse(pci_bus_id).map_or_else(|| Self::Gpu(uuid.to_owned()), Self::Pci)
    }

    /// As labels have it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Pci(address) => address.nvml_name(),
            Self::Gpu(uuid) => uuid.clone(),
        }
    }
}

impl From<Address> for Place {
    fn from(address: Address) -> Self {
        Self::Pci(address)
    }
}

/// Everything heard since the exporter's start.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    gpus: BTreeMap<Place, Xids>,
    /// SXids by switch, code and severity.
    pub switches: BTreeMap<(Address, u64, Option<Severity>), u64>,
    /// Victims of the OOM killer, which the kernel log reports as well.
    pub ooms: Kills,
    /// NVML's events.
    pub nvml: ChannelState,
    /// The kernel log.
    pub kmsg: ChannelState,
    /// Times that the kernel's ring overran its reader.
    pub overruns: u64,
}

impl Journal {
    /// What was heard of the GPU.
    #[must_use]
    pub fn of(&self, place: impl Into<Place>) -> Option<&Xids> {
        self.gpus.get(&place.into())
    }

    /// All GPUs that something was heard of.
    pub fn gpus(&self) -> impl Iterator<Item = (&Place, &Xids)> {
        self.gpus.iter()
    }

    /// Tells which GPU sits at the address. Another one than before starts from nothing.
    pub fn identify(&mut self, address: Address, uuid: &str) {
        let Some(xids) = self.gpu(address.into()) else { return };
        if xids.uuid.as_deref().is_some_and(|before| before != uuid) {
            *xids = Xids::default();
        }
        xids.uuid = Some(uuid.to_owned());
    }

    /// An event of the driver.
    pub fn hear_nvml(&mut self, place: impl Into<Place>, code: u64, instance: Option<u32>, at: SystemTime) {
        if let Some(xids) = self.gpu(place.into()) {
            xids.hear(Channel::Nvml, code, instance, at);
        }
    }

    /// An event of the kernel log.
    pub fn hear_kmsg(&mut self, event: xid::Event, at: SystemTime) {
        let xid = match event {
            xid::Event::Gpu(xid) => xid,
            xid::Event::Switch(xid) => return self.hear_switch(&xid),
        };
        let Some(xids) = self.gpu(xid.address.into()) else { return };
        xids.hear(Channel::Kmsg, xid.code, xid.instance, at);
        if let Some(link) = xid.link {
            bump(&mut xids.links, (xid.code, link.unit, link.severity));
        }
    }

    /// An event from before the exporter's start. It is told, not counted: what the ring happens to hold is no count.
    pub fn remember(&mut self, event: &xid::Event, at: SystemTime) {
        let xid::Event::Gpu(xid) = event else { return };
        if let Some(xids) = self.gpu(xid.address.into()) {
            xids.note(xid.code, at);
        }
    }

    fn hear_switch(&mut self, xid: &SwitchXid) {
        bump(&mut self.switches, (xid.address, xid.code, xid.severity));
    }

    fn gpu(&mut self, place: Place) -> Option<&mut Xids> {
        let room = self.gpus.len() < DEVICES || self.gpus.contains_key(&place);
        room.then(|| self.gpus.entry(place).or_default())
    }
}

impl Xids {
    fn hear(&mut self, channel: Channel, code: u64, instance: Option<u32>, at: SystemTime) {
        bump(&mut self.by_channel, (channel, code));
        self.note(code, at);
        self.single.retain(|single| apart(single.at, at) <= TWINS);
        let twin = self.single.iter().rposition(|single| single.is_twin(channel, code, instance));
        if let Some(twin) = twin {
            self.single.remove(twin);
            return;
        }
        self.single.truncate(CODES - 1);
        self.single.insert(0, Single { channel, code, instance, at });
        self.last = Some(code);
        if !bump(&mut self.counts, (code, instance)) {
            self.others += 1;
        }
    }

    fn note(&mut self, code: u64, at: SystemTime) {
        if self.seen.len() < CODES || self.seen.contains_key(&code) {
            let seen = self.seen.entry(code).or_insert(at);
            *seen = (*seen).max(at);
        }
    }

    /// Codes that came since the exporter's start, with how often, whatever the instance.
    #[must_use]
    pub fn codes(&self) -> BTreeMap<u64, u64> {
        let mut codes = BTreeMap::new();
        for ((code, _), count) in &self.counts {
            *codes.entry(*code).or_default() += count;
        }
        codes
    }
}

fn apart(a: SystemTime, b: SystemTime) -> Duration {
    a.duration_since(b).unwrap_or_else(|error| error.duration())
}

/// Counts one more, if there is room for the key; says whether there was.
fn bump<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) -> bool {
    let room = counts.len() < CODES || counts.contains_key(&key);
    if room {
        *counts.entry(key).or_default() += 1;
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address() -> Address {
        Address::parse("0000:9b:00.0").unwrap()
    }

    fn kmsg(code: u64) -> xid::Event {
        xid::Event::Gpu(xid::Xid { address: address(), code, instance: None, link: None })
    }

    /// Counts after events of one code by these channels at these seconds.
    fn counted(events: &[(Channel, u64)]) -> u64 {
        let mut journal = Journal::default();
        for (channel, second) in events {
            let at = SystemTime::UNIX_EPOCH + *second as u32 * SECOND;
            match channel {
                Channel::Nvml => journal.hear_nvml(address(), 48, None, at),
                Channel::Kmsg => journal.hear_kmsg(kmsg(48), at),
            }
        }
        let xids = journal.of(address()).unwrap();
        assert_eq!(xids.by_channel.values().sum::<u64>(), events.len() as u64);
        xids.codes()[&48]
    }

    #[test]
    fn what_comes_by_both_channels_counts_once() {
        use Channel::{Kmsg, Nvml};
        assert_eq!(counted(&[(Nvml, 0), (Kmsg, 0)]), 1);
        assert_eq!(counted(&[(Kmsg, 0), (Nvml, 5)]), 1);
        assert_eq!(counted(&[(Kmsg, 0), (Nvml, 6)]), 2, "too far apart");
        assert_eq!(counted(&[(Nvml, 0), (Nvml, 0), (Kmsg, 1)]), 2, "one channel merges lines, the other does not");
        assert_eq!(counted(&[(Kmsg, 0), (Nvml, 0), (Nvml, 1), (Kmsg, 2)]), 2);
        assert_eq!(counted(&[(Kmsg, 0), (Kmsg, 2), (Nvml, 2)]), 2);
        assert_eq!(counted(&[(Kmsg, 0), (Kmsg, 6)]), 2, "one channel alone");
    }

    #[test]
    fn errors_of_two_instances_are_two_by_whichever_channel() {
        let mut journal = Journal::default();
        let at = SystemTime::UNIX_EPOCH;
        journal.hear_nvml(address(), 31, Some(5), at);
        let of_log = |instance| xid::Event::Gpu(xid::Xid { address: address(), code: 31, instance, link: None });
        journal.hear_kmsg(of_log(Some(6)), at);
        journal.hear_kmsg(of_log(Some(5)), at);
        journal.hear_nvml(address(), 31, None, at);
        let counts = &journal.of(address()).unwrap().counts;
        assert_eq!(
            counts.iter().map(|((_, instance), n)| (*instance, *n)).collect::<Vec<_>>(),
            [(Some(5), 1), (Some(6), 1)]
        );
    }

    #[test]
    fn codes_and_devices_are_bounded_and_nothing_is_lost() {
        let mut journal = Journal::default();
        for code in 0..1000 {
            journal.hear_nvml(address(), code, None, SystemTime::UNIX_EPOCH);
        }
        let xids = journal.of(address()).unwrap();
        assert_eq!((xids.codes().len(), xids.seen.len(), xids.by_channel.len()), (CODES, CODES, CODES));
        assert_eq!(xids.codes().values().sum::<u64>() + xids.others, 1000);
        for bus in 0..200 {
            let address = Address::parse(&format!("0000:{bus:02x}:00.0")).unwrap();
            journal.hear_nvml(address, 31, None, SystemTime::UNIX_EPOCH);
        }
        assert_eq!(journal.gpus().count(), DEVICES);
    }

    #[test]
    fn what_came_before_the_start_is_told_and_not_counted() {
        let mut journal = Journal::default();
        journal.remember(&kmsg(79), SystemTime::UNIX_EPOCH + 7 * SECOND);
        journal.remember(&kmsg(79), SystemTime::UNIX_EPOCH + 3 * SECOND);
        let xids = journal.of(address()).unwrap();
        assert_eq!((xids.codes().len(), xids.last), (0, None));
        assert_eq!(xids.seen[&79], SystemTime::UNIX_EPOCH + 7 * SECOND);
    }

    #[test]
    fn another_gpu_at_the_same_address_starts_from_nothing() {
        let mut journal = Journal::default();
        journal.hear_kmsg(kmsg(79), SystemTime::UNIX_EPOCH);
        journal.identify(address(), "GPU-1");
        assert_eq!(journal.of(address()).unwrap().last, Some(79), "known before it was identified");
        journal.identify(address(), "GPU-1");
        assert_eq!(journal.of(address()).unwrap().last, Some(79));
        journal.identify(address(), "GPU-2");
        assert_eq!(journal.of(address()).unwrap().last, None);
    }
}
