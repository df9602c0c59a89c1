//! Geometry of the charts: plain numbers, so that the template only writes them down.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt as _};

use super::Period;
use super::summed::Item;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Class, RollUp, Stretch};

/// Width of every chart, in units of its view box.
pub(super) const WIDTH: f64 = 1000.0;
/// Height of a GPU's lane in the timeline.
const LANE_HEIGHT: f64 = 16.0;
/// A letter has room in half of a lane, and in 3 % of its width.
const LEAST_HIGH: f64 = 8.0;
const LEAST_WIDE: f64 = 30.0;
/// A page shows this many GPUs, those that lost most; a thousand lanes would be neither read nor printed.
const MAX_LANES: usize = 48;
/// Slices of a lane: one hour each in a whole week.
const SLICES: i64 = 168;

/// What each GPU's time went into, slice by slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The time that is drawn: the part of the period that is accounted for, in full hours.
    pub axis: Period,
    slice_ms: f64,
    /// Those that lost most, by node and UUID.
    pub lanes: Vec<Lane>,
    /// GPUs for which there was no room.
    pub left_out: usize,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its node.
    pub node: String,
    /// Its UUID.
    pub gpu: String,
    slices: Vec<BTreeMap<Class, f64>>,
}

/// A mark on a time axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where it stands.
    pub x: f64,
    /// The time, to be read.
    pub label: String,
}

/// The marks of an axis.
pub(super) fn ticks(axis: &Period) -> Vec<Tick> {
    let x = |time: TimeMs| (time - axis.start_ms) as f64 / axis.length_ms() as f64 * WIDTH;
    axis.ticks().into_iter().map(|(time, label)| Tick { x: x(time), label }).collect()
}

/// A rectangle of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// The class, which is its colour.
    pub class: Class,
    /// First instant.
    pub start_ms: TimeMs,
    /// First instant after it.
    pub end_ms: TimeMs,
    /// Share of the class in this stretch of time.
    pub share: f64,
}

impl Timeline {
    /// The lanes of these items, without any time.
    pub(super) fn of(items: &[Item<'_>], axis: Period) -> Self {
        let slice_ms = axis.length_ms() as f64 / SLICES as f64;
        let mut lost: HashMap<(&str, &str), i64> = HashMap::new();
        for i in items {
            *lost.entry((&i.node, &i.gpu)).or_default() += if i.class == Class::Productive { 0 } else { i.ms };
        }
        let mut lost: Vec<_> = lost.into_iter().collect();
        lost.sort_unstable_by_key(|(lane, lost_ms)| (std::cmp::Reverse(*lost_ms), *lane));
        let left_out = lost.len().saturating_sub(MAX_LANES);
        lost.truncate(MAX_LANES);
        lost.sort_unstable();
        let lanes = lost.into_iter().map(|((node, gpu), _)| Lane::new(node, gpu)).collect();
        Self { axis, slice_ms, lanes, left_out }
    }

    /// The nodes of all lanes.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        self.lanes.iter().map(|lane| lane.node.clone()).collect()
    }

    /// Draws the time of GPUs that have a lane.
    pub(super) fn add(&mut self, hour: &RollUp) {
        for (allocation, part) in hour.parts() {
            let lane = self
                .lanes
                .binary_search_by(|lane| (lane.node.as_str(), lane.gpu.as_str()).cmp(&(&hour.node, &allocation.gpu)));
            let Ok(lane) = lane else { continue };
            for stretch in &part.stretches {
                self.spread(part.class, stretch, lane);
            }
        }
    }

    /// Spreads the milliseconds of a stretch evenly over the slices that it touches.
    fn spread(&mut self, class: Class, stretch: &Stretch, lane: usize) {
        let from = (stretch.start_ms - self.axis.start_ms) as f64;
        let to = (stretch.end_ms - self.axis.start_ms) as f64;
        let density = stretch.ms as f64 / (to - from).max(1.0);
        let first = (from / self.slice_ms).floor().max(0.0) as usize;
        for (n, slice) in self.lanes[lane].slices.iter_mut().enumerate().skip(first) {
            let (left, right) = (n as f64 * self.slice_ms, (n + 1) as f64 * self.slice_ms);
            if left >= to {
                break;
            }
            *slice.entry(class).or_default() += (right.min(to) - left.max(from)).max(0.0) * density;
        }
    }

    /// The rectangles of a lane: classes of a slice stacked by share, equal neighbours drawn as one.
    #[must_use]
    pub fn marks(&self, lane: &Lane) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        let mut open: BTreeMap<Class, usize> = BTreeMap::new();
        for (n, slice) in lane.slices.iter().enumerate() {
            let mut still_open = BTreeMap::new();
            let mut y = 0.0;
            // Where a slice ends within an hour, its stretches may be spread over more than their part of it.
            let whole = slice.values().sum::<f64>().max(self.slice_ms);
            for (class, ms) in slice.iter().filter(|(_, ms)| **ms > 0.0) {
                let mark = self.mark(n, y, *class, ms / whole);
                y += mark.height;
                let index = match open.get(class) {
                    Some(index) if marks[*index].continues(&mark) => *index,
                    _ => {
                        marks.push(mark.clone());
                        marks.len() - 1
                    }
                };
                marks[index].extend_to(&mark);
                still_open.insert(*class, index);
            }
            open = still_open;
        }
        marks
    }

    /// Where classes have room for their letter, in percent of the lane's width and height: in the middle of the slices in
    /// which one has most of the lane, where these are as wide as the letter on a telephone.
    #[must_use]
    pub fn letters(&self, lane: &Lane) -> Vec<(Class, f64, f64)> {
        let mut by_class: BTreeMap<Class, Vec<Mark>> = BTreeMap::new();
        for mark in self.marks(lane).into_iter().filter(|mark| mark.height >= LEAST_HIGH) {
            by_class.entry(mark.class).or_default().push(mark);
        }
        let is_next = |one: &Mark, next: &Mark| (one.x + one.width - next.x).abs() < 0.01;
        let mut letters = Vec::new();
        for (class, marks) in &by_class {
            for run in marks.chunk_by(is_next) {
                let (from, to) = (run[0].x, run[run.len() - 1].x + run[run.len() - 1].width);
                let middle = f64::midpoint(from, to);
                let mark = run.iter().find(|mark| middle <= mark.x + mark.width).unwrap_or(&run[0]);
                let height = (mark.y + mark.height / 2.0) / LANE_HEIGHT * 100.0;
                if to - from >= LEAST_WIDE {
                    letters.push((*class, middle / WIDTH * 100.0, height));
                }
            }
        }
        letters
    }

    fn mark(&self, slice: usize, y: f64, class: Class, share: f64) -> Mark {
        let width = WIDTH / SLICES as f64;
        Mark {
            x: slice as f64 * width,
            y,
            width,
            height: share * LANE_HEIGHT,
            class,
            start_ms: self.axis.start_ms + (slice as f64 * self.slice_ms) as i64,
            end_ms: self.axis.start_ms + ((slice + 1) as f64 * self.slice_ms) as i64,
            share,
        }
    }
}

impl Lane {
    fn new(node: &str, gpu: &str) -> Self {
        Self { node: node.to_owned(), gpu: gpu.to_owned(), slices: vec![BTreeMap::new(); SLICES as usize] }
    }
}

impl Mark {
    /// Same colour, same place, within a hundredth of a lane.
    fn continues(&self, next: &Self) -> bool {
        let same = |a: f64, b: f64| (a - b).abs() < LANE_HEIGHT / 100.0;
        same(self.y, next.y) && same(self.height, next.height)
    }

    fn extend_to(&mut self, next: &Self) {
        self.width = next.x + next.width - self.x;
        self.end_ms = next.end_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::super::summed::Summed;
    use super::*;
    use goodput_testing::bare;
    use goodput_verdict::Interval;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    fn interval(class: Class, start_ms: TimeMs, hours: i64, ms: i64) -> Interval {
        Interval { ms, ..bare(class, start_ms..start_ms + hours * HOUR) }
    }

    #[test]
    fn slices_hold_what_the_intervals_hold_and_neighbours_are_joined() {
        let week = Period::iso_week("2026-W47", &TimeZone::UTC).unwrap();
        let start = week.start_ms;
        let intervals = [
            interval(Class::Productive, start, 10, 10 * HOUR),
            interval(Class::Productive, start + 10 * HOUR, 2, HOUR),
            interval(Class::IdleHeld, start + 10 * HOUR, 2, HOUR),
        ];
        let mut timeline = Timeline::of(&Summed::of(&intervals, &[]), week);
        RollUp::fold(&intervals).iter().for_each(|hour| timeline.add(hour));
        let lane = &timeline.lanes[0];
        let drawn: f64 = lane.slices.iter().flat_map(|s| s.values()).sum();
        assert!((drawn - 12.0 * HOUR as f64).abs() < 1.0);
        let marks = timeline.marks(lane);
        let shape: Vec<(Class, f64, f64)> = marks.iter().map(|m| (m.class, m.y, m.height)).collect();
        let half = LANE_HEIGHT / 2.0;
        assert_eq!(
            shape,
            [(Class::Productive, 0.0, LANE_HEIGHT), (Class::Productive, 0.0, half), (Class::IdleHeld, half, half)]
        );
        assert_eq!((marks[0].start_ms, marks[0].end_ms), (start, start + 10 * HOUR));
        // Twelve hours of 168 have room for a letter, two of idle time have not.
        let middle = 6.0 / 168.0 * 100.0;
        let letters: Vec<_> =
            timeline.letters(lane).into_iter().map(|(class, x, y)| (class, (x - middle).abs() < 1e-9, y)).collect();
        assert_eq!(letters, [(Class::Productive, true, 50.0)]);
    }

    proptest! {
        /// Whatever the period: a slice of three days is less than half an hour.
        #[test]
        fn no_slice_is_drawn_out_of_its_lane(days in 1_i64..=21, work in 0..=60_i64, idle in 0..=60_i64, until in 1..=4_i64) {
            let [from, to] = [0, days].map(|day| {
                let day = jiff::civil::date(2026, 11, 16).saturating_add(jiff::Span::new().days(day));
                format!("{day}T00:00:00Z")
            });
            let axis = Period::between(&from, &to, &TimeZone::UTC).unwrap();
            let start = axis.start_ms;
            let (work, idle) = (work * HOUR / 60, idle.min(60 - work) * HOUR / 60);
            let hours = (0..24).map(|n| start + n * HOUR).flat_map(|at| {
                let end = at + HOUR / until;
                [
                    Interval { ms: work, ..bare(Class::Productive, at..at + HOUR) },
                    Interval { ms: idle.min(end - at), ..bare(Class::IdleHeld, at..end) },
                ]
            });
            let intervals: Vec<Interval> = hours.filter(|i| i.ms > 0).collect();
            let mut timeline = Timeline::of(&Summed::of(&intervals, &[]), axis);
            RollUp::fold(&intervals).iter().for_each(|hour| timeline.add(hour));
            for mark in timeline.lanes.iter().flat_map(|lane| timeline.marks(lane)) {
                prop_assert!(mark.y + mark.height <= LANE_HEIGHT + 1e-9 && mark.share <= 1.0 + 1e-9, "{mark:?}");
            }
        }
    }
}
