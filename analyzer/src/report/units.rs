//! Measured values with units that people read: prefixes, percent, hours; JSON, CSV and metrics keep base units.

use super::text::{UNKNOWN, number as short};

/// SI prefixes, for rates and frequencies.
const SI: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
/// IEC prefixes, for amounts of memory.
const IEC: [(f64, &str); 5] =
    [(1_099_511_627_776.0, "Ti"), (1_073_741_824.0, "Gi"), (1_048_576.0, "Mi"), (1024.0, "Ki"), (1.0, "")];

/// The value of a signal with its unit.
#[must_use]
pub fn measure(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return UNKNOWN.into();
    }
    match unit {
        "ratio" => percent(value),
        "seconds per second" => format!("{} of the time", percent(value)),
        "bytes" => format!("{}B", prefixed(value, &IEC)),
        "bytes per second" => format!("{}B/s", prefixed(value, &SI)),
        "hertz" => format!("{}Hz", prefixed(value, &SI)),
        "watts" => format!("{}W", prefixed(value, &SI)),
        "seconds" => seconds(value),
        _ => format!("{} {unit}", short(value)),
    }
}

/// A value as [`measure`] shows it, or that it is not told.
#[must_use]
pub fn told(value: Option<f64>, unit: &str) -> String {
    value.map_or(UNKNOWN.into(), |value| measure(value, unit))
}

/// A number of things that may not be known: three significant digits and a prefix.
#[must_use]
pub fn count(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(UNKNOWN.into(), |value| prefixed(value, &SI).trim_end().to_owned())
}

/// From one value to another, with their unit once where both have the same; one alone when they read alike.
#[must_use]
pub fn range(low: f64, high: f64, unit: &str) -> String {
    let (low, high) = (measure(low, unit), measure(high, unit));
    let bare = |shown: &str| shown.split_once(' ').map(|(number, unit)| (number.to_owned(), unit.to_owned()));
    match (bare(&low), bare(&high)) {
        _ if low == high => low,
        (Some((number, one)), Some((_, other))) if one == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn percent(ratio: f64) -> String {
    format!("{} %", short(100.0 * ratio))
}

/// The value by the largest prefix that leaves at least 1, and the prefix.
fn prefixed(value: f64, prefixes: &[(f64, &str)]) -> String {
    let fits = |(size, _): &&(f64, &str)| value.abs() >= *size;
    let (size, prefix) = prefixes.iter().find(fits).copied().unwrap_or((1.0, ""));
    format!("{} {prefix}", short(value / size))
}

fn seconds(value: f64) -> String {
    let whole = value.round() as i64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) => format!("{} s", short(value)),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, rest) => format!("{minutes} min {rest} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::measure;

    proptest! {
        /// Of whatever size, in whatever unit: hours and minutes are two numbers.
        #[test]
        fn no_value_has_more_than_three_significant_digits(value in -1e15..1e15f64, scale in 0..30, unit in 0..8_usize) {
            let units = ["ratio", "bytes", "bytes per second", "hertz", "watts", "seconds per second", "cores", "joules"];
            let shown = measure(value / 10_f64.powi(scale), units[unit]);
            let number = shown.split(' ').next().unwrap_or_default();
            let digits: String = number.chars().filter(char::is_ascii_digit).collect();
            let significant = digits.trim_matches('0').len();
            prop_assert!(significant <= 3 && number.parse::<f64>().is_ok(), "{}", shown);
        }
    }

    #[test]
    fn values_are_read_with_prefix_percent_and_hours() {
        for (value, unit, shown) in [
            (0.030_57, "ratio", "3.06 %"),
            (1.0, "ratio", "100 %"),
            (0.912_2, "seconds per second", "91.2 % of the time"),
            (2.4e9, "bytes per second", "2.4 GB/s"),
            (0.0, "bytes per second", "0 B/s"),
            (42_949_672_960.0, "bytes", "40 GiB"),
            (1.98e9, "hertz", "1.98 GHz"),
            (311.97, "watts", "312 W"),
            (1234.5, "watts", "1.23 kW"),
            (12_345.0, "requests", "12300 requests"),
            (12.34, "seconds", "12.3 s"),
            (4320.0, "seconds", "1 h 12 min"),
            (90.0, "seconds", "1 min 30 s"),
            (16.0, "cores", "16 cores"),
            (f64::NAN, "ratio", "unknown"),
        ] {
            assert_eq!(measure(value, unit), shown, "{value} {unit}");
        }
    }
}
