//! The GPUs that verdicts name as waited for, compared with the truth.

use serde::Serialize;

use super::Cell;
use super::join::within;
use super::trace::{Row, Trace};
use goodput_verdict::Class;

/// GPU-milliseconds that were charged to another GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Culprits {
    /// Judged `straggler`, of the time that the truth covers.
    pub told_ms: i64,
    /// Of these, charged to the GPU that the truth names.
    pub right_ms: i64,
}

impl Culprits {
    /// Of one trace.
    pub(super) fn of(trace: &Trace, cells: &[Cell]) -> Culprits {
        let mut culprits = Culprits::default();
        for cell in cells.iter().filter(|cell| cell.class == Class::Straggler.name()) {
            let rows: Vec<&Row> = trace.truth.iter().filter(|row| row.entity == cell.entity).collect();
            let overlapping = within(&rows, &cell.span);
            let sum = |of: &dyn Fn(&Row) -> bool| -> i64 {
                overlapping.iter().filter(|(row, _)| of(row)).map(|(_, ms)| ms).sum()
            };
            let (length, known) = ((cell.span.end - cell.span.start) as f64, sum(&|_| true) as f64);
            let told = (cell.ms as f64 * known / length).round() as i64;
            let named = sum(&|row| row.charged_to.is_some() && row.charged_to == cell.charged_to);
            culprits.add(Culprits { told_ms: told, right_ms: told.min(named) });
        }
        culprits
    }

    /// Adds those of another trace.
    pub(super) fn add(&mut self, other: Culprits) {
        self.told_ms += other.told_ms;
        self.right_ms += other.right_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_charged_to_the_gpu_that_the_truth_names_is_right() {
        let row = |class, span, charged_to: Option<&str>| {
            let (entity, charged_to) = ("n/gpu1".to_owned(), charged_to.map(str::to_owned));
            Row { line: 2, entity, span, class, charged_to, also: Vec::new() }
        };
        let truth = vec![row("straggler", 0..20_000, Some("n/gpu0")), row("productive", 20_000..30_000, None)];
        let (path, family) = ("t".into(), "f".into());
        let (ooms, damages) = (Vec::new(), Vec::new());
        let trace = Trace { path, family, series: Vec::new(), truth, ooms, damages };
        let told = |class, charged_to: &str, ms| {
            let (trace, entity, charged_to) = ("t".into(), "n/gpu1".into(), Some(charged_to.to_owned()));
            Cell { trace, entity, span: 0..60_000, class, confidence: 0.9, charged_to, ms }
        };
        let of = |cell| Culprits::of(&trace, &[cell]);
        // Half of the cell has a truth, so half of the verdict counts.
        assert_eq!(of(told("straggler", "n/gpu0", 30_000)), Culprits { told_ms: 15_000, right_ms: 15_000 });
        assert_eq!(of(told("straggler", "n/gpu0", 60_000)), Culprits { told_ms: 30_000, right_ms: 20_000 });
        assert_eq!(of(told("straggler", "n/gpu2", 30_000)), Culprits { told_ms: 15_000, right_ms: 0 });
        assert_eq!(of(told("collective_wait", "n/gpu0", 30_000)), Culprits::default());
    }
}
