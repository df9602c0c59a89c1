use super::*;
use crate::report::{Period, Report, html, markdown};
use goodput_testing::{START, bare, ended, event, saved};
use goodput_verdict::event::{Event, Status, What};

const HOUR: i64 = 3_600_000;
const PERIOD: Range<TimeMs> = 0..100 * HOUR;

fn interval(class: Class, hours: Range<i64>, share: f64) -> Interval {
    let ms = ((hours.end - hours.start) as f64 * share * HOUR as f64) as i64;
    Interval { owner: Some("ml/a".into()), ms, ..bare(class, hours.start * HOUR..hours.end * HOUR) }
}

fn history(events: Vec<Event>) -> History {
    let progress = Progress {
        run: events[0].run.clone(),
        attempt: 0,
        first_ms: 0,
        last_ms: events.iter().map(|e| e.time_ms).max().unwrap(),
        last_step: Some(7),
    };
    History { events, progress: vec![progress] }
}

fn one(events: Vec<Event>, intervals: &[Interval]) -> Run {
    let mut runs = build(&history(events), intervals, &PERIOD);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// Waits for an hour, works for six, fails; waits for two, works for two of four, and goes on.
fn example() -> (Vec<Event>, Vec<Interval>) {
    let submitted = What::Start { submitted_ms: Some(HOUR) };
    let events = vec![
        event(2 * HOUR, 0, submitted),
        event(8 * HOUR, 0, ended(Status::Failed)),
        event(10 * HOUR, 1, START),
        event(11 * HOUR, 1, saved(7)),
        event(13 * HOUR, 1, saved(9)),
    ];
    let intervals = vec![
        interval(Class::Productive, 2..8, 0.5),
        interval(Class::LostWork, 2..8, 0.5),
        interval(Class::Productive, 10..12, 1.0),
        interval(Class::Checkpoint, 12..14, 1.0),
        interval(Class::NoData, 14..20, 1.0),
        Interval { owner: Some("ml/b".into()), ..interval(Class::Productive, 2..50, 1.0) },
    ];
    (events, intervals)
}

#[test]
fn time_is_queued_productive_unproductive_or_unknown() {
    let (events, intervals) = example();
    let run = one(events, &intervals);
    let hours = [run.queued_ms, run.productive_ms, run.unproductive_ms, run.unknown_ms].map(|ms| ms / HOUR);
    assert_eq!((hours, run.is_first_queue_known), ([3, 5, 5, 0], true));
    assert_eq!((run.ettr, run.failures, run.mttf_seconds), (Some(5.0 / 13.0), 1, Some(36_000.0)));
    assert_eq!((run.checkpoint_interval_seconds, run.attempts.len()), (Some(7200.0), 2));
    let expected = CheckpointCost { seconds: 3600.0, source: "time booked on checkpoint" };
    assert_eq!(run.checkpoint_cost, Some(expected));
    assert_eq!(run.no_advice.as_deref(), Some("1 failures, and fewer than 5 say too little"));
    let (first, second) = (&run.attempts[0], &run.attempts[1]);
    assert_eq!((first.ending, first.last_step, first.ended_ms), ("failed", Some(7), Some(8 * HOUR)));
    assert_eq!((second.ending, second.last_step, second.saved_ms), ("open", None, Some(13 * HOUR)));
}

#[test]
fn a_run_has_the_time_of_its_own_cluster() {
    let (mut events, intervals) = example();
    let within = |cluster: &str, all: &[Interval]| -> Vec<Interval> {
        all.iter().map(|i| Interval { cluster: Some(cluster.to_owned()), ..i.clone() }).collect()
    };
    let elsewhere = within("west", &[interval(Class::IdleHeld, 2..14, 1.0)]);
    let both = [within("east", &intervals), elsewhere].concat();
    let unknown = one(events.clone(), &both);
    assert!(unknown.unproductive_ms > 5 * HOUR, "it may be in any");
    events.iter_mut().for_each(|event| event.run.cluster = "east".to_owned());
    let hours = |run: &Run| [run.productive_ms, run.unproductive_ms].map(|ms| ms / HOUR);
    assert_eq!(hours(&one(events.clone(), &both)), [5, 5]);
    assert_eq!(hours(&one(events, &intervals)), [5, 5], "verdicts that do not tell");
}

#[test]
fn time_without_data_is_unknown_and_no_ratio_is_made_of_nothing() {
    let events = vec![event(0, 0, START), event(10 * HOUR, 0, ended(Status::Completed))];
    let run = one(events.clone(), &[interval(Class::Productive, 0..4, 1.0)]);
    assert_eq!((run.unknown_ms, run.ettr, run.mttf_seconds), (6 * HOUR, Some(1.0), None));
    let run = one(events, &[]);
    assert_eq!((run.unknown_ms, run.ettr, run.queued_ms, run.is_first_queue_known), (10 * HOUR, None, 0, false));
}

#[test]
fn evaluation_is_productive_and_shown_apart() {
    let evaluated = |at: i64, minutes: f64| event(at, 0, What::Evaluation { seconds: 60.0 * minutes });
    // Two ranks report one evaluation; another is at a time when half of the GPU time was lost.
    let told = vec![
        event(0, 0, START),
        Event { id: "0".into(), rank: Some(0), ..evaluated(2 * HOUR, 30.0) },
        Event { id: "1".into(), rank: Some(1), ..evaluated(2 * HOUR, 60.0) },
        evaluated(5 * HOUR, 30.0),
        event(10 * HOUR, 0, ended(Status::Completed)),
    ];
    let half = [interval(Class::Productive, 4..6, 0.5), interval(Class::DataloaderCpu, 4..6, 0.5)];
    let intervals = [&[interval(Class::Productive, 0..4, 1.0)], &half[..]].concat();
    let run = one(told, &intervals);
    assert_eq!((run.productive_ms, run.evaluating_ms), (5 * HOUR, Some(5 * HOUR / 4)));
    assert_eq!(run.productive(), "5.00 (1.25 evaluating)");
    let run = one(vec![event(0, 0, START), event(10 * HOUR, 0, ended(Status::Completed))], &intervals);
    assert_eq!((run.evaluating_ms, run.productive().as_str()), (None, "5.00"));
}

#[test]
fn what_the_job_measures_goes_before_the_ledger_and_five_failures_are_enough() {
    let (mut events, mut intervals) = (Vec::new(), Vec::new());
    for n in 0..5 {
        let at = i64::from(n) * 10 * HOUR;
        events.push(event(at, n, START));
        events.push(event(at + HOUR, n, What::Checkpoint { step: u64::from(n), seconds: Some(50.0) }));
        events.push(event(at + 10 * HOUR, n, ended(Status::Preempted)));
        intervals.push(interval(Class::Productive, i64::from(n) * 10..i64::from(n + 1) * 10, 1.0));
    }
    let run = one(events, &intervals);
    assert_eq!((run.failures, run.mttf_seconds), (5, Some(36_000.0)));
    assert_eq!((run.advised_interval_seconds, run.no_advice), (Some((2.0_f64 * 50.0 * 36_000.0).sqrt()), None));
    assert_eq!(run.checkpoint_cost.map(|c| c.source), Some("as the job measured it"));
}

#[test]
fn advice_is_for_what_the_formula_is_made_for() {
    let cost = |seconds| Some(CheckpointCost { seconds, source: "" });
    // 2048 nodes at 6.50 failures in 1000 node-days, a save of 60 s.
    let mttf = 86_400.0 / (2048.0 * 6.5e-3);
    let advised = advise(5, Some(mttf), cost(60.0).as_ref()).unwrap();
    assert!((mttf / 3600.0 - 1.80).abs() < 0.01 && (advised - 882.5).abs() < 0.5, "{mttf} {advised}");
    for (failures, mttf, cost, why) in [
        (4, Some(1000.0), cost(1.0), "4 failures"),
        (5, None, cost(1.0), "nothing is known of the time"),
        (5, Some(1000.0), None, "nothing tells what"),
        (5, Some(1000.0), cost(500.0), "a checkpoint costs nothing, or half"),
        (5, Some(1000.0), cost(0.0), "a checkpoint costs nothing, or half"),
    ] {
        let said = advise(failures, mttf, cost.as_ref()).unwrap_err();
        assert!(said.starts_with(why), "{said}");
    }
}

#[test]
fn the_section_is_there_where_jobs_tell() {
    let (mut events, intervals) = example();
    events.iter_mut().for_each(|e| e.run.name = "r|<b>".into());
    let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
    let runs = build(&history(events), &intervals, &PERIOD);
    let report = Report { runs, ..super::super::build(&intervals, &[], week, &[]) };
    let text = markdown::render(&report).unwrap();
    let row = r"| r\|&lt;b> | 2 | 1 | 38.5 % | 3.00 | 5.00 | 5.00 | 0 | 600 min | 120 min | 3600 s (time booked on checkpoint) | none: 1 failures, and fewer than 5 say too little |";
    assert!(text.contains(row), "{text}");
    let page = html::render(&report, &super::super::Site::default()).unwrap();
    assert!(page.contains("<h2>Runs</h2>") && page.contains("<td>r|&#60;b&#62;</td>"), "{page}");
    assert!(!markdown::render(&Report { runs: Vec::new(), ..report }).unwrap().contains("## Runs"));
}
