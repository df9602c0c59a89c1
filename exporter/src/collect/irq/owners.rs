//! How many of the devices' interrupts are taken by CPUs that a job may run on.

use std::collections::BTreeMap;

use crate::collect::cgroup;
use crate::context::Context;
use goodput_catalog::irq::{IRQ_MOVABLE, IRQ_OWNER_CPUS};
use goodput_exposition::Families;

/// By CPU, the interrupts that were counted since the scrape before, of devices whose interrupts can be moved.
pub(super) type Steps = BTreeMap<u32, u64>;

/// Totals of all CPUs and of each owner's. Owners may share CPUs.
#[derive(Default)]
pub(super) struct OwnerShares {
    all: u64,
    by_owner: BTreeMap<String, u64>,
}

impl OwnerShares {
    /// Adds what the owners' CPUs took. A new owner begins with nothing: its time of arrival is unknown.
    pub(super) fn add(&mut self, context: &Context, steps: &Steps, out: &mut Families) {
        self.all = steps.values().fold(self.all, |sum, step| sum.saturating_add(*step));
        out.push(&IRQ_MOVABLE, &[], self.all as f64);
        let mut before = std::mem::take(&mut self.by_owner);
        let owners = context.owners.all().iter().filter(|owner| !owner.pids.is_empty());
        for owner in owners.take(cgroup::MAX_OWNERS) {
            let Some(cpus) = cgroup::allowed_cpus(context, owner) else { continue };
            let taken = cpus.iter().flat_map(|(first, last)| steps.range(first..=last)).map(|(_, step)| *step);
            let total = before.remove(&owner.id).map_or(0, |known| taken.fold(known, u64::saturating_add));
            out.push(&IRQ_OWNER_CPUS, &[&owner.id], total as f64);
            self.by_owner.insert(owner.id.clone(), total);
        }
    }
}
