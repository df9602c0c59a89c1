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

/// Where transmit wait stops, and data of a device without the extended counters of 64 bits.
const MAX_32: u64 = u32::MAX as u64;

/// What mlx5 and similar drivers count of the transport; others leave some or all out.
const TRANSPORT: [&str; 6] = [
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "rp_cnp_handled",
];

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
    let labels = [device, port];
    let folder = folder.join("ports").join(port);
    let layer = files::get(&folder.join("link_layer"), |text| Ok(text.trim().to_owned()));
    out.push_with(&RDMA_INFO, &labels, &[&layer.unwrap_or_default(), pci, node, local_cpus], 1.0);
    let active = files::get(&folder.join("state"), net::port_active);
    out.push(&RDMA_ACTIVE, &labels, active.map(|active| f64::from(u8::from(active))));
    out.push(&RDMA_SPEED, &labels, files::get(&folder.join("rate"), net::port_rate).flatten());
    counters(&folder.join("counters"), labels, out);
    for kind in TRANSPORT {
        let value = files::get(&folder.join("hw_counters").join(kind), net::port_counter).flatten();
        out.push(&RDMA_TRANSPORT, &[device, port, kind], value.map(|n| n as f64));
    }
}

fn counters(folder: &Path, [device, port]: [&str; 2], out: &mut Families) {
    let (mut known, mut saturated) = (0, 0);
    let mut read = |name: &str, maximum: u64| -> Option<u64> {
        let value = files::get(&folder.join(name), net::port_counter).flatten();
        known += usize::from(value.is_some());
        saturated += usize::from(value == Some(maximum));
        value
    };
    for (row, name) in [(&RDMA_RECEIVED, "port_rcv_data"), (&RDMA_SENT, "port_xmit_data")] {
        out.push(row, &[device, port], read(name, MAX_32).map(|words| words as f64 * WORD_BYTES));
    }
    out.push(&RDMA_WAIT, &[device, port], read("port_xmit_wait", MAX_32).map(|n| n as f64));
    for (kind, maximum) in ERRORS {
        out.push(&RDMA_ERRORS, &[device, port, kind], read(kind, maximum).map(|n| n as f64));
    }
    out.push(&RDMA_SATURATED, &[device, port], (known > 0).then_some(saturated as f64));
}
