//! Pure text to plain structs: only what the procfs crate lacks, or what it parses without saying where a file is
//! malformed.

pub mod bus_id;
pub mod cgroup;
pub mod choice;
pub mod container_log;
pub mod counters;
pub mod cpu;
pub mod cpus;
pub mod dcb;
pub mod device_id;
pub mod devices;
pub mod diskstats;
pub mod environ;
pub mod ethtool;
pub mod gds;
pub mod inspector;
pub mod interrupts;
pub mod io_limits;
pub mod irqbalance;
pub mod job_map;
pub mod keyed;
pub mod kubelet;
pub mod limits;
pub mod lustre;
pub mod maps;
pub mod membership;
pub mod meminfo;
pub mod mountinfo;
pub mod mounts;
pub mod mountstats;
pub mod net;
pub mod nvidia;
pub mod oom;
pub mod owner;
pub mod pci_config;
pub mod per_cpu;
pub mod pressure;
pub mod process;
pub mod relay_url;
pub mod softnet;
pub mod stat;
pub mod status;
pub mod swaps;
pub mod xid;

/// What a parser expected and did not find.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: expected {expected}, found {found:?}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there, cut to 80 characters.
    pub found: String,
}

impl ParseError {
    /// An error about line `line` (from 1) whose text is `found`.
    #[must_use]
    pub fn new(line: usize, expected: &'static str, found: &str) -> Self {
        Self { line, expected, found: found.chars().take(80).collect() }
    }
}

/// Result of parsing a file whose lines do not depend on each other.
///
/// A line that makes no sense costs itself alone: kernels print a negative count, a value too few or none at all, and what
/// else they print is as true as ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<T> {
    /// What could be read.
    pub value: T,
    /// What could not.
    pub left_out: LeftOut,
}

/// Lines that made no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The first of them.
    pub first: Option<ParseError>,
    /// How many.
    pub count: u64,
}

impl LeftOut {
    /// Adds one.
    pub fn add(&mut self, error: ParseError) {
        self.first.get_or_insert(error);
        self.count = self.count.saturating_add(1);
    }

    /// The value, or one more that was left out.
    pub fn keep<T>(&mut self, parsed: Result<T, ParseError>) -> Option<T> {
        parsed.map_err(|error| self.add(error)).ok()
    }

    /// Joins it with the value that was read.
    pub fn with<T>(self, value: T) -> Parsed<T> {
        Parsed { value, left_out: self }
    }
}

impl<T> Parsed<T> {
    /// The same of another value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Parsed<U> {
        self.left_out.with(make(self.value))
    }
}

/// What parsers return: all or nothing of a file, or all of it but for what was left out.
pub trait Outcome {
    /// What the file says.
    type Value;

    /// The value if there is one, and what was left out.
    ///
    /// # Errors
    /// Why there is no value.
    fn split(self) -> Result<(Self::Value, LeftOut), ParseError>;
}

impl<T> Outcome for Result<T, ParseError> {
    type Value = T;

    fn split(self) -> Result<(T, LeftOut), ParseError> {
        self.map(|value| (value, LeftOut::default()))
    }
}

impl<T> Outcome for Parsed<T> {
    type Value = T;

    fn split(self) -> Result<(T, LeftOut), ParseError> {
        Ok((self.value, self.left_out))
    }
}

/// Calls `each` with the number and the text of every line that says something.
pub fn each_line<'a>(text: &'a str, mut each: impl FnMut(usize, &'a str) -> Result<(), ParseError>) -> Parsed<()> {
    let mut left_out = LeftOut::default();
    for (number, line) in lines(text) {
        left_out.keep(each(number, line));
    }
    left_out.with(())
}

/// One value per line that says something.
pub fn rows<'a, T>(text: &'a str, mut row: impl FnMut(usize, &'a str) -> Result<T, ParseError>) -> Parsed<Vec<T>> {
    let mut rows = Vec::new();
    each_line(text, |number, line| row(number, line).map(|row| rows.push(row))).map(|()| rows)
}

/// A parser that is given a file line by line: for files that are too long to be held as a whole.
pub trait ByLine {
    /// What the file says.
    type Whole;

    /// The next line; numbers are from 1.
    fn line(&mut self, number: usize, line: &str) -> Result<(), ParseError>;

    /// There was no more.
    fn end(self) -> Result<Self::Whole, ParseError>;
}

/// A file that is one number.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, ParseError> {
    let text = trim(text);
    text.parse().map_err(|_| ParseError::new(1, "a number", text))
}

/// A file that is one hexadecimal number behind `0x`.
pub fn hexadecimal(text: &str) -> Result<u32, ParseError> {
    let text = trim(text);
    let number = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| ParseError::new(1, "a hexadecimal number such as 0x030200", text))
}

/// Cuts white space and the NUL bytes that some kernels put behind the last line of a sysfs file.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

/// The lines that say something, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, trim(line))).filter(|(_, line)| !line.is_empty())
}
