//! The list `prices` of the configuration file.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_saphyr::Spanned;

use super::file::{non_empty, text};
use super::yaml::{Fields, Mistake, Value, line, list};
use crate::report::{Electricity, MICROS, Price};
use goodput_exposition::sample::TimeMs;

/// More per hour or kilowatt-hour is a slip of the pen in any currency.
const MAX_PRICE: f64 = 1e6;
/// A site that uses ten times what its machines use is another slip.
const MAX_PUE: f64 = 10.0;

/// Reads the list; dates are days of the zone.
pub(super) fn prices(name: &str, value: &Spanned<Value>, zone: &TimeZone, mistakes: &mut Vec<Mistake>) -> Vec<Price> {
    let mut prices: Vec<Price> = Vec::new();
    for (n, item) in list(name, value, mistakes).iter().enumerate() {
        let path = format!("{name}[{n}].");
        let Some(price) = price(path.clone(), item, zone, mistakes) else { continue };
        let same = |p: &Price| {
            (&p.model, &p.node, &p.cluster, p.valid_from)
                == (&price.model, &price.node, &price.cluster, price.valid_from)
        };
        if prices.iter().any(same) {
            let text = format!("{path}valid_from: another entry has this model, node, cluster and date");
            mistakes.push(Mistake { line: line(item), text });
        }
        prices.push(price);
    }
    prices
}

fn price(path: String, item: &Spanned<Value>, zone: &TimeZone, mistakes: &mut Vec<Mistake>) -> Option<Price> {
    let mut fields = Fields::of(item, path.clone(), mistakes);
    let model = fields.required("model", mistakes, non_empty);
    let node = fields.optional("node", None, mistakes, |value| non_empty(value).map(Some));
    let cluster = fields.optional("cluster", None, mistakes, |value| non_empty(value).map(Some));
    let currency = fields.required("currency", mistakes, currency);
    let per_gpu_hour = fields.required("per_gpu_hour", mistakes, micros);
    let valid_from = fields.required("valid_from", mistakes, date);
    let per_kwh = fields.optional("per_kwh", None, mistakes, |value| micros(value).map(Some));
    let pue = fields.optional("pue", None, mistakes, |value| pue(value).map(Some));
    fields.finish(mistakes);
    if pue.is_some() && per_kwh.is_none() {
        let text = format!("{path}pue: expected only together with per_kwh, whose energy it multiplies");
        mistakes.push(Mistake { line: line(item), text });
    }
    let valid_from = valid_from?;
    Some(Price {
        model: model?,
        node,
        cluster,
        currency: currency?,
        micros_per_gpu_hour: per_gpu_hour?,
        electricity: per_kwh.map(|micros_per_kwh| Electricity { micros_per_kwh, pue: pue.unwrap_or(1.0) }),
        valid_from,
        valid_from_ms: first_instant(valid_from, zone)?,
    })
}

/// Unix milliseconds; none where the day is none that clocks can show.
pub(super) fn first_instant(day: Date, zone: &TimeZone) -> Option<TimeMs> {
    Some(zone.to_ambiguous_zoned(day.at(0, 0, 0, 0)).compatible().ok()?.timestamp().as_millisecond())
}

fn currency(value: &Value) -> Result<String, String> {
    let code = text(value).filter(|t| t.len() == 3 && t.bytes().all(|b| b.is_ascii_uppercase()));
    code.map(str::to_owned).ok_or_else(|| "the three letters of a currency such as EUR".into())
}

fn micros(value: &Value) -> Result<i64, String> {
    let number = text(value).and_then(|t| t.parse().ok()).filter(|n| (0.0..=MAX_PRICE).contains(n));
    number.map(|n: f64| (n * MICROS).round() as i64).ok_or_else(|| format!("a price, 0 to {MAX_PRICE}"))
}

pub(super) fn date(value: &Value) -> Result<Date, String> {
    text(value).and_then(|t| t.parse().ok()).ok_or_else(|| "a date such as 2026-01-01".into())
}

fn pue(value: &Value) -> Result<f64, String> {
    let number = text(value).and_then(|t| t.parse().ok()).filter(|n| (1.0..=MAX_PUE).contains(n));
    number.ok_or_else(|| format!("1 to {MAX_PUE}, the site's energy over that of its machines"))
}

/// Writes the list in the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, prices: &[Price]) -> fmt::Result {
    writeln!(f, "prices:{}", if prices.is_empty() { " []" } else { "" })?;
    for price in prices {
        write!(f, "  - {{model: {:?}, ", price.model)?;
        for (key, pattern) in [("node", &price.node), ("cluster", &price.cluster)] {
            if let Some(pattern) = pattern {
                write!(f, "{key}: {pattern:?}, ")?;
            }
        }
        let amount = |micros: i64| micros as f64 / MICROS;
        write!(f, "currency: {}, per_gpu_hour: {}, ", price.currency, amount(price.micros_per_gpu_hour))?;
        if let Some(Electricity { micros_per_kwh, pue }) = price.electricity {
            write!(f, "per_kwh: {}, pue: {pue}, ", amount(micros_per_kwh))?;
        }
        writeln!(f, "valid_from: {}}}", price.valid_from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    const ENTRY: &str = "model: 'NVIDIA H100*', currency: EUR, per_gpu_hour: 2.45, valid_from: 2026-07-01";

    #[test]
    fn prices_are_read_and_printed_as_a_config() {
        let file = format!(
            "zone: Europe/Berlin\nprices:\n- {{{ENTRY}, node: 'gpu-0*', cluster: eu, per_kwh: 0.24, pue: 1.3}}\n- {{{ENTRY}}}\n"
        );
        let config = Config::parse(&file).unwrap();
        let first = &config.prices[0];
        assert_eq!((first.micros_per_gpu_hour, first.valid_from_ms), (2_450_000, 1_782_856_800_000));
        assert_eq!(first.electricity.map(|e| (e.micros_per_kwh, e.pue)), Some((240_000, 1.3)));
        let printed = config.to_string();
        let line = "  - {model: \"NVIDIA H100*\", node: \"gpu-0*\", cluster: \"eu\", currency: EUR, per_gpu_hour: 2.45, per_kwh: 0.24, \
                    pue: 1.3, valid_from: 2026-07-01}\n";
        assert!(printed.contains(line), "{printed}");
        assert_eq!(Config::parse(&printed).unwrap().prices, config.prices);
        assert!(Config::default().to_string().contains("\nprices: []\n"));
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        let entry = |changed: &str, to: &str| format!("prices:\n- {{{}}}\n", ENTRY.replace(changed, to));
        for (file, error) in [
            ("prices: 2.5\n".into(), "1: prices: expected a list, found \"2.5\""),
            (entry("model: 'NVIDIA H100*', ", ""), "2: prices[0].model: missing"),
            (entry("2.45", "cheap"), "2: prices[0].per_gpu_hour: expected a price, 0 to 1000000, found \"cheap\""),
            (entry("2.45", "-1"), "2: prices[0].per_gpu_hour: expected a price, 0 to 1000000, found \"-1\""),
            (
                entry("EUR", "euro"),
                "2: prices[0].currency: expected the three letters of a currency such as EUR, found \"euro\"",
            ),
            (
                entry("2026-07-01", "July"),
                "2: prices[0].valid_from: expected a date such as 2026-01-01, found \"July\"",
            ),
            (
                entry("2.45", "2.45, per_kwh: 0.2, pue: 0.9"),
                "2: prices[0].pue: expected 1 to 10, the site's energy over that of its machines, found \"0.9\"",
            ),
            (
                entry("2.45", "2.45, pue: 1.2"),
                "2: prices[0].pue: expected only together with per_kwh, whose energy it multiplies",
            ),
            (
                format!("prices:\n- {{{ENTRY}}}\n- {{{ENTRY}}}\n"),
                "3: prices[1].valid_from: another entry has this model, node, cluster and date",
            ),
        ] {
            let mistakes = Config::parse(&file).unwrap_err();
            let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
            assert_eq!(shown, [error], "{file}");
        }
    }
}
