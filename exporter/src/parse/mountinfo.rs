//! `/proc/PID/mountinfo`: what a process sees mounted, with the devices behind it (filesystems/proc.rst, 3.5).

use super::{ParseError, Parsed, rows};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Major and minor number of the device, as in `259:2`; a major of 0 is no block device.
    pub device: &'a str,
    /// Where it is, as the kernel prints it: white space in it is escaped.
    pub point: &'a str,
    /// The kind of file system.
    pub kind: &'a str,
    /// The file system's own options.
    pub options: &'a str,
}

impl<'a> Mount<'a> {
    /// The value of an option such as `upperdir=/a`; `None` when it is not set.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&'a str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Parses the file.
pub fn parse(text: &str) -> Parsed<Vec<Mount<'_>>> {
    const EXPECTED: &str = "ids, a device, a root, a mount point, options, a dash, a kind, a source and options";
    rows(text, |number, line| mount(line).ok_or_else(|| ParseError::new(number, EXPECTED, line)))
}

fn mount(line: &str) -> Option<Mount<'_>> {
    // A number of optional fields stands before the dash.
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let (device, point) = (before.next()?, before.nth(1)?);
    let mut behind = behind.split(' ');
    Some(Mount { device, point, kind: behind.next()?, options: behind.nth(1)? })
}

/// The mount that a path from the root is on: of the deepest ones the last, which covers the others.
#[must_use]
pub fn holding<'a, 'b>(mounts: &'b [Mount<'a>], path: &str) -> Option<&'b Mount<'a>> {
    let holds = |mount: &&Mount<'_>| {
        path.strip_prefix(mount.point.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    mounts.iter().filter(holds).max_by_key(|mount| mount.point.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "24 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n\
        25 24 0:22 / /run rw - tmpfs tmpfs rw,size=1k\n\
        26 24 253:0 / /var/lib rw shared:2 master:1 - xfs /dev/mapper/a-b rw,attr2\n";

    #[test]
    fn the_mount_of_a_path() {
        let mounts = parse(TEXT).value;
        let device = |path: &str| holding(&mounts, path).map(|mount| mount.device);
        assert_eq!(device("/var/lib/containerd/x"), Some("253:0"));
        assert_eq!(device("/var/library"), Some("259:2"));
        assert_eq!(device("/var/lib"), Some("253:0"));
        assert_eq!(device("relative/diff"), None);
        assert_eq!((mounts[1].kind, mounts[1].option("size"), mounts[1].option("mode")), ("tmpfs", Some("1k"), None));
        assert_eq!(parse("24 1 259:2 / / rw\n").left_out.first.unwrap().line, 1);
    }

    proptest! {
        #[test]
        fn never_panics(text in "([0-9]{1,3}| |:|/| - |ext4|upperdir=|,|\n|\\PC)*") {
            let _ = holding(&parse(&text).value, &text).map(|m| m.option("upperdir").is_some());
        }
    }
}
