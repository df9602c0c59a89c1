//! Traces held to floors.

use std::path::Path;

use anyhow::Result;
use goodput_analyzer::evaluate::evaluate;
use goodput_rules::classify::Thresholds;

/// Which classes of the trace have an F1 below their floor, and what was told in its place.
///
/// # Errors
/// When the trace cannot be read.
pub fn missed(trace: &Path, floors: &[(&str, f64)]) -> Result<Vec<String>> {
    let score = evaluate(&[trace.to_owned()], &Thresholds::default())?.all;
    let f1 = |class: &str| score.classes.get(class).map_or(0.0, |class| class.f1);
    let below = floors.iter().filter(|(class, floor)| f1(class) < *floor);
    let said = |(class, floor): &(&str, f64)| {
        format!("{}: F1 of {class} is {:.3}, below {floor}: {:?}", trace.display(), f1(class), score.confusion)
    };
    Ok(below.map(said).collect())
}
