//! A GPU that is cut into instances: when each of them was there, and how much of the GPU was its.
//!
//! An instance's share of a cell is the time that it was there, weighted by its compute slices over the GPU's. Shares
//! are whole milliseconds, and with what no instance has they sum to the cell however often the GPU was cut again in
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Source;
use super::gpu::Watched;
use super::piece::{at, merged};
use crate::apportion;
use crate::mig::{slices_of_gpu, slices_of_profile};
use crate::signal::{Entity, Signal, profile_of};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Instance;

/// One instance, and the series that are about it.
pub(super) struct Part<'s, 'a> {
    pub(super) instance: Instance,
    pub(super) sources: Vec<&'s Source<'a>>,
}

/// The instances that the sources name, in order of id and profile. One that has the id of another, but not its profile,
/// is another. Series that name no profile, as those about owners, are of every instance with their id.
pub(super) fn parts<'s, 'a>(sources: &[&'s Source<'a>]) -> Vec<Part<'s, 'a>> {
    let mut by_id: BTreeMap<u32, (BTreeSet<&str>, Vec<&'s Source<'a>>)> = BTreeMap::new();
    for source in sources {
        if let Entity::MigInstance(_, id) = source.meaning.entity {
            let (profiles, all) = by_id.entry(id).or_default();
            profiles.extend(profile_of(source.labels));
            all.push(source);
        }
    }
    let mut parts = Vec::new();
    for (id, (profiles, all)) in by_id {
        let named = profiles.iter().map(|profile| Some(*profile));
        for profile in named.chain(profiles.is_empty().then_some(None)) {
            let is_its = |s: &&&Source<'_>| profile_of(s.labels).is_none_or(|own| Some(own) == profile);
            let sources = all.iter().filter(is_its).copied().collect();
            parts.push(Part { instance: Instance { id, profile: profile.map(str::to_owned) }, sources });
        }
    }
    parts
}

impl Part<'_, '_> {
    /// When it was there, as the series tell that name its profile. Owners may be known of one that is no more.
    pub(super) fn there(&self) -> Vec<Range<TimeMs>> {
        let tells = |s: &&&Source<'_>| {
            s.meaning.signal != Signal::GpuOwner && profile_of(s.labels) == self.instance.profile.as_deref()
        };
        let sources: Vec<&Source<'_>> = self.sources.iter().filter(tells).copied().collect();
        merged(Watched::of(&self.sources).spans(&sources))
    }

    /// Its compute slices.
    fn slices(&self) -> Option<u32> {
        let told = self.sources.iter().filter(|s| s.meaning.signal == Signal::MigSlices);
        let profile = || slices_of_profile(self.instance.profile.as_deref()?);
        told.filter_map(|s| last_of(s)).next_back().or_else(profile)
    }
}

/// The last value that is one.
fn last_of(source: &Source<'_>) -> Option<u32> {
    let values = source.samples.iter().rev().map(|s| s.value * source.meaning.scale);
    values.filter(|value| *value >= 1.0 && source.meaning.signal.admits(*value)).map(|value| value as u32).next()
}

/// Slices of a GPU, and when it told that it is cut up.
pub(super) struct Capacity {
    slices: Option<u32>,
    told: Vec<Range<TimeMs>>,
}

/// As the exporter tells, else as the model's are.
pub(super) fn capacity(gpu: &[&Source<'_>], model: Option<&str>) -> Capacity {
    let told: Vec<&Source<'_>> = gpu.iter().filter(|s| s.meaning.signal == Signal::MigCapacity).copied().collect();
    let slices = told.iter().filter_map(|s| last_of(s)).next_back().or_else(|| slices_of_gpu(model));
    Capacity { slices, told: merged(Watched::of(gpu).spans(&told)) }
}

/// What a GPU was cut into, cell by cell.
#[derive(Debug, Default)]
pub struct Cut {
    /// Slices that it can be cut into, where known.
    pub slices: Option<u32>,
    /// Per cell, one after another; none where it was whole.
    layouts: Vec<Vec<Layout>>,
}

/// What a GPU was cut into for some milliseconds of a cell.
#[derive(Debug)]
pub struct Layout {
    /// How long.
    pub ms: i64,
    /// Its instances.
    pub instances: Vec<Instance>,
    /// Slices that these have; `None` where one does not tell.
    pub slices: Option<u32>,
    /// Which of the parts these are.
    parts: Vec<usize>,
}

impl Cut {
    pub(super) fn of(
        parts: &[Part<'_, '_>],
        there: &[Vec<Range<TimeMs>>],
        capacity: Capacity,
        cells: &[Range<TimeMs>],
    ) -> Cut {
        if parts.is_empty() && capacity.told.is_empty() {
            return Cut::default();
        }
        let slices: Vec<Option<u32>> = parts.iter().map(Part::slices).collect();
        let layout = |(present, ms): (Vec<usize>, i64)| Layout {
            ms,
            instances: present.iter().map(|n| parts[*n].instance.clone()).collect(),
            slices: present.iter().map(|n| slices[*n]).sum(),
            parts: present,
        };
        let layouts = cells.iter().map(|cell| stretches(there, &capacity.told, cell).into_iter().map(layout).collect());
        Cut { layouts: layouts.collect(), slices: capacity.slices }
    }

    /// What the GPU was cut into in the cell of this index.
    #[must_use]
    pub fn layouts(&self, cell: usize) -> &[Layout] {
        self.layouts.get(cell).map_or(&[], Vec::as_slice)
    }

    /// The GPU-milliseconds of each part, cell by cell, of those that are known of the GPU. None where slices are not known.
    pub(super) fn shares(&self, parts: &[Part<'_, '_>], known_ms: &[i64]) -> Vec<Vec<i64>> {
        let slices: Vec<f64> = parts.iter().map(|part| f64::from(part.slices().unwrap_or(0))).collect();
        let mut shares = vec![vec![0; known_ms.len()]; parts.len()];
        let Some(capacity) = self.slices else { return shares };
        for (cell, known) in known_ms.iter().enumerate().filter(|(cell, _)| !self.layouts(*cell).is_empty()) {
            let mut weights = vec![0.0; parts.len() + 1];
            for Layout { ms, parts: present, .. } in self.layouts(cell) {
                // More than the GPU has are there where one was told a little longer than it was.
                let whole = present.iter().map(|n| slices[*n]).sum::<f64>().max(f64::from(capacity));
                present.iter().for_each(|n| weights[*n] += *ms as f64 * slices[*n] / whole);
            }
            weights[parts.len()] = (*known as f64 - weights.iter().sum::<f64>()).max(0.0);
            for (share, ms) in shares.iter_mut().zip(apportion(*known, &weights)) {
                share[cell] = ms;
            }
        }
        shares
    }
}

/// Which parts were there together in a cell, and for how long; also for how long none of them was though the GPU was cut up.
fn stretches(there: &[Vec<Range<TimeMs>>], cut: &[Range<TimeMs>], cell: &Range<TimeMs>) -> BTreeMap<Vec<usize>, i64> {
    let spans = there.iter().flatten().chain(cut).filter(|s| s.start < cell.end && cell.start < s.end);
    let mut borders: Vec<TimeMs> = spans.flat_map(|s| [s.start.max(cell.start), s.end.min(cell.end)]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut stretches = BTreeMap::new();
    for pair in borders.windows(2) {
        let present: Vec<usize> = (0..there.len()).filter(|n| at(&there[*n], pair[0])).collect();
        if !present.is_empty() || at(cut, pair[0]) {
            *stretches.entry(present).or_default() += pair[1] - pair[0];
        }
    }
    stretches
}
