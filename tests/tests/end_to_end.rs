//! The true path: a real process in a real cgroup feeds a fake GPU; the exporter's metrics go through a real Prometheus
//! into the analyzer, whose report must name each limit while it holds, and not before or after.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use goodput_lab::cgroup::JobCgroup;
use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_lab::report::Interval;
use goodput_tests::job::Job;
use goodput_tests::programs::{Analyzer, Exporter};
use goodput_tests::prometheus::Prometheus;

/// The ledger's cell.
const MINUTE: Duration = Duration::from_secs(60);

enum Limit {
    /// Bytes per second.
    Reads(u64),
    /// Thousandths of a CPU.
    Cpu(u32),
}

/// What limits the job on each of the first GPUs for a while, and the class that must be named then. Nothing holds the last GPU.
const LIMITS: [(Limit, &str); 2] = [(Limit::Reads(4 << 20), "io_limited"), (Limit::Cpu(100), "cpu_throttled")];

/// From and to a minute, and whether the limits hold.
const STORY: [(u32, u32, bool); 3] = [(0, 1, false), (1, 3, true), (3, 4, false)];

#[test]
fn the_report_names_a_limit_while_it_holds_and_not_after() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(LIMITS.len() + 1))?;
    let exporter = Exporter::start(dir.path(), &node)?;
    let analyzer = Analyzer::start(dir.path())?;
    let prometheus = Prometheus::start(dir.path(), &[("goodput", exporter.address)], Some(analyzer.address))?;
    let jobs = (0..LIMITS.len()).map(|gpu| start(dir.path(), &node, gpu)).collect::<Result<Vec<_>>>()?;

    // Limits change on whole minutes, so that each cell of the ledger lies in one part of the story.
    let begin = next_minute();
    for (from, _, limited) in STORY {
        sleep_until(begin + MINUTE * from);
        for ((job, cgroup), (limit, _)) in jobs.iter().zip(&LIMITS) {
            apply(cgroup, &job.data, limited.then_some(limit))?;
        }
    }
    let (_, minutes, _) = STORY[STORY.len() - 1];
    let end = begin + MINUTE * minutes;
    sleep_until(end);

    let up = format!("min_over_time(up{{job=\"goodput\"}}[{minutes}m])");
    assert_eq!(prometheus.value(&up)?, Some(1.0), "{}", prometheus.log_text());
    let uuid = |gpu: usize| prometheus.label(&format!("goodput_gpu_info{{gpu=\"{gpu}\"}}"), "UUID");
    let intervals = until("the last minute's verdict", 5 * MINUTE, || {
        let intervals = analyzer.intervals(begin, end)?;
        Ok(intervals.iter().any(|i| i.end >= end && i.class != "no_data").then_some(intervals))
    })?;
    for (gpu, (_, class)) in LIMITS.iter().enumerate() {
        let gpu = uuid(gpu)?;
        for (from, to, limited) in STORY {
            let time = begin + MINUTE * from..begin + MINUTE * to;
            for named in ["io_limited", "dataloader_storage", "dataloader_cpu", "cpu_throttled"] {
                let share = share(&intervals, &gpu, named, &time);
                let right = if limited && named == *class { share > 0.5 } else { share < 0.1 };
                assert!(right, "{named} has {share:.2} of {time:?}, {class} limited: {limited}: {intervals:#?}");
            }
        }
    }
    let free = uuid(LIMITS.len())?;
    let others = intervals.iter().any(|i| i.gpu == free && !["unallocated", "no_data"].contains(&i.class.as_str()));
    assert!(!others, "nothing holds the last GPU: {intervals:#?}");
    Ok(())
}

/// A job in a cgroup of its own, which goes after it.
fn start(dir: &Path, node: &FakeNode, gpu: usize) -> Result<(Job, JobCgroup)> {
    let dir = dir.join(format!("job-{gpu}"));
    std::fs::create_dir(&dir)?;
    let cgroup = JobCgroup::numbered(u16::try_from(gpu)?)?;
    let job = Job::start(env!("CARGO_BIN_EXE_gpu-job"), &dir, node, gpu)?;
    cgroup.add(job.pid())?;
    Ok((job, cgroup))
}

fn apply(cgroup: &JobCgroup, data: &Path, limit: Option<&Limit>) -> Result<()> {
    let (reads, cpu) = match limit {
        None => (None, None),
        Some(Limit::Reads(bytes)) => (Some(*bytes), None),
        Some(Limit::Cpu(milli)) => (None, Some(*milli)),
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
