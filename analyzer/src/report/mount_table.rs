//! The network file systems of a run that waited for one, beside what was lost to each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::most::Most;
use super::sum::Amount;
use super::{Finding, text, units};
use goodput_verdict::{Class, MountUse, Standing, filesystem_of_target};

/// What the network file systems of a run did in the hours in which it waited for one.
pub type MountTable = Most<MountRow>;

/// A network file system of a node of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MountRow {
    /// The node.
    pub node: String,
    /// The mount point, else the export.
    pub mount: String,
    /// What is mounted there; null where that is not told.
    pub export: Option<String>,
    /// Bytes that were read; null where that is not told.
    pub read_bytes: Option<f64>,
    /// What a read took, in seconds, in the mean; null where that is not told, or nothing was read.
    pub read_seconds: Option<f64>,
    /// What a read takes at best, in seconds; null where too few reads tell it.
    pub best_read_seconds: Option<f64>,
    /// The share of a read's time that it waited at the node, before its request was sent; null where that is not told.
    pub waited_at_node: Option<f64>,
    /// Requests that neither read nor write, such as look-ups; null where that is not told.
    pub others: Option<f64>,
    /// What one of them took, in seconds, in the mean; null where that is not told, or there was none.
    pub other_seconds: Option<f64>,
    /// Bytes that were written; null where that is not told.
    pub written_bytes: Option<f64>,
    /// Requests that were sent again; null where that is not told.
    pub retransmissions: Option<f64>,
    /// What the GPUs waited for it; null where they did not.
    pub waited: Option<Amount>,
    /// What all its reads and look-ups took together, in seconds.
    #[serde(skip)]
    all_seconds: f64,
}

/// The table of a finding; `None` where nothing is kept of its mounts.
pub(super) fn mount_table(finding: &Finding, standings: &[Standing]) -> Option<MountTable> {
    let owner = finding.owner.as_deref();
    let owner = owner.filter(|_| matches!(finding.class, Class::DataloaderStorage | Class::Checkpoint))?;
    let used = standings.iter().flat_map(|standing| &standing.mounts);
    let (mut all, mut most) = (BTreeMap::<(&str, &str), MountUse>::new(), 0);
    for mount in used.filter(|mount| mount.owner == owner && mount.cluster == finding.cluster) {
        most = most.max(mount.mounts);
        all.entry((&mount.node, &mount.mount)).or_default().add(mount);
    }
    let mut rows: Vec<MountRow> = all.into_iter().map(|(at, told)| row(at, told, finding)).collect();
    let waited = |row: &MountRow| row.waited.as_ref().map_or(0, |amount| amount.gpu_ms);
    let is_waited_for = rows.iter().any(|row| row.waited.is_some());
    rows.sort_by(|a, b| waited(b).cmp(&waited(a)).then(b.all_seconds.total_cmp(&a.all_seconds)));
    is_waited_for.then(|| Most::of(rows, most))
}

fn row((node, mount): (&str, &str), told: MountUse, finding: &Finding) -> MountRow {
    let of_mount = |which: &str| which == mount || filesystem_of_target(which) == Some(mount);
    let is_it = |storage: &&super::Storage| storage.node == node && of_mount(&storage.which);
    let waited = finding.storage.iter().filter(is_it).map(|storage| storage.amount.clone());
    let each = |seconds: Option<f64>, count: Option<f64>| {
        seconds.zip(count.filter(|count| *count > 0.0)).map(|(seconds, count)| seconds / count)
    };
    let all_read = told.read_seconds.filter(|seconds| *seconds > 0.0);
    MountRow {
        node: node.to_owned(),
        mount: mount.to_owned(),
        read_bytes: told.read_bytes,
        read_seconds: each(told.read_seconds, told.reads),
        best_read_seconds: told.best_read_seconds,
        waited_at_node: told.read_trip_seconds.zip(all_read).map(|(trip, all)| (1.0 - trip / all).clamp(0.0, 1.0)),
        others: told.others,
        other_seconds: each(told.other_seconds, told.others),
        written_bytes: told.written_bytes,
        retransmissions: told.retransmissions,
        waited: waited.reduce(|own, more| own.plus(&more)),
        all_seconds: told.waited_seconds(),
        export: told.export,
    }
}

impl MountTable {
    /// What the table says, in a sentence.
    #[must_use]
    pub fn said(&self, finding: &Finding) -> String {
        let lost = finding.lost.hours();
        let first = self.rows.first().and_then(|row| Some((row, row.waited.as_ref()?)));
        let Some((row, waited)) = first else { return format!("{lost} GPU-hours were lost.") };
        let of = row.export.as_ref().filter(|export| **export != row.mount);
        let of = of.map_or(String::new(), |export| format!(" ({export})"));
        let read = row.read_seconds.zip(row.best_read_seconds).map(|(each, best)| {
            let (each, best) = (units::measure(each, "seconds"), units::measure(best, "seconds"));
            format!(" A read took {each} in the mean, and takes {best} at best.")
        });
        let (hours, name) = (waited.hours(), row.name());
        format!("{hours} of {lost} GPU-hours waited for {name}{of}.{}", read.unwrap_or_default())
    }
}

impl MountRow {
    /// The mount, to be read.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} of {}", self.mount, self.node)
    }

    /// What was read, to be read.
    #[must_use]
    pub fn read(&self) -> String {
        units::told(self.read_bytes, "bytes")
    }

    /// The time of a read, to be read.
    #[must_use]
    pub fn each(&self) -> String {
        units::told(self.read_seconds, "seconds")
    }

    /// Its best, to be read.
    #[must_use]
    pub fn best(&self) -> String {
        units::told(self.best_read_seconds, "seconds")
    }

    /// How much of it passed at the node, to be read.
    #[must_use]
    pub fn at_node(&self) -> String {
        self.waited_at_node.map_or(text::UNKNOWN.into(), |share| text::percent(Some(share)))
    }

    /// The time of another request, to be read.
    #[must_use]
    pub fn other_each(&self) -> String {
        units::told(self.other_seconds, "seconds")
    }

    /// What was written, to be read.
    #[must_use]
    pub fn written(&self) -> String {
        units::told(self.written_bytes, "bytes")
    }

    /// GPU-hours that waited for it, to be read.
    #[must_use]
    pub fn hours(&self) -> String {
        self.waited.as_ref().map_or("0".into(), Amount::hours)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::{Period, Site, build, html, markdown};
    use goodput_testing::bare;
    use goodput_verdict::{Cause, CauseKind, Class, Interval, MountUse, Outlook, Standing};

    fn used(node: &str, mount: &str, seconds: f64) -> MountUse {
        MountUse {
            node: node.to_owned(),
            owner: "llm".to_owned(),
            mount: mount.to_owned(),
            export: Some(format!("nas:{mount}")),
            mounts: 5,
            read_bytes: Some(1e9),
            reads: Some(1000.0),
            read_seconds: Some(1000.0 * seconds),
            read_trip_seconds: Some(250.0 * seconds),
            best_read_seconds: Some(0.004),
            others: Some(0.0),
            other_seconds: Some(0.0),
            ..MountUse::default()
        }
    }

    fn standings() -> Vec<Standing> {
        let of = |seconds| Standing {
            mounts: vec![used("n1", "/data", seconds), used("n1", "/home", 0.004)],
            ..Standing::default()
        };
        let other = MountUse { owner: "other".to_owned(), ..used("n9", "/data", 60.0) };
        vec![of(0.04), of(0.06), Standing { mounts: vec![other], ..Standing::default() }]
    }

    fn waited(class: Class, which: Option<&str>) -> Interval {
        let cause = which.map(|which| Cause { kind: CauseKind::SlowMount, which: Some(which.to_owned()) });
        Interval { owner: Some("llm".to_owned()), node: "n1".to_owned(), cause, ..bare(class, 0..1_800_000) }
    }

    fn report(intervals: &[Interval]) -> super::super::Report {
        let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
        let outlook = Outlook { standings: standings(), ..Outlook::default() };
        build(intervals, &[], period, &[]).with_outlook(&outlook)
    }

    #[test]
    fn a_finding_has_the_mounts_of_its_run() {
        let report = report(&[waited(Class::DataloaderStorage, Some("/data"))]);
        let table = report.findings[0].mount_table.as_ref().unwrap();
        let rows = table.rows.iter().map(|row| {
            (row.mount.as_str(), row.read_seconds, row.waited_at_node, row.waited.as_ref().map(|a| a.gpu_ms))
        });
        let rows: Vec<_> = rows.collect();
        assert_eq!(
            rows,
            [("/data", Some(0.05), Some(0.75), Some(1_800_000)), ("/home", Some(0.004), Some(0.75), None)]
        );
        assert_eq!(table.others, 3);
        let said = "0.50 of 0.50 GPU-hours waited for /data of n1 (nas:/data). A read took 0.05 s in the mean, and takes 0.004 s at best.";
        let row = "| /data of n1 | 1.86 GiB | 0.05 s | 0.004 s | 75.0 % | 0 | unknown | unknown | unknown | 0.50 |";
        let pages = [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()];
        assert!(pages.iter().all(|page| page.contains(said)), "{}", pages[0]);
        assert!(pages[0].contains(row), "{}", pages[0]);
        let more = "Other mounts of the nodes of the run, which show less: 3.";
        assert!(pages.iter().all(|page| page.contains(more)), "{}", pages[0]);
    }

    #[test]
    fn what_waited_for_a_storage_target_waited_for_its_mount() {
        let outlook = Standing { mounts: vec![used("n1", "scratch", 0.05)], ..Standing::default() };
        let outlook = Outlook { standings: vec![outlook], ..Outlook::default() };
        let all = ["scratch-OST0001", "scratch-OST0002", "scratch"]
            .map(|which| waited(Class::DataloaderStorage, Some(which)));
        let period = Period::between("1970-01-01", "1970-01-02", &TimeZone::UTC).unwrap();
        let report = build(&all, &[], period, &[]).with_outlook(&outlook);
        let rows = &report.findings[0].mount_table.as_ref().unwrap().rows;
        assert_eq!((rows.len(), rows[0].waited.as_ref().map(|amount| amount.gpu_ms)), (1, Some(5_400_000)));
    }

    #[test]
    fn a_finding_that_waited_for_no_mount_has_no_table() {
        let class = Class::DataloaderStorage;
        let all = [waited(class, None), waited(class, Some("nvme0n1")), waited(Class::IoLimited, Some("/data"))];
        for interval in all {
            let report = report(std::slice::from_ref(&interval));
            assert_eq!(report.findings[0].mount_table, None, "{interval:?}");
        }
    }
}
