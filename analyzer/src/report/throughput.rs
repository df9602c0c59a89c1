//! Throughput goodput: what jobs achieved by their own counters, next to the time goodput of the same GPU time.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Amount, ratio};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, Class, Group, RollUp};

/// The best sustained rate is this percentile of hourly rates: one lucky hour in twenty is not a standard.
const SUSTAINED_PERCENT: usize = 95;

/// What jobs say of their own progress. Never part of time goodput.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Throughput {
    /// By counter and owner.
    pub jobs: Vec<Job>,
    /// Counters whose owner held no GPU that is known of.
    pub unjoined: Vec<Unjoined>,
}

/// One counter of one owner.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Job {
    /// The cluster of the owner; null where series name none.
    pub cluster: Option<String>,
    /// Who held the GPUs.
    pub owner: String,
    /// The counter's metric.
    pub metric: String,
    /// What it counts.
    pub unit: String,
    /// Progress in the period, in `unit`.
    pub total: f64,
    /// Progress per second of the time for which the counter is known.
    pub per_second: f64,
    /// GPU time held in the hours for which the counter is known; share of all the time that the owner held. The
    /// figures below are about this time.
    pub held: Amount,
    /// Progress per GPU-hour held; null when none was.
    pub per_gpu_hour: Option<f64>,
    /// What one GPU could do per second; null when nothing tells.
    pub ideal: Option<Ideal>,
    /// `total / (ideal x GPU-seconds held)`; above 1 when the ideal is too low.
    pub throughput_goodput: Option<f64>,
    /// Productive GPU time / GPU time held.
    pub time_goodput: Option<f64>,
}

/// What progress is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ideal {
    /// Progress per second and GPU; the mean, weighted by GPU time, where the configuration changed within the period.
    pub per_second_per_gpu: f64,
    /// Where it is from, in words.
    pub source: String,
}

/// A counter that could not be joined.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unjoined {
    /// The cluster of the series; null where they name none.
    pub cluster: Option<String>,
    /// The counter's metric.
    pub metric: String,
    /// What the owner label said; empty without it.
    pub subject: String,
    /// Progress in the period.
    pub total: f64,
    /// What it counts.
    pub unit: String,
}

/// A window of one counter and owner, with the GPU time that the owner held in it.
struct Hour<'a> {
    achieved: &'a Achieved,
    held_ms: i64,
    productive_ms: i64,
}

/// Sums the windows of a period; `None` without any counter.
#[must_use]
pub fn build(achieved: &[Achieved], held: &Held<'_>) -> Option<Throughput> {
    let mut jobs: BTreeMap<(&str, &str, Option<&str>), Vec<Hour>> = BTreeMap::new();
    let mut unjoined: BTreeMap<(&str, &str, Option<&str>), Unjoined> = BTreeMap::new();
    for row in achieved {
        let own = row.cluster.as_deref();
        if let Some(owner) = row.owner.as_deref() {
            let cluster = own.or_else(|| held.cluster_of(owner));
            jobs.entry((owner, &row.metric, cluster)).or_default().push(held.hour((cluster, owner), row));
        } else {
            unjoined.entry((&row.metric, &row.subject, own)).or_insert_with(|| nothing(row)).total += row.amount;
        }
    }
    let job = |((owner, metric, cluster), hours): ((&str, &str, Option<&str>), Vec<Hour>)| {
        Job::of((cluster, owner), metric, &hours, held.all((cluster, owner)))
    };
    let throughput =
        Throughput { jobs: jobs.into_iter().map(job).collect(), unjoined: unjoined.into_values().collect() };
    (!achieved.is_empty()).then_some(throughput)
}

fn nothing(row: &Achieved) -> Unjoined {
    let Achieved { cluster, metric, subject, unit, .. } = row.clone();
    Unjoined { cluster, metric, subject, total: 0.0, unit }
}

/// Time in which the owners of counters held GPUs, by cluster.
pub struct Held<'a>(HashMap<&'a str, BTreeMap<Option<String>, Vec<Time>>>);

/// An owner: its cluster and name.
type Owner<'a> = (Option<&'a str>, &'a str);

/// GPU time of one class within an hour.
struct Time {
    start_ms: TimeMs,
    end_ms: TimeMs,
    ms: i64,
    is_productive: bool,
}

impl<'a> Held<'a> {
    /// None yet, of the owners of these counters.
    #[must_use]
    pub fn of(achieved: &'a [Achieved]) -> Self {
        Self(achieved.iter().filter_map(|row| Some((row.owner.as_deref()?, BTreeMap::new()))).collect())
    }

    /// With the time of these owners in the hour.
    pub fn add(&mut self, hour: &RollUp) {
        for (allocation, part) in hour.parts().filter(|(_, part)| part.class.group() != Group::Capacity) {
            let times = allocation.owner.as_deref().and_then(|owner| self.0.get_mut(owner));
            let stretches = part.stretches.first().zip(part.stretches.last());
            let Some((times, (first, last))) = times.zip(stretches) else { continue };
            times.entry(hour.cluster.clone()).or_default().push(Time {
                start_ms: first.start_ms,
                end_ms: last.end_ms,
                ms: part.ms,
                is_productive: part.class == Class::Productive,
            });
        }
    }

    /// The one cluster in which the owner held GPUs: rows of earlier releases do not tell it.
    fn cluster_of(&self, owner: &str) -> Option<&str> {
        let mut clusters = self.0.get(owner)?.keys();
        clusters.next().filter(|_| clusters.next().is_none())?.as_deref()
    }

    fn times(&self, (cluster, owner): Owner<'_>) -> impl Iterator<Item = &Time> {
        let clusters = self.0.get(owner).into_iter().flatten();
        clusters.filter(move |(of, _)| of.as_deref() == cluster).flat_map(|(_, times)| times)
    }

    fn all(&self, owner: Owner<'_>) -> i64 {
        self.times(owner).map(|time| time.ms).sum()
    }

    fn hour<'r>(&self, owner: Owner<'_>, achieved: &'r Achieved) -> Hour<'r> {
        // Hours are cut at the borders of windows.
        let within = |time: &&Time| time.start_ms >= achieved.start_ms && time.end_ms <= achieved.end_ms;
        let (mut held_ms, mut productive_ms) = (0, 0);
        for time in self.times(owner).filter(within) {
            held_ms += time.ms;
            productive_ms += if time.is_productive { time.ms } else { 0 };
        }
        Hour { achieved, held_ms, productive_ms }
    }
}

impl Job {
    fn of((cluster, owner): Owner<'_>, metric: &str, hours: &[Hour], all_held_ms: i64) -> Self {
        let held_ms: i64 = hours.iter().map(|h| h.held_ms).sum();
        let total: f64 = hours.iter().map(|h| h.achieved.amount).sum();
        let covered_ms: i64 = hours.iter().map(|h| h.achieved.covered_ms).sum();
        let held = Amount::of(held_ms, all_held_ms);
        let ideal = configured(hours, held_ms).or_else(|| sustained(hours));
        let possible = ideal.as_ref().map(|ideal| ideal.per_second_per_gpu * seconds(held_ms));
        Self {
            cluster: cluster.map(str::to_owned),
            owner: owner.to_owned(),
            metric: metric.to_owned(),
            unit: hours.first().map_or_else(String::new, |h| h.achieved.unit.clone()),
            total,
            per_second: total / seconds(covered_ms),
            per_gpu_hour: (held_ms > 0).then(|| total / held.gpu_hours),
            throughput_goodput: possible.filter(|possible| *possible > 0.0).map(|possible| total / possible),
            time_goodput: ratio(hours.iter().map(|h| h.productive_ms).sum(), held_ms),
            ideal,
            held,
        }
    }
}

/// The configured rate, where every hour has one.
fn configured(hours: &[Hour], held_ms: i64) -> Option<Ideal> {
    let possible = hours.iter().map(|h| Some(h.achieved.ideal? * h.held_ms as f64)).sum::<Option<f64>>()?;
    let source = "configured".to_owned();
    (held_ms > 0).then(|| Ideal { per_second_per_gpu: possible / held_ms as f64, source })
}

/// The best rate that this owner sustained itself. It counts hours that are at least half known and in which at least
/// half a GPU was held: shorter ones are spurts.
fn sustained(hours: &[Hour]) -> Option<Ideal> {
    let half = |h: &Hour| (h.achieved.end_ms - h.achieved.start_ms) / 2;
    let counts = |h: &&Hour| h.held_ms > 0 && h.achieved.covered_ms >= half(h) && h.held_ms >= half(h);
    let mut rates: Vec<f64> = hours.iter().filter(counts).map(|h| h.achieved.amount / seconds(h.held_ms)).collect();
    rates.sort_by(f64::total_cmp);
    // The nearest rank: of fewer than twenty rates, the highest.
    let rank = (rates.len() * SUSTAINED_PERCENT).div_ceil(100);
    let rate = *rates.get(rank.checked_sub(1)?)?;
    let source = format!("{SUSTAINED_PERCENT}th percentile of its own hourly rates, hours: {}", rates.len());
    Some(Ideal { per_second_per_gpu: rate, source })
}

fn seconds(ms: TimeMs) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Period, Report, html, markdown};
    use goodput_testing::bare;
    use goodput_verdict::Interval;

    const HOUR: i64 = 3_600_000;

    fn interval(owner: &str, class: Class, hour: i64, ms: i64) -> Interval {
        Interval { owner: Some(owner.into()), ms, ..bare(class, hour * HOUR..(hour + 1) * HOUR) }
    }

    fn achieved(owner: Option<&str>, hour: i64, amount: f64, ideal: Option<f64>) -> Achieved {
        Achieved {
            cluster: None,
            metric: "steps_total".into(),
            unit: "steps".into(),
            start_ms: hour * HOUR,
            end_ms: (hour + 1) * HOUR,
            owner: owner.map(str::to_owned),
            subject: "train-0".into(),
            amount,
            covered_ms: HOUR,
            ideal,
            served: None,
            model: None,
        }
    }

    fn built(rows: &[Achieved], intervals: &[Interval]) -> Option<Throughput> {
        let mut held = Held::of(rows);
        RollUp::fold(intervals).iter().for_each(|hour| held.add(hour));
        build(rows, &held)
    }

    fn job(rows: &[Achieved], intervals: &[Interval]) -> Job {
        built(rows, intervals).unwrap().jobs.into_iter().next().unwrap()
    }

    #[test]
    fn nothing_without_counters() {
        assert_eq!(built(&[], &[interval("a", Class::Productive, 0, HOUR)]), None);
    }

    #[test]
    fn against_the_configured_ideal_beside_time_goodput() {
        let intervals = [
            interval("a", Class::Productive, 0, 2 * HOUR),
            interval("a", Class::Productive, 1, HOUR),
            interval("a", Class::DataloaderCpu, 1, HOUR),
            interval("a", Class::IdleHeld, 2, 2 * HOUR),
            interval("b", Class::Productive, 1, 5 * HOUR),
            interval("a", Class::NoData, 1, 7 * HOUR),
        ];
        let rows = [achieved(Some("a"), 0, 72_000.0, Some(10.0)), achieved(Some("a"), 1, 36_000.0, Some(10.0))];
        let job = job(&rows, &intervals);
        assert_eq!((job.total, job.per_second, job.per_gpu_hour), (108_000.0, 15.0, Some(27_000.0)));
        assert_eq!((job.held.gpu_ms, job.held.share), (4 * HOUR, Some(4.0 / 6.0)), "the third hour is not known");
        assert_eq!((job.throughput_goodput, job.time_goodput), (Some(0.75), Some(0.75)));
        assert_eq!(job.ideal, Some(Ideal { per_second_per_gpu: 10.0, source: "configured".into() }));
    }

    #[test]
    fn against_its_own_best_hours() {
        let hours = 0..40;
        let intervals: Vec<Interval> = hours.clone().map(|h| interval("a", Class::Productive, h, HOUR)).collect();
        // One lucky hour, twenty-nine usual ones, ten slow ones.
        let rate = |h| {
            if h == 0 {
                9.0
            } else if h < 30 {
                2.0
            } else {
                1.0
            }
        };
        let rows: Vec<Achieved> = hours.map(|h| achieved(Some("a"), h, rate(h) * 3600.0, None)).collect();
        let job = job(&rows, &intervals);
        let ideal = job.ideal.unwrap();
        assert_eq!(ideal.per_second_per_gpu, 2.0);
        assert_eq!(ideal.source, "95th percentile of its own hourly rates, hours: 40");
        assert_eq!(job.throughput_goodput, Some((9.0 + 29.0 * 2.0 + 10.0) / 80.0));
    }

    #[test]
    fn a_spurt_is_no_standard_and_nothing_held_is_no_ratio() {
        let job = job(&[achieved(Some("a"), 0, 100.0, None)], &[interval("a", Class::Productive, 0, 1000)]);
        assert_eq!((job.ideal, job.throughput_goodput), (None, None));
        let job = self::job(&[achieved(Some("a"), 0, 100.0, Some(1.0))], &[]);
        assert_eq!((job.per_gpu_hour, job.ideal, job.throughput_goodput, job.time_goodput), (None, None, None, None));
    }

    #[test]
    fn the_section_stands_beside_and_escapes_names() {
        let rows = [achieved(Some("a|<b>"), 0, 36_000.0, Some(10.0)), achieved(None, 0, 5.0, None)];
        let intervals = [interval("a|<b>", Class::Productive, 0, 2 * HOUR)];
        let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
        let report = Report { throughput: built(&rows, &intervals), ..super::super::build(&intervals, &[], week, &[]) };
        let text = markdown::render(&report).unwrap();
        let row =
            r"| a\|&lt;b> | steps_total | 36000 steps | 10 | 18000 | 2.00 | 100 % | 10 (configured) | 50.0 % | 100 % |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("\n\n- steps_total of train-0: 5 steps\n\n## By run"), "{text}");
        assert!(text.contains("**Goodput: 100 %**"), "{text}");
        let page = html::render(&report, &super::super::Site::default()).unwrap();
        assert!(page.contains("<h2>Throughput</h2>") && page.contains("<td>a|&#60;b&#62;</td>"), "{page}");
        assert!(!markdown::render(&Report { throughput: None, ..report }).unwrap().contains("Throughput"));
    }

    #[test]
    fn owners_that_two_clusters_call_alike_are_two_jobs() {
        let of = |cluster: &str, hours: i64| Interval {
            cluster: Some(cluster.into()),
            ..interval("a", Class::Productive, 0, hours * HOUR)
        };
        let row = |cluster: Option<&str>| Achieved {
            cluster: cluster.map(str::to_owned),
            ..achieved(Some("a"), 0, 36_000.0, None)
        };
        let both = [of("east", 2), of("west", 4)];
        let jobs = built(&[row(Some("east")), row(Some("west"))], &both).unwrap().jobs;
        let held: Vec<_> = jobs.iter().map(|job| (job.cluster.as_deref(), job.held.gpu_ms)).collect();
        assert_eq!(held, [(Some("east"), 2 * HOUR), (Some("west"), 4 * HOUR)]);
        let told_late = built(&[row(None)], &both[..1]).unwrap().jobs;
        assert_eq!(told_late[0].cluster.as_deref(), Some("east"), "rows of earlier releases tell no cluster");
    }

    #[test]
    fn the_unjoined_are_listed_and_never_counted() {
        let rows = [achieved(None, 0, 5.0, None), achieved(None, 1, 6.0, None)];
        let throughput = built(&rows, &[]).unwrap();
        assert!(throughput.jobs.is_empty());
        assert_eq!((throughput.unjoined.len(), throughput.unjoined[0].total), (1, 11.0));
        assert_eq!(throughput.unjoined[0].subject, "train-0");
    }
}
