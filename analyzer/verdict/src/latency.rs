//! How long requests took, as servers tell it: by the buckets of their histograms.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

goodput_catalog::named! {
    /// What a server measures of each request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Latency {
        /// From the arrival of a request to the first token of its answer.
        TimeToFirstToken = "time_to_first_token",
        /// Mean time between the tokens of one answer. An answer of one token has none.
        TimePerOutputToken = "time_per_output_token",
        /// From the arrival of a request to the end of its answer.
        EndToEnd = "end_to_end",
    }
}

/// Requests whose latency is above one bound of a bucket, and not above its other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    /// In seconds.
    above: f64,
    /// In seconds; infinite for the last bucket.
    up_to: f64,
    /// Requests; a part of a request where a bucket grew over the border of a window.
    count: f64,
}

/// The latencies of many requests. What is not known within a bucket is told by both ends of a range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Histogram {
    /// The buckets with requests; those of servers with other bounds may overlap.
    buckets: Vec<Bucket>,
}

/// Counts are kept to a tenth of a request.
const PER_REQUEST: f64 = 10.0;

/// Buckets next to each other are one list: a bound, a count, a bound, a count and so on. It ends with a bound, or with the
/// count of those above all bounds.
type Written = Vec<Vec<f64>>;

impl From<Histogram> for Written {
    fn from(histogram: Histogram) -> Self {
        let mut chains: Written = Vec::new();
        for Bucket { above, up_to, count } in histogram.buckets {
            let end = [count, up_to].into_iter().filter(|number| number.is_finite());
            match chains.last_mut().filter(|chain| chain.len() % 2 == 1 && chain.last() == Some(&above)) {
                Some(chain) => chain.extend(end),
                None => chains.push(std::iter::once(above).chain(end).collect()),
            }
        }
        chains
    }
}

impl TryFrom<Written> for Histogram {
    type Error = &'static str;

    fn try_from(chains: Written) -> Result<Self, Self::Error> {
        let mut buckets = Vec::new();
        for chain in chains {
            let [first, rest @ ..] = &chain[..] else { return Err("expected a bound of the buckets") };
            let mut above = *first;
            for pair in rest.chunks(2) {
                let up_to = pair.get(1).copied().unwrap_or(f64::INFINITY);
                buckets.push(Bucket { above, up_to, count: pair[0] });
                above = up_to;
            }
        }
        let sound = buckets.iter().all(|bucket| bucket.above < bucket.up_to && bucket.count > 0.0);
        if sound { Ok(Self { buckets }) } else { Err("expected rising bounds, and counts above 0") }
    }
}

impl Histogram {
    /// Of how many requests the counters of Prometheus' cumulative buckets grew, by their upper bounds (`le`). `None` without
    /// a bucket of all requests (`+Inf`), or where that grew beyond all numbers. Bounds that no latency can be below say nothing.
    #[must_use]
    pub fn of_cumulative(mut growths: Vec<(f64, f64)>) -> Option<Self> {
        growths.retain(|(bound, _)| *bound > 0.0);
        growths.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (_, all) = *growths.last().filter(|(bound, all)| *bound == f64::INFINITY && all.is_finite())?;
        // Prometheus 3 writes a bound of 1 as 1.0: where it takes over within a window, each grew for a part of it.
        growths.dedup_by(|next, one| {
            let is_same = next.0 == one.0;
            one.1 += if is_same { next.1 } else { 0.0 };
            is_same
        });
        let (mut above, mut below) = (0.0, 0.0);
        let mut buckets = Vec::new();
        for (up_to, growth) in growths {
            // Buckets of one scrape are not always of one instant.
            let growth = growth.min(all);
            let count = ((growth - below) * PER_REQUEST).round() / PER_REQUEST;
            if count > 0.0 {
                buckets.push(Bucket { above, up_to, count });
                below = growth;
            }
            above = up_to;
        }
        Some(Self { buckets })
    }

    /// With the requests of another.
    pub fn add(&mut self, other: &Self) {
        for bucket in &other.buckets {
            let same = |own: &&mut Bucket| (own.above, own.up_to) == (bucket.above, bucket.up_to);
            match self.buckets.iter_mut().find(same) {
                Some(own) => own.count += bucket.count,
                None => self.buckets.push(*bucket),
            }
        }
    }

    /// All requests.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    /// Requests within a limit in seconds: certainly, and at most.
    #[must_use]
    pub fn within(&self, limit: f64) -> RangeInclusive<f64> {
        let sum = |is_in: &dyn Fn(&Bucket) -> bool| self.buckets.iter().filter(|b| is_in(b)).map(|b| b.count).sum();
        sum(&|bucket| bucket.up_to <= limit)..=sum(&|bucket| bucket.above < limit)
    }

    /// In which range of seconds the latency lies that this share of requests (0 to 1) does not exceed; `None` without
    /// requests. The upper end is infinite where no bucket bounds it.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<RangeInclusive<f64>> {
        let at = |bound: fn(&Bucket) -> f64| {
            let mut sorted: Vec<(f64, f64)> = self.buckets.iter().map(|b| (bound(b), b.count)).collect();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            let wanted = share * self.count();
            let mut below = 0.0;
            let reaches = |(_, count): &&(f64, f64)| {
                below += count;
                below >= wanted
            };
            let found = sorted.iter().find(reaches).or(sorted.last());
            found.map(|(bound, _)| *bound)
        };
        Some(at(|bucket| bucket.above)?..=at(|bucket| bucket.up_to)?)
    }

    /// Is the limit a bound of every bucket that it could cut?
    #[must_use]
    pub fn has_bound(&self, limit: f64) -> bool {
        self.buckets.iter().all(|bucket| limit <= bucket.above || bucket.up_to <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    fn histogram(growths: &[(f64, f64)]) -> Histogram {
        Histogram::of_cumulative(growths.to_vec()).unwrap()
    }

    #[test]
    fn a_limit_within_a_bucket_leaves_its_requests_open() {
        let histogram = histogram(&[(1.0, 2.0), (0.5, 1.0), (INF, 10.0), (2.0, 2.0), (4.0, 8.0)]);
        assert_eq!(histogram.count(), 10.0);
        for (limit, expected) in [
            (0.1, 0.0..=1.0),
            (0.5, 1.0..=1.0),
            (1.0, 2.0..=2.0),
            (3.0, 2.0..=8.0),
            (4.0, 8.0..=8.0),
            (9.0, 8.0..=10.0),
        ] {
            assert_eq!(histogram.within(limit), expected, "{limit}");
        }
        assert!(histogram.has_bound(4.0) && histogram.has_bound(2.0) && !histogram.has_bound(3.0));
        assert!(histogram.has_bound(1.5), "no request is in the bucket that it cuts");
    }

    #[test]
    fn a_quantile_lies_between_the_bounds_of_its_bucket() {
        let one = histogram(&[(0.5, 50.0), (1.0, 99.0), (2.0, 100.0), (INF, 100.0)]);
        for (share, expected) in [(0.5, 0.0..=0.5), (0.51, 0.5..=1.0), (0.99, 0.5..=1.0), (1.0, 1.0..=2.0)] {
            assert_eq!(one.quantile(share), Some(expected), "{share}");
        }
        assert_eq!(histogram(&[(1.0, 1.0), (INF, 9.0)]).quantile(0.99), Some(1.0..=INF));
        assert_eq!(histogram(&[(1.0, 0.0), (INF, 0.0)]).quantile(0.5), None);
    }

    #[test]
    fn servers_with_other_bounds_are_added() {
        let mut all = histogram(&[(1.0, 4.0), (INF, 4.0)]);
        all.add(&histogram(&[(0.4, 0.0), (2.0, 4.0), (INF, 4.0)]));
        all.add(&histogram(&[(1.0, 2.0), (INF, 2.0)]));
        assert_eq!((all.count(), all.within(1.0)), (10.0, 6.0..=10.0));
        assert_eq!(all.quantile(0.5), Some(0.0..=1.0));
        assert_eq!(all.quantile(0.9), Some(0.4..=2.0));
    }

    #[test]
    fn buckets_that_fall_behind_count_nothing_and_without_the_last_nothing_is_known() {
        let torn = histogram(&[(1.0, 5.0), (2.0, 4.9), (INF, 6.0)]);
        assert_eq!((torn.count(), torn.within(2.0)), (6.0, 5.0..=5.0));
        assert_eq!(Histogram::of_cumulative(vec![(1.0, 5.0)]), None);
        assert_eq!(Histogram::of_cumulative(Vec::new()), None);
        assert_eq!(Histogram::of_cumulative(vec![(1.0, 5.0), (INF, INF)]), None);
        let odd = histogram(&[(f64::NAN, 3.0), (-1.0, 1.0), (0.0, 2.0), (1.0, INF), (INF, 6.0)]);
        let text = serde_json::to_string(&odd).unwrap();
        assert_eq!(text, "[[0.0,6.0,1.0]]");
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), odd, "what is stored is read again");
    }

    #[test]
    fn a_bound_that_is_written_in_two_ways_is_one() {
        let both = histogram(&[(1.0, 4.0), (1.0, 2.0), (2.5, 5.0), (2.5, 3.0), (INF, 9.0)]);
        assert_eq!((both.count(), both.within(1.0), both.within(2.5)), (9.0, 6.0..=6.0, 8.0..=8.0));
    }

    #[test]
    fn the_written_form_is_short_and_read_back() {
        let mut all = histogram(&[(0.25, 1.26), (0.5, 2.5), (1.0, 2.5), (INF, 9.5)]);
        all.add(&histogram(&[(0.3, 2.0), (INF, 2.0)]));
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, "[[0.0,1.3,0.25,1.2,0.5],[1.0,7.0],[0.0,2.0,0.3]]");
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), all);
        assert_eq!(serde_json::from_str::<Histogram>("[]").unwrap(), Histogram::default());
        for bad in ["[[]]", "[[1.0,2.0,0.5]]", "[[0.0,-1.0]]", "[0.0]", "[[null]]"] {
            assert!(serde_json::from_str::<Histogram>(bad).is_err(), "{bad}");
        }
    }
}
