//! Targets that get another name: a machine is renamed, or an exporter that names itself after its pod is started again.
//! Before and behind that they are two targets, so that each sample belongs to the node that was named with it.

use std::collections::{BTreeMap, HashMap};

use super::Source;
use super::identity::Target;
use crate::signal::{Scope, Signal, hostname_of};
use goodput_exposition::sample::TimeMs;

/// Cuts the series of targets whose names follow one another, each where the next name is first told. Names that are told
/// at the same time, as by a server with series of all nodes, are no epochs.
pub(super) fn cut<'a>(sources: Vec<Source<'a>>) -> Vec<Source<'a>> {
    let mut names: HashMap<Target<'a>, BTreeMap<&'a str, (TimeMs, TimeMs)>> = HashMap::new();
    for source in &sources {
        let (Some(name), Some((first, last))) = (named(source), span(source)) else { continue };
        let told = names.entry(source.target).or_default().entry(name).or_insert((first, last));
        *told = (told.0.min(first), told.1.max(last));
    }
    let several: HashMap<Target<'a>, Vec<TimeMs>> =
        names.into_iter().filter_map(|(target, names)| Some((target, borders(&names)?))).collect();
    if several.is_empty() {
        return sources;
    }
    let mut all = Vec::with_capacity(sources.len());
    for source in sources {
        match several.get(&source.target) {
            None => all.push(source),
            Some(borders) => all.extend(parts(&source, borders)),
        }
    }
    all
}

/// The name of its node that the series tells.
fn named<'a>(source: &Source<'a>) -> Option<&'a str> {
    let labels: &'a goodput_exposition::sample::Labels = source.labels;
    match source.meaning.signal {
        Signal::NodeInfo => labels.get("nodename"),
        signal if signal.scope() == Scope::Gpu => hostname_of(labels),
        _ => None,
    }
}

/// From its first value to its last.
pub(super) fn span(source: &Source<'_>) -> Option<(TimeMs, TimeMs)> {
    let mut values = source.samples.iter().filter(|s| s.value.is_finite()).map(|s| s.time_ms);
    let first = values.next()?;
    Some((first, values.next_back().unwrap_or(first)))
}

/// When each name but the first begins; `None` where there is one, or two are told at one time.
fn borders(names: &BTreeMap<&str, (TimeMs, TimeMs)>) -> Option<Vec<TimeMs>> {
    let mut spans: Vec<(TimeMs, TimeMs)> = names.values().copied().collect();
    spans.sort_unstable();
    let follow = spans.windows(2).all(|pair| pair[0].1 < pair[1].0);
    (spans.len() > 1 && follow).then(|| spans.into_iter().skip(1).map(|(first, _)| first).collect())
}

/// Epochs that one target can have, far more than fit into what is looked at.
const MOST: u32 = 10_000;

fn parts<'a>(source: &Source<'a>, borders: &[TimeMs]) -> Vec<Source<'a>> {
    let edges = [TimeMs::MIN].into_iter().chain(borders.iter().copied()).chain([TimeMs::MAX]);
    let edges: Vec<TimeMs> = edges.collect();
    let part = |(n, pair): (u32, &[TimeMs])| {
        let mut part = source.within(&(pair[0]..pair[1]))?;
        part.target.part = part.target.part * MOST + n;
        Some(part)
    };
    (0..MOST).zip(edges.windows(2)).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use goodput_exposition::sample::{Labels, Sample, Series};

    fn series(labels: &[(&str, &str)], minutes: std::ops::Range<i64>) -> Series {
        let samples = minutes.map(|minute| Sample { time_ms: minute * 60_000, value: 1.0 }).collect();
        Series { labels: Labels::new(labels.iter().copied()), samples }
    }

    fn told(all: &[Series]) -> Vec<(u32, usize)> {
        let sources: Vec<Source<'_>> = sources(all).iter().filter_map(|s| s.within(&(0..TimeMs::MAX))).collect();
        cut(sources).iter().map(|s| (s.target.part, s.samples.len())).collect()
    }

    const UNAME: (&str, &str) = ("__name__", "node_uname_info");

    #[test]
    fn a_renamed_target_is_two_and_one_that_tells_of_two_nodes_is_one() {
        let io = series(&[("__name__", "node_pressure_io_waiting_seconds_total")], 0..20);
        let first = series(&[UNAME, ("nodename", "n1")], 0..5);
        let second = series(&[UNAME, ("nodename", "n2")], 5..20);
        assert_eq!(told(&[first, second, io.clone()]), [(0, 5), (1, 15), (0, 5), (1, 15)]);
        let both = ["n1", "n2"].map(|name| series(&[UNAME, ("nodename", name)], 0..20));
        assert_eq!(told(&[both[0].clone(), both[1].clone(), io]), [(0, 20); 3]);
    }
}
