//! GPUs that may fail: counters and states of the driver, compared with limits that have sources.
//!
//! A single corrected ECC error is nothing. What happened is reported for the forecast's window after it; states are
//! reported while they last. No signal shows when a GPU fails, so there is no time to a limit.

use super::course::{Course, entity_of};
use super::{Fault, Forecast, Kind, Level};
use crate::classify::Thresholds;
use crate::frame::{Levels, STALENESS_MS, growth};
use crate::signal::{Entity, Signal};
use goodput_catalog::xid_codes::{self, Action, Class, Code};
use goodput_exposition::sample::{Sample, TimeMs};
use goodput_verdict::{Damage, Evidence};

/// Counters and states of GPUs.
pub(super) const SIGNALS: &[Signal] = &[
    Signal::GpuResetRequired,
    Signal::GpuRecoveryAction,
    Signal::GpuRemapPending,
    Signal::GpuRemapFailed,
    Signal::GpuRemappedRows,
    Signal::GpuSpentBanks,
    Signal::GpuEccUncorrected,
    Signal::GpuEccCorrected,
    Signal::GpuRetiredPending,
    Signal::GpuRetiredSingle,
    Signal::GpuRetiredDouble,
    Signal::GpuXid,
    Signal::GpuXidReset,
    Signal::GpuXidRestartApp,
    Signal::GpuXidOther,
    Signal::PcieReplays,
    Signal::PcieGeneration,
    Signal::PcieWidth,
    Signal::PcieMaxGeneration,
    Signal::PcieMaxWidth,
    Signal::NvlinkCrcErrors,
    Signal::NvlinkErrors,
];

/// The faults that a GPU's own counters and states tell; those of its links need its peers.
const OWN: &[Fault] = &[
    Fault::RecoveryAction,
    Fault::RemapPending,
    Fault::RemapFailed,
    Fault::RemappedRows,
    Fault::SpentBanks,
    Fault::EccUncorrected,
    Fault::EccCorrected,
    Fault::RetiredPending,
    Fault::RetiredPages,
    Fault::Xid,
    Fault::PcieReplays,
    Fault::Nvlink,
];

/// Rates are of so long a time: one burst does not make them, and two scrapes a minute apart fit many times.
pub(super) const RATE_SECONDS: f64 = 600.0;
const HOUR_SECONDS: f64 = 3600.0;

/// Every way in which this GPU, or instance of one, may be damaged.
pub(super) fn courses<'a>(levels: &'a Levels<'a>) -> Vec<Course<'a>> {
    if !matches!(levels.entity, Entity::Gpu(_) | Entity::MigInstance(..)) {
        return Vec::new();
    }
    let of = |fault: &'static Fault| Course {
        kind: Kind::Hardware(*fault),
        cluster: &levels.cluster,
        node: &levels.node,
        entity: entity_of(levels),
        gpus: vec![levels],
        look: Box::new(move |now, t| look(*fault, &Gpu { levels, now }, t).map(Forecast::Damage)),
    };
    OWN.iter().map(of).collect()
}

fn look(fault: Fault, gpu: &Gpu<'_>, t: &Thresholds) -> Option<Damage> {
    let window = t.forecast_window_seconds;
    match fault {
        Fault::RecoveryAction => {
            let wanted = [Signal::GpuRecoveryAction, Signal::GpuResetRequired].map(|signal| gpu.is(signal, 1.0));
            Damage::new(Level::Act, 0.0, wanted.into_iter().flatten())
        }
        Fault::RemapPending => Damage::new(Level::Act, 0.0, gpu.is(Signal::GpuRemapPending, 1.0)),
        Fault::RemapFailed => Damage::new(Level::Act, 0.0, gpu.is(Signal::GpuRemapFailed, 1.0)),
        Fault::RemappedRows => {
            let grew = gpu.grew(Signal::GpuRemappedRows, window, 1.0);
            let many = gpu.is(Signal::GpuRemappedRows, t.remapped_rows);
            Damage::new(Level::Watch, window, grew.into_iter().chain(many))
        }
        Fault::SpentBanks => Damage::new(Level::Watch, 0.0, gpu.is(Signal::GpuSpentBanks, 1.0)),
        Fault::EccUncorrected => Damage::new(Level::Act, window, gpu.grew(Signal::GpuEccUncorrected, window, 1.0)),
        Fault::EccCorrected => {
            let many = gpu.grew(Signal::GpuEccCorrected, HOUR_SECONDS, t.ecc_corrected_errors);
            Damage::new(Level::Watch, HOUR_SECONDS, many)
        }
        Fault::RetiredPending => Damage::new(Level::Act, 0.0, gpu.is(Signal::GpuRetiredPending, 1.0)),
        Fault::RetiredPages => Damage::new(Level::Act, 0.0, gpu.retired(t.retired_pages)),
        Fault::Xid => gpu.xids(window),
        Fault::PcieReplays => Damage::new(Level::Watch, RATE_SECONDS, gpu.replays(t.pcie_error_ratio)),
        Fault::Nvlink => {
            let checksums = gpu.rate(Signal::NvlinkCrcErrors, t.nvlink_crc_errors);
            let other = gpu.grew(Signal::NvlinkErrors, window, t.nvlink_errors);
            Damage::new(Level::Watch, window, other.into_iter().chain(checksums))
        }
        Fault::NvlinkDown
        | Fault::NvswitchSxid
        | Fault::RdmaPortDown
        | Fault::RdmaPortSlow
        | Fault::RdmaLinkUnstable
        | Fault::RdmaLinkErrors
        | Fault::RdmaTransport => None,
    }
}

/// One GPU at one time. Each of its methods gives evidence, or nothing: too little of it, or no signal.
struct Gpu<'a> {
    levels: &'a Levels<'a>,
    now: TimeMs,
}

impl Gpu<'_> {
    /// The level is the threshold at least.
    fn is(&self, signal: Signal, threshold: f64) -> Option<Evidence> {
        let value = self.levels.at(signal, self.now)?;
        evidence(signal.name(), value, state_unit(signal), threshold)
    }

    /// The counter grew by the threshold at least. A counter that was reset grew from nought.
    fn grew(&self, signal: Signal, seconds: f64, threshold: f64) -> Option<Evidence> {
        let value = increase(self.levels.samples(signal), self.now, seconds);
        evidence(&format!("growth of {}", signal.name()), value, state_unit(signal), threshold)
    }

    /// The counter's rate per second is the threshold at least.
    fn rate(&self, signal: Signal, threshold: f64) -> Option<Evidence> {
        let value = increase(self.levels.samples(signal), self.now, RATE_SECONDS) / RATE_SECONDS;
        evidence(signal.name(), value, signal.unit(), threshold)
    }

    fn retired(&self, threshold: f64) -> Option<Evidence> {
        let pages = |signal| self.levels.at(signal, self.now);
        let value = match (pages(Signal::GpuRetiredSingle), pages(Signal::GpuRetiredDouble)) {
            (None, None) => return None,
            (single, double) => single.unwrap_or(0.0) + double.unwrap_or(0.0),
        };
        evidence("gpu_retired_single + gpu_retired_double", value, "pages", threshold)
    }

    /// An idle GPU lowers its link on purpose, so the limit follows from what the link can do. Half a replay is none.
    fn replays(&self, errors_per_bit: f64) -> Option<Evidence> {
        let at = |signal| self.levels.at(signal, self.now);
        let generation = at(Signal::PcieMaxGeneration).or_else(|| at(Signal::PcieGeneration))?;
        let lanes = at(Signal::PcieMaxWidth).or_else(|| at(Signal::PcieWidth))?;
        let minutes = RATE_SECONDS / 60.0;
        let most = (errors_per_bit * bits_per_second(generation)? * lanes * 60.0).ceil();
        let value = increase(self.levels.samples(Signal::PcieReplays), self.now, RATE_SECONDS) / minutes;
        (value > most).then(|| Evidence {
            signal: Signal::PcieReplays.name().to_owned(),
            value,
            unit: "replays per minute".to_owned(),
            threshold: most,
        })
    }

    /// XIDs that the hardware is to blame for, by code.
    fn xids(&self, seconds: f64) -> Option<Damage> {
        let mut codes: Vec<(&Code, f64)> = Vec::new();
        for (code, count) in self.xid_counts(seconds) {
            let known = xid_codes::find(code).filter(|code| blames_hardware(code.class));
            match codes.iter_mut().find(|(other, _)| other.code == code) {
                Some((_, most)) => *most = count.max(*most),
                None => codes.extend(known.map(|code| (code, count))),
            }
        }
        codes.sort_by_key(|(code, _)| code.code);
        let level = codes.iter().map(|(code, _)| xid_level(code)).max()?;
        let told = codes.iter().map(|(code, count)| Evidence {
            signal: format!("gpu_xid {} {}", code.code, code.name),
            value: *count,
            unit: "errors".to_owned(),
            threshold: 1.0,
        });
        Damage::new(level, seconds, told)
    }

    /// How often each code came. Counters begin with the first error; the last code that dcgm-exporter tells is an event
    /// when it changes.
    fn xid_counts(&self, seconds: f64) -> Vec<(u64, f64)> {
        let since = self.levels.since().unwrap_or(self.now);
        let counted = self.levels.xids.iter().map(|(code, samples)| {
            let began = samples.first().filter(|s| s.time_ms > since + STALENESS_MS && self.is_within(s, seconds));
            (*code, began.map_or(0.0, |s| s.value) + increase(samples, self.now, seconds))
        });
        let last = self.levels.samples(Signal::GpuXid).windows(2);
        let changed = last.filter(|pair| pair[0].value != pair[1].value && self.is_within(&pair[1], seconds));
        counted.chain(changed.map(|pair| (pair[1].value as u64, 1.0))).filter(|(_, count)| *count >= 1.0).collect()
    }

    fn is_within(&self, sample: &Sample, seconds: f64) -> bool {
        (self.now - (seconds * 1000.0) as i64..=self.now).contains(&sample.time_ms)
    }
}

pub(super) fn evidence(signal: &str, value: f64, unit: &str, threshold: f64) -> Option<Evidence> {
    let (signal, unit) = (signal.to_owned(), unit.to_owned());
    (value >= threshold).then_some(Evidence { signal, value, unit, threshold })
}

/// The unit of a level, of a counter not that of its rate.
pub(super) fn state_unit(signal: Signal) -> &'static str {
    signal.unit().trim_end_matches(" per second")
}

/// How much a counter grew in the time before; what is not known of it is not counted.
pub(super) fn increase(samples: &[Sample], now: TimeMs, seconds: f64) -> f64 {
    let from = now - (seconds * 1000.0) as i64;
    let at = |time| samples.partition_point(|s| s.time_ms < time);
    let pieces = growth(&samples[at(from)..at(now + 1)]);
    pieces.iter().map(|p| p.value * (p.span.end - p.span.start) as f64 / 1000.0).sum::<f64>().round()
}

/// What a lane carries, by generation: PCI Express base specification.
fn bits_per_second(generation: f64) -> Option<f64> {
    let index = (generation as usize).checked_sub(1)?;
    [2.5e9, 5e9, 8e9, 1.6e10, 3.2e10, 6.4e10].get(index).copied()
}

/// A program's fault may look like the hardware's (`app_hw`); only other programs on the same GPU would tell.
pub fn blames_hardware(class: Class) -> bool {
    matches!(class, Class::Mem | Class::Bus | Class::Link)
}

/// How pressing an XID is.
pub fn xid_level(code: &Code) -> Level {
    match code.action {
        Action::None | Action::RestartApp | Action::CheckApp | Action::Unstated => Level::Watch,
        _ => Level::Act,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Told;
    use super::super::{Prospect, prospects, risks};
    use super::*;
    use goodput_exposition::sample::Series;

    const MINUTE: i64 = 60_000;

    fn gpu(metric: &str, value: &dyn Fn(f64) -> f64) -> Series {
        Told::new("n1").and([("UUID", "GPU-1"), ("gpu", "0")]).series(metric, value)
    }

    /// With what every GPU tells, so that it is known since when it is heard of.
    fn told(mut series: Vec<Series>) -> Vec<Prospect> {
        series.push(gpu("DCGM_FI_DEV_GPU_UTIL", &|_| 90.0));
        series.push(gpu("DCGM_FI_DEV_PCIE_LINK_GEN", &|_| 4.0));
        series.push(gpu("DCGM_FI_DEV_PCIE_LINK_WIDTH", &|_| 16.0));
        prospects(&series, 180 * MINUTE, &Thresholds::default()).into_iter().filter(|p| p.damage().is_some()).collect()
    }

    fn one(series: Vec<Series>) -> Option<(Fault, Level, String, f64)> {
        let all = told(series);
        assert!(all.len() <= 1, "{all:?}");
        let prospect = all.first()?;
        let (Kind::Hardware(fault), Some(damage)) = (prospect.kind, prospect.damage()) else { panic!("{prospect:?}") };
        let [evidence] = damage.evidence.as_slice() else { panic!("{damage:?}") };
        assert_eq!((prospect.entity.as_str(), prospect.at_risk()), ("GPU-1", None), "no limit, so no time to it");
        Some((fault, damage.level, evidence.signal.clone(), evidence.value))
    }

    /// `first` at first, and one more at each of these minutes.
    fn counter(first: f64, at: &[f64]) -> impl Fn(f64) -> f64 {
        move |minute| first + at.iter().filter(|time| **time <= minute).count() as f64
    }

    #[test]
    fn states_of_memory_are_told_while_they_last() {
        for (metric, fault, level) in [
            ("DCGM_FI_DEV_ROW_REMAP_PENDING", Fault::RemapPending, Level::Act),
            ("DCGM_FI_DEV_ROW_REMAP_FAILURE", Fault::RemapFailed, Level::Act),
            ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", Fault::SpentBanks, Level::Watch),
            ("goodput_gpu_retired_pages_pending", Fault::RetiredPending, Level::Act),
            ("goodput_gpu_recovery_action", Fault::RecoveryAction, Level::Act),
        ] {
            let (found, how, ..) = one(vec![gpu(metric, &|_| 1.0)]).unwrap_or_else(|| panic!("{metric}"));
            assert_eq!((found, how), (fault, level), "{metric}");
            assert_eq!(one(vec![gpu(metric, &|_| 0.0)]), None, "{metric}");
            let over = |minute: f64| if minute < 170.0 { 1.0 } else { 0.0 };
            assert_eq!(one(vec![gpu(metric, &over)]), None, "{metric}");
        }
    }

    #[test]
    fn one_pending_remap_is_one_risk_from_then_on() {
        let pending = gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", &|minute| if minute < 130.0 { 0.0 } else { 1.0 });
        let all = risks(&[pending], &(120 * MINUTE..240 * MINUTE), 240 * MINUTE, &Thresholds::default());
        let [risk] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((risk.start_ms, risk.end_ms, risk.earliest_ms), (130 * MINUTE, 240 * MINUTE, None));
    }

    #[test]
    fn corrected_errors_are_a_risk_when_they_are_many_and_uncorrected_ones_are_each() {
        let corrected = |value: &dyn Fn(f64) -> f64| one(vec![gpu("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", value)]);
        assert_eq!(corrected(&counter(0.0, &[150.0])), None, "a single one");
        assert_eq!(corrected(&|_| 1e6), None, "long ago");
        assert_eq!(corrected(&|minute| minute), None, "one a minute are 60 an hour");
        let many = corrected(&|minute| 2.0 * minute).unwrap();
        assert_eq!(many, (Fault::EccCorrected, Level::Watch, "growth of gpu_ecc_corrected".to_owned(), 120.0));

        let uncorrected = |value: &dyn Fn(f64) -> f64| one(vec![gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", value)]);
        assert_eq!(uncorrected(&|_| 3.0), None, "before the window");
        let new = uncorrected(&counter(3.0, &[100.0])).unwrap();
        assert_eq!(new, (Fault::EccUncorrected, Level::Act, "growth of gpu_ecc_uncorrected".to_owned(), 1.0));
    }

    #[test]
    fn rows_and_pages_that_were_replaced_are_told_when_they_grow_or_are_many() {
        let rows = |value: &dyn Fn(f64) -> f64| one(vec![gpu("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", value)]);
        assert_eq!(rows(&|_| 2.0), None);
        assert_eq!(
            rows(&counter(2.0, &[90.0])).map(|r| (r.0, r.1, r.3)),
            Some((Fault::RemappedRows, Level::Watch, 1.0))
        );
        assert_eq!(rows(&|_| 512.0).map(|r| (r.0, r.3)), Some((Fault::RemappedRows, 512.0)));
        let retired = |single: f64, double: f64| {
            let single = gpu("DCGM_FI_DEV_RETIRED_SBE", &|_| single);
            one(vec![single, gpu("DCGM_FI_DEV_RETIRED_DBE", &|_| double)])
        };
        assert_eq!(retired(40.0, 22.0), None);
        assert_eq!(retired(40.0, 23.0).map(|r| (r.0, r.3)), Some((Fault::RetiredPages, 63.0)));
    }

    #[test]
    fn links_are_held_against_what_a_sound_one_has() {
        let replays = |per_minute: f64| one(vec![gpu("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", &move |m| m * per_minute)]);
        assert_eq!(replays(16.0), None, "generation 4, 16 lanes: 15.4 a minute");
        assert_eq!(replays(17.0).map(|r| (r.0, r.1, r.3)), Some((Fault::PcieReplays, Level::Watch, 17.0)));
        let nvlink = |kind: &'static str, value: &dyn Fn(f64) -> f64| {
            let told = Told::new("n1").and([("UUID", "GPU-1"), ("kind", kind)]);
            one(vec![told.series("goodput_gpu_nvlink_errors_total", value)])
        };
        assert_eq!(nvlink("crc_flit", &|minute| 60.0 * 99.0 * minute), None);
        assert_eq!(
            nvlink("crc_flit", &|minute| 60.0 * 100.0 * minute).map(|r| (r.0, r.3)),
            Some((Fault::Nvlink, 100.0))
        );
        assert_eq!(nvlink("recovery", &counter(4.0, &[100.0])).map(|r| (r.0, r.3)), Some((Fault::Nvlink, 1.0)));
        assert_eq!(nvlink("replay", &counter(4.0, &[100.0])), None, "it was sent again, and is there");
    }

    #[test]
    fn xids_are_told_by_whose_fault_they_are() {
        let first = |code: &str, action: &str, from: i64| {
            let told = Told::new("n1").and([("UUID", "GPU-1"), ("xid", code), ("action", action)]);
            let mut series = told.series("goodput_gpu_xid_errors_total", &|_| 1.0);
            series.samples.retain(|s| s.time_ms >= from * MINUTE);
            one(vec![series])
        };
        let told = first("95", "reset_gpu", 100).unwrap();
        assert_eq!(told, (Fault::Xid, Level::Act, "gpu_xid 95 UNCONTAINED_ERROR".to_owned(), 1.0));
        assert_eq!(first("63", "none", 100).map(|r| r.1), Some(Level::Watch), "a remap takes effect at the next reset");
        assert_eq!(first("92", "none", 100).map(|r| r.1), Some(Level::Watch));
        assert_eq!(first("79", "restart_node", 100).map(|r| r.1), Some(Level::Act));
        assert_eq!(first("31", "restart_app", 100), None, "the program's");
        assert_eq!(first("999", "unknown", 100), None, "nothing is guessed");
        assert_eq!(first("95", "reset_gpu", 0), None, "it was there when the GPU was first heard of");
        assert_eq!(first("95", "reset_gpu", 30), None, "longer ago than the window");
    }

    #[test]
    fn the_last_xid_is_told_when_it_changes() {
        let last = |value: &dyn Fn(f64) -> f64| one(vec![gpu("DCGM_FI_DEV_XID_ERRORS", value)]);
        assert_eq!(last(&|_| 79.0), None, "dcgm-exporter goes on telling it for ever");
        let new = last(&|minute| if minute < 100.0 { 0.0 } else { 79.0 }).unwrap();
        assert_eq!((new.0, new.2.as_str()), (Fault::Xid, "gpu_xid 79 GPU_HAS_FALLEN_OFF_THE_BUS"));
        assert_eq!(last(&|minute| if minute < 100.0 { 79.0 } else { 0.0 }), None);
    }

    #[test]
    fn a_sound_gpu_is_not_told_and_neither_is_one_that_tells_nothing() {
        assert_eq!(told(Vec::new()), []);
        let sound = [
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "DCGM_FI_DEV_ROW_REMAP_PENDING",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "DCGM_FI_DEV_XID_ERRORS",
        ];
        assert_eq!(told(sound.map(|metric| gpu(metric, &|_| 0.0)).to_vec()), []);
    }
}
