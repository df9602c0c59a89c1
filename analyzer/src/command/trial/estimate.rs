//! How many samples there will be, by counting some of them.

use std::ops::Range;

use super::super::connection::Pull;
use crate::report::text;
use goodput_engine::ReadError;
use goodput_exposition::sample::TimeMs;

/// Times at which samples are counted, evenly spread.
const PROBES: i64 = 12;
/// They are counted for so long before each of them, and taken for as many everywhere between.
const PROBE_MS: i64 = 10 * 60_000;
/// How many metrics are named.
const NAMED: usize = 3;

/// What a server will give.
#[derive(Debug)]
pub(super) struct Estimate {
    /// Samples by metric, the most first.
    by_metric: Vec<(String, f64)>,
    /// For how long.
    length_ms: i64,
}

impl Estimate {
    /// Counts a part of what would be pulled.
    pub(super) async fn of(pull: &Pull<'_>, range: &Range<TimeMs>) -> Result<Self, ReadError> {
        let length_ms = range.end - range.start;
        let step_ms = (length_ms / PROBES).max(1);
        let window_ms = PROBE_MS.min(step_ms);
        let mut by_metric = Vec::with_capacity(pull.metrics.len());
        for metric in &pull.metrics {
            let times = (range.start + step_ms..range.end, step_ms);
            let counts = pull.engine.counts(metric, &pull.matchers_of(metric), window_ms, times).await?;
            let counted: f64 = counts.iter().map(|(_, count)| count).sum();
            by_metric.push((metric.clone(), counted * step_ms as f64 / window_ms as f64));
        }
        by_metric.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(Self { by_metric, length_ms })
    }

    /// Samples of all metrics.
    pub(super) fn samples(&self) -> u64 {
        self.by_metric.iter().map(|(_, samples)| samples).sum::<f64>().round() as u64
    }

    /// The metrics that most samples are of, to be read.
    pub(super) fn greatest(&self) -> String {
        let named = self.by_metric.iter().take(NAMED);
        named.map(|(metric, n)| format!("{metric} {}", text::quantity(n.round()))).collect::<Vec<_>>().join(", ")
    }

    /// For how long at once the largest metric may be asked, so that an answer has about this many samples.
    pub(super) fn ms_for(&self, samples: f64) -> i64 {
        let most = self.by_metric.first().map_or(1.0, |(_, samples)| samples.max(1.0));
        (self.length_ms as f64 * samples / most) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stays_below_so_many_samples() {
        let by_metric = [("a", 6e6), ("b", 1e6), ("c", 10.4), ("d", 0.0)].map(|(metric, n)| (metric.to_owned(), n));
        let estimate = Estimate { by_metric: by_metric.into(), length_ms: 12_000 };
        assert_eq!(estimate.samples(), 7_000_010);
        assert_eq!(estimate.ms_for(3e6), 6000);
        assert_eq!(estimate.greatest(), "a 6,000,000, b 1,000,000, c 10.0");
        let nothing = Estimate { by_metric: Vec::new(), length_ms: 12_000 };
        assert_eq!((nothing.samples(), nothing.ms_for(1e6)), (0, 12_000_000_000));
    }
}
