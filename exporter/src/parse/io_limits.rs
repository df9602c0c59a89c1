//! Limits on the block I/O of a cgroup: v2 `io.max` (admin-guide/cgroup-v2.rst), v1 `blkio.throttle.*_device`
//! (admin-guide/cgroup-v1/blkio-controller.rst).

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

    proptest! {
        #[test]
        fn never_panics(text in "(8:16| |rbps=|wiops=|max|[0-9]{1,21}|\n|\\PC)*") {
            let _ = (io_max(&text), throttle(&text, Kind::Reads));
        }
    }
}
