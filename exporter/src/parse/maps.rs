//! `/proc/PID/maps`: what a process has mapped.

use super::{LeftOut, ParseError, lines};

/// Memory allocators that replace the C library's, by how the names of their libraries begin.
const ALLOCATORS: [(&str, &str); 3] =
    [("libjemalloc", "jemalloc"), ("libtcmalloc", "TCMalloc"), ("libmimalloc", "mimalloc")];

/// The allocator whose library the process has mapped; `None` is the C library's own, or one that was linked in. A line
/// that makes no sense is an error only where no other line names an allocator: it may be the one that does.
pub fn allocator(text: &str) -> Result<Option<&'static str>, ParseError> {
    let mut left_out = LeftOut::default();
    for (number, line) in lines(text) {
        let mut words = line.split_ascii_whitespace();
        if words.nth(4).is_none() {
            left_out.add(ParseError::new(number, "addresses, rights, offset, device and inode", line));
            continue;
        }
        let library = words.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        if let Some((_, name)) = ALLOCATORS.iter().find(|(begin, _)| library.starts_with(begin)) {
            return Ok(Some(name));
        }
    }
    left_out.first.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn libraries_by_name() {
        let maps = |library: &str| {
            format!("7f00-7f01 r-xp 00000000 08:01 917 /usr/lib/{library}\n7ffe-7fff rw-p 00000000 00:00 0\n")
        };
        for (library, expected) in [
            ("x86_64-linux-gnu/libc.so.6", None),
            ("x86_64-linux-gnu/libjemalloc.so.2", Some("jemalloc")),
            ("libtcmalloc_minimal.so.4.5.9", Some("TCMalloc")),
            ("libmimalloc.so.2.1", Some("mimalloc")),
            ("libjemalloc/libother.so", None),
        ] {
            assert_eq!(allocator(&maps(library)), Ok(expected), "{library}");
        }
        assert_eq!(allocator(""), Ok(None));
        assert_eq!(allocator("7f00-7f01 r-xp 0\n").unwrap_err().line, 1);
        assert_eq!(allocator(&format!("7f00-7f01 r-xp 0\n{}", maps("libmimalloc.so.2.1"))), Ok(Some("mimalloc")));
    }

    proptest! {
        #[test]
        fn never_panics(text in "([0-9a-f]{1,9}|[ /-]|libjemalloc|\n|\\PC)*") {
            let _ = allocator(&text);
        }
    }
}
