//! Whose DCGM families are served: dcgm-exporter's `--devices`.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A selection of GPUs. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    gpus: Option<BTreeSet<u32>>,
    /// MIG instances were asked for, which are always shown with their GPU.
    pub instances: bool,
}

impl Devices {
    /// Is a series with this `gpu` label served? One without is.
    #[must_use]
    pub fn include(&self, gpu: Option<&str>) -> bool {
        let (Some(gpus), Some(gpu)) = (&self.gpus, gpu) else { return true };
        gpu.parse().is_ok_and(|index: u32| gpus.contains(&index))
    }
}

/// Highest index that is believed; DCGM knows 32 GPUs.
const MAX_INDEX: u32 = 1023;

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected f, g, i, or g: or i: with indexes such as 0,2-3".to_owned();
        let (kind, list) = text.split_once(':').map_or((text, None), |(kind, list)| (kind, Some(list)));
        let indexes = list.map(|list| indexes(list).ok_or_else(expected)).transpose()?;
        match (kind, indexes) {
            ("f", None) => Ok(Self::default()),
            ("g", gpus) => Ok(Self { gpus, instances: false }),
            ("i", _) => Ok(Self { gpus: None, instances: true }),
            _ => Err(expected()),
        }
    }
}

fn indexes(list: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > MAX_INDEX {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_selected_by_index() {
        let included = |text: &str| {
            let devices: Devices = text.parse().unwrap();
            (0..6).filter(|gpu| devices.include(Some(&gpu.to_string()))).collect::<Vec<u32>>()
        };
        for (text, expected) in
            [("f", vec![0, 1, 2, 3, 4, 5]), ("g", vec![0, 1, 2, 3, 4, 5]), ("i:0", vec![0, 1, 2, 3, 4, 5])]
        {
            assert_eq!(included(text), expected, "{text}");
        }
        assert_eq!(included("g:0,2-3,5"), [0, 2, 3, 5]);
        let devices: Devices = "g:0".parse().unwrap();
        assert!(devices.include(None) && !devices.include(Some("x")) && !devices.include(Some("00000001")));
    }

    #[test]
    fn anything_else_is_an_error() {
        for text in ["", "x", "f:0", "g:", "g:a", "g:3-1", "g:0-4294967295", "g:0:1", "g: 1"] {
            assert!(text.parse::<Devices>().is_err(), "{text}");
        }
    }
}
