//! The section about inference servers.

use std::fmt;
use std::time::Duration;

use goodput_settings::Kind;
use goodput_settings::kind::Period;
use serde_saphyr::Spanned;

use super::file::{non_empty, text};
use super::values::duration;
use super::yaml::{Fields, Mistake, Value, line, list, scalar};
use crate::report::serving::{ServingTerms, Slo};
use goodput_verdict::Latency;

/// The key of each limit.
const LIMITS: [(&str, Latency); 3] =
    [("ttft", Latency::TimeToFirstToken), ("tpot", Latency::TimePerOutputToken), ("e2e", Latency::EndToEnd)];

/// More replicas of one model than this are a slip of the keyboard.
const MOST_REPLICAS: u32 = 100_000;

/// Reads the section.
pub(super) fn serving(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> ServingTerms {
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let slo = fields.section("slo", mistakes, slo);
    let min_replicas = fields.section("min_replicas", mistakes, min_replicas);
    fields.finish(mistakes);
    ServingTerms { slo, min_replicas }
}

/// Numbers by pattern of the model's name.
fn min_replicas(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<(String, u32)> {
    let Value::Map(entries) = &value.value else {
        let text = format!("{name}: expected a mapping such as {{'*': 1}}, found {}", value.value);
        mistakes.push(Mistake { line: line(value), text });
        return Vec::new();
    };
    let replicas = |value: &Value| {
        let number =
            text(value).and_then(|text| text.parse().ok()).filter(|number| (0..=MOST_REPLICAS).contains(number));
        number.ok_or_else(|| format!("a number of replicas, 0 to {MOST_REPLICAS}"))
    };
    let mut entry = |(model, value): &(Spanned<String>, Spanned<Value>)| {
        let number = scalar(&format!("{name}.{:?}", model.value), value, mistakes, replicas)?;
        Some((model.value.clone(), number))
    };
    let least: Vec<_> = entries.iter().filter_map(&mut entry).collect();
    never_reached(name, value, least.iter().map(|(model, _)| model), mistakes);
    least
}

/// The first entry that fits is taken: one after `*` never is.
fn never_reached<'m>(
    name: &str,
    value: &Spanned<Value>,
    mut models: impl Iterator<Item = &'m String>,
    mistakes: &mut Vec<Mistake>,
) {
    if models.any(|model| model == "*")
        && let Some(model) = models.next()
    {
        let text = format!("{name}: {model:?} is never reached, for \"*\" before it fits every model: put \"*\" last");
        mistakes.push(Mistake { line: line(value), text });
    }
}

fn slo(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<Slo> {
    let mut all: Vec<Slo> = Vec::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}].");
        let Some(slo) = entry(path.clone(), item, mistakes) else { continue };
        if all.iter().any(|other| other.model == slo.model) {
            let text = format!("{path}model: {:?} is listed twice; the first entry that fits is taken", slo.model);
            mistakes.push(Mistake { line: line(item), text });
        }
        all.push(slo);
    }
    never_reached(name, value, all.iter().map(|slo| &slo.model), mistakes);
    all
}

fn entry(path: String, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Slo> {
    let before = mistakes.len();
    let mut fields = Fields::of(item, path.clone(), mistakes);
    let model = fields.required("model", mistakes, non_empty);
    let mut limit =
        |(key, latency)| Some((latency, fields.optional(key, None, mistakes, |value| seconds(value).map(Some))?));
    let limits = LIMITS.into_iter().filter_map(&mut limit).collect();
    let at = fields.required("at", mistakes, share);
    fields.finish(mistakes);
    let slo = Slo { model: model?, limits, at: at? };
    if slo.limits.is_empty() && mistakes.len() == before {
        let text = format!("{path}ttft: expected one of ttft, tpot and e2e at least, such as ttft: 2s");
        mistakes.push(Mistake { line: line(item), text });
    }
    Some(slo)
}

fn seconds(value: &Value) -> Result<f64, String> {
    let limit = duration(text(value).unwrap_or_default()).map_err(str::to_owned)?;
    Ok(limit.as_secs_f64())
}

fn share(value: &Value) -> Result<f64, String> {
    let share = text(value).and_then(|text| text.parse().ok()).filter(|share: &f64| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "a share of requests above 0 and below 1, such as 0.99".into())
}

/// In the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, terms: &ServingTerms) -> fmt::Result {
    writeln!(f, "serving:\n  slo:{}", if terms.slo.is_empty() { " []" } else { "" })?;
    for Slo { model, limits, at } in &terms.slo {
        write!(f, "    - {{model: {model:?}, ")?;
        for (key, latency) in LIMITS {
            let limit = limits.get(&latency).and_then(|limit| Period::write(&Duration::from_secs_f64(*limit)));
            limit.map_or(Ok(()), |limit| write!(f, "{key}: {limit}, "))?;
        }
        writeln!(f, "at: {at}}}")?;
    }
    let least: Vec<_> = terms.min_replicas.iter().map(|(model, least)| format!("{model:?}: {least}")).collect();
    writeln!(f, "  min_replicas: {{{}}}", least.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn limits_are_read_and_printed() {
        let config = Config::parse(
            "serving:\n  slo:\n  - {model: 'meta-llama/*', ttft: 2s, tpot: 200ms, at: 0.99}\n  - {model: '*', e2e: 30s, at: 0.95}\n\
             \x20 min_replicas: {small: 0, '*': 2}\n",
        )
        .unwrap();
        let slo = |model: &str, limits: &[(Latency, f64)], at| {
            let limits = limits.iter().copied().collect();
            Slo { model: model.into(), limits, at }
        };
        let first = [(Latency::TimeToFirstToken, 2.0), (Latency::TimePerOutputToken, 0.2)];
        let slo = vec![slo("meta-llama/*", &first, 0.99), slo("*", &[(Latency::EndToEnd, 30.0)], 0.95)];
        let expected = ServingTerms { slo, min_replicas: vec![("small".into(), 0), ("*".into(), 2)] };
        assert_eq!(config.serving, expected);
        assert_eq!(Config::parse(&config.to_string()).unwrap().serving, expected);
        assert_eq!(Config::parse(&Config::default().to_string()).unwrap().serving, ServingTerms::default());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let file = "serving:\n  slo:\n\
                    \x20 - {model: a, ttft: soon, at: 0.9}\n\
                    \x20 - {model: b, ttft: 2s, at: 99}\n\
                    \x20 - {model: c, at: 0.9}\n\
                    \x20 - {model: d, ttft: 2s, at: 0.9}\n\
                    \x20 - {model: d, e2e: 2s, at: 0.9}\n\
                    \x20 - {ttft: 2s, at: 0.9, itl: 1s}\n\
                    \x20 groups: []\n\
                    \x20 min_replicas: {a: many, '*': 1, b: 2}\n";
        let mistakes = Config::parse(file).unwrap_err();
        let told: Vec<_> = mistakes.iter().map(|one| format!("{}: {}", one.line, one.text)).collect();
        assert_eq!(
            told,
            [
                "3: serving.slo[0].ttft: expected a positive duration such as 15s, 500ms or 1m30s, found \"soon\"",
                "4: serving.slo[1].at: expected a share of requests above 0 and below 1, such as 0.99, found \"99\"",
                "5: serving.slo[2].ttft: expected one of ttft, tpot and e2e at least, such as ttft: 2s",
                "7: serving.slo[4].model: \"d\" is listed twice; the first entry that fits is taken",
                "8: serving.slo[5].itl: unknown key, expected one of model, ttft, tpot, e2e, at",
                "8: serving.slo[5].model: missing",
                "9: serving.groups: unknown key, expected one of slo, min_replicas",
                "10: serving.min_replicas.\"a\": expected a number of replicas, 0 to 100000, found \"many\"",
                "10: serving.min_replicas: \"b\" is never reached, for \"*\" before it fits every model: put \"*\" last",
            ]
        );
    }
}
