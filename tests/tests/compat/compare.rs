//! How a scrape of ours differs from one of dcgm-exporter.

use std::collections::{BTreeMap, BTreeSet};

use crate::scrape::{INSTANCE, Scrape, Series};

/// A way to differ, in the words of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Absent,
    OncePerGpu,
    GpuToo,
    Value,
    LabelMore,
    LabelLess,
    LabelValue,
    Type,
    Help,
}

impl Kind {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Absent => "is absent",
            Self::OncePerGpu => "once, of the GPU; not of each instance",
            Self::GpuToo => "of the GPU too, not only of its instances",
            Self::Value => "another value",
            Self::LabelMore => "a label more",
            Self::LabelLess => "a label less",
            Self::LabelValue => "a label's other value",
            Self::Type => "another type",
            Self::Help => "another help text",
        }
    }
}

/// Families or labels, and how they differ.
pub(crate) type Differences = BTreeSet<(String, Kind)>;

/// Every difference in what was recorded; what was not recorded of a GPU is none.
pub(crate) fn differences(recorded: &Scrape, served: &Scrape) -> Differences {
    let mut found = Differences::new();
    let mut matched = BTreeSet::new();
    for theirs in &recorded.series {
        let (kind, at) = counterpart(theirs, served);
        found.extend(kind.map(|kind| (theirs.name.clone(), kind)));
        let Some(at) = at else { continue };
        matched.insert(at);
        compare(theirs, &served.series[at], &mut found);
    }
    let known: BTreeSet<_> = recorded.series.iter().map(|series| (&series.name, series.gpu())).collect();
    let more =
        served.series.iter().enumerate().filter(|(at, s)| known.contains(&(&s.name, s.gpu())) && !matched.contains(at));
    found.extend(more.map(|(_, series)| (series.name.clone(), Kind::GpuToo)));
    heads(&recorded.types, &served.types, Kind::Type, &mut found);
    heads(&recorded.helps, &served.helps, Kind::Help, &mut found);
    found
}

/// The same series here, or else that of the instance's GPU.
fn counterpart(theirs: &Series, served: &Scrape) -> (Option<Kind>, Option<usize>) {
    let of = |instance: Option<u32>| {
        let same =
            |ours: &Series| ours.name == theirs.name && ours.gpu() == theirs.gpu() && ours.instance() == instance;
        served.series.iter().position(same)
    };
    match (of(theirs.instance()), of(None)) {
        (Some(at), _) => (None, Some(at)),
        (None, Some(at)) => (Some(Kind::OncePerGpu), Some(at)),
        (None, None) => (Some(Kind::Absent), None),
    }
}

fn compare(theirs: &Series, ours: &Series, found: &mut Differences) {
    if theirs.value != ours.value {
        found.insert((theirs.name.clone(), Kind::Value));
    }
    let once = theirs.instance() != ours.instance();
    let counts = |name: &&String| !(once && INSTANCE.contains(&name.as_str()));
    for name in theirs.labels.keys().chain(ours.labels.keys()).filter(counts) {
        let kind = match (theirs.label(name), ours.label(name)) {
            (Some(_), None) => Kind::LabelLess,
            (None, Some(_)) => Kind::LabelMore,
            (theirs, ours) if theirs != ours => Kind::LabelValue,
            _ => continue,
        };
        found.insert((name.clone(), kind));
    }
}

fn heads(theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>, kind: Kind, found: &mut Differences) {
    let differ = |name: &&String| ours.get(*name).is_some_and(|ours| *ours != theirs[*name]);
    found.extend(theirs.keys().filter(differ).map(|name| (name.clone(), kind)));
}
