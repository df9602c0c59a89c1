//! What a finding is about: the same work, or the GPUs of one kind where no work is known.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::summed::Item;
use super::template::{Template, Work};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Stretch;

/// What findings of one class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Runs of the same work.
    Template(Template),
    /// Nodes whose GPUs are of this model; of several, all are named. Null where it is not known.
    Pool(Option<String>),
}

impl Scope {
    /// As identities of findings name it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Template(_) => "template",
            Self::Pool(_) => "pool",
        }
    }

    /// To be read.
    pub(super) fn subject(&self) -> String {
        match self {
            Self::Template(template) => template.name.clone(),
            Self::Pool(Some(model)) => model.clone(),
            Self::Pool(None) => "GPUs of unknown model".to_owned(),
        }
    }

    pub(super) fn key(&self) -> String {
        match self {
            Self::Template(template) => template.key(),
            Self::Pool(model) => model.clone().unwrap_or_default(),
        }
    }
}

/// Cluster, and the name of a run or node in it.
type Named<'a> = (Option<&'a str>, &'a str);

/// The scopes of the runs and nodes of a period.
pub(super) struct Scopes<'a> {
    of_run: HashMap<Named<'a>, Scope>,
    of_node: HashMap<Named<'a>, Scope>,
}

/// What items have in common that count for the same GPU of the same run.
fn of_gpu<'a>(item: &'a Item<'_>) -> impl PartialEq + use<'a> {
    (item.numbers(), item.interval().cluster.as_deref())
}

/// What a run held, GPU by GPU.
#[derive(Default)]
struct Held<'a> {
    account: Option<&'a str>,
    models: BTreeSet<&'a str>,
    by_gpu: BTreeMap<&'a str, Vec<Stretch>>,
}

impl<'a> Scopes<'a> {
    pub(super) fn of(items: &'a [Item<'_>]) -> Self {
        let mut runs: HashMap<Named<'a>, Held<'a>> = HashMap::new();
        let mut nodes: HashMap<Named<'a>, BTreeSet<&'a str>> = HashMap::new();
        // Items are sorted, so those of a GPU that one run held follow each other.
        for same in items.chunk_by(|a, b| of_gpu(a) == of_gpu(b)) {
            let i = same[0].interval();
            nodes.entry((i.cluster.as_deref(), &i.node)).or_default().extend(i.model.as_deref());
            let Some(holder) = i.holder() else { continue };
            let held = runs.entry((i.cluster.as_deref(), holder)).or_default();
            held.account = held.account.or(i.account.as_deref());
            held.models.extend(i.model.as_deref());
            let stretches = held.by_gpu.entry(&i.gpu).or_default();
            same.iter().for_each(|item| stretches.extend(&item.stretches));
        }
        let of_run = runs.into_iter().map(|(named, held)| (named, held.scope(named.1)));
        let of_node = nodes.into_iter().map(|(named, models)| (named, pool(&models)));
        Self { of_run: of_run.collect(), of_node: of_node.collect() }
    }

    /// Of a run, else of the node. Those of the period all have one.
    pub(super) fn get<'s>(
        &'s self,
        cluster: Option<&'s str>,
        holder: Option<&'s str>,
        node: Option<&'s str>,
    ) -> Option<&'s Scope> {
        match holder {
            Some(holder) => self.of_run.get(&(cluster, holder)),
            None => self.of_node.get(&(cluster, node?)),
        }
    }
}

fn pool(models: &BTreeSet<&str>) -> Scope {
    let names: Vec<&str> = models.iter().copied().collect();
    Scope::Pool((!names.is_empty()).then(|| names.join(" + ")))
}

impl Held<'_> {
    /// That of its work, else of its GPUs.
    fn scope(self, name: &str) -> Scope {
        let Self { account, models, by_gpu } = self;
        let model = models.first().copied().filter(|_| models.len() == 1);
        let work = Work { name, account, image: None, gpus: at_once(by_gpu), model };
        Template::of(&work).map_or_else(|| pool(&models), Scope::Template)
    }
}

/// How many GPUs were held at once, at most: a run that moved from one to another had one.
fn at_once(by_gpu: BTreeMap<&str, Vec<Stretch>>) -> usize {
    let mut edges: Vec<(TimeMs, bool)> = Vec::new();
    for mut stretches in by_gpu.into_values() {
        stretches.sort_unstable_by_key(|stretch| stretch.start_ms);
        edges.extend(Stretch::join(stretches).iter().flat_map(|s| [(s.start_ms, true), (s.end_ms, false)]));
    }
    // An end comes before a beginning at the same time.
    edges.sort_unstable();
    let (mut held, mut most) = (0usize, 0usize);
    for (_, begins) in edges {
        held = if begins { held + 1 } else { held.saturating_sub(1) };
        most = most.max(held);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_that_follow_each_other_are_one() {
        let held = |all: &[(&'static str, TimeMs, TimeMs)]| {
            let mut by_gpu: BTreeMap<&str, Vec<Stretch>> = BTreeMap::new();
            for (gpu, start_ms, end_ms) in all.iter().copied() {
                by_gpu.entry(gpu).or_default().push(Stretch { start_ms, end_ms, ms: end_ms - start_ms });
            }
            at_once(by_gpu)
        };
        assert_eq!(held(&[]), 0);
        assert_eq!(held(&[("a", 0, 5), ("a", 0, 10), ("b", 10, 20)]), 1, "moved");
        assert_eq!(held(&[("a", 0, 10), ("b", 9, 20), ("c", 30, 40)]), 2, "both for a while");
    }
}
