//! Lines of tables: GPU time by class, account, run, cluster, node, model or GPU.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt as _, HashSet};
use schemars::JsonSchema;

use super::Row;
use super::build::{Ledger, is_held};
use super::sum::{Amount, Sum};
use super::summed::{Item, Number};
use goodput_verdict::{Class, Culprit, Interval};

goodput_catalog::named! {
    /// What the lines of a table are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    pub(crate) enum By {
        /// What the time went into.
        Class = "class",
        /// Clusters.
        Cluster = "cluster",
        /// Accounts: namespaces of pods, accounts of Slurm jobs. Of time that someone held.
        Account = "account",
        /// Runs, and owners that are no run's. Of time that someone held.
        Run = "run",
        /// Nodes.
        Node = "node",
        /// Models of GPUs.
        Model = "model",
        /// GPUs.
        Gpu = "gpu",
    }
}

impl By {
    /// The lines, greatest loss first; `before` is the time that is compared.
    pub(crate) fn rows(self, items: &[Item<'_>], before: Option<&[Item<'_>]>) -> Vec<Row> {
        let lines = rows(self, items, before);
        match self {
            Self::Node => with_caused(lines, items, |i, culprit| Some(RowKey::of(&i.cluster, &culprit.node))),
            Self::Gpu => with_caused(lines, items, |i, culprit| {
                Some(RowKey::of(&i.cluster, culprit.gpu.as_deref()?).on(&culprit.node))
            }),
            _ => lines,
        }
    }

    fn has(self, class: Class) -> bool {
        match self {
            Self::Account | Self::Run => is_held(class),
            Self::Class | Self::Cluster | Self::Node | Self::Model | Self::Gpu => true,
        }
    }

    fn key(self, i: &Interval) -> RowKey<'_> {
        match self {
            Self::Class => RowKey::of_all(Some(i.class.name())),
            Self::Cluster => RowKey::of_all(i.cluster.as_deref()),
            Self::Account => RowKey::of_all(i.account.as_deref()),
            Self::Run => RowKey { cluster: i.cluster.as_deref(), ..RowKey::of_all(i.holder()) },
            Self::Model => RowKey::of_all(i.model.as_deref()),
            Self::Node => RowKey::of(&i.cluster, &i.node),
            Self::Gpu => RowKey::of(&i.cluster, &i.gpu).on(&i.node),
        }
    }

    /// What [`key`](Self::key) keeps apart, by numbers of names.
    fn line<'i>(self, item: &'i Item<'_>) -> Line<'i> {
        let (i, numbers) = (item.interval(), item.numbers());
        let cluster = i.cluster.as_deref();
        match self {
            Self::Class => (Some(i.class.name()), None, None),
            Self::Cluster => (cluster, None, None),
            Self::Account => (None, numbers.account, None),
            Self::Run => (cluster, numbers.holder, None),
            Self::Model => (None, numbers.model, None),
            Self::Node => (cluster, Some(numbers.node), None),
            Self::Gpu => (cluster, Some(numbers.gpu), Some(numbers.node)),
        }
    }
}

/// Cluster or class, and the numbers of names.
type Line<'i> = (Option<&'i str>, Option<Number>, Option<Number>);

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RowKey<'i> {
    name: Option<&'i str>,
    cluster: Option<&'i str>,
    node: Option<&'i str>,
}

impl<'i> RowKey<'i> {
    fn of(cluster: &'i Option<String>, name: &'i str) -> Self {
        Self { cluster: cluster.as_deref(), ..Self::of_all(Some(name)) }
    }

    /// In all clusters.
    fn of_all(name: Option<&'i str>) -> Self {
        Self { name, cluster: None, node: None }
    }

    fn on(self, node: &'i str) -> Self {
        Self { node: Some(node), ..self }
    }
}

/// What a line sums.
#[derive(Default)]
struct Tally<'p> {
    ledger: Ledger<'p>,
    gpus: HashSet<Number>,
}

fn rows(by: By, items: &[Item<'_>], before: Option<&[Item<'_>]>) -> Vec<Row> {
    let now = tallies(by, items);
    let before = before.map(|items| tallies(by, items));
    let row = |(key, tally): (RowKey<'_>, Tally<'_>)| {
        let lost_before = before.as_ref().map(|b| b.get(&key).map_or_else(Amount::default, |t| t.ledger.lost()));
        row(key, &tally, lost_before)
    };
    let mut now: Vec<_> = now.into_iter().collect();
    now.sort_unstable_by_key(|(key, _)| *key);
    let mut rows: Vec<Row> = now.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.lost.gpu_ms));
    rows
}

fn tallies<'i, 'p>(by: By, items: &'i [Item<'p>]) -> HashMap<RowKey<'i>, Tally<'p>> {
    let mut tallies: HashMap<Line<'i>, (RowKey<'i>, Tally<'p>)> = HashMap::new();
    // Items are sorted, so those of a line mostly follow each other, and those of a GPU always do.
    for line in items.chunk_by(|a, b| by.line(a) == by.line(b)) {
        let mut counted = line.iter().filter(|item| by.has(item.class)).peekable();
        let Some(first) = counted.peek() else { continue };
        let (_, tally) = tallies.entry(by.line(first)).or_insert_with(|| (by.key(first), Tally::default()));
        let mut gpu = None;
        for item in counted {
            tally.ledger.add(item);
            if gpu.replace(item.numbers().gpu) != Some(item.numbers().gpu) {
                tally.gpus.insert(item.numbers().gpu);
            }
        }
    }
    tallies.into_values().collect()
}

fn row(RowKey { name, cluster, node }: RowKey<'_>, tally: &Tally<'_>, lost_before: Option<Amount>) -> Row {
    let total = tally.ledger.capacity();
    Row {
        cluster: cluster.map(str::to_owned),
        name: name.map(str::to_owned),
        node: node.map(str::to_owned),
        gpus: tally.gpus.len(),
        productive: tally.ledger.get(Class::Productive).amount(total.ms),
        lost: tally.ledger.lost(),
        no_data: tally.ledger.get(Class::NoData).amount(total.ms),
        lost_before,
        losses: tally.ledger.losses(),
        caused: None,
        total: total.amount(total.ms),
    }
}

/// The same with what the GPUs and ports of each line caused on the rows of others.
fn with_caused(
    rows: Vec<Row>,
    items: &[Item<'_>],
    key: for<'i> fn(&'i Interval, &'i Culprit) -> Option<RowKey<'i>>,
) -> Vec<Row> {
    let mut caused: BTreeMap<RowKey<'_>, Sum<'_>> = BTreeMap::new();
    for item in items {
        if let Some(key) = item.charged_to.as_ref().and_then(|culprit| key(item, culprit)) {
            caused.entry(key).or_default().add(item);
        }
    }
    let capacity_ms = Sum::of(items).ms;
    let line = |row: Row| {
        let (name, cluster, node) = (row.name.as_deref(), row.cluster.as_deref(), row.node.as_deref());
        let sum = caused.get(&RowKey { name, cluster, node }).cloned().unwrap_or_default();
        Row { caused: Some(sum.amount(capacity_ms)), ..row }
    };
    rows.into_iter().map(line).collect()
}
