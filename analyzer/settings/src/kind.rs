//! Kinds of settings: what a value may be, how it is read and written.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

const DAY_S: u64 = 24 * 3600;

/// Units that durations are written in, largest first, in nanoseconds.
const UNITS: [(&str, u128); 6] =
    [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];

/// What a setting may be.
pub trait Kind {
    /// The value in use.
    type Value;
    /// What was expected, for errors and the documentation.
    const EXPECTED: &'static str;
    /// What follows the key in the name of the bound on `/metrics`.
    const SUFFIX: &'static str = "";

    /// The value of a text.
    fn read(text: &str) -> Option<Self::Value>;

    /// The text of a value, as the file has it; `None` where it is left out.
    fn write(value: &Self::Value) -> Option<String>;

    /// The value with its unit, for people.
    fn show(value: &Self::Value) -> String {
        Self::write(value).unwrap_or_default()
    }

    /// The number of a bound; `None` where there is no bound.
    fn number(_value: &Self::Value) -> Option<u64> {
        None
    }
}

/// A number of things.
pub struct Count<N = usize>(PhantomData<N>);

/// A number of bytes.
pub struct Bytes<N = usize>(PhantomData<N>);

/// Bytes, or `unlimited`.
pub struct Size;

/// True or false.
pub struct Switch;

/// A duration.
pub struct Period;

/// How long something is kept, or `forever`. A day is the least: verdicts of hours that are not final rest on samples.
pub struct Age;

/// Where a file or a folder is.
pub struct Path;

/// A setting that may be left out, and has no default then.
pub struct Unset<K>(PhantomData<K>);

impl<N: Copy + Default + PartialOrd + FromStr + ToString + TryInto<u64>> Kind for Count<N> {
    type Value = N;
    const EXPECTED: &'static str = "a whole number above 0";

    fn read(text: &str) -> Option<N> {
        text.parse().ok().filter(|number| *number > N::default())
    }

    fn write(value: &N) -> Option<String> {
        Some(value.to_string())
    }

    fn number(value: &N) -> Option<u64> {
        (*value).try_into().ok()
    }
}

impl<N> Kind for Bytes<N>
where
    Count<N>: Kind<Value = N>,
{
    type Value = N;
    const EXPECTED: &'static str = Count::<N>::EXPECTED;

    fn read(text: &str) -> Option<N> {
        Count::<N>::read(text)
    }

    fn write(value: &N) -> Option<String> {
        Count::<N>::write(value)
    }

    fn show(value: &N) -> String {
        Self::number(value).map(bytes).unwrap_or_default()
    }

    fn number(value: &N) -> Option<u64> {
        Count::<N>::number(value)
    }
}

impl Kind for Size {
    type Value = Option<u64>;
    const EXPECTED: &'static str = "a whole number of bytes above 0, or unlimited";

    fn read(text: &str) -> Option<Option<u64>> {
        if text == "unlimited" { Some(None) } else { Count::read(text).map(Some) }
    }

    fn write(value: &Option<u64>) -> Option<String> {
        Some(value.map_or("unlimited".to_owned(), |number| number.to_string()))
    }

    fn number(value: &Option<u64>) -> Option<u64> {
        *value
    }
}

impl Kind for Switch {
    type Value = bool;
    const EXPECTED: &'static str = "true or false";

    fn read(text: &str) -> Option<bool> {
        text.parse().ok()
    }

    fn write(value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

impl Kind for Period {
    type Value = Duration;
    const EXPECTED: &'static str = "a positive duration such as 15s, 500ms or 1m30s";
    const SUFFIX: &'static str = "_seconds";

    fn read(text: &str) -> Option<Duration> {
        let parsed: SignedDuration = text.parse().ok()?;
        Duration::try_from(parsed).ok().filter(|duration| !duration.is_zero())
    }

    fn write(value: &Duration) -> Option<String> {
        let whole = UNITS.iter().find(|(_, unit)| value.as_nanos().is_multiple_of(*unit));
        whole.map(|(name, unit)| format!("{}{name}", value.as_nanos() / unit))
    }

    fn number(value: &Duration) -> Option<u64> {
        Some(value.as_secs())
    }
}

impl Kind for Age {
    type Value = Option<Duration>;
    const EXPECTED: &'static str = "1d or longer, such as 15d, 2w or 36h, or forever";
    const SUFFIX: &'static str = "_seconds";

    fn read(text: &str) -> Option<Option<Duration>> {
        if text == "forever" {
            return Some(None);
        }
        let age = days(text).or_else(|| Period::read(text));
        age.filter(|age| age.as_secs() >= DAY_S).map(Some)
    }

    fn write(value: &Option<Duration>) -> Option<String> {
        let Some(age) = value else { return Some("forever".to_owned()) };
        let whole = age.subsec_nanos() == 0 && age.as_secs().is_multiple_of(DAY_S);
        if whole { Some(format!("{}d", age.as_secs() / DAY_S)) } else { Period::write(age) }
    }

    fn number(value: &Option<Duration>) -> Option<u64> {
        value.map(|age| age.as_secs())
    }
}

impl Kind for Path {
    type Value = PathBuf;
    const EXPECTED: &'static str = "a path";

    fn read(text: &str) -> Option<PathBuf> {
        (!text.is_empty()).then(|| text.into())
    }

    fn write(value: &PathBuf) -> Option<String> {
        Some(format!("{:?}", value.display().to_string()))
    }
}

impl<K: Kind> Kind for Unset<K> {
    type Value = Option<K::Value>;
    const EXPECTED: &'static str = K::EXPECTED;
    const SUFFIX: &'static str = K::SUFFIX;

    fn read(text: &str) -> Option<Option<K::Value>> {
        K::read(text).map(Some)
    }

    fn write(value: &Option<K::Value>) -> Option<String> {
        value.as_ref().and_then(K::write)
    }

    fn show(value: &Option<K::Value>) -> String {
        value.as_ref().map(K::show).unwrap_or_default()
    }

    fn number(value: &Option<K::Value>) -> Option<u64> {
        value.as_ref().and_then(K::number)
    }
}

/// `30d` or `2w`.
fn days(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let days = match unit {
        "d" => 1,
        "w" => 7,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(days * DAY_S).map(Duration::from_secs)
}

/// Bytes in the largest unit that they are a multiple of.
fn bytes(number: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("MB", 1_000_000)];
    match units.iter().find(|(_, unit)| number.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{} {name}", number / unit),
        None => format!("{number} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(Period::read("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(Period::read("500ms"), Some(Duration::from_millis(500)));
        for bad in ["", "15", "0s", "-3s", "soon"] {
            assert_eq!(Period::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn durations_are_written_in_the_largest_unit_that_loses_nothing() {
        for (ms, text) in [(7_200_000, "2h"), (90_000, "90s"), (1500, "1500ms"), (60_000, "1m")] {
            let duration = Duration::from_millis(ms);
            assert_eq!((Period::write(&duration).as_deref(), Period::read(text)), (Some(text), Some(duration)));
        }
        let short = Duration::from_nanos(1001);
        assert_eq!(Period::read(&Period::write(&short).unwrap()), Some(short));
    }

    #[test]
    fn ages() {
        let days = |days: u64| Some(Some(Duration::from_secs(days * DAY_S)));
        assert_eq!([Age::read("15d"), Age::read("2w"), Age::read("24h")], [days(15), days(14), days(1)]);
        assert_eq!(Age::read("forever"), Some(None));
        for bad in ["", "d", "12h", "0d", "1é", "99999999999999999999w", "15"] {
            assert_eq!(Age::read(bad), None, "{bad:?}");
        }
        for text in ["15d", "36h", "forever"] {
            assert_eq!(Age::read(text).and_then(|age| Age::write(&age)).as_deref(), Some(text));
        }
    }

    #[test]
    fn bytes_are_shown_with_their_unit() {
        let shown = [64 << 20, 1 << 30, 100_000_000, 5120].map(|number: u64| Bytes::show(&number));
        assert_eq!(shown, ["64 MiB", "1 GiB", "100 MB", "5120 bytes"]);
        assert_eq!(Count::<usize>::read("0"), None);
    }
}
