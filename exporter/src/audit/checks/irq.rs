//! Whether interrupts arrive near their devices.

use super::super::text::{count, list, ranges};
use super::super::{Check, Expected, Fix, Status, Unread, Verdict, Who};
use super::{book, kernel, own};
use crate::collect::Context;
use crate::collect::irq::device::Device;
use crate::parse::bus_id::Address;
use crate::parse::{cpus, interrupts};
use crate::source::files::{self, FileError};
use crate::source::nodes::{Nodes, Ranges};

pub(super) static AFFINITY: Check = Check {
    id: "irq_affinity",
    title: "Interrupts of GPUs and NICs",
    reads: "/proc/interrupts, /proc/irq/*/{effective_affinity_list,smp_affinity_list}, /sys/bus/pci/devices/*/{class,numa_node}",
    expected: Expected::always("every interrupt that occurs is served on its device's NUMA node"),
    why: "The CPU that serves an interrupt pulls the device's data into its caches. On the other socket that costs the \
          interconnect twice. Interrupts of NVMe and RAID queues are left out: the kernel spreads them over all CPUs by \
          design, and lets nobody move them.",
    fixes: &[Fix {
        command: "echo CPUS-OF-THE-NODE > /proc/irq/NUMBER/smp_affinity_list",
        lasting: Some("the same at boot, and --banirq=NUMBER in irqbalance's options, or irqbalance moves it back"),
        restarts: "nothing",
        who: Who::Root,
        risk: "too many interrupts on too few CPUs: spread them over the node, away from CPUs that jobs have alone",
        gain: None,
    }],
    sources: &[
        kernel("SMP IRQ affinity", "https://docs.kernel.org/core-api/irq/irq-affinity.html"),
        book("AI Systems Performance Engineering (early release), chapter 3: interrupt affinity"),
        own("a warning: how much it costs depends on the rate, which is in goodput_irq_interrupts_total"),
    ],
    run: |context, _| {
        let nodes = Nodes::read(&context.roots)?;
        match nodes.count() {
            0 | 1 => Err(Unread::Absent("one NUMA node".to_owned())),
            _ => judge(&served(context, &nodes)?),
        }
    },
};

/// An interrupt, where it is served and where its device is.
struct Served {
    number: u32,
    device: Address,
    class: &'static str,
    by: Ranges,
    near: Ranges,
}

fn served(context: &Context, nodes: &Nodes) -> Result<Vec<Served>, Unread> {
    let mut all = Vec::new();
    let path = context.roots.proc.join("interrupts");
    let Some(found) = files::parse_by_line(&path, interrupts::used())? else {
        return Err(FileError::Missing { path }.into());
    };
    for (address, numbers) in found.devices.into_iter().filter(|(_, numbers)| !numbers.is_empty()) {
        let device = Device::read(context, address)?;
        let Some(device) = device.filter(|d| ["gpu", "nic"].contains(&d.class.label())) else { continue };
        let Some(near) = device.node.and_then(|node| nodes.cpus_of(node)) else { continue };
        for number in numbers {
            if let Some(by) = affinity(context, number)? {
                all.push(Served { number, device: address, class: device.class.label(), by, near: near.to_vec() });
            }
        }
    }
    Ok(all)
}

/// The CPUs that serve an interrupt. Before 4.15 the kernel only told those that may.
fn affinity(context: &Context, number: u32) -> Result<Option<Ranges>, Unread> {
    let folder = context.roots.proc.join("irq").join(number.to_string());
    for file in ["effective_affinity_list", "smp_affinity_list"] {
        let cpus = files::parse_optional(&folder.join(file), cpus::ranges)?;
        if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
            return Ok(Some(cpus));
        }
    }
    Ok(None)
}

fn judge(served: &[Served]) -> Result<Verdict, Unread> {
    if served.is_empty() {
        return Err(Unread::Absent("no GPU or NIC interrupt whose device's node is known".to_owned()));
    }
    let off: Vec<&Served> = served.iter().filter(|irq| cpus::count_common(&irq.by, &irq.near) == 0).collect();
    if off.is_empty() {
        return Ok(Verdict::new(
            Status::Pass,
            format!("{} on the nodes of the devices", count(served.len(), "interrupt")),
        ));
    }
    let spell = |irq: &&Served| format!("{} of {} {} on CPU {}", irq.number, irq.class, irq.device, ranges(&irq.by));
    let read = format!("{} of {}: {}", off.len(), served.len(), list(&off.iter().map(spell).collect::<Vec<_>>()));
    let commands = off.iter().map(|i| format!("echo {} > /proc/irq/{}/smp_affinity_list", ranges(&i.near), i.number));
    Ok(Verdict::new(Status::Warn, read).with(commands.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_off_their_node_are_named_with_their_command() {
        let irq = |number, by| Served {
            number,
            device: Address::parse("0000:1a:00.0").unwrap(),
            class: "gpu",
            by: vec![(by, by)],
            near: vec![(0, 11), (24, 35)],
        };
        assert_eq!(judge(&[irq(5, 3), irq(6, 30)]).unwrap().read, "2 interrupts on the nodes of the devices");
        let verdict = judge(&[irq(5, 3), irq(6, 12)]).unwrap();
        assert_eq!(verdict.status, Status::Warn);
        assert_eq!(verdict.read, "1 of 2: 6 of gpu 0000:1a:00.0 on CPU 12");
        assert_eq!(verdict.commands, ["echo 0-11,24-35 > /proc/irq/6/smp_affinity_list"]);
        assert!(judge(&[]).is_err());
    }
}
