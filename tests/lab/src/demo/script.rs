//! A week on a node: its jobs, what happens to them, and how the analyzer should name it.
//!
//! What happens is told as causes, such as a volume that gives less, a quota, a neighbour; what follows from them is
//! for [`super::machine`] to work out.

mod week;

use std::ops::Range;
use std::time::{Duration, SystemTime};

/// Seconds since the script's start.
pub(crate) type Second = u64;

/// Everything begins and ends at a multiple of this.
pub(crate) const SLOT_SECONDS: Second = 10;

const WEEK_SECONDS: Second = 7 * 24 * 3600;

/// The jobs of a week and what happens to them, placed relative to its end.
#[derive(Clone, Debug)]
pub struct Script {
    start: SystemTime,
    end: SystemTime,
    pub(crate) jobs: Vec<Job>,
    pub(crate) node: Vec<(Range<Second>, NodeTurn)>,
    faults: Vec<Fault>,
}

/// A stretch of time in which most of what some GPUs lose should be booked on one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The class, as the ledger names it.
    pub class: &'static str,
    /// NVML indices.
    pub gpus: Vec<usize>,
    /// When it begins.
    pub from: SystemTime,
    /// When it is over.
    pub to: SystemTime,
    /// Who holds the GPUs, as the analyzer names it; `None` where they are free.
    pub owner: Option<String>,
}

impl Script {
    /// The seven days that end at `end`; the jobs that run then go on for some hours.
    #[must_use]
    pub fn week(end: SystemTime) -> Script {
        week::week(end)
    }

    /// Every fault, in no order.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// When a GPU may lose time to a class, by what the script does: its faults, and what follows from jobs and the node.
    #[must_use]
    pub fn expected(&self, class: &str, gpu: usize) -> Vec<(SystemTime, SystemTime)> {
        let named = self.faults.iter().filter(|fault| fault.class == class && fault.gpus.contains(&gpu));
        let named = named.map(|fault| (fault.from, fault.to));
        let spans: Vec<Range<Second>> = match class {
            "unallocated" => self.free(gpu),
            "cold_start" => self.jobs_of(gpu).map(|job| job.span.start..job.span.start + job.start_seconds).collect(),
            "lost_work" => self.jobs_of(gpu).filter(|job| job.xid.is_some()).map(|job| job.span.clone()).collect(),
            "host_noise" => self.turns(|turn| matches!(turn, NodeTurn::Neighbours { .. })),
            "irq_placement" => self.turns(|turn| matches!(turn, NodeTurn::Storm { .. })),
            "memory_pressure" => self.turns(|turn| matches!(turn, NodeTurn::Swapping { .. })),
            _ => Vec::new(),
        };
        let at = |second: Second| self.start + Duration::from_secs(second);
        named.chain(spans.into_iter().map(|span| (at(span.start), at(span.end)))).collect()
    }

    fn jobs_of(&self, gpu: usize) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| job.gpus.contains(&gpu))
    }

    fn turns(&self, is: impl Fn(&NodeTurn) -> bool) -> Vec<Range<Second>> {
        self.node.iter().filter(|(_, turn)| is(turn)).map(|(span, _)| span.clone()).collect()
    }

    /// When no job has the GPU.
    fn free(&self, gpu: usize) -> Vec<Range<Second>> {
        let mut held: Vec<Range<Second>> = self.jobs_of(gpu).map(|job| job.span.clone()).collect();
        held.sort_by_key(|span| span.start);
        let ends = [0].into_iter().chain(held.iter().map(|span| span.end));
        let starts = held.iter().map(|span| span.start).chain([Second::MAX]);
        ends.zip(starts).filter(|(from, to)| from < to).map(|(from, to)| from..to.min(WEEK_SECONDS * 2)).collect()
    }

    /// Where the week begins.
    #[must_use]
    pub fn start(&self) -> SystemTime {
        self.start
    }

    /// Where the week ends.
    #[must_use]
    pub fn end(&self) -> SystemTime {
        self.end
    }

    /// What happens to the whole node at that moment.
    pub(crate) fn node_turns(&self, at: Second) -> impl Iterator<Item = &NodeTurn> {
        self.node.iter().filter(move |(span, _)| span.contains(&at)).map(|(_, turn)| turn)
    }
}

/// One job on GPUs of the node.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Its own cgroup, from the hierarchy's root.
    pub(crate) cgroup: String,
    /// The groups below it, down to where its processes are.
    pub(crate) leaf: &'static str,
    /// As the exporter names it.
    pub(crate) owner: String,
    /// Process of the first rank; the others count up.
    pub(crate) pid: u32,
    /// One rank each, by NVML index.
    pub(crate) gpus: Vec<usize>,
    pub(crate) span: Range<Second>,
    /// Cores of its own on each NUMA node, as positions among the node's CPUs; `None` where it shares what is left.
    pub(crate) cores: Option<[Range<u32>; 2]>,
    /// How long it reads its model and compiles before the first step.
    pub(crate) start_seconds: u64,
    pub(crate) needs: Needs,
    pub(crate) turns: Vec<(Range<Second>, Turn)>,
    /// The XID with which it dies.
    pub(crate) xid: Option<u64>,
}

/// What a job takes at full speed.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    /// Cores that prepare batches.
    pub(crate) cores: f64,
    pub(crate) read_bytes_per_second: f64,
    /// Anonymous and shared memory.
    pub(crate) anon_bytes: f64,
    /// File pages that it needs again and again.
    pub(crate) file_bytes: f64,
    /// `memory.max`.
    pub(crate) limit_bytes: f64,
    /// Memory of each GPU.
    pub(crate) device_bytes: f64,
}

/// What happens to a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    /// Its volume gives no more than this.
    Storage { bytes_per_second: f64 },
    /// A batch takes this many times the work.
    Batches { factor: f64 },
    /// A quota, in cores.
    Quota { cores: f64 },
    /// All its ranks are bound to this NUMA node.
    Bound { node: usize },
    /// Another `memory.max`.
    Limit { bytes: f64 },
    /// It gets nothing to do.
    Rest,
    /// It saves its state so often, and waits so long for it.
    Saves { every_seconds: u64, for_seconds: u64 },
    /// The rank on this GPU is never given work.
    Unused { gpu: usize },
    /// Host memory that it does not give back.
    Leak { bytes_per_second: f64 },
    /// Device memory that it does not give back.
    DeviceLeak { bytes_per_second: f64 },
}

/// What happens to the node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeTurn {
    /// Others demand this many cores.
    Neighbours { cores: f64 },
    /// A device interrupts so often, on CPUs of the other NUMA node.
    Storm { device: &'static str, per_second: f64 },
    /// Others are swapped out and in.
    Swapping { bytes_per_second: f64 },
}

impl Job {
    /// What happens to it at that moment.
    pub(crate) fn turns(&self, at: Second) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |(span, _)| span.contains(&at)).map(|(_, turn)| turn)
    }

    /// Its ranks: GPU and process.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = (usize, u32)> {
        self.gpus.iter().copied().zip(self.pid..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn script() -> Script {
        Script::week(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000))
    }

    #[test]
    fn no_gpu_has_two_jobs_at_once() {
        let script = script();
        for (i, job) in script.jobs.iter().enumerate() {
            for other in &script.jobs[..i] {
                let apart = job.span.end <= other.span.start || other.span.end <= job.span.start;
                assert!(apart || job.gpus.iter().all(|g| !other.gpus.contains(g)), "{} {}", job.owner, other.owner);
            }
        }
    }

    #[test]
    fn a_fault_is_of_the_job_that_holds_its_gpus() {
        let script = script();
        let names: BTreeSet<&str> = script.faults().iter().map(|f| f.class).collect();
        assert!(names.len() >= 11, "{names:?}");
        let time = |at: Second| script.start() + Duration::from_secs(at);
        for fault in script.faults() {
            assert!(script.start() <= fault.from && fault.to <= script.end(), "{fault:?}");
            // The first start of a job that crashes is a start; all that follows is lost work.
            let least = if fault.class == "cold_start" { 1000 } else { 3600 };
            assert!(fault.to.duration_since(fault.from).unwrap() >= Duration::from_secs(least), "{fault:?}");
            let within = |job: &&Job| time(job.span.start) < fault.to && fault.from < time(job.span.end);
            for gpu in &fault.gpus {
                let holders = script.jobs.iter().filter(within).filter(|job| job.gpus.contains(gpu));
                let owners: BTreeSet<_> = holders.map(|job| job.owner.clone()).collect();
                assert_eq!(owners, fault.owner.clone().into_iter().collect(), "{fault:?}");
            }
        }
    }
}
