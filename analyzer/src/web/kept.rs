//! Fields of an address that its links and forms keep.

use crate::report::site::escaped;

/// Names and values, without those that have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Vec<(String, String)>);

impl Kept {
    /// An empty field of a form asks for nothing.
    pub(super) fn of<const N: usize>(fields: [(&'static str, &Option<String>); N]) -> Self {
        let given = |(name, value): (&'static str, &Option<String>)| Some((name.to_owned(), given(value)?.to_owned()));
        Self(fields.into_iter().filter_map(given).collect())
    }

    /// Of fields with any name.
    pub(super) fn named(fields: Vec<(String, String)>) -> Self {
        Self(fields)
    }

    /// As a query goes on with it: `&node=n1`.
    pub(super) fn query(&self) -> String {
        self.0.iter().map(|(name, value)| format!("&{name}={}", escaped(value))).collect()
    }

    /// These, and others.
    pub(super) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// For the hidden fields of a form.
    pub(super) fn fields(&self) -> &[(String, String)] {
        &self.0
    }
}

/// The value of a field, unless it is empty.
pub(super) fn given(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|value| !value.is_empty())
}
