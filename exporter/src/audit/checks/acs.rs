//! Whether switches send what a GPU and a NIC say to each other up to the processor.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::collect::network;
use crate::collect::pci::nearest;
use crate::context::Context;
use crate::parse::hexadecimal;
use crate::parse::pci_config::{self, AccessControl};
use crate::source::files;

/// Vendor and device of ConnectX-8's Data Direct function (drivers/infiniband/hw/mlx5/data_direct.c).
const DATA_DIRECT: (u32, u32) = (0x15b3, 0x2100);

pub(super) static ACS: Check = Check {
    id: "acs",
    title: "Access control between GPUs and NICs",
    reads: "/sys/bus/pci/devices/*/config of the switch ports between GPUs and RDMA devices, /proc/cpuinfo, \
            nvmlDeviceGetVirtualizationMode",
    families: &[],
    expected: Expected::always(
        "no redirection of requests or completions at switches that a GPU and an RDMA device share",
    ),
    why: "With redirection, what a NIC reads from a GPU's memory goes through the switch up to the processor's root complex \
          and back down, at a fraction of the switch's bandwidth, and all GPUs below it share the link upwards.",
    fixes: &[
        Fix {
            command: "setpci -s ADDRESS ECAP_ACS+6.w=0:c",
            lasting: Some("a unit that runs the command at boot"),
            risk: "devices that are given to virtual machines are no longer kept apart",
            ..Fix::USUAL
        },
        Fix {
            command: "switch PCIe ACS off in the firmware",
            restarts: "the node",
            who: Who::Hardware,
            risk: "devices that are given to virtual machines are no longer kept apart",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor(
            "NCCL, Troubleshooting: PCI Access Control Services",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
        NOT_IN_A_GUEST,
        own("not judged with ConnectX-8's Data Direct, whose way to the GPU needs the redirection"),
        own("a warning: traffic over NVLink does not care"),
    ],
    run: |context, _| {
        jobs::gpus(context)?;
        jobs::sees_the_bus(context, "access control of switches")?;
        let guest = "a virtual machine, which does not see the bus of its host";
        Unread::unless(!is_guest(&context.roots.proc)?, guest)?;
        Unread::unless(!has_data_direct(&context.roots.sys)?, "a NIC with Data Direct, which needs redirection")?;
        let ports = ports(context)?;
        let config = |port: &String| Ok((port.clone(), access_control(&context.roots.sys, port)?));
        judge(&ports.iter().map(config).collect::<Result<Vec<_>, Unread>>()?)
    },
};

/// Does the processor say that a hypervisor runs this machine?
fn is_guest(proc: &Path) -> Result<bool, Unread> {
    let flags = |text: &str| {
        let flags = text.lines().find(|line| line.starts_with("flags"));
        Ok(flags.is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor")))
    };
    Ok(files::parse_optional(&proc.join("cpuinfo"), flags)?.unwrap_or_default())
}

fn has_data_direct(sys: &Path) -> Result<bool, Unread> {
    let devices = sys.join("bus/pci/devices");
    for device in files::list(&devices)?.unwrap_or_default() {
        let read = |file: &str| files::parse_optional(&devices.join(&device).join(file), hexadecimal);
        if read("vendor")?.zip(read("device")?) == Some(DATA_DIRECT) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Addresses of the switch ports at which the ways from a GPU and from an RDMA device meet.
fn ports(context: &Context) -> Result<BTreeSet<String>, Unread> {
    let class = context.roots.sys.join("class/infiniband");
    let mut devices = files::list(&class)?.unwrap_or_default();
    // One that is software alone, such as rxe0, is on no bus.
    devices.retain(|device| network::is_physical(&class.join(device)));
    Unread::unless(!devices.is_empty(), "no RDMA device")?;
    let nics = nearest::nics(context);
    let mut ports = BTreeSet::new();
    for gpu in jobs::gpus(context)?.iter().filter_map(|gpu| nearest::slot(context, gpu)) {
        ports.extend(nics.iter().flat_map(|nic| gpu.parting(&nic.slot)).map(str::to_owned));
    }
    Unread::unless(!ports.is_empty(), "no GPU shares a PCIe switch with an RDMA device")?;
    Ok(ports)
}

fn access_control(sys: &Path, port: &str) -> Result<AccessControl, Unread> {
    let path = sys.join("bus/pci/devices").join(port).join("config");
    match AccessControl::of(&files::read_start(&path, pci_config::LENGTH)?) {
        AccessControl::Hidden => {
            let what = format!("{}: the kernel shows its first bytes only", path.display());
            Err(Unread::Denied { what, permit: AS_ROOT })
        }
        AccessControl::OutOfReach => {
            let why = format!("{}: the kernel does not reach extended capabilities (no ECAM)", path.display());
            Err(Unread::Absent(why))
        }
        control => Ok(control),
    }
}

fn judge(ports: &[(String, AccessControl)]) -> Result<Verdict, Unread> {
    let wrong: Vec<_> = ports.iter().filter(|(_, control)| !control.redirects().is_empty()).collect();
    let read = wrong.iter().map(|(port, control)| format!("{port} redirects {}", control.redirects().join(" and ")));
    let commands = wrong.iter().map(|(port, _)| format!("setpci -s {port} ECAP_ACS+6.w=0:c")).collect();
    let right = format!("not redirected at {}", count(ports.len(), "switch port"));
    Ok(Verdict::listing(Status::Warn, read.collect(), right).with(commands))
}
