//! Does the report name each fault of the script, for the right GPUs and hours?

use std::fmt;
use std::time::{Duration, SystemTime};

use super::script::Fault;
use crate::programs::Interval;

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
