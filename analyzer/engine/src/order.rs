//! The order of a series' samples.

use goodput_exposition::sample::Sample;

/// Sorts by time. Of samples at one time the first in the present order is kept.
pub(crate) fn in_order(samples: &mut Vec<Sample>) {
    if samples.is_sorted_by(|earlier, later| earlier.time_ms < later.time_ms) {
        return;
    }
    samples.sort_by_key(|sample| sample.time_ms);
    samples.dedup_by_key(|sample| sample.time_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_sorted_and_the_first_of_a_time_is_kept() {
        let mut samples: Vec<_> =
            [(3, 0.0), (1, 1.0), (3, 2.0), (2, 3.0), (1, 4.0)].map(|(time_ms, value)| Sample { time_ms, value }).into();
        in_order(&mut samples);
        let pairs: Vec<_> = samples.iter().map(|sample| (sample.time_ms, sample.value)).collect();
        assert_eq!(pairs, [(1, 1.0), (2, 3.0), (3, 0.0)]);
    }

    #[test]
    fn an_ordered_series_loses_a_repeated_time_too() {
        let mut samples: Vec<_> = [(1, 1.0), (1, 2.0)].map(|(time_ms, value)| Sample { time_ms, value }).into();
        in_order(&mut samples);
        assert_eq!(samples, [Sample { time_ms: 1, value: 1.0 }]);
    }
}
