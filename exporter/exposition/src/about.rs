//! The lines about a family: HELP and TYPE.

use std::borrow::Cow;

use goodput_catalog::Kind;

/// What a line says about a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// Help text of the family of this name.
    Help(&'a str, Cow<'a, str>),
    /// Type of the family of this name; `None` for one whose samples have other names than the family, or that is
    /// untyped.
    Type(&'a str, Option<Kind>),
}

/// Reads one line; `None` for a sample, another comment, or no name where one is expected.
#[must_use]
pub fn about(line: &str) -> Option<About<'_>> {
    let (keyword, rest) = word(line.trim().strip_prefix('#')?.trim_start());
    let (name, rest) = word(rest);
    match keyword {
        _ if name.is_empty() => None,
        "HELP" => Some(About::Help(name, unescaped(rest))),
        "TYPE" => Some(About::Type(name, kind(rest))),
        _ => None,
    }
}

/// The first word, and what is behind the blanks after it.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn kind(text: &str) -> Option<Kind> {
    match text {
        "counter" => Some(Kind::Counter),
        "gauge" => Some(Kind::Gauge),
        _ => None,
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = rest.next() {
        match (c, rest.as_str().chars().next()) {
            ('\\', Some(next @ ('\\' | '"' | 'n'))) => {
                rest.next();
                out.push(if next == 'n' { '\n' } else { next });
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn help_and_type_are_read() {
        let help = About::Help("A_b", "one \\ two\nthree".into());
        assert_eq!(about("# HELP A_b  one \\\\ two\\nthree"), Some(help));
        assert_eq!(about("# TYPE A counter"), Some(About::Type("A", Some(Kind::Counter))));
        assert_eq!(about(" #\tTYPE\tA gauge\r"), Some(About::Type("A", Some(Kind::Gauge))));
        assert_eq!(about("# TYPE A histogram"), Some(About::Type("A", None)));
        for text in
            ["", "  ", "#", "# anything", "#HELPLESS A", "# HELP", "# TYPE ", "# UNIT A seconds", "TYPE A gauge"]
        {
            assert_eq!(about(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), noise in "#? ?(HELP|TYPE)?( |\\\\|n|A){0,12}") {
            let _ = (about(&text), about(&noise));
        }
    }
}
