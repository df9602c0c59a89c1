//! Does the report name each fault of the script, for the right GPUs and hours, and nothing else of size?

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use super::script::{Fault, Script};
use crate::report::Interval;

/// How far from the fault's own begin and end what is named may begin and end: the ledger's phases look around, and work
/// in flight is not lost at once.
const SLACK: Duration = Duration::from_secs(1800);

/// What became of a fault on one GPU.
#[derive(Debug)]
pub struct Finding {
    /// Of the time that the GPU lost in the fault's hours, the share under its class.
    pub share: f64,
    /// Where the class begins and ends within the fault's hours; none where it is not named.
    pub found: Option<(SystemTime, SystemTime)>,
    named: bool,
    line: String,
}

impl Finding {
    /// Is most of the loss under the class, from about the begin of the fault to about its end?
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.named
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// The heading of the findings' lines.
pub const HEADING: &str =
    "class               GPU  expected (UTC)              found                       of the loss";

/// Looks a fault up on each of its GPUs; `uuids` are those of the node by index.
#[must_use]
pub fn look_up(fault: &Fault, uuids: &[String], intervals: &[Interval]) -> Vec<Finding> {
    fault.gpus.iter().map(|gpu| on_gpu(fault, *gpu, uuids.get(*gpu), intervals)).collect()
}

fn on_gpu(fault: &Fault, gpu: usize, uuid: Option<&String>, intervals: &[Interval]) -> Finding {
    let own = || intervals.iter().filter(|i| Some(&i.gpu) == uuid && i.start < fault.to && i.end > fault.from);
    let within =
        |i: &Interval| i.gpu_seconds * seconds(i.start.max(fault.from), i.end.min(fault.to)) / seconds(i.start, i.end);
    let lost: f64 = own().filter(|i| i.class != "productive").map(within).sum();
    let named = || own().filter(|i| i.class == fault.class);
    let share = if lost > 0.0 { named().map(within).sum::<f64>() / lost } else { 0.0 };
    let found = named().map(|i| i.start).min().zip(named().map(|i| i.end).max());
    let found = found.map(|(from, to)| (from.max(fault.from), to.min(fault.to)));
    let in_time = found.is_some_and(|(from, to)| from <= fault.from + SLACK && to + SLACK >= fault.to);
    let named = share >= 0.5 && in_time;
    let shown = found.map_or_else(|| "-".to_owned(), |(from, to)| span(from, to));
    let line = format!(
        "{:<19} {gpu:>3}  {:<27} {shown:<27} {:>5.1} %{}",
        fault.class,
        span(fault.from, fault.to),
        100.0 * share,
        if named { "" } else { "  NOT NAMED" }
    );
    Finding { share, found, named, line }
}

/// Most of the capacity that a class may take outside what the script says: the floor below which a report does not
/// begin with a finding.
pub const MOST_STRAY: f64 = 0.005;

/// Most of it that may be left unexplained, which accuses nothing: jobs of the script wait a little at all times.
pub const MOST_UNEXPLAINED: f64 = 0.05;

/// Time of a class where the script has another: on other GPUs, or in other hours.
#[derive(Clone, Debug, PartialEq)]
pub struct Stray {
    /// The class.
    pub class: String,
    /// GPU-seconds of it.
    pub gpu_seconds: f64,
    /// Share of the capacity of all intervals.
    pub share: f64,
    /// The GPUs that have it, by index, with the GPU-seconds of each.
    pub gpus: BTreeMap<usize, f64>,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus: Vec<String> = self.gpus.iter().map(|(gpu, s)| format!("{gpu} ({:.2} h)", s / 3600.0)).collect();
        let (hours, percent) = (self.gpu_seconds / 3600.0, 100.0 * self.share);
        write!(f, "{:<19} {hours:>8.2} GPU-hours {percent:>6.2} % of capacity, GPUs {}", self.class, gpus.join(", "))?;
        f.write_str(if self.is_too_much() { "  NOT SCRIPTED" } else { "" })
    }
}

impl Stray {
    /// Does it take more than [`MOST_STRAY`] of capacity, or [`MOST_UNEXPLAINED`] without a cause?
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        let most = if self.class == "unexplained" { MOST_UNEXPLAINED } else { MOST_STRAY };
        self.share > most
    }
}

/// What the intervals claim beyond the script, the most first. `uuids` are those of the node by index.
#[must_use]
pub fn stray(script: &Script, uuids: &[String], intervals: &[Interval]) -> Vec<Stray> {
    let capacity: f64 = intervals.iter().map(|i| i.gpu_seconds).sum();
    let mut by_class: BTreeMap<&str, BTreeMap<usize, f64>> = BTreeMap::new();
    for interval in intervals.iter().filter(|i| i.class != "productive") {
        let Some(gpu) = uuids.iter().position(|uuid| *uuid == interval.gpu) else { continue };
        let expected = script.expected(&interval.class, gpu);
        let around = expected.iter().map(|(from, to)| (*from - SLACK, *to + SLACK));
        let within = covered(around, interval.start, interval.end);
        let length = seconds(interval.start, interval.end);
        let beyond = if length > 0.0 { interval.gpu_seconds * (1.0 - within / length) } else { 0.0 };
        if beyond > 0.0 {
            *by_class.entry(&interval.class).or_default().entry(gpu).or_default() += beyond;
        }
    }
    let one = |(class, gpus): (&str, BTreeMap<usize, f64>)| {
        let gpu_seconds: f64 = gpus.values().sum();
        Stray { class: class.to_owned(), gpu_seconds, share: gpu_seconds / capacity, gpus }
    };
    let mut strays: Vec<Stray> = by_class.into_iter().map(one).collect();
    strays.sort_by(|a, b| b.gpu_seconds.total_cmp(&a.gpu_seconds));
    strays
}

/// Seconds of a stretch that lie within any of these.
fn covered(spans: impl Iterator<Item = (SystemTime, SystemTime)>, from: SystemTime, to: SystemTime) -> f64 {
    let mut spans: Vec<_> = spans.map(|(start, end)| (start.max(from), end.min(to))).filter(|(s, e)| s < e).collect();
    spans.sort();
    let (mut done, mut sum) = (from, 0.0);
    for (start, end) in spans {
        sum += seconds(start.max(done), end);
        done = done.max(end);
    }
    sum
}

fn seconds(from: SystemTime, to: SystemTime) -> f64 {
    to.duration_since(from).unwrap_or_default().as_secs_f64()
}

fn span(from: SystemTime, to: SystemTime) -> String {
    let show = |time: SystemTime, format: &str| {
        let zoned = jiff::Timestamp::try_from(time).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
        zoned.strftime(format).to_string()
    };
    format!("{} to {}", show(from, "%a %d %H:%M"), show(to, "%a %H:%M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(hours: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + HOUR.mul_f64(hours)
    }

    fn interval(gpu: &str, class: &str, from: f64, to: f64, hours: f64) -> Interval {
        Interval { gpu: gpu.into(), class: class.into(), start: at(from), end: at(to), gpu_seconds: 3600.0 * hours }
    }

    fn named(intervals: &[Interval]) -> bool {
        let fault = Fault { class: "checkpoint", gpus: vec![1], from: at(10.0), to: at(13.0), owner: None };
        let uuids = ["GPU-a".to_owned(), "GPU-b".to_owned()];
        look_up(&fault, &uuids, intervals).iter().all(Finding::is_named)
    }

    #[test]
    fn what_the_script_does_not_say_of_a_gpu_and_time_is_stray() {
        let script = Script::week(at(168.0));
        let uuids: Vec<String> = (0..8).map(|gpu| format!("GPU-{gpu}")).collect();
        // The script has slow storage on GPUs 0 and 1 from 20 to 23, and no job on 4 to 7 from 17 to 30.
        let told = || {
            vec![
                interval("GPU-0", "dataloader_storage", 19.6, 23.4, 2.0),
                interval("GPU-4", "unallocated", 17.0, 30.0, 13.0),
                interval("GPU-0", "productive", 1.0, 45.0, 40.0),
            ]
        };
        assert_eq!(stray(&script, &uuids, &told()), []);
        let other = |gpu: &str, class, from, to| {
            let mut all = told();
            all.push(interval(gpu, class, from, to, 1.0));
            stray(&script, &uuids, &all).into_iter().map(|s| (s.class.clone(), s.is_too_much())).collect::<Vec<_>>()
        };
        let is = |class: &str| vec![(class.to_owned(), true)];
        assert_eq!(other("GPU-0", "host_to_device", 20.0, 23.0), is("host_to_device"), "a class that is not there");
        assert_eq!(other("GPU-2", "dataloader_storage", 20.0, 23.0), is("dataloader_storage"), "another GPU");
        assert_eq!(other("GPU-0", "dataloader_storage", 30.0, 33.0), is("dataloader_storage"), "another time");
        assert_eq!(other("GPU-0", "unexplained", 30.0, 31.0), [("unexplained".to_owned(), false)], "1 hour of 56");
        let without_cause = stray(&script, &uuids, &[interval("GPU-0", "unexplained", 30.0, 31.0, 1.0)]);
        assert!(without_cause[0].is_too_much(), "all there is");
        let partly = stray(&script, &uuids, &[interval("GPU-0", "dataloader_storage", 22.5, 24.5, 1.0)]);
        assert!((partly[0].gpu_seconds - 1800.0).abs() < 1.0, "{partly:?}");
    }

    #[test]
    fn most_of_the_loss_from_begin_to_end_is_named_and_less_is_not() {
        let work = || interval("GPU-b", "productive", 9.0, 14.0, 4.0);
        assert!(named(&[work(), interval("GPU-b", "checkpoint", 10.0, 13.0, 0.6)]));
        assert!(!named(&[work()]), "nothing");
        assert!(!named(&[work(), interval("GPU-a", "checkpoint", 10.0, 13.0, 0.6)]), "another GPU");
        assert!(!named(&[work(), interval("GPU-b", "checkpoint", 10.0, 12.0, 0.6)]), "an hour too short");
        let other = interval("GPU-b", "unexplained", 10.0, 13.0, 0.7);
        assert!(!named(&[work(), interval("GPU-b", "checkpoint", 10.0, 13.0, 0.6), other]), "less than half");
    }
}
