//! `ethtool`: how long priorities of network interfaces paused, and what their ports discarded.
//!
//! Every scrape shows the newest answers and asks for the next ones, so that none waits for a driver but the first, which
//! has nothing to show yet.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use super::*;
use crate::parse::Parsed;
use crate::parse::ethtool::{Direction, PRIORITIES, Statistic};
use crate::source::ethtool::{Reader, Round, is_plain};
use crate::source::left_out;
use crate::source::program::ProgramError;
use goodput_catalog::ethtool::*;

/// How long the first scrape waits for an answer: own choice, enough for 32 NICs of 30 ms each.
const FIRST: Duration = Duration::from_secs(1);

/// Answers older than this are dropped: own choice, two scrapes of two minutes and some.
const STALE: Duration = Duration::from_secs(300);

/// A question without an answer for so long is a failure: own choice, more than all NICs of a node may take.
const LATE: Duration = Duration::from_secs(120);

/// Microseconds of a second.
const MICROSECONDS: f64 = 1e6;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry {
    default: false,
    ..Entry::new::<Ethtool>(
        "ethtool",
        "Pauses by priority, discards and oversize packets of physical network interfaces; runs `ethtool -S` for each, off the scrape path.",
        2,
    )
};

/// Runs `ethtool -S` for each interface of `/sys/class/net` that has a device.
#[derive(Default)]
pub struct Ethtool {
    reader: Option<Reader>,
    /// When the question was asked that has no answer yet.
    asked: Option<Instant>,
    /// The newest answer of each interface, and when it was asked for.
    answers: BTreeMap<String, (Instant, BTreeMap<Statistic, u64>)>,
    /// Why no interface answered last time.
    error: Option<ProgramError>,
}

impl Collector for Ethtool {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let Some(programs) = &context.roots.programs else {
            return Ok(Done::NotApplicable("no program may be started here".to_owned()));
        };
        let devices: Vec<String> = network::physical(&context.roots)
            .unwrap_or_default()
            .into_iter()
            .filter(|name| is_plain(name))
            .take(network::MAX_INTERFACES)
            .collect();
        if devices.is_empty() {
            return Ok(Done::NotApplicable("no physical network interface".to_owned()));
        }
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let age = |then: Instant| now.saturating_duration_since(then);
        self.ask(programs, context, devices)?;
        for (device, (then, statistics)) in &self.answers {
            push(device, statistics, out);
            let age = (!statistics.is_empty()).then(|| age(*then).as_secs_f64());
            out.push(&NETWORK_STATISTICS_AGE, &[device], age);
        }
        match (self.asked.map(age).filter(|waits| *waits >= LATE), &self.error) {
            (Some(waits), _) => Err(CollectError::Other(format!("ethtool has not answered for {} s", waits.as_secs()))),
            (None, Some(ProgramError::Denied { path })) => Err(FileError::Denied { path: path.clone() }.into()),
            (None, Some(error)) => Err(CollectError::Other(error.to_string())),
            (None, None) => Ok(Done::Ok),
        }
    }
}

impl Ethtool {
    /// Takes the answers to the last question, and asks the next one.
    fn ask(&mut self, programs: &Path, context: &Context, devices: Vec<String>) -> Result<(), CollectError> {
        let no_thread = |error| CollectError::Other(format!("no thread to run ethtool on: {error}"));
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::start(programs.to_owned()).map_err(no_thread)?,
        };
        match reader.round(Duration::ZERO) {
            Ok(round) => self.take(context, round),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The next scrape starts another thread.
                self.asked = None;
                return Err(CollectError::Other("the thread that runs ethtool has ended".to_owned()));
            }
        }
        let now = context.gpus.at;
        let is_fresh = |then: Instant| now.saturating_duration_since(then) < STALE;
        self.answers.retain(|device, (then, _)| devices.contains(device) && is_fresh(*then));
        if self.asked.is_none() {
            reader.ask(now, devices);
            self.asked = Some(now);
            let is_empty = self.answers.is_empty() && self.error.is_none();
            if is_empty && let Ok(round) = reader.round(FIRST) {
                self.take(context, round);
            }
        }
        self.reader = Some(reader);
        Ok(())
    }

    /// Keeps what was answered. An interface that failed keeps its last answer until that is stale.
    fn take(&mut self, context: &Context, round: Round) {
        self.asked = None;
        let mut errors = Vec::new();
        let count = round.answers.len();
        for (device, answer) in round.answers {
            let path = context.roots.sys.join("class/net").join(&device);
            match answer {
                Ok(Parsed { value, left_out: left }) => {
                    if let Some(error) = left.first {
                        let path = format!("ethtool -S {device}").into();
                        left_out::note(FileError::Malformed { path, error }, left.count);
                    }
                    self.answers.insert(device, (round.at, value));
                }
                Err(error) => errors.push((path, error)),
            }
        }
        let is_all = errors.len() == count;
        self.error = if is_all { errors.pop().map(|(_, error)| error) } else { None };
        for (path, error) in errors {
            left_out::note(FileError::Io { path, error: io::Error::other(error) }, 1);
        }
    }
}

fn push(device: &str, statistics: &BTreeMap<Statistic, u64>, out: &mut Families) {
    let get = |statistic| statistics.get(&statistic).map(|value| *value as f64);
    for direction in Direction::ALL {
        for priority in 0..PRIORITIES {
            let paused = get(Statistic::Paused(*direction, priority));
            let pauses = get(Statistic::Pauses(*direction, priority));
            if paused.into_iter().chain(pauses).all(|value| value == 0.0) {
                continue;
            }
            let labels = [device, direction.name(), &priority.to_string()];
            out.push(&NETWORK_PAUSE, &labels, paused.map(|micros| micros / MICROSECONDS));
            out.push(&NETWORK_PAUSES, &labels, pauses);
        }
        out.push(&NETWORK_DISCARDED, &[device, direction.name()], get(Statistic::Discarded(*direction)));
    }
    out.push(&NETWORK_OVERSIZE, &[device], get(Statistic::Oversize));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::source::files::Roots;

    /// A thread that has ended costs one scrape: the next one starts another.
    #[test]
    fn a_thread_that_has_ended_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (proc, sys, cgroup) = (folder.join("proc"), folder.join("sys"), folder.join("cgroup"));
        let roots = Arc::new(Roots { proc, sys, cgroup, root: folder.to_owned(), programs: Some(folder.to_owned()) });
        let context = Context {
            roots,
            common: Arc::default(),
            gpus: Arc::default(),
            owners: Arc::default(),
            hostname: "node-1".into(),
            dcgm: Arc::default(),
            nccl: Arc::default(),
        };
        let asked = Some(context.gpus.at);
        let mut collector = Ethtool { reader: Some(Reader::ended()), asked, ..Ethtool::default() };
        let mut ask = || collector.ask(folder, &context, vec!["eth0".to_owned()]);
        assert!(ask().is_err());
        ask().unwrap();
        assert!(matches!(collector.error, Some(ProgramError::Missing { .. })), "another thread answered");
    }
}
