//! `audit`: how every check of the node's tuning ended.

use std::time::{Duration, Instant};

use super::{CollectError, Collector, Context, Done, Entry};
use crate::audit::checks::CHECKS;
use crate::audit::{Audit, Profile, Status};
use crate::catalog::host::AUDIT_STATUS;
use crate::family::Families;
use crate::source::nvml::{Driver, Snapshot, State};

/// Tuning changes by hand or at boot, and a node with 256 CPUs has thousands of files to look at.
const EVERY: Duration = Duration::from_secs(300);

/// The row of this collector.
pub(super) const ENTRY: Entry = Entry {
    name: "audit",
    about: "How the checks of `goodput-exporter audit` ended, for the profile mixed; run every 5 minutes, about 10 files per CPU.",
    default: true,
    deadline: Duration::from_secs(5),
    new: || Box::<AuditStatus>::default(),
};

/// Runs the audit now and then, and repeats its outcome in between.
pub struct AuditStatus {
    every: Duration,
    last: Option<(Instant, Vec<(&'static str, Status)>)>,
}

impl Default for AuditStatus {
    fn default() -> Self {
        Self { every: EVERY, last: None }
    }
}

impl Collector for AuditStatus {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let fresh = self.last.take().filter(|(then, _)| now.duration_since(*then) < self.every);
        let (then, statuses) = fresh.unwrap_or_else(|| (now, run(context)));
        for (check, found) in &statuses {
            push(check, *found, out);
        }
        // What was found before the GPUs were read must not stand for minutes.
        self.last = settled(&context.gpus).then_some((then, statuses));
        Ok(Done::Ok)
    }
}

fn settled(gpus: &Snapshot) -> bool {
    !matches!(gpus.driver, Driver::Starting) && gpus.gpus.iter().all(|gpu| gpu.state != State::Starting)
}

fn run(context: &Context) -> Vec<(&'static str, Status)> {
    // What the node is for is not known here: mixed is what harms neither.
    let audit = Audit::run(context, Profile::Mixed, CHECKS.iter().copied());
    audit.findings.iter().map(|finding| (finding.check.id, finding.status)).collect()
}

/// A check that does not apply has no series. The others have one per status, so that a series lives as long as its check
/// applies, whatever becomes of it: with the status in one label of one series, every change would end a series and begin
/// another, and `changes()` and alerts with `for` would not see it.
fn push(check: &str, found: Status, out: &mut Families) {
    if found == Status::NotApplicable {
        return;
    }
    for status in Status::ALL.into_iter().filter(|status| *status != Status::NotApplicable) {
        out.push(&AUDIT_STATUS, &[check, status.name()], f64::from(u8::from(status == found)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::encode::{Format, encode};
    use crate::source::files::Roots;

    fn context(root: &std::path::Path) -> Context {
        let roots = Roots {
            proc: root.join("proc"),
            sys: root.join("sys"),
            cgroup: root.join("sys/fs/cgroup"),
            root: root.to_owned(),
        };
        let driver = Driver::Absent { reason: "none".to_owned() };
        let gpus = Arc::new(Snapshot { driver, ..Snapshot::default() });
        Context { roots: Arc::new(roots), gpus, owners: Arc::default(), hostname: "node-1".into() }
    }

    /// The status of the huge pages, of which there are series or not.
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
        let (mut seldom, mut often) = (AuditStatus::default(), AuditStatus { every: Duration::ZERO, last: None });
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
    fn at_most_five_series_per_check() {
        let mut out = Families::default();
        for (found, series) in [(Status::Pass, 5), (Status::NotApplicable, 5), (Status::Fail, 10)] {
            push(found.name(), found, &mut out);
            assert_eq!(out.samples(), series, "{found:?}");
        }
    }
}
