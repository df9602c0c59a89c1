//! The timeline of one GPU: what a stretch was long enough for is drawn as itself, shorter ones are drawn together.
//!
//! Time is divided into as many slices as a wide screen can tell apart. In each slice the classes are stacked by their
//! share of it, so that what is drawn is what is stored, and a week of minutes is no more shapes than a day.

use std::collections::BTreeMap;
use std::ops::Range;

use super::chosen::Chosen;
use super::clock::{HOUR_MS, length};
use super::link;
use super::share::LEAST_LABELLED;
use super::stretch::Stretch;
use crate::report::text;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Class, Interval};

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
    /// Where the letter of the class stands, in percent of the strip's width and height.
    pub(super) letters: Vec<(String, String)>,
    pub(super) letter: &'static str,
}

/// The least share of a slice in which a letter has room, in percent.
const LEAST_HIGH: f64 = 30.0;

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
    let start = range.start - chosen.clock.past_hour(range.start);
    let into = chosen.clock.past_hour(range.end);
    start..if into == 0 { range.end } else { range.end - into + HOUR_MS }
}

/// A rectangle over some slices.
struct Rect {
    from: usize,
    to: usize,
    y: f64,
    height: f64,
}

/// Milliseconds of each class and group in each slice.
type Slices = Vec<BTreeMap<(Class, usize), f64>>;

/// Spreads the groups over the slices. An interval knows its milliseconds, not when within it they were: short intervals
/// are laid out first, and longer ones into the room that these leave, so that no slice is fuller than its time.
fn spread(groups: &[Vec<&Stretch<'_>>], start_ms: TimeMs, slice_ms: f64) -> Slices {
    let numbered = groups.iter().enumerate().flat_map(|(n, group)| group.iter().map(move |stretch| (n, stretch)));
    let mut parts: Vec<(usize, &Interval)> =
        numbered.flat_map(|(n, stretch)| stretch.parts.iter().map(move |interval| (n, *interval))).collect();
    parts.sort_by_key(|(_, i)| (i.end_ms - i.start_ms, i.start_ms));
    let mut slices: Slices = vec![BTreeMap::new(); SLICES];
    let mut left = [slice_ms; SLICES];
    for (n, interval) in parts {
        let (from, to) = ((interval.start_ms - start_ms) as f64, (interval.end_ms - start_ms) as f64);
        let first = (from / slice_ms).max(0.0) as usize;
        let touched = first..((to / slice_ms).ceil() as usize).min(SLICES);
        let room = |slice: usize| {
            let overlap = to.min((slice + 1) as f64 * slice_ms) - from.max(slice as f64 * slice_ms);
            left[slice].min(overlap.max(0.0))
        };
        let rooms: Vec<(usize, f64)> = touched.map(|slice| (slice, room(slice))).collect();
        let whole: f64 = rooms.iter().map(|(_, room)| room).sum();
        let filled = (interval.ms as f64 / whole.max(1.0)).min(1.0);
        for (slice, room) in rooms {
            left[slice] -= room * filled;
            *slices[slice].entry((interval.class, n)).or_default() += room * filled;
        }
    }
    slices
}

/// The shapes of each group: per slice, the classes are stacked by share, and equal neighbours are drawn as one.
fn shapes(groups: &[Vec<&Stretch<'_>>], start_ms: TimeMs, slice_ms: f64) -> BTreeMap<usize, Vec<Layer>> {
    let slices = spread(groups, start_ms, slice_ms);
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
        let layer = Layer { class: class.name(), shape, letters: letters(&rects), letter: class.info().key };
        layers.entry(n).or_default().push(layer);
    }
    layers
}

/// Where a class has room for its letter: in the middle of each run of slices in which it is high enough, where that is as
/// wide as the letter on a telephone.
fn letters(rects: &[Rect]) -> Vec<(String, String)> {
    let high: Vec<&Rect> = rects.iter().filter(|rect| rect.height / HEIGHT * 100.0 >= LEAST_HIGH).collect();
    let runs = high.chunk_by(|one, next| one.to == next.from);
    runs.filter_map(|run| {
        let (from, to) = (run.first()?.from, run.last()?.to);
        let width = (to - from) as f64 / SLICES as f64 * 100.0;
        let middle = (from + to) as f64 / 2.0;
        let rect = run.iter().find(|rect| middle <= rect.to as f64)?;
        let height = (rect.y + rect.height / 2.0) / HEIGHT * 100.0;
        (width >= LEAST_LABELLED).then(|| (text::fixed(middle / SLICES as f64 * 100.0), text::fixed(height)))
    })
    .collect()
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

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::clock::{Clock, MINUTE_MS};
    use super::super::stretch::stretches;
    use super::*;
    use goodput_testing::bare;

    fn interval(class: Class, start_min: i64, end_min: i64, ms: i64) -> Interval {
        Interval { ms, confidence: 1.0, ..bare(class, start_min * MINUTE_MS..end_min * MINUTE_MS) }
    }

    /// Twelve minutes of starving in an hour that is productive else: the hour's mean must not lie over them.
    #[test]
    fn no_slice_is_fuller_than_its_time_and_nothing_is_lost() {
        let starved = 12 * MINUTE_MS * 9 / 10;
        let all =
            [interval(Class::DataloaderStorage, 0, 12, starved), interval(Class::Productive, 0, 60, HOUR_MS - starved)];
        let stretches = stretches(&all);
        let slice_ms = HOUR_MS as f64 / SLICES as f64;
        let slices = spread(&groups(&stretches, 0, slice_ms), 0, slice_ms);
        let sums: Vec<f64> = slices.iter().map(|slice| slice.values().sum()).collect();
        assert!(sums.iter().all(|sum| (sum - slice_ms).abs() < 1.0), "{sums:?}");
        assert!((slices[0][&(Class::DataloaderStorage, 1)] / slice_ms - 0.9).abs() < 1e-9, "{:?}", slices[0]);
    }

    #[test]
    fn a_class_has_its_letter_where_it_is_wide_and_high_enough() {
        let rect = |from, to, y, height| Rect { from, to, y, height };
        let at = |rects: &[Rect]| letters(rects);
        // 3 % of 240 slices are 7.2 of them.
        assert_eq!(at(&[rect(0, 7, 0.0, HEIGHT)]), []);
        let place = |x: &str, y: &str| (x.to_owned(), y.to_owned());
        assert_eq!(at(&[rect(0, 8, 0.0, HEIGHT)]), [place("1.67", "50")]);
        assert_eq!(at(&[rect(0, 8, 0.0, HEIGHT * 0.29)]), [], "too low");
        let neighbours = [rect(0, 4, 0.0, 8.0), rect(4, 8, 2.0, 10.0), rect(9, 120, 10.0, 10.0)];
        assert_eq!(at(&neighbours), [place("1.67", "20"), place("26.88", "75")]);
    }

    /// A week in which a GPU changes its class every minute.
    #[test]
    fn ten_thousand_stretches_are_few_links_and_shapes() {
        const MINUTES: i64 = 7 * 24 * 60;
        let class = |minute| if minute % 2 == 0 { Class::Productive } else { Class::Checkpoint };
        let all: Vec<Interval> = (0..MINUTES).map(|m| interval(class(m), m, m + 1, MINUTE_MS)).collect();
        let clock = Clock { zone: TimeZone::UTC };
        let chosen = Chosen::hours(&(0..MINUTES * MINUTE_MS), MINUTES * MINUTE_MS, clock);
        let marks = marks(&stretches(&all), "GPU-a", &chosen);
        assert_eq!(marks.len(), 8);
        assert!(marks.iter().all(|mark| mark.layers.len() == 2));
        let label =
            "1260 short stretches, Thu 01 Jan 1970 00:00–21:00: productive 10.5 GPU-hours, checkpoint 10.5 GPU-hours";
        assert_eq!(marks[0].label, label);
        assert!(marks[0].href.ends_with("?start=1970-01-01T00:00:00Z&end=1970-01-01T21:00:00Z"), "{}", marks[0].href);
    }
}
