//! The GPUs and ports that verdicts name as waited for, and the causes that they name, compared with the truth.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Cell;
use super::join::within;
use super::trace::{Row, Trace};
use goodput_verdict::Class;

/// GPU-milliseconds that were charged to another GPU or a port, or given a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Culprits {
    /// Judged `straggler`, of the time that the truth covers.
    pub told_ms: i64,
    /// Of these, charged to the GPU that the truth names.
    pub right_ms: i64,
    /// Each class for which the truth or a verdict names a culprit or a cause.
    pub classes: BTreeMap<&'static str, Named>,
}

/// What is named of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    /// GPU-milliseconds judged so, of the time that the truth covers.
    pub told_ms: i64,
    /// Of these, charged to the one that the truth names.
    pub culprit_right_ms: i64,
    /// Of `told_ms`, the time of traces whose truth has a column of causes; null where none has.
    pub cause_told_ms: Option<i64>,
    /// Of these, given the cause that the truth names.
    pub cause_right_ms: Option<i64>,
}

impl Culprits {
    /// Of one trace.
    pub(super) fn of(trace: &Trace, cells: &[Cell]) -> Culprits {
        let classes = classes(trace, cells).into_iter().map(|class| (class, Named::of(class, trace, cells))).collect();
        let straggler = Class::Straggler.name();
        let Named { told_ms, culprit_right_ms: right_ms, .. } = Named::of(straggler, trace, cells);
        Culprits { told_ms, right_ms, classes }
    }

    /// Adds those of another trace.
    pub(super) fn add(&mut self, other: &Culprits) {
        self.told_ms += other.told_ms;
        self.right_ms += other.right_ms;
        for (class, named) in &other.classes {
            self.classes.entry(class).or_default().add(*named);
        }
    }
}

/// The classes for which the truth or a verdict names a culprit or a cause.
fn classes(trace: &Trace, cells: &[Cell]) -> BTreeSet<&'static str> {
    let told = cells.iter().filter(|cell| cell.charged_to.is_some() || cell.cause.is_some()).map(|cell| cell.class);
    let truth = trace.truth.iter().filter(|row| row.charged_to.is_some() || row.cause.is_some()).map(|row| row.class);
    told.chain(truth).collect()
}

impl Named {
    fn of(class: &str, trace: &Trace, cells: &[Cell]) -> Named {
        let mut named = Named::default();
        let of_class: Vec<&Cell> = cells.iter().filter(|cell| cell.class == class).collect();
        for same in of_class.chunk_by(|a, b| (&a.entity, &a.span) == (&b.entity, &b.span)) {
            let rows: Vec<&Row> = trace.truth.iter().filter(|row| row.entity == same[0].entity).collect();
            named.add(Named::of_cell(same, &within(&rows, &same[0].span), trace.has_causes));
        }
        named
    }

    /// Of the verdicts of a class on one cell of a GPU, and the truth in it.
    fn of_cell(cells: &[&Cell], truth: &[(&Row, i64)], has_causes: bool) -> Named {
        let culprits = sums(cells, truth, culprit);
        let culprit_right_ms = right(&culprits, truth, |row| row.charged_to.as_deref());
        let causes = sums(cells, truth, |cell| cell.cause.map(Cow::Borrowed));
        let cause_right_ms = right(&causes, truth, |row| row.cause.as_deref());
        let told = |sums: &Sums<'_>| sums.values().sum();
        Named {
            told_ms: told(&culprits),
            culprit_right_ms,
            cause_told_ms: has_causes.then(|| told(&causes)),
            cause_right_ms: has_causes.then_some(cause_right_ms),
        }
    }

    fn add(&mut self, other: Named) {
        let sum = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
        *self = Named {
            told_ms: self.told_ms + other.told_ms,
            culprit_right_ms: self.culprit_right_ms + other.culprit_right_ms,
            cause_told_ms: sum(self.cause_told_ms, other.cause_told_ms),
            cause_right_ms: sum(self.cause_right_ms, other.cause_right_ms),
        };
    }
}

/// The one that is charged; where none is, what of the own host has the cause.
fn culprit(cell: &Cell) -> Option<Cow<'_, str>> {
    let own = || {
        let (host, which) = (cell.entity.rsplit_once('/')?.0, cell.which.as_ref()?);
        Some(format!("{host}/{}", which.trim_start_matches('/')).into())
    };
    cell.charged_to.as_deref().map(Cow::Borrowed).or_else(own)
}

/// GPU-milliseconds by name.
type Sums<'a> = BTreeMap<Option<Cow<'a, str>>, i64>;

/// The same of the part of the cell that has a truth.
fn sums<'a>(cells: &[&'a Cell], truth: &[(&Row, i64)], name: fn(&Cell) -> Option<Cow<'_, str>>) -> Sums<'a> {
    let mut told = Sums::new();
    cells.iter().for_each(|cell| *told.entry(name(cell)).or_default() += cell.ms);
    let known = truth.iter().map(|(_, ms)| ms).sum::<i64>() as f64;
    let length = cells.first().map_or(1, |cell| cell.span.end - cell.span.start) as f64;
    told.values_mut().for_each(|ms| *ms = (*ms as f64 * known / length).round() as i64);
    told
}

/// What has the name that the truth has then: of a cell no more than the truth has in it.
fn right(told: &Sums<'_>, truth: &[(&Row, i64)], name: fn(&Row) -> Option<&str>) -> i64 {
    let named =
        |wanted: &str| -> i64 { truth.iter().filter(|(row, _)| name(row) == Some(wanted)).map(|(_, ms)| ms).sum() };
    told.iter().filter_map(|(name, ms)| Some(named(name.as_deref()?).min(*ms))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(class: &'static str, span: std::ops::Range<i64>, charged_to: Option<&str>, cause: Option<&str>) -> Row {
        let (entity, also) = ("n/gpu1".to_owned(), Vec::new());
        let [charged_to, cause] = [charged_to, cause].map(|text| text.map(str::to_owned));
        Row { line: 2, entity, span, class, charged_to, cause, also }
    }

    fn trace(truth: Vec<Row>, has_causes: bool) -> Trace {
        let (path, family, series) = ("t".into(), "f".into(), Vec::new());
        Trace { path, family, series, truth, ooms: Vec::new(), damages: Vec::new(), has_causes }
    }

    fn told(class: &'static str, charged_to: Option<&str>, cause: Option<&'static str>, ms: i64) -> Cell {
        let (trace, entity, charged_to) = ("t".into(), "n/gpu1".into(), charged_to.map(str::to_owned));
        Cell { trace, entity, span: 0..60_000, class, confidence: 0.9, charged_to, cause, which: None, ms }
    }

    #[test]
    fn only_time_charged_to_the_gpu_that_the_truth_names_is_right() {
        let straggler = row("straggler", 0..20_000, Some("n/gpu0"), None);
        let trace = trace(vec![straggler, row("productive", 20_000..30_000, None, None)], false);
        let of = |class, charged_to, ms| {
            let culprits = Culprits::of(&trace, &[told(class, Some(charged_to), None, ms)]);
            (culprits.told_ms, culprits.right_ms)
        };
        // Half of the cell has a truth, so half of the verdict counts.
        assert_eq!(of("straggler", "n/gpu0", 30_000), (15_000, 15_000));
        assert_eq!(of("straggler", "n/gpu0", 60_000), (30_000, 20_000));
        assert_eq!(of("straggler", "n/gpu2", 30_000), (15_000, 0));
        assert_eq!(of("collective_wait", "n/gpu0", 30_000), (0, 0));
    }

    #[test]
    fn a_cause_and_a_port_are_right_where_the_truth_names_the_same() {
        let slow = row("network_slow", 0..40_000, Some("n/mlx5_1/1"), Some("errors"));
        let work = row("productive", 40_000..60_000, None, None);
        let one = |has_causes| {
            let cells = [
                told("network_slow", Some("n/mlx5_1/1"), Some("errors"), 25_000),
                told("network_slow", Some("n/mlx5_1/1"), Some("link"), 25_000),
                told("network_slow", Some("n/mlx5_2/1"), Some("errors"), 10_000),
            ];
            Culprits::of(&trace(vec![slow.clone(), work.clone()], has_causes), &cells)
        };
        // Two verdicts of a cell that name the same are right for no more than the truth has in it.
        let (told_ms, right_ms) = (60_000, 40_000);
        let judged =
            Named { told_ms, culprit_right_ms: right_ms, cause_told_ms: Some(told_ms), cause_right_ms: Some(35_000) };
        let unjudged = Named { cause_told_ms: None, cause_right_ms: None, ..judged };
        let mut culprits = one(true);
        assert_eq!(culprits, Culprits { classes: [("network_slow", judged)].into(), ..Culprits::default() });
        assert_eq!(one(false).classes["network_slow"], unjudged);
        culprits.add(&one(false));
        let sum = culprits.classes["network_slow"];
        assert_eq!((sum.told_ms, sum.cause_told_ms, sum.cause_right_ms), (120_000, Some(60_000), Some(35_000)));
    }

    #[test]
    fn a_mount_is_right_where_the_truth_names_the_same_of_that_host() {
        let of = |which: &str| {
            let late = row("dataloader_storage", 0..60_000, Some("n/data"), None);
            let told = told("dataloader_storage", None, Some("slow_mount"), 60_000);
            let cells = [Cell { which: Some(which.to_owned()), ..told }];
            Culprits::of(&trace(vec![late], false), &cells).classes["dataloader_storage"].culprit_right_ms
        };
        assert_eq!((of("/data"), of("/home")), (60_000, 0));
    }

    #[test]
    fn a_class_is_listed_where_truth_or_verdict_names_a_culprit_or_a_cause() {
        let rows =
            vec![row("checkpoint", 0..20_000, Some("filer"), None), row("idle_held", 20_000..60_000, None, None)];
        let cells = [told("idle_held", None, None, 30_000), told("straggler", Some("n/gpu0"), None, 30_000)];
        let culprits = Culprits::of(&trace(rows, false), &cells);
        assert_eq!(culprits.classes.keys().copied().collect::<Vec<_>>(), ["checkpoint", "straggler"]);
        assert_eq!(culprits.classes["checkpoint"], Named::default());
    }
}
