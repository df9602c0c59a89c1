//! What drivers do differently, by their version: a header describes one of them only.
//!
//! Functions that a driver lacks cannot be hidden here: `drivers/symbols.csv` lists them, and the tests load a copy of the
//! library without them.

/// Drivers whose `_v3` process calls write records of 32 bytes, from the first on, before the second (nvitop #79, #88).
const LONG_RECORDS: std::ops::Range<(u32, u32)> = (535, 43)..(535, 98);

/// `NVML_FI_MAX` by the first driver branch whose nvml.h has it: CUDA 11.4, 12.0, 12.2, 12.4, 12.8, 13.0 and 13.1. The last is
/// the highest id of the newest header known.
const FIELDS: [(u32, u32); 7] = [(0, 161), (525, 170), (535, 197), (550, 200), (570, 269), (580, 274), (590, 302)];

/// The first branch whose header has version 3 of the fabric's struct (CUDA 13.0).
const FABRIC_V3: u32 = 580;

/// A driver version by its first two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Driver(u32, u32);

impl Driver {
    pub(crate) fn of(version: &str) -> Self {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        Self(parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    pub(crate) fn has_long_records(self) -> bool {
        LONG_RECORDS.contains(&(self.0, self.1))
    }

    /// The first field id that the driver does not know.
    pub(crate) fn fields(self) -> u32 {
        let known = FIELDS.iter().rev().find(|(branch, _)| *branch <= self.0);
        known.map_or(FIELDS[0].1, |(_, fields)| *fields)
    }

    pub(crate) fn has_fabric_v3(self) -> bool {
        self.0 >= FABRIC_V3
    }

    /// From 580.82 on the clock event counters are numbered 269 to 271, before 251 to 253 (NVML's known issues).
    pub(crate) fn is_renumbered(self) -> bool {
        (self.0, self.1) >= (580, 82)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_those_of_the_version() {
        for (version, long, fields, fabric_v3) in [
            ("470.256.02", false, 161, false),
            ("535.42.01", false, 197, false),
            ("535.54.03", true, 197, false),
            ("535.98", false, 197, false),
            ("550.54.14", false, 200, false),
            ("580.105.08", false, 274, true),
            ("595.91.07", false, 302, true),
        ] {
            let driver = Driver::of(version);
            assert_eq!((driver.has_long_records(), driver.fields(), driver.has_fabric_v3()), (long, fields, fabric_v3));
        }
    }
}
