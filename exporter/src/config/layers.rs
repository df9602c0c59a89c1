//! Settings that do not stand on the command line: from the environment and from the file.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::dcgm_exporter;

/// Where a setting was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Environment(String),
    File { line: u64 },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::File { line } => write!(f, "line {line}"),
        }
    }
}

/// One setting, not yet checked: a flag's long name without dashes, and its values as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) values: Vec<String>,
    pub(super) origin: Origin,
}

/// The settings of the environment for these flags. Empty variables count as unset, as charts render absent values so.
pub(super) fn environment<'a>(
    flags: impl Iterator<Item = (&'a str, bool)>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Setting> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    flags
        .filter_map(|(key, repeatable)| {
            let own = format!("GOODPUT_EXPORTER_{}", key.to_uppercase().replace(['.', '-'], "_"));
            let dcgm = dcgm_exporter::variables().filter(|(_, flag)| *flag == key).map(|(name, _)| name.to_owned());
            let (name, value) = std::iter::once(own).chain(dcgm).find_map(|name| set(&name).map(|v| (name, v)))?;
            let values = match repeatable {
                true => value.split(',').map(|v| v.trim().to_owned()).collect(),
                false => vec![value],
            };
            Some(Setting { key: key.to_owned(), values, origin: Origin::Environment(name) })
        })
        .collect()
}

/// The settings of a YAML file: a flat map from flag names to a value or a list of values.
pub(super) fn file(path: &Path) -> Result<Vec<Setting>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.lines().all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let map: Settings = serde_saphyr::from_str_with_options(&text, options).map_err(|error| error.to_string())?;
    Ok(map.0)
}

struct Settings(Vec<Setting>);

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("lines of `flag-name: value`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Settings, A::Error> {
                let mut settings = Vec::new();
                while let Some((key, values)) = map.next_entry::<Spanned<String>, Values>()? {
                    let origin = Origin::File { line: key.referenced.line() };
                    settings.push(Setting { key: key.value, values: values.0, origin });
                }
                Ok(Settings(settings))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// One value or a list of values, as text.
struct Values(Vec<String>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Values, E> {
        Ok(Values(vec![value.to_string()]))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Values, E> {
        Ok(Values(vec![value.to_string()]))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Values, E> {
        Ok(Values(vec![value.to_string()]))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Values, E> {
        Ok(Values(vec![value.to_string()]))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Values, E> {
        Ok(Values(vec![value.to_owned()]))
    }

    /// No value; the check of the setting says what was expected.
    fn visit_unit<E: Error>(self) -> Result<Values, E> {
        Ok(Values(vec![String::new()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<Values>()? {
            values.extend(value.0);
        }
        Ok(Values(values))
    }

    /// A map is read to its end and becomes a value that no flag accepts, so that the other mistakes are found too.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
        while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
        Ok(Values(Vec::new()))
    }
}
