//! Hours of a node as one roll-up: what they have in common is told once.

use std::collections::BTreeMap;

use super::{Allocation, Grounds, Held, Part, RollUp, Stretch};
use crate::{Cause, Class, Culprit, Energy, Version};

/// What parts of a roll-up have in common; grounds are the roll-up's.
type Common = (Class, Option<Culprit>, Option<Cause>, usize, Option<Version>);

impl RollUp {
    /// Roll-ups of one node as one; none of none. It does not depend on their order.
    #[must_use]
    pub fn joined(mut all: Vec<Self>) -> Option<Self> {
        all.sort_by_key(|one| one.start_ms);
        let first = all.first()?;
        let (cluster, node, start_ms) = (first.cluster.clone(), first.node.clone(), first.start_ms);
        let end_ms = all.iter().map(|one| one.end_ms).max()?;
        let mut grounds: Vec<Grounds> = all.iter().flat_map(|one| one.grounds.iter().cloned()).collect();
        grounds.sort_unstable();
        grounds.dedup();
        let mut held: BTreeMap<Allocation, BTreeMap<Common, Part>> = BTreeMap::new();
        for one in all {
            let place = |of: usize| one.grounds.get(of).and_then(|of| grounds.binary_search(of).ok());
            for Held { allocation, parts } in one.held {
                let joined = held.entry(allocation).or_default();
                for part in parts {
                    add(joined, Part { grounds: place(part.grounds).unwrap_or_default(), ..part });
                }
            }
        }
        let held =
            held.into_iter().map(|(allocation, parts)| Held { allocation, parts: parts.into_values().collect() });
        Some(Self { cluster, node, start_ms, end_ms, held: held.collect(), grounds })
    }
}

fn add(joined: &mut BTreeMap<Common, Part>, part: Part) {
    let common = (part.class, part.charged_to.clone(), part.cause.clone(), part.grounds, part.version);
    match joined.get_mut(&common) {
        Some(sum) => sum.add(part),
        None => {
            joined.insert(common, part);
        }
    }
}

impl Part {
    /// With a later part of the same.
    fn add(&mut self, later: Self) {
        self.ms = self.ms.saturating_add(later.ms);
        self.confidence_ms += later.confidence_ms;
        self.energy = Energy::sum(self.energy, later.energy);
        self.variance_ms2 = self.variance_ms2.zip(later.variance_ms2).map(|(a, b)| a.saturating_add(b));
        self.stretches = Stretch::join(std::mem::take(&mut self.stretches).into_iter().chain(later.stretches));
    }
}
