//! Levels as they were sampled, for those who look at their course and not at cells.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::identity::{Directory, NodeId, Target};
use super::piece::STALENESS_MS;
use super::track::merged;
use super::{Members, Source, UNJOINED_NODE, by_node};
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::{Sample, TimeMs};
use goodput_verdict::owner::{names_pod, servers_named};

/// The gauges of one entity.
#[derive(Debug)]
pub struct Levels<'a> {
    /// The node's cluster; empty where series name none.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// Whose they are.
    pub entity: Entity<'a>,
    /// Of a container of a pod that holds GPUs of the node, the pod's name with its own; else nothing.
    pub container: Option<String>,
    /// XIDs counted by code, since the exporter's start.
    pub xids: Vec<(u64, &'a [Sample])>,
    /// A pod holds it, as its series name one.
    pub is_held_by_pod: bool,
    by_signal: BTreeMap<Signal, Vec<Sample>>,
    /// Who may have held it, and when that was seen.
    held: Vec<(String, Vec<TimeMs>)>,
}

/// The gauges of every GPU, instance of one, owner and node that the sources are about.
pub fn levels<'a>(sources: &[Source<'a>]) -> Vec<Levels<'a>> {
    let mut directory = Directory::default();
    for source in sources {
        directory.add(source.target, &source.meaning, source.labels);
    }
    let (nodes, _) = by_node(sources, &directory);
    let servers: Vec<&Source<'a>> = sources.iter().filter(|s| s.meaning.entity == Entity::Server).collect();
    let of_node = |(id, members): &(NodeId<'a>, Members<'_, 'a>)| {
        let mut all = members.levels(*id);
        let own = servers.iter().copied().filter(|s| s.target.cluster == id.cluster);
        all.extend(containers(*id, &all, own));
        all
    };
    let nodes: Vec<(NodeId<'a>, Members<'_, 'a>)> = nodes.into_iter().collect();
    nodes.par_iter().flat_map_iter(of_node).collect()
}

/// The gauges of each container of the pods that hold GPUs of the node, as cAdvisor and kube-state-metrics report them:
/// limits are a container's own. Owners that our exporter reports are left out: they are the same.
fn containers<'s, 'a: 's>(
    node: NodeId<'_>,
    known: &[Levels<'a>],
    servers: impl Iterator<Item = &'s Source<'a>>,
) -> Vec<Levels<'a>> {
    let is_told = |name: &str| known.iter().any(|levels| levels.entity == Entity::Job(name));
    let holders: BTreeSet<&str> = known.iter().flat_map(|l| &l.held).map(|(owner, _)| owner.as_str()).collect();
    let mut by_container: BTreeMap<String, Vec<&Source<'a>>> = BTreeMap::new();
    for source in servers {
        let names = servers_named(source.labels);
        let holder = names.iter().find(|name| holders.contains(name.as_str()) && !is_told(name));
        if let Some((holder, container)) = holder.zip(source.meaning.part.last()) {
            by_container.entry(format!("{holder}/{container}")).or_default().push(source);
        }
    }
    let levels = |(name, sources): (String, Vec<&Source<'a>>)| Levels {
        container: Some(name),
        ..Levels::of(node, Entity::Server, &sources)
    };
    by_container.into_iter().map(levels).collect()
}

/// All series about one node and its GPUs.
#[derive(Debug)]
pub(crate) struct NodeSources<'s, 'a> {
    pub cluster: String,
    pub node: String,
    pub(crate) sources: Vec<&'s Source<'a>>,
}

/// The sources by node; what cannot be joined to one is left out.
pub(crate) fn by_name<'s, 'a>(sources: &'s [Source<'a>]) -> Vec<NodeSources<'s, 'a>> {
    let mut directory = Directory::default();
    for source in sources {
        directory.add(source.target, &source.meaning, source.labels);
    }
    let (nodes, _) = by_node(sources, &directory);
    let named = nodes.into_iter().filter(|(id, _)| id.name != UNJOINED_NODE);
    let of_node = |(id, members): (NodeId<'a>, Members<'s, 'a>)| {
        let sources = members.host.into_iter().chain(members.gpus.into_values().flatten()).collect();
        NodeSources { cluster: id.cluster.into(), node: id.shown(), sources }
    };
    named.map(of_node).collect()
}

impl<'a> Members<'_, 'a> {
    fn levels(&self, node: NodeId<'_>) -> Vec<Levels<'a>> {
        let gpus = self.gpus.iter().flat_map(|(uuid, sources)| {
            let instance = |s: &&Source<'a>| Some(s.meaning.entity).filter(|e| matches!(e, Entity::MigInstance(..)));
            let instances: BTreeSet<Entity<'a>> = sources.iter().filter_map(instance).collect();
            [Entity::Gpu(uuid)].into_iter().chain(instances).map(move |entity| (entity, sources))
        });
        let jobs = self.jobs.iter().map(|(owner, sources)| (Entity::Job(owner), sources));
        let all = gpus.chain(jobs).chain([(Entity::Node, &self.host)]);
        all.map(|(entity, sources)| Levels::of(node, entity, sources)).collect()
    }
}

impl<'a> Levels<'a> {
    fn of(node: NodeId<'_>, entity: Entity<'a>, sources: &[&Source<'a>]) -> Self {
        let own: Vec<&Source<'a>> = sources.iter().filter(|s| s.meaning.entity == entity).copied().collect();
        let held = if matches!(entity, Entity::Gpu(_) | Entity::MigInstance(..)) { held(&own) } else { Vec::new() };
        let is_held_by_pod = !held.is_empty() && own.iter().any(|s| names_pod(s.labels, s.names_exporter));
        let (xids, by_signal) = (xids(&own), by_signal(&own));
        let (cluster, node) = (node.cluster.to_owned(), node.shown());
        Levels { cluster, node, entity, container: None, xids, is_held_by_pod, by_signal, held }
    }

    /// Its samples, in base units and in order of time, one per time.
    pub fn samples(&self, signal: Signal) -> &[Sample] {
        self.by_signal.get(&signal).map_or(&[], Vec::as_slice)
    }

    /// The level at a time; `None` where the last sample is too old to tell.
    pub fn at(&self, signal: Signal, time: TimeMs) -> Option<f64> {
        let samples = self.samples(signal);
        let last = samples[..samples.partition_point(|s| s.time_ms <= time)].last()?;
        (time - last.time_ms <= STALENESS_MS).then_some(last.value)
    }

    /// When it was first heard of.
    pub fn since(&self) -> Option<TimeMs> {
        self.by_signal.values().filter_map(|samples| samples.first()).map(|s| s.time_ms).min()
    }

    /// Who holds it at a time, in order of name.
    pub fn holders(&self, time: TimeMs) -> Vec<String> {
        let is_near = |t: &TimeMs| (0..=STALENESS_MS).contains(&(time - t));
        self.held.iter().filter(|(_, times)| times.iter().any(is_near)).map(|(owner, _)| owner.clone()).collect()
    }
}

fn xids<'a>(sources: &[&Source<'a>]) -> Vec<(u64, &'a [Sample])> {
    let counted = [Signal::GpuXidReset, Signal::GpuXidRestartApp, Signal::GpuXidOther];
    let of_codes = sources.iter().filter(|s| counted.contains(&s.meaning.signal));
    of_codes.filter_map(|s| Some((s.meaning.part.first()?.parse().ok()?, s.samples))).collect()
}

/// Of several metrics or targets that tell the same thing, the one with the most samples.
fn by_signal(sources: &[&Source<'_>]) -> BTreeMap<Signal, Vec<Sample>> {
    let mut origins: BTreeMap<(Signal, usize, Target<'_>), Vec<&Source<'_>>> = BTreeMap::new();
    for source in sources {
        origins.entry((source.meaning.signal, source.meaning.rank, source.target)).or_default().push(source);
    }
    let mut best: BTreeMap<Signal, Vec<Sample>> = BTreeMap::new();
    for ((signal, ..), same) in origins {
        let scale = same.first().map_or(1.0, |s| s.meaning.scale);
        let scaled = merged(signal, &same).into_iter().map(|s| Sample { value: s.value * scale, ..s });
        let samples: Vec<Sample> = scaled.filter(|s| signal.admits(s.value)).collect();
        if best.get(&signal).is_none_or(|known| samples.len() > known.len()) {
            best.insert(signal, samples);
        }
    }
    best
}

/// Where our exporter states who holds the GPU, the pods that other series name are the same holders under another name.
fn held(sources: &[&Source<'_>]) -> Vec<(String, Vec<TimeMs>)> {
    let is_stated = |s: &&&Source<'_>| s.meaning.signal == Signal::GpuOwner;
    let stated = sources.iter().any(|s| is_stated(&s));
    let mut held: BTreeMap<String, Vec<TimeMs>> = BTreeMap::new();
    for source in sources.iter().filter(|s| is_stated(s) || !stated) {
        if let Some(owner) = source.owner() {
            let seen = source.samples.iter().filter(|s| source.meaning.signal.admits(s.value * source.meaning.scale));
            held.entry(owner).or_default().extend(seen.map(|s| s.time_ms));
        }
    }
    held.into_iter().collect()
}
