//! The truth of a trace: what the job wrote down that it did, and what the schedule says that its waiting is lost to.
//! Pure; no signal enters it.

use std::ops::Range;

use goodput_exposition::sample::TimeMs;

use super::orders::{Doing, Edge};
use crate::trace::Row;

const MINUTE_MS: TimeMs = 60_000;

/// What the schedule did from some moment on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Phase {
    /// When.
    pub from_ms: TimeMs,
    /// The class that waiting for batches is lost to.
    pub waiting: &'static str,
    /// Classes that are as good an answer.
    pub also: &'static [&'static str],
}

/// A stretch of one class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stretch {
    /// From when until when.
    pub span: Range<TimeMs>,
    /// What the GPU did.
    pub class: &'static str,
    /// Classes that are as good an answer.
    pub also: Vec<&'static str>,
}

/// The rows of the job's GPU, by whole minutes; within a minute they are in order of their first beginning. `scraped`
/// is from the first scrape to the last: the rest of their minutes has no data. The stretches follow each other.
#[must_use]
pub(super) fn rows(entity: &str, scraped: &Range<TimeMs>, stretches: Vec<Stretch>) -> Vec<Row> {
    let first = scraped.start.div_euclid(MINUTE_MS) * MINUTE_MS;
    let last = -(-scraped.end).div_euclid(MINUTE_MS) * MINUTE_MS;
    let unknown = |span| Stretch { span, class: "no_data", also: Vec::new() };
    let mut all = vec![unknown(first..scraped.start)];
    all.extend(stretches.into_iter().filter_map(|stretch| clipped(stretch, scraped)));
    all.push(unknown(scraped.end..last));
    let mut rows: Vec<Row> = Vec::new();
    for minute in (first..last).step_by(MINUTE_MS as usize) {
        for row in minute_rows(entity, &(minute..minute + MINUTE_MS), &all) {
            match rows.last_mut() {
                Some(last) if last.end_ms == row.start_ms && (last.class, &last.also) == (row.class, &row.also) => {
                    last.end_ms = row.end_ms;
                }
                _ => rows.push(row),
            }
        }
    }
    rows
}

/// What each class has of a minute, laid one after another.
fn minute_rows(entity: &str, minute: &Range<TimeMs>, stretches: &[Stretch]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for Stretch { span, class, also } in stretches {
        let ms = span.end.min(minute.end) - span.start.max(minute.start);
        if ms <= 0 {
            continue;
        }
        match rows.iter_mut().find(|row| row.class == *class && row.also == *also) {
            Some(row) => row.end_ms += ms,
            None => rows.push(Row {
                entity: entity.to_owned(),
                start_ms: 0,
                end_ms: ms,
                class,
                charged_to: None,
                also: also.clone(),
            }),
        }
    }
    let mut at = minute.start;
    for row in &mut rows {
        (row.start_ms, row.end_ms) = (at, at + row.end_ms - row.start_ms);
        at = row.end_ms;
    }
    rows
}

/// What of it lies in the span.
fn clipped(stretch: Stretch, span: &Range<TimeMs>) -> Option<Stretch> {
    let (start, end) = (stretch.span.start.max(span.start), stretch.span.end.min(span.end));
    (start < end).then_some(Stretch { span: start..end, ..stretch })
}

/// A moment from which the GPU did something else: when, its class, and classes that are as good an answer.
pub(super) type Change = (TimeMs, &'static str, Vec<&'static str>);

/// The span, without holes, by what the GPU did. Before the first change, the GPU has no owner.
#[must_use]
pub(super) fn stretches(span: &Range<TimeMs>, changes: Vec<Change>) -> Vec<Stretch> {
    let first_ms = changes.first().map_or(span.end, |(ms, ..)| *ms);
    let free = Stretch { span: span.start..first_ms, class: "unallocated", also: Vec::new() };
    let ends: Vec<TimeMs> = changes.iter().skip(1).map(|(ms, ..)| *ms).chain([span.end]).collect();
    let of_job = changes.into_iter().zip(ends);
    let of_job = of_job.map(|((start, class, also), end)| Stretch { span: start..end, class, also });
    [free].into_iter().chain(of_job).collect()
}

/// What the job wrote down, with what its waiting was lost to.
#[must_use]
pub(super) fn changes(phases: &[Phase], edges: &[Edge]) -> Vec<Change> {
    let change = |edge: &Edge| {
        let ms = (edge.at_us / 1000) as TimeMs;
        let (class, also) = class_of(edge.doing, phases.iter().rfind(|phase| phase.from_ms <= ms));
        (ms, class, also.to_vec())
    };
    edges.iter().map(change).collect()
}

/// A wait is lost to what was the matter when it began.
fn class_of(doing: Doing, phase: Option<&Phase>) -> (&'static str, &'static [&'static str]) {
    match doing {
        Doing::Prepare => ("cold_start", &[]),
        Doing::Compute => ("productive", &[]),
        Doing::Wait => phase.map_or(("productive", &[]), |phase| (phase.waiting, phase.also)),
        Doing::Save => ("checkpoint", &[]),
        Doing::Rest => ("idle_held", &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(second: f64, doing: Doing) -> Edge {
        Edge { at_us: (second * 1e6) as u64, doing }
    }

    fn phase(second: TimeMs, waiting: &'static str) -> Phase {
        Phase { from_ms: second * 1000, waiting, also: &[] }
    }

    fn told(span: Range<TimeMs>, phases: &[Phase], edges: &[Edge]) -> Vec<(TimeMs, TimeMs, &'static str)> {
        let stretches = stretches(&span, changes(phases, edges));
        rows("n/gpu0", &span, stretches).into_iter().map(|r| (r.start_ms, r.end_ms, r.class)).collect()
    }

    #[test]
    fn waits_are_lost_to_the_phase_that_they_began_in() {
        let edges =
            [edge(10.0, Doing::Compute), edge(20.0, Doing::Wait), edge(40.0, Doing::Compute), edge(45.0, Doing::Wait)];
        let phases = [phase(0, "productive"), phase(15, "cpu_throttled"), phase(30, "host_noise")];
        let expected = [
            (0, 15_000, "no_data"),
            (15_000, 20_000, "unallocated"),
            (20_000, 35_000, "productive"),
            (35_000, 55_000, "cpu_throttled"),
            (55_000, 60_000, "host_noise"),
        ];
        assert_eq!(told(5_000..50_000, &phases, &edges), expected);
    }

    #[test]
    fn a_minute_is_laid_out_by_class_and_a_class_that_goes_on_is_one_row() {
        let edges = [
            edge(0.0, Doing::Prepare),
            edge(90.0, Doing::Compute),
            edge(100.0, Doing::Save),
            edge(110.0, Doing::Compute),
            edge(120.0, Doing::Rest),
        ];
        let expected = [
            (0, 90_000, "cold_start"),
            (90_000, 110_000, "productive"),
            (110_000, 120_000, "checkpoint"),
            (120_000, 240_000, "idle_held"),
        ];
        assert_eq!(told(0..240_000, &[], &edges), expected);
    }

    #[test]
    fn without_a_job_the_gpu_is_nobodys_and_what_is_outside_is_cut_off() {
        assert_eq!(told(0..120_000, &[], &[]), [(0, 120_000, "unallocated")]);
        let edges = [edge(1.0, Doing::Rest), edge(500.0, Doing::Compute)];
        assert_eq!(told(60_000..120_000, &[], &edges), [(60_000, 120_000, "idle_held")]);
    }

    #[test]
    fn every_millisecond_is_told_once() {
        let edges: Vec<Edge> = (0..400)
            .map(|n| edge(f64::from(n) * 0.7315, if n % 2 == 0 { Doing::Compute } else { Doing::Wait }))
            .collect();
        let rows = told(0..300_000, &[phase(0, "cpu_throttled"), phase(100, "productive")], &edges);
        assert!(rows.windows(2).all(|pair| pair[0].1 == pair[1].0), "{rows:?}");
        assert_eq!((rows[0].0, rows.last().unwrap().1), (0, 300_000));
    }
}
