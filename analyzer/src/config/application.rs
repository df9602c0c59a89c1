//! The section about what jobs count themselves.

use std::fmt;

use serde_saphyr::Spanned;

use super::file::{non_empty, text};
use super::yaml::{Fields, Mistake, Value, line, list};
use goodput_rules::application::{Combine, Counter};
use goodput_rules::{serving, signal};

/// Reads the section.
pub(super) fn application(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<Counter> {
    let mut counters: Vec<Counter> = Vec::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}].");
        let Some(counter) = counter(path.clone(), item, mistakes) else { continue };
        if counters.iter().any(|other| other.metric == counter.metric) {
            let text = format!("{path}metric: {:?} is listed twice", counter.metric);
            mistakes.push(Mistake { line: line(item), text });
        }
        counters.push(counter);
    }
    counters
}

fn counter(path: String, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Counter> {
    let mut fields = Fields::of(item, path, mistakes);
    let metric = fields.required("metric", mistakes, metric);
    let unit = fields.required("unit", mistakes, non_empty);
    let owner_label = fields.required("owner_label", mistakes, non_empty);
    let ideal = fields.optional("ideal_per_second_per_gpu", None, mistakes, |value| rate(value).map(Some));
    let combine = fields.optional("combine", Combine::Sum, mistakes, combine);
    fields.finish(mistakes);
    Some(Counter { metric: metric?, unit: unit?, owner_label: owner_label?, ideal, combine })
}

/// A metric that nothing else uses, for a signal has one meaning only; what inference servers count may be counted here too.
fn metric(value: &Value) -> Result<String, String> {
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':');
    let is_name = |text: &&str| text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit());
    let name = text(value)
        .filter(is_name)
        .filter(|name| !signal::is_known(name) || serving::counters().iter().any(|metric| metric == name));
    let expected = "the name of a counter such as train_samples_total, none that the analyzer uses itself";
    name.map(str::to_owned).ok_or_else(|| expected.into())
}

fn rate(value: &Value) -> Result<f64, String> {
    let number = text(value).and_then(|text| text.parse().ok()).filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    number.ok_or_else(|| "a number above 0".into())
}

fn combine(value: &Value) -> Result<Combine, String> {
    match text(value) {
        Some("sum") => Ok(Combine::Sum),
        Some("max") => Ok(Combine::Max),
        _ => Err("sum (each process counts its part) or max (each counts the whole)".into()),
    }
}

/// In the file's own form.
pub(super) fn write(counters: &[Counter], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "application:{}", if counters.is_empty() { " []" } else { "" })?;
    for Counter { metric, unit, owner_label, ideal, combine } in counters {
        writeln!(f, "  - metric: {metric:?}\n    unit: {unit:?}\n    owner_label: {owner_label:?}")?;
        if let Some(ideal) = ideal {
            writeln!(f, "    ideal_per_second_per_gpu: {ideal}")?;
        }
        let combine = match combine {
            Combine::Sum => "sum",
            Combine::Max => "max",
        };
        writeln!(f, "    combine: {combine}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn counters_are_read_and_printed() {
        let config = Config::parse(
            "application:\n- {metric: train_samples_total, unit: samples, owner_label: pod, ideal_per_second_per_gpu: 310}\n\
             - {metric: steps, unit: steps, owner_label: slurm_job_id, combine: max}\n\
             - {metric: 'vllm:generation_tokens_total', unit: tokens, owner_label: pod}\n",
        )
        .unwrap();
        let counter = |metric: &str, unit: &str, owner_label: &str, ideal, combine| Counter {
            metric: metric.into(),
            unit: unit.into(),
            owner_label: owner_label.into(),
            ideal,
            combine,
        };
        let expected = [
            counter("train_samples_total", "samples", "pod", Some(310.0), Combine::Sum),
            counter("steps", "steps", "slurm_job_id", None, Combine::Max),
            counter("vllm:generation_tokens_total", "tokens", "pod", None, Combine::Sum),
        ];
        assert_eq!(config.application, expected);
        assert_eq!(Config::parse(&config.to_string()).unwrap().application, expected);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let file = "application:\n\
                    - {unit: samples, owner_label: pod}\n\
                    - {metric: DCGM_FI_DEV_GPU_UTIL, unit: s, owner_label: pod}\n\
                    - {metric: a-b, unit: s, owner_label: pod, combine: mean}\n\
                    - {metric: a, unit: s, owner_label: pod, ideal_per_second_per_gpu: 0}\n\
                    - {metric: a, unit: s, owner_label: pod}\n";
        let mistakes = Config::parse(file).unwrap_err();
        let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
        let name = "expected the name of a counter such as train_samples_total, none that the analyzer uses itself";
        assert_eq!(
            shown,
            [
                "2: application[0].metric: missing".to_owned(),
                format!("3: application[1].metric: {name}, found \"DCGM_FI_DEV_GPU_UTIL\""),
                "4: application[2].combine: expected sum (each process counts its part) or max (each counts the whole), \
                 found \"mean\""
                    .into(),
                format!("4: application[2].metric: {name}, found \"a-b\""),
                "5: application[3].ideal_per_second_per_gpu: expected a number above 0, found \"0\"".into(),
                "6: application[4].metric: \"a\" is listed twice".into(),
            ]
        );
    }
}
