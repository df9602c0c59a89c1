//! Texts of others, such as labels, made harmless for what shows them: spreadsheets and terminals. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;

/// A cell of a CSV file. Spreadsheets run what begins as a formula does, so that gets an apostrophe, which they take for
/// the mark of a text. Numbers stay numbers.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let is_number = || {
        let digits = |c: char| c.is_ascii_digit() || ['+', '-', '.', 'e', 'E'].contains(&c);
        text.chars().all(digits) && text.parse::<f64>().is_ok()
    };
    if is_formula && !is_number() { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

/// A text of several lines for a terminal: control characters, and those that turn the direction of writing, are written as
/// JSON writes them, so that JSON stays what it is. Line feeds and tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'])
}

/// Is it a control character, or one that turns the direction of writing?
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped<'a>(text: &'a str, stay: &[char]) -> Cow<'a, str> {
    let is_bad = |c: char| is_unprintable(c) && !stay.contains(&c);
    let Some(first) = text.find(is_bad) else { return Cow::Borrowed(text) };
    let mut shown = text[..first].to_owned();
    let mut rest = text[first..].chars().peekable();
    while let Some(c) = rest.next() {
        // The end of a line of CSV.
        let ends_line = c == '\r' && rest.peek() == Some(&'\n') && stay.contains(&'\n');
        if is_bad(c) && !ends_line {
            let _ = write!(shown, "\\u{:04x}", c as u32);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// How fields of log lines are written: each on the line of its event, without control characters.
#[must_use]
pub fn log_fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    debug_fn(|out, field, value| {
        let value = format!("{value:?}");
        let value = escaped(&value, &[]);
        match field.name() {
            "message" => write!(out, "{value}"),
            name => write!(out, "{}={value}", name.trim_start_matches("r#")),
        }
    })
    .delimited(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_formula_becomes_text_and_a_number_stays_one() {
        for text in ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "-", "+", "--1", "-inf", "-nan", "＝1"]
        {
            assert_eq!(cell(text), format!("'{text}"));
        }
        for text in ["", "-1.5", "+3", "-2e-7", "1=1", "a-b", "n1", "'=1", "é"] {
            assert_eq!(cell(text), text);
        }
    }

    #[test]
    fn control_characters_are_written_out() {
        assert!(matches!(printable("a\tb\nc é\n"), Cow::Borrowed(_)));
        assert_eq!(
            printable("a\u{1b}[2J\u{7}\u{9b}\u{7f}\0\rb\r\nc"),
            "a\\u001b[2J\\u0007\\u009b\\u007f\\u0000\\u000db\r\nc"
        );
        assert_eq!(printable("a\u{202e}b"), "a\\u202eb");
        let json = serde_json::json!({"a": "\u{9b}\u{1b}\u{7f}\n"});
        let shown = printable(&json.to_string()).into_owned();
        assert!(!shown.contains(char::is_control), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_is_one_line_without_control_characters() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).fmt_fields(log_fields());
        let bad = "x\u{1b}[31m\nfake line\u{9b}";
        tracing::subscriber::with_default(subscriber.finish(), || {
            tracing::warn!(shown = %bad, debug = ?bad, text = bad, "message of {bad}");
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.contains("message of x\\u001b[31m\\u000afake line\\u009b shown=x\\u001b[31m"), "{line}");
    }
}
