//! `audit`: how every check of the node's tuning ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checks::CHECKS;
use super::{Audit, Profile, Status};
use crate::collect::{CollectError, Collector, Done, Entry};
use crate::context::Context;
use crate::source::files::Roots;
use crate::source::nvml::{Driver, Snapshot, State};
use goodput_catalog::host::AUDIT_STATUS;
use goodput_exposition::Families;

/// Tuning changes by hand or at boot, and a node with 256 CPUs has thousands of files to look at.
const EVERY: Duration = Duration::from_secs(300);

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<AuditStatus>(
    "audit",
    "How the checks of `goodput-exporter audit` ended, for the profile mixed; run every 5 minutes, about 10 files per CPU.",
    5,
);

/// Runs the audit now and then, and repeats its outcome in between.
struct AuditStatus {
    every: Duration,
    last: Option<(Instant, Vec<(&'static str, Status)>)>,
    /// How each check ever ended, which are its series. With all five for each, the checks alone would make a quarter of
    /// the series of a host; with only the newest, a series would end with each change, and `changes()`, and alerts that
    /// wait for a zero, would not see it.
    seen: BTreeSet<(&'static str, Status)>,
}

impl Default for AuditStatus {
    fn default() -> Self {
        Self { every: EVERY, last: None, seen: BTreeSet::new() }
    }
}

impl Collector for AuditStatus {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let fresh = self.last.take().filter(|(then, _)| now.duration_since(*then) < self.every);
        let (then, statuses) = fresh.unwrap_or_else(|| (now, run(context)));
        // What was found before the GPUs were read must not stand for minutes.
        let settled = settled(&context.gpus);
        self.push(&statuses, settled, out);
        self.last = settled.then_some((then, statuses));
        Ok(Done::Ok)
    }
}

impl AuditStatus {
    /// A check that never applied has no series.
    fn push(&mut self, found: &[(&'static str, Status)], settled: bool, out: &mut Families) {
        let now: BTreeSet<_> = found.iter().copied().filter(|(_, status)| *status != Status::NotApplicable).collect();
        for (check, status) in self.seen.union(&now) {
            let is = now.contains(&(*check, *status));
            out.push(&AUDIT_STATUS, &[check, status.name()], f64::from(u8::from(is)));
        }
        if settled {
            self.seen.extend(now);
        }
    }
}

fn settled(gpus: &Snapshot) -> bool {
    !matches!(gpus.driver, Driver::Starting) && gpus.gpus.iter().all(|gpu| gpu.state != State::Starting)
}

fn run(context: &Context) -> Vec<(&'static str, Status)> {
    // A scrape starts no program.
    let roots = Arc::new(Roots { programs: None, ..Roots::clone(&context.roots) });
    let context = &Context { roots, ..context.clone() };
    // What the node is for is not known here: mixed is what harms neither.
    let audit = Audit::run(context, Profile::Mixed, CHECKS.iter().copied());
    audit.findings.iter().map(|finding| (finding.check.id, finding.status)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::{Format, encode};

    fn context(root: &std::path::Path) -> Context {
        let roots = Roots {
            proc: root.join("proc"),
            sys: root.join("sys"),
            cgroup: root.join("sys/fs/cgroup"),
            root: root.to_owned(),
            programs: None,
        };
        let driver = Driver::Absent { reason: "none".to_owned() };
        let gpus = Arc::new(Snapshot { driver, ..Snapshot::default() });
        Context {
            roots: Arc::new(roots),
            common: Arc::default(),
            gpus,
            owners: Arc::default(),
            hostname: "node-1".into(),
            dcgm: Arc::default(),
            nccl: Arc::default(),
        }
    }

    /// The status of the huge pages; `None` without series.
    fn huge_pages(collector: &mut AuditStatus, context: &Context) -> Option<String> {
        let mut out = Families::default();
        assert_eq!(collector.collect(context, &mut out).unwrap(), Done::Ok);
        let text = encode(&out, Format::Text);
        let series = text.lines().find(|line| line.contains("check=\"thp_enabled\"") && line.ends_with(" 1"))?;
        Some(series.split("status=\"").nth(1)?.split('"').next()?.to_owned())
    }

    #[test]
    fn an_outcome_is_repeated_until_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let context = context(folder.path());
        let starting = Context { gpus: Arc::default(), ..context.clone() };
        let (mut seldom, mut often) =
            (AuditStatus::default(), AuditStatus { every: Duration::ZERO, ..AuditStatus::default() });
        let mut early = AuditStatus::default();
        assert_eq!((huge_pages(&mut seldom, &context), huge_pages(&mut often, &context)), (None, None));
        assert_eq!(huge_pages(&mut early, &starting), None);
        let file = folder.path().join("sys/kernel/mm/transparent_hugepage/enabled");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "[always] madvise never\n").unwrap();
        assert_eq!(huge_pages(&mut seldom, &context), None);
        assert_eq!(huge_pages(&mut often, &context).as_deref(), Some("warn"));
        assert_eq!(huge_pages(&mut early, &context).as_deref(), Some("warn"), "the GPUs were not known before");
    }

    #[test]
    fn a_series_stays_when_its_check_ends_otherwise() {
        let mut collector = AuditStatus::default();
        let mut collect = |found, settled| {
            let mut out = Families::default();
            collector.push(&[("ksm", found)], settled, &mut out);
            let text = encode(&out, Format::Text);
            let series = text.lines().filter(|line| !line.starts_with('#'));
            series.map(|line| line.split("status=").nth(1).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert!(collect(Status::NotApplicable, true).is_empty());
        assert_eq!(collect(Status::Error, false), ["\"error\"} 1"]);
        assert_eq!(collect(Status::Pass, true), ["\"pass\"} 1"], "what was found at the start is forgotten");
        assert_eq!(collect(Status::Warn, true), ["\"warn\"} 1", "\"pass\"} 0"]);
        assert_eq!(collect(Status::Pass, true), ["\"warn\"} 0", "\"pass\"} 1"]);
        assert_eq!(collect(Status::NotApplicable, true), ["\"warn\"} 0", "\"pass\"} 0"]);
    }
}
