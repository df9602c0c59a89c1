//! `/proc/PID/mounts`: what a process sees mounted (fstab's columns, filesystems/proc.rst).

use super::{ParseError, Parsed, rows};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Where it is, as the kernel prints it: white space in it is escaped.
    pub point: &'a str,
    /// The kind of file system.
    pub kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    /// The value of an option such as `size=65536k`; `None` when it is not set.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Parses the file.
pub fn parse(text: &str) -> Parsed<Vec<Mount<'_>>> {
    rows(text, |number, line| {
        let mut fields = line.split(' ').skip(1);
        let mount = fields.next().zip(fields.next()).zip(fields.next());
        let mount = mount.map(|((point, kind), options)| Mount { point, kind, options });
        mount.ok_or_else(|| ParseError::new(number, "a device, a mount point, a kind and options", line))
    })
}

/// Bytes of a tmpfs' size as the kernel prints it, in KiB; `None` for anything else.
#[must_use]
pub fn tmpfs_size(size: &str) -> Option<u64> {
    size.strip_suffix('k')?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns() {
        let text = "shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\nnas:/a /data nfs4 rw,rsize=65536,hard 0 0\n";
        let mounts = parse(text).value;
        assert_eq!((mounts[0].point, mounts[0].kind), ("/dev/shm", "tmpfs"));
        assert_eq!(mounts[0].option("size").and_then(tmpfs_size), Some(64 << 20));
        assert_eq!((mounts[1].option("rsize"), mounts[1].option("wsize")), (Some("65536"), None));
        assert_eq!(parse("a b c d 0 0\nproc /proc\n").left_out.first.unwrap().line, 2);
        assert_eq!((tmpfs_size("50%"), tmpfs_size("k")), (None, None));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(/dev/shm| |tmpfs|size=|k|,|[0-9]{1,21}|\n|\\PC)*") {
            let _ = (parse(&text), tmpfs_size(&text));
        }
    }
}
