//! The confusion matrix, in GPU-milliseconds, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;

use super::Cell;
use super::calibration::{Calibration, band};
use super::join::within;
use super::trace::{Row, Trace};
use goodput_exposition::sample::TimeMs;
use goodput_rules::apportion;
use goodput_verdict::Class;

/// GPU-milliseconds by truth, verdict and band of confidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Matrix(BTreeMap<Key, i64>);

/// True class, the verdict's class, and the band of its confidence where it claims something.
type Key = (&'static str, &'static str, Option<usize>);

/// GPU-milliseconds by true class, then by verdict.
pub type Confusion = BTreeMap<&'static str, BTreeMap<&'static str, i64>>;

/// Some milliseconds of a verdict.
struct Told {
    class: &'static str,
    band: Option<usize>,
    ms: i64,
}

impl Told {
    fn of(cell: &&Cell) -> Told {
        Told { class: cell.class, band: band(cell.class, cell.confidence), ms: cell.ms }
    }
}

/// What a matrix comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// GPU-milliseconds that the truth covers.
    pub total_ms: i64,
    /// Mean F1 of the classes that are true of some of it.
    pub macro_f1: f64,
    /// Share of it that was given a class, other than `unexplained`, which is not the true one.
    pub wrong_class_share: f64,
    /// Share of it that was left `unexplained` and has a true class.
    pub unexplained_share: f64,
    /// By class, those of the truth and of the verdicts.
    pub classes: BTreeMap<&'static str, ClassScore>,
    /// GPU-milliseconds by true class, then by verdict.
    pub confusion: Confusion,
    /// Claims by band of confidence.
    pub calibration: Calibration,
    /// The same as `confusion` of sure claims (confidence of at least 0.9) alone.
    pub sure_confusion: Confusion,
}

/// How well one class is told.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClassScore {
    /// GPU-milliseconds that it is true of.
    pub truth_ms: i64,
    /// GPU-milliseconds that were given to it.
    pub verdict_ms: i64,
    /// Of what was given to it, the share that it is true of; absent where nothing was.
    pub precision: Option<f64>,
    /// Of what it is true of, the share that was given to it; absent where there is nothing.
    pub recall: Option<f64>,
    /// Harmonic mean of both; 0 where either is absent or 0.
    pub f1: f64,
}

impl Matrix {
    /// Holds the cells against the truth.
    pub(super) fn of(trace: &Trace, cells: &[Cell]) -> Matrix {
        let mut rows: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        trace.truth.iter().for_each(|row| rows.entry(&row.entity).or_default().push(row));
        let mut matrix = Matrix::default();
        for (entity, rows) in rows {
            let of_entity: Vec<&Cell> = cells.iter().filter(|cell| cell.entity == entity).collect();
            for same in of_entity.chunk_by(|a, b| a.span == b.span) {
                let verdicts: Vec<Told> = same.iter().map(Told::of).collect();
                matrix.cell(&within(&rows, &same[0].span), &verdicts);
            }
            matrix.unjudged(&rows, &of_entity);
        }
        matrix
    }

    /// Truth of times in which the GPU was in no ledger: nothing was known of it.
    fn unjudged(&mut self, rows: &[&Row], cells: &[&Cell]) {
        let spans: BTreeSet<(TimeMs, TimeMs)> = cells.iter().map(|c| (c.span.start, c.span.end)).collect();
        let spans: Vec<Range<TimeMs>> = spans.into_iter().map(|(start, end)| start..end).collect();
        for row in rows {
            let shared = |s: &Range<TimeMs>| (row.span.end.min(s.end) - row.span.start.max(s.start)).max(0);
            let judged: i64 = spans.iter().map(shared).sum();
            self.book((row.class, Class::NoData.name(), None), row.span.end - row.span.start - judged);
        }
    }

    /// One cell. Which millisecond within it has which class is unknown, so truth and verdict are laid upon each other
    /// as well as they fit: first equal classes, then those that a row accepts, and what is left in proportion.
    fn cell(&mut self, truth: &[(&Row, i64)], verdicts: &[Told]) {
        let total: i64 = truth.iter().map(|(_, ms)| ms).sum();
        let weights: Vec<f64> = verdicts.iter().map(|told| told.ms as f64).collect();
        let mut given = apportion(total, &weights);
        let mut left: Vec<i64> = truth.iter().map(|(_, ms)| *ms).collect();
        let accepts: [fn(&Row, &str) -> bool; 2] =
            [|row, class| row.class == class, |row, class| row.also.contains(&class)];
        for accepts in accepts {
            for (n, (row, _)) in truth.iter().enumerate() {
                for (m, told) in verdicts.iter().enumerate().filter(|(_, told)| accepts(row, told.class)) {
                    let ms = left[n].min(given[m]);
                    (left[n], given[m]) = (left[n] - ms, given[m] - ms);
                    self.book((row.class, row.class, told.band), ms);
                }
            }
        }
        for ((row, _), ms) in truth.iter().zip(left) {
            let weights: Vec<f64> = given.iter().map(|ms| *ms as f64).collect();
            for (m, ms) in apportion(ms, &weights).into_iter().enumerate() {
                given[m] -= ms;
                self.book((row.class, verdicts[m].class, verdicts[m].band), ms);
            }
        }
    }

    fn book(&mut self, key: Key, ms: i64) {
        if ms > 0 {
            *self.0.entry(key).or_default() += ms;
        }
    }

    /// Adds another one.
    pub(super) fn add(&mut self, other: &Matrix) {
        for (key, ms) in &other.0 {
            self.book(*key, *ms);
        }
    }

    fn sum(&self, of: impl Fn(&str, &str) -> bool) -> i64 {
        self.0.iter().filter(|((truth, verdict, _), _)| of(truth, verdict)).map(|(_, ms)| ms).sum()
    }

    /// What it comes to.
    pub(super) fn score(&self) -> Score {
        let total = self.sum(|_, _| true);
        let share = |ms: i64| if total > 0 { ms as f64 / total as f64 } else { 0.0 };
        let unexplained = Class::Unexplained.name();
        let names: BTreeSet<&'static str> = self.0.keys().flat_map(|(truth, verdict, _)| [*truth, *verdict]).collect();
        let classes: BTreeMap<_, _> = names.into_iter().map(|name| (name, self.class(name))).collect();
        let f1: Vec<f64> = classes.values().filter(|c| c.truth_ms > 0).map(|c| c.f1).collect();
        let claims = self.0.iter().filter_map(|((truth, verdict, band), ms)| Some(((*band)?, truth == verdict, *ms)));
        Score {
            total_ms: total,
            macro_f1: f1.iter().sum::<f64>() / f1.len().max(1) as f64,
            wrong_class_share: share(self.sum(|truth, verdict| truth != verdict && verdict != unexplained)),
            unexplained_share: share(self.sum(|truth, verdict| truth != verdict && verdict == unexplained)),
            classes,
            confusion: self.confusion(|_| true),
            calibration: Calibration::of(claims),
            sure_confusion: self.confusion(|band| band == Some(0)),
        }
    }

    /// By true class, then by verdict, of some bands.
    fn confusion(&self, of: impl Fn(Option<usize>) -> bool) -> Confusion {
        let mut confusion = Confusion::new();
        for ((truth, verdict, _), ms) in self.0.iter().filter(|((.., band), _)| of(*band)) {
            *confusion.entry(*truth).or_default().entry(*verdict).or_default() += ms;
        }
        confusion
    }

    fn class(&self, name: &str) -> ClassScore {
        let both = self.sum(|truth, verdict| truth == name && verdict == name);
        let (truth_ms, verdict_ms) = (self.sum(|truth, _| truth == name), self.sum(|_, verdict| verdict == name));
        let ratio = |of: i64| (of > 0).then(|| both as f64 / of as f64);
        let f1 = ratio(truth_ms + verdict_ms).unwrap_or(0.0) * 2.0;
        ClassScore { truth_ms, verdict_ms, precision: ratio(verdict_ms), recall: ratio(truth_ms), f1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(class: &'static str, also: &[&'static str]) -> Row {
        let (entity, also) = ("n/gpu0".to_owned(), also.to_vec());
        Row { line: 2, entity, span: 0..60_000, class, charged_to: None, cause: None, also }
    }

    fn matrix(truth: &[(&Row, i64)], verdicts: &[(&'static str, i64)]) -> Vec<(&'static str, &'static str, i64)> {
        let mut matrix = Matrix::default();
        let told = |(class, ms): &(&'static str, i64)| Told { class, band: band(class, 0.9), ms: *ms };
        matrix.cell(truth, &verdicts.iter().map(told).collect::<Vec<_>>());
        matrix.0.into_iter().map(|((truth, verdict, _), ms)| (truth, verdict, ms)).collect()
    }

    #[test]
    fn a_cell_with_several_classes_is_laid_upon_the_truth_as_well_as_it_fits() {
        let (work, read, throttled) =
            (row("productive", &[]), row("dataloader_storage", &[]), row("cpu_throttled", &[]));
        let truth = [(&work, 20_000), (&read, 30_000), (&throttled, 10_000)];
        let got = matrix(&truth, &[("productive", 30_000), ("dataloader_storage", 20_000), ("unexplained", 10_000)]);
        assert_eq!(
            got,
            [
                ("cpu_throttled", "productive", 5000),
                ("cpu_throttled", "unexplained", 5000),
                ("dataloader_storage", "dataloader_storage", 20_000),
                ("dataloader_storage", "productive", 5000),
                ("dataloader_storage", "unexplained", 5000),
                ("productive", "productive", 20_000),
            ]
        );
    }

    #[test]
    fn what_a_row_accepts_is_right_but_its_own_class_comes_first() {
        let (lost, idle) = (row("no_demand", &["idle_held"]), row("idle_held", &[]));
        let got = matrix(&[(&lost, 30_000), (&idle, 30_000)], &[("idle_held", 60_000)]);
        assert_eq!(got, [("idle_held", "idle_held", 30_000), ("no_demand", "no_demand", 30_000)]);
    }

    #[test]
    fn truth_of_a_part_of_a_cell_takes_its_share_of_the_verdict() {
        let work = row("productive", &[]);
        let got = matrix(&[(&work, 20_000)], &[("productive", 30_000), ("idle_held", 30_000)]);
        assert_eq!(got, [("productive", "idle_held", 10_000), ("productive", "productive", 10_000)]);
    }

    #[test]
    fn scores_follow_from_the_sums() {
        let mut matrix = Matrix::default();
        for (truth, verdict, ms) in [
            ("productive", "productive", 60),
            ("straggler", "unexplained", 20),
            ("idle_held", "idle_held", 10),
            ("idle_held", "cold_start", 10),
        ] {
            matrix.book((truth, verdict, band(verdict, 0.9)), ms);
        }
        let score = matrix.score();
        assert_eq!((score.total_ms, score.wrong_class_share, score.unexplained_share), (100, 0.1, 0.2));
        let idle = score.classes["idle_held"];
        assert_eq!((idle.precision, idle.recall), (Some(1.0), Some(0.5)));
        assert!((idle.f1 - 2.0 / 3.0).abs() < 1e-12 && score.classes["cold_start"].recall.is_none());
        assert!((score.macro_f1 - (1.0 + 0.0 + 2.0 / 3.0) / 3.0).abs() < 1e-12, "classes of the truth only");
    }

    #[test]
    fn a_verdict_keeps_its_confidence_and_what_is_left_unexplained_is_no_claim() {
        let (work, idle) = (row("productive", &[]), row("idle_held", &["unexplained"]));
        let mut matrix = Matrix::default();
        let told = |class, confidence, ms| Told { class, band: band(class, confidence), ms };
        let verdicts = [
            told("productive", 0.9, 20_000),
            told("checkpoint", 0.9, 10_000),
            told("idle_held", 0.75, 20_000),
            told("unexplained", 0.9, 10_000),
        ];
        matrix.cell(&[(&work, 30_000), (&idle, 30_000)], &verdicts);
        let score = matrix.score();
        let bands: Vec<_> = score.calibration.bands.iter().map(|b| (b.claimed_ms, b.right_ms)).collect();
        assert_eq!(bands, [(30_000, 20_000), (20_000, 20_000), (0, 0), (0, 0)]);
        assert_eq!(score.sure_confusion["productive"], [("checkpoint", 10_000), ("productive", 20_000)].into());
    }
}
