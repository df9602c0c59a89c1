//! A finding's signals over time against their thresholds: geometry only, so that the template writes it down.

use std::fmt::Write as _;

use super::Period;
use super::chart::WIDTH;
use super::text::fixed;
use goodput_verdict::Interval;

/// Height of a chart, in units of its view box.
pub(super) const HEIGHT: f64 = 100.0;
/// Slices of the axis: one hour each in a whole week.
const SLICES: usize = 168;
/// A finding shows this many signals; the table next to them has all.
const MAX_CURVES: usize = 3;

/// One signal and what it was compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The signal's name.
    pub signal: String,
    /// Unit of both lines.
    pub unit: String,
    /// The value at the upper edge; the lower edge is zero.
    pub top: f64,
    /// The signal's path.
    pub values: String,
    /// The threshold's path.
    pub thresholds: String,
}

/// Sums of value, threshold and weight.
type Slice = [f64; 3];

/// The finding's first signals over the axis: the mean of each slice, weighted by the time lost, where there is any.
#[derive(Default)]
pub(super) struct Curves(Vec<(String, String, Vec<Slice>)>);

impl Curves {
    pub(super) fn add(&mut self, interval: &Interval, axis: &Period) {
        for e in &interval.evidence {
            let known = self.0.iter().position(|(signal, unit, _)| *signal == e.signal && *unit == e.unit);
            let index = known.unwrap_or(self.0.len());
            if known.is_none() && index < MAX_CURVES {
                self.0.push((e.signal.clone(), e.unit.clone(), vec![[0.0; 3]; SLICES]));
            }
            if let Some((.., slices)) = self.0.get_mut(index) {
                spread(interval, [e.value, e.threshold, 1.0], axis, slices);
            }
        }
    }

    pub(super) fn drawn(self) -> Vec<Curve> {
        self.0.iter().map(|(signal, unit, slices)| curve(signal, unit, slices)).collect()
    }
}

fn spread(interval: &Interval, values: [f64; 3], axis: &Period, slices: &mut [Slice]) {
    let slice_ms = axis.length_ms() as f64 / slices.len() as f64;
    let from = (interval.start_ms - axis.start_ms) as f64;
    let to = (interval.end_ms - axis.start_ms) as f64;
    let density = interval.ms as f64 / (to - from).max(1.0);
    let first = (from / slice_ms).floor().max(0.0) as usize;
    for (n, slice) in slices.iter_mut().enumerate().skip(first) {
        let (left, right) = (n as f64 * slice_ms, (n + 1) as f64 * slice_ms);
        if left >= to {
            break;
        }
        let weight = (right.min(to) - left.max(from)).max(0.0) * density;
        slice.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * weight);
    }
}

fn curve(signal: &str, unit: &str, slices: &[Slice]) -> Curve {
    let line = |which: usize| -> Vec<Option<f64>> {
        slices.iter().map(|slice| (slice[2] > 0.0).then(|| slice[which] / slice[2])).collect()
    };
    let (values, thresholds) = (line(0), line(1));
    let top = round_up(values.iter().chain(&thresholds).flatten().fold(0.0, |a: f64, b| a.max(*b)));
    let (values, thresholds) = (path(&values, top), path(&thresholds, top));
    Curve { signal: signal.to_owned(), unit: unit.to_owned(), top, values, thresholds }
}

/// The next 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

/// Steps from slice to slice, interrupted where there is nothing.
fn path(values: &[Option<f64>], top: f64) -> String {
    let width = WIDTH / values.len() as f64;
    let mut path = String::new();
    let mut before = None;
    for (n, value) in values.iter().enumerate() {
        let y = value.map(|v| fixed(HEIGHT - v / top * HEIGHT));
        if before != y {
            let x = fixed(n as f64 * width);
            if before.is_some() {
                let _ = write!(path, "H{x}");
            }
            let _ = match (&before, &y) {
                (Some(_), Some(y)) => write!(path, "V{y}"),
                (None, Some(y)) => write!(path, "M{x} {y}"),
                (_, None) => Ok(()),
            };
        }
        before = y;
    }
    if before.is_some() {
        let _ = write!(path, "H{}", fixed(WIDTH));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        assert_eq!([0.0, 0.03, 0.95, 1.0, 121.4, 2.0e6].map(round_up), [1.0, 0.05, 1.0, 1.0, 200.0, 2.0e6]);
    }

    #[test]
    fn a_path_steps_and_is_interrupted() {
        let drawn = path(&[None, Some(1.0), Some(1.0), Some(2.0), None, Some(0.0)], 2.0);
        assert_eq!(drawn, "M166.67 50H500V0H666.67M833.33 100H1000");
        assert_eq!(path(&[None, None], 1.0), "");
    }
}
