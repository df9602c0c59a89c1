//! `/proc/PID/mountstats`: the NFS mounts in it, as the NFS client prints them for nfs-utils' mountstats(8).

use std::time::Duration;

use super::{ParseError, lines};

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

/// One NFS mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Where it is mounted.
    pub point: &'a str,
    /// Server and path.
    pub export: &'a str,
    /// Bytes read from the server.
    pub read_bytes: u64,
    /// Bytes written to the server.
    pub written_bytes: u64,
    /// `READ`
    pub read: Operations,
    /// `WRITE`
    pub write: Operations,
    /// All others: opening, looking up, listing, asking for attributes.
    pub other: Operations,
}

/// Parses the file. A mount that another covers, at the same place, is left out.
pub fn parse(text: &str) -> Result<Vec<Mount<'_>>, ParseError> {
    let mut mounts: Vec<Mount<'_>> = Vec::new();
    let (mut inside, mut per_op) = (false, false);
    for (number, line) in lines(text) {
        if let Some(device) = line.strip_prefix("device ") {
            (inside, per_op) = (false, false);
            if let Some(mount) = nfs(device) {
                mounts.retain(|other| other.point != mount.point);
                mounts.push(mount);
                inside = true;
            }
            continue;
        }
        let Some(mount) = mounts.last_mut().filter(|_| inside) else { continue };
        if line.starts_with("per-op statistics") {
            per_op = true;
        } else if let Some(bytes) = line.strip_prefix("bytes:") {
            let [.., read, written] = numbers::<6>(bytes)
                .ok_or_else(|| ParseError::new(number, "at least 6 unsigned numbers behind bytes:", line))?;
            (mount.read_bytes, mount.written_bytes) = (read, written);
        } else if per_op {
            operation(mount, line)
                .ok_or_else(|| ParseError::new(number, "an operation and at least 8 unsigned numbers", line))?;
        }
    }
    Ok(mounts)
}

/// `SERVER:/PATH mounted on PLACE with fstype nfs4 statvers=1.1`; the kernel writes spaces in names as `\040`.
fn nfs(device: &str) -> Option<Mount<'_>> {
    let (export, rest) = device.split_once(" mounted on ")?;
    let (point, kind) = rest.split_once(" with fstype ")?;
    let kind = kind.split(' ').next()?;
    ["nfs", "nfs4"].contains(&kind).then(|| Mount { point, export, ..Mount::default() })
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
    let (name, rest) = line.split_once(':')?;
    let [requests, transmissions, _, _, _, _, round_trip, execution] = numbers::<8>(rest)?;
    let sum = match name {
        "READ" => &mut mount.read,
        "WRITE" => &mut mount.write,
        _ => &mut mount.other,
    };
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
        let mounts = parse(first).unwrap();
        assert_eq!((mounts.len(), mounts[0].point, mounts[0].export), (1, "/data", "srv:/a"));
        assert_eq!((mounts[0].read_bytes, mounts[0].written_bytes), (5, 6));
        assert_eq!((mounts[0].read.requests, mounts[0].read.transmissions), (10, 12));
        assert_eq!(mounts[0].read.round_trip, Duration::from_millis(30));
        assert_eq!(mounts[0].other.execution, Duration::from_millis(7), "NULL and GETATTR");
        assert_eq!(mounts[0].write, Operations::default());
    }

    #[test]
    fn a_covered_mount_is_left_out() {
        let mounts = parse(TEXT).unwrap();
        assert_eq!((mounts.len(), mounts[0].export, mounts[0].read_bytes), (1, "srv:/b", 50));
    }

    #[test]
    fn short_lines_are_named() {
        let head = "device s:/a mounted on /data with fstype nfs\n";
        assert_eq!(parse(&format!("{head}bytes: 1 2\n")).unwrap_err().line, 2);
        assert_eq!(parse(&format!("{head}per-op statistics\nREAD: 1 2\n")).unwrap_err().line, 3);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(device a mounted on b with fstype nfs\n|bytes:|per-op statistics\n|READ:|[0-9]{1,21}| |\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}
