//! Whether priority flow control is on for the priority that RDMA over Ethernet has.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::collect::network;
use crate::context::Context;
use crate::parse::{ParseError, dcb};
use crate::source::ethtool::is_plain;
use crate::source::files::{self, Roots};
use crate::source::program::{DCB, ProgramError};

/// How long one NIC may take: own choice, a thousand times the usual.
const LIMIT: Duration = Duration::from_secs(1);

pub(super) static PRIORITY: Check = Check {
    id: "pfc_priority",
    title: "Flow control of the priority of RDMA over Ethernet",
    reads: "dcb -j {pfc,app} show of the NIC of each RDMA device that is up, /sys/class/net/*/{operstate,phys_port_name}, \
            /sys/class/infiniband/*/{node_type,tc/1/traffic_class,ports/*/link_layer}",
    families: &[],
    expected: Expected::always("on for the priority that the NIC's traffic class maps to, or for none at all"),
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
        own(
            "NICs are not compared: one for storage or the front end has no need of it. Nor is a class judged that a program \
             sets for itself",
        ),
        own("not judged by a running exporter, which starts no program for it"),
    ],
    run: |context, _| judge(ports(context)?),
};

/// What a NIC does about RDMA over Ethernet.
struct Port {
    /// The network interface.
    interface: String,
    /// Why it is not known, where it is not.
    control: Result<Control, Unread>,
}

/// Flow control of a NIC.
struct Control {
    /// The priorities that have it.
    paused: BTreeSet<u8>,
    /// That of RDMA; `None` where it is not known.
    priority: Option<u8>,
}

fn ports(context: &Context) -> Result<Vec<Port>, Unread> {
    let class = context.roots.sys.join("class/infiniband");
    let mut devices = files::list(&class)?.unwrap_or_default();
    devices.retain(|device| network::is_physical(&class.join(device)));
    devices.sort_unstable();
    let (mut ports, mut dcb) = (Vec::new(), Dcb { roots: &context.roots, is_late: false });
    for device in devices {
        let folder = class.join(&device);
        let Some(interface) = interface(&context.roots, &folder)? else { continue };
        let control = control(&mut dcb, &folder, &interface);
        ports.push(Port { interface, control });
    }
    Unread::unless(!ports.is_empty(), "no RDMA over Ethernet on a NIC that is up")?;
    Ok(ports)
}

/// The network interface of a device with RDMA over Ethernet (RoCE); `None` of another device and where none is up.
fn interface(roots: &Roots, device: &Path) -> Result<Option<String>, Unread> {
    if !is_roce(device)? {
        return Ok(None);
    }
    let mut names = files::folders(&device.join("device/net"));
    names.retain(|name| is_plain(name));
    names.sort_unstable();
    for name in names {
        let folder = roots.sys.join("class/net").join(&name);
        let is_up = |text: &str| Ok::<_, ParseError>(["up", "unknown"].contains(&text.trim()));
        let is_up = files::parse_optional(&folder.join("operstate"), is_up)?.unwrap_or_default();
        if is_up && !is_representor(&folder)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Does the device speak RoCE? iWARP (node type 4, RNIC) runs over TCP, which has no use for flow control.
fn is_roce(device: &Path) -> Result<bool, Unread> {
    let is_iwarp = |text: &str| Ok::<_, ParseError>(text.starts_with("4:"));
    if files::parse_optional(&device.join("node_type"), is_iwarp)?.unwrap_or_default() {
        return Ok(false);
    }
    let ports = device.join("ports");
    for port in files::list(&ports)?.unwrap_or_default() {
        let is_ethernet = |text: &str| Ok::<_, ParseError>(text.trim() == "Ethernet");
        if files::parse_optional(&ports.join(port).join("link_layer"), is_ethernet)?.unwrap_or_default() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Does the interface stand for a virtual function in the NIC's switch? Its name there begins with that of the physical
/// function, such as pf0vf1; a port's own is p0.
fn is_representor(interface: &Path) -> Result<bool, Unread> {
    let is_function = |text: &str| Ok::<_, ParseError>(text.starts_with("pf"));
    Ok(files::parse_optional(&interface.join("phys_port_name"), is_function)?.unwrap_or_default())
}

fn control(dcb: &mut Dcb<'_>, device: &Path, interface: &str) -> Result<Control, Unread> {
    let paused = dcb.ask("pfc", interface, dcb::pfc)?;
    // Without flow control there is nothing that the priority could contradict.
    let class = if paused.is_empty() { None } else { traffic_class(device)? };
    let priority = match class {
        // The lower two bits of the class are for notices of congestion.
        Some(class) => dcb.ask("app", interface, dcb::dscp_priorities)?.get(&(class >> 2)).copied(),
        None => None,
    };
    Ok(Control { paused, priority })
}

/// The program, which is not asked again once it was late: firmware that does not answer is waited for once.
struct Dcb<'a> {
    roots: &'a Roots,
    is_late: bool,
}

impl Dcb<'_> {
    fn ask<T>(&mut self, object: &str, interface: &str, parse: fn(&str) -> Result<T, ParseError>) -> Result<T, Unread> {
        let Some(folder) = &self.roots.programs else {
            return Err(Unread::Absent("the exporter starts no program for it: see goodput-exporter audit".to_owned()));
        };
        if self.is_late {
            return Err(Unread::Failed(format!("dcb was not started for {interface}: it was late for another NIC")));
        }
        let arguments = ["-j", object, "show", "dev", interface];
        let text = DCB.run(folder, &arguments, LIMIT).map_err(|error| {
            self.is_late = matches!(error, ProgramError::TimedOut { .. });
            match error {
                ProgramError::Missing { .. } | ProgramError::Failed { .. } => Unread::Absent(error.to_string()),
                ProgramError::Denied { .. } => Unread::Denied { what: error.to_string(), permit: AS_ROOT },
                _ => Unread::Failed(error.to_string()),
            }
        })?;
        parse(&text).map_err(|error| Unread::Failed(format!("dcb {}: {error}", arguments.join(" "))))
    }
}

/// The class of all connections of the device; `None` where each program chooses its own, as NCCL does (NCCL_IB_TC, 0
/// unless set). The class that rdma_cm gives (configfs, default_roce_tos) is none of these programs'.
fn traffic_class(device: &Path) -> Result<Option<u8>, Unread> {
    Ok(files::parse_optional(&device.join("tc/1/traffic_class"), dcb::traffic_class)?.flatten())
}

fn judge(ports: Vec<Port>) -> Result<Verdict, Unread> {
    let all = ports.len();
    let (mut wrong, mut commands, mut right, mut unknown, mut failed) = (vec![], vec![], 0, vec![], vec![]);
    for Port { interface, control } in ports {
        match control {
            Err(why) => failed.push((interface, why)),
            Ok(Control { paused, .. }) if paused.is_empty() => {}
            Ok(Control { priority: None, .. }) => unknown.push(interface),
            Ok(Control { paused, priority: Some(priority) }) if paused.contains(&priority) => right += 1,
            Ok(Control { paused, priority: Some(priority) }) => {
                let on: Vec<String> = paused.iter().map(u8::to_string).collect();
                wrong.push(format!("{interface} has it for priority {}, RDMA has priority {priority}", list(&on)));
                commands.push(format!("dcb pfc set dev {interface} prio-pfc {priority}:on"));
            }
        }
    }
    let is_known = unknown.is_empty() && failed.is_empty();
    if wrong.is_empty() && right == 0 && is_known {
        return Ok(Verdict::new(Status::Pass, format!("on for no priority, of {}", count(all, "NIC"))));
    }
    if wrong.is_empty() && right == 0 {
        let why = || {
            format!("priority of RDMA not known on {}: no traffic class is set, or no DSCP is mapped", list(&unknown))
        };
        return Err(failed.into_iter().next().map_or_else(|| Unread::Absent(why()), |(_, why)| why));
    }
    unknown.extend(failed.into_iter().map(|(interface, _)| interface));
    let but = if is_known { String::new() } else { format!("; not known of {}", list(&unknown)) };
    let right = format!("on for the priority of RDMA, of {}{but}", count(right, "NIC"));
    Ok(Verdict::listing(Status::Warn, wrong, right).with(commands))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    fn port(interface: &str, paused: &[u8], priority: Option<u8>) -> Port {
        let control = Ok(Control { paused: paused.iter().copied().collect(), priority });
        Port { interface: interface.to_owned(), control }
    }

    fn said<const N: usize>(ports: [Port; N]) -> (Status, String) {
        judge(ports.into()).map(|verdict| (verdict.status, verdict.read)).unwrap()
    }

    #[test]
    fn priorities() {
        let right = "on for the priority of RDMA, of 1 NIC".to_owned();
        assert_eq!(said([port("eth0", &[3], Some(3))]), (Pass, right.clone()));
        assert_eq!(
            said([port("eth0", &[3, 4], Some(3))]),
            (Pass, right.clone()),
            "one more is for other lossless traffic"
        );
        assert_eq!(
            said([port("eth0", &[], None)]),
            (Pass, "on for no priority, of 1 NIC".to_owned()),
            "a lossy fabric"
        );
        let other = || [port("eth0", &[3], Some(3)), port("eth1", &[4, 5], Some(3))];
        assert_eq!(said(other()), (Warn, "eth1 has it for priority 4, 5, RDMA has priority 3".to_owned()));
        assert_eq!(judge(other().into()).unwrap().commands, ["dcb pfc set dev eth1 prio-pfc 3:on"]);
        let front = [port("eth0", &[3], Some(3)), port("eth9", &[], None)];
        assert_eq!(said(front), (Pass, right), "a NIC of the front end has none");
    }

    #[test]
    fn what_is_not_known_is_no_pass_and_costs_no_other_nic() {
        let lost = || Port { interface: "eth1".to_owned(), control: Err(Unread::Failed("eth1: late".to_owned())) };
        assert!(matches!(judge(vec![port("eth0", &[3], None), port("eth9", &[], None)]), Err(Unread::Absent(_))));
        assert!(matches!(judge(vec![port("eth0", &[], None), lost()]), Err(Unread::Failed(_))));
        let read = "on for the priority of RDMA, of 1 NIC; not known of eth2, eth1".to_owned();
        assert_eq!(said([port("eth0", &[3], Some(3)), lost(), port("eth2", &[3], None)]), (Pass, read));
        assert_eq!(said([lost(), port("eth3", &[4], Some(3))]).0, Warn);
    }
}
