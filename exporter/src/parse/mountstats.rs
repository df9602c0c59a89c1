//! `/proc/PID/mountstats`: the NFS mounts in it, as the NFS client prints them for nfs-utils' mountstats(8).

use std::time::Duration;

use super::{ParseError, Parsed, each_line};

/// What one kind of operation of a mount did since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Requests answered or given up.
    pub requests: u64,
    /// Requests sent, repeated ones included.
    pub transmissions: u64,
    /// Sum of the times from sending to the answer.
    pub round_trip: Duration,
    /// Sum of the times from the request to its end: waiting for a slot, sending, the server, and waking up.
    pub execution: Duration,
}

/// How a mount was made, by its `opts:` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// As in `4.2`; `None` where the line does not say.
    pub version: Option<&'a str>,
    /// `tcp`, `rdma` and the like; `None` where the line does not say.
    pub protocol: Option<&'a str>,
    /// Connections to the server. The kernel names them only where the mount asked for a number.
    pub connections: u32,
    /// Time after which a request counts as lost; `None` where the line does not say.
    pub timeout: Option<Duration>,
    /// Is a request repeated until the server answers? `None` where the line does not say.
    pub is_hard: Option<bool>,
}

/// One NFS mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Where it is mounted.
    pub point: &'a str,
    /// Server and path.
    pub export: &'a str,
    /// How it was made; `None` without a line, or where that makes no sense.
    pub options: Option<Options<'a>>,
    /// Bytes read from the server; `None` where the line makes no sense.
    pub read_bytes: Option<u64>,
    /// Bytes written to the server; `None` where the line makes no sense.
    pub written_bytes: Option<u64>,
    /// `READ`; `None` where its line makes no sense.
    pub read: Option<Operations>,
    /// `WRITE`; `None` where its line makes no sense.
    pub write: Option<Operations>,
    /// All others: opening, looking up, listing, asking for attributes; `None` where one of their lines makes no sense.
    pub other: Option<Operations>,
}

/// Parses the file. A mount that another covers, at the same place, is left out.
pub fn parse(text: &str) -> Parsed<Vec<Mount<'_>>> {
    let mut mounts: Vec<Mount<'_>> = Vec::new();
    let (mut inside, mut per_op) = (false, false);
    let parsed = each_line(text, |number, line| {
        if let Some(device) = line.strip_prefix("device ") {
            (inside, per_op) = (false, false);
            if let Some(mount) = nfs(device) {
                mounts.retain(|other| other.point != mount.point);
                mounts.push(mount);
                inside = true;
            }
            return Ok(());
        }
        let Some(mount) = mounts.last_mut().filter(|_| inside) else { return Ok(()) };
        if line.starts_with("per-op statistics") {
            per_op = true;
        } else if let Some(text) = line.strip_prefix("opts:") {
            let error = || ParseError::new(number, "options, with unsigned numbers for nconnect= and timeo=", line);
            mount.options = Some(options(text).ok_or_else(error)?);
        } else if let Some(bytes) = line.strip_prefix("bytes:") {
            let [.., read, written] = numbers::<6>(bytes)
                .ok_or_else(|| ParseError::new(number, "at least 6 unsigned numbers behind bytes:", line))?;
            (mount.read_bytes, mount.written_bytes) = (Some(read), Some(written));
        } else if per_op {
            operation(mount, line)
                .ok_or_else(|| ParseError::new(number, "an operation and at least 8 unsigned numbers", line))?;
        }
        Ok(())
    });
    parsed.map(|()| mounts)
}

/// `SERVER:/PATH mounted on PLACE with fstype nfs4 statvers=1.1`; the kernel writes spaces in names as `\040`.
fn nfs(device: &str) -> Option<Mount<'_>> {
    let (export, rest) = device.split_once(" mounted on ")?;
    let (point, kind) = rest.split_once(" with fstype ")?;
    let kind = kind.split(' ').next()?;
    ["nfs", "nfs4"].contains(&kind).then(|| Mount {
        point,
        export,
        read: Some(Operations::default()),
        write: Some(Operations::default()),
        other: Some(Operations::default()),
        ..Mount::default()
    })
}

/// `rw,vers=4.2,...,hard,proto=tcp,nconnect=8,timeo=600,...`; `timeo` is in tenths of a second (nfs(5)).
fn options(text: &str) -> Option<Options<'_>> {
    let mut options = Options { connections: 1, ..Options::default() };
    for option in text.trim().split(',') {
        match option.split_once('=').unwrap_or((option, "")) {
            ("vers", version) => options.version = Some(version),
            ("proto", protocol) => options.protocol = Some(protocol),
            ("nconnect", count) => options.connections = count.parse().ok()?,
            ("timeo", tenths) => {
                options.timeout = Some(Duration::from_millis(tenths.parse::<u64>().ok()?.checked_mul(100)?))
            }
            ("hard", _) => options.is_hard = Some(true),
            ("soft" | "softerr", _) => options.is_hard = Some(false),
            _ => {}
        }
    }
    Some(options)
}

/// The first `N` numbers.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut words = text.split_ascii_whitespace();
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    Some(numbers)
}

/// `READ: requests transmissions timeouts sent received queue round_trip execution`, times in milliseconds.
fn operation(mount: &mut Mount<'_>, line: &str) -> Option<()> {
    let (name, rest) = line.split_once(':').unwrap_or((line, ""));
    let place = match name {
        "READ" => &mut mount.read,
        "WRITE" => &mut mount.write,
        _ => &mut mount.other,
    };
    // A sum that lacks one of its parts would say too little.
    let Some([requests, transmissions, _, _, _, _, round_trip, execution]) = numbers::<8>(rest) else {
        *place = None;
        return None;
    };
    let Some(sum) = place else { return Some(()) };
    sum.requests = sum.requests.saturating_add(requests);
    sum.transmissions = sum.transmissions.saturating_add(transmissions);
    sum.round_trip = sum.round_trip.saturating_add(Duration::from_millis(round_trip));
    sum.execution = sum.execution.saturating_add(Duration::from_millis(execution));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "device /dev/sda1 mounted on / with fstype ext4\n\
        device srv:/a mounted on /data with fstype nfs4 statvers=1.1\n\
        \tage:\t13968\n\tbytes:\t1 2 3 4 5 6 7 8\n\tper-op statistics\n\
        \t NULL: 1 1 0 0 0 0 1 1\n\t READ: 10 12 0 1 2 6 30 40\n\t GETATTR: 4 4 0 0 0 0 5 6 0\n\n\
        device srv:/b mounted on /data with fstype nfs statvers=1.1\n\tbytes: 1 2 3 4 50 60 7 8\n";

    #[test]
    fn sums_by_kind() {
        let (first, _) = TEXT.split_once("\n\n").unwrap();
        let mounts = parse(first).value;
        assert_eq!((mounts.len(), mounts[0].point, mounts[0].export), (1, "/data", "srv:/a"));
        assert_eq!((mounts[0].read_bytes, mounts[0].written_bytes), (Some(5), Some(6)));
        let [read, write, other] = [mounts[0].read, mounts[0].write, mounts[0].other].map(Option::unwrap);
        assert_eq!((read.requests, read.transmissions), (10, 12));
        assert_eq!(read.round_trip, Duration::from_millis(30));
        assert_eq!(other.execution, Duration::from_millis(7), "NULL and GETATTR");
        assert_eq!(write, Operations::default());
    }

    #[test]
    fn a_covered_mount_is_left_out() {
        let mounts = parse(TEXT).value;
        assert_eq!((mounts.len(), mounts[0].export, mounts[0].read_bytes), (1, "srv:/b", Some(50)));
    }

    #[test]
    fn options_of_mounts() {
        let of = |text: &str| {
            let text = format!("device s:/a mounted on /data with fstype nfs4 statvers=1.1\n\topts:\t{text}\n");
            let parsed = parse(&text);
            (parsed.value[0].export.to_owned(), parsed.left_out.count, format!("{:?}", parsed.value[0].options))
        };
        for (text, options) in [
            ("rw,vers=4.2,hard,proto=tcp,timeo=600,retrans=2", "Some(\"4.2\") Some(\"tcp\") 1 Some(60s) Some(true)"),
            ("ro,vers=3,softerr,proto=rdma,nconnect=8,timeo=5", "Some(\"3\") Some(\"rdma\") 8 Some(500ms) Some(false)"),
            ("rw", "None None 1 None None"),
        ] {
            let [version, protocol, connections, timeout, hard] =
                <[&str; 5]>::try_from(options.split(' ').collect::<Vec<_>>()).unwrap();
            let options = format!(
                "Some(Options {{ version: {version}, protocol: {protocol}, connections: {connections}, timeout: {timeout}, is_hard: {hard} }})"
            );
            assert_eq!(of(text), ("s:/a".to_owned(), 0, options), "{text}");
        }
        for bad in ["rw,nconnect=many", "rw,timeo=-1", "rw,timeo=18446744073709551615"] {
            assert_eq!(of(bad), ("s:/a".to_owned(), 1, "None".to_owned()), "{bad}");
        }
    }

    #[test]
    fn short_lines_are_named() {
        let head = "device s:/a mounted on /data with fstype nfs\n";
        let line = |text: &str| parse(&format!("{head}{text}")).left_out.first.unwrap().line;
        assert_eq!((line("bytes: 1 2\n"), line("per-op statistics\nREAD: 1 2\n")), (2, 3));
        let text = format!("{head}per-op statistics\nGETATTR: 1 x\nREAD: 10 12 0 1 2 6 30 40\nNULL: 1 1 0 0 0 0 1 1\n");
        let mount = parse(&text).value.remove(0);
        assert_eq!((mount.read.map(|read| read.requests), mount.other), (Some(10), None));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(device a mounted on b with fstype nfs\n|opts:|,timeo=|nconnect=|bytes:|per-op statistics\n|READ:|[0-9]{1,21}| |\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}
