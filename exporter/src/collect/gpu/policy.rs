//! `DCGM_EXP_GPU_HEALTH_STATUS`: DCGM's health policy, by its published limits, over readings and their growth.
//!
//! A subsystem is judged only by its readable values; one without any is not judged at all.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::source::nvml::Values;
use goodput_catalog::dcgm::{self as rows, Row};

/// Rates are judged over at least so long.
const PERIOD: Duration = Duration::from_secs(60);

/// DCGM's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Pass = 0,
    Warn = 10,
    Fail = 20,
}

use Grade::{Fail, Pass, Warn};

/// What was found of a subsystem: the worst result, and DCGM's name of its reason.
pub(super) type Found = (Grade, &'static str);

/// Subsystems by DCGM's names, and the XIDs that it counts against each (DCGM's, where NVIDIA's catalogue of XIDs says
/// otherwise of some).
const WATCHES: [(&str, &[u64], &[u64]); 6] = [
    ("ALL", &[94], &[48, 74, 79, 95, 119, 120, 140]),
    ("MEM", &[31, 32, 43, 63], &[64]),
    ("NVLINK", &[67, 73, 121, 137], &[]),
    ("PCIE", &[38, 39, 42], &[]),
    ("POWER", &[54, 56, 57, 58, 78], &[]),
    ("THERMAL", &[60, 61, 62], &[]),
];

/// Retired pages that DCGM allows in all, and for double-bit errors.
const RETIRED: (f64, f64) = (63.0, 15.0);
/// Rows remapped for uncorrectable errors that DCGM allows.
const REMAPPED: f64 = 512.0;
/// NVLink CRC errors per second that DCGM allows.
const CRC_PER_SECOND: f64 = 100.0;
/// GT/s per lane by PCIe generation, from the first on: one retry in 1e12 bits makes a thousandth of it, times 60, a minute.
const LINE_RATES: [f64; 6] = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];

/// Readings at one moment, by field id.
#[derive(Clone, Debug, Default)]
pub(super) struct Look(BTreeMap<u16, f64>);

impl Look {
    pub(super) fn at(values: &Values) -> Self {
        Self(rows::HEALTH.iter().filter_map(|row| Some((row.id, values.get(row.read).ok()?))).collect())
    }

    fn get(&self, row: &Row) -> Option<f64> {
        self.0.get(&row.id).copied()
    }
}

/// Growth since an earlier look.
struct Growth<'a> {
    now: &'a Look,
    before: &'a Look,
    seconds: f64,
}

impl Growth<'_> {
    /// A counter that fell was reset with the driver: it has not grown since, for all that is known.
    fn of(&self, row: &Row) -> Option<f64> {
        Some((self.now.get(row)? - self.before.get(row)?).max(0.0))
    }
}

/// Judges each subsystem with at least one known value. `before` is a look at least [`PERIOD`] ago, and how long ago;
/// `xids` are those of the last while, by code.
pub(super) fn judge(
    now: &Look,
    before: Option<(&Look, Duration)>,
    xids: &BTreeMap<u64, u64>,
    events: bool,
) -> BTreeMap<&'static str, Found> {
    let mut found: BTreeMap<&'static str, Found> = BTreeMap::new();
    let mut note = |watch, result: Option<bool>, bad: Found| {
        let Some(is_bad) = result else { return };
        let next = if is_bad { bad } else { (Pass, "DCGM_FR_OK") };
        let worst = found.entry(watch).or_insert(next);
        if next.0 > worst.0 {
            *worst = next;
        }
    };
    let above = |row, limit| now.get(row).map(|value| value > limit);
    let retired = now.get(&rows::RETIRED_SBE).zip(now.get(&rows::RETIRED_DBE)).map(|(sbe, dbe)| sbe + dbe);
    note("MEM", above(&rows::ECC_DBE_VOL, 0.0), (Fail, "DCGM_FR_VOLATILE_DBE_DETECTED"));
    note("MEM", above(&rows::ROW_REMAP_FAILURE, 0.0), (Fail, "DCGM_FR_ROW_REMAP_FAILURE"));
    note("MEM", retired.map(|pages| pages >= RETIRED.0), (Warn, "DCGM_FR_RETIRED_PAGES_LIMIT"));
    note("MEM", above(&rows::RETIRED_DBE, RETIRED.1), (Warn, "DCGM_FR_RETIRED_PAGES_DBE_LIMIT"));
    note("MEM", above(&rows::RETIRED_PENDING, 0.0), (Warn, "DCGM_FR_PENDING_PAGE_RETIREMENTS"));
    let remapped = now.get(&rows::UNCORRECTABLE_REMAPPED_ROWS).map(|rows| rows >= REMAPPED);
    note("MEM", remapped, (Warn, "DCGM_FR_UNCORRECTABLE_ROW_REMAP"));
    note("POWER", Some(now.get(&rows::POWER_USAGE).is_none()), (Warn, "DCGM_FR_POWER_UNREADABLE"));
    if let Some((before, ago)) = before {
        let growth = Growth { now, before, seconds: ago.as_secs_f64() };
        let grew = |row| growth.of(row).map(|by| by > 0.0);
        note("THERMAL", grew(&rows::THERMAL_VIOLATION), (Warn, "DCGM_FR_CLOCK_THROTTLE_THERMAL"));
        note("POWER", grew(&rows::POWER_VIOLATION), (Warn, "DCGM_FR_CLOCK_THROTTLE_POWER"));
        for row in [&rows::NVLINK_REPLAY, &rows::NVLINK_RECOVERY] {
            note("NVLINK", grew(row), (Warn, "DCGM_FR_NVLINK_ERROR_THRESHOLD"));
        }
        for row in [&rows::NVLINK_CRC_FLIT, &rows::NVLINK_CRC_DATA] {
            let often = growth.of(row).map(|by| by / growth.seconds >= CRC_PER_SECOND);
            note("NVLINK", often, (Warn, "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD"));
        }
        note("PCIE", replays_too_often(&growth), (Warn, "DCGM_FR_PCI_REPLAY_RATE"));
    }
    for (watch, warn, fail) in WATCHES {
        let seen = |codes: &[u64]| events.then(|| codes.iter().any(|code| xids.get(code).is_some_and(|n| *n > 0)));
        note(watch, seen(warn), (Warn, "DCGM_FR_XID_ERROR"));
        note(watch, seen(fail), (Fail, "DCGM_FR_XID_ERROR"));
    }
    found
}

/// Retries per minute against what the link's bit error rate allows, rounded up.
fn replays_too_often(growth: &Growth<'_>) -> Option<bool> {
    let replays = growth.of(&rows::PCIE_REPLAY)? * 60.0 / growth.seconds;
    let generation = growth.now.get(&rows::PCIE_LINK_GEN)? as usize;
    let rate = LINE_RATES.get(generation.checked_sub(1)?)?;
    Some(replays > (rate / 1000.0 * 60.0 * growth.now.get(&rows::PCIE_LINK_WIDTH)?).ceil())
}

/// Looks of the last minute.
#[derive(Default)]
pub(super) struct Looks(VecDeque<(Instant, Look)>);

impl Looks {
    /// Keeps the look; gives the newest that is old enough to judge rates by, and its age.
    pub(super) fn keep(&mut self, at: Instant, look: Look) -> Option<(Look, Duration)> {
        let age = |then: &Instant| at.saturating_duration_since(*then);
        while self.0.get(1).is_some_and(|(then, _)| age(then) >= PERIOD) {
            self.0.pop_front();
        }
        let before = self.0.front().filter(|(then, _)| age(then) >= PERIOD);
        let before = before.map(|(then, look)| (look.clone(), age(then)));
        self.0.push_back((at, look));
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(readings: &[(&Row, f64)]) -> Look {
        let power = [(rows::POWER_USAGE.id, 100.0)].into_iter();
        Look(power.chain(readings.iter().map(|(row, value)| (row.id, *value))).collect())
    }

    /// The judgement of a watch, after a minute from one look to the other.
    fn of(watch: &str, before: &[(&Row, f64)], now: &[(&Row, f64)], xids: &[u64]) -> Option<Found> {
        let xids = xids.iter().map(|code| (*code, 1)).collect();
        judge(&look(now), Some((&look(before), PERIOD)), &xids, true).get(watch).copied()
    }

    #[test]
    fn each_limit_is_where_it_is_published() {
        use goodput_catalog::dcgm::*;
        let link =
            |generation, replays| [(&PCIE_LINK_GEN, generation), (&PCIE_LINK_WIDTH, 16.0), (&PCIE_REPLAY, replays)];
        type Readings<'a> = &'a [(&'a Row, f64)];
        let cases: &[(&str, Readings<'_>, Readings<'_>, Option<Found>)] = &[
            ("MEM", &[], &[(&ECC_DBE_VOL, 0.0)], None),
            ("MEM", &[], &[(&ECC_DBE_VOL, 1.0)], Some((Fail, "DCGM_FR_VOLATILE_DBE_DETECTED"))),
            ("MEM", &[], &[(&ROW_REMAP_FAILURE, 1.0)], Some((Fail, "DCGM_FR_ROW_REMAP_FAILURE"))),
            ("MEM", &[], &[(&RETIRED_SBE, 60.0), (&RETIRED_DBE, 2.0)], None),
            ("MEM", &[], &[(&RETIRED_SBE, 61.0), (&RETIRED_DBE, 2.0)], Some((Warn, "DCGM_FR_RETIRED_PAGES_LIMIT"))),
            ("MEM", &[], &[(&RETIRED_DBE, 15.0)], None),
            ("MEM", &[], &[(&RETIRED_DBE, 16.0)], Some((Warn, "DCGM_FR_RETIRED_PAGES_DBE_LIMIT"))),
            ("MEM", &[], &[(&RETIRED_PENDING, 1.0)], Some((Warn, "DCGM_FR_PENDING_PAGE_RETIREMENTS"))),
            ("MEM", &[], &[(&UNCORRECTABLE_REMAPPED_ROWS, 511.0)], None),
            ("MEM", &[], &[(&UNCORRECTABLE_REMAPPED_ROWS, 512.0)], Some((Warn, "DCGM_FR_UNCORRECTABLE_ROW_REMAP"))),
            ("PCIE", &link(4.0, 100.0), &link(4.0, 116.0), None),
            ("PCIE", &link(4.0, 100.0), &link(4.0, 117.0), Some((Warn, "DCGM_FR_PCI_REPLAY_RATE"))),
            ("PCIE", &link(5.0, 0.0), &link(5.0, 31.0), None),
            ("PCIE", &link(5.0, 0.0), &link(5.0, 32.0), Some((Warn, "DCGM_FR_PCI_REPLAY_RATE"))),
            ("PCIE", &link(5.0, 500.0), &link(5.0, 0.0), None),
            ("NVLINK", &[(&NVLINK_REPLAY, 5.0)], &[(&NVLINK_REPLAY, 5.0)], None),
            (
                "NVLINK",
                &[(&NVLINK_REPLAY, 5.0)],
                &[(&NVLINK_REPLAY, 6.0)],
                Some((Warn, "DCGM_FR_NVLINK_ERROR_THRESHOLD")),
            ),
            ("NVLINK", &[(&NVLINK_CRC_FLIT, 0.0)], &[(&NVLINK_CRC_FLIT, 5999.0)], None),
            (
                "NVLINK",
                &[(&NVLINK_CRC_FLIT, 0.0)],
                &[(&NVLINK_CRC_FLIT, 6000.0)],
                Some((Warn, "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD")),
            ),
            (
                "THERMAL",
                &[(&THERMAL_VIOLATION, 1.0)],
                &[(&THERMAL_VIOLATION, 2.0)],
                Some((Warn, "DCGM_FR_CLOCK_THROTTLE_THERMAL")),
            ),
            (
                "POWER",
                &[(&POWER_VIOLATION, 1.0)],
                &[(&POWER_VIOLATION, 2.0)],
                Some((Warn, "DCGM_FR_CLOCK_THROTTLE_POWER")),
            ),
        ];
        for (watch, before, now, expected) in cases {
            let expected = expected.unwrap_or((Pass, "DCGM_FR_OK"));
            assert_eq!(
                of(watch, before, now, &[]),
                Some(expected),
                "{watch} {:?}",
                now.iter().map(|(row, value)| (row.legacy.name, value)).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn xids_count_against_their_subsystem_and_the_worst_stands() {
        let xid = |result| Some((result, "DCGM_FR_XID_ERROR"));
        assert_eq!(of("ALL", &[], &[], &[79]), xid(Fail));
        assert_eq!(of("ALL", &[], &[], &[94]), xid(Warn));
        assert_eq!(of("MEM", &[], &[], &[31]), xid(Warn));
        assert_eq!(of("MEM", &[], &[], &[31, 64]), xid(Fail));
        assert_eq!(of("PCIE", &[], &[], &[31]), Some((Pass, "DCGM_FR_OK")));
        let both = of("MEM", &[], &[(&rows::RETIRED_PENDING, 1.0)], &[64]);
        assert_eq!(both, xid(Fail));
    }

    #[test]
    fn what_cannot_be_read_is_not_judged_but_power_that_cannot_is_a_warning() {
        let judged = judge(&Look::default(), None, &BTreeMap::new(), false);
        let expected = [("POWER", (Warn, "DCGM_FR_POWER_UNREADABLE"))];
        assert_eq!(judged.into_iter().collect::<Vec<_>>(), expected);
    }
}
