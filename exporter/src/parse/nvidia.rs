//! `/proc/driver/nvidia/version`: the kernel module that is loaded.

use super::{ParseError, lines};

/// The NVIDIA kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Such as `580.105.08`.
    pub version: String,
    /// Is it the open one?
    pub open: bool,
}

/// Parses the line `NVRM version: NVIDIA UNIX x86_64 Kernel Module  460.56  …`, in which the open module calls itself
/// `Open Kernel Module for x86_64`.
pub fn module(text: &str) -> Result<Module, ParseError> {
    let error = |number, line| ParseError::new(number, "NVRM version: … Kernel Module … <number>", line);
    let rows: Vec<(usize, &str)> = lines(text).collect();
    let row = rows.iter().find_map(|(number, line)| Some((number, line, line.strip_prefix("NVRM version:")?)));
    let Some((number, line, name)) = row else { return Err(error(1, text)) };
    let (_, behind) = name.split_once("Kernel Module").ok_or_else(|| error(*number, line))?;
    let version = behind.split_ascii_whitespace().find(|word| is_version(word)).ok_or_else(|| error(*number, line))?;
    Ok(Module { version: version.to_owned(), open: name.contains("Open Kernel Module") })
}

fn is_version(word: &str) -> bool {
    word.contains('.') && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_modules() {
        for (line, version, open) in [
            ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  460.56  Tue Feb 23 23:31:36 UTC 2021", "460.56", false),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (root@build)",
                "580.105.08",
                true,
            ),
        ] {
            let text = format!("{line}\nGCC version:  gcc version 9.3.0 (Ubuntu)\n");
            assert_eq!(module(&text), Ok(Module { version: version.to_owned(), open }));
        }
        assert_eq!(module("GCC version: 9.3.0\n").unwrap_err().line, 1);
        assert_eq!(module("a\nNVRM version: NVIDIA UNIX x86_64 Kernel Module\n").unwrap_err().line, 2);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(NVRM version:|Kernel Module|[0-9.]{1,9}| |\n|\\PC)*") {
            let _ = module(&text);
        }
    }
}
