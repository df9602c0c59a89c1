//! `llite/*/stats`: what programs asked of a Lustre client (Lustre Operations Manual, "Lustre Parameters").

use std::time::Duration;

use super::{ParseError, Parsed, each_line};

/// Calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// How many; `None` where a line of them makes no sense.
    pub count: Option<u64>,
    /// Time that they took together; `None` from clients that do not measure it, too.
    pub time: Option<Duration>,
}

/// What has not happened has no line.
impl Default for Calls {
    fn default() -> Self {
        Self { count: Some(0), time: None }
    }
}

/// What one client counted since its mount, or since an administrator cleared it. The values of a line that makes no
/// sense are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Bytes that programs read, from the page cache too.
    pub read_bytes: Option<u64>,
    /// Bytes that programs wrote.
    pub written_bytes: Option<u64>,
    /// Reads.
    pub read: Calls,
    /// Writes.
    pub write: Calls,
    /// Opening, closing, looking up, listing, asking for attributes and the like.
    pub other: Calls,
}

/// What has not happened has no line.
impl Default for Client {
    fn default() -> Self {
        let none = Calls::default();
        Self { read_bytes: Some(0), written_bytes: Some(0), read: none, write: none, other: none }
    }
}

/// Parses the file. A line is a name, a count, the word `samples`, a unit and, where there is something to measure, the
/// least, the greatest and the sum. What has not happened has no line. Kinds with a unit of bytes count the calls, too;
/// newer clients have their time in a line of its own.
pub fn parse(text: &str) -> Parsed<Client> {
    let mut client = Client::default();
    let parsed = each_line(text, |number, line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, count, "samples", unit, rest @ ..] = words.as_slice() else { return Ok(()) };
        let count: Option<u64> = count.parse().ok();
        let sum = rest.get(2).map(|sum| sum.parse::<u64>()).transpose().ok();
        let Some((count, sum)) = count.zip(sum) else {
            client.forget(name);
            return Err(ParseError::new(number, "a name, a count, samples, a unit, and numbers", line));
        };
        client.add(name, unit, count, sum);
        Ok(())
    });
    parsed.map(|()| client)
}

impl Client {
    fn add(&mut self, name: &str, unit: &str, count: u64, sum: Option<u64>) {
        let time = sum.map(Duration::from_micros);
        match (name, unit) {
            ("read_bytes", _) => (self.read_bytes, self.read.count) = (Some(sum.unwrap_or_default()), Some(count)),
            ("write_bytes", _) => (self.written_bytes, self.write.count) = (Some(sum.unwrap_or_default()), Some(count)),
            // Their bytes' lines count them.
            ("read", "[usec]") => self.read.time = time,
            ("write", "[usec]") => self.write.time = time,
            (_, "[usec]") => self.other.add(count, time),
            (_, "[regs]" | "[reqs]") => self.other.add(count, None),
            _ => {}
        }
    }

    /// A sum that lacks one of its parts would say too little.
    fn forget(&mut self, name: &str) {
        match name {
            "read_bytes" => (self.read_bytes, self.read.count) = (None, None),
            "write_bytes" => (self.written_bytes, self.write.count) = (None, None),
            "read" => self.read.time = None,
            "write" => self.write.time = None,
            _ => self.other = Calls { count: None, time: None },
        }
    }
}

impl Calls {
    fn add(&mut self, count: u64, time: Option<Duration>) {
        // Once a part is lost, so is the sum.
        let Some(sum) = self.count else { return };
        self.count = Some(sum.saturating_add(count));
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
        let client = parse(text).value;
        assert_eq!((client.read_bytes, client.written_bytes), (Some(1000), Some(3)));
        assert_eq!(client.read, Calls { count: Some(4), time: Some(Duration::from_micros(50)) });
        assert_eq!(client.write, Calls { count: Some(2), time: None });
        assert_eq!(client.other, Calls { count: Some(8), time: Some(Duration::from_micros(11)) });
        let bad = parse(&text.replace("read_bytes 4", "read_bytes -4").replace("open 3", "open -3")).value;
        assert_eq!(
            (bad.read_bytes, bad.read),
            (None, Calls { count: None, ..client.read }),
            "the time is another line's"
        );
        assert_eq!((bad.write, bad.other), (client.write, Calls { count: None, time: None }));
    }

    #[test]
    fn a_client_that_only_counts() {
        let text = "read_bytes 4 samples [bytes] 1 300 1000\nosc_read 9 samples [bytes] 1 2 3\nopen 7 samples [regs]\n";
        let client = parse(text).value;
        assert_eq!(client.read, Calls { count: Some(4), time: None });
        assert_eq!(client.other, Calls { count: Some(7), time: None });
        let bad = parse("read_bytes 4 samples [bytes] 1 300 1000\nopen many samples [regs]\nclose 1 samples [regs]\n");
        assert_eq!(bad.left_out.first.unwrap().line, 2);
        assert_eq!((bad.value.read_bytes, bad.value.other.count), (Some(1000), None));
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
