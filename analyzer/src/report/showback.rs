//! CSV (RFC 4180) for who pays: what each account, owner and run held, by class. Its columns add up.

use std::collections::BTreeMap;

use super::csv::quoted;
use super::price::{MICROS, MJ_PER_KWH, Price};
use super::summed::{Item, Summed};
use super::{MS_PER_HOUR, Period};
use goodput_verdict::{Class, Energy, Interval};

const COLUMNS: &str =
    "period,start,end,cluster,account,owner,run,group,class,gpu_hours,kwh,kwh_gpu_hours,currency,cost";

/// Whose time it was, its class, and the currency of its price. Each GPU-millisecond is in one row.
type Key<'a> = ([&'a str; 4], Class, &'a str);

#[derive(Default)]
struct Row {
    ms: i64,
    energy: Option<Energy>,
    micros: i64,
}

/// Header and one line per account, owner, run, class and currency, as the report sums them. What is not known is empty.
/// `kwh` is that of `kwh_gpu_hours` of the GPU-hours.
#[must_use]
pub fn render(period: &Period, intervals: &[Interval], prices: &[Price]) -> String {
    let items = Summed::of(intervals, prices);
    let mut rows: BTreeMap<Key<'_>, Row> = BTreeMap::new();
    for item in &items {
        let row = rows.entry(key(item)).or_default();
        row.ms = row.ms.saturating_add(item.ms);
        row.energy = Energy::sum(row.energy, item.energy);
        row.micros = row.micros.saturating_add(item.micros);
    }
    let lines = rows.iter().map(|(key, row)| line(period, key, row));
    std::iter::once(COLUMNS.to_owned()).chain(lines).map(|line| line + "\r\n").collect()
}

fn key<'a>(item: &'a Item<'_>) -> Key<'a> {
    let whose = [&item.cluster, &item.account, &item.owner, &item.run].map(|name| name.as_deref().unwrap_or_default());
    (whose, item.class, item.price.map_or("", |price| &price.currency))
}

fn line(period: &Period, ([cluster, account, owner, run], class, currency): &Key<'_>, row: &Row) -> String {
    let hours = |ms: i64| (ms as f64 / MS_PER_HOUR).to_string();
    let drawn = row.energy.map(|energy| ((energy.mj as f64 / MJ_PER_KWH).to_string(), hours(energy.ms)));
    let (kwh, known) = drawn.unwrap_or_default();
    let cost = if currency.is_empty() { String::new() } else { format!("{:.6}", row.micros as f64 / MICROS) };
    let (hours, class, group) = (hours(row.ms), class.name(), class.group().name());
    let period = [period.label.as_str(), &period.start, &period.end];
    let fields = period.into_iter().chain([*cluster, account, owner, run, group, class]);
    let fields = fields.chain([hours.as_str(), &kwh, &known, currency, &cost]);
    fields.map(|field| quoted(field.to_owned())).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::super::golden_tests::{intervals, prices, week};
    use super::*;

    /// The column's sum over the lines with this.
    fn sum(table: &str, column: &str, part: &str) -> f64 {
        let place = COLUMNS.split(',').position(|name| name == column).unwrap();
        let lines = table.lines().skip(1).filter(|line| line.contains(part));
        lines.map(|line| line.split(',').nth(place).unwrap().parse().unwrap_or(0.0)).sum()
    }

    #[test]
    fn its_columns_add_up_to_the_report() {
        let (intervals, prices) = (intervals("week.json"), prices());
        let table = render(&week(), &intervals, &prices);
        let capacity = build(&intervals, &[], week(), &prices).fleet.capacity;
        assert!((sum(&table, "gpu_hours", "") - capacity.gpu_hours).abs() < 1e-6, "{table}");
        assert!((sum(&table, "kwh", "") - capacity.energy.unwrap().kwh).abs() < 1e-6, "{table}");
        assert_eq!(capacity.cost.len(), 2);
        for cost in capacity.cost {
            let sum = sum(&table, "cost", &format!(",{},", cost.currency));
            assert!((sum - cost.amount).abs() < 1e-6, "{sum} {cost:?}");
        }
    }

    #[test]
    fn without_prices_there_is_no_cost_and_not_a_cost_of_nothing() {
        let table = render(&week(), &intervals("week.json"), &[]);
        assert!(table.lines().skip(1).all(|line| line.ends_with(",,")), "{table}");
    }
}
