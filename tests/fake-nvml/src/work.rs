//! GPU work over time, and its averages over any window.
//!
//! Work is a sum of intervals, each with a level per [`Channel`]. Levels are integers, so that what a stop takes away is
//! exactly what the start had added, and a GPU without work is at zero and not at a rounding error.

use serde::Deserialize;
use std::collections::BTreeMap;

/// What work uses. Percentages are of the whole device, rates are bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    /// A kernel is running (GPU utilization; GPM graphics utilization), percent.
    Gpu,
    /// Device memory is read or written (memory utilization), percent.
    Memory,
    Encoder,
    Decoder,
    /// Streaming multiprocessors active (GPM), percent; power follows it.
    Sm,
    Occupancy,
    Tensor,
    /// Memory bandwidth used (GPM), percent.
    Dram,
    Fp64,
    Fp32,
    Fp16,
    PcieTx,
    PcieRx,
    NvlinkTx,
    NvlinkRx,
}

const CHANNELS: usize = 15;
/// Percentages are kept in thousandths.
const PERCENT: i64 = 1000;

impl Channel {
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Channel::PcieTx | Channel::PcieRx | Channel::NvlinkTx | Channel::NvlinkRx)
    }

    fn scale(self) -> i64 {
        if self.is_rate() { 1 } else { PERCENT }
    }
}

/// A level per channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Levels([i64; CHANNELS]);

impl Levels {
    /// The levels of a `load` object. What it leaves out is as gpu-burn on an H100: kernels all the time, memory 10 %,
    /// no codecs and no link traffic; multiprocessors follow `gpu`, half of them occupied and in the tensor pipe.
    pub(crate) fn from_load(load: &BTreeMap<Channel, f64>) -> Result<Self, String> {
        let given = |channel: Channel| load.get(&channel).copied();
        let gpu = given(Channel::Gpu).unwrap_or(100.0);
        let sm = given(Channel::Sm).unwrap_or(gpu);
        let mut levels = Levels::default();
        let defaults = [
            (Channel::Gpu, gpu),
            (Channel::Sm, sm),
            (Channel::Memory, gpu / 10.0),
            (Channel::Dram, gpu / 10.0),
            (Channel::Occupancy, sm / 2.0),
            (Channel::Tensor, sm / 2.0),
        ];
        for (channel, value) in defaults.into_iter().chain(load.iter().map(|(c, v)| (*c, *v))) {
            let most = if channel.is_rate() { 1e12 } else { 100.0 };
            if !(0.0..=most).contains(&value) {
                return Err(format!("load {channel:?} is {value}, expected 0 to {most}"));
            }
            levels.0[channel as usize] = (value * channel.scale() as f64).round() as i64;
        }
        Ok(levels)
    }

    /// This many parts of the whole; the amount that goes over links is the same for both.
    pub(crate) fn share(&self, parts: u32, whole: u32) -> Levels {
        let of = |channel: Channel| match self.0[channel as usize] {
            rate if channel.is_rate() => rate,
            level => level * i64::from(parts) / i64::from(whole),
        };
        Levels(ALL.map(of))
    }

    fn add(&mut self, other: &Levels, times: i64) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, level)| *sum += times * level);
    }

    /// The level of the channel, percentages capped at 100: two kernels at once do not make 200 %.
    fn of(&self, channel: Channel) -> f64 {
        let sum = self.0[channel as usize];
        let capped = if channel.is_rate() { sum } else { sum.min(100 * PERCENT) };
        capped as f64 / channel.scale() as f64
    }
}

/// Levels from `at_us` on, with the integral of everything before.
#[derive(Debug, Clone)]
struct Point {
    at_us: u64,
    sum: Levels,
    area: [f64; CHANNELS],
}

/// Integral of every channel from the beginning: level times microseconds.
pub(crate) type Area = [f64; CHANNELS];

/// The average of the channel between two integrals taken `us` microseconds apart.
pub(crate) fn average(channel: Channel, from: &Area, to: &Area, us: u64) -> f64 {
    if us == 0 { 0.0 } else { (to[channel as usize] - from[channel as usize]) / us as f64 }
}

/// The work of one GPU or one process, piecewise constant.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    points: Vec<Point>,
}

impl Timeline {
    /// Adds work from `from_us` to `to_us`; without an end it goes on until [`Timeline::end`].
    pub(crate) fn begin(&mut self, from_us: u64, to_us: Option<u64>, levels: &Levels) {
        self.change(from_us, to_us, levels, 1);
    }

    /// Ends at `at_us` work that was begun without an end.
    pub(crate) fn end(&mut self, at_us: u64, levels: &Levels) {
        self.change(at_us, None, levels, -1);
    }

    fn change(&mut self, from_us: u64, to_us: Option<u64>, levels: &Levels, times: i64) {
        let first = self.split(from_us);
        let last = to_us.map_or(self.points.len(), |at| self.split(at));
        for point in &mut self.points[first..last] {
            point.sum.add(levels, times);
        }
        for i in first + 1..self.points.len() {
            self.points[i].area = self.points[i - 1].area_at(self.points[i].at_us);
        }
    }

    /// The index of the point at `at_us`, made if need be.
    fn split(&mut self, at_us: u64) -> usize {
        let next = self.points.partition_point(|p| p.at_us < at_us);
        if self.points.get(next).is_none_or(|p| p.at_us != at_us) {
            let sum = if next == 0 { Levels::default() } else { self.points[next - 1].sum };
            self.points.insert(next, Point { at_us, sum, area: self.area(at_us) });
        }
        next
    }

    fn point_at(&self, at_us: u64) -> Option<&Point> {
        self.points.partition_point(|p| p.at_us <= at_us).checked_sub(1).map(|i| &self.points[i])
    }

    /// The integral of all channels up to `at_us`.
    pub(crate) fn area(&self, at_us: u64) -> Area {
        self.point_at(at_us).map_or([0.0; CHANNELS], |p| p.area_at(at_us))
    }

    /// The average level over `[from_us, to_us)`.
    pub(crate) fn average(&self, channel: Channel, from_us: u64, to_us: u64) -> f64 {
        average(channel, &self.area(from_us), &self.area(to_us), to_us.saturating_sub(from_us))
    }
}

const ALL: [Channel; CHANNELS] = [
    Channel::Gpu,
    Channel::Memory,
    Channel::Encoder,
    Channel::Decoder,
    Channel::Sm,
    Channel::Occupancy,
    Channel::Tensor,
    Channel::Dram,
    Channel::Fp64,
    Channel::Fp32,
    Channel::Fp16,
    Channel::PcieTx,
    Channel::PcieRx,
    Channel::NvlinkTx,
    Channel::NvlinkRx,
];

impl Point {
    fn area_at(&self, at_us: u64) -> Area {
        let us = (at_us - self.at_us) as f64;
        std::array::from_fn(|i| self.area[i] + self.sum.of(ALL[i]) * us)
    }
}

/// A ring buffer of the driver: averages over a fixed grid of the wall clock, so that every reader sees the same samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub period_us: u64,
    pub depth: u64,
}

/// A sample appears this long after its period: a line appended while its own moment passes still counts.
const SETTLE_US: u64 = 50_000;

impl Grid {
    /// Utilization and clocks of a node that says nothing else. The NVML reference (`nvmlUtilization_t`) gives the period as
    /// 1/6 s to 1 s by product; the depth is that of the 119 samples which `nvidia-smi` is seen to summarise, and the one in
    /// the making.
    pub(crate) const UTILIZATION: Grid = Grid { period_us: 166_667, depth: 120 };

    /// Power of a node that says nothing else. The period differs by product and is not documented; this one is chosen to
    /// be unlike that of utilization.
    pub(crate) const POWER: Grid = Grid { period_us: 20_000, depth: 120 };

    /// With another period, of no more than a second; `key` is what the node line calls it.
    pub(crate) fn with_period(self, key: &str, period_us: u64) -> Result<Grid, String> {
        let known = self.period_us..=1_000_000;
        if known.contains(&period_us) {
            return Ok(Grid { period_us, ..self });
        }
        Err(format!("{key} is {period_us}, expected {} to 1000000", self.period_us))
    }

    /// The end of the newest complete period.
    pub(crate) fn newest(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(SETTLE_US) / self.period_us * self.period_us
    }

    /// The ends of the kept periods after `seen_us`, oldest first.
    pub(crate) fn since(&self, seen_us: u64, now_us: u64) -> impl Iterator<Item = u64> + use<> {
        let (newest, period) = (self.newest(now_us), self.period_us);
        let oldest = newest.saturating_sub((self.depth - 1) * period);
        let first = if seen_us < oldest { oldest } else { (seen_us / period + 1).saturating_mul(period) };
        (0..).map(move |i| first + i * period).take_while(move |end| *end <= newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Levels {
        Levels::from_load(&BTreeMap::new()).unwrap()
    }

    fn busy(timeline: &Timeline, from_us: u64, to_us: u64) -> f64 {
        timeline.average(Channel::Gpu, from_us, to_us)
    }

    #[test]
    fn channels_are_listed_in_order() {
        assert!(ALL.iter().enumerate().all(|(i, channel)| *channel as usize == i));
    }

    #[test]
    fn averages_are_exact_over_any_window_in_any_order_of_arrival() {
        let mut t = Timeline::default();
        t.begin(1_000, Some(2_000), &full());
        t.begin(5_000, Some(6_000), &full());
        t.begin(3_000, Some(3_500), &full());
        assert_eq!(busy(&t, 0, 10_000), 25.0);
        assert_eq!(busy(&t, 1_500, 2_500), 50.0);
        assert_eq!(busy(&t, 6_000, 7_000), 0.0);
        assert_eq!(busy(&t, 7_000, 7_000), 0.0);
    }

    #[test]
    fn overlapping_work_is_capped_at_the_whole_device() {
        let mut t = Timeline::default();
        t.begin(0, Some(1_000), &full());
        t.begin(500, Some(1_500), &full());
        assert_eq!(busy(&t, 0, 1_500), 100.0);
        assert_eq!(busy(&t, 0, 3_000), 50.0);
    }

    #[test]
    fn open_work_lasts_until_it_is_ended_and_leaves_exactly_nothing() {
        let (mut t, third) = (Timeline::default(), Levels::from_load(&BTreeMap::from([(Channel::Gpu, 33.3)])).unwrap());
        t.begin(0, None, &third);
        t.begin(10, None, &full());
        assert_eq!(busy(&t, 50, 1 << 40), 100.0);
        t.end(100, &full());
        t.end(200, &third);
        assert_eq!(busy(&t, 100, 200), 33.3);
        assert_eq!(busy(&t, 200, 1 << 50), 0.0);
    }

    #[test]
    fn a_load_is_checked_and_completed() {
        let load = Levels::from_load(&BTreeMap::from([(Channel::Gpu, 91.0), (Channel::Sm, 16.0)])).unwrap();
        assert_eq!((load.of(Channel::Gpu), load.of(Channel::Sm), load.of(Channel::Tensor)), (91.0, 16.0, 8.0));
        let error = Levels::from_load(&BTreeMap::from([(Channel::Gpu, 101.0)])).unwrap_err();
        assert_eq!(error, "load Gpu is 101, expected 0 to 100");
        assert!(Levels::from_load(&BTreeMap::from([(Channel::PcieRx, f64::NAN)])).is_err());
    }

    #[test]
    fn the_grid_gives_each_period_once_and_forgets_the_oldest() {
        let grid = Grid { period_us: 100, depth: 3 };
        let now = 1_000 + SETTLE_US;
        assert_eq!(grid.since(0, now).collect::<Vec<_>>(), [800, 900, 1000]);
        assert_eq!(grid.since(900, now).collect::<Vec<_>>(), [1000]);
        assert_eq!(grid.since(1000, now + 99).count(), 0);
        assert_eq!(grid.since(1000, now + 100).collect::<Vec<_>>(), [1100]);
        assert_eq!(grid.since(u64::MAX, now).count(), 0);
    }
}
