//! What came out, for people and for other programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Ablation, Band, Cell, Evaluation, Named, Score, Without};
use crate::escape;
use goodput_exposition::sample::TimeMs;

const HOUR_MS: f64 = 3_600_000.0;

/// The evaluation as a table.
#[must_use]
pub fn table(evaluation: &Evaluation) -> String {
    let mut out = format!("{:<28} {:>9} {:>9} {:>7} {:>12}\n", "", "GPU-hours", "macro-F1", "wrong", "unexplained");
    line(&mut out, &format!("all {} traces", evaluation.traces), &evaluation.all);
    line(&mut out, "by utilisation alone", &evaluation.baseline);
    for (family, score) in &evaluation.families {
        line(&mut out, &format!("  {family}"), score);
    }
    classes(&mut out, &evaluation.all);
    confusion(&mut out, &evaluation.all);
    calibration(&mut out, evaluation);
    let c = &evaluation.culprits;
    let _ = writeln!(
        out,
        "\nstraggler: {:.2} GPU-hours told, {:.2} of them charged to the right GPU",
        c.told_ms as f64 / HOUR_MS,
        c.right_ms as f64 / HOUR_MS
    );
    named(&mut out, &c.classes);
    let f = &evaluation.forecasts;
    let minutes = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), |s| format!("{:.0} min", s / 60.0));
    let _ = writeln!(
        out,
        "ran out of memory or disk: {} times, {} warned of, median lead {}, {} false alarms",
        f.ooms,
        f.lead_seconds.len(),
        minutes(f.median_lead_seconds),
        f.false_alarms
    );
    let _ = writeln!(
        out,
        "damaged GPUs: {}, {} told, the last after {}, {} told of sound ones",
        f.damages,
        f.damage_seconds.len(),
        minutes(f.damage_seconds.last().copied()),
        f.false_damages
    );
    out
}

/// The loss of F1 from which on a class is named.
const NAMED_LOSS: f64 = 0.01;
/// Most classes that are named of a signal.
const NAMED: usize = 4;

/// What each signal is worth, as a table in Markdown.
#[must_use]
pub fn ablation_table(ablation: &Ablation) -> String {
    let mut out = String::from(
        "| without | traces | macro-F1 | wrong | unexplained | out of memory, warned of | what is told worse (F1) |\n\
         |---|---:|---:|---:|---:|---:|---|\n",
    );
    let mut row = |name: &str, traces: usize, score: &Score, warned: usize, worse: &str| {
        let (wrong, unexplained) = (100.0 * score.wrong_class_share, 100.0 * score.unexplained_share);
        let _ = writeln!(
            out,
            "| {name} | {traces} | {:.3} | {wrong:.1} % | {unexplained:.1} % | {warned} | {worse} |",
            score.macro_f1
        );
    };
    row("nothing: all signals", ablation.traces, &ablation.all, ablation.forecasts.lead_seconds.len(), "");
    for one in &ablation.without {
        row(one.signal, one.traces, &one.score, one.forecasts.lead_seconds.len(), &told_worse(&ablation.all, one));
    }
    out
}

/// The classes that lose most.
fn told_worse(all: &Score, without: &Without) -> String {
    let f1 = |score: &Score, name: &str| score.classes.get(name).map_or(0.0, |class| class.f1);
    let is_true = all.classes.iter().filter(|(_, class)| class.truth_ms > 0).map(|(name, _)| *name);
    let change = |name| (name, f1(all, name), f1(&without.score, name));
    let mut worse: Vec<_> = is_true.map(change).filter(|(_, with, less)| with - less >= NAMED_LOSS).collect();
    worse.sort_by(|(_, a, b), (_, c, d)| (c - d).total_cmp(&(a - b)));
    let named = worse.iter().take(NAMED).map(|(name, with, less)| format!("{name} {with:.2} → {less:.2}"));
    named.collect::<Vec<_>>().join(", ")
}

fn line(out: &mut String, name: &str, score: &Score) {
    let _ = writeln!(
        out,
        "{name:<28} {:>9.2} {:>9.3} {:>6.1}% {:>11.1}%",
        score.total_ms as f64 / HOUR_MS,
        score.macro_f1,
        100.0 * score.wrong_class_share,
        100.0 * score.unexplained_share
    );
}

fn classes(out: &mut String, score: &Score) {
    let _ = writeln!(
        out,
        "\n{:<20} {:>10} {:>10} {:>9} {:>7} {:>7}",
        "class", "true GPU-h", "told GPU-h", "precision", "recall", "F1"
    );
    let ratio = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.3}"));
    for (name, c) in &score.classes {
        let hours = |ms: i64| ms as f64 / HOUR_MS;
        let (precision, recall) = (ratio(c.precision), ratio(c.recall));
        let (truth, told) = (hours(c.truth_ms), hours(c.verdict_ms));
        let _ = writeln!(out, "{name:<20} {truth:>10.2} {told:>10.2} {precision:>9} {recall:>7} {:>7.3}", c.f1);
    }
}

/// Who and which cause is named, class by class.
fn named(out: &mut String, classes: &BTreeMap<&'static str, Named>) {
    if classes.is_empty() {
        return;
    }
    let _ = writeln!(out, "{:<20} {:>11} {:>14} {:>14}", "named", "told GPU-s", "culprit right", "cause right");
    let seconds = |ms: i64| format!("{:.1}", ms as f64 / 1000.0);
    for (name, c) in classes {
        let (told, culprit) = (seconds(c.told_ms), seconds(c.culprit_right_ms));
        let cause = c.cause_right_ms.map_or_else(|| "-".to_owned(), seconds);
        let _ = writeln!(out, "{name:<20} {told:>11} {culprit:>14} {cause:>14}");
    }
}

/// What is not right, the most first.
fn confusion(out: &mut String, score: &Score) {
    let cells =
        score.confusion.iter().flat_map(|(truth, row)| row.iter().map(move |(verdict, ms)| (truth, verdict, ms)));
    let mut wrong: Vec<_> = cells.filter(|(truth, verdict, _)| truth != verdict).collect();
    wrong.sort_by_key(|(.., ms)| -**ms);
    let _ = writeln!(out, "\n{:<20} {:<20} {:>10} {:>9}", "true", "told", "GPU-hours", "of true");
    for (truth, verdict, ms) in wrong {
        let of = *ms as f64 / score.classes[truth].truth_ms as f64;
        let _ = writeln!(out, "{truth:<20} {verdict:<20} {:>10.3} {:>8.1}%", *ms as f64 / HOUR_MS, 100.0 * of);
    }
}

/// Claims by band of confidence, then the sure ones by family, those that are right least often first.
fn calibration(out: &mut String, evaluation: &Evaluation) {
    let bands = evaluation.all.calibration.bands.iter().map(|band| (band_name(band), *band));
    claims(out, "claimed with confidence", bands);
    let sure = |(name, score): (&String, &Score)| Some((name.clone(), *score.calibration.sure()?));
    let mut families: Vec<(String, Band)> = evaluation.families.iter().filter_map(sure).collect();
    families.retain(|(_, band)| band.claimed_ms > 0);
    families.sort_by(|(_, a), (_, b)| a.right_share.unwrap_or(0.0).total_cmp(&b.right_share.unwrap_or(0.0)));
    claims(out, "0.90 and above, by family", families.into_iter());
}

fn band_name(band: &Band) -> String {
    if band.to >= 1.0 { format!("{:.2} and above", band.from) } else { format!("{:.2} to {:.2}", band.from, band.to) }
}

fn claims(out: &mut String, title: &str, rows: impl Iterator<Item = (String, Band)>) {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |s| format!("{:.1}%", 100.0 * s));
    let _ = writeln!(out, "\n{title:<28} {:>13} {:>7} {:>13}", "claimed GPU-h", "right", "of all right");
    for (name, band) in rows {
        let (right, of_right) = (percent(band.right_share), percent(band.share_of_right));
        let _ = writeln!(out, "{name:<28} {:>13.2} {right:>7} {of_right:>13}", band.claimed_ms as f64 / HOUR_MS);
    }
}

/// Columns of [`dump`].
const DUMPED: [&str; 10] =
    ["entity", "start", "end", "class", "weight", "trace", "charged_to", "confidence", "cause", "which"];

/// Every verdict as CSV: `weight` is the share of the GPU that had the class from `start` to `end`, so that the weights
/// of an entity at any time sum to 1.
pub fn dump(cells: &[Cell]) -> Result<String, csv::Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(DUMPED)?;
    for cell in cells {
        let weight = cell.ms as f64 / (cell.span.end - cell.span.start) as f64;
        let (start, end) = (time(cell.span.start), time(cell.span.end));
        let [charged_to, which] = [&cell.charged_to, &cell.which].map(|text| text.as_deref().unwrap_or_default());
        let texts = [&cell.entity, &cell.trace, charged_to, which].map(escape::cell);
        let [entity, trace, charged_to, which] = texts.each_ref().map(|text| &**text);
        let (weight, confidence) = (weight.to_string(), format!("{:.4}", cell.confidence));
        let cause = cell.cause.unwrap_or_default();
        let record = [entity, &start, &end, cell.class, &weight, trace, charged_to, &confidence, cause, which];
        out.write_record(record)?;
    }
    let bytes = out.into_inner().map_err(|e| csv::Error::from(e.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn time(ms: TimeMs) -> String {
    Timestamp::from_millisecond(ms).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_on_a_port_is_dumped_with_its_cause() {
        let cell = Cell {
            trace: "t".into(),
            entity: "n1/gpu0".into(),
            span: 0..60_000,
            class: "network_slow",
            confidence: 0.75,
            charged_to: Some("n2/mlx5_1/1".into()),
            cause: Some("errors"),
            which: Some("mlx5_1/1".into()),
            ms: 30_000,
        };
        let bare = Cell { class: "productive", charged_to: None, cause: None, which: None, ..cell.clone() };
        let times = "n1/gpu0,1970-01-01T00:00:00Z,1970-01-01T00:01:00Z";
        let expected = format!(
            "entity,start,end,class,weight,trace,charged_to,confidence,cause,which\n\
             {times},network_slow,0.5,t,n2/mlx5_1/1,0.7500,errors,mlx5_1/1\n\
             {times},productive,0.5,t,,0.7500,,\n"
        );
        assert_eq!(dump(&[cell, bare]).unwrap(), expected);
    }

    #[test]
    fn causes_that_no_truth_names_are_not_judged() {
        let judged = Named {
            told_ms: 60_000,
            culprit_right_ms: 30_500,
            cause_told_ms: Some(60_000),
            cause_right_ms: Some(60_000),
        };
        let unjudged = Named { cause_told_ms: None, cause_right_ms: None, ..judged };
        let mut out = String::new();
        named(&mut out, &[("network_slow", judged), ("straggler", unjudged)].into());
        let expected = "named                 told GPU-s  culprit right    cause right\n\
                        network_slow                60.0           30.5           60.0\n\
                        straggler                   60.0           30.5              -\n";
        assert_eq!(out, expected);
        let mut none = String::new();
        named(&mut none, &BTreeMap::new());
        assert!(none.is_empty());
    }
}
