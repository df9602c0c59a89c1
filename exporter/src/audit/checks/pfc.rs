//! Whether priority flow control is on for the priority that RDMA over Ethernet has.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::collect::network;
use crate::context::Context;
use crate::parse::{ParseError, dcb, number};
use crate::source::ethtool::is_plain;
use crate::source::files::{self, Roots};
use crate::source::program::{DCB, ProgramError};

/// How long one NIC may take: own choice, a thousand times the usual.
const LIMIT: Duration = Duration::from_secs(1);

pub(super) static PRIORITY: Check = Check {
    id: "pfc_priority",
    title: "Flow control of the priority of RDMA over Ethernet",
    reads: "dcb -j {pfc,app} show of the NIC of each RDMA device, /sys/class/infiniband/*/tc/1/traffic_class, else \
            /sys/kernel/config/rdma_cm/*/ports/*/default_roce_tos, /sys/class/infiniband/*/ports/*/link_layer",
    families: &[],
    expected: Expected::always(
        "on for the priority that the traffic class maps to, on all NICs alike; or on none at all",
    ),
    why: "RDMA over Ethernet repeats much for each lost packet. Priority flow control keeps switches from dropping packets, of \
          its priority alone: on another one it stops other traffic, and what RDMA sends is still dropped. Fabrics that are \
          lossy by design have it nowhere.",
    fixes: &[Fix {
        command: "dcb pfc set dev NIC prio-pfc PRIORITY:on",
        lasting: Some("in the network's configuration, or mlnx_qos --pfc in a unit at boot"),
        risk: "every switch port of the path has to have it for the same priority, or pauses stop nothing, or other traffic",
        ..Fix::USUAL
    }],
    sources: &[
        practice("iproute2, dcb-pfc(8)", "https://man7.org/linux/man-pages/man8/dcb-pfc.8.html"),
        practice("iproute2, dcb-app(8)", "https://man7.org/linux/man-pages/man8/dcb-app.8.html"),
        own(
            "a warning, where NIC and traffic class contradict each other: a job may set a class of its own (NCCL_IB_TC)",
        ),
        own("not judged by a running exporter, which starts no program for it"),
    ],
    run: |context, _| judge(&ports(context)?),
};

/// What a NIC does about RDMA over Ethernet.
struct Port {
    /// The network interface.
    interface: String,
    /// The priorities that have flow control.
    paused: BTreeSet<u8>,
    /// That of RDMA; `None` where it is not known.
    priority: Option<u8>,
}

fn ports(context: &Context) -> Result<Vec<Port>, Unread> {
    let class = context.roots.sys.join("class/infiniband");
    let mut devices = files::list(&class)?.unwrap_or_default();
    devices.retain(|device| network::is_physical(&class.join(device)));
    devices.sort_unstable();
    let mut found = Vec::new();
    for device in devices {
        if !is_ethernet(&class.join(&device))? {
            continue;
        }
        let interfaces = files::folders(&class.join(&device).join("device/net"));
        let Some(interface) = interfaces.into_iter().find(|name| is_plain(name)) else { continue };
        found.push((device, interface));
    }
    Unread::unless(!found.is_empty(), "no RDMA over Ethernet")?;
    found.into_iter().map(|(device, interface)| port(&context.roots, &device, interface)).collect()
}

fn is_ethernet(device: &Path) -> Result<bool, Unread> {
    let ports = device.join("ports");
    for port in files::list(&ports)?.unwrap_or_default() {
        let is_ethernet = |text: &str| Ok::<_, ParseError>(text.trim() == "Ethernet");
        if files::parse_optional(&ports.join(port).join("link_layer"), is_ethernet)?.unwrap_or_default() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn port(roots: &Roots, device: &str, interface: String) -> Result<Port, Unread> {
    let paused = ask(roots, "pfc", &interface, dcb::pfc)?;
    // Without flow control there is nothing that the priority could contradict.
    let class = if paused.is_empty() { None } else { traffic_class(roots, device)? };
    let priority = match class {
        // The lower two bits of the class are for notices of congestion.
        Some(class) => ask(roots, "app", &interface, dcb::dscp_priorities)?.get(&(class >> 2)).copied(),
        None => None,
    };
    Ok(Port { interface, paused, priority })
}

fn ask<T>(roots: &Roots, object: &str, interface: &str, parse: fn(&str) -> Result<T, ParseError>) -> Result<T, Unread> {
    let Some(folder) = &roots.programs else {
        return Err(Unread::Absent("the exporter starts no program for it: see goodput-exporter audit".to_owned()));
    };
    let arguments = ["-j", object, "show", "dev", interface];
    let text = DCB.run(folder, &arguments, LIMIT).map_err(|error| match error {
        ProgramError::Missing { .. } | ProgramError::Failed { .. } => Unread::Absent(error.to_string()),
        ProgramError::Denied { .. } => Unread::Denied { what: error.to_string(), permit: AS_ROOT },
        _ => Unread::Failed(error.to_string()),
    })?;
    parse(&text).map_err(|error| Unread::Failed(format!("dcb {}: {error}", arguments.join(" "))))
}

/// The class of all connections of the device; `None` where each chooses its own.
fn traffic_class(roots: &Roots, device: &str) -> Result<Option<u8>, Unread> {
    let of_driver = roots.sys.join("class/infiniband").join(device).join("tc/1/traffic_class");
    let of_manager = roots.sys.join("kernel/config/rdma_cm").join(device).join("ports/1/default_roce_tos");
    match files::parse_optional(&of_driver, dcb::traffic_class)?.flatten() {
        Some(class) => Ok(Some(class)),
        None => Ok(files::parse_optional(&of_manager, number::<u8>)?),
    }
}

fn judge(ports: &[Port]) -> Result<Verdict, Unread> {
    if ports.iter().all(|port| port.paused.is_empty()) {
        return Ok(Verdict::new(Status::Pass, format!("on for no priority, of {}", count(ports.len(), "NIC"))));
    }
    let (mut wrong, mut commands) = (Vec::new(), Vec::new());
    for Port { interface, paused, priority } in ports {
        let on: Vec<String> = paused.iter().map(u8::to_string).collect();
        match priority {
            _ if paused.is_empty() => wrong.push(format!("{interface} has it for no priority, other NICs have")),
            Some(priority) if !paused.contains(priority) => {
                wrong.push(format!("{interface} has it for priority {}, RDMA has priority {priority}", list(&on)));
                commands.push(format!("dcb pfc set dev {interface} prio-pfc {priority}:on"));
            }
            _ => {}
        }
    }
    let unknown: Vec<String> =
        ports.iter().filter(|port| port.priority.is_none()).map(|port| port.interface.clone()).collect();
    let why =
        format!("priority of RDMA not known on {}: no traffic class is set, or no DSCP is mapped", list(&unknown));
    Unread::unless(unknown.is_empty() || !wrong.is_empty(), &why)?;
    let right = format!("on for the priority of RDMA, of {}", count(ports.len(), "NIC"));
    Ok(Verdict::listing(Status::Warn, wrong, right).with(commands))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    fn port(interface: &str, paused: &[u8], priority: Option<u8>) -> Port {
        Port { interface: interface.to_owned(), paused: paused.iter().copied().collect(), priority }
    }

    #[test]
    fn priorities() {
        let said = |ports: &[Port]| judge(ports).map(|verdict| (verdict.status, verdict.read)).unwrap();
        let right = "on for the priority of RDMA, of 1 NIC".to_owned();
        assert_eq!(said(&[port("eth0", &[3], Some(3))]), (Pass, right.clone()));
        assert_eq!(said(&[port("eth0", &[3, 4], Some(3))]), (Pass, right), "one more is for other lossless traffic");
        assert_eq!(
            said(&[port("eth0", &[], None)]),
            (Pass, "on for no priority, of 1 NIC".to_owned()),
            "a lossy fabric"
        );
        let other = [port("eth0", &[3], Some(3)), port("eth1", &[4, 5], Some(3))];
        assert_eq!(said(&other), (Warn, "eth1 has it for priority 4, 5, RDMA has priority 3".to_owned()));
        assert_eq!(judge(&other).unwrap().commands, ["dcb pfc set dev eth1 prio-pfc 3:on"]);
        let one = [port("eth0", &[3], Some(3)), port("eth1", &[], None)];
        assert_eq!(said(&one), (Warn, "eth1 has it for no priority, other NICs have".to_owned()));
        assert!(judge(&[port("eth0", &[3], None)]).is_err(), "not judged, and no pass");
    }
}
