//! `llite/*/stats`: what programs asked of a Lustre client; `osc/*/stats` and `osc/*/import`: what the client asked of a
//! storage target (Lustre Operations Manual, "Lustre Parameters").

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
            ("read", "[usec]" | "[usecs]") => self.read.time = time,
            ("write", "[usec]" | "[usecs]") => self.write.time = time,
            (_, "[usec]" | "[usecs]") => self.other.add(count, time),
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

/// Requests that a client sent to a target and had an answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// How many.
    pub count: u64,
    /// Time from sending to the answer, of all together.
    pub time: Duration,
}

/// Parses `osc/*/stats` for the line `req_waittime`; `None` where it is missing or not in microseconds (`[usec]`, from 2.15 on
/// `[usecs]`).
pub fn requests(text: &str) -> Parsed<Option<Requests>> {
    let mut found = None;
    let parsed = each_line(text, |number, line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["req_waittime", count, "samples", "[usec]" | "[usecs]", _, _, sum, ..] = words.as_slice() else {
            return Ok(());
        };
        let micros = |sum: u64| Duration::from_micros(sum);
        let numbers = count.parse().ok().zip(sum.parse().ok().map(micros));
        let Some((count, time)) = numbers else {
            return Err(ParseError::new(
                number,
                "req_waittime with a count, the least, the greatest and the sum",
                line,
            ));
        };
        found = Some(Requests { count, time });
        Ok(())
    });
    parsed.map(|()| found)
}

/// Parses `osc/*/import` for how often the client gave up what it held of the target: the server evicted it, or an
/// administrator deactivated the target. The kernel counts generations of the connection, the first being 1; `None` where it
/// tells none.
pub fn evictions(text: &str) -> Parsed<Option<u64>> {
    let mut found = None;
    let parsed = each_line(text, |number, line| {
        let Some(generation) = line.trim().strip_prefix("generation:") else { return Ok(()) };
        let number_of = generation.trim().parse::<u64>();
        let number_of = number_of.map_err(|_| ParseError::new(number, "generation: and a number", line))?;
        found = Some(number_of.saturating_sub(1));
        Ok(())
    });
    parsed.map(|()| found)
}

/// File system and target of a folder such as `scratch-OST0003-osc-ffff88`; `None` where it is no client's of a storage target.
#[must_use]
pub fn target(folder: &str) -> Option<(&str, &str)> {
    let (target, client) = folder.split_once("-osc-")?;
    let (filesystem, target) = target.rsplit_once('-')?;
    // Metadata servers have folders for their own connections, such as `scratch-OST0003-osc-MDT0000`.
    (target.starts_with("OST") && !client.starts_with("MDT")).then_some((filesystem, target))
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
    fn units_since_2_15() {
        let text = "read_bytes 4 samples [bytes] 1 300 1000\nread 4 samples [usecs] 1 20 50 900\nopen 3 samples [usecs] 1 2 6\n";
        let client = parse(text).value;
        assert_eq!(client.read.time, Some(Duration::from_micros(50)));
        assert_eq!(client.other, Calls { count: Some(3), time: Some(Duration::from_micros(6)) });
    }

    #[test]
    fn a_target() {
        let text = "snapshot_time 1.5 secs.usecs\nreq_waittime 200 samples [usec] 5 10000 500000 1234567890\nreq_active 200 samples [reqs] 1 16 800\nost_read 100 samples [usec] 10 50000 400000\n";
        let told = Requests { count: 200, time: Duration::from_millis(500) };
        assert_eq!(requests(text).value, Some(told));
        assert_eq!(requests(&text.replace("[usec]", "[usecs]")).value, Some(told));
        assert_eq!(requests(&text.replace("[usec]", "[nsec]")).value, None, "another unit");
        assert_eq!(requests("req_active 200 samples [reqs] 1 16 800\n").value, None);
        let bad = requests(&text.replace("500000 ", "-1 "));
        assert_eq!((bad.value, bad.left_out.first.unwrap().line), (None, 2));
    }

    #[test]
    fn an_import() {
        let text = "import:\n    name: scratch-OST0000-osc-ffff88\n    state: FULL\n    connection:\n       connection_attempts: 3\n       generation: 3\n       in-progress_invalidations: 0\n";
        assert_eq!(evictions(text).value, Some(2));
        assert_eq!(evictions("import:\n    state: FULL\n").value, None);
        assert_eq!(evictions("generation: many\n").left_out.first.unwrap().line, 1);
    }

    #[test]
    fn folders() {
        assert_eq!(target("my-fs-OST00b0-osc-ffff88"), Some(("my-fs", "OST00b0")));
        for other in ["scratch-OST0000-osc-MDT0000", "scratch-MDT0000-mdc-ffff88", "scratch-osc-ffff88", "num_refs"] {
            assert_eq!(target(other), None, "{other}");
        }
        assert_eq!(names("my-fs-ffff88"), ("my-fs", "ffff88"));
        assert_eq!(names("scratch"), ("scratch", ""));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(read_bytes|open|req_waittime|generation:| samples |\\[usec\\]|\\[regs\\]|[0-9]{1,21}| |-osc-|\n|\\PC)*") {
            let _ = (parse(&text), requests(&text), evictions(&text), target(&text));
        }
    }
}
