//! What each reading can be. A driver that says `SUCCESS` may still give a number that no GPU has: all ones of 32 or 64 bits,
//! minus one as an unsigned number, DCGM's blanks, or no number at all.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::super::Unit;
use super::{Call, Field, ROWS, Read, Scope};

/// Beyond this a double does not count one by one.
const COUNT: f64 = 9_007_199_254_740_992.0;

/// The most errors of a GPU: one less than all ones of 32 bits.
const ERRORS: f64 = 4_294_967_294.0;

/// Cycles since the boot, of all multiprocessors.
const CYCLES: f64 = 9.2e18;

/// Large totals: nanoseconds of thirty years, bytes of a year over the fastest links.
const TOTAL: f64 = 1e18;

/// 256 TiB.
const BYTES: f64 = 281_474_976_710_656.0;

/// Twenty kilowatts: ten times what the largest product draws.
const MILLIWATTS: f64 = 20e6;

/// The sum over the links of a GPU, each at a terabyte per second.
const BYTES_PER_SECOND: f64 = 1e14;

impl Read {
    /// The numbers that the reading can be, in the unit in which it is read. Anything else is absent.
    #[must_use]
    pub fn plausible(self) -> RangeInclusive<f64> {
        match self {
            Read::Call(call) => of_call(call),
            Read::Field(field) => of_field(field),
            Read::NvlinkRate(_) => 0.0..=BYTES_PER_SECOND,
            Read::Gpm(248..=260) => 0.0..=CYCLES,
            read => of_unit(unit(read)),
        }
    }
}

/// The unit in which the catalog's rows read it.
fn unit(read: Read) -> Unit {
    static UNITS: LazyLock<BTreeMap<Read, Unit>> =
        LazyLock::new(|| ROWS.iter().map(|row| (row.read, row.unit)).collect());
    UNITS.get(&read).copied().unwrap_or(Unit::None)
}

fn of_unit(unit: Unit) -> RangeInclusive<f64> {
    match unit {
        Unit::Percent => 0.0..=100.0,
        Unit::Ratio => 0.0..=1.0,
        Unit::Celsius => -100.0..=200.0,
        Unit::Milliwatts => 0.0..=MILLIWATTS,
        Unit::Watts => 0.0..=MILLIWATTS / 1e3,
        Unit::Megahertz => 0.0..=50_000.0,
        Unit::Hertz => 0.0..=50e9,
        Unit::Bytes => 0.0..=BYTES,
        Unit::Mebibytes => 0.0..=BYTES / 1_048_576.0,
        Unit::BytesPerSecond => 0.0..=BYTES_PER_SECOND,
        Unit::MebibytesPerSecond | Unit::MegabytesPerSecond => 0.0..=BYTES_PER_SECOND / 1e6,
        Unit::Nanoseconds | Unit::Seconds | Unit::Joules | Unit::Millijoules => 0.0..=TOTAL,
        Unit::None => 0.0..=COUNT,
    }
}

fn of_call(call: Call) -> RangeInclusive<f64> {
    match call {
        Call::PcieGeneration | Call::PcieGenerationMax => 1.0..=15.0,
        Call::PcieWidth | Call::PcieWidthMax => 1.0..=64.0,
        Call::PerformanceState => 0.0..=15.0,
        // A fan may turn faster than its nominal speed.
        Call::FanSpeed => 0.0..=200.0,
        Call::RemapMax | Call::RemapHigh | Call::RemapPartial | Call::RemapLow | Call::RemapNone => 0.0..=1e6,
        Call::FabricStatus => 0.0..=15.0,
        Call::FabricError | Call::FabricClique | Call::FabricHealthMask | Call::FabricHealthSummary => {
            0.0..=f64::from(u32::MAX)
        }
        Call::Power | Call::PowerUsage => 0.0..=MILLIWATTS,
        Call::VgpuLicense => 0.0..=1.0,
        call => of_unit(unit(Read::Call(call))),
    }
}

fn of_field(field: Field) -> RangeInclusive<f64> {
    match field.id {
        // Switches: ECC and what it will be, pages that wait, remapping that waits or failed, resets that are wanted.
        1 | 2 | 31 | 144 | 145 | 226 | 227 => 0.0..=1.0,
        // NVLinks that the GPU has.
        91 => 0.0..=64.0,
        // Power: now, its average, and the limits.
        185..=193 => 0.0..=MILLIWATTS,
        // What the driver wants done.
        230 => 0.0..=255.0,
        // Data over links.
        138..=141 | 202..=205 => 0.0..=TOTAL,
        // Time below the clocks asked for.
        74..=81 | 251..=253 | 269..=271 => 0.0..=TOTAL,
        _ => match (unit(Read::Field(field)), field.scope) {
            (Unit::None, Scope::Gpu) => 0.0..=ERRORS,
            (unit, _) => of_unit(unit),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What drivers are seen to write where they know nothing.
    const SENTINELS: [f64; 6] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 18_446_744_073_709_551_615.0, 9_223_372_036_854_775_792.0, -1e9];

    #[test]
    fn no_row_takes_a_sentinel() {
        for row in ROWS.iter().filter(|row| !row.is_label() && !matches!(row.read, Read::Event(_))) {
            let range = row.read.plausible();
            for sentinel in SENTINELS {
                assert!(!range.contains(&sentinel), "{}: {sentinel}", row.legacy.name);
            }
            let is_count = matches!(row.unit, Unit::None | Unit::Nanoseconds | Unit::Millijoules | Unit::Bytes)
                || row.unit == Unit::BytesPerSecond;
            assert!(is_count || !range.contains(&f64::from(u32::MAX)), "{}", row.legacy.name);
        }
    }

    #[test]
    fn what_reports_have_shown_is_none() {
        for (call, absurd, sound) in [
            (Call::Temperature, 644_245_923.0, 91.0),
            (Call::GpuUtilization, 4_294_967_295.0, 100.0),
            (Call::MemoryUtilization, 176_314.0, 0.0),
            (Call::PowerUsage, 4_294_967_295.0, 1_400_000.0),
            (Call::Power, 4_294_967_295.0, 0.0),
            (Call::PcieWidth, 0.0, 16.0),
            (Call::PcieGeneration, 4_294_967_295.0, 5.0),
            (Call::MemoryUsedShare, 2.5, 1.0),
            (Call::SmClock, 4_294_967_295.0, 1980.0),
            (Call::MemoryUsed, 18_446_744_073_709_551_615.0, 150e9),
            (Call::TemperatureMargin, -2_147_483_648.0, -3.0),
        ] {
            let range = Read::Call(call).plausible();
            assert_eq!((range.contains(&absurd), range.contains(&sound)), (false, true), "{call:?}");
        }
        for row in [&super::super::ECC_SBE_VOL, &super::super::ECC_DBE_AGG, &super::super::PCIE_REPLAY] {
            assert!(!row.read.plausible().contains(&f64::from(u32::MAX)), "{}", row.legacy.name);
        }
    }
}
