//! Reads one matcher of a PromQL selector, such as `job=~"gpu|node"`.

use std::str::FromStr;

use super::messages::{LabelMatcher, MatchType};

/// Why a text is no matcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("matcher {text:?}: expected {expected} at byte {at}")]
pub struct MatcherError {
    /// The text.
    pub text: String,
    /// Where it cannot be read.
    pub at: usize,
    /// What was expected there.
    pub expected: &'static str,
}

/// The operators; one that another one begins with comes after it.
const OPERATORS: [(&str, MatchType); 4] =
    [("=~", MatchType::Matches), ("!~", MatchType::MatchesNot), ("!=", MatchType::NotEqual), ("=", MatchType::Equal)];

/// What is wrong with a rest of the text: the rest, and what was expected at its beginning.
type Wrong<'a> = (&'a str, &'static str);

impl FromStr for LabelMatcher {
    type Err = MatcherError;

    fn from_str(text: &str) -> Result<Self, MatcherError> {
        parse(text).map_err(|(rest, expected)| MatcherError {
            text: text.to_owned(),
            at: text.len() - rest.len(),
            expected,
        })
    }
}

fn parse(text: &str) -> Result<LabelMatcher, Wrong<'_>> {
    let rest = text.trim_start();
    let is_of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let (name, rest) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err((text.trim_start(), "a label name"));
    }
    let rest = rest.trim_start();
    let operator = OPERATORS.iter().find_map(|(sign, kind)| Some((kind, rest.strip_prefix(sign)?)));
    let (kind, rest) = operator.ok_or((rest, "one of the operators =, !=, =~ and !~"))?;
    let (value, rest) = quoted(rest.trim_start())?;
    if rest.trim_start().is_empty() {
        return Ok(LabelMatcher { kind: (*kind).into(), name: name.to_owned(), value });
    }
    Err((rest.trim_start(), "nothing after the value"))
}

/// A quoted text, unescaped, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), Wrong<'_>> {
    let mut characters = text.chars();
    match characters.next() {
        Some('`') => characters
            .as_str()
            .split_once('`')
            .map(|(value, rest)| (value.to_owned(), rest))
            .ok_or((&text[text.len()..], "a closing `")),
        Some(quote @ ('"' | '\'')) => escaped(characters.as_str(), quote),
        _ => Err((text, "a value in \", ' or `")),
    }
}

/// A text up to this quote, unescaped, and what follows the quote. Escapes may write bytes, so it is UTF-8 only as a
/// whole.
fn escaped(text: &str, quote: char) -> Result<(String, &str), Wrong<'_>> {
    let mut value = Vec::new();
    let mut rest = text;
    loop {
        let mut characters = rest.chars();
        match characters.next() {
            Some(found) if found == quote => {
                let value = String::from_utf8(value).map_err(|_| (text, "a value that is UTF-8"))?;
                return Ok((value, characters.as_str()));
            }
            Some('\\') => rest = escape(rest, quote, &mut value)?,
            None | Some('\n') => return Err((rest, "a closing quote")),
            Some(other) => {
                value.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                rest = characters.as_str();
            }
        }
    }
}

/// Appends what the escape at the beginning of the text means, as in strings of Go. Returns what follows it.
fn escape<'a>(text: &'a str, quote: char, value: &mut Vec<u8>) -> Result<&'a str, Wrong<'a>> {
    let wrong = (text, "an escape such as \\n, \\\\, \\x41 or \\u0041");
    let mut characters = text.chars();
    let kind = characters.nth(1).ok_or(wrong)?;
    let (radix, length) = match kind {
        'x' => (16, 2),
        'u' => (16, 4),
        'U' => (16, 8),
        '0'..='7' => (8, 3),
        _ => {
            value.push(simple(kind, quote).ok_or(wrong)?);
            return Ok(characters.as_str());
        }
    };
    // The first digit of an octal number is what names the kind.
    let digits = if radix == 8 { &text[1..] } else { characters.as_str() };
    let (digits, rest) = digits.split_at_checked(length).ok_or(wrong)?;
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    let number = u32::from_str_radix(digits, radix).ok().filter(|_| is_number).ok_or(wrong)?;
    if matches!(kind, 'u' | 'U') {
        let character = char::from_u32(number).ok_or(wrong)?;
        value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        value.push(u8::try_from(number).map_err(|_| wrong)?);
    }
    Ok(rest)
}

/// The byte of an escape of one character.
fn simple(kind: char, quote: char) -> Option<u8> {
    Some(match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        _ if kind == quote => u8::try_from(kind).ok()?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
