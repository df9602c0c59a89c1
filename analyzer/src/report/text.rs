//! Numbers and names as people read them: zero is `0`, and what is not known is `unknown`.

use std::fmt::Write as _;

use super::Coverage;
use goodput_rules::classify::sampling::Bounds;
use goodput_verdict::CauseKind;

/// Shown for everything that is not known; never for zero.
pub const UNKNOWN: &str = "unknown";

/// How many GPUs of a finding are written out; JSON and CSV have all of them.
pub(super) const MAX_PLACES: usize = 8;

/// How many findings the table at the start has.
pub(super) const MAX_FIRST: usize = 10;

/// A finding with less than this share of capacity is not among the first: half a percent of a GPU's week is 50 minutes.
pub(super) const FIRST_SHARE: f64 = 0.005;

/// How findings are ranked.
pub(super) const RANKING: &str = "Findings are ranked by the whole loss: by money where all losses have a price, else by \
                                  GPU-hours. What is recoverable is an estimate, never more than the measured loss, and no \
                                  rank.";

/// What "caused here" is.
pub(super) const CAUSED: &str = "Caused here: what other GPUs lost while they waited for these. It is on their own rows, and \
                                 never to be added to what was lost here.";

/// What the rows of the table of teams are.
pub(super) const TEAMS: &str = "Time is a team's by the first pattern of the configuration that matches. Of time in unassigned, \
                                which someone held, no pattern matches; goodput-analyzer teams check lists what to map \
                                next. The rows sum to the capacity of the fleet.";

/// Of verdicts of other releases: how much, when as it is shown, and as a command takes it.
pub(crate) fn judged_otherwise(gpu_ms: i64, shown: [&str; 2], start: &str, end: &str) -> String {
    format!(
        "{} GPU-hours, between {} and {}, were judged by rules of other releases. As far as samples are kept, \
         goodput-analyzer classify --start {start} --end {end} judges them again while serve is stopped.",
        hours(gpu_ms),
        shown[0],
        shown[1],
    )
}

/// Text as code of Markdown, on one line.
#[must_use]
pub fn code(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.contains('`') { format!("``` {line} ```") } else { format!("`{line}`") }
}

/// How sure a verdict is, in a word.
#[must_use]
pub fn sure(confidence: f64) -> &'static str {
    match confidence {
        c if c >= 0.85 => "high",
        c if c >= 0.6 => "medium",
        _ => "low",
    }
}

/// What to do for money.
pub(super) const NO_PRICES: &str = "No money: no price in the configuration applies. Add entries of model, currency, \
                                    per_gpu_hour and valid_from under prices (docs/use/report.md).";

/// What energy rests on, or how to get it.
pub(super) fn energy_basis(coverage: &Coverage) -> String {
    let Coverage { energy_counted: counted, energy_by_power: by_power, .. } = coverage;
    if counted.gpu_ms + by_power.gpu_ms == 0 {
        return "No energy: neither the boards' energy counter nor their power was scraped.".into();
    }
    let parts = format!(
        "{} of capacity by the boards' counter, {} by power at each scrape",
        counted.percent(),
        by_power.percent()
    );
    format!("Energy is that of the GPU boards, without hosts and cooling: {parts}")
}

/// The first names of a list.
pub(super) fn some(names: &[String]) -> String {
    let shown = names.iter().take(MAX_PLACES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MAX_PLACES);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// An owner, model or node.
#[must_use]
pub fn name(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or(UNKNOWN)
}

/// GPU-hours: only zero is `0`.
#[must_use]
pub fn hours(gpu_ms: i64) -> String {
    quantity(gpu_ms as f64 / super::MS_PER_HOUR)
}

/// Versions of rules.
#[must_use]
pub fn versions(versions: &[Option<u32>]) -> String {
    let shown = |version: &Option<u32>| version.map_or_else(|| UNKNOWN.to_owned(), |version| version.to_string());
    versions.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The ends of an interval in GPU-hours; one number where they read alike.
#[must_use]
pub fn between(bounds: Option<Bounds>) -> String {
    let Some(Bounds { low_ms, high_ms }) = bounds else { return UNKNOWN.into() };
    let (low, high) = (hours(low_ms), hours(high_ms));
    if low == high { low } else { format!("{low} to {high}") }
}

/// The ends of an interval in GPU-hours, where they do not read alike.
#[must_use]
pub fn spread(bounds: Option<Bounds>) -> Option<String> {
    bounds.filter(|Bounds { low_ms, high_ms }| hours(*low_ms) != hours(*high_ms)).map(|bounds| between(Some(bounds)))
}

/// An amount of anything to be read: only zero is `0`.
#[must_use]
pub fn quantity(amount: f64) -> String {
    match amount {
        0.0 => "0".into(),
        a if a.abs() < 0.005 => "<0.01".into(),
        a if a.abs() < 10.0 => format!("{a:.2}"),
        a if a.abs() < 999.95 => format!("{a:.1}"),
        a => thousands(a),
    }
}

/// Money to be read: two decimals below a hundred, none above.
#[must_use]
pub fn money(amount: f64) -> String {
    match amount {
        0.0 => "0".into(),
        a if a.abs() < 0.005 => "<0.01".into(),
        a if a.abs() < 99.995 => format!("{a:.2}"),
        a => thousands(a),
    }
}

/// From one amount to another; one alone when they read alike.
pub(super) fn range(low: String, high: String) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

/// The difference of two amounts to be read, with its sign; nothing where one of them is not known.
#[must_use]
pub fn change(now: Option<f64>, before: Option<f64>, read: fn(f64) -> String) -> String {
    let Some(change) = now.zip(before).map(|(now, before)| now - before) else { return UNKNOWN.into() };
    match read(change.abs()) {
        same if same == "0" => "±0".into(),
        shown if change < 0.0 => format!("−{shown}"),
        shown => format!("+{shown}"),
    }
}

/// A ratio as percent to be read; only zero is `0 %`, only the whole is `100 %`.
#[must_use]
pub fn percent(ratio: Option<f64>) -> String {
    match ratio {
        None => UNKNOWN.into(),
        Some(0.0) => "0 %".into(),
        Some(1.0) => "100 %".into(),
        Some(r) if r > 0.0 && r < 0.0005 => "<0.1 %".into(),
        Some(r) if (0.9995..1.0).contains(&r) => ">99.9 %".into(),
        Some(r) => format!("{:.1} %", r * 100.0),
    }
}

/// A difference of two ratios in percentage points to be read.
#[must_use]
pub fn points(change: Option<f64>) -> String {
    change.map_or(UNKNOWN.into(), |c| format!("{:+.1} points", c * 100.0))
}

/// A measured number to be read: three significant digits, no trailing zeros.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let decimals = 2 - value.abs().log10().floor() as i32;
    let step = 10_f64.powi(-decimals.min(0));
    let (rounded, decimals) = ((value / step).round() * step, decimals.clamp(0, 9) as usize);
    trimmed(if step > 1.0 { format!("{rounded:.0}") } else { format!("{value:.decimals$}") })
}

/// A measured number that may not be known, to be read.
#[must_use]
pub fn measured(value: Option<f64>) -> String {
    value.map_or(UNKNOWN.into(), number)
}

/// Enough of a UUID to tell a node's GPUs apart.
pub(crate) fn short(uuid: &str) -> &str {
    uuid.char_indices().nth(12).map_or(uuid, |(end, _)| &uuid[..end])
}

/// A GPU's name where its UUID is not beside it.
#[must_use]
pub fn gpu(node: &str, uuid: &str) -> String {
    format!("{} on {node}", short(uuid))
}

/// A node's port; without one the node.
#[must_use]
pub fn port(node: &str, which: Option<&str>) -> String {
    which.map_or_else(|| format!("node {node}"), |which| format!("port {which} of {node}"))
}

/// A cause and what it means.
#[must_use]
pub fn cause(kind: CauseKind) -> String {
    format!("{}: {}", kind.name(), kind.meaning())
}

/// A coordinate: a hundredth of a unit is less than a pixel.
pub(crate) fn fixed(value: f64) -> String {
    trimmed(format!("{value:.2}"))
}

/// Without zeros that say nothing.
pub(super) fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && digit.is_ascii_digit() && (digits.len() - i).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        let _ = write!(text, "{digit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_zero_and_unknown_is_unknown() {
        let shown: Vec<String> = [0, 1, 36_000, 3_600_000, 360_000_000, 4_445_000_000_000].map(hours).into();
        assert_eq!(shown, ["0", "<0.01", "0.01", "1.00", "100.0", "1,234,722"]);
        let shown = [None, Some(0.0), Some(0.0001), Some(0.1234), Some(0.9999), Some(1.0)].map(percent);
        assert_eq!(shown, ["unknown", "0 %", "<0.1 %", "12.3 %", ">99.9 %", "100 %"]);
        let shown = [0.0, 0.25, 12.0, 123_456.7, 0.000_123_4, f64::NAN].map(number);
        assert_eq!(shown, ["0", "0.25", "12", "123000", "0.000123", "unknown"]);
        assert_eq!(points(Some(-0.034)), "-3.4 points");
        assert_eq!(points(None), UNKNOWN);
    }
}
