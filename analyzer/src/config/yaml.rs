//! YAML with line numbers, read so that every mistake of a file is found at once.

use std::fmt;

use goodput_web::masked;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Something wrong in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Line, from 1.
    pub line: u64,
    /// Which field, and what was expected.
    pub text: String,
}

/// A value of the file before anything is known about what it should be.
pub(super) enum Value {
    Null,
    Scalar(String),
    List(Vec<Spanned<Value>>),
    Map(Vec<(Spanned<String>, Spanned<Value>)>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Scalar(text) => write!(f, "{:?}", masked(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a mapping"),
        }
    }
}

/// Reads the text; a file of nothing but comments is an empty mapping. `yes` and `on` stay the words that they are.
pub(super) fn parse(text: &str) -> Result<Spanned<Value>, Mistake> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| Mistake {
        line: error.location().map_or(1, |l| l.line()),
        text: format!("expected YAML: {}", error.without_snippet()),
    })
}

/// The fields of one mapping; each is taken at most once, and what is left over is a mistake.
pub(super) struct Fields<'a> {
    path: String,
    line: u64,
    left: Vec<(&'a Spanned<String>, &'a Spanned<Value>)>,
    known: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The fields of a value that should be a mapping. `path` is empty or ends with a dot.
    pub(super) fn of(value: &'a Spanned<Value>, path: String, mistakes: &mut Vec<Mistake>) -> Self {
        let line = line(value);
        let left = match &value.value {
            Value::Map(entries) => entries.iter().map(|(key, value)| (key, value)).collect(),
            Value::Null => Vec::new(),
            other => {
                let name = if path.is_empty() { "the file" } else { path.trim_end_matches('.') };
                // The text in place of a section may be the password that belongs into it.
                let found = match other {
                    Value::Scalar(_) => "a text".to_owned(),
                    other => other.to_string(),
                };
                mistakes.push(Mistake { line, text: format!("{name}: expected a mapping, found {found}") });
                Vec::new()
            }
        };
        Self { path, line, left, known: Vec::new() }
    }

    /// Is none left to be taken?
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The field's value, and what to call it in messages.
    pub(super) fn take(&mut self, key: &str) -> Option<(String, &'a Spanned<Value>)> {
        self.known.push(key.to_owned());
        let at = self.left.iter().position(|(k, _)| k.value == key)?;
        Some((format!("{}{key}", self.path), self.left.remove(at).1))
    }

    /// A field of fields or of a list that may be left out.
    pub(super) fn section<T: Default>(
        &mut self,
        key: &str,
        mistakes: &mut Vec<Mistake>,
        read: impl FnOnce(&str, &'a Spanned<Value>, &mut Vec<Mistake>) -> T,
    ) -> T {
        self.take(key).map(|(name, value)| read(&name, value, mistakes)).unwrap_or_default()
    }

    /// A field that may be left out. `read` says what it expected.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        default: T,
        mistakes: &mut Vec<Mistake>,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> T {
        let Some((name, value)) = self.take(key) else { return default };
        scalar(&name, value, mistakes, read).unwrap_or(default)
    }

    /// A field that must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &str,
        mistakes: &mut Vec<Mistake>,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        let Some((name, value)) = self.take(key) else {
            mistakes.push(Mistake { line: self.line, text: format!("{}{key}: missing", self.path) });
            return None;
        };
        scalar(&name, value, mistakes, read)
    }

    /// Every key that was not taken is a mistake.
    pub(super) fn finish(self, mistakes: &mut Vec<Mistake>) {
        for (key, _) in &self.left {
            let hint =
                similar(&key.value, &self.known).map(|known| format!(" (did you mean {known}?)")).unwrap_or_default();
            let known = self.known.join(", ");
            let text = format!("{}{}: unknown key{hint}, expected one of {known}", self.path, key.value);
            mistakes.push(Mistake { line: key.referenced.line(), text });
        }
    }
}

/// The key that was meant, where a slip of the keyboard separates them: a letter too few or too many, two swapped.
fn similar<'a>(key: &str, known: &'a [String]) -> Option<&'a String> {
    let near = known.iter().map(|known| (strsim::osa_distance(key, known), known));
    near.min().filter(|(distance, known)| *distance <= 2 && distance * 3 <= known.len()).map(|(_, known)| known)
}

/// Reads one value; a mistake names it and says what was expected and found.
pub(super) fn scalar<T>(
    name: &str,
    value: &Spanned<Value>,
    mistakes: &mut Vec<Mistake>,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Option<T> {
    let mistake =
        |expected| Mistake { line: line(value), text: format!("{name}: expected {expected}, found {}", value.value) };
    read(&value.value).map_err(|expected| mistakes.push(mistake(expected))).ok()
}

/// The elements of a value that should be a list.
pub(super) fn list<'a>(name: &str, value: &'a Spanned<Value>, mistakes: &mut Vec<Mistake>) -> &'a [Spanned<Value>] {
    match &value.value {
        Value::List(items) => items,
        other => {
            let text = format!("{name}: expected a list, found {other}");
            mistakes.push(Mistake { line: line(value), text });
            &[]
        }
    }
}

pub(super) fn line(value: &Spanned<Value>) -> u64 {
    value.referenced.line()
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}
