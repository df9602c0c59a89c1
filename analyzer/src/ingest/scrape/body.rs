//! What the body of a scrape becomes: samples under the target's labels, markers of series that vanished, and `up`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;
use goodput_catalog::host::NODE_INFO;
use goodput_exposition::{Fault, Format, Point, Points, Reason, TextError};

use super::super::Limits;
use super::super::skipped::{Rules, Skipped};
use super::Target;
use goodput_exposition::sample::{Batch, Labels, LabelsRef, STALE_BITS, Sample, TimeMs};

/// The series that every scrape adds: 1 when it succeeded, else 0. Prometheus' own name for it.
pub const UP: &str = "up";

/// The series of a target's last scrape, and whether a marker is due when they vanish.
#[derive(Debug, Default)]
pub struct Seen {
    series: HashMap<Labels, Known, RandomState>,
    /// Counts scrapes that got an answer.
    scrape: u64,
}

#[derive(Debug)]
struct Known {
    /// In the last scrape that succeeded, and is a marker due when it is not in the next?
    last: Option<bool>,
    /// The scrape that it was in most recently, and the same of that one.
    recent: (u64, bool),
}

impl Seen {
    /// Notes that the series is in this scrape. False when that was known.
    fn note(&mut self, labels: LabelsRef<'_>, due: bool) -> bool {
        let recent = (self.scrape, due);
        match self.series.get_mut(labels.key()) {
            Some(known) if known.recent.0 == self.scrape => return false,
            Some(known) => known.recent = recent,
            None => {
                self.series.insert(labels.to_labels(), Known { last: None, recent });
            }
        }
        true
    }

    /// This scrape succeeded: forgets what is not in it, and adds the markers that are due.
    fn settle(&mut self, time_ms: TimeMs, batch: &mut Batch) {
        self.series.retain(|labels, known| {
            let (scrape, due) = known.recent;
            if scrape == self.scrape {
                known.last = Some(due);
                return true;
            }
            if known.last == Some(true) {
                batch.push(labels.as_ref(), &[marker(time_ms)]);
            }
            false
        });
    }
}

/// Why an answer brings nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is no exposition text, or too long.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A limit of its job is broken.
    #[error("{0}")]
    Limit(String),
}

/// What a scrape that got an answer brings: its samples, the markers of series that vanished, and `up`; and what was left
/// out of it: lines that cannot be read, and series that break a limit. Of a series that is there twice the first stays.
/// Series with timestamps of their own get no markers, as in Prometheus. After an error, which is one of the whole answer,
/// markers are due as before. A series that was in the last scrape costs no allocation, unless a label has escapes or the
/// target's name.
pub fn succeeded<T: AsRef<[u8]> + ?Sized>(
    body: &T,
    format: Format,
    rules: &Rules<'_>,
    target: &Target,
    time_ms: TimeMs,
    seen: &mut Seen,
) -> Result<(Batch, Skipped), BodyError> {
    let (mut batch, mut skipped) = (Batch::default(), Skipped::default());
    seen.scrape += 1;
    let mut points = Points::new(body, format, rules.limits.of_text());
    let mut pairs = Vec::new();
    let (mut samples, mut first_bad) = (0, None);
    while let Some(point) = points.next() {
        let mut point = match point {
            Ok(point) => point,
            Err(error) => {
                let fault = Fault { reason: Reason::Syntax, detail: error.to_string(), bytes: 0 };
                skipped.add("", fault, 1);
                first_bad.get_or_insert(error);
                continue;
            }
        };
        samples += 1;
        batch.add(Sample { time_ms: point.time_ms.unwrap_or(time_ms), value: point.value });
        label(&mut point, target, &mut pairs);
        let limits = &target.limits;
        if let Some(broken) = limits.broken_by_samples(samples).or_else(|| limits.broken_by_labels(&pairs)) {
            return Err(BodyError::Limit(broken));
        }
        if pairs.len() > rules.limits.labels {
            let bytes = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
            point.fault.get_or_insert_with(|| Box::new(Fault { bytes, ..Fault::many_labels(rules.limits.labels) }));
        }
        if let Some(fault) = point.fault {
            leave_out(&point.name, *fault, rules, &mut batch, &mut skipped);
            continue;
        }
        batch.end(&mut pairs);
        if !seen.note(batch.last_labels(), point.time_ms.is_none()) {
            batch.take_back();
        }
        points.give_back(point.labels);
    }
    points.finish()?;
    // A page without any line that can be read is a page of something other than metrics.
    if let Some(error) = first_bad.filter(|_| samples == 0) {
        return Err(error.into());
    }
    seen.settle(time_ms, &mut batch);
    up(target, time_ms, 1.0, &mut batch);
    Ok((batch, skipped))
}

/// Leaves out a series with a fault. One of a metric that the store does not keep loses its labels only: it counts as
/// unknown.
#[cold]
fn leave_out(metric: &str, fault: Fault, rules: &Rules<'_>, batch: &mut Batch, skipped: &mut Skipped) {
    if metric.is_empty() || (rules.keeps)(metric) {
        let samples = batch.drop_open();
        skipped.add(metric, fault, samples);
    } else {
        batch.end::<&str, &str>(&mut []);
        skipped.mention(metric, fault);
    }
}

/// What a failed scrape brings: a marker for every series of the last one, and `up` at 0.
pub fn failed(target: &Target, time_ms: TimeMs, seen: &mut Seen) -> Batch {
    let mut batch = ended(time_ms, seen);
    up(target, time_ms, 0.0, &mut batch);
    batch
}

/// A marker for every series of the last scrape for which one is due; then all are forgotten.
pub(super) fn ended(time_ms: TimeMs, seen: &mut Seen) -> Batch {
    let mut batch = Batch::default();
    let due = seen.series.drain().filter(|(_, known)| known.last == Some(true));
    due.for_each(|(labels, _)| batch.push(labels.as_ref(), &[marker(time_ms)]));
    batch
}

fn marker(time_ms: TimeMs) -> Sample {
    Sample { time_ms, value: f64::from_bits(STALE_BITS) }
}

pub(super) fn up(target: &Target, time_ms: TimeMs, value: f64, batch: &mut Batch) {
    let own = target.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    batch.add(Sample { time_ms, value });
    batch.end(&mut own.chain([("__name__", UP)]).collect::<Vec<_>>());
}

/// The name of the node whose exporter gave this answer.
pub(super) fn nodename(body: &[u8], limits: &Limits) -> Option<String> {
    let of_node =
        |line: &&[u8]| line.strip_prefix(NODE_INFO.name.as_bytes()).is_some_and(|rest| rest.starts_with(b"{"));
    let line = body.split(|byte| *byte == b'\n').find(of_node)?;
    let point = Points::new(line, Format::Text, limits.of_text()).next()?.ok()?;
    let (_, name) = point.labels.into_iter().find(|(label, _)| label == "nodename")?;
    Some(name.into_owned()).filter(|name| !name.is_empty())
}

/// Puts the labels of a point into the pairs. The target's win; a scraped label of the same name is kept as `exported_…`.
fn label<'a>(point: &mut Point<'a>, target: &'a Target, pairs: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>) {
    let taken = |name: &str| target.labels.iter().any(|(own, _)| own == name);
    pairs.clear();
    for place in 0..point.labels.len() {
        let mut name = point.labels[place].0.clone();
        if taken(&name) {
            let scraped = |name: &str| point.labels.iter().any(|(other, _)| *other == name);
            while taken(&name) || scraped(&name) {
                name.to_mut().insert_str(0, "exported_");
            }
        }
        pairs.push((name, mem::take(&mut point.labels[place].1)));
    }
    pairs.extend(target.labels.iter().map(|(name, value)| (name.into(), value.into())));
    pairs.push(("__name__".into(), point.name.clone()));
}

#[cfg(test)]
mod tests {
    use super::super::super::Limits;
    use super::super::JobLimits;
    use super::*;
    use goodput_exposition::sample::is_stale;

    fn target() -> Target {
        Target::new("gpu", "node1:9400")
    }

    fn scrape(body: &str, time_ms: TimeMs, seen: &mut Seen) -> Batch {
        succeeded(body, Format::Text, &Rules::of_all(&Limits::default()), &target(), time_ms, seen).unwrap().0
    }

    /// Metric, its labels but for job and instance, time, and the value (none for a marker), in order.
    fn plain(batch: &Batch) -> Vec<(String, String, TimeMs, Option<f64>)> {
        let mut plain: Vec<_> = batch
            .series()
            .map(|series| {
                assert_eq!(
                    (series.labels.get("job"), series.labels.get("instance")),
                    (Some("gpu"), Some("node1:9400"))
                );
                let others = series.labels.iter().filter(|(name, _)| !["__name__", "job", "instance"].contains(name));
                let others: Vec<_> = others.map(|(name, value)| format!("{name}={value}")).collect();
                let sample = series.samples[0];
                let value = Some(sample.value).filter(|value| !is_stale(*value));
                (series.labels.metric().to_owned(), others.join(","), sample.time_ms, value)
            })
            .collect();
        plain.sort_by(|a, b| a.partial_cmp(b).unwrap());
        plain
    }

    fn row(metric: &str, labels: &str, time_ms: TimeMs, value: Option<f64>) -> (String, String, TimeMs, Option<f64>) {
        (metric.to_owned(), labels.to_owned(), time_ms, value)
    }

    #[test]
    fn a_series_that_vanishes_gets_one_marker() {
        let mut seen = Seen::default();
        let first = scrape("a{x=\"1\"} 1\na{x=\"2\"} 2\n", 10, &mut seen);
        let expected = [row("a", "x=1", 10, Some(1.0)), row("a", "x=2", 10, Some(2.0)), row("up", "", 10, Some(1.0))];
        assert_eq!(plain(&first), expected);
        let second = scrape("a{x=\"1\"} 1\n", 20, &mut seen);
        let expected = [row("a", "x=1", 20, Some(1.0)), row("a", "x=2", 20, None), row("up", "", 20, Some(1.0))];
        assert_eq!(plain(&second), expected);
        let third = scrape("a{x=\"1\"} 1\n", 30, &mut seen);
        assert_eq!(plain(&third), [row("a", "x=1", 30, Some(1.0)), row("up", "", 30, Some(1.0))]);
    }

    #[test]
    fn a_failed_scrape_ends_every_series_once() {
        let mut seen = Seen::default();
        scrape("a 1\n", 10, &mut seen);
        assert_eq!(plain(&failed(&target(), 20, &mut seen)), [row("a", "", 20, None), row("up", "", 20, Some(0.0))]);
        assert_eq!(plain(&failed(&target(), 30, &mut seen)), [row("up", "", 30, Some(0.0))]);
    }

    #[test]
    fn a_body_that_cannot_be_read_changes_nothing() {
        let mut seen = Seen::default();
        scrape("a 1\n", 10, &mut seen);
        let limits = Limits { samples: 1, ..Limits::default() };
        let rules = Rules::of_all(&limits);
        let error = succeeded("b 1\nc 1\n", Format::Text, &rules, &target(), 20, &mut seen).unwrap_err();
        assert_eq!(error.to_string(), "line 2: more than 1 samples");
        assert_eq!(plain(&failed(&target(), 20, &mut seen)), [row("a", "", 20, None), row("up", "", 20, Some(0.0))]);
    }

    #[test]
    fn series_with_their_own_time_get_no_marker() {
        let mut seen = Seen::default();
        let first = scrape("a 1 5\n", 10, &mut seen);
        assert_eq!(plain(&first), [row("a", "", 5, Some(1.0)), row("up", "", 10, Some(1.0))]);
        assert_eq!(plain(&scrape("", 20, &mut seen)), [row("up", "", 20, Some(1.0))]);
        // One that begins to give a time has not vanished.
        scrape("b 1\n", 30, &mut seen);
        assert_eq!(
            plain(&scrape("b 1 35\n", 40, &mut seen)),
            [row("b", "", 35, Some(1.0)), row("up", "", 40, Some(1.0))]
        );
    }

    #[test]
    fn the_first_of_two_equal_series_stays() {
        let batch = scrape("a 1\na 2\n", 10, &mut Seen::default());
        assert_eq!(plain(&batch), [row("a", "", 10, Some(1.0)), row("up", "", 10, Some(1.0))]);
    }

    #[test]
    fn labels_of_the_target_win() {
        let body = "a{job=\"own\",exported_job=\"older\",instance=\"\",gpu=\"0\"} 1\n";
        let batch = scrape(body, 10, &mut Seen::default());
        let expected = row("a", "exported_exported_job=own,exported_job=older,gpu=0", 10, Some(1.0));
        assert_eq!(plain(&batch), [expected, row("up", "", 10, Some(1.0))]);
    }

    /// The metrics that come through, `up` left out, and the reasons of those that are skipped.
    fn skipped(body: &[u8], format: Format, limits: &Limits) -> (Vec<String>, Vec<(&'static str, u64)>) {
        let rules = Rules { limits, keeps: &|metric| metric != "foreign" };
        let (batch, skipped) = succeeded(body, format, &rules, &target(), 10, &mut Seen::default()).unwrap();
        let metrics = batch.series().map(|series| series.labels.metric().to_owned()).filter(|metric| metric != UP);
        (metrics.collect(), skipped.series().map(|(reason, count)| (reason.name(), count)).collect())
    }

    #[test]
    fn a_line_or_series_that_is_bad_costs_itself() {
        let limits = Limits { labels: 5, label_bytes: 40, ..Limits::default() };
        let long = format!("long{{x=\"{}\"}} 1\n", "y".repeat(40));
        // Two labels are the target's.
        let many = "many{a=\"1\",b=\"2\",c=\"3\"} 1\n";
        type Case<'a> = (&'a str, &'a [u8], &'a [(&'a str, u64)]);
        let cases: [Case<'_>; 8] = [
            ("no number", b"bad x\n", &[("syntax", 1)]),
            ("no name", b"{x=\"1\"} 1\n", &[("metric_name", 1)]),
            ("an empty name", b"bad{\"\"=\"1\"} 1\n", &[("empty_label", 1)]),
            ("a name twice", b"bad{x=\"1\",x=\"1\"} 1\n", &[("duplicate_label", 1)]),
            ("a long label", long.as_bytes(), &[("label_bytes", 1)]),
            ("many labels", many.as_bytes(), &[("label_count", 1)]),
            ("no UTF-8", b"bad{x=\"\xff\"} 1\nworse{x=\"\xff\"} 1\n", &[("syntax", 2)]),
            ("a comment", b"# TYPE \xff\n", &[("syntax", 1)]),
        ];
        for (what, bad, reasons) in cases {
            for (format, end) in [(Format::Text, "" as &str), (Format::OpenMetrics, "# EOF\n")] {
                let body = [b"first 1\n", bad, b"last{x=\"\xc3\xa9\"} 2\n".as_slice(), end.as_bytes()].concat();
                let got = skipped(&body, format, &limits);
                assert_eq!(got, (vec!["first".to_owned(), "last".to_owned()], reasons.to_vec()), "{what}");
            }
        }
    }

    #[test]
    fn limits_of_labels_do_not_apply_to_a_metric_that_is_not_kept() {
        let body = format!("foreign{{x=\"{}\"}} 1\nkept 1\n", "y".repeat(6000));
        let limits = Limits::default();
        // Without labels it is counted as unknown.
        let expected = (vec![String::new(), "kept".to_owned()], Vec::new());
        assert_eq!(skipped(body.as_bytes(), Format::Text, &limits), expected);
    }

    /// As Prometheus has it: a limit of the job that is broken fails the whole scrape, also by a metric that is not kept.
    #[test]
    fn a_limit_of_the_job_that_is_broken_fails_the_scrape() {
        // Two labels are the target's, one is the name.
        let four = "a{x=\"12345678901\"} 1\n";
        let limits = JobLimits::default();
        let cases = [
            (JobLimits { sample_limit: Some(2), ..limits }, "a 1\nb 1\n", "a 1\nb 1\nc 1\n", "sample_limit"),
            (JobLimits { label_limit: Some(4), ..limits }, four, "a{x=\"1\",y=\"1\"} 1\n", "label_limit"),
            (
                JobLimits { label_name_length_limit: Some(8), ..limits },
                four,
                "a{x23456789=\"1\"} 1\n",
                "label_name_length_limit",
            ),
            (
                JobLimits { label_value_length_limit: Some(11), ..limits },
                four,
                "a{x=\"123456789012\"} 1\n",
                "label_value_length_limit",
            ),
        ];
        for (limits, fine, broken, name) in cases {
            let target = Target { limits, ..target() };
            for format in [Format::Text, Format::OpenMetrics] {
                let mut seen = Seen::default();
                let all = Limits::default();
                let rules = Rules { limits: &all, keeps: &|_| false };
                let end = if format == Format::Text { "" } else { "# EOF\n" };
                let mut scrape = |body: &str, time_ms| {
                    let body = format!("{body}{end}");
                    succeeded(&body, format, &rules, &target, time_ms, &mut seen)
                };
                let (first, _) = scrape(fine, 10).unwrap();
                let error = scrape(broken, 20).unwrap_err();
                assert!(matches!(&error, BodyError::Limit(text) if text.contains(name)), "{name}: {error}");
                // Every series of the last scrape ends.
                assert_eq!(failed(&target, 20, &mut seen).len(), first.len(), "{name}");
            }
        }
    }
}
