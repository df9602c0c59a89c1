//! From capacity, less what no owner held, to allocated, less what was lost, to productive.

use super::chart::WIDTH;
use super::{Amount, Report};
use goodput_verdict::Group;

/// Characters of a whole bar in plain text.
const TEXT_WIDTH: f64 = 40.0;

/// A bar of the waterfall.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Its name.
    pub label: &'static str,
    /// Name of its colour.
    pub colour: &'static str,
    /// Is it what remains, rather than what is taken away?
    pub is_total: bool,
    /// Left edge.
    pub x: f64,
    /// Width.
    pub width: f64,
    /// What it stands for.
    pub amount: Amount,
}

impl Step {
    /// The bar in characters: what it stands for is `#`.
    pub(super) fn text(&self) -> String {
        let at = |x: f64| (x / WIDTH * TEXT_WIDTH).round() as usize;
        let (from, to) = (at(self.x), at(self.x + self.width));
        // The least part is seen.
        let length = (to - from).max(usize::from(self.width > 0.0));
        format!("{}{}", " ".repeat(from.min(TEXT_WIDTH as usize - length)), "#".repeat(length))
    }
}

/// The bars, from top to bottom; classes without time are left out.
pub(super) fn waterfall(report: &Report) -> Vec<Step> {
    let capacity = report.fleet.capacity.gpu_ms;
    let scale = |ms: i64| if capacity > 0 { ms as f64 / capacity as f64 * WIDTH } else { 0.0 };
    let mut steps = vec![total("capacity", &report.fleet.capacity, &scale)];
    let mut left = capacity;
    let is_capacity = |group: Group| group == Group::Capacity;
    for outside in [true, false] {
        for row in report.classes.iter().filter(|r| r.group != Group::Productive && is_capacity(r.group) == outside) {
            left -= row.amount.gpu_ms;
            let (label, amount) = (row.class.name(), row.amount.clone());
            let (x, width) = (scale(left), scale(amount.gpu_ms));
            let step = Step { label, colour: label, is_total: false, x, width, amount };
            steps.extend((row.amount.gpu_ms > 0).then_some(step));
        }
        if outside {
            steps.push(total("allocated", &report.fleet.allocated, &scale));
        }
    }
    steps.push(total("productive", &report.fleet.productive, &scale));
    steps
}

fn total(label: &'static str, amount: &Amount, scale: &impl Fn(i64) -> f64) -> Step {
    let colour = if label == "productive" { label } else { "total" };
    Step { label, colour, is_total: true, x: 0.0, width: scale(amount.gpu_ms), amount: amount.clone() }
}
