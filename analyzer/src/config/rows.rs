//! Sections of rows: how the file and the environment set them, and how they are printed.

use std::fmt;

use goodput_settings::{Kind, Section, variable};
use goodput_web::masked;
use serde_saphyr::Spanned;

use super::file::text;
use super::yaml::{Fields, Mistake, Value, scalar};

/// Looks an environment variable up by its name.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a section that has rows alone.
pub(super) fn section<S: Section>(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> S {
    let mut section = S::default();
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    read(&mut section, &mut fields, mistakes);
    fields.finish(mistakes);
    section
}

/// Sets what the file names.
pub(super) fn read<S: Section>(section: &mut S, fields: &mut Fields<'_>, mistakes: &mut Vec<Mistake>) {
    for row in S::ROWS {
        let Some((name, value)) = fields.take(row.key) else { continue };
        let set = |value: &Value| (row.set)(section, text(value).unwrap_or_default()).map_err(str::to_owned);
        scalar(&name, value, mistakes, set);
    }
}

/// Sets what the environment names.
pub(super) fn override_by<S: Section>(section: &mut S, variables: Variables<'_>, mistakes: &mut Vec<String>) {
    for row in S::ROWS {
        let set = |text: &str| (row.set)(section, text).map_err(str::to_owned);
        from_variable(S::NAME, row.key, variables, mistakes, set);
    }
}

/// One value of the environment, if it is there. An empty variable counts as unset, as charts render absent values so.
pub(super) fn from_variable(
    section: &str,
    key: &str,
    variables: Variables<'_>,
    mistakes: &mut Vec<String>,
    set: impl FnOnce(&str) -> Result<(), String>,
) {
    let name = variable(section, key);
    let Some(found) = variables(&name).filter(|found| !found.is_empty()) else { return };
    let mistake = |expected| format!("environment variable {name}: expected {expected}, found {:?}", masked(&found));
    mistakes.extend(set(&found).map_err(mistake).err());
}

/// Writes the rows in the file's own form.
pub(super) fn write<S: Section>(section: &S, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let set = S::ROWS.iter().filter_map(|row| Some((row.key, (row.get)(section)?)));
    set.into_iter().try_for_each(|(key, value)| writeln!(f, "  {key}: {value}"))
}

/// A value of this kind.
pub(super) fn of<K: Kind>(value: &Value) -> Result<K::Value, String> {
    K::read(text(value).unwrap_or_default()).ok_or_else(|| K::EXPECTED.to_owned())
}
