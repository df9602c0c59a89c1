//! XIDs: events, not readings. The one that tells why a GPU is lost must outlive its readings.

use std::sync::LazyLock;
use std::time::UNIX_EPOCH;

use crate::source::nvml::{Absent, Gpu, Snapshot};
use crate::source::xid::{Channel, ChannelState, Journal, Place, Xids};
use goodput_catalog::xid as rows;
use goodput_catalog::xid_codes::{UNKNOWN, find};
use goodput_exposition::Families;

/// Of a GPU without events.
static NONE: LazyLock<Xids> = LazyLock::new(Xids::default);

/// The `xid` label of all codes beyond those that are kept apart.
const OTHER: &str = "other";

/// Writes the events of one GPU under our names, and returns them; nothing when the exporter does not listen and has
/// none.
pub(super) fn push<'a>(gpu: &Gpu, index: &str, snapshot: &'a Snapshot, out: &mut Families) -> Option<&'a Xids> {
    let journal = &snapshot.xids;
    let own = [index, gpu.uuid.as_str()];
    if gpu.events != Err(Absent::NotSupported) {
        out.push(&rows::WATCHED, &own, f64::from(u8::from(gpu.events.is_ok())));
    }
    let heard = journal.of(Place::of(&gpu.pci_bus_id, &gpu.uuid));
    if let Some(xids) = heard {
        push_own(xids, own, out);
    }
    let listening = gpu.events.is_ok() || journal.kmsg == ChannelState::Ok;
    heard.filter(|xids| listening || xids.last.is_some()).or(listening.then(|| &*NONE))
}

fn push_own(xids: &Xids, [index, uuid]: [&str; 2], out: &mut Families) {
    for ((code, instance), count) in &xids.counts {
        let (class, action) = find(*code).map_or((UNKNOWN, UNKNOWN), |known| (known.class.name(), known.action.name()));
        let (code, instance) = (code.to_string(), instance.map(|id| id.to_string()).unwrap_or_default());
        out.push_with(&rows::ERRORS, &[index, uuid, &code, class, action], &[&instance], *count as f64);
    }
    if xids.others > 0 {
        out.push(&rows::ERRORS, &[index, uuid, OTHER, UNKNOWN, UNKNOWN], xids.others as f64);
    }
    for (code, at) in &xids.seen {
        let since = at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
        out.push(&rows::LAST, &[index, uuid, &code.to_string()], since);
    }
    for ((code, unit, severity), count) in &xids.links {
        out.push(&rows::LINK_ERRORS, &[index, uuid, &code.to_string(), unit, severity.name()], *count as f64);
    }
}

/// Writes how the channels fare, and what came by each, whichever GPU or switch it is about.
pub(super) fn push_channels(journal: &Journal, out: &mut Families) {
    for (channel, state) in [(Channel::Nvml, journal.nvml), (Channel::Kmsg, journal.kmsg)] {
        for (each, name) in STATES {
            let labels = [channel_name(channel), *name];
            out.push(&rows::CHANNEL_STATE, &labels, f64::from(u8::from(*each == state)));
        }
    }
    if journal.kmsg == ChannelState::Ok || journal.overruns > 0 {
        out.push(&rows::KMSG_OVERRUNS, &[], journal.overruns as f64);
    }
    for (place, xids) in journal.gpus() {
        let place = place.name();
        for ((channel, code), count) in &xids.by_channel {
            let labels = [place.as_str(), channel_name(*channel), &code.to_string()];
            out.push(&rows::CHANNEL_EVENTS, &labels, *count as f64);
        }
    }
    for ((address, code, severity), count) in &journal.switches {
        let labels = [address.nvml_name(), code.to_string()];
        let severity = severity.map_or("", |severity| severity.name());
        out.push_with(&rows::SWITCH_ERRORS, &[&labels[0], &labels[1]], &[severity], *count as f64);
    }
}

static STATES: &[(ChannelState, &str)] = &[
    (ChannelState::Off, "off"),
    (ChannelState::Ok, "ok"),
    (ChannelState::Stale, "stale"),
    (ChannelState::Denied, "denied"),
    (ChannelState::Unsupported, "unsupported"),
    (ChannelState::Failing, "failing"),
];

fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Nvml => "nvml",
        Channel::Kmsg => "kmsg",
    }
}
