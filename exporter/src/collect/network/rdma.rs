//! Ports of RDMA devices.

use std::path::Path;

use super::{Place, is_virtual};
use crate::parse::net;
use crate::source::files::{self, Roots};
use goodput_catalog::network::*;
use goodput_exposition::Families;

/// Most ports that get series of their own.
const MAX_PORTS: usize = 16;

/// Errors of the link, and where each stops counting.
const ERRORS: [(&str, u64); 8] = [
    ("symbol_error", 0xffff),
    ("link_error_recovery", 0xff),
    ("link_downed", 0xff),
    ("port_rcv_errors", 0xffff),
    ("port_rcv_remote_physical_errors", 0xffff),
    ("port_xmit_discards", 0xffff),
    ("local_link_integrity_errors", 0xf),
    ("excessive_buffer_overrun_errors", 0xf),
];

/// The one of them whose series begins with its first event: it says what happened to a link further on, and the ports of
/// that link say so themselves.
const OF_OTHERS: &str = "port_rcv_remote_physical_errors";

/// How long data waited to be sent, in ticks.
pub(crate) const TRANSMIT_WAIT: &str = "port_xmit_wait";

/// The counters that stop at 32 bits, where the device has no extended ones.
const LARGE: [&str; 3] = ["port_rcv_data", "port_xmit_data", TRANSMIT_WAIT];

/// Where transmit wait stops, and data of a device without the extended counters of 64 bits.
const MAX_32: u64 = u32::MAX as u64;

/// What a driver says of its ports, besides what every driver does.
struct Driver {
    /// Counters of the transport in `hw_counters`, at most [`MAX_TRANSPORT`]: kernel and firmware may lack some.
    transport: &'static [&'static str],
    /// Those of them whose series begin with their first event: zeros of every port would be a tenth of a large node's series.
    /// Connections that ended are not among them: one is an alarm, which takes a reading before and one after.
    rare: &'static [&'static str],
    /// Bytes received in `hw_counters`, for where `counters` has no words.
    received: Option<&'static str>,
    /// As `received`, of bytes sent.
    sent: Option<&'static str>,
    /// Are `state` and `rate` what the link has?
    knows_link: bool,
}

/// Most counters of the transport that a port may have.
const MAX_TRANSPORT: usize = 18;

/// mlx5, and every driver that has no table of its own: most have some of these names.
const MLX5: Driver = Driver {
    transport: &[
        "implied_nak_seq_err",
        "local_ack_timeout_err",
        "np_cnp_sent",
        "np_ecn_marked_roce_packets",
        "out_of_buffer",
        "out_of_sequence",
        "packet_seq_err",
        "req_rnr_retries_exceeded",
        "req_transport_retries_exceeded",
        "rnr_nak_retry_err",
        "roce_adp_retrans",
        "roce_adp_retrans_to",
        "roce_slow_restart",
        "rp_cnp_handled",
    ],
    rare: &[
        "implied_nak_seq_err",
        "np_cnp_sent",
        "np_ecn_marked_roce_packets",
        "out_of_buffer",
        "out_of_sequence",
        "rnr_nak_retry_err",
        "roce_adp_retrans",
        "roce_adp_retrans_to",
        "roce_slow_restart",
    ],
    received: None,
    sent: None,
    knows_link: true,
};

/// Broadcom's bnxt_re.
const BNXT_RE: Driver = Driver {
    transport: &[
        "max_retry_exceeded",
        "rnr_naks_rcvd",
        "rx_cnp_pkts",
        "rx_ecn_marked_pkts",
        "rx_out_of_buffer",
        "seq_err_naks_rcvd",
        "to_retransmits",
        "tx_cnp_pkts",
        "unrecoverable_err",
    ],
    rare: &[],
    received: Some("rx_bytes"),
    sent: Some("tx_bytes"),
    knows_link: true,
};

/// Amazon's EFA. State and rate are constants in its driver.
const EFA: Driver = Driver {
    transport: &[
        "impaired_remote_conn_events",
        "retrans_bytes",
        "retrans_pkts",
        "retrans_timeout_events",
        "rx_drops",
        "unresponsive_remote_events",
    ],
    rare: &[],
    received: Some("rx_bytes"),
    sent: Some("tx_bytes"),
    knows_link: false,
};

/// AMD's Pensando cards, Pollara among them.
const IONIC: Driver = Driver {
    transport: &[
        "req_rx_impl_nak_seq_err",
        "req_rx_pkt_seq_err",
        "req_rx_rnr_retry_err",
        "req_tx_retry_excd_err",
        "resp_rx_outof_buf",
        "rx_rdma_cnp_pkts",
        "rx_rdma_ecn_pkts",
        "tx_rdma_cnp_pkts",
    ],
    rare: &[],
    received: Some("rx_rdma_ucast_bytes"),
    sent: Some("tx_rdma_ucast_bytes"),
    knows_link: true,
};

/// How the names of the PCI device's driver begin, and those that RDMA devices have: from their driver, or from udev, which
/// names an EFA after its slot.
const DRIVERS: [(&str, &Driver); 4] = [("bnxt", &BNXT_RE), ("efa", &EFA), ("ionic", &IONIC), ("rdmap", &EFA)];

const _: () = assert!(
    MLX5.transport.len() <= MAX_TRANSPORT
        && BNXT_RE.transport.len() <= MAX_TRANSPORT
        && EFA.transport.len() <= MAX_TRANSPORT
        && IONIC.transport.len() <= MAX_TRANSPORT
);

impl Driver {
    /// The driver of a device. Only where sysfs does not show it, as in some containers, does the device's name decide.
    fn of(folder: &Path, device: &str) -> &'static Self {
        let driver = files::target(&folder.join("device/driver"));
        let name = driver.as_deref().unwrap_or(device);
        DRIVERS.iter().find(|(start, _)| name.starts_with(start)).map_or(&MLX5, |(_, driver)| driver)
    }
}

/// A word of `port_rcv_data` and `port_xmit_data`.
const WORD_BYTES: f64 = 4.0;

/// Writes every port of every physical device.
pub(super) fn ports(roots: &Roots, out: &mut Families) -> bool {
    let class = roots.sys.join("class/infiniband");
    let Some(mut devices) = files::names(&class) else { return false };
    devices.sort_unstable();
    let mut all = Vec::new();
    for device in devices.iter().filter(|device| !is_virtual(&class.join(device))) {
        let mut ports = files::names(&class.join(device).join("ports")).unwrap_or_default();
        ports.sort_unstable();
        all.extend(ports.into_iter().map(|port| (device.as_str(), port)));
    }
    if all.is_empty() {
        return false;
    }
    out.push(&RDMA_PORTS, &[], all.len() as f64);
    for (device, port) in all.iter().take(MAX_PORTS) {
        write(&class.join(device), device, port, out);
    }
    true
}

fn write(folder: &Path, device: &str, port: &str, out: &mut Families) {
    let place = Place::read(folder);
    let [pci, node, local_cpus] = place.labels();
    let (driver, labels) = (Driver::of(folder, device), [device, port]);
    let folder = folder.join("ports").join(port);
    let layer = files::get(&folder.join("link_layer"), |text| Ok(text.trim().to_owned()));
    out.push_with(&RDMA_INFO, &labels, &[&layer.unwrap_or_default(), pci, node, local_cpus], 1.0);
    if driver.knows_link {
        let active = files::get(&folder.join("state"), net::port_active);
        out.push(&RDMA_ACTIVE, &labels, active.map(|active| f64::from(u8::from(active))));
        out.push(&RDMA_SPEED, &labels, files::get(&folder.join("rate"), net::port_rate).flatten());
    }
    counters(&folder, labels, driver, out);
    for kind in driver.transport {
        let value = of_driver(&folder, kind).filter(|n| *n > 0.0 || !driver.rare.contains(kind));
        out.push(&RDMA_TRANSPORT, &[device, port, kind], value);
    }
}

/// A counter of the driver's own. One with all bits set is unknown: ionic says so of what its firmware does not give.
fn of_driver(folder: &Path, name: &str) -> Option<f64> {
    let value = files::get(&folder.join("hw_counters").join(name), net::port_counter).flatten();
    value.filter(|n| *n != u64::MAX).map(|n| n as f64)
}

fn counters(folder: &Path, [device, port]: [&str; 2], driver: &Driver, out: &mut Families) {
    let (mut known, mut saturated) = (0, 0);
    let mut read = |name: &str, maximum: u64| -> Option<u64> {
        let value = files::get(&folder.join("counters").join(name), net::port_counter).flatten();
        known += usize::from(value.is_some());
        saturated += usize::from(value == Some(maximum));
        value
    };
    for (row, name, bytes) in
        [(&RDMA_RECEIVED, "port_rcv_data", driver.received), (&RDMA_SENT, "port_xmit_data", driver.sent)]
    {
        let words = read(name, MAX_32).map(|words| words as f64 * WORD_BYTES);
        out.push(row, &[device, port], words.or_else(|| of_driver(folder, bytes?)));
    }
    out.push(&RDMA_WAIT, &[device, port], read(TRANSMIT_WAIT, MAX_32).map(|n| n as f64));
    for (kind, maximum) in ERRORS {
        let value = read(kind, maximum).filter(|n| *n > 0 || kind != OF_OTHERS);
        out.push(&RDMA_ERRORS, &[device, port, kind], value.map(|n| n as f64));
    }
    out.push(&RDMA_SATURATED, &[device, port], (known > 0).then_some(saturated as f64));
}

/// The counters of a port that stand at their maximum; `None` where it has none.
pub(crate) fn full(port: &Path) -> Option<Vec<&'static str>> {
    let all = LARGE.into_iter().map(|name| (name, MAX_32)).chain(ERRORS);
    let read = |(name, maximum): (&'static str, u64)| {
        let value = files::get(&port.join("counters").join(name), net::port_counter).flatten()?;
        Some((name, value == maximum))
    };
    let known: Vec<_> = all.filter_map(read).collect();
    (!known.is_empty()).then(|| known.into_iter().filter(|(_, is_full)| *is_full).map(|(name, _)| name).collect())
}
