//! Which GPUs are in capacity though a window has no sample of them: a GPU does not leave capacity by vanishing.
//!
//! What one window hands to the next is told by its verdicts alone. So stored verdicts say the same as those that were
//! just made, and the order in which windows are judged changes nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use super::cell::{LEFT_NODE, Part};
use super::intervals::{Builder, Whose};
use super::network::{SOUND, SOUND_ON_NODE};
use super::thresholds::confidence::CERTAIN;
use super::{Class, Fact, Interval};
use crate::frame::{Accounts, Runs};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// A vanished GPU stays in capacity, as `no_data`, for so long after its last data (goodput ledger, identity).
pub const VANISHED_MS: i64 = 24 * HOUR_MS;

const VANISHED_S: f64 = VANISHED_MS as f64 / 1000.0;

/// Name of the evidence of a vanished GPU's verdicts: how long before them its last data was.
const VANISHED: &str = "time since the last data";

/// Does the verdict rest on earlier ones alone, with no sample of the GPU near?
#[must_use]
pub fn has_vanished(verdict: &Interval) -> bool {
    verdict.evidence.iter().any(|evidence| evidence.signal == VANISHED)
}

/// A GPU and until when there was data of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The UUID.
    pub gpu: String,
    /// The cluster of its node then; empty where series name none.
    pub cluster: String,
    /// Its node then.
    pub node: String,
    /// Its model, where known.
    pub model: Option<String>,
    /// End of its last verdict with data; without any, start of its first one.
    pub last_ms: TimeMs,
    /// What its node exchanged before its network became slow, as the last verdict on that says.
    pub(super) sound: Option<Sound>,
}

/// What a node exchanged for an owner while its network was sound.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) struct Sound {
    /// End of the verdict that says it.
    until_ms: TimeMs,
    bytes_per_second: f64,
    owner: Option<String>,
    /// Did they go over NVLink, on the run's only node?
    on_node: bool,
}

/// The GPUs in capacity at a time, by UUID.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacity(BTreeMap<String, Seen>);

impl FromIterator<Seen> for Capacity {
    fn from_iter<I: IntoIterator<Item = Seen>>(seen: I) -> Self {
        Self(seen.into_iter().map(|seen| (seen.gpu.clone(), seen)).collect())
    }
}

/// What a GPU's verdicts say of it.
struct Course<'a> {
    /// End of the last one, and whether the GPU left capacity with it.
    end: (TimeMs, bool),
    /// The last one with data.
    with_data: Option<&'a Interval>,
    /// The first one that rests on samples near it, be they readings or not.
    first: Option<&'a Interval>,
    /// By the last one that tells it.
    sound: Option<Sound>,
}

impl Capacity {
    /// Notes verdicts, in any order, that are later than all that were noted before.
    pub fn note<'a>(&mut self, verdicts: impl IntoIterator<Item = &'a Interval>) {
        for (gpu, course) in courses(verdicts) {
            let known = self.0.get_mut(gpu).and_then(|seen| seen.sound.take());
            let sound = course.sound.or(known);
            match (course.end, course.with_data, course.first) {
                ((_, true), ..) => drop(self.0.remove(gpu)),
                (_, Some(i), _) => drop(self.0.insert(gpu.to_owned(), seen(i, i.end_ms))),
                (_, None, Some(i)) => drop(self.0.entry(gpu.to_owned()).or_insert_with(|| seen(i, i.start_ms))),
                (_, None, None) => {}
            }
            if let Some(seen) = self.0.get_mut(gpu) {
                seen.sound = sound;
            }
        }
    }

    /// What the GPU's node exchanged for the owner, in bytes per second, before its network became slow: as a verdict less than
    /// [`VANISHED_MS`] before `start_ms` says.
    pub(super) fn sound(&self, gpu: &str, owner: &str, on_node: bool, start_ms: TimeMs) -> Option<f64> {
        let sound = self.0.get(gpu)?.sound.as_ref()?;
        let is_its = sound.owner.as_deref() == Some(owner) && sound.on_node == on_node;
        (is_its && start_ms - sound.until_ms < VANISHED_MS).then_some(sound.bytes_per_second)
    }

    /// The `no_data` of GPUs that are in capacity and have no verdict in the window.
    pub fn vanished(&self, window: &Range<TimeMs>, is_there: impl Fn(&Seen) -> bool) -> Vec<Interval> {
        let gone = self.0.values().filter(|seen| window.start - seen.last_ms < VANISHED_MS && !is_there(seen));
        let since_s = |seen: &Seen| (window.start - seen.last_ms) as f64 / 1000.0;
        let fact = |seen| Fact { signal: VANISHED, unit: "seconds", value: since_s(seen), threshold: VANISHED_S };
        gone.flat_map(|seen| absent(seen, window, vec![fact(seen)])).collect()
    }

    /// The GPUs that are in capacity at a time, by UUID.
    pub fn at(self, time: TimeMs) -> impl Iterator<Item = Seen> {
        self.0.into_values().filter(move |seen| time - seen.last_ms < VANISHED_MS)
    }
}

fn courses<'a>(verdicts: impl IntoIterator<Item = &'a Interval>) -> BTreeMap<&'a str, Course<'a>> {
    let mut all: BTreeMap<&str, Course<'_>> = BTreeMap::new();
    for i in verdicts {
        let has_left = i.evidence.iter().any(|evidence| evidence.signal == LEFT_NODE);
        let end = (i.end_ms, has_left);
        let course = all.entry(&i.gpu).or_insert(Course { end, with_data: None, first: None, sound: None });
        course.end = course.end.max(end);
        if i.class != Class::NoData && course.with_data.is_none_or(|known| known.end_ms < i.end_ms) {
            course.with_data = Some(i);
        }
        if !has_vanished(i) && course.first.is_none_or(|known| i.start_ms < known.start_ms) {
            course.first = Some(i);
        }
        if let Some(sound) = sound(i).filter(|sound| course.sound.as_ref().is_none_or(|known| *sound > *known)) {
            course.sound = Some(sound);
        }
    }
    all
}

fn seen(i: &Interval, last_ms: TimeMs) -> Seen {
    let (cluster, model) = (i.cluster.clone().unwrap_or_default(), i.model.clone());
    Seen { gpu: i.gpu.clone(), cluster, node: i.node.clone(), model, last_ms, sound: None }
}

fn sound(i: &Interval) -> Option<Sound> {
    let told = i.evidence.iter().find(|evidence| [SOUND, SOUND_ON_NODE].contains(&evidence.signal.as_str()))?;
    let on_node = told.signal == SOUND_ON_NODE;
    Some(Sound { until_ms: i.end_ms, bytes_per_second: told.value, owner: i.owner.clone(), on_node })
}

/// A GPU without any data in the window.
pub(super) fn absent(seen: &Seen, window: &Range<TimeMs>, facts: Vec<Fact>) -> Vec<Interval> {
    let part = Part { facts, ..Part::bare(Class::NoData, CERTAIN) };
    let mut builder = Builder::new();
    builder.add(window, [part.entry(window.end - window.start, None, 0)]);
    builder.finish(&Whose {
        gpu: &seen.gpu,
        instance: None,
        cluster: &seen.cluster,
        node: &seen.node,
        model: seen.model.as_deref(),
        runs: &Runs::default(),
        accounts: &Accounts::default(),
    })
}
