//! What could not be judged, class by class: for how much time rules were asked and abstained, and for lack of what.
//!
//! The verdicts themselves only say which signals unexplained time lacked. This module shows what a source of signals
//! cannot tell, from the same frames and rules.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::cell::{self, State, owned};
use super::gang_wait::Holds;
use super::held::Held;
use super::phase::{Course, PHASES};
use super::prepare::{Prepared, prepare};
use super::{Cell, Class, DERATES, RULES, Thresholds, Verdict};
use crate::frame;
use crate::signal::Signal;
use goodput_exposition::sample::{Series, TimeMs};

/// What a class's rules said for lack of signals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Abstained {
    /// GPU-milliseconds for which none of the rules of the class that were asked could judge.
    pub ms: i64,
    /// What they lacked.
    pub missing: BTreeSet<Signal>,
}

/// Time in which rules abstained, by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Abstentions(BTreeMap<Class, Abstained>);

impl Abstentions {
    /// Asks the rules about a window, which does not reach over a UTC hour; `series` as [`super::judge_series`] wants
    /// them.
    pub fn add(&mut self, series: &[Series], window: &Range<TimeMs>, t: &Thresholds) {
        let sources = frame::sources(series);
        let Prepared { nodes, .. } = prepare(&sources, &Arc::default(), window, t);
        let holds = Holds::of(&nodes);
        for node in &nodes {
            let states = cell::states(node, t);
            for course in Course::all(node, &states, &holds) {
                node.body.clone().for_each(|index| self.ask(&course, index, t));
            }
        }
    }

    /// Every class that could not be judged for some time, those of the most time first.
    #[must_use]
    pub fn by_time(self) -> Vec<(Class, Abstained)> {
        let mut all: Vec<(Class, Abstained)> = self.0.into_iter().collect();
        all.sort_by_key(|(_, abstained)| std::cmp::Reverse(abstained.ms));
        all
    }

    /// Every rule is asked about the part of the cell that it might explain: derates about work, the others about the
    /// rest.
    fn ask(&mut self, course: &Course<'_>, index: usize, t: &Thresholds) {
        let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
        let state = course.state(index);
        let State { busy: Some(busy), held: Held::Yes { .. } } = state else { return };
        let known = course.gpu.known_ms[index].min(course.gpu.share_ms[index]);
        let idle = |ms: i64| ms - (busy.ratio * ms as f64).round() as i64;
        for phase in PHASES {
            self.note(&cell, phase.class, (phase.missing)(&cell), idle(known));
        }
        if course.mark(index, t).is_some() {
            return;
        }
        for (owner, ms) in owned(&cell, state, known) {
            let cell = cell.of_owner(owner);
            let rules = RULES.iter().map(|rule| (rule.class, rule.judge, idle(ms)));
            let derates = DERATES.iter().map(|derate| (derate.class, derate.judge, ms - idle(ms)));
            for (class, judge, ms) in rules.chain(derates).filter(|(_, _, ms)| *ms > 0) {
                if let Verdict::Abstain { missing } = judge(&cell, t) {
                    self.note(&cell, class, missing, ms);
                }
            }
        }
    }

    /// Rules name all that they need; what is there is not missing.
    fn note(&mut self, cell: &Cell<'_>, class: Class, mut missing: Vec<Signal>, ms: i64) {
        missing.retain(|signal| cell.read(*signal).is_none() && cell.by_numa_node(*signal).next().is_none());
        if !missing.is_empty() && ms > 0 {
            let abstained = self.0.entry(class).or_default();
            abstained.ms += ms;
            abstained.missing.extend(missing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::{Labels, Sample};
    use goodput_verdict::HOUR_MS;

    /// A value every 15 s of two hours, or a counter that grows by it.
    fn series(labels: &[(&str, &str)], value: f64, grows: bool) -> Series {
        let at = |n: i64| if grows { n as f64 * value } else { value };
        let samples = (0..480).map(|n| Sample { time_ms: n * 15_000, value: at(n) }).collect();
        Series { labels: Labels::new(labels.iter().copied()), samples }
    }

    fn gpu(metric: &str, value: f64) -> Series {
        let labels =
            [("UUID", "GPU-1"), ("Hostname", "n1"), ("pod", "a"), ("namespace", "ml"), ("instance", "n1:9400")];
        series(&[&[("__name__", metric)], &labels[..]].concat(), value, false)
    }

    fn node(metric: &str, more: &[(&str, &str)], value: f64) -> Series {
        series(&[&[("__name__", metric), ("instance", "n1:9100"), ("nodename", "n1")], more].concat(), value, true)
    }

    fn told(series: &[Series]) -> BTreeMap<Class, Abstained> {
        let mut abstentions = Abstentions::default();
        abstentions.add(series, &(HOUR_MS / 2..HOUR_MS), &Thresholds::default());
        abstentions.0
    }

    #[test]
    fn a_rule_that_lacks_signals_is_listed_for_the_time_it_might_explain() {
        let mut all = vec![gpu("DCGM_FI_DEV_GPU_UTIL", 40.0), gpu("DCGM_FI_DEV_FB_USED", 20_000.0)];
        let gpus_alone = told(&all);
        let missing =
            |told: &BTreeMap<Class, Abstained>, class| told[&class].missing.iter().copied().collect::<Vec<_>>();
        assert_eq!(
            missing(&gpus_alone, Class::DataloaderStorage),
            [Signal::NodeCpuIowait, Signal::NodeIoPressure, Signal::JobIoPressure]
        );
        let ms = gpus_alone[&Class::CpuThrottled].ms;
        assert_eq!(ms, HOUR_MS / 2 * 6 / 10, "what was not work");
        assert!(!gpus_alone.contains_key(&Class::PartialAllocation), "the holder is known");
        assert_eq!(missing(&gpus_alone, Class::GangWait), [Signal::JobCpuUsage]);
        assert_eq!(missing(&gpus_alone, Class::KeepAlive), [Signal::GpuPower, Signal::GpuEnergy]);

        all.push(node("node_uname_info", &[], 0.0));
        all.push(node("node_pressure_io_waiting_seconds_total", &[], 1.0));
        for mode in ["user", "steal", "idle", "iowait"] {
            all.push(node("node_cpu_seconds_total", &[("cpu", "0"), ("mode", mode)], 3.75));
        }
        let with_host = told(&all);
        assert!(!with_host.contains_key(&Class::DataloaderStorage), "{with_host:?}");
        assert_eq!(with_host[&Class::CpuThrottled].ms, ms);
        let cpus = missing(&gpus_alone, Class::HostNoise);
        assert!(cpus.contains(&Signal::NodeCpuSteal) && !with_host.contains_key(&Class::HostNoise), "{with_host:?}");
    }

    #[test]
    fn nobody_is_asked_about_a_gpu_that_is_free() {
        let free = [("__name__", "DCGM_FI_DEV_FB_USED"), ("UUID", "GPU-1"), ("Hostname", "n1")];
        let idle = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", "GPU-1"), ("Hostname", "n1")];
        assert_eq!(told(&[series(&free, 0.0, false), series(&idle, 0.0, false)]), BTreeMap::new());
    }
}
