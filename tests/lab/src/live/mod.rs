//! The live lab: a real job in a real cgroup of this machine's kernel, read by the real exporter, on a fake GPU that the
//! job itself keeps busy. What is the matter is done to the job for real: quotas, cpusets, limits, neighbours.

pub mod machine;
pub mod orders;
pub mod pages;
pub mod scenario;
mod scrapes;
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use goodput_exposition::sample::TimeMs;
use jiff::Timestamp;

use self::machine::{Machine, Programs};
use self::orders::Edge;
use self::scenario::Scenario;
use self::scrapes::Scrapes;
use self::truth::Phase;
use crate::demo::stop::Stop;
use crate::trace;

/// How often waiting looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How a trace is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the trace goes, into a folder named after its scenario.
    pub dir: PathBuf,
    /// Time between scrapes.
    pub interval: Duration,
    /// The scrapes' phase comes of it.
    pub seed: u64,
    /// Said in `about.md` besides, such as what else the machine did.
    pub note: String,
}

/// Records a scenario: as long as its steps take. Whatever it started and made is gone afterwards, but for the trace.
///
/// # Errors
/// When this user may not make cgroups, when a program ends or when it is asked to stop; there is no trace then.
pub fn record(scenario: &Scenario, programs: &Programs, settings: &Settings, stop: &Stop) -> Result<PathBuf> {
    let dir = settings.dir.join(format!("live-{}", scenario.name));
    fs::create_dir_all(&settings.dir).with_context(|| format!("cannot make {}", settings.dir.display()))?;
    let mut machine = Machine::start(programs, &settings.dir)?;
    let recorded = Recording::of(scenario, settings, &mut machine, stop)?;
    let edges = Edge::read(&machine.edges()?)?;
    let host = hostname()?;
    let span = recorded.span();
    let changes = truth::changes(&recorded.phases, &edges);
    let rows = truth::rows(&format!("{host}/gpu0"), &span, truth::stretches(&span, changes));
    let about = about(scenario, settings, &recorded);
    trace::write(&dir, recorded.scrapes.into_series(), &rows, &about)?;
    Ok(dir)
}

/// A schedule that was carried out.
struct Recording {
    scrapes: Scrapes,
    phases: Vec<Phase>,
    /// Of the first and the last scrape.
    first_ms: TimeMs,
    last_ms: TimeMs,
}

impl Recording {
    fn of(scenario: &Scenario, settings: &Settings, machine: &mut Machine, stop: &Stop) -> Result<Self> {
        let interval_ms = settings.interval.as_millis() as TimeMs;
        let phase_ms = (settings.seed % settings.interval.as_millis().max(1) as u64) as TimeMs;
        let mut next_ms = (now_ms() - phase_ms).div_euclid(interval_ms) * interval_ms + phase_ms + interval_ms;
        let mut recording =
            Self { scrapes: Scrapes::default(), phases: Vec::new(), first_ms: next_ms, last_ms: next_ms };
        let mut end_ms = next_ms;
        for step in scenario.steps {
            recording.phases.push(Phase { from_ms: now_ms(), waiting: step.waiting, also: step.also });
            for act in step.acts {
                machine.carry_out(act)?;
            }
            end_ms += (step.seconds * 1000) as TimeMs;
            while next_ms < end_ms {
                wait_until(next_ms, stop)?;
                recording.scrape(machine)?;
                next_ms += interval_ms;
            }
            wait_until(end_ms, stop)?;
            machine.goes_on()?;
        }
        Ok(recording)
    }

    fn scrape(&mut self, machine: &mut Machine) -> Result<()> {
        let time_ms = now_ms();
        let text = machine.scrape()?;
        self.last_ms = time_ms;
        self.scrapes.take(time_ms, &[("job", "goodput"), ("instance", "node:9400")], &text)
    }

    fn span(&self) -> std::ops::Range<TimeMs> {
        self.first_ms..self.last_ms
    }
}

/// Sleeps until this moment of the wall clock.
fn wait_until(time_ms: TimeMs, stop: &Stop) -> Result<()> {
    loop {
        stop.check()?;
        let left = time_ms - now_ms();
        if left <= 0 {
            return Ok(());
        }
        thread::sleep(LOOK.min(Duration::from_millis(left.unsigned_abs())));
    }
}

fn now_ms() -> TimeMs {
    Timestamp::try_from(SystemTime::now()).map_or(0, Timestamp::as_millisecond)
}

/// The name under which the exporter knows the node.
fn hostname() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/hostname");
    let name = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(name.trim().to_owned())
}

fn about(scenario: &Scenario, settings: &Settings, recorded: &Recording) -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let time = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
    let mut text = format!(
        "# live-{}\n\nA real job in a real cgroup (`goodput-lab-live`, {}): {}.\nLinux {}, {cpus} CPUs, {}. \
         goodput-exporter read this kernel's own `/proc`, `/sys` and cgroups, every {} s; the GPU is `tests/fake-nvml`, which the \
         job told when it worked. Seed {}. Series that the analyzer has no signal for are left out.\nThe truth is what the job's \
         trainer wrote down, by the minute and in order of class within, and what the schedule says that its waiting is \
         lost to; with nothing done, it is `unexplained`. ",
        scenario.name,
        time(recorded.first_ms),
        scenario.shows.split_whitespace().collect::<Vec<_>>().join(" "),
        kernel.trim(),
        machine::cgroups(),
        settings.interval.as_secs_f64(),
        settings.seed,
    );
    text.push_str(settings.note.trim());
    text.push_str("\n\n| from | done | waiting is lost to |\n|---|---|---|\n");
    for (phase, step) in recorded.phases.iter().zip(scenario.steps) {
        let acts: Vec<String> = step.acts.iter().map(|act| format!("{act:?}")).collect();
        let waiting = [&[phase.waiting], phase.also].concat().join(", or ");
        text.push_str(&format!("| {} | {} | {waiting} |\n", time(phase.from_ms), acts.join(", ")));
    }
    text
}
