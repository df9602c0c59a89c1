//! Governors, clocks and idle states of all CPUs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::collect::monotone::Monotone;
use crate::collect::node_label;
use crate::parse::{self, ParseError, cpu, cpus};
use crate::source::files::{self, Roots};
use crate::source::nodes::{Nodes, Ranges};
use goodput_catalog::cpu::*;
use goodput_exposition::Families;

/// Most idle states whose time is told, by name; CPUs have three to ten.
const MAX_STATES: usize = 10;

/// What was found at the last look, and the totals of idle time.
#[derive(Default)]
pub(super) struct Power {
    survey: Survey,
    /// Names of idle states, in the order in which they were met.
    names: Vec<String>,
    /// Idle time in microseconds, by the place of the state's name.
    idle: Monotone<1_000_000, (u32, usize), (Option<u32>, usize)>,
    governors: BTreeMap<String, u64>,
    clocks: BTreeMap<Option<u32>, Clocks>,
    settings: Settings,
}

/// What stays as it is until CPUs come or go.
#[derive(Default)]
struct Survey {
    online: Option<Ranges>,
    policies: Vec<PathBuf>,
    /// Highest clock in hertz, and the node, of every CPU that has one.
    highest: BTreeMap<u32, (f64, Option<u32>)>,
    /// Did a policy not tell its highest clock, as that of an offline CPU does not?
    unread: bool,
    states: Vec<State>,
}

/// An idle state of one CPU.
struct State {
    cpu: u32,
    node: Option<u32>,
    /// The number in the folder's name.
    index: usize,
    /// Its place in [`Power::names`].
    name: usize,
    time: PathBuf,
}

/// Clocks of a node's CPUs, as shares of their highest.
struct Clocks {
    lowest: f64,
    highest: f64,
    sum: f64,
    cpus: u32,
}

#[derive(Default)]
struct Settings {
    isolated: Option<u64>,
    tickless: Option<u64>,
    smt: Option<u32>,
}

impl Power {
    /// Looks again.
    pub(super) fn read(&mut self, roots: &Roots, nodes: &Nodes) {
        let folder = roots.sys.join("devices/system/cpu");
        let online = files::get(&folder.join("online"), cpus::ranges);
        if self.survey.is_partial() || self.survey.online != online {
            let mut survey = Survey { online, ..Survey::default() };
            survey.policies(roots, nodes);
            survey.states(roots, nodes, &mut self.names);
            self.survey = survey;
        }
        self.settings = Settings {
            isolated: count(roots, "isolated"),
            tickless: count(roots, "nohz_full"),
            smt: files::get(&folder.join("smt/active"), parse::number),
        };
        self.governors = self.survey.governors();
        self.clocks = self.survey.clocks(roots);
        for state in &self.survey.states {
            if let Some(microseconds) = files::get(&state.time, parse::number::<u64>) {
                self.idle.add((state.cpu, state.index), (state.node, state.name), microseconds);
            }
        }
    }

    /// Writes what was found.
    pub(super) fn push(&self, out: &mut Families) {
        for (governor, policies) in &self.governors {
            out.push(&CPU_GOVERNOR, &[governor], *policies as f64);
        }
        for (node, clocks) in &self.clocks {
            let mean = clocks.sum / f64::from(clocks.cpus);
            for (statistic, share) in [("min", clocks.lowest), ("mean", mean), ("max", clocks.highest)] {
                out.push_with(&CPU_FREQUENCY, &[statistic], &[&node_label(*node)], share);
            }
        }
        let mut highest: BTreeMap<Option<u32>, f64> = BTreeMap::new();
        for (hertz, node) in self.survey.highest.values() {
            let of_node = highest.entry(*node).or_default();
            *of_node = of_node.max(*hertz);
        }
        for (node, hertz) in highest {
            out.push_with(&CPU_MAX_FREQUENCY, &[], &[&node_label(node)], hertz);
        }
        for ((node, name), microseconds) in self.idle.sums() {
            let Some(name) = self.names.get(*name) else { continue };
            out.push_with(&CPU_IDLE_STATE, &[name], &[&node_label(*node)], microseconds as f64 / 1e6);
        }
        out.push(&CPU_ISOLATED, &[], self.settings.isolated.map(|n| n as f64));
        out.push(&CPU_TICKLESS, &[], self.settings.tickless.map(|n| n as f64));
        out.push(&CPU_SMT, &[], self.settings.smt.map(f64::from));
    }
}

/// How many CPUs a list names.
fn count(roots: &Roots, file: &str) -> Option<u64> {
    // Some kernels print the empty list of nohz_full as the null pointer that it is.
    let parse = |text: &str| cpus::ranges(&text.replace("(null)", "")).map(|ranges| cpus::count(&ranges));
    files::get(&roots.sys.join("devices/system/cpu").join(file), parse)
}

impl Survey {
    /// Is it worth another look: did it find nothing, or not all of a policy?
    fn is_partial(&self) -> bool {
        self.policies.is_empty() && self.states.is_empty() || self.unread
    }

    fn policies(&mut self, roots: &Roots, nodes: &Nodes) {
        let folder = roots.sys.join("devices/system/cpu/cpufreq");
        for number in sorted(files::names(&folder), "policy") {
            let policy = folder.join(format!("policy{number}"));
            let kilohertz = files::get(&policy.join("cpuinfo_max_freq"), parse::number::<u64>);
            let cpus = files::get(&policy.join("affected_cpus"), cpu::numbers).unwrap_or_default();
            if let Some(kilohertz) = kilohertz.filter(|kilohertz| *kilohertz > 0) {
                let highest = |cpu| (cpu, (kilohertz as f64 * 1e3, nodes.of_cpu(cpu)));
                self.highest.extend(cpus.into_iter().map(highest));
            }
            self.unread |= kilohertz.is_none();
            self.policies.push(policy);
        }
    }

    fn states(&mut self, roots: &Roots, nodes: &Nodes, names: &mut Vec<String>) {
        let folder = roots.sys.join("devices/system/cpu");
        for cpu in sorted(files::names(&folder), "cpu") {
            let folder = folder.join(format!("cpu{cpu}/cpuidle"));
            for index in sorted(files::names(&folder), "state") {
                let folder = folder.join(format!("state{index}"));
                let Some(name) = files::get(&folder.join("name"), word) else { continue };
                let Some(name) = place(names, name) else { continue };
                let time = folder.join("time");
                self.states.push(State { cpu, node: nodes.of_cpu(cpu), index: index as usize, name, time });
            }
        }
    }

    fn governors(&self) -> BTreeMap<String, u64> {
        let mut governors = BTreeMap::new();
        for policy in &self.policies {
            if let Some(governor) = files::get(&policy.join("scaling_governor"), word) {
                *governors.entry(governor).or_default() += 1;
            }
        }
        governors
    }

    /// `scaling_cur_freq` can take 20 ms for each CPU; this file is one read for all.
    fn clocks(&self, roots: &Roots) -> BTreeMap<Option<u32>, Clocks> {
        let mut clocks: BTreeMap<Option<u32>, Clocks> = BTreeMap::new();
        if self.highest.is_empty() {
            return clocks;
        }
        files::get(&roots.proc.join("cpuinfo"), |text| {
            cpu::clocks(text, |cpu, hertz| {
                let Some((highest, node)) = self.highest.get(&cpu) else { return };
                let share = hertz / highest;
                let none = Clocks { lowest: share, highest: share, sum: 0.0, cpus: 0 };
                let all = clocks.entry(*node).or_insert(none);
                all.lowest = all.lowest.min(share);
                all.highest = all.highest.max(share);
                all.sum += share;
                all.cpus += 1;
            })
        });
        clocks
    }
}

/// The place of a name, unless there are too many.
fn place(names: &mut Vec<String>, name: String) -> Option<usize> {
    let place = names.iter().position(|known| *known == name);
    if place.is_none() && names.len() < MAX_STATES {
        names.push(name);
        return Some(names.len() - 1);
    }
    place
}

/// The numbers of the entries with the prefix, in order.
fn sorted(names: Option<Vec<String>>, prefix: &str) -> Vec<u32> {
    let names = names.unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn word(text: &str) -> Result<String, ParseError> {
    Ok(text.trim().to_owned())
}
