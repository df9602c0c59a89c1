//! `devices.list` of a v1 cgroup: what it may open, as `c 195:3 rwm` (cgroup-v1/devices.rst).

use std::collections::BTreeSet;

use super::{Parsed, rows};

/// Major number of the GPUs' device files.
const NVIDIA: &str = "195";

/// Minor numbers from here on are no GPUs: `nvidia-modeset` and `nvidiactl`.
const NO_GPU: u32 = 254;

/// The minor numbers of the GPUs that may be opened; `None` where all devices may be, so that nothing is said of GPUs.
pub fn gpus(text: &str) -> Parsed<Option<BTreeSet<u32>>> {
    let device = |number, line: &str| {
        let expected = || super::ParseError::new(number, "a type, MAJOR:MINOR and rights", line);
        let mut words = line.split_ascii_whitespace();
        let (kind, numbers) = words.next().zip(words.next()).ok_or_else(expected)?;
        let (major, minor) = numbers.split_once(':').ok_or_else(expected)?;
        Ok((
            kind == "a" || (kind == "c" && ["*", NVIDIA].contains(&major) && minor == "*"),
            major.to_owned(),
            minor.to_owned(),
        ))
    };
    rows(text, device).map(|devices| {
        if devices.iter().any(|(all, ..)| *all) {
            return None;
        }
        let of_nvidia = devices.iter().filter(|(_, major, _)| major == NVIDIA);
        Some(of_nvidia.filter_map(|(_, _, minor)| minor.parse().ok()).filter(|minor| *minor < NO_GPU).collect())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gpus_among_other_devices() {
        for (text, minors) in [
            ("c 1:3 rwm\nc 195:0 rwm\nc 195:7 rwm\nc 195:255 rwm\nc 195:254 rwm\nb 8:0 m\n", Some(vec![0, 7])),
            ("c 1:3 rwm\n", Some(vec![])),
            ("a *:* rwm\n", None),
            ("c 195:* rwm\n", None),
            ("c 195:1 rwm\nnonsense\n", Some(vec![1])),
        ] {
            assert_eq!(gpus(text).value, minors.map(BTreeSet::from_iter), "{text}");
        }
        assert_eq!(gpus("c 195:1 rwm\nnonsense\n").left_out.count, 1);
    }

    proptest! {
        #[test]
        fn never_panics(text in "([abc] |195:|[0-9*]{1,4}|:| |\n|\\PC)*") {
            let _ = gpus(&text);
        }
    }
}
