//! Collectors that fail in every way, each alone.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::*;
use crate::collect::{CollectError, Done};
use crate::source::files::FileError;
use goodput_catalog::host::PRESSURE_WAITING;
use goodput_exposition::{Format, encode};

/// A collector from a function.
struct Test(fn(&mut Families) -> Result<Done, CollectError>);

impl Collector for Test {
    fn collect(&mut self, _: &Context, out: &mut Families) -> Result<Done, CollectError> {
        (self.0)(out)
    }
}

const fn entry(name: &'static str, deadline: Duration, new: fn() -> Box<dyn Collector>) -> Entry {
    Entry { name, about: "Test.", default: true, deadline, new }
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

fn push(out: &mut Families, value: &str) {
    out.push(&PRESSURE_WAITING, &[value], 1.0);
}

static GOOD: Entry = entry("good", LONG, || {
    Box::new(Test(|out| {
        push(out, "good");
        Ok(Done::Ok)
    }))
});

static ABSENT: Entry = entry("absent", LONG, || Box::new(Test(|_| Ok(Done::NotApplicable("no such thing".into())))));

static FAILING: Entry = entry("failing", LONG, || {
    Box::new(Test(|out| {
        push(out, "before-error");
        Err(FileError::Missing { path: "/proc/x".into() }.into())
    }))
});

static DENIED: Entry = entry("denied", LONG, || {
    Box::new(Test(|out| {
        push(out, "before-denial");
        Err(FileError::Denied { path: "/proc/x".into() }.into())
    }))
});

static MADE: AtomicUsize = AtomicUsize::new(0);

static PANICKING: Entry = entry("panicking", LONG, || {
    if MADE.fetch_add(1, SeqCst) == 1 {
        panic!("cannot be made the second time");
    }
    Box::new(Test(|out| {
        push(out, "before-panic");
        match MADE.load(SeqCst) {
            1 => panic!("index out of bounds"),
            _ => Ok(Done::Ok),
        }
    }))
});

fn setup(collectors: Vec<&'static Entry>, reuse: Duration) -> Setup {
    Setup {
        collectors,
        roots: Arc::new(Roots {
            proc: "/proc".into(),
            sys: "/sys".into(),
            cgroup: "/".into(),
            root: "/".into(),
            programs: None,
        }),
        gpus: Arc::new(Arc::default),
        resolve: Arc::new(|_, _| Owners::default()),
        hostname: "node".into(),
        style: Style { host_label: Some("Hostname"), ..Style::default() },
        dcgm: Arc::default(),
        nccl: Arc::default(),
        counters: None,
        relay: None,
        reuse,
        refusals: Arc::default(),
    }
}

fn scrape(scraper: &Scraper) -> Arc<Scrape> {
    scraper.request(Instant::now() + LONG).blocking_recv().unwrap()
}

fn outcomes(scrape: &Scrape) -> Vec<(&'static str, Outcome)> {
    scrape.reports.iter().map(|report| (report.name, report.outcome.clone())).collect()
}

fn state(scrape: &Scrape, name: &str) -> &'static str {
    scrape.reports.iter().find(|report| report.name == name).unwrap().outcome.state()
}

/// Scrapes until the source is in that state.
fn comes_to(scraper: &Scraper, name: &str, expected: &str) -> Arc<Scrape> {
    let deadline = Instant::now() + LONG;
    loop {
        let scrape = scrape(scraper);
        if state(&scrape, name) == expected {
            return scrape;
        }
        assert!(Instant::now() < deadline, "{name} is {}, not {expected}", state(&scrape, name));
        thread::yield_now();
    }
}

#[test]
fn every_outcome_touches_its_own_families_only() {
    let scraper = Scraper::start(setup(vec![&PANICKING, &FAILING, &DENIED, &ABSENT, &GOOD], Duration::ZERO)).unwrap();
    let first = scrape(&scraper);
    let expected = [
        ("attribution", Outcome::Ok),
        ("panicking", Outcome::Failed("panicked: index out of bounds".into())),
        ("failing", Outcome::Failed("/proc/x: not there".into())),
        ("denied", Outcome::Denied("/proc/x: permission denied".into())),
        ("absent", Outcome::NotApplicable("no such thing".into())),
        ("good", Outcome::Ok),
    ];
    assert_eq!(outcomes(&first), expected);

    let text = encode(&first.families, Format::Text);
    for (line, there) in [
        ("{resource=\"good\"} 1\n", true),
        ("{resource=\"before-error\"} 1\n", true),
        ("{resource=\"before-denial\"} 1\n", true),
        ("before-panic", false),
        ("goodput_exporter_collector_state{collector=\"panicking\",state=\"failed\"} 1\n", true),
        ("goodput_exporter_collector_state{collector=\"panicking\",state=\"ok\"} 0\n", true),
        ("goodput_exporter_collector_state{collector=\"denied\",state=\"denied\"} 1\n", true),
        ("goodput_exporter_collector_state{collector=\"denied\",state=\"failed\"} 0\n", true),
        ("goodput_exporter_collector_state{collector=\"absent\",state=\"not_applicable\"} 1\n", true),
        ("goodput_exporter_collector_duration_seconds{collector=\"good\"} ", true),
        ("goodput_exporter_scrape_duration_seconds ", true),
        ("goodput_exporter_build_info{version=\"", true),
        ("process_cpu_seconds_total ", true),
    ] {
        assert_eq!(text.contains(line), there, "{line} in\n{text}");
    }

    let second = Outcome::Failed("panicked: cannot be made the second time".into());
    assert_eq!(outcomes(&scrape(&scraper))[1], ("panicking", second));
    assert_eq!(outcomes(&scrape(&scraper))[1], ("panicking", Outcome::Ok), "a panicked collector is made anew");
}

/// A gate that a collector's thread waits at.
struct Gate(Mutex<Option<Receiver<()>>>);

impl Gate {
    /// Closes it; every message opens it for one passage.
    fn close(&self) -> SyncSender<()> {
        let (open, wait) = sync_channel(16);
        *self.0.lock() = Some(wait);
        open
    }

    fn pass(&self) {
        if let Some(wait) = &*self.0.lock() {
            let _ = wait.recv();
        }
    }
}

static HANGING_GATE: Gate = Gate(Mutex::new(None));
static HANGING: Entry = entry("hanging", SHORT, || {
    Box::new(Test(|out| {
        HANGING_GATE.pass();
        push(out, "hanging");
        Ok(Done::Ok)
    }))
});

#[test]
fn a_hanging_collector_costs_its_families_and_one_thread_and_heals() {
    let open = HANGING_GATE.close();
    let scraper = Scraper::start(setup(vec![&HANGING, &GOOD], Duration::ZERO)).unwrap();
    for _ in 0..3 {
        let scrape = scrape(&scraper);
        assert_eq!((state(&scrape, "hanging"), state(&scrape, "good")), ("timed_out", "ok"));
        let text = encode(&scrape.families, Format::Text);
        assert!(text.contains("\"good\"} 1\n") && !text.contains("resource=\"hanging\""), "{text}");
    }
    drop(open);
    comes_to(&scraper, "hanging", "ok");
}

static OWNERS_GATE: Gate = Gate(Mutex::new(None));

#[test]
fn owner_resolution_may_hang_too() {
    let _open = OWNERS_GATE.close();
    let resolve = |_: &Roots, _: &Snapshot| {
        OWNERS_GATE.pass();
        Owners::default()
    };
    let scraper = Scraper::start(Setup { resolve: Arc::new(resolve), ..setup(vec![&GOOD], Duration::ZERO) }).unwrap();
    let scrape = scraper.request(Instant::now() + SHORT).blocking_recv().unwrap();
    assert_eq!(state(&scrape, "attribution"), "timed_out");
    assert_eq!(state(&scrape, "good"), "timed_out", "the scrape's own deadline was over");
    let scrape = self::scrape(&scraper);
    assert_eq!((state(&scrape, "attribution"), state(&scrape, "good")), ("timed_out", "ok"));
}

#[test]
fn owner_resolution_may_panic_too() {
    let resolve = |_: &Roots, _: &Snapshot| panic!("no owners");
    let scraper = Scraper::start(Setup { resolve: Arc::new(resolve), ..setup(vec![&GOOD], Duration::ZERO) }).unwrap();
    // Writing the panic's backtrace may take a busy machine longer than owners may take.
    let scrape = comes_to(&scraper, "attribution", "failed");
    assert_eq!(state(&scrape, "good"), "ok");
}

static COUNTED_GATE: Gate = Gate(Mutex::new(None));
static COUNTED_RUNS: AtomicUsize = AtomicUsize::new(0);
static COUNTED: Entry = entry("counted", LONG, || {
    Box::new(Test(|_| {
        COUNTED_RUNS.fetch_add(1, SeqCst);
        COUNTED_GATE.pass();
        Ok(Done::Ok)
    }))
});

#[test]
fn requests_at_the_same_time_and_soon_after_share_one_collection() {
    let open = COUNTED_GATE.close();
    let scraper = Scraper::start(setup(vec![&COUNTED], LONG)).unwrap();
    let deadline = Instant::now() + LONG;
    let together: Vec<_> = (0..3).map(|_| scraper.request(deadline)).collect();
    while scraper.collecting_for().is_none() {
        thread::yield_now();
    }
    open.send(()).unwrap();
    let results: Vec<_> = together.into_iter().map(|r| r.blocking_recv().unwrap()).collect();
    let after = scrape(&scraper);
    assert!(results.iter().all(|result| Arc::ptr_eq(result, &after)));
    assert_eq!(COUNTED_RUNS.load(SeqCst), 1);
    assert_eq!(scraper.collecting_for(), None);
}

#[test]
fn an_old_result_is_not_used_again() {
    let scraper = Scraper::start(setup(vec![&GOOD], Duration::ZERO)).unwrap();
    assert!(!Arc::ptr_eq(&scrape(&scraper), &scrape(&scraper)));
}

#[test]
fn a_request_that_nobody_waits_for_is_not_served() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static RUNNING: Entry = entry("running", LONG, || {
        Box::new(Test(|_| {
            RUNS.fetch_add(1, SeqCst);
            Ok(Done::Ok)
        }))
    });
    static FIRST_GATE: Gate = Gate(Mutex::new(None));
    let open = FIRST_GATE.close();
    let resolve = |_: &Roots, _: &Snapshot| {
        FIRST_GATE.pass();
        Owners::default()
    };
    let scraper =
        Scraper::start(Setup { resolve: Arc::new(resolve), ..setup(vec![&RUNNING], Duration::ZERO) }).unwrap();
    let waiting = scraper.request(Instant::now() + LONG);
    drop(scraper.request(Instant::now() + LONG));
    drop(open);
    waiting.blocking_recv().unwrap();
    scrape(&scraper);
    assert_eq!(RUNS.load(SeqCst), 2);
}

#[test]
fn a_request_that_is_to_be_expected_finds_its_result_made() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static RUNNING: Entry = entry("running", LONG, || {
        Box::new(Test(|out| {
            RUNS.fetch_add(1, SeqCst);
            push(out, "running");
            Ok(Done::Ok)
        }))
    });
    let reuse = Duration::from_millis(400);
    let scraper = Scraper::start(setup(vec![&RUNNING], reuse)).unwrap();
    // When requests come is what this is about, so that the test keeps time. A machine that is too busy for it is waited for.
    let begin = Instant::now();
    let mut previous = scrape(&scraper);
    let is_at_hand = |n: u32| {
        let _ = previous.text(Format::OpenMetrics);
        thread::sleep((begin + n * 2 * reuse).saturating_duration_since(Instant::now()));
        let runs = RUNS.load(SeqCst);
        let scrape = scrape(&scraper);
        let is_new = !Arc::ptr_eq(&scrape, &previous);
        previous = scrape;
        is_new && RUNS.load(SeqCst) == runs && previous.formats() == [Format::OpenMetrics]
    };
    assert!((1..120).any(is_at_hand));
}

#[test]
fn what_may_not_be_used_again_is_not_made_before_it_is_asked_for() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static RUNNING: Entry = entry("running", LONG, || {
        Box::new(Test(|_| {
            RUNS.fetch_add(1, SeqCst);
            Ok(Done::Ok)
        }))
    });
    let scraper = Scraper::start(setup(vec![&RUNNING], Duration::ZERO)).unwrap();
    for _ in 0..50 {
        scrape(&scraper);
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(RUNS.load(SeqCst), 50);
}

#[test]
fn the_longest_patience_of_the_last_minute_counts() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let mut patience = Patience::default();
    let mut longest = |at: u32, seconds: u32| {
        patience.note(start + at * second, seconds * second);
        patience.longest().as_secs()
    };
    assert_eq!(longest(0, 9), 9);
    assert_eq!(longest(10, 1), 9, "one in a hurry");
    assert_eq!(longest(40, 1), 9);
    assert_eq!(longest(71, 1), 1, "the patient one has gone");
    assert_eq!(longest(80, 5), 5);
    assert_eq!(longest(500, 2), 2);
}

/// Slow, and sound: longer than a request in a hurry waits, within its own patience.
static SLOW: Entry = entry("slow", LONG, || {
    Box::new(Test(|out| {
        thread::sleep(FLOOR + SHORT * 5);
        push(out, "slow");
        Ok(Done::Ok)
    }))
});

#[test]
fn a_scrape_that_its_request_cut_answers_no_other() {
    let scraper = Scraper::start(setup(vec![&SLOW, &GOOD], LONG)).unwrap();
    let hurried = scraper.request(Instant::now()).blocking_recv().unwrap();
    assert_eq!(state(&hurried, "slow"), "timed_out");
    let patient = scrape(&scraper);
    assert_eq!((state(&patient, "slow"), state(&patient, "good")), ("ok", "ok"), "it is waited for, not missed");
    let again = scraper.request(Instant::now()).blocking_recv().unwrap();
    assert!(Arc::ptr_eq(&patient, &again), "a whole one answers everyone for a while");
}

#[test]
fn a_storm_of_requests_with_mixed_patience_empties_nobodys_scrape() {
    let scraper = Scraper::start(setup(vec![&GOOD, &ABSENT], SHORT)).unwrap();
    let hurried: Vec<_> = (0..4)
        .map(|client| {
            let scraper = scraper.clone();
            thread::spawn(move || {
                for _ in 0..50 {
                    let waits = scraper.request(Instant::now() + Duration::from_micros(client * 500));
                    drop(waits.blocking_recv());
                }
            })
        })
        .collect();
    // As long as the storm lasts, and once behind it.
    let mut lasts = true;
    while lasts {
        lasts = hurried.iter().any(|client| !client.is_finished());
        let scrape = scrape(&scraper);
        assert_eq!((state(&scrape, "attribution"), state(&scrape, "good")), ("ok", "ok"));
    }
    hurried.into_iter().for_each(|client| client.join().unwrap());
}
