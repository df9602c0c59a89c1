//! `llite/*/stats`: what programs asked of a Lustre client (Lustre Operations Manual, "Lustre Parameters").

use std::time::Duration;

use super::{ParseError, lines};

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Time that they took together; `None` from clients that do not measure it.
    pub time: Option<Duration>,
}

/// What one client counted since its mount, or since somebody cleared it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Bytes that programs read, from the page cache too.
    pub read_bytes: u64,
    /// Bytes that programs wrote.
    pub written_bytes: u64,
    /// Reads.
    pub read: Calls,
    /// Writes.
    pub write: Calls,
    /// Opening, closing, looking up, listing, asking for attributes and the like.
    pub other: Calls,
}

/// Parses the file. A line is a name, a count, the word `samples`, a unit and, where there is something to measure, the
/// least, the greatest and the sum. What has not happened has no line. Kinds with a unit of bytes count the calls, too;
/// newer clients have their time in a line of its own.
pub fn parse(text: &str) -> Result<Client, ParseError> {
    let mut client = Client::default();
    for (number, line) in lines(text) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, count, "samples", unit, rest @ ..] = words.as_slice() else { continue };
        let error = || ParseError::new(number, "a name, a count, samples, a unit, and numbers", line);
        let count: u64 = count.parse().map_err(|_| error())?;
        let sum = rest.get(2).map(|sum| sum.parse::<u64>()).transpose().map_err(|_| error())?;
        match (*name, *unit) {
            ("read_bytes", _) => (client.read_bytes, client.read.count) = (sum.unwrap_or_default(), count),
            ("write_bytes", _) => (client.written_bytes, client.write.count) = (sum.unwrap_or_default(), count),
            // Their bytes' lines count them.
            ("read", "[usec]") => client.read.time = sum.map(Duration::from_micros),
            ("write", "[usec]") => client.write.time = sum.map(Duration::from_micros),
            (_, "[usec]") => client.other.add(count, sum.map(Duration::from_micros)),
            (_, "[regs]" | "[reqs]") => client.other.add(count, None),
            _ => {}
        }
    }
    Ok(client)
}

impl Calls {
    fn add(&mut self, count: u64, time: Option<Duration>) {
        self.count = self.count.saturating_add(count);
        if let Some(time) = time {
            self.time = Some(self.time.unwrap_or_default().saturating_add(time));
        }
    }
}

/// File system and client of a folder such as `scratch-ffff9a0b1c2d3800`.
#[must_use]
pub fn names(folder: &str) -> (&str, &str) {
    folder.rsplit_once('-').unwrap_or((folder, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_client_that_measures_time() {
        let text = "snapshot_time 1700000000.5 secs.nsecs\nstart_time 1.0 secs.nsecs\n\
            read_bytes 4 samples [bytes] 1 300 1000 99\nwrite_bytes 2 samples [bytes] 1 2 3 5\n\
            read 4 samples [usec] 1 20 50 900\nopen 3 samples [usec] 1 2 6 9\ngetattr 5 samples [usec] 1 1 5 5\n";
        let client = parse(text).unwrap();
        assert_eq!((client.read_bytes, client.written_bytes), (1000, 3));
        assert_eq!(client.read, Calls { count: 4, time: Some(Duration::from_micros(50)) });
        assert_eq!(client.write, Calls { count: 2, time: None });
        assert_eq!(client.other, Calls { count: 8, time: Some(Duration::from_micros(11)) });
    }

    #[test]
    fn a_client_that_only_counts() {
        let text = "read_bytes 4 samples [bytes] 1 300 1000\nosc_read 9 samples [bytes] 1 2 3\nopen 7 samples [regs]\n";
        let client = parse(text).unwrap();
        assert_eq!((client.read.count, client.read.time), (4, None));
        assert_eq!(client.other, Calls { count: 7, time: None });
        assert_eq!(parse("a 1 samples [regs]\nopen many samples [regs]\n").unwrap_err().line, 2);
    }

    #[test]
    fn folders() {
        assert_eq!(names("my-fs-ffff88"), ("my-fs", "ffff88"));
        assert_eq!(names("scratch"), ("scratch", ""));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(read_bytes|open| samples |\\[usec\\]|\\[regs\\]|[0-9]{1,21}| |\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}
