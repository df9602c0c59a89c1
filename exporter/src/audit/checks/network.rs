//! NICs and RDMA ports: how large their messages are, and whether they run at their rate.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::collect::network;
use crate::context::Context;
use crate::parse::{ParseError, number};
use crate::source::files;

/// Ethernet slower than this is for management, Mbit/s.
pub(super) const FAST: u64 = 25_000;

/// What jumbo frames are everywhere called by.
const JUMBO: u64 = 9000;

pub(super) const ABI_TESTING: &str = "https://docs.kernel.org/admin-guide/abi-testing.html";

/// One NIC on a bus, not a bridge, tunnel or container's end.
#[derive(Clone)]
pub(super) struct Nic {
    pub(super) name: String,
    pub(super) mtu: u64,
    /// Mbit/s; `None` when it has no link.
    pub(super) speed: Option<u64>,
    /// Vendor and device on PCI; the same for the same model.
    pub(super) model: String,
    /// `None` when the firmware does not say.
    pub(super) node: Option<u32>,
    /// Lanes as they are and as they could be.
    pub(super) lanes: Option<(u64, u64)>,
}

/// Every NIC, in the order of their names.
pub(super) fn nics(context: &Context) -> Result<Vec<Nic>, Unread> {
    let folder = context.roots.sys.join("class/net");
    let mut names = files::list(&folder)?.unwrap_or_default();
    names.sort_unstable();
    let mut nics = Vec::new();
    for name in names {
        nics.extend(nic(&folder.join(&name), &name)?);
    }
    Unread::unless(!nics.is_empty(), "no NIC on a PCI bus")?;
    Ok(nics)
}

/// The rate of the fastest NIC that is up, Mbit/s.
pub(super) fn fastest(context: &Context) -> Result<Option<u64>, Unread> {
    Ok(nics(context)?.iter().filter_map(|nic| nic.speed).max())
}

/// The rate of the fastest Ethernet that is up, Mbit/s.
pub(super) fn ethernet(context: &Context) -> Result<Option<u64>, Unread> {
    Ok(nics(context)?.iter().filter(|nic| !nic.name.starts_with("ib")).filter_map(|nic| nic.speed).max())
}

/// Is there an RDMA port that is active?
pub(super) fn has_active_port(context: &Context) -> Result<bool, Unread> {
    Ok(ports(context)?.iter().any(|port| port.state.contains("ACTIVE")))
}

fn nic(folder: &Path, name: &str) -> Result<Option<Nic>, Unread> {
    let word = |text: &str| Ok::<_, ParseError>(text.trim().to_owned());
    let device = folder.join("device");
    let Some(vendor) = files::parse_optional(&device.join("vendor"), word)? else { return Ok(None) };
    let model = files::parse_optional(&device.join("device"), word)?.unwrap_or_default();
    let up = files::parse(&folder.join("operstate"), word)? == "up";
    let speed = if up { network::speed(folder)? } else { None };
    let lanes = |file: &str| files::parse_optional(&device.join(file), number::<u64>);
    Ok(Some(Nic {
        name: name.to_owned(),
        mtu: files::parse(&folder.join("mtu"), number)?,
        speed,
        model: format!("{vendor}:{model}"),
        node: files::parse_optional(&device.join("numa_node"), number::<i64>)?.and_then(|node| node.try_into().ok()),
        lanes: lanes("current_link_width")?.zip(lanes("max_link_width")?),
    }))
}

pub(super) static MTU: Check = Check {
    id: "nic_mtu",
    title: "Frame size of fast Ethernet",
    reads: "/sys/class/net/*/{mtu,operstate,speed}",
    families: &[&catalog::network::NETWORK_UP, &catalog::network::NETWORK_SPEED, &catalog::network::NETWORK_MTU],
    expected: Expected::always("at least 9000 on Ethernet of 25 Gbit/s and more that is up"),
    why: "With frames of 1500 bytes a 100 Gbit/s link brings eight million a second, and each costs the CPU the same as a \
          large one. RDMA over Ethernet takes its largest message from it as well.",
    fixes: &[Fix {
        command: "ip link set dev NIC mtu 9000",
        lasting: Some("in the network's configuration (netplan, NetworkManager, systemd-networkd)"),
        restarts: "connections that run over the NIC may stall for a moment",
        risk: "every switch, peer and overlay of that network has to take such frames, or large messages vanish",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("ABI: /sys/class/net/IFACE/{mtu,speed}", ABI_TESTING),
        book("AI Systems Performance Engineering (early release), chapter 4: jumbo frames"),
        own("a warning, from 25 Gbit/s on: a network that is not for the jobs does not need them"),
    ],
    run: |context, _| judge_mtu(&nics(context)?),
};

fn judge_mtu(nics: &[Nic]) -> Result<Verdict, Unread> {
    let fast: Vec<&Nic> = nics.iter().filter(|nic| nic.speed.is_some_and(|speed| speed >= FAST)).collect();
    // IP over InfiniBand has frame sizes of its own.
    let fast: Vec<&Nic> = fast.into_iter().filter(|nic| !nic.name.starts_with("ib")).collect();
    Unread::unless(!fast.is_empty(), "no Ethernet of 25 Gbit/s or more that is up")?;
    let small: Vec<&&Nic> = fast.iter().filter(|nic| nic.mtu < JUMBO).collect();
    if small.is_empty() {
        return Ok(Verdict::new(Status::Pass, format!("at least {JUMBO} on {}", count(fast.len(), "NIC"))));
    }
    let read: Vec<String> = small.iter().map(|nic| format!("{} on {}", nic.mtu, nic.name)).collect();
    let commands = small.iter().map(|nic| format!("ip link set dev {} mtu {JUMBO}", nic.name)).collect();
    Ok(Verdict::new(Status::Warn, list(&read)).with(commands))
}

pub(super) static SPEED: Check = Check {
    id: "nic_speed",
    title: "Rate of NICs of one model",
    reads: "/sys/class/net/*/{operstate,speed,device/{vendor,device}}",
    families: &[&catalog::network::NETWORK_UP, &catalog::network::NETWORK_SPEED],
    expected: Expected::always("the same on all that are up"),
    why: "A link that agreed on a lower rate, for a cable, a transceiver or a switch port, holds up every collective that \
          uses it: all wait for the slowest.",
    fixes: &[Fix {
        command: "ethtool NIC; reseat or replace cable and transceiver, compare the switch port's settings",
        restarts: "the link",
        who: Who::Hardware,
        ..Fix::USUAL
    }],
    sources: &[
        kernel("ABI: /sys/class/net/IFACE/speed", ABI_TESTING),
        own("a warning: ports of one model can be cabled for different networks"),
    ],
    run: |context, _| Ok(judge_speed(&nics(context)?)),
};

fn judge_speed(nics: &[Nic]) -> Verdict {
    let mut fastest: BTreeMap<&str, u64> = BTreeMap::new();
    for (model, speed) in nics.iter().filter_map(|nic| Some((nic.model.as_str(), nic.speed?))) {
        let most = fastest.entry(model).or_default();
        *most = speed.max(*most);
    }
    let slow = nics.iter().filter_map(|nic| {
        let (speed, most) = (nic.speed?, *fastest.get(nic.model.as_str())?);
        (speed < most).then(|| format!("{} {speed} Mbit/s, another of its model {most}", nic.name))
    });
    Verdict::listing(Status::Warn, slow.collect(), format!("equal, of {}", count(nics.len(), "NIC")))
}

pub(super) static NODE: Check = Check {
    id: "nic_numa_node",
    title: "NUMA node of each NIC",
    reads: "/sys/class/net/*/device/numa_node",
    families: &[&catalog::network::NETWORK_INFO],
    expected: Expected::always("known for every NIC"),
    why: "With more than one NUMA node, NCCL chooses for each GPU the NIC that is nearest, and the kernel the CPUs that \
          serve its queues. -1 means that the firmware did not say, and that all are equally far.",
    fixes: &[Fix {
        command: "bare metal: update the firmware, which describes the slots (_PXM); \
                  virtual machine: give the guest the host's NUMA topology and place the NIC on it",
        restarts: "the node",
        who: Who::Hardware,
        risk: "as of any firmware update or change of the machine's definition",
        ..Fix::USUAL
    }],
    sources: &[kernel("ABI: /sys/bus/pci/devices/.../numa_node", ABI_TESTING)],
    run: |context, _| {
        numa::multiple(context)?;
        Ok(judge_nodes(&nics(context)?))
    },
};

fn judge_nodes(nics: &[Nic]) -> Verdict {
    let unknown: Vec<String> = nics.iter().filter(|nic| nic.node.is_none()).map(|nic| nic.name.clone()).collect();
    match unknown.is_empty() {
        true => Verdict::new(Status::Pass, format!("known for {}", count(nics.len(), "NIC"))),
        false => Verdict::new(Status::Warn, format!("unknown for {}", list(&unknown))),
    }
}

pub(super) static LANES: Check = Check {
    id: "nic_pcie_link",
    title: "PCIe link of each NIC",
    reads: "/sys/class/net/*/device/{current_link_width,max_link_width}",
    families: &[],
    expected: Expected::always("as many lanes as the NIC has"),
    why: "A NIC in a slot with half its lanes, or whose link came up with fewer, cannot bring what the network delivers: a \
          400 Gbit/s port needs 16 lanes of generation 5.",
    fixes: &[Fix {
        command: "move the NIC to a wider slot, or reseat it; check slot bifurcation in the firmware",
        restarts: "the node",
        who: Who::Hardware,
        risk: "downtime",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("ABI: /sys/bus/pci/devices/.../{current,max}_link_width", ABI_TESTING),
        own("a warning: half the lanes of a newer generation can be enough for the port's rate"),
    ],
    run: |context, _| judge_lanes(&nics(context)?),
};

fn judge_lanes(nics: &[Nic]) -> Result<Verdict, Unread> {
    let known: Vec<(&str, u64, u64)> =
        nics.iter().filter_map(|nic| nic.lanes.map(|(now, most)| (nic.name.as_str(), now, most))).collect();
    Unread::unless(!known.is_empty(), "no NIC whose lanes the kernel knows")?;
    let narrow = known.iter().filter(|(_, now, most)| now < most);
    let narrow = narrow.map(|(name, now, most)| format!("{name} x{now} of x{most}"));
    Ok(Verdict::listing(Status::Warn, narrow.collect(), format!("full width on {}", count(known.len(), "NIC"))))
}

pub(super) static PORTS: Check = Check {
    id: "rdma_ports",
    title: "RDMA ports",
    reads: "/sys/class/infiniband/*/ports/*/{state,rate}",
    families: &[&catalog::network::RDMA_ACTIVE, &catalog::network::RDMA_SPEED],
    expected: Expected::always("active, all at the same rate"),
    why: "NCCL leaves a port that is not active out without a word, and the others carry its share; one at a lower rate \
          holds up all of them.",
    fixes: &[Fix {
        command: "ibstat; look at cable, switch port and subnet manager (INIT: it has not seen the port)",
        restarts: "the link",
        who: Who::Hardware,
        ..Fix::USUAL
    }],
    sources: &[
        kernel(
            "ABI: /sys/class/infiniband/DEVICE/ports/PORT/{state,rate}",
            "https://docs.kernel.org/admin-guide/abi-stable.html",
        ),
        own("a warning: a port may be unused, or for storage, on purpose"),
    ],
    run: |context, _| judge_ports(&ports(context)?),
};

/// One port of an RDMA device.
struct Port {
    name: String,
    /// As in `4: ACTIVE`.
    state: String,
    /// As in `400 Gb/sec (4X NDR)`.
    rate: String,
}

fn ports(context: &Context) -> Result<Vec<Port>, Unread> {
    let folder = context.roots.sys.join("class/infiniband");
    let word = |text: &str| Ok::<_, ParseError>(text.trim().to_owned());
    let mut found = Vec::new();
    for device in files::list(&folder)?.unwrap_or_default() {
        let ports = folder.join(&device).join("ports");
        for port in files::list(&ports)?.unwrap_or_default() {
            let read = |file: &str| files::parse_optional(&ports.join(&port).join(file), word);
            if let Some((state, rate)) = read("state")?.zip(read("rate")?) {
                found.push(Port { name: format!("{device} port {port}"), state, rate });
            }
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Port {
    /// Gbit/s.
    fn gigabits(&self) -> Option<f64> {
        self.rate.split(' ').next()?.parse().ok()
    }
}

fn judge_ports(ports: &[Port]) -> Result<Verdict, Unread> {
    Unread::unless(!ports.is_empty(), "no RDMA port")?;
    let (active, others): (Vec<&Port>, Vec<&Port>) = ports.iter().partition(|port| port.state.contains("ACTIVE"));
    let most = active.iter().filter_map(|port| port.gigabits()).fold(0.0, f64::max);
    let slow = active.iter().filter(|port| port.gigabits().is_some_and(|rate| rate < most));
    let read: Vec<String> = others
        .iter()
        .map(|port| format!("{} is {}", port.name, port.state))
        .chain(slow.map(|port| format!("{} has {}, another {most} Gb/sec", port.name, port.rate)))
        .collect();
    Ok(Verdict::listing(Status::Warn, read, format!("{} at {most} Gb/sec", count(active.len(), "port"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    fn nic(name: &str, mtu: u64, speed: Option<u64>) -> Nic {
        Nic { name: name.to_owned(), mtu, speed, model: "a".to_owned(), node: Some(0), lanes: Some((16, 16)) }
    }

    fn said(verdict: Verdict) -> (Status, String) {
        (verdict.status, verdict.read)
    }

    #[test]
    fn frames() {
        let all = [nic("eth0", 1500, Some(1000)), nic("ib0", 4092, Some(400_000)), nic("eth1", 9000, Some(100_000))];
        assert_eq!(said(judge_mtu(&all).unwrap()), (Pass, "at least 9000 on 1 NIC".to_owned()));
        let verdict = judge_mtu(&[nic("eth1", 1500, Some(25_000))]).unwrap();
        assert_eq!(verdict.commands, ["ip link set dev eth1 mtu 9000"]);
        assert_eq!(said(verdict), (Warn, "1500 on eth1".to_owned()));
        assert!(judge_mtu(&[nic("eth1", 1500, None)]).is_err());
    }

    #[test]
    fn rates() {
        let all = [nic("eth0", 9000, Some(100_000)), nic("eth1", 9000, None), nic("eth2", 9000, Some(40_000))];
        assert_eq!(said(judge_speed(&all)), (Warn, "eth2 40000 Mbit/s, another of its model 100000".to_owned()));
        assert_eq!(judge_speed(&all[..2]).status, Pass);
        let other = Nic { model: "b".to_owned(), ..all[2].clone() };
        assert_eq!(judge_speed(&[all[0].clone(), other]).status, Pass);
    }

    #[test]
    fn places_and_lanes() {
        let known = nic("eth0", 9000, None);
        assert_eq!(judge_nodes(std::slice::from_ref(&known)).status, Pass);
        assert_eq!(said(judge_nodes(&[Nic { node: None, ..known.clone() }])), (Warn, "unknown for eth0".to_owned()));
        assert_eq!(judge_lanes(std::slice::from_ref(&known)).unwrap().status, Pass);
        let narrow = Nic { lanes: Some((8, 16)), ..known.clone() };
        assert_eq!(said(judge_lanes(&[narrow]).unwrap()), (Warn, "eth0 x8 of x16".to_owned()));
        assert!(judge_lanes(&[Nic { lanes: None, ..known }]).is_err());
    }

    #[test]
    fn rdma() {
        let port = |n: u32, state: &str, rate: &str| Port {
            name: format!("mlx5_{n} port 1"),
            state: state.to_owned(),
            rate: rate.to_owned(),
        };
        let full = "400 Gb/sec (4X NDR)";
        let judge = |ports: &[Port]| said(judge_ports(ports).unwrap());
        assert_eq!(judge(&[port(0, "4: ACTIVE", full)]), (Pass, "1 port at 400 Gb/sec".to_owned()));
        let down = [port(0, "4: ACTIVE", full), port(1, "1: DOWN", "10 Gb/sec (4X SDR)")];
        assert_eq!(judge(&down), (Warn, "mlx5_1 port 1 is 1: DOWN".to_owned()));
        let slow = [port(0, "4: ACTIVE", full), port(1, "4: ACTIVE", "200 Gb/sec (4X HDR)")];
        assert_eq!(judge(&slow), (Warn, "mlx5_1 port 1 has 200 Gb/sec (4X HDR), another 400 Gb/sec".to_owned()));
        assert!(judge_ports(&[]).is_err());
    }
}
