//! Values of a GPU that are none: an exporter that goes on to hand out its last ones, and rows of zeros of a GPU that gives
//! no answer.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::identity::Target;
use super::piece::STALENESS_MS;
use super::{DEFAULT_INTERVAL_MS, Source};
use crate::signal::{Entity, Kind, Signal};
use goodput_exposition::sample::{Sample, TimeMs};

type Spans<'a> = BTreeMap<Target<'a>, Vec<Range<TimeMs>>>;

/// When what a target says of a GPU is not to be believed.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt<'a> {
    frozen: Arc<Spans<'a>>,
    silent: Arc<Spans<'a>>,
}

impl<'a> Doubt<'a> {
    /// Of the series of one GPU. Values that stand still for `frozen_ms` are frozen where one of them has to move.
    pub(super) fn of(sources: &[&Source<'a>], frozen_ms: i64) -> Self {
        let mut targets: BTreeMap<Target<'a>, Vec<&Source<'a>>> = BTreeMap::new();
        for source in sources {
            targets.entry(source.target).or_default().push(source);
        }
        let (mut frozen, mut silent) = (Spans::new(), Spans::new());
        for (target, sources) in targets {
            let (still, zeros) = (frozen_spans(&sources, frozen_ms), silent_spans(&sources));
            if !still.is_empty() {
                frozen.insert(target, still);
            }
            if !zeros.is_empty() {
                silent.insert(target, zeros);
            }
        }
        Doubt { frozen: Arc::new(frozen), silent: Arc::new(silent) }
    }

    /// When the series is no reading, in two lists.
    pub(super) fn of_source(&self, source: &Source<'_>) -> [&[Range<TimeMs>]; 2] {
        // Who holds a GPU is not read from it.
        let silent = (source.meaning.signal.kind() != Kind::State).then_some(&self.silent);
        [Some(&self.frozen), silent].map(|spans| {
            let of_target = spans.and_then(|spans| spans.iter().find(|(target, _)| **target == source.target));
            of_target.map_or(&[][..], |(_, spans)| spans)
        })
    }

    pub(super) fn frozen(&self) -> Vec<Range<TimeMs>> {
        self.frozen.values().flatten().cloned().collect()
    }

    pub(super) fn silent(&self) -> Vec<Range<TimeMs>> {
        self.silent.values().flatten().cloned().collect()
    }
}

/// Spans in which no value of the target changes in its last bit for as long, though one has to.
fn frozen_spans(sources: &[&Source<'_>], frozen_ms: i64) -> Vec<Range<TimeMs>> {
    let quiet = quiet(sources, frozen_ms);
    let interval = sources.iter().filter_map(|s| s.interval_ms()).min().unwrap_or(DEFAULT_INTERVAL_MS);
    let still = |quiet: Range<TimeMs>| {
        let last = sources.iter().filter_map(|s| last_before(s.samples, quiet.end)).max()?;
        Some(quiet.start..quiet.end.min(last + interval.min(STALENESS_MS)))
    };
    let spans = quiet.into_iter().filter_map(still).filter(|span| span.end - span.start >= frozen_ms);
    spans.filter(|span| has_to_move(sources, span, frozen_ms)).collect()
}

/// The stretches, from one change to the next of any of the series, that are at least this long. One series that moves
/// leaves next to nothing of them, so that the others are looked at only there.
fn quiet(sources: &[&Source<'_>], least_ms: i64) -> Vec<Range<TimeMs>> {
    let mut quiet: Vec<Range<TimeMs>> = iter::once(TimeMs::MIN..TimeMs::MAX).collect();
    for source in sources {
        let split = |stretch: Range<TimeMs>| {
            let mut parts = Vec::new();
            let end = changes_within(source.samples, &stretch).fold(stretch.start, |start, change| {
                parts.push(start..change);
                change
            });
            parts.push(end..stretch.end);
            parts
        };
        quiet = quiet.into_iter().flat_map(split).filter(|s| s.end.saturating_sub(s.start) >= least_ms).collect();
    }
    // What comes before the first change of all is before the first sample.
    quiet.retain(|stretch| stretch.start > TimeMs::MIN);
    quiet
}

fn last_before(samples: &[Sample], time: TimeMs) -> Option<TimeMs> {
    samples[..samples.partition_point(|s| s.time_ms < time)].last().map(|s| s.time_ms)
}

/// When the series begins, begins again or has another value.
fn changes(samples: &[Sample]) -> impl Iterator<Item = TimeMs> {
    let changed = |pair: &&[Sample]| {
        let is_hole = pair[1].time_ms - pair[0].time_ms > STALENESS_MS;
        is_hole || pair[0].value.to_bits() != pair[1].value.to_bits()
    };
    let first = samples.first().map(|s| s.time_ms);
    first.into_iter().chain(samples.windows(2).filter(changed).map(|pair| pair[1].time_ms))
}

/// Those between the borders of the stretch.
fn changes_within(samples: &[Sample], stretch: &Range<TimeMs>) -> impl Iterator<Item = TimeMs> {
    let (from, to) = (stretch.start, stretch.end);
    // The sample before the first of them tells whether that one is a change.
    let before = samples.partition_point(|s| s.time_ms <= from).saturating_sub(1);
    changes(&samples[before..]).skip_while(move |time| *time <= from).take_while(move |time| *time < to)
}

/// Is there a value that moves as long as it is read: a counter of energy or of observed time, or the power of a board at
/// work?
fn has_to_move(sources: &[&Source<'_>], span: &Range<TimeMs>, frozen_ms: i64) -> bool {
    let value = |source: &Source<'_>| {
        let at = source.samples.partition_point(|s| s.time_ms < span.start);
        let sample = source.samples.get(at).filter(|s| s.time_ms < span.end)?;
        Some(sample.value * source.meaning.scale).filter(|value| source.meaning.signal.admits(*value))
    };
    let of = |signal| sources.iter().filter(move |s| s.meaning.signal == signal);
    // A counter that never moved is one that the board does not have.
    let counts = |signal| of(signal).filter_map(|s| value(s)).any(|value| value > 0.0);
    if counts(Signal::GpuEnergy) || counts(Signal::GpuObserved) {
        return true;
    }
    let works = |signal| of(signal).filter_map(|s| value(s)).any(|share| share > WORK);
    let had_work = works(Signal::GpuUtilization) || works(Signal::GrEngineActive) || works(Signal::SmActive);
    let is_long = span.end - span.start >= frozen_ms.saturating_mul(LONG);
    let moves = |source: &&Source<'_>| {
        value(source).is_some_and(|value| is_lively(source, span) || is_long && is_fine(source.meaning.signal, value))
    };
    had_work && sources.iter().filter(|s| MOVING.contains(&s.meaning.signal)).any(moves)
}

/// Share of time from which a GPU had work.
const WORK: f64 = 0.01;

/// What differs from reading to reading while a GPU works.
const MOVING: [Signal; 5] =
    [Signal::GpuPower, Signal::GrEngineActive, Signal::SmActive, Signal::TensorActive, Signal::DramActive];

/// Changes of a value around, from which it moved before it stood still or after.
const LIVELY_CHANGES: usize = 5;

/// How many times as long a value with decimals stands still, until that proves it by itself: two hours. No
/// recorded run has two such readings in a row that agree.
const LONG: i64 = 12;

fn is_lively(source: &Source<'_>, span: &Range<TimeMs>) -> bool {
    changes(source.samples).filter(|time| !(span.start..=span.end).contains(time)).count() > LIVELY_CHANGES
}

/// Has the value more decimals than people write? Power has thousandths of a watt, as the driver tells it, and means of
/// activity have six. Whole numbers repeat.
fn is_fine(signal: Signal, value: f64) -> bool {
    match signal {
        Signal::GpuPower => value.fract() != 0.0,
        _ => value < 1.0 && (value * 1e3).fract() != 0.0,
    }
}

/// Levels that are all zero where a GPU gives no answer.
const LEVELS: [Signal; 11] = [
    Signal::GpuPower,
    Signal::GpuUtilization,
    Signal::MemoryCopyUtilization,
    Signal::GrEngineActive,
    Signal::SmActive,
    Signal::TensorActive,
    Signal::DramActive,
    Signal::FbUsed,
    Signal::FbFree,
    Signal::FbTotal,
    Signal::SmClock,
];

/// Spans in which every level of the GPU is zero, among them its power or all of its memory.
fn silent_spans(sources: &[&Source<'_>]) -> Vec<Range<TimeMs>> {
    let levels = || sources.iter().filter(|s| LEVELS.contains(&s.meaning.signal));
    let of = |signal| sources.iter().filter(move |s| s.meaning.signal == signal);
    // Instances share one power, and have memory of their own.
    if levels().any(|s| matches!(s.meaning.entity, Entity::MigInstance(..))) {
        return Vec::new();
    }
    let has_memory =
        of(Signal::FbUsed).next().is_some() && of(Signal::FbFree).chain(of(Signal::FbTotal)).next().is_some();
    let asked = of(Signal::GpuPower).next().or_else(|| of(Signal::FbUsed).next().filter(|_| has_memory));
    let Some(asked) = asked.filter(|_| levels().count() > 1) else { return Vec::new() };
    let mut spans = Vec::new();
    for (n, sample) in asked.samples.iter().enumerate().filter(|(_, sample)| sample.value == 0.0) {
        let is_zero = |source: &&&Source<'_>| {
            let at = source.samples.partition_point(|s| s.time_ms < sample.time_ms);
            let same = source.samples.get(at).filter(|s| s.time_ms == sample.time_ms && s.value.is_finite());
            same.is_none_or(|s| s.value == 0.0)
        };
        if levels().all(|source| is_zero(&source)) {
            let next = asked.samples.get(n + 1).map_or(TimeMs::MAX, |s| s.time_ms);
            spans.push(sample.time_ms..next.min(sample.time_ms + STALENESS_MS));
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use goodput_exposition::sample::{Labels, Series};

    type Wave = dyn Fn(i64) -> f64;

    /// Minutes that are frozen and silent, of forty scraped every 30 s.
    fn doubted(metrics: &[(&str, &Wave)]) -> (i64, i64) {
        let series = |(name, wave): &(&str, &Wave)| Series {
            labels: Labels::new([("__name__", *name), ("UUID", "GPU-1")]),
            samples: (0..80).map(|n| Sample { time_ms: n * 30_000, value: wave(n) }).collect(),
        };
        let series: Vec<Series> = metrics.iter().map(series).collect();
        let sources = sources(&series);
        let doubt = Doubt::of(&sources.iter().collect::<Vec<_>>(), 600_000);
        let minutes = |spans: Vec<Range<TimeMs>>| spans.iter().map(|s| s.end - s.start).sum::<i64>() / 60_000;
        (minutes(doubt.frozen()), minutes(doubt.silent()))
    }

    const UTIL: &str = "DCGM_FI_DEV_GPU_UTIL";
    const POWER: &str = "DCGM_FI_DEV_POWER_USAGE";
    const ENERGY: &str = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION";
    const USED: &str = "DCGM_FI_DEV_FB_USED";
    const FREE: &str = "DCGM_FI_DEV_FB_FREE";

    #[test]
    fn values_that_stand_still_at_work_are_old() {
        let power = |n: i64| 500.125 + (n.min(40) * 7 % 40) as f64;
        assert_eq!(doubted(&[(UTIL, &|_| 93.0), (POWER, &power)]).0, 20);
        let whole = |n: i64| 500.0 + (n.min(40) * 7 % 40) as f64;
        assert_eq!(doubted(&[(UTIL, &|_| 93.0), (POWER, &whole)]).0, 20, "it moved before");
        let short = |n: i64| if (40..55).contains(&n) { 500.5 } else { 510.5 + n as f64 };
        assert_eq!(doubted(&[(UTIL, &|_| 93.0), (POWER, &short)]).0, 0, "less than ten minutes");
        assert_eq!(doubted(&[(UTIL, &|n| (n % 50) as f64), (POWER, &power)]).0, 0, "another value moves");
        assert_eq!(doubted(&[(UTIL, &|_| 93.0), (POWER, &|_| 500.125)]).0, 0, "less than two hours");
    }

    #[test]
    fn an_energy_counter_that_stands_still_with_the_rest_is_old() {
        assert_eq!(doubted(&[(UTIL, &|_| 0.0), (POWER, &|_| 31.0), (ENERGY, &|_| 4.2e9)]).0, 40);
        assert_eq!(doubted(&[(UTIL, &|_| 0.0), (POWER, &|_| 31.0), (ENERGY, &|n| 4.2e9 + 930.0 * n as f64)]).0, 0);
    }

    #[test]
    fn whole_numbers_of_an_idle_board_repeat() {
        assert_eq!(doubted(&[(UTIL, &|_| 0.0), (POWER, &|_| 31.0), (USED, &|_| 20_000.0)]).0, 0);
        assert_eq!(doubted(&[(UTIL, &|_| 0.0), (POWER, &|_| 31.0), (ENERGY, &|_| 0.0)]).0, 0, "it has no counter");
        assert_eq!(doubted(&[(UTIL, &|_| 90.0), (POWER, &|_| 70.0)]).0, 0, "at its limit all the time");
    }

    #[test]
    fn a_row_of_zeros_is_no_reading() {
        let zero: &Wave = &|_| 0.0;
        assert_eq!(doubted(&[(UTIL, zero), (POWER, zero), (USED, zero), (FREE, zero)]).1, 40 + 4);
        assert_eq!(doubted(&[(UTIL, zero), (USED, zero), (FREE, zero)]).1, 40 + 4);
        assert_eq!(doubted(&[(UTIL, zero), (POWER, zero), (FREE, &|_| 80_000.0)]).1, 0, "power alone is missing");
        assert_eq!(doubted(&[(UTIL, zero), (USED, zero), (FREE, &|_| 80_000.0)]).1, 0, "a bare GPU");
        assert_eq!(doubted(&[(UTIL, zero), (POWER, &|_| 67.0), (USED, zero)]).1, 0);
    }
}
