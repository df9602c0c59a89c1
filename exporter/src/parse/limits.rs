//! `/proc/PID/limits` (proc_pid_limits(5)).

use super::{ParseError, lines};

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many bytes.
    Bytes(u64),
    /// None.
    Unlimited,
}

impl Limit {
    /// The bytes of a limit that is one.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Unlimited => None,
        }
    }
}

/// The soft limit of locked memory; `None` when the kernel does not say.
pub fn max_locked_memory(text: &str) -> Result<Option<Limit>, ParseError> {
    soft(text, "Max locked memory")
}

/// The soft limit of open files, which are no bytes; `None` when the kernel does not say or there is no limit.
pub fn max_open_files(text: &str) -> Result<Option<u64>, ParseError> {
    Ok(soft(text, "Max open files")?.and_then(Limit::bytes))
}

fn soft(text: &str, name: &str) -> Result<Option<Limit>, ParseError> {
    let mut rows = lines(text).filter_map(|(number, line)| Some((number, line, line.strip_prefix(name)?)));
    let Some((number, line, values)) = rows.next() else { return Ok(None) };
    let limit = match values.split_ascii_whitespace().next() {
        Some("unlimited") => Some(Limit::Unlimited),
        soft => soft.and_then(|soft| soft.parse().ok()).map(Limit::Bytes),
    };
    limit.map(Some).ok_or_else(|| ParseError::new(number, "a soft limit that is a number or unlimited", line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn soft_limits() {
        let head = "Limit                     Soft Limit           Hard Limit           Units     \n";
        for (row, limit) in [
            (
                "Max locked memory         8388608              unlimited            bytes     \n",
                Some(Limit::Bytes(8 << 20)),
            ),
            (
                "Max locked memory         unlimited            unlimited            bytes     \n",
                Some(Limit::Unlimited),
            ),
            ("Max file locks            unlimited            unlimited            locks     \n", None),
        ] {
            assert_eq!(max_locked_memory(&format!("{head}{row}")), Ok(limit), "{row}");
        }
        assert_eq!(max_locked_memory(&format!("{head}Max locked memory  much\n")).unwrap_err().line, 2);
        assert_eq!(max_open_files("Max open files  1024  1048576  files\n"), Ok(Some(1024)));
        assert_eq!(max_open_files("Max open files  unlimited  unlimited  files\n"), Ok(None));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(Max locked memory|Max open files|unlimited|[0-9]{1,21}| |\n|\\PC)*") {
            let _ = (max_locked_memory(&text), max_open_files(&text));
        }
    }
}
