//! Limits on the block I/O of a cgroup: v2 `io.max`, `io.weight` and `io.latency` (admin-guide/cgroup-v2.rst), v1
//! `blkio.throttle.*_device` (admin-guide/cgroup-v1/blkio-controller.rst).

use std::time::Duration;

use super::{ParseError, Parsed, each_line, rows};

goodput_catalog::named! {
    /// What is limited, by its key in `io.max`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Kind {
        /// Bytes read per second.
        ReadBytes = "rbps",
        /// Bytes written per second.
        WrittenBytes = "wbps",
        /// Reads per second.
        Reads = "riops",
        /// Writes per second.
        Writes = "wiops",
    }
}

/// One limit on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The device's numbers, such as `259:0`.
    pub device: String,
    /// What is limited.
    pub kind: Kind,
    /// Per second.
    pub most: u64,
}

/// `io.max`: a line per device with a limit; `max` is none. Keys that later kernels may add are passed over.
pub fn io_max(text: &str) -> Parsed<Vec<Limit>> {
    let mut limits = Vec::new();
    each_line(text, |number, line| {
        let error =
            || ParseError::new(number, "a device and rbps=, wbps=, riops= or wiops= with a number or max", line);
        let mut words = line.split_ascii_whitespace();
        let device = words.next().filter(|word| is_device(word)).ok_or_else(error)?;
        let mut of_line = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(error)?;
            let Some(kind) = Kind::ALL.iter().find(|kind| kind.name() == key).filter(|_| value != "max") else {
                continue;
            };
            let most = value.parse().map_err(|_| error())?;
            of_line.push(Limit { device: device.to_owned(), kind: *kind, most });
        }
        limits.append(&mut of_line);
        Ok(())
    })
    .map(|()| limits)
}

/// A file of v1, which has one limit per line: `259:0 1048576`.
pub fn throttle(text: &str, kind: Kind) -> Parsed<Vec<Limit>> {
    rows(text, |number, line| {
        let of = |(device, most): (&str, &str)| {
            let most = most.trim().parse().ok()?;
            is_device(device).then(|| Limit { device: device.to_owned(), kind, most })
        };
        let limit = line.split_once(|c: char| c.is_ascii_whitespace()).and_then(of);
        limit.ok_or_else(|| ParseError::new(number, "a device and an unsigned number", line))
    })
}

/// `io.weight`: the weight for all devices that have none of their own, from 1 to 10000.
pub fn io_weight(text: &str) -> Parsed<Option<u64>> {
    let mut weight = None;
    each_line(text, |number, line| {
        let error = || ParseError::new(number, "default or a device, and a number", line);
        let (of, value) = line.split_once(' ').ok_or_else(error)?;
        let value = value.trim().parse().map_err(|_| error())?;
        match of {
            "default" => weight = Some(value),
            device if is_device(device) => {}
            _ => return Err(error()),
        }
        Ok(())
    })
    .map(|()| weight)
}

/// `io.latency`: a line per device with a target, in microseconds: `259:0 target=75000`.
pub fn io_latency(text: &str) -> Parsed<Vec<(String, Duration)>> {
    rows(text, |number, line| {
        let of = |(device, target): (&str, &str)| {
            let micros = target.trim().strip_prefix("target=")?.parse().ok()?;
            is_device(device).then(|| (device.to_owned(), Duration::from_micros(micros)))
        };
        let target = line.split_once(' ').and_then(of);
        target.ok_or_else(|| ParseError::new(number, "a device and target= with microseconds", line))
    })
}

/// Two numbers: what is looked up in sysfs under this name must not lead elsewhere.
fn is_device(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(device: &str, kind: Kind, most: u64) -> Limit {
        Limit { device: device.to_owned(), kind, most }
    }

    #[test]
    fn limits_of_v2() {
        let text = "8:16 rbps=2097152 wbps=max riops=max wiops=120\n259:0 rbps=max wbps=max riops=max wiops=max\n";
        let expected = [limit("8:16", Kind::ReadBytes, 2_097_152), limit("8:16", Kind::Writes, 120)];
        assert_eq!(io_max(text).value, expected);
        assert_eq!(io_max(text).left_out.count, 0);
        assert_eq!(
            io_max("8:16 rbps=1 later=x\n").value,
            [limit("8:16", Kind::ReadBytes, 1)],
            "a key of later kernels"
        );
    }

    #[test]
    fn a_bad_line_costs_itself() {
        for bad in ["8:16 rbps=-1 wbps=7", "8:16 rbps", "../../x rbps=1", "8: rbps=1", "rbps=1"] {
            let parsed = io_max(&format!("{bad}\n8:0 wiops=9\n"));
            assert_eq!(parsed.value, [limit("8:0", Kind::Writes, 9)], "{bad}");
            assert_eq!(parsed.left_out.first.unwrap().line, 1, "{bad}");
        }
    }

    #[test]
    fn limits_of_v1() {
        let parsed = throttle("8:16 1048576\n259:0\t99\n8:0 many\n../x 1\n8:0\n", Kind::WrittenBytes);
        assert_eq!(parsed.value, [limit("8:16", Kind::WrittenBytes, 1 << 20), limit("259:0", Kind::WrittenBytes, 99)]);
        assert_eq!((parsed.left_out.count, parsed.left_out.first.unwrap().line), (3, 3));
    }

    #[test]
    fn weights_and_targets() {
        for (text, weight, bad) in [
            ("default 100\n", Some(100), 0),
            ("default 50\n8:16 200\n", Some(50), 0),
            ("8:16 200\n", None, 0),
            ("100\ndefault few\n../x 1\n", None, 3),
        ] {
            let parsed = io_weight(text);
            assert_eq!((parsed.value, parsed.left_out.count), (weight, bad), "{text}");
        }
        let parsed = io_latency("8:16 target=75000\n259:0 target=max\n8:0 75000\n../x target=1\n");
        assert_eq!(parsed.value, [("8:16".to_owned(), Duration::from_millis(75))]);
        assert_eq!((parsed.left_out.count, parsed.left_out.first.unwrap().line), (3, 2));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(8:16| |rbps=|wiops=|target=|default|max|[0-9]{1,21}|\n|\\PC)*") {
            let _ = (io_max(&text), throttle(&text, Kind::Reads), io_weight(&text), io_latency(&text));
        }
    }
}
