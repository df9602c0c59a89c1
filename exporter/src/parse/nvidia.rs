//! Files of `/proc/driver/nvidia`: the kernel module that is loaded, its parameters, and what it says of each GPU.

use super::{ParseError, Parsed, each_line, lines};

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

/// Calls `each` with the name and the value of every parameter of `/proc/driver/nvidia/params` that is a number.
pub fn parameters(text: &str, mut each: impl FnMut(&str, u64)) -> Parsed<()> {
    each_line(text, |number, line| {
        let (name, value) = line.split_once(':').ok_or_else(|| ParseError::new(number, "a name and a colon", line))?;
        let value = value.trim();
        // Texts are in quotes.
        if !value.starts_with('"') {
            each(
                name,
                value.parse().map_err(|_| ParseError::new(number, "an unsigned number or a text in quotes", line))?,
            );
        }
        Ok(())
    })
}

/// What `/proc/driver/nvidia/gpus/*/information` says of a GPU; what this driver does not print is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// Version of the firmware that runs on the GPU (GSP); `N/A` when none does.
    pub firmware: Option<String>,
    /// Was the GPU kept from use when the driver was loaded?
    pub excluded: Option<bool>,
}

/// Parses the file. Older drivers say `Blacklisted` for excluded.
pub fn information(text: &str) -> Parsed<Information> {
    let mut found = Information::default();
    let parsed = each_line(text, |number, line| {
        let Some((name, value)) = line.split_once(':') else { return Ok(()) };
        match (name, value.trim()) {
            ("GPU Firmware", version) => found.firmware = Some(version.to_owned()),
            ("GPU Excluded" | "Blacklisted", answer) => {
                found.excluded = Some(match answer {
                    "Yes" => true,
                    "No" => false,
                    _ => return Err(ParseError::new(number, "Yes or No", line)),
                });
            }
            _ => {}
        }
        Ok(())
    });
    parsed.map(|()| found)
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

    #[test]
    fn what_the_driver_says() {
        let mut all = Vec::new();
        let text = "EnableMSI: 1\nRmMsg: \"\"\nEnableGpuFirmware: 18\n";
        parameters(text, |name, value| all.push((name.to_owned(), value)));
        assert_eq!(all, [("EnableMSI".to_owned(), 1), ("EnableGpuFirmware".to_owned(), 18)]);
        assert_eq!(parameters("EnableMSI 1\n", |_, _| {}).left_out.first.unwrap().line, 1);
        assert_eq!(parameters("RmMsg: \"\"\nEnableMSI: -1\n", |_, _| {}).left_out.first.unwrap().line, 2);
        let new = "Model: \t H100\nGPU Firmware: \t 580.105.08\nDevice Minor: \t 0\nGPU Excluded:\t No\n";
        let expected = Information { firmware: Some("580.105.08".to_owned()), excluded: Some(false) };
        assert_eq!(information(new).value, expected);
        assert_eq!(information("Blacklisted:\t Yes\n").value, Information { firmware: None, excluded: Some(true) });
        assert_eq!(information("Model: x\nGPU Excluded: perhaps\n").left_out.first.unwrap().line, 2);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(NVRM version:|Kernel Module|GPU Excluded:|GPU Firmware:|[0-9.]{1,9}| |\n|\\PC)*") {
            let _ = (module(&text), parameters(&text, |_, _| {}), information(&text));
        }
    }
}
