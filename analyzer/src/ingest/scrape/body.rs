//! What the body of a scrape becomes: samples under the target's labels, markers of series that vanished, and `up`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::super::Limits;
use super::super::text::{self, Format, Point, TextError};
use super::Target;
use crate::sample::{Batch, Labels, STALE_BITS, Sample, TimeMs};

/// The series that every scrape adds: 1 when it succeeded, else 0. Prometheus' own name for it.
pub const UP: &str = "up";

/// The series of a target's last scrape, and whether a marker is due when they vanish.
#[derive(Debug, Default)]
pub struct Seen(HashMap<Labels, bool>);

impl Seen {
    /// Forgets all; gives those for which a marker is due.
    fn take_due(&mut self) -> impl Iterator<Item = Labels> {
        self.0.drain().filter_map(|(labels, due)| due.then_some(labels))
    }
}

/// What a scrape that got an answer brings: its samples, the markers of series that vanished, and `up`. Of a series
/// that is there twice the first stays. Series with timestamps of their own get no markers, as in Prometheus. On an
/// error nothing has changed.
pub fn succeeded(
    body: &str,
    format: Format,
    limits: &Limits,
    target: &Target,
    time_ms: TimeMs,
    seen: &mut Seen,
) -> Result<Batch, TextError> {
    let mut current = HashMap::new();
    let mut batch = Batch::default();
    for point in text::points(body, format, limits) {
        let point = point?;
        let sample = Sample { time_ms: point.time_ms.unwrap_or(time_ms), value: point.value };
        let due = point.time_ms.is_none();
        let labels = labelled(point, target);
        let Entry::Vacant(place) = current.entry(labels.clone()) else { continue };
        place.insert(due);
        batch.push(labels.as_ref(), &[sample]);
    }
    let vanished = seen.take_due().filter(|labels| !current.contains_key(labels));
    vanished.for_each(|labels| batch.push(labels.as_ref(), &[marker(time_ms)]));
    up(target, time_ms, 1.0, &mut batch);
    seen.0 = current;
    Ok(batch)
}

/// What a failed scrape brings: a marker for every series of the last one, and `up` at 0.
pub fn failed(target: &Target, time_ms: TimeMs, seen: &mut Seen) -> Batch {
    let mut batch = ended(time_ms, seen);
    up(target, time_ms, 0.0, &mut batch);
    batch
}

/// A marker for every series of the last scrape for which one is due.
pub(super) fn ended(time_ms: TimeMs, seen: &mut Seen) -> Batch {
    let mut batch = Batch::default();
    seen.take_due().for_each(|labels| batch.push(labels.as_ref(), &[marker(time_ms)]));
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

/// The target's labels win; a scraped label of the same name is kept as `exported_…`.
fn labelled(point: Point<'_>, target: &Target) -> Labels {
    let taken = |name: &str| target.labels.iter().any(|(own, _)| own == name);
    let scraped = |name: &str| point.labels.iter().any(|(other, _)| *other == name);
    let renamed = |name: &str| {
        let mut name = name.to_owned();
        while taken(&name) || scraped(&name) {
            name.insert_str(0, "exported_");
        }
        name
    };
    let own = target.labels.iter().map(|(name, value)| (Cow::from(name), value.as_str()));
    let pairs = point.labels.iter().map(|(name, value)| {
        let name = if taken(name) { Cow::from(renamed(name)) } else { Cow::from(*name) };
        (name, value.as_ref())
    });
    Labels::new(pairs.chain(own).chain([("__name__".into(), point.name)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::is_stale;

    fn target() -> Target {
        Target::new("gpu", "node1:9400")
    }

    fn scrape(body: &str, time_ms: TimeMs, seen: &mut Seen) -> Batch {
        succeeded(body, Format::Text, &Limits::default(), &target(), time_ms, seen).unwrap()
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
        let error = succeeded("b 1\nc\n", Format::Text, &Limits::default(), &target(), 20, &mut seen).unwrap_err();
        assert_eq!(error.line, 2);
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
}
