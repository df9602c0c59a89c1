//! `irq`: which NUMA node's CPUs take the interrupts of GPUs, NICs and storage, and the softirqs behind them.
//!
//! Never by interrupt or CPU: a node with 256 CPUs has half a million such counts.

mod account;
pub(crate) mod balancer;
pub(crate) mod device;
mod owners;

use std::collections::BTreeMap;

use self::account::Account;
use self::balancer::Balancer;
use self::device::Device;
use self::owners::{OwnerShares, Steps};
use super::*;
use crate::parse::bus_id::Address;
use crate::parse::{interrupts, per_cpu, softnet};
use crate::source::nodes::Nodes;
use goodput_catalog::irq::*;

/// Most devices that get series of their own; a NIC can show hundreds of virtual functions.
const MAX_DEVICES: usize = 64;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Irq>(
    "irq",
    "Which NUMA node takes the interrupts of GPUs, NICs and storage, softirqs and softnet; /proc/interrupts, which is megabytes on a large node, 2 files per PCI device with interrupts and 1 per owner of a GPU, and every 60 s irqbalance's settings and process, or where it does not run 1 file per process.",
    2,
);

/// Reads `/proc/interrupts`, `/proc/softirqs`, `/proc/net/softnet_stat` and who moves interrupts. A device's total outlives its interrupts, so
/// that it goes on when they come back, but it is only published while the device has any.
#[derive(Default)]
pub struct Irq {
    devices: BTreeMap<Address, Account>,
    softirqs: BTreeMap<String, Account>,
    softnet: [Account; 3],
    owners: OwnerShares,
    balancer: Balancer,
}

impl Collector for Irq {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let nodes = context.common.nodes(&context.roots);
        // Three files that have nothing to do with each other.
        let interrupts = self.interrupts(context, nodes, out);
        let others = [self.softirqs(&context.roots, nodes, out), self.softnet(&context.roots, out)];
        self.balancer.collect(context, out);
        if interrupts? || others.contains(&true) {
            return Ok(Done::Ok);
        }
        Ok(Done::NotApplicable("no interrupts, softirqs or net/softnet_stat in /proc".to_owned()))
    }
}

impl Irq {
    fn interrupts(&mut self, context: &Context, nodes: &Nodes, out: &mut Families) -> Result<bool, FileError> {
        let path = context.roots.proc.join("interrupts");
        let Some(found) = files::parse_by_line(&path, interrupts::by_device())? else { return Ok(false) };
        let mut devices = Vec::new();
        for (address, rows) in &found.devices {
            devices.extend(Device::read(context, *address, rows.place.as_ref()).map(|device| (device, &rows.sums)));
        }
        devices.sort_by_key(|(device, _)| (device.class, device.address));
        out.push(&IRQ_DEVICES, &[], devices.len() as f64);
        let columns = columns(&found.cpus, nodes);
        let mut steps = Steps::default();
        for (device, counts) in devices.into_iter().take(MAX_DEVICES) {
            let account = self.devices.entry(device.address).or_default();
            let managed = device.class.is_managed();
            account.add_with(reading(&columns, counts), |cpu, step| {
                if !managed {
                    *steps.entry(cpu).or_default() += step;
                }
            });
            push_device(&device, account, out);
        }
        self.owners.add(context, &steps, out);
        Ok(true)
    }

    fn softirqs(&mut self, roots: &Roots, nodes: &Nodes, out: &mut Families) -> bool {
        let mut known = None;
        let mut add = |cpus: &[u32], kind: &str, counts: &[u64]| {
            let columns = known.get_or_insert_with(|| columns(cpus, nodes));
            self.softirqs.entry(kind.to_owned()).or_default().add(reading(columns, counts));
        };
        let found = files::get(&roots.proc.join("softirqs"), |text| per_cpu::each(text, &mut add)).is_some();
        for (kind, account) in &self.softirqs {
            for (node, total) in account.by_node() {
                out.push_with(&SOFTIRQS, &[kind], &[&node_label(node)], total as f64);
            }
        }
        found
    }

    fn softnet(&mut self, roots: &Roots, out: &mut Families) -> bool {
        let path = roots.proc.join("net/softnet_stat");
        let Some(cpus) = files::get(&path, softnet::parse) else { return false };
        let [processed, dropped, squeezed] = &mut self.softnet;
        processed.add(cpus.iter().map(|c| (c.cpu, None, u64::from(c.processed))));
        dropped.add(cpus.iter().map(|c| (c.cpu, None, u64::from(c.dropped))));
        squeezed.add(cpus.iter().map(|c| (c.cpu, None, u64::from(c.squeezed))));
        out.push(&SOFTNET_PROCESSED, &[], processed.total() as f64);
        out.push(&SOFTNET_DROPPED, &[], dropped.total() as f64);
        out.push(&SOFTNET_SQUEEZED, &[], squeezed.total() as f64);
        true
    }
}

/// A column of a table: its index, its CPU and that CPU's node.
type Column = (usize, u32, Option<u32>);

/// The columns that count. Where there are nodes, a CPU on none of them is offline; softirqs are printed for it all the
/// same.
fn columns(cpus: &[u32], nodes: &Nodes) -> Vec<Column> {
    let all = cpus.iter().enumerate().map(|(at, cpu)| (at, *cpu, nodes.of_cpu(*cpu)));
    all.filter(|(_, _, node)| node.is_some() || nodes.is_empty()).collect()
}

fn reading(columns: &[Column], counts: &[u64]) -> impl Iterator<Item = (u32, Option<u32>, u64)> {
    columns.iter().filter_map(|(at, cpu, node)| Some((*cpu, *node, *counts.get(*at)?)))
}

fn push_device(device: &Device, account: &Account, out: &mut Families) {
    let (address, class) = (device.address.to_string(), device.class.name());
    let managed = if device.class.is_managed() { "true" } else { "false" };
    let (gpu, uuid) = device.gpu.as_ref().map(|(index, uuid)| (index.to_string(), uuid.as_str())).unwrap_or_default();
    out.push_with(&IRQ_DEVICE, &[&address, class, managed], &[&node_label(device.node), &gpu, uuid], 1.0);
    for (node, total) in account.by_node() {
        out.push_with(&IRQ_INTERRUPTS, &[&address, class], &[&node_label(node)], total as f64);
    }
    // With a queue per CPU, the busiest is whichever CPU used the device most.
    if !device.class.is_managed() {
        out.push(&IRQ_BUSIEST_CPU, &[&address, class], account.busiest() as f64);
    }
}
