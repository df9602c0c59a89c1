//! From samples to a step function of time, and from that to one reading per cell.

use std::borrow::Cow;
use std::ops::Range;

use crate::signal::{Kind, LADDER, Signal};
use goodput_exposition::sample::{Sample, TimeMs};

/// A level says nothing 5 minutes after its sample (Prometheus' default `query.lookback-delta`), and counters that are
/// further apart are bridged only as [`Reading::coarse`].
pub const STALENESS_MS: i64 = 5 * 60_000;

/// The longest gap that a counter bridges. Longer ones are holes: what happened within is anyone's guess, and it bounds
/// how much data around a window its verdicts depend on.
pub const MAX_BRIDGE_MS: i64 = 30 * 60_000;

/// A constant stretch of a signal: the rate per second of a counter, the level of anything else, in base units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) span: Range<TimeMs>,
    pub(crate) value: f64,
    /// It bridges a gap longer than [`STALENESS_MS`]: the mean is right, the course within is not known.
    pub(crate) coarse: bool,
}

/// One signal in one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Time-weighted mean over the covered time; of a counter, its rate per second.
    pub mean: f64,
    /// The lowest level or rate within.
    pub min: f64,
    /// The highest level or rate within.
    pub max: f64,
    /// How much of the cell the signal is known for.
    pub covered_ms: i64,
    /// Samples within the cell: the density that the reading rests on.
    pub samples: u32,
    /// Part of it bridges a gap in the data.
    pub coarse: bool,
    /// Variance of one value about the course of the signal, by the successive differences of those within
    /// [`STALENESS_MS`] around the cell: s² = Σ (x[i+1] - x[i])² / (2 m) over m differences (von Neumann 1941). `None`
    /// where no two values follow each other, and of signals that do not tell how busy a GPU was.
    pub spread: Option<f64>,
    /// Sum, over the pieces, of their whole length times their part of the cell, in ms²: times `spread` it is the variance
    /// of what was read in the cell, were every piece one sample. Like this, what a piece adds to the cells it lies in is
    /// its length squared.
    pub held_ms2: i64,
}

/// The step function of a series. `samples` are in order of time; values that the signal does not admit, staleness
/// markers among them, end what was known before.
pub(crate) fn pieces(signal: Signal, samples: &[Sample], scale: f64, interval_ms: i64) -> Vec<Piece> {
    let samples: Cow<'_, [Sample]> = match scale {
        1.0 => Cow::Borrowed(samples),
        _ => samples.iter().map(|s| Sample { value: s.value * scale, ..*s }).collect(),
    };
    match signal.kind() {
        Kind::Counter => rates(|value| signal.admits(value), signal.highest_rate(), &samples),
        Kind::Gauge => levels(signal, &samples, interval_ms),
        Kind::Average => averages(signal, &samples),
        Kind::State => {
            let mut pieces = levels(signal, &samples, interval_ms);
            pieces.extend(unchanged(signal, &samples, interval_ms));
            pieces.sort_unstable_by_key(|p| p.span.start);
            pieces
        }
    }
}

/// The step function of a counter that no signal names: any number that is not negative is a value of it.
pub(crate) fn growth(samples: &[Sample]) -> Vec<Piece> {
    rates(|value| value.is_finite() && value >= 0.0, f64::INFINITY, samples)
}

/// A counter that was reset grew from zero to its new value since. One that fell and would have had to grow faster than
/// it can was not reset: one of the two values is wrong, and what it grew by is not known. Nor is it where it rose by more
/// than it can.
fn rates(admits: impl Fn(f64) -> bool, highest: f64, samples: &[Sample]) -> Vec<Piece> {
    let mut admitted: Vec<&Sample> = Vec::with_capacity(samples.len());
    admitted.extend(samples.iter().filter(|s| admits(s.value)));
    let admitted = without_dips(admitted, highest);
    let pair = |pair: &[&Sample]| {
        let (from, to) = (pair[0], pair[1]);
        let length = to.time_ms - from.time_ms;
        let reset = to.value < from.value;
        let coarse = length > STALENESS_MS;
        if length <= 0 || (coarse && (reset || length > MAX_BRIDGE_MS)) {
            return None;
        }
        let amount = if reset { to.value } else { to.value - from.value };
        if !can_grow(amount, length, highest) || (reset && !is_restart(from, to, highest)) {
            return None;
        }
        Some(Piece { span: from.time_ms..to.time_ms, value: amount * 1000.0 / length as f64, coarse })
    };
    in_one_piece(admitted.windows(2).filter_map(pair))
}

/// Collects nearly as many as there may be, without growing on the way.
fn in_one_piece(found: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(found.size_hint().1.unwrap_or_default());
    pieces.extend(found);
    pieces
}

/// How much older than its sample a counter's value may be: exporters hand out what they read up to a minute before
/// (dcgm-exporter's default `--collect-interval` is 30 s), so that the growth of that time comes on top.
const VALUE_AGE_MS: i64 = 60_000;

/// A counter that is at more than this share of its value before was not started from zero in between, but is told by
/// another source, or with less digits. In a scrape interval a restarted counter reaches that of its first minutes only,
/// where nothing much can be wrong.
const RESTART_RATIO: f64 = 0.9;

fn can_grow(amount: f64, length_ms: i64, highest: f64) -> bool {
    amount <= highest * (length_ms + VALUE_AGE_MS) as f64 / 1000.0
}

/// Can the counter have begun at zero between the two samples?
fn is_restart(from: &Sample, to: &Sample, highest: f64) -> bool {
    to.value <= from.value * RESTART_RATIO && can_grow(to.value, to.time_ms - from.time_ms, highest)
}

/// The samples without each one alone that is below the one before, in a way that no restart is, and that the next one
/// makes good for.
fn without_dips(samples: Vec<&Sample>, highest: f64) -> Vec<&Sample> {
    if samples.windows(2).all(|pair| pair[1].value >= pair[0].value) {
        return samples;
    }
    let mut kept: Vec<&Sample> = Vec::with_capacity(samples.len());
    for (n, sample) in samples.iter().copied().enumerate() {
        let is_dip = kept.last().zip(samples.get(n + 1)).is_some_and(|(before, next)| {
            sample.value < before.value && !is_restart(before, sample, highest) && next.value >= before.value
        });
        if !is_dip {
            kept.push(sample);
        }
    }
    kept
}

/// A level holds until the next sample; the last before a gap holds for one scrape interval.
fn levels(signal: Signal, samples: &[Sample], interval_ms: i64) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(samples.len());
    for (i, sample) in samples.iter().enumerate() {
        let next = samples.get(i + 1).map(|s| s.time_ms).filter(|next| next - sample.time_ms <= STALENESS_MS);
        let end = next.unwrap_or(sample.time_ms + interval_ms.min(STALENESS_MS));
        if signal.admits(sample.value) && end > sample.time_ms {
            pieces.push(Piece { span: sample.time_ms..end, value: sample.value, coarse: false });
        }
    }
    pieces
}

/// An average covers the time since the sample before it, whatever that was; what the first covers is unknown, and so
/// is that of one behind a gap.
fn averages(signal: Signal, samples: &[Sample]) -> Vec<Piece> {
    let pair = |pair: &[Sample]| {
        let span = pair[0].time_ms..pair[1].time_ms;
        let is_known = signal.admits(pair[1].value) && (1..=STALENESS_MS).contains(&(span.end - span.start));
        is_known.then(|| Piece { span, value: pair[1].value, coarse: false })
    };
    in_one_piece(samples.windows(2).filter_map(pair))
}

/// A state that is the same on both sides of a gap was so within.
fn unchanged(signal: Signal, samples: &[Sample], interval_ms: i64) -> Vec<Piece> {
    let admitted: Vec<&Sample> = samples.iter().filter(|s| signal.admits(s.value)).collect();
    let bridge = |pair: &[&Sample]| {
        let (from, to) = (pair[0].time_ms, pair[1].time_ms);
        let is_gap = to - from > STALENESS_MS && to - from <= MAX_BRIDGE_MS;
        let held_until = from + interval_ms.min(STALENESS_MS);
        let span = held_until..to;
        (is_gap && pair[0].value == pair[1].value).then_some(Piece { span, value: pair[0].value, coarse: true })
    };
    admitted.windows(2).filter_map(bridge).collect()
}

/// One reading per cell. `cells`, `pieces` and `samples` are in order of time; cells do not overlap.
pub(crate) fn readings(
    signal: Signal,
    pieces: &[Piece],
    samples: &[Sample],
    cells: &[Range<TimeMs>],
) -> Vec<Option<Reading>> {
    let differences = LADDER.contains(&signal).then(|| Differences::of(pieces));
    let (mut first, mut sample) = (0, 0);
    let mut samples_before = |border: TimeMs| {
        sample += samples[sample..].iter().take_while(|s| s.time_ms < border).count();
        sample
    };
    let read = |cell: &Range<TimeMs>| {
        while pieces.get(first).is_some_and(|p| p.span.end <= cell.start) {
            first += 1;
        }
        let within = pieces[first..].iter().take_while(|p| p.span.start < cell.end);
        let before = samples_before(cell.start);
        let count = samples_before(cell.end) - before;
        let reading = mean_of(within, cell, u32::try_from(count).unwrap_or(u32::MAX))?;
        Some(Reading { spread: differences.as_ref().and_then(|known| known.variance(cell)), ..reading })
    };
    cells.iter().map(read).collect()
}

fn mean_of<'a>(pieces: impl Iterator<Item = &'a Piece>, cell: &Range<TimeMs>, samples: u32) -> Option<Reading> {
    let mut sum = 0.0;
    let mut reading = Reading {
        mean: 0.0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        covered_ms: 0,
        samples,
        coarse: false,
        spread: None,
        held_ms2: 0,
    };
    for piece in pieces {
        let ms = piece.span.end.min(cell.end) - piece.span.start.max(cell.start);
        if ms <= 0 {
            continue;
        }
        sum += piece.value * ms as f64;
        reading.covered_ms += ms;
        reading.held_ms2 += ms * (piece.span.end - piece.span.start);
        reading.min = reading.min.min(piece.value);
        reading.max = reading.max.max(piece.value);
        reading.coarse |= piece.coarse;
    }
    (reading.covered_ms > 0).then(|| Reading { mean: sum / reading.covered_ms as f64, ..reading })
}

/// How pieces that follow each other without a gap differ, in millionths: sums of whole numbers do not depend on where
/// the pieces begin, as those of floats do in their last bits.
struct Differences {
    /// Where the two meet, in order.
    at: Vec<TimeMs>,
    /// The sum of squares up to each.
    squares: Vec<i128>,
}

const MILLIONTHS: f64 = 1e6;

impl Differences {
    fn of(pieces: &[Piece]) -> Self {
        let (mut at, mut squares, mut sum) = (Vec::new(), vec![0], 0_i128);
        for pair in pieces.windows(2).filter(|pair| pair[0].span.end == pair[1].span.start) {
            at.push(pair[1].span.start);
            let difference = ((pair[1].value - pair[0].value) * MILLIONTHS).round() as i64;
            sum = sum.saturating_add(i128::from(difference).pow(2));
            squares.push(sum);
        }
        Self { at, squares }
    }

    fn variance(&self, cell: &Range<TimeMs>) -> Option<f64> {
        let from = self.at.partition_point(|at| *at < cell.start - STALENESS_MS);
        let to = self.at.partition_point(|at| *at < cell.end + STALENESS_MS);
        let squares = || (self.squares[to] - self.squares[from]) as f64 / MILLIONTHS.powi(2);
        (to > from).then(|| squares() / (2 * (to - from)) as f64)
    }
}

/// The spans in order, those that touch as one.
pub(super) fn merged(mut spans: Vec<Range<TimeMs>>) -> Vec<Range<TimeMs>> {
    spans.sort_unstable_by_key(|s| s.start);
    let mut merged: Vec<Range<TimeMs>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// Is the time in one of the spans? They are in order and apart.
pub(super) fn at(spans: &[Range<TimeMs>], time: TimeMs) -> bool {
    spans.get(spans.partition_point(|s| s.end <= time)).is_some_and(|s| s.start <= time)
}

/// Milliseconds of each cell that at least one of the spans covers.
pub fn union_ms(spans: Vec<Range<TimeMs>>, cells: &[Range<TimeMs>]) -> Vec<i64> {
    let merged = merged(spans);
    let overlap = |cell: &Range<TimeMs>| {
        let from = merged.partition_point(|s| s.end <= cell.start);
        let within = merged[from..].iter().take_while(|s| s.start < cell.end);
        within.map(|s| s.end.min(cell.end) - s.start.max(cell.start)).sum()
    };
    cells.iter().map(overlap).collect()
}

#[cfg(test)]
mod tests;
