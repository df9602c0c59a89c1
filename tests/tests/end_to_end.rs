//! The true path: a real process in a real cgroup feeds a fake GPU; the exporter's metrics go through a real Prometheus
//! into the analyzer, whose report must name each limit while it holds, and not before or after.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use goodput_tests::cgroup::JobCgroup;
use goodput_tests::gpu::{FakeNode, NodeSpec};
use goodput_tests::job::Job;
use goodput_tests::process::until;
use goodput_tests::programs::{Analyzer, Exporter, Interval};
use goodput_tests::prometheus::Prometheus;

/// The ledger's cell.
const MINUTE: Duration = Duration::from_secs(60);

/// A phase of the job's life: what limits it, for how many minutes, and the class that must be named.
struct Phase {
    limit: Limit,
    minutes: u32,
    class: Option<&'static str>,
}

enum Limit {
    None,
    /// Bytes per second.
    Reads(u64),
    /// Thousandths of a CPU.
    Cpu(u32),
}

const STORY: &[Phase] = &[
    Phase { limit: Limit::None, minutes: 1, class: None },
    Phase { limit: Limit::Reads(4 << 20), minutes: 2, class: Some("dataloader_storage") },
    Phase { limit: Limit::None, minutes: 1, class: None },
    Phase { limit: Limit::Cpu(100), minutes: 2, class: Some("cpu_throttled") },
    Phase { limit: Limit::None, minutes: 1, class: None },
];

#[test]
fn the_report_names_a_limit_while_it_holds_and_not_after() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(2))?;
    let exporter = Exporter::start(dir.path(), &node)?;
    let analyzer = Analyzer::start(dir.path())?;
    let prometheus = Prometheus::start(dir.path(), &[("goodput", exporter.address)], Some(analyzer.address))?;
    let cgroup = JobCgroup::create()?;
    let job = Job::start(env!("CARGO_BIN_EXE_gpu-job"), dir.path(), &node, 0)?;
    cgroup.add(job.pid())?;

    // Phases begin on whole minutes, so that each cell of the ledger lies in one of them.
    let begin = next_minute();
    let mut phases = Vec::new();
    let mut from = begin;
    for phase in STORY {
        sleep_until(from);
        apply(&cgroup, &job.data, &phase.limit)?;
        let to = from + MINUTE * phase.minutes;
        phases.push((from..to, phase.class));
        from = to;
    }
    sleep_until(from);

    assert_eq!(prometheus.value("min_over_time(up{job=\"goodput\"}[7m])")?, Some(1.0), "{}", prometheus.log_text());
    let [held, free] = ["0", "1"].map(|gpu| prometheus.label(&format!("goodput_gpu_info{{gpu=\"{gpu}\"}}"), "UUID"));
    let (held, free) = (held?, free?);
    let intervals = until("the last minute's verdict", 5 * MINUTE, || {
        let intervals = analyzer.intervals(begin, from)?;
        Ok(intervals.iter().any(|i| i.end >= from && i.class != "no_data").then_some(intervals))
    })?;
    for (time, class) in phases {
        for named in ["dataloader_storage", "dataloader_cpu", "cpu_throttled"] {
            let share = share(&intervals, &held, named, &time);
            let right = if class == Some(named) { share > 0.5 } else { share < 0.1 };
            assert!(right, "{named} has {share:.2} of {time:?} in which {class:?} holds: {intervals:#?}");
        }
    }
    let others = intervals.iter().any(|i| i.gpu == free && !["unallocated", "no_data"].contains(&i.class.as_str()));
    assert!(!others, "nothing holds the other GPU: {intervals:#?}");
    Ok(())
}

fn apply(cgroup: &JobCgroup, data: &Path, limit: &Limit) -> Result<()> {
    let (reads, cpu) = match limit {
        Limit::None => (None, None),
        Limit::Reads(bytes) => (Some(*bytes), None),
        Limit::Cpu(milli) => (None, Some(*milli)),
    };
    cgroup.limit_reads(data, reads)?;
    cgroup.limit_cpu(cpu)
}

/// Share of the time that a class has on a GPU; an interval's milliseconds are taken as spread evenly over it.
fn share(intervals: &[Interval], gpu: &str, class: &str, time: &std::ops::Range<SystemTime>) -> f64 {
    let seconds = |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or_default().as_secs_f64();
    let inside: f64 = intervals
        .iter()
        .filter(|i| i.gpu == gpu && i.class == class)
        .map(|i| {
            let overlap = seconds(i.start.max(time.start), i.end.min(time.end));
            i.gpu_seconds * overlap / seconds(i.start, i.end)
        })
        .sum();
    inside / seconds(time.start, time.end)
}

fn next_minute() -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    let minutes = SystemTime::now().duration_since(epoch).unwrap_or_default().as_secs() / 60 + 1;
    epoch + MINUTE * u32::try_from(minutes).unwrap_or(u32::MAX)
}

/// The phases are wall time: the limits must hold for whole minutes of it.
fn sleep_until(time: SystemTime) {
    std::thread::sleep(time.duration_since(SystemTime::now()).unwrap_or_default());
}
