//! The timeline of one GPU: what a stretch was long enough for is drawn as itself, shorter ones are drawn together.
//!
//! Time is divided into as many slices as a wide screen can tell apart. In each slice the classes are stacked by their
//! share of it, so that what is drawn is what is stored, and a week of minutes is no more shapes than a day.

use std::collections::BTreeMap;
use std::ops::Range;

use super::chosen::Chosen;
use super::clock::{HOUR_MS, length};
use super::link;
use super::stretch::Stretch;
use crate::classify::Class;
use crate::report::text;
use crate::sample::TimeMs;

/// Width of a strip, in units of its view box.
pub(super) const WIDTH: f64 = 1000.0;
/// Height of a strip.
pub(super) const HEIGHT: f64 = 20.0;
const SLICES: usize = 240;
/// Short stretches are drawn together up to this many slices, so that following them leads into a shorter period.
const MAX_TOGETHER: usize = SLICES / 8;

/// What is one link in a strip.
pub(super) struct Mark {
    pub(super) href: String,
    pub(super) label: String,
    pub(super) layers: Vec<Layer>,
}

/// The shape of one class.
pub(super) struct Layer {
    pub(super) class: &'static str,
    /// A path's data.
    pub(super) shape: String,
}

/// The marks of a GPU's stretches over a period, in order of time.
pub(super) fn marks(stretches: &[Stretch<'_>], uuid: &str, chosen: &Chosen) -> Vec<Mark> {
    let slice_ms = chosen.length_ms() as f64 / SLICES as f64;
    let groups = groups(stretches, chosen.start_ms, slice_ms);
    let mut shapes = shapes(&groups, chosen.start_ms, slice_ms);
    let marks = groups.iter().enumerate().map(|(n, group)| {
        let (href, label) = words(group, uuid, chosen);
        Mark { href, label, layers: shapes.remove(&n).unwrap_or_default() }
    });
    marks.filter(|mark| !mark.layers.is_empty()).collect()
}

/// What is drawn together: a stretch of at least a slice alone, shorter ones with those that are near.
fn groups<'s, 'a>(stretches: &'s [Stretch<'a>], start_ms: TimeMs, slice_ms: f64) -> Vec<Vec<&'s Stretch<'a>>> {
    let slice_of = |s: &Stretch<'_>| ((s.start_ms - start_ms) as f64 / slice_ms).max(0.0) as usize;
    let is_long = |s: &&Stretch<'_>| (s.end_ms - s.start_ms) as f64 >= slice_ms;
    let (long, short): (Vec<_>, Vec<_>) = stretches.iter().partition(is_long);
    let mut together: Vec<Vec<&Stretch<'_>>> = Vec::new();
    for stretch in short {
        let slice = slice_of(stretch);
        let near = together.last_mut().filter(|group| {
            let (first, last) = (slice_of(group[0]), slice_of(group[group.len() - 1]));
            slice <= last + 1 && slice < first + MAX_TOGETHER
        });
        match near {
            Some(group) => group.push(stretch),
            None => together.push(vec![stretch]),
        }
    }
    let mut groups: Vec<_> = long.into_iter().map(|stretch| vec![stretch]).chain(together).collect();
    groups.sort_by_key(|group| (group[0].start_ms, group[0].class));
    groups
}

/// Where it leads and what it says.
fn words(group: &[&Stretch<'_>], uuid: &str, chosen: &Chosen) -> (String, String) {
    if let [one] = group {
        let share = text::percent(Some(one.share()));
        return (link::evidence(uuid, one), format!("{}, {share} of that time", one.label(&chosen.clock)));
    }
    let mut sums: BTreeMap<Class, i64> = BTreeMap::new();
    group.iter().for_each(|s| *sums.entry(s.class).or_default() += s.ms);
    let parts: Vec<String> =
        sums.iter().map(|(class, ms)| format!("{} {} GPU-hours", class.name(), text::hours(*ms))).collect();
    let start = group.iter().map(|s| s.start_ms).min().unwrap_or(chosen.start_ms);
    let end = group.iter().map(|s| s.end_ms).max().unwrap_or(chosen.end_ms);
    let when = chosen.clock.stretch(start, end);
    let near = chosen.to(&link::gpu(uuid), &hours_around(start..end, chosen), "");
    (near.href, format!("{} short stretches, {when}: {}", group.len(), parts.join(", ")))
}

/// The full hours around it.
fn hours_around(range: Range<TimeMs>, chosen: &Chosen) -> Range<TimeMs> {
    let start = range.start - chosen.clock.into_hour(range.start);
    let into = chosen.clock.into_hour(range.end);
    start..if into == 0 { range.end } else { range.end - into + HOUR_MS }
}

/// A rectangle over some slices.
struct Rect {
    from: usize,
    to: usize,
    y: f64,
    height: f64,
}

/// The shapes of each group: per slice, the classes are stacked by share, and equal neighbours are drawn as one.
fn shapes(groups: &[Vec<&Stretch<'_>>], start_ms: TimeMs, slice_ms: f64) -> BTreeMap<usize, Vec<Layer>> {
    let mut slices: Vec<BTreeMap<(Class, usize), f64>> = vec![BTreeMap::new(); SLICES];
    for (n, group) in groups.iter().enumerate() {
        for interval in group.iter().flat_map(|s| &s.parts) {
            let (from, to) = ((interval.start_ms - start_ms) as f64, (interval.end_ms - start_ms) as f64);
            let density = interval.ms as f64 / (to - from).max(1.0);
            let first = (from / slice_ms).max(0.0) as usize;
            for (slice, sums) in slices.iter_mut().enumerate().skip(first) {
                let (left, right) = (slice as f64 * slice_ms, (slice + 1) as f64 * slice_ms);
                if left >= to {
                    break;
                }
                *sums.entry((interval.class, n)).or_default() += (right.min(to) - left.max(from)).max(0.0) * density;
            }
        }
    }
    let mut rects: BTreeMap<(usize, Class), Vec<Rect>> = BTreeMap::new();
    for (slice, sums) in slices.iter().enumerate() {
        let mut y = 0.0;
        for ((class, n), ms) in sums.iter().filter(|(_, ms)| **ms > 0.0) {
            let height = ms / slice_ms * HEIGHT;
            extend(rects.entry((*n, *class)).or_default(), Rect { from: slice, to: slice + 1, y, height });
            y += height;
        }
    }
    let mut layers: BTreeMap<usize, Vec<Layer>> = BTreeMap::new();
    for ((n, class), rects) in rects {
        let shape = rects.iter().map(path).collect();
        layers.entry(n).or_default().push(Layer { class: class.name(), shape });
    }
    layers
}

/// Neighbours that differ by less than a hundredth of the strip's height are one.
fn extend(rects: &mut Vec<Rect>, next: Rect) {
    let same = |a: f64, b: f64| (a - b).abs() < HEIGHT / 100.0;
    match rects.last_mut() {
        Some(last) if last.to == next.from && same(last.y, next.y) && same(last.height, next.height) => {
            last.to = next.to;
        }
        _ => rects.push(next),
    }
}

fn path(rect: &Rect) -> String {
    let x = |slice: usize| slice as f64 * WIDTH / SLICES as f64;
    let [left, y, width, height] = [x(rect.from), rect.y, x(rect.to - rect.from), rect.height].map(text::fixed);
    format!("M{left} {y}h{width}v{height}h-{width}z")
}

/// What a strip cannot show, to be read below it.
pub(super) fn resolution(chosen: &Chosen) -> String {
    let slice = length((chosen.length_ms() as f64 / SLICES as f64) as i64);
    format!(
        "Classes are stacked by their share of the time. Stretches shorter than {slice} are drawn together with their \
         neighbours; a shorter period shows each."
    )
}
