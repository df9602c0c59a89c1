//! How often whom was scraped, as the samples tell.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::grid;
use crate::signal::{Scope, Signal, resolve};
use goodput_exposition::sample::{Series, TimeMs};

/// One job of the scraping server, and what it brings signals of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scraped {
    /// The label `job` of its series; empty where they have none.
    pub job: String,
    /// Of GPUs, of nodes or of their owners.
    pub scope: Scope,
    /// Targets, by the label `instance`.
    pub targets: usize,
    /// Time from one sample to the next: the median over series and windows.
    pub interval_ms: i64,
}

impl Scraped {
    /// Length of the cells that its nodes are judged by, where its series are those of GPUs.
    #[must_use]
    pub fn cell_ms(&self) -> i64 {
        grid::cell_ms(self.interval_ms)
    }
}

/// The counts behind [`Scraped`].
#[derive(Clone, Debug, Default)]
pub struct Scrapes(BTreeMap<(String, Scope), Tally>);

#[derive(Clone, Debug, Default)]
struct Tally {
    targets: BTreeSet<String>,
    /// Series and windows by interval, in milliseconds.
    intervals: BTreeMap<i64, usize>,
}

impl Scrapes {
    /// Counts the series of a window; samples outside of it are left out.
    pub fn add(&mut self, series: &[Series], window: &Range<TimeMs>) {
        for Series { labels, samples } in series {
            // Prometheus writes `up` for every target, also for those that bring nothing.
            let Some(meaning) = resolve(labels).filter(|meaning| meaning.signal != Signal::Up) else { continue };
            let at = |time| samples.partition_point(|sample| sample.time_ms < time);
            let Some(interval) = grid::interval_ms(&samples[at(window.start)..at(window.end)]) else { continue };
            let job = labels.get("job").unwrap_or_default().to_owned();
            let tally = self.0.entry((job, meaning.signal.scope())).or_default();
            tally.targets.extend(labels.get("instance").map(str::to_owned));
            *tally.intervals.entry(interval).or_default() += 1;
        }
    }

    /// Every job, in order of name.
    #[must_use]
    pub fn list(self) -> Vec<Scraped> {
        let scraped = |((job, scope), tally): ((String, Scope), Tally)| {
            let middle = tally.intervals.values().sum::<usize>() / 2;
            let mut passed = 0;
            let interval = tally.intervals.iter().find(|(_, count)| {
                passed += *count;
                passed > middle
            });
            Some(Scraped { job, scope, targets: tally.targets.len(), interval_ms: *interval?.0 })
        };
        self.0.into_iter().filter_map(scraped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::{Labels, Sample};

    fn series(metric: &str, job: &str, instance: &str, every: i64) -> Series {
        let labels = [("__name__", metric), ("job", job), ("instance", instance), ("UUID", "GPU-1")];
        let samples = (0..20).map(|n| Sample { time_ms: n * every, value: 1.0 }).collect();
        Series { labels: Labels::new(labels), samples }
    }

    #[test]
    fn the_median_over_series_is_told_by_job_and_scope() {
        let mut scrapes = Scrapes::default();
        let all = [
            series("DCGM_FI_DEV_GPU_UTIL", "dcgm", "n1:9400", 60_000),
            series("DCGM_FI_DEV_GPU_UTIL", "dcgm", "n2:9400", 60_000),
            series("DCGM_FI_DEV_GPU_UTIL", "dcgm", "n3:9400", 30_000),
            series("node_memory_MemTotal_bytes", "node", "n1:9100", 15_000),
            series("up", "other", "n1:80", 1_000),
            series("go_goroutines", "other", "n1:80", 1_000),
        ];
        scrapes.add(&all, &(0..600_000));
        scrapes.add(&all, &(50_000_000..60_000_000));
        let told =
            |job: &str, scope, targets, interval_ms| Scraped { job: job.to_owned(), scope, targets, interval_ms };
        let list = scrapes.list();
        assert_eq!(list, [told("dcgm", Scope::Gpu, 3, 60_000), told("node", Scope::Node, 1, 15_000)]);
        assert_eq!(list[0].cell_ms(), 120_000);
    }
}
