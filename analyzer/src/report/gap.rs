//! Signals that were missing, how much time that concerns, and what would give them.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::sum::{Amount, Sum};
use super::summed::Item;
use goodput_rules::signal::{self, Origin};
use goodput_verdict::Class;

/// A signal without which rules abstained.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gap {
    /// The signal.
    pub signal: String,
    /// Time whose verdict might be another with it; share of capacity. A rule may lack several signals at once, so the
    /// times of several gaps are not to be added.
    pub amount: Amount,
    /// The classes that this time has instead.
    pub classes: Vec<Class>,
    /// Where it was missing.
    pub nodes: Vec<String>,
    /// The metrics that give it, best first; any one is enough.
    pub origins: Vec<Origin>,
    /// What they need in addition to the exporter; null where nothing else is known to be needed.
    pub needs: Option<&'static str>,
}

/// Every signal that some interval missed, the one that concerns the most time first.
pub(super) fn gaps(items: &[Item<'_>], capacity_ms: i64) -> Vec<Gap> {
    let mut by_signal: BTreeMap<&str, (Sum<'_>, BTreeSet<Class>, HashSet<&str>)> = BTreeMap::new();
    for item in items {
        for signal in &item.grounds.missing {
            let (sum, classes, nodes) = by_signal.entry(signal).or_default();
            sum.add(item);
            classes.insert(item.class);
            nodes.insert(&item.interval().node);
        }
    }
    let gap = |(signal, (sum, classes, nodes)): (&str, (Sum<'_>, BTreeSet<Class>, HashSet<&str>))| Gap {
        signal: signal.to_owned(),
        amount: sum.amount(capacity_ms),
        classes: classes.into_iter().collect(),
        nodes: in_order(nodes),
        origins: signal::origins(signal),
        needs: needs(signal),
    };
    let mut gaps: Vec<Gap> = by_signal.into_iter().map(gap).collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.amount.gpu_ms));
    gaps
}

/// Names in order.
pub(super) fn in_order(names: HashSet<&str>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Conditions besides a running exporter (documentation of the kernel, NVML and Kubernetes).
pub(super) fn needs(signal: &str) -> Option<&'static str> {
    match signal {
        _ if signal.ends_with("_pressure") => Some("Linux 4.20 with PSI on (boot parameter psi=1); per job: cgroup v2"),
        "gr_engine_active" | "sm_active" | "pcie_receive" => {
            Some("Hopper or newer; before that DCGM's profiling metrics, from dcgm-exporter")
        }
        "gpu_owner" | "gpu_processes" => Some("the host's process ids: hostPID: true where the exporter is a pod"),
        _ if signal.starts_with("job_") => Some("the job's cgroup to be visible to the exporter"),
        _ => None,
    }
}

impl Gap {
    /// What to do, to be read.
    #[must_use]
    pub fn advice(&self) -> String {
        advice(&self.origins, self.needs)
    }
}

/// Where a signal comes from and what that needs, to be read.
pub(super) fn advice(origins: &[Origin], needs: Option<&str>) -> String {
    let mut told: Vec<String> = Vec::new();
    for Origin { metric, exporter, also, collector } in origins {
        let by = collector.map_or_else(String::new, |name| format!(" (--collector.{name})"));
        let also = also.map_or_else(String::new, |name| format!(" or {name}, where its counters file has it"));
        told.push(format!("{metric} from {exporter}{by}{also}"));
    }
    if told.is_empty() {
        told.push("this release has no signal of this name".into());
    }
    let needs = needs.map_or_else(String::new, |needs| format!("; needs {needs}"));
    told.join(", or ") + &needs
}
