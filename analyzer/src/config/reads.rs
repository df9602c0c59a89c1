//! The section about pages and the API.

use std::fmt;

use serde_saphyr::Spanned;

use super::file::count;
use super::yaml::{Fields, Mistake, Value};
use crate::serve::ReadLimits;

/// Reads the section.
pub(super) fn read_limits(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> ReadLimits {
    let default = ReadLimits::default();
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let limits = ReadLimits {
        requests: fields.optional("requests", default.requests, mistakes, count),
        reports: fields.optional("reports", default.reports, mistakes, count),
        max_rows: fields.optional("max_rows", default.max_rows, mistakes, count),
    };
    fields.finish(mistakes);
    limits
}

/// The section in the file's own form.
pub(super) fn write(limits: &ReadLimits, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "reads:")?;
    limits.list().into_iter().try_for_each(|(name, value)| writeln!(f, "  {name}: {value}"))
}
