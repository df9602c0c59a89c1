//! A panic inside a collector is reported with its place. A process of its own: the hook is the whole process's.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its world is broken")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use goodput_exporter::attribute::Owners;
use goodput_exporter::collect::{CollectError, Collector, Done, Entry};
use goodput_exporter::context::Context;
use goodput_exporter::scrape::{Outcome, Scraper, Setup, install_panic_hook};
use goodput_exporter::source::files::Roots;
use goodput_exposition::{Families, Style};

struct Broken;

impl Collector for Broken {
    fn collect(&mut self, _: &Context, _: &mut Families) -> Result<Done, CollectError> {
        panic!("no good")
    }
}

static ENTRY: Entry = Entry {
    name: "broken",
    about: "Panics.",
    default: true,
    deadline: Duration::from_secs(60),
    new: || Box::new(Broken),
};

#[test]
fn a_panic_is_reported_with_its_place() {
    install_panic_hook();
    let setup = Setup {
        collectors: vec![&ENTRY],
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
        style: Style::default(),
        dcgm: Arc::default(),
        nccl: Arc::default(),
        counters: None,
        relay: None,
        reuse: Duration::ZERO,
        refusals: Arc::default(),
    };
    let scraper = Scraper::start(setup).unwrap();
    let scrape = scraper.request(Instant::now() + Duration::from_secs(60)).blocking_recv().unwrap();
    let outcome = &scrape.reports.iter().find(|report| report.name == "broken").unwrap().outcome;
    assert!(matches!(outcome, Outcome::Failed(reason) if reason.starts_with("panicked: no good (")), "{outcome:?}");
    assert!(matches!(outcome, Outcome::Failed(reason) if reason.contains("tests/panic_hook.rs:")), "{outcome:?}");
}
