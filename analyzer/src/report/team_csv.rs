//! CSV (RFC 4180) for who pays: what each team had, by class. Its columns add up to the report's capacity.

use super::csv::quoted;
use super::price::{MICROS, MJ_PER_KWH};
use super::teams::{TeamPart, TeamRow};
use super::{MS_PER_HOUR, Report};

const COLUMNS: &str = "week,team,cost_centre,class,gpu_hours,kwh,currency,cost";

/// Header and one line per team, class and currency. What is not known is empty.
#[must_use]
pub fn render(report: &Report) -> String {
    let rows = report.teams.rows.iter().flat_map(|row| row.parts.iter().map(move |part| (row, part)));
    let lines = rows.map(|(row, part)| line(&report.period.label, row, part));
    std::iter::once(COLUMNS.to_owned()).chain(lines).map(|line| line + "\r\n").collect()
}

fn line(week: &str, row: &TeamRow, part: &TeamPart) -> String {
    let kwh = part.energy.map(|energy| (energy.mj as f64 / MJ_PER_KWH).to_string()).unwrap_or_default();
    let cost = part.currency.as_ref().map(|_| format!("{:.6}", part.micros as f64 / MICROS)).unwrap_or_default();
    let (hours, centre) = ((part.ms as f64 / MS_PER_HOUR).to_string(), row.cost_centre.as_deref().unwrap_or_default());
    let currency = part.currency.as_deref().unwrap_or_default();
    let fields = [week, &row.name, centre, part.class.name(), &hours, &kwh, currency, &cost];
    fields.map(|field| quoted(field.to_owned())).join(",")
}
