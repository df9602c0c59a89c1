//! The report as Markdown.

use std::fmt::{self, Write};

use askama::Template;
use askama::filters::Escaper;

use super::serving::{self, MAX_SERVERS, SHOWN};
use super::text::{self, MAX_PLACES};
use super::tuning::MIN_PAIRS;
use super::waterfall::{Step, waterfall};
use super::{Report, units};
use crate::escape::is_unprintable;
use goodput_rules::tuning::MIN_POOL;
use goodput_verdict::Served;

/// Keeps names from becoming Markdown: a backslash before everything that Markdown or HTML could take for its own,
/// and spaces for line breaks, which would end a table's row. Named in `askama.toml`.
#[derive(Clone, Copy, Debug)]
pub struct MarkdownEscaper;

impl Escaper for MarkdownEscaper {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.write_escaped_char(&mut out, c))
    }

    fn write_escaped_char<W: Write>(&self, mut out: W, c: char) -> fmt::Result {
        match c {
            '\n' | '\r' | '\t' => out.write_char(' '),
            '<' => out.write_str("&lt;"),
            '&' => out.write_str("&amp;"),
            '\\' | '`' | '*' | '|' | '[' | ']' => out.write_fmt(format_args!("\\{c}")),
            // A report is read in terminals too.
            c if is_unprintable(c) => out.write_fmt(format_args!("\\u{:04x}", c as u32)),
            _ => out.write_char(c),
        }
    }
}

#[derive(Template)]
#[template(path = "report.md")]
struct Page<'a> {
    r: &'a Report,
    steps: Vec<Step>,
}

/// The whole report.
pub fn render(report: &Report) -> Result<String, askama::Error> {
    Page { r: report, steps: waterfall(report) }.render()
}
