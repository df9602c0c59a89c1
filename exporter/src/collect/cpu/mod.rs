//! `cpu`: where CPU time goes by NUMA node, who waits for a CPU, and how fast and how deep asleep CPUs are.

mod power;

use std::time::{Duration, Instant};

use self::power::Power;
use super::monotone::Monotone;
use super::*;
use crate::parse::{cpu, stat};
use crate::source::nodes::Nodes;
use goodput_catalog::cpu::*;

/// A node with 256 CPUs has some thousand files about their power.
const POWER_EVERY: Duration = Duration::from_secs(60);

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Cpu>(
    "cpu",
    "CPU time by NUMA node, waiting for CPUs, load; 3 files; two of them grow with the CPUs. Once a minute governors, clocks and idle states, about 5 files per CPU.",
    2,
);

/// Reads `/proc/stat`, `/proc/schedstat` and `/proc/loadavg`, and now and then `/sys/devices/system/cpu`.
#[derive(Default)]
pub struct Cpu {
    ticks: Monotone<{ stat::TICKS_PER_SECOND as u64 }, (u32, usize), (Option<u32>, usize)>,
    delays: Monotone<1_000_000_000, u32, Option<u32>>,
    busiest_softirq: u64,
    power: Power,
    power_read: Option<Instant>,
}

impl Collector for Cpu {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let nodes = context.common.nodes(roots);
        let counted = self.stat(context, nodes, out);
        self.schedstat(roots, nodes, out);
        if let Some(loads) = files::get(&roots.proc.join("loadavg"), cpu::loads) {
            for (minutes, load) in ["1", "5", "15"].iter().zip(loads) {
                out.push(&CPU_LOAD, &[minutes], load);
            }
        }
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        if self.power_read.is_none_or(|then| now.duration_since(then) >= POWER_EVERY) {
            self.power.read(roots, nodes);
            self.power_read = Some(now);
        }
        self.power.push(out);
        counted?;
        Ok(Done::Ok)
    }
}

impl Cpu {
    fn stat(&mut self, context: &Context, nodes: &Nodes, out: &mut Families) -> Result<(), FileError> {
        let mut busiest = 0;
        let activity = context.common.parse(&context.roots.proc.join("stat"), |text| {
            stat::per_cpu(text, |cpu, ticks| {
                let node = nodes.of_cpu(cpu);
                // A CPU that was plugged in again counts all of it from nothing.
                if ticks.iter().enumerate().any(|(mode, ticks)| self.ticks.begins_anew(&(cpu, mode), *ticks)) {
                    (0..ticks.len()).for_each(|mode| self.ticks.restart(&(cpu, mode)));
                }
                for (mode, ticks) in ticks.iter().enumerate() {
                    let step = self.ticks.add((cpu, mode), (node, mode), *ticks);
                    if stat::MODES.get(mode) == Some(&"softirq") {
                        busiest = step.max(busiest);
                    }
                }
            })
        })?;
        self.busiest_softirq = self.busiest_softirq.saturating_add(busiest);
        out.push(&CPU_BUSIEST_SOFTIRQ, &[], self.busiest_softirq as f64 / stat::TICKS_PER_SECOND);
        for ((node, mode), ticks) in self.ticks.sums() {
            let Some(mode) = stat::MODES.get(*mode) else { continue };
            out.push_with(&CPU_SECONDS, &[mode], &[&node_label(*node)], ticks as f64 / stat::TICKS_PER_SECOND);
        }
        for (row, value) in [
            (&CPU_CONTEXT_SWITCHES, activity.context_switches),
            (&CPU_FORKS, activity.forks),
            (&CPU_RUNNING, activity.running),
            (&CPU_BLOCKED, activity.blocked),
        ] {
            out.push(row, &[], value.map(|n| n as f64));
        }
        Ok(())
    }

    fn schedstat(&mut self, roots: &Roots, nodes: &Nodes, out: &mut Families) {
        let read = files::get(&roots.proc.join("schedstat"), |text| {
            cpu::run_delays(text, |cpu, delay| {
                self.delays.add(cpu, nodes.of_cpu(cpu), delay);
            })
        });
        for (node, nanoseconds) in self.delays.sums().filter(|_| read.is_some()) {
            out.push_with(&CPU_RUN_DELAY, &[], &[&node_label(*node)], nanoseconds as f64 / 1e9);
        }
    }
}
