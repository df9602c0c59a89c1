//! Settings as rows: from one row come the field, its default, its reader, its line of `check-config` and of
//! `docs/reference/configuration.md`, its environment variable and its bound on `/metrics`.
//!
//! Pure: files, the environment and metrics are read and written by others.

pub mod kind;

pub use kind::Kind;

/// One setting of a section.
pub struct Row<S: 'static> {
    /// Its name in the file.
    pub key: &'static str,
    /// What a value may be.
    pub expected: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// The metric that shows how much of the bound is used.
    pub used: Option<&'static str>,
    /// Reads a value; the error is what was expected.
    pub set: fn(&mut S, &str) -> Result<(), &'static str>,
    /// The value in the file's own form; `None` where it is left out.
    pub get: fn(&S) -> Option<String>,
    /// The value with its unit, for people.
    pub shown: fn(&S) -> String,
    /// The bound that `/metrics` shows.
    pub limit: Option<Limit<S>>,
}

/// The bound of a row: its name on `/metrics` ends with the unit; the value is `None` where there is no bound.
pub type Limit<S> = (&'static str, fn(&S) -> Option<u64>);

/// Settings that stand together in the file.
pub trait Section: Default + 'static {
    /// Its name in the file.
    const NAME: &'static str;
    /// Its settings, in the order of the documentation.
    const ROWS: &'static [Row<Self>];

    /// Name and value of each bound that `/metrics` shows.
    fn limits(&self) -> Vec<(String, u64)> {
        let value = |row: &Row<Self>| {
            let (suffix, number) = row.limit?;
            Some((format!("{}{suffix}", row.key), number(self)?))
        };
        Self::ROWS.iter().filter_map(value).collect()
    }
}

/// Declares a section: a struct with its defaults and its rows.
///
/// In braces stand fields that are no scalar settings. Each row then is a field, its key where that is another name, its
/// kind, its default and what it does. `limit` has `/metrics` show the bound; the metric of what is used may follow.
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident: $section:literal {
            $($(#[$meta:meta])* $open:vis $extra:ident: $type:ty = $init:expr,)*
        }
        $($field:ident $(as $key:literal)?: $kind:ty = $default:expr, $doc:literal $(, $limit:ident $($used:literal)?)?;)*
    ) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[$meta])* $open $extra: $type,)*
            $(#[doc = $doc] $vis $field: <$kind as $crate::Kind>::Value,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($extra: $init,)* $($field: $default,)* }
            }
        }

        impl $crate::Section for $name {
            const NAME: &'static str = $section;
            const ROWS: &'static [$crate::Row<Self>] = &[$($crate::Row {
                key: $crate::settings!(@key $field $($key)?),
                expected: <$kind as $crate::Kind>::EXPECTED,
                doc: $doc,
                used: $crate::settings!(@used $($($used)?)?),
                set: |section: &mut Self, text| {
                    section.$field = <$kind as $crate::Kind>::read(text).ok_or(<$kind as $crate::Kind>::EXPECTED)?;
                    Ok(())
                },
                get: |section: &Self| <$kind as $crate::Kind>::write(&section.$field),
                shown: |section: &Self| <$kind as $crate::Kind>::show(&section.$field),
                limit: $crate::settings!(@limit $kind, $field $(, $limit)?),
            }),*];
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@used) => { None };
    (@used $used:literal) => { Some($used) };
    (@limit $kind:ty, $field:ident) => { None };
    (@limit $kind:ty, $field:ident, limit) => {
        Some((<$kind as $crate::Kind>::SUFFIX, |section: &Self| <$kind as $crate::Kind>::number(&section.$field)))
    };
}

/// The environment variable of a setting of the analyzer.
#[must_use]
pub fn variable(section: &str, key: &str) -> String {
    format!("GOODPUT_ANALYZER_{section}_{key}").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::kind::{Age, Bytes, Count, Period, Switch, Unset};
    use super::{Section as _, variable};

    settings! {
        /// Settings of a test.
        #[derive(Debug)]
        struct Door: "door" {
            /// Whose it is.
            owner: String = "me".to_owned(),
        }
        width: Count = 2, "How wide it is.", limit;
        weight: Bytes<u64> = 1 << 20, "How heavy it is.", limit "door_bytes";
        open as "open_for": Period = std::time::Duration::from_secs(90), "How long it is open.";
        kept: Age = None, "How long it is kept.", limit;
        locked: Switch = false, "Is it locked?";
        keys: Unset<Count> = None, "How many keys there are.";
    }

    fn set(door: &mut Door, key: &str, text: &str) -> Result<(), &'static str> {
        (Door::ROWS.iter().find(|row| row.key == key).unwrap().set)(door, text)
    }

    #[test]
    fn a_row_is_a_field_its_default_its_reader_and_its_bound() {
        let mut door = Door::default();
        assert_eq!((door.owner.as_str(), door.width, door.open.as_secs(), door.keys), ("me", 2, 90, None));
        assert_eq!(door.limits(), [("width".to_owned(), 2), ("weight".to_owned(), 1 << 20)]);
        for (key, text) in [("open_for", "1m"), ("kept", "2w"), ("locked", "true"), ("keys", "3")] {
            assert_eq!(set(&mut door, key, text), Ok(()), "{key}");
        }
        assert_eq!(set(&mut door, "width", "0"), Err("a whole number above 0"));
        assert_eq!((door.width, door.open.as_secs(), door.locked, door.keys), (2, 60, true, Some(3)));
        assert!(door.limits().contains(&("kept_seconds".to_owned(), 14 * 86_400)), "{:?}", door.limits());
        let used: Vec<_> = Door::ROWS.iter().filter_map(|row| row.used).collect();
        assert_eq!((used, Door::NAME), (vec!["door_bytes"], "door"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut door = Door::default();
        let written: Vec<_> = Door::ROWS.iter().map(|row| (row.key, (row.get)(&door))).collect();
        for (key, text) in &written {
            assert_eq!(text.as_ref().map(|text| set(&mut door, key, text)), text.as_ref().map(|_| Ok(())), "{key}");
        }
        assert_eq!(written.last(), Some(&("keys", None)), "what is unset is left out");
        assert_eq!(written, Door::ROWS.iter().map(|row| (row.key, (row.get)(&door))).collect::<Vec<_>>());
        assert_eq!((Door::ROWS[1].shown)(&door), "1 MiB");
    }

    #[test]
    fn a_variable_is_named_by_section_and_key() {
        assert_eq!(variable("store", "head_bytes"), "GOODPUT_ANALYZER_STORE_HEAD_BYTES");
    }
}
