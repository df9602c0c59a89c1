//! Days of a node with eight GPUs: hours of work, and between them the faults of other families. What benchmarks multiply
//! to a fleet.

use super::{Chance, Exporters, FAMILIES, Fields, Gauges, H100, Layout, Names, Plan, hash};

/// Families of one machine whose steps a day is made of.
const PARTS: &[&str] = &[
    "checkpoint",
    "clock_locked",
    "cold_start",
    "cpu_throttled",
    "dataloader_cpu",
    "dataloader_storage",
    "host_noise",
    "host_to_device",
    "idle_held",
    "irq_placement",
    "keep_alive",
    "launch_bound",
    "maintenance",
    "memory_pressure",
    "no_demand",
    "partial_allocation",
    "pcie_degraded",
    "power_throttle",
    "straggler",
    "thermal_throttle",
    "thp_compaction",
];
/// 2026-09-21, a Monday, at midnight UTC.
const START_MS: i64 = 1_789_948_800_000;
const INTERVAL_MS: i64 = 30_000;

/// The plan of a node's day of `minutes`; each member is another day.
#[must_use]
pub fn plan(member: u64, minutes: usize) -> Plan {
    let mut chance = Chance { name: "day", member, drawn: 0 };
    let mut plan = Plan {
        family: "day",
        name: format!("{member:02}"),
        start_ms: START_MS,
        nodes: 1,
        layout: Layout { gpus: 8, cpus: 256, noise: 0.05, seed: hash("day", member) >> 40, ..Layout::default() },
        exporters: Exporters::Ours,
        exporters_elsewhere: None,
        names: Names::Legacy,
        fields: Fields::default(),
        model: H100,
        without: Vec::new(),
        interval_ms: INTERVAL_MS,
        offset_ms: 10 * chance.below(INTERVAL_MS as u64 / 10),
        restart_minute: None,
        gauges: Gauges::default(),
        names_pods: true,
        shares_node: false,
        spoilt: Vec::new(),
        steps: Vec::new(),
    };
    let mut left = minutes;
    while left > 0 {
        let mut part = Plan { steps: Vec::new(), ..plan.clone() };
        part.works(&mut chance, 90);
        let fault = chance.one_of(PARTS);
        if let Some(family) = FAMILIES.iter().find(|family| family.name == fault) {
            (family.steps)(&mut part, &mut chance);
        }
        for mut step in part.steps {
            step.here.minutes = step.here.minutes.min(left);
            left -= step.here.minutes;
            plan.steps.push(step);
        }
    }
    plan.steps.retain(|step| step.here.minutes > 0);
    plan
}
