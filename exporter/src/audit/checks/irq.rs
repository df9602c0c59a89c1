//! Whether interrupts arrive near their devices.

use super::*;
use crate::collect::irq::balancer;
use crate::collect::irq::device::Device;
use crate::context::Context;
use crate::parse::bus_id::Address;
use crate::parse::irqbalance::Settings;
use crate::parse::{cpus, interrupts};
use crate::source::daemons;
use crate::source::files::{self, FileError};
use crate::source::nodes::{Nodes, Ranges};

pub(super) static AFFINITY: Check = Check {
    id: "irq_affinity",
    title: "Interrupts of GPUs and NICs",
    reads: "/proc/interrupts, /proc/irq/*/{effective_affinity_list,smp_affinity_list}, /sys/bus/pci/devices/*/{class,numa_node}",
    families: &[&catalog::irq::IRQ_DEVICE, &catalog::irq::IRQ_INTERRUPTS],
    expected: Expected::always("every interrupt that occurs is served on its device's NUMA node"),
    why: "The CPU that serves an interrupt pulls the device's data into its caches. On the other socket that costs the \
          interconnect twice. Interrupts of NVMe and RAID queues are left out: the kernel spreads them over all CPUs by \
          design, and lets nobody move them.",
    fixes: &[Fix {
        command: "echo CPUS-OF-THE-NODE > /proc/irq/NUMBER/smp_affinity_list",
        lasting: Some("the same at boot, and --banirq=NUMBER in irqbalance's options, or irqbalance moves it back"),
        risk: "too many interrupts on too few CPUs: spread them over the node, away from CPUs that jobs have alone",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("SMP IRQ affinity", "https://docs.kernel.org/core-api/irq/irq-affinity.html"),
        book("AI Systems Performance Engineering (early release), chapter 3: interrupt affinity"),
        own("a warning: how much it costs depends on the rate, which is in goodput_irq_interrupts_total"),
    ],
    run: |context, _| judge(&served(context, &numa::multiple(context)?)?),
};

pub(super) static BALANCER: Check = Check {
    id: "irqbalance",
    title: "Who spreads interrupts",
    reads: "/proc/*/comm, /etc/{default,sysconfig}/irqbalance, /proc/interrupts, \
            /proc/irq/*/{effective_affinity_list,smp_affinity_list}",
    families: &[
        &catalog::irq::IRQBALANCE_RUNNING,
        &catalog::irq::IRQBALANCE_INFO,
        &catalog::irq::IRQBALANCE_BANNED_CPUS,
    ],
    expected: Expected::always("irqbalance, or affinities set by hand so that GPUs and NICs do not share one CPU"),
    why: "The kernel leaves an interrupt where it was first put. When all queues of the NICs are served by one CPU, that CPU \
          bounds what the node receives, and whichever job runs on it waits.",
    fixes: &[Fix {
        command: "systemctl enable --now irqbalance",
        risk: "it moves interrupts that were placed by hand: name those with --banirq in its options",
        ..Fix::USUAL
    }],
    sources: &[
        practice("irqbalance(1)", "https://github.com/Irqbalance/irqbalance/blob/master/irqbalance.1"),
        kernel("SMP IRQ affinity", "https://docs.kernel.org/core-api/irq/irq-affinity.html"),
        own("a warning, and only where one CPU serves all of them: affinities set by hand need no daemon"),
    ],
    run: |context, _| {
        let settings = balancer::settings(&context.roots).unwrap_or_default();
        let running = daemons::running(&context.roots, &[balancer::NAME]).map(|running| !running.is_empty());
        let all = served(context, &Nodes::read(&context.roots))?;
        judge_balancer(running, &settings, &all)
    },
};

fn judge_balancer(running: Option<bool>, settings: &Settings, served: &[Served]) -> Result<Verdict, Unread> {
    Unread::unless(served.len() > 1, "fewer than two interrupts of GPUs and NICs")?;
    let runs = match running {
        Some(true) => "irqbalance runs",
        Some(false) if settings.oneshot => "irqbalance ends after it has balanced once",
        Some(false) => "irqbalance does not run",
        None => "the node's processes cannot be seen",
    };
    let spared = settings.banned.as_ref().filter(|_| running == Some(true)).map_or(0, |banned| cpus::count(banned));
    let spared = if spared == 0 { String::new() } else { format!(", spares {} CPUs", spared) };
    let by = cpus::union(served.iter().flat_map(|irq| irq.by.clone()).collect());
    let read = format!("{runs}{spared}: {} on CPU {}", count(served.len(), "interrupt"), ranges(&by));
    let one = running != Some(true) && cpus::count(&by) == 1;
    Ok(Verdict::new(if one { Status::Warn } else { Status::Pass }, read))
}

/// An interrupt, where it is served and where its device is.
struct Served {
    number: u32,
    device: Address,
    class: &'static str,
    by: Ranges,
    /// CPUs of the device's node; `None` when that is not known.
    near: Option<Ranges>,
}

fn served(context: &Context, nodes: &Nodes) -> Result<Vec<Served>, Unread> {
    let mut all = Vec::new();
    let path = context.roots.proc.join("interrupts");
    let Some(found) = files::parse_by_line(&path, interrupts::used())? else {
        return Err(FileError::Missing { path }.into());
    };
    for (address, numbers) in found.devices.into_iter().filter(|(_, numbers)| !numbers.is_empty()) {
        let device = Device::read(context, address, None);
        let Some(device) = device.filter(|d| ["gpu", "nic"].contains(&d.class.name())) else { continue };
        let near = device.node.and_then(|node| nodes.cpus_of(node)).map(<[_]>::to_vec);
        for number in numbers {
            if let Some(by) = affinity(context, number)? {
                all.push(Served { number, device: address, class: device.class.name(), by, near: near.clone() });
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
    let known: Vec<(&Served, &Ranges)> = served.iter().filter_map(|irq| Some((irq, irq.near.as_ref()?))).collect();
    Unread::unless(!known.is_empty(), "no GPU or NIC interrupt whose device's node is known")?;
    let off: Vec<_> = known.iter().filter(|(irq, near)| cpus::count_common(&irq.by, near) == 0).collect();
    if off.is_empty() {
        return Ok(Verdict::new(
            Status::Pass,
            format!("{} on the nodes of the devices", count(known.len(), "interrupt")),
        ));
    }
    let spell = |(irq, _): &&(&Served, &Ranges)| {
        format!("{} of {} {} on CPU {}", irq.number, irq.class, irq.device, ranges(&irq.by))
    };
    let read = format!("{} of {}: {}", off.len(), known.len(), list(&off.iter().map(spell).collect::<Vec<_>>()));
    let command = |(irq, near): &&(&Served, &Ranges)| {
        format!("echo {} > /proc/irq/{}/smp_affinity_list", ranges(near), irq.number)
    };
    Ok(Verdict::new(Status::Warn, read).with(off.iter().map(command).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn irq(number: u32, by: u32) -> Served {
        let near = Some(vec![(0, 11), (24, 35)]);
        Served { number, device: Address::parse("0000:1a:00.0").unwrap(), class: "gpu", by: vec![(by, by)], near }
    }

    #[test]
    fn interrupts_off_their_node_are_named_with_their_command() {
        assert_eq!(judge(&[irq(5, 3), irq(6, 30)]).unwrap().read, "2 interrupts on the nodes of the devices");
        let verdict = judge(&[irq(5, 3), irq(6, 12), Served { near: None, ..irq(7, 12) }]).unwrap();
        assert_eq!(verdict.status, Status::Warn);
        assert_eq!(verdict.read, "1 of 2: 6 of gpu 0000:1a:00.0 on CPU 12");
        assert_eq!(verdict.commands, ["echo 0-11,24-35 > /proc/irq/6/smp_affinity_list"]);
        assert!(judge(&[Served { near: None, ..irq(7, 12) }]).is_err());
    }

    #[test]
    fn one_cpu_for_all_of_them() {
        let (together, apart) = ([irq(5, 3), irq(6, 3)], [irq(5, 3), irq(6, 12)]);
        let once = Settings { oneshot: true, ..Settings::default() };
        let spares = Settings { banned: Some(vec![(4, 5)]), ..Settings::default() };
        let none = Settings::default();
        for (running, settings, served, status, read) in [
            (Some(false), &none, &together, Status::Warn, "irqbalance does not run: 2 interrupts on CPU 3"),
            (Some(false), &none, &apart, Status::Pass, "irqbalance does not run: 2 interrupts on CPU 3,12"),
            (
                Some(false),
                &once,
                &apart,
                Status::Pass,
                "irqbalance ends after it has balanced once: 2 interrupts on CPU 3,12",
            ),
            (Some(true), &spares, &together, Status::Pass, "irqbalance runs, spares 2 CPUs: 2 interrupts on CPU 3"),
            (None, &none, &together, Status::Warn, "the node's processes cannot be seen: 2 interrupts on CPU 3"),
        ] {
            let verdict = judge_balancer(running, settings, served).unwrap();
            assert_eq!((verdict.status, &*verdict.read), (status, read));
        }
        assert!(judge_balancer(Some(false), &none, &[irq(5, 3)]).is_err());
    }
}
