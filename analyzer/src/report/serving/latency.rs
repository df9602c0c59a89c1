//! How long requests took, and which of them kept the limits of their model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Server, Work};
use crate::report::text;
use crate::report::units;
use goodput_verdict::{Histogram, Latency, Served};

/// What requests of some models are to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// Pattern of the model's name; `*` stands for any characters.
    pub model: String,
    /// Seconds at most, by what is measured; at least one.
    pub limits: BTreeMap<Latency, f64>,
    /// Share of requests that is to keep all limits, above 0 and below 1.
    pub at: f64,
}

/// What is known of a figure that histograms tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Within {
    /// No less than this.
    pub low: f64,
    /// No more than this; null where nothing bounds it.
    pub high: Option<f64>,
}

/// The latencies of many hours of servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Timed {
    pub(super) histogram: Histogram,
    /// Requests that ended in these hours, whether they are in the histogram or not.
    pub(super) requests: f64,
}

impl Timed {
    pub(super) fn add(&mut self, histogram: &Histogram, requests: f64) {
        self.histogram.add(histogram);
        self.requests += requests.max(histogram.count());
    }
}

/// One latency of all requests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// Requests for which it is known.
    pub requests: f64,
    /// Seconds that half of them do not exceed.
    pub p50_seconds: Within,
    /// Seconds that 99 of 100 do not exceed.
    pub p99_seconds: Within,
}

/// The requests that kept all limits of their model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Attainment {
    /// Share of requests that is to keep them.
    pub at: f64,
    /// Seconds at most, by what is measured.
    pub limits_seconds: BTreeMap<Latency, f64>,
    /// Requests that ended.
    pub requests: f64,
    /// Those that kept all limits; null where one of the limits is not measured.
    pub met: Option<Within>,
    /// Share of requests that kept all limits.
    pub ratio: Option<Within>,
    /// Requests that kept all limits, per second of a GPU held.
    pub met_per_gpu_second: Option<Within>,
    /// Latencies that have a limit and are not measured.
    pub unmeasured: BTreeSet<Latency>,
    /// Those whose limit is no bound of a bucket, so that less is known than could be.
    pub within_a_bucket: BTreeSet<Latency>,
}

impl From<RangeInclusive<f64>> for Within {
    fn from(range: RangeInclusive<f64>) -> Self {
        Self { low: *range.start(), high: Some(*range.end()).filter(|high| high.is_finite()) }
    }
}

impl Within {
    fn over(self, whole: f64) -> Option<Self> {
        (whole > 0.0).then(|| Self { low: self.low / whole, high: self.high.map(|high| high / whole) })
    }

    /// Seconds, for the report.
    #[must_use]
    pub fn seconds(&self) -> String {
        match self.high {
            Some(high) if self.low == 0.0 => format!("up to {}", units::measure(high, "seconds")),
            Some(high) => units::range(self.low, high, "seconds"),
            None => format!("above {}", units::measure(self.low, "seconds")),
        }
    }

    fn percent(&self) -> String {
        text::range(text::percent(Some(self.low)), text::percent(Some(self.high.unwrap_or(1.0))))
    }

    fn rate(&self) -> String {
        text::range(units::count(Some(self.low)), units::count(self.high))
    }
}

impl Measured {
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            requests: histogram.count(),
            p50_seconds: histogram.quantile(0.5)?.into(),
            p99_seconds: histogram.quantile(0.99)?.into(),
        })
    }
}

impl Slo {
    /// Which requests of a server kept the limits; `None` where no request is known.
    pub(super) fn judge(&self, work: &Work) -> Option<Attainment> {
        let told = |limited: &(&Latency, &f64)| work.timed.get(limited.0);
        let (known, unknown): (Vec<_>, Vec<_>) = self.limits.iter().partition(|limited| told(limited).is_some());
        let within: Vec<_> = known.iter().filter_map(|one| Some((*one.0, *one.1, told(one)?))).collect();
        let counted = work.served.get(&Served::Requests).copied().unwrap_or_default();
        let requests = within.iter().map(|(.., timed)| timed.requests).fold(counted, f64::max);
        let met = unknown.is_empty().then(|| {
            let failed = work.served.get(&Served::FailedRequests).copied().unwrap_or_default();
            let late = within.iter().map(|(latency, limit, timed)| late(*latency, *limit, timed, requests));
            met(requests, failed, late)
        });
        let cut = within.iter().filter(|one| !one.2.histogram.has_bound(one.1));
        (requests > 0.0).then(|| Attainment {
            unmeasured: unknown.into_iter().map(|(latency, _)| *latency).collect(),
            within_a_bucket: cut.map(|one| one.0).collect(),
            ..self.attained(requests, met, work)
        })
    }

    /// The same of several servers, whose work this is. Where some do not measure what has a limit, all of their requests may
    /// have kept it, or none.
    pub(super) fn judge_all(&self, servers: &[Server], work: &Work) -> Option<Attainment> {
        let judged: Vec<_> = servers.iter().filter_map(|server| server.work.slo.as_ref()).collect();
        let requests = judged.iter().map(|one| one.requests).sum();
        let is_measured = judged.iter().any(|one| one.met.is_some());
        let low = judged.iter().filter_map(|one| Some(one.met?.low)).sum();
        let high = judged.iter().map(|one| one.met.and_then(|met| met.high).unwrap_or(one.requests)).sum();
        let met = is_measured.then_some(Within { low, high: Some(high) });
        let all = |of: fn(&Attainment) -> &BTreeSet<Latency>| judged.iter().flat_map(|one| of(one)).copied().collect();
        (!judged.is_empty()).then(|| Attainment {
            unmeasured: all(|one| &one.unmeasured),
            within_a_bucket: all(|one| &one.within_a_bucket),
            ..self.attained(requests, met, work)
        })
    }

    fn attained(&self, requests: f64, met: Option<Within>, work: &Work) -> Attainment {
        let seconds = work.held.gpu_ms as f64 / 1000.0;
        Attainment {
            at: self.at,
            limits_seconds: self.limits.clone(),
            requests,
            met,
            ratio: met.and_then(|met| met.over(requests)),
            met_per_gpu_second: met.and_then(|met| met.over(seconds)),
            unmeasured: BTreeSet::new(),
            within_a_bucket: BTreeSet::new(),
        }
    }
}

/// Requests that broke this limit. An answer of one token has no time between tokens, so it breaks no limit of it; of other
/// requests that are not in the histogram, and of hours without it, nothing is known.
fn late(latency: Latency, limit: f64, timed: &Timed, requests: f64) -> RangeInclusive<f64> {
    let (known, within) = (timed.histogram.count(), timed.histogram.within(limit));
    let told = if latency == Latency::TimePerOutputToken { timed.requests } else { known };
    let untold = (requests - told).max(0.0);
    (known - within.end()).max(0.0)..=known - within.start() + untold
}

/// Requests that broke no limit and did not fail. Histograms do not tell which request broke which limit: either the same
/// ones broke all of them, or each one broke another (Fréchet's inequalities).
fn met(requests: f64, failed: f64, late: impl Iterator<Item = RangeInclusive<f64>>) -> Within {
    let (mut most, mut sum) = (failed, failed);
    for range in late {
        most = f64::max(most, *range.start());
        sum += range.end();
    }
    Within { low: (requests - sum).max(0.0), high: Some((requests - most).max(0.0)) }
}

impl Attainment {
    /// The share that kept all limits, for the report.
    #[must_use]
    pub fn share(&self) -> String {
        self.ratio.map_or_else(|| text::UNKNOWN.to_owned(), |ratio| ratio.percent())
    }

    /// Requests that kept them per second of a GPU held, for the report.
    #[must_use]
    pub fn rate(&self) -> String {
        self.met_per_gpu_second.map_or_else(|| text::UNKNOWN.to_owned(), |rate| rate.rate())
    }

    /// The limits, for the report.
    #[must_use]
    pub fn limits(&self) -> String {
        let limits = self.limits_seconds.iter();
        let shown: Vec<_> = limits
            .map(|(latency, limit)| format!("{} {}", shown(*latency), units::measure(*limit, "seconds")))
            .collect();
        shown.join(", ")
    }

    /// What is to be known of the figures.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let unmeasured = self.unmeasured.iter().map(|one| match self.met {
            None => format!("no histogram of the {} is stored, so that limit cannot be judged", shown(*one)),
            Some(_) => format!(
                "some servers have no histogram of the {}: all of their requests may have kept the limit, or none",
                shown(*one)
            ),
        });
        let within = self.within_a_bucket.iter().filter_map(|one| {
            let limit = units::measure(*self.limits_seconds.get(one)?, "seconds");
            Some(format!(
                "{limit} is no bucket bound of the {}: with one there, the share is known better",
                shown(*one)
            ))
        });
        unmeasured.chain(within).collect()
    }
}

/// A latency, for the report.
#[must_use]
pub fn shown(latency: Latency) -> &'static str {
    match latency {
        Latency::TimeToFirstToken => "time to first token",
        Latency::TimePerOutputToken => "time per output token",
        Latency::EndToEnd => "end-to-end latency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_limits_both_ends_are_told() {
        let within = |low: f64, high: f64| Within { low, high: Some(high) };
        assert_eq!(met(100.0, 0.0, [2.0..=5.0, 10.0..=10.0].into_iter()), within(85.0, 90.0));
        assert_eq!(met(100.0, 20.0, [2.0..=5.0].into_iter()), within(75.0, 80.0));
        assert_eq!(met(10.0, 0.0, [6.0..=6.0, 7.0..=7.0].into_iter()), within(0.0, 3.0));
    }

    #[test]
    fn what_no_histogram_has_breaks_no_limit_between_tokens_and_may_break_others() {
        let histogram = Histogram::of_cumulative(vec![(1.0, 6.0), (2.0, 8.0), (f64::INFINITY, 8.0)]).unwrap();
        let timed = Timed { histogram, requests: 10.0 };
        assert_eq!(late(Latency::TimePerOutputToken, 1.0, &timed, 10.0), 2.0..=2.0);
        assert_eq!(late(Latency::TimePerOutputToken, 1.0, &timed, 15.0), 2.0..=7.0, "five of hours without it");
        assert_eq!(late(Latency::EndToEnd, 1.0, &timed, 10.0), 2.0..=4.0);
        assert_eq!(late(Latency::TimeToFirstToken, 1.5, &timed, 8.0), 0.0..=2.0);
    }
}
