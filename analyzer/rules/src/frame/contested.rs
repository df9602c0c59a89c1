//! Names that two machines have: images whose host name is `localhost`, a name that was given twice. They are told by
//! targets of one job that say so at the same time from different addresses.

use std::collections::{BTreeMap, BTreeSet};

use super::epochs::span;
use super::identity::{NodeId, Target};
use super::piece::STALENESS_MS;
use super::{Source, Unjoined};
use crate::signal::{Entity, Scope, Signal, hostname_of};
use goodput_exposition::sample::TimeMs;

/// A name, told by one kind of series of one job. Several exporters of one machine are of several jobs, or tell the name
/// by other metrics.
type Claim<'a> = (NodeId<'a>, &'a str, &'a str);

/// What one address says under that name.
struct Claimant<'a> {
    first: TimeMs,
    last: TimeMs,
    target: Target<'a>,
    gpus: BTreeSet<&'a str>,
}

/// The names that several machines have, and who told them.
pub(super) fn find<'a>(sources: &[Source<'a>]) -> BTreeMap<NodeId<'a>, BTreeSet<String>> {
    let mut claims: BTreeMap<Claim<'a>, BTreeMap<&'a str, Claimant<'a>>> = BTreeMap::new();
    for source in sources {
        let (Some((name, kind)), Some((first, last))) = (claim(source), span(source)) else { continue };
        let id = NodeId { cluster: source.target.cluster, name, address: "" };
        let new = || Claimant { first, last, target: source.target, gpus: BTreeSet::new() };
        let address = source.target.address();
        let claimant = claims.entry((id, source.target.job, kind)).or_default().entry(address).or_insert_with(new);
        (claimant.first, claimant.last) = (claimant.first.min(first), claimant.last.max(last));
        if let Entity::Gpu(uuid) | Entity::MigInstance(uuid, _) = source.meaning.entity {
            claimant.gpus.insert(uuid);
        }
    }
    let mut contested: BTreeMap<NodeId<'a>, BTreeSet<String>> = BTreeMap::new();
    for ((id, ..), claimants) in claims.into_iter().filter(|(_, claimants)| claimants.len() > 1) {
        let all: Vec<Claimant<'a>> = claimants.into_values().collect();
        let with_others = |one: &&Claimant<'a>| all.iter().any(|other| are_two(one, other, sources));
        let told: BTreeSet<String> = all.iter().filter(with_others).map(|c| c.target.to_string()).collect();
        if !told.is_empty() {
            contested.entry(id).or_default().extend(told);
        }
    }
    contested
}

/// What the report says about such names.
pub(super) fn told(contested: &BTreeMap<NodeId<'_>, BTreeSet<String>>) -> impl Iterator<Item = Unjoined> {
    contested.iter().map(|(id, targets)| Unjoined::NameOfSeveral {
        node: id.name.to_owned(),
        targets: targets.iter().cloned().collect(),
    })
}

/// The name that the series gives its machine, and by what. One with a label `node` has its name from the scraping server.
fn claim<'a>(source: &Source<'a>) -> Option<(&'a str, &'a str)> {
    let labels: &'a goodput_exposition::sample::Labels = source.labels;
    if source.meaning.node.is_some() {
        return None;
    }
    match source.meaning.signal {
        Signal::NodeInfo => Some((labels.get("nodename")?, labels.metric())),
        signal if signal.scope() == Scope::Gpu => Some((hostname_of(labels)?, "")),
        _ => None,
    }
}

/// Are they two machines? Not if they follow one another, as pods of an exporter do; nor if they have the same GPU, or the
/// same boot time.
fn are_two(one: &Claimant<'_>, other: &Claimant<'_>, sources: &[Source<'_>]) -> bool {
    let both_ms = one.last.min(other.last) - one.first.max(other.first);
    if one.target == other.target || both_ms <= STALENESS_MS || !one.gpus.is_disjoint(&other.gpus) {
        return false;
    }
    let booted = |target: Target<'_>| {
        let boot = sources.iter().find(|s| s.meaning.signal == Signal::NodeBootTime && s.target == target);
        boot?.samples.iter().rev().map(|s| s.value).find(|value| value.is_finite())
    };
    let same = booted(one.target).zip(booted(other.target)).is_some_and(|(a, b)| (a - b).abs() < SAME_BOOT_SECONDS);
    !same
}

/// The boot time of one machine moves by this much as its clock is set.
const SAME_BOOT_SECONDS: f64 = 1.0;
