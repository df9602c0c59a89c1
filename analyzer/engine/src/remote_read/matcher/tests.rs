use proptest::prelude::*;

use super::*;

#[test]
fn matchers_are_read() {
    let rows = [
        (r#"cluster="a""#, "cluster", 0, "a"),
        (r#"x!="y""#, "x", 1, "y"),
        (r#"job=~"gpu|node""#, "job", 2, "gpu|node"),
        (r#"x!~"z""#, "x", 3, "z"),
        (r#"  _A9 = ""  "#, "_A9", 0, ""),
        ("x='it is \"quoted\"'", "x", 0, "it is \"quoted\""),
        (r#"x="it's""#, "x", 0, "it's"),
        (r"x='it\'s'", "x", 0, "it's"),
        (r#"x="a\\b\"c\n\t\r\a\b\f\v""#, "x", 0, "a\\b\"c\n\t\r\x07\x08\x0c\x0b"),
        (r#"x="\x41\u00e9\U0001F600\101""#, "x", 0, "A\u{e9}\u{1f600}A"),
        (r#"x="\xc3\xa9\303\251é""#, "x", 0, "\u{e9}\u{e9}\u{e9}"),
        (r"x=`\d+ and \n`", "x", 0, r"\d+ and \n"),
        ("x=`two\nlines`", "x", 0, "two\nlines"),
        (r#"x=~"a\\.b""#, "x", 2, r"a\.b"),
    ];
    for (text, name, kind, value) in rows {
        let expected = LabelMatcher { kind, name: name.to_owned(), value: value.to_owned() };
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

#[test]
fn an_error_names_the_matcher_and_what_was_expected() {
    let escape = r"an escape such as \n, \\, \x41 or \u0041";
    let rows = [
        ("", 0, "a label name"),
        (" ", 1, "a label name"),
        ("9a=\"b\"", 0, "a label name"),
        ("é=\"b\"", 0, "a label name"),
        ("=\"b\"", 0, "a label name"),
        ("a", 1, "one of the operators =, !=, =~ and !~"),
        ("a-b=\"c\"", 1, "one of the operators =, !=, =~ and !~"),
        ("a !\"b\"", 2, "one of the operators =, !=, =~ and !~"),
        ("a=b", 2, "a value in \", ' or `"),
        ("a==\"b\"", 2, "a value in \", ' or `"),
        ("a= ", 3, "a value in \", ' or `"),
        ("a=\"b", 4, "a closing quote"),
        ("a=\"b\nc\"", 4, "a closing quote"),
        ("a=\"b'", 5, "a closing quote"),
        ("a=`b", 4, "a closing `"),
        ("a=\"b\", c=\"d\"", 5, "nothing after the value"),
        ("a=\"b\"\"c\"", 5, "nothing after the value"),
        (r#"a="b\"#, 4, escape),
        (r#"a="b\q""#, 4, escape),
        (r#"a="\'""#, 3, escape),
        (r#"a="\x4""#, 3, escape),
        (r#"a="\x+4""#, 3, escape),
        (r#"a="\ud800""#, 3, escape),
        (r#"a="\u00é""#, 3, escape),
        (r#"a="\400""#, 3, escape),
        (r#"a="\08""#, 3, escape),
        (r#"a="\xff""#, 3, "a value that is UTF-8"),
    ];
    for (text, at, expected) in rows {
        let error = MatcherError { text: text.to_owned(), at, expected };
        assert_eq!(text.parse::<LabelMatcher>(), Err(error), "{text}");
    }
    let error = "a=b".parse::<LabelMatcher>().unwrap_err();
    assert_eq!(error.to_string(), "matcher \"a=b\": expected a value in \", ' or ` at byte 2");
}

#[test]
fn a_matcher_cut_anywhere_is_an_error() {
    let text = "job =~ \"\\x41\\u00e9 and \\\"é\"";
    assert!(text.parse::<LabelMatcher>().is_ok());
    for end in text.char_indices().map(|(at, _)| at) {
        assert!(text[..end].parse::<LabelMatcher>().is_err(), "{end}");
    }
}

proptest! {
    #[test]
    fn any_value_is_read_as_it_was_quoted(value in any::<String>()) {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let read: LabelMatcher = format!("a=\"{quoted}\"").parse().unwrap();
        prop_assert_eq!(read.value, value);
    }

    #[test]
    fn any_text_is_safe(text in "\\PC*", pieces in proptest::collection::vec(prop_oneof![
        Just("a"), Just("="), Just("~"), Just("!"), Just("\""), Just("'"), Just("`"), Just("\\"), Just("x"), Just("4"),
        Just("u"), Just("\u{e9}"), Just("\n"), Just(" "),
    ], 0..20)) {
        let _ = text.parse::<LabelMatcher>();
        let _ = pieces.concat().parse::<LabelMatcher>();
        let _ = format!("a=\"{}\"", pieces.concat()).parse::<LabelMatcher>();
    }
}
