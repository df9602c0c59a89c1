//! Which samples of a group of batches are new. Pure.

use super::Appended;
use super::catalogue::SeriesId;
use goodput_exposition::sample::{Sample, TimeMs};

/// A sample on its way in, and the batch that brought it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) id: SeriesId,
    pub(super) batch: u32,
    pub(super) sample: Sample,
}

/// What is stored already.
pub(super) trait Past {
    /// Time of the newest sample of the series that the bounds allow; `TimeMs::MIN` when it has none. A sample that lies ahead
    /// of the clock, which was wrong once, bounds nothing.
    fn newest(&self, id: SeriesId) -> TimeMs;

    /// The value that is stored for this time.
    fn value(&self, id: SeriesId, time_ms: TimeMs) -> Option<f64>;
}

/// How old (against the newest of the series, and absolute) and how new (absolute) a sample may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) out_of_order_ms: TimeMs,
    pub(super) earliest: TimeMs,
    pub(super) latest: TimeMs,
}

impl Bounds {
    /// May a series begin with a sample of this time?
    pub(super) fn contain(self, time: TimeMs) -> bool {
        (self.earliest..=self.latest).contains(&time)
    }
}

/// Of rows in order of series, time and arrival, returns those to store, in this order; every row is counted to its
/// batch. Of several values at one time the one that came first stays.
pub(super) fn admit(
    rows: &[Row],
    past: &impl Past,
    bounds: Bounds,
    counts: &mut [Appended],
) -> Vec<(SeriesId, Sample)> {
    let mut accepted: Vec<(SeriesId, Sample)> = Vec::with_capacity(rows.len());
    for series in rows.chunk_by(|a, b| a.id == b.id) {
        let id = series[0].id;
        let newest = past.newest(id);
        let oldest = newest.saturating_sub(bounds.out_of_order_ms).max(bounds.earliest);
        let first = accepted.len();
        for Row { batch, sample, .. } in series {
            let Some(counts) = counts.get_mut(*batch as usize) else { continue };
            if !(oldest..=bounds.latest).contains(&sample.time_ms) {
                counts.out_of_bounds += 1;
                continue;
            }
            let before = accepted[first..].last().filter(|(_, last)| last.time_ms == sample.time_ms);
            let stored = || if sample.time_ms <= newest { past.value(id, sample.time_ms) } else { None };
            match before.map(|(_, last)| last.value).or_else(stored) {
                None => {
                    counts.stored += 1;
                    accepted.push((id, *sample));
                }
                Some(value) if value.to_bits() == sample.value.to_bits() => counts.duplicate += 1,
                Some(_) => counts.conflicting += 1,
            }
        }
    }
    accepted
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use goodput_exposition::sample::STALE_BITS;

    #[derive(Default)]
    struct Stored(BTreeMap<(SeriesId, TimeMs), f64>);

    impl Past for Stored {
        fn newest(&self, id: SeriesId) -> TimeMs {
            self.0.range((id, TimeMs::MIN)..=(id, TimeMs::MAX)).next_back().map_or(TimeMs::MIN, |((_, t), _)| *t)
        }

        fn value(&self, id: SeriesId, time_ms: TimeMs) -> Option<f64> {
            self.0.get(&(id, time_ms)).copied()
        }
    }

    fn row(batch: u32, id: u32, time_ms: TimeMs, value: f64) -> Row {
        Row { id: SeriesId(id), batch, sample: Sample { time_ms, value } }
    }

    fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
        rows.sort_by_key(|row| (row.id, row.sample.time_ms));
        rows
    }

    const BOUNDS: Bounds = Bounds { out_of_order_ms: 100, earliest: 0, latest: 10_000 };

    #[test]
    fn each_sample_is_in_one_count_of_its_batch() {
        let past =
            Stored(BTreeMap::from([((SeriesId(1), 1000), 7.0), ((SeriesId(1), 950), f64::from_bits(STALE_BITS))]));
        let rows = sorted(vec![
            row(0, 1, 1010, 1.0),                       // new
            row(0, 1, 1000, 7.0),                       // stored before
            row(0, 1, 1000, 8.0),                       // stored before with another value
            row(1, 1, 950, f64::from_bits(STALE_BITS)), // a marker is compared by its bits
            row(1, 1, 900, 1.0),                        // late, within the window
            row(1, 1, 899, 1.0),                        // too late
            row(1, 2, 10_000, 1.0),                     // first of its series, just not too new
            row(1, 2, 10_001, 1.0),                     // too new
            row(2, 1, 1010, 1.0),                       // repeats batch 0
            row(2, 1, 1010, 2.0),                       // contradicts batch 0
        ]);
        let mut counts = [Appended::default(); 3];
        let accepted = admit(&rows, &past, BOUNDS, &mut counts);
        let times: Vec<_> = accepted.iter().map(|(id, s)| (id.0, s.time_ms, s.value)).collect();
        assert_eq!(times, [(1, 900, 1.0), (1, 1010, 1.0), (2, 10_000, 1.0)]);
        let none = Appended::default();
        assert_eq!(counts[0], Appended { stored: 1, duplicate: 1, conflicting: 1, ..none });
        assert_eq!(counts[1], Appended { stored: 2, duplicate: 1, out_of_bounds: 2, ..none });
        assert_eq!(counts[2], Appended { duplicate: 1, conflicting: 1, ..none });
    }

    proptest! {
        #[test]
        fn the_first_value_at_a_time_stays(values in proptest::collection::vec((0_u32..3, 0_i64..5, 0_u8..3), 0..40)) {
            let rows = sorted(values.iter().map(|(id, t, v)| row(0, *id, *t, f64::from(*v))).collect());
            let mut expected = BTreeMap::new();
            for (id, t, v) in values {
                expected.entry((id, t)).or_insert(f64::from(v));
            }
            let mut counts = [Appended::default()];
            let accepted = admit(&rows, &Stored::default(), BOUNDS, &mut counts);
            let got: Vec<_> = accepted.iter().map(|(id, s)| ((id.0, s.time_ms), s.value)).collect();
            prop_assert_eq!(got, expected.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(counts[0].stored as usize, accepted.len());
            prop_assert_eq!((counts[0].stored + counts[0].duplicate + counts[0].conflicting) as usize, rows.len());
        }
    }
}
