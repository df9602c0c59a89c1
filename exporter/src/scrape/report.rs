//! How every source fared in a scrape: as samples, and in the log when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use goodput_web::{BUILT, Refusals};

use crate::collect::{CollectError, Done};
use crate::source;
use crate::source::files::FileError;
use crate::source::left_out::LeftOut;
use goodput_catalog::own;
use goodput_exposition::Families;

/// The outcome of one source in one scrape, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It wrote what there is.
    Ok,
    /// This machine has nothing of the kind.
    NotApplicable(String),
    /// It may not read a file; what it could read is in the scrape.
    Denied(String),
    /// It gave an error or panicked; what it wrote before an error is in the scrape.
    Failed(String),
    /// It did not answer in time; nothing of it is in the scrape.
    TimedOut,
}

impl Outcome {
    /// Of what a collector returned. What may not be read is told even where the collector can do without. What cannot be
    /// read at all is not what is not there.
    pub(super) fn of(result: Result<Done, CollectError>, left_out: &LeftOut) -> Self {
        let denied = left_out.errors.iter().find(|error| matches!(error, FileError::Denied { .. }));
        match (result, denied) {
            (Ok(_), Some(error)) => Self::Denied(error.to_string()),
            (Ok(Done::Ok), None) => Self::Ok,
            (Ok(Done::NotApplicable(reason)), None) => match left_out.errors.first() {
                Some(error) => Self::Failed(error.to_string()),
                None => Self::NotApplicable(reason),
            },
            (Err(CollectError::File(error @ FileError::Denied { .. })), _) => Self::Denied(error.to_string()),
            (Err(error), _) => Self::Failed(error.to_string()),
        }
    }

    const STATES: [&str; 5] = ["ok", "not_applicable", "denied", "failed", "timed_out"];

    /// The value of the `state` label.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self {
            Outcome::Ok => Self::STATES[0],
            Outcome::NotApplicable(_) => Self::STATES[1],
            Outcome::Denied(_) => Self::STATES[2],
            Outcome::Failed(_) => Self::STATES[3],
            Outcome::TimedOut => Self::STATES[4],
        }
    }
}

/// What is said of one source in one scrape.
#[derive(Debug)]
pub struct Report {
    /// The collector, or `attribution`.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, or has been busy.
    pub duration: Duration,
    /// What it could not read and did without.
    pub left_out: LeftOut,
}

/// Adds the samples about the exporter itself.
pub(super) fn write(reports: &[Report], left_out: u64, duration: Duration, out: &mut Families) {
    out.push(&own::BUILD_INFO, &BUILT, 1.0);
    out.push(&own::LEFT_OUT, &[], left_out as f64);
    out.push(&own::SCRAPE_DURATION, &[], duration.as_secs_f64());
    for report in reports {
        out.push(&own::COLLECTOR_DURATION, &[report.name], report.duration.as_secs_f64());
        for state in Outcome::STATES {
            let is = report.outcome.state() == state;
            out.push(&own::COLLECTOR_STATE, &[report.name, state], f64::from(u8::from(is)));
        }
    }
    let Some(usage) = source::own::usage() else { return };
    out.push(&own::PROCESS_CPU, &[], usage.cpu_seconds);
    out.push(&own::PROCESS_RESIDENT, &[], usage.resident_bytes as f64);
    out.push(&own::PROCESS_VIRTUAL, &[], usage.virtual_bytes as f64);
    out.push(&own::PROCESS_START, &[], usage.start_seconds);
    out.push(&own::PROCESS_FDS, &[], usage.open_fds as f64);
    out.push(&own::PROCESS_THREADS, &[], usage.threads as f64);
}

/// Adds what the front door refused; nothing of reasons that never held.
pub(super) fn write_refusals(refusals: &Refusals, out: &mut Families) {
    for (reason, count) in refusals.counts().filter(|(_, count)| *count > 0) {
        out.push(&own::REFUSED, &[reason.name()], count as f64);
    }
}

/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Logs outcomes when they change, so that a lasting fault is one line and not one per scrape.
#[derive(Default)]
pub(super) struct Changes {
    states: BTreeMap<&'static str, &'static str>,
    /// What was left out so far.
    left_out: u64,
    /// Files that have been named, each with what was expected of it.
    named: BTreeSet<(PathBuf, &'static str)>,
}

/// Files that are named at most: those of processes come and go.
const NAMED: usize = 256;

impl Changes {
    /// How many files, and lines of files, were left out so far.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Counts what was left out, and names each file of it once.
    fn name(&mut self, collector: &str, left_out: &LeftOut) {
        self.left_out = self.left_out.saturating_add(left_out.count);
        for error in &left_out.errors {
            let (path, expected) = match error {
                FileError::Missing { path } | FileError::Denied { path } => (path, ""),
                FileError::Io { path, .. } => (path, "a readable file"),
                FileError::Malformed { path, error } => (path, error.expected),
            };
            if self.named.len() < NAMED && self.named.insert((path.clone(), expected)) {
                tracing::warn!("collector {collector} leaves out what it cannot read: {error}");
            }
        }
    }

    pub(super) fn log(&mut self, reports: &[Report]) {
        for Report { name, outcome, duration, left_out } in reports {
            self.name(name, left_out);
            let before = self.states.insert(name, outcome.state());
            if before == Some(outcome.state()) {
                continue;
            }
            match outcome {
                Outcome::Ok if before.is_none() => tracing::debug!("collector {name} works"),
                Outcome::Ok => tracing::info!("collector {name} works again"),
                Outcome::NotApplicable(reason) => tracing::info!("collector {name} has nothing to read here: {reason}"),
                Outcome::Denied(reason) => tracing::warn!("collector {name} may not read all: {reason}"),
                Outcome::Failed(reason) => tracing::warn!("collector {name} failed: {reason}"),
                Outcome::TimedOut => tracing::warn!("collector {name} timed out after {} ms", duration.as_millis()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::parse::ParseError;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_changes_are_logged() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let mut changes = Changes::default();
        let failed = |reason: &str| Outcome::Failed(reason.into());
        let outcomes = [
            Outcome::Ok,
            failed("/proc/x: not there"),
            failed("/proc/y: not there"),
            Outcome::Denied("/proc/z: permission denied".into()),
            Outcome::TimedOut,
            Outcome::TimedOut,
            Outcome::Ok,
            Outcome::NotApplicable("one node".into()),
        ];
        tracing::subscriber::with_default(subscriber.finish(), || {
            for outcome in outcomes {
                let left_out = LeftOut::default();
                changes.log(&[Report { name: "numa", outcome, duration: Duration::from_millis(7), left_out }]);
            }
        });
        let expected = " WARN collector numa failed: /proc/x: not there\n \
                        WARN collector numa may not read all: /proc/z: permission denied\n \
                        WARN collector numa timed out after 7 ms\n \
                        INFO collector numa works again\n \
                        INFO collector numa has nothing to read here: one node\n";
        assert_eq!(String::from_utf8(log.0.lock().clone()).unwrap(), expected);
    }

    #[test]
    fn what_is_left_out_is_counted_each_time_and_named_once() {
        let mut changes = Changes::default();
        for (line, found) in [(3, "processes -5"), (3, "processes -7"), (4, "processes -9")] {
            let error = ParseError::new(line, "unsigned numbers", found);
            let errors = vec![FileError::Malformed { path: "/proc/stat".into(), error }];
            changes.name("cpu", &LeftOut { errors, count: 2 });
        }
        assert_eq!((changes.left_out(), changes.named.len()), (6, 1));
        let denied = (0..2 * NAMED).map(|pid| FileError::Denied { path: format!("/proc/{pid}/io").into() }).collect();
        changes.name("process", &LeftOut { errors: denied, count: 512 });
        assert_eq!((changes.left_out(), changes.named.len()), (518, NAMED));
    }
}
