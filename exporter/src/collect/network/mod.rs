//! `network`: physical interfaces against their line rate, TCP, and RDMA ports.

pub(crate) mod rdma;

use std::path::Path;

use super::*;
use crate::parse::net::{self, Direction, Interface};
use crate::parse::{cpus, number};
use crate::source::{nodes, process};
use goodput_catalog::network::*;

/// Most interfaces that get series of their own.
pub(crate) const MAX_INTERFACES: usize = 32;

/// Longest list of CPUs in a label: every other one of 256 fits.
const MAX_LIST_BYTES: usize = 512;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Network>(
    "network",
    "Physical network interfaces, TCP and RDMA ports; 3 files, 6 per interface, and up to 28 per RDMA port, which its firmware answers.",
    2,
);

/// Reads `/sys/class/net`, `/proc/1/net/{dev,snmp,netstat}` and `/sys/class/infiniband`.
#[derive(Default)]
pub struct Network;

impl Collector for Network {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        // Three sources that have nothing to do with each other: none waits for another's health.
        let found = [interfaces(roots, out), tcp(roots, out), rdma::ports(roots, out)];
        if found.contains(&true) {
            Ok(Done::Ok)
        } else {
            Ok(Done::NotApplicable("no network in /proc and /sys".to_owned()))
        }
    }
}

/// Names of the physical interfaces, in order; `None` where there is no list of interfaces.
pub(crate) fn physical(roots: &Roots) -> Option<Vec<String>> {
    let class = roots.sys.join("class/net");
    let mut names = files::names(&class)?;
    names.retain(|name| is_physical(&class.join(name)));
    names.sort_unstable();
    Some(names)
}

fn interfaces(roots: &Roots, out: &mut Families) -> bool {
    let class = roots.sys.join("class/net");
    let Some(mut names) = physical(roots) else { return false };
    out.push(&NETWORK_INTERFACES, &[], names.len() as f64);
    names.truncate(MAX_INTERFACES);
    process::of_first(roots, "net/dev", "net/dev", |text| {
        net::interfaces(text).map(|all| {
            for interface in all.iter().filter(|one| names.iter().any(|name| name == one.name)) {
                push_traffic(interface, out);
            }
        })
    });
    for name in &names {
        settings(&class.join(name), name, out);
    }
    true
}

/// Has it a device? Bridges, VLANs and containers' interfaces have none. The link counts, wherever it leads: in a container
/// the device behind it may be out of sight.
pub(crate) fn is_physical(folder: &Path) -> bool {
    folder.join("device").symlink_metadata().is_ok() && !is_virtual(folder)
}

/// Is it a virtual function? Its traffic is its physical function's.
fn is_virtual(folder: &Path) -> bool {
    folder.join("device/physfn").try_exists().unwrap_or(false)
}

fn push_traffic(interface: &Interface<'_>, out: &mut Families) {
    let name = interface.name;
    out.push(&NETWORK_RECEIVED, &[name], interface.received.bytes as f64);
    out.push(&NETWORK_SENT, &[name], interface.sent.bytes as f64);
    for (direction, Direction { errors, dropped, .. }) in
        [("receive", interface.received), ("transmit", interface.sent)]
    {
        out.push(&NETWORK_DROPPED, &[name, direction], dropped as f64);
        out.push(&NETWORK_ERRORS, &[name, direction], errors as f64);
    }
}

fn settings(folder: &Path, name: &str, out: &mut Families) {
    out.push_with(&NETWORK_INFO, &[name], &Place::read(folder).labels(), 1.0);
    // Interfaces whose driver does not tell say unknown, and work.
    let state = files::get(&folder.join("operstate"), |text| Ok(["up", "unknown"].contains(&text.trim())));
    out.push(&NETWORK_UP, &[name], state.map(|up| f64::from(u8::from(up))));
    out.push(&NETWORK_SPEED, &[name], files::found(speed(folder)).map(|megabits| megabits as f64 * 1e6 / 8.0));
    let mtu = files::get(&folder.join("mtu"), number::<u32>);
    out.push(&NETWORK_MTU, &[name], mtu.map(f64::from));
    let changes = files::get(&folder.join("carrier_changes"), number::<u64>);
    out.push(&NETWORK_CARRIER_CHANGES, &[name], changes.map(|n| n as f64));
}

/// Line rate of an interface in Mbit/s; none of one that is down, or whose driver does not know it.
pub(crate) fn speed(folder: &Path) -> Result<Option<u64>, FileError> {
    Ok(files::parse_optional(&folder.join("speed"), net::known)?.flatten())
}

/// Where a device is; what is not known is empty.
struct Place {
    /// Its PCI address.
    pci: String,
    /// Its NUMA node.
    node: String,
    /// The CPUs near it, as a list.
    local_cpus: String,
}

impl Place {
    /// Reads what sysfs says of the device behind an interface or RDMA device.
    fn read(folder: &Path) -> Self {
        let device = folder.join("device");
        let pci = files::link(&device).ok().flatten();
        // A platform's or a hypervisor's bus has other names than PCI's `0000:31:00.0`.
        let pci = pci.filter(|name| name.matches(':').count() == 2).unwrap_or_default();
        let node = files::get(&device.join("numa_node"), number::<i64>);
        // -1 is unknown, and the kernel then takes every CPU for near.
        let cpus = match node {
            Some(..0) => None,
            _ => nodes::read_cpus(&device, "local_cpulist", "local_cpus"),
        };
        let local_cpus = cpus.map(|cpus| cpus::spell(&cpus)).filter(|list| list.len() <= MAX_LIST_BYTES);
        let node = node.filter(|node| *node >= 0).map(|node| node.to_string());
        Self { pci, node: node.unwrap_or_default(), local_cpus: local_cpus.unwrap_or_default() }
    }

    /// As the labels of the information about whatever it is.
    fn labels(&self) -> [&str; 3] {
        [&self.pci, &self.node, &self.local_cpus]
    }
}

fn tcp(roots: &Roots, out: &mut Families) -> bool {
    let mut any = false;
    for (file, protocol, rows) in [
        ("net/snmp", "Tcp", [(&TCP_SENT, "OutSegs"), (&TCP_RETRANSMITTED, "RetransSegs")]),
        ("net/netstat", "TcpExt", [(&TCP_TIMEOUTS, "TCPTimeouts"), (&TCP_LISTEN_DROPS, "ListenDrops")]),
    ] {
        let values =
            process::of_first(roots, file, file, |text| net::protocol(text, protocol, rows.map(|(_, name)| name)));
        for ((row, _), value) in rows.iter().zip(values.unwrap_or_default()) {
            out.push(row, &[], value.map(|n| n as f64));
            any |= value.is_some();
        }
    }
    any
}
