//! `memory_bound`: kernels move about as much between device memory and the chip as can be moved. A faster clock would
//! not help them, and one that is not as fast would not hurt: `energy_inefficient`.

use super::advisory::Adviser;
use super::intervals::Grounds;
use super::thresholds::confidence::COUNTED;
use super::work::{per_busy, work};
use super::{Advice, Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const ADVISER: Adviser = Adviser { advice: Advice::MemoryBound, charged_as: &[], judge: advise };

pub(super) const AT_FULL_CLOCK: Adviser = Adviser {
    advice: Advice::EnergyInefficient,
    charged_as: &[Class::ThermalThrottle, Class::PowerThrottle, Class::ClockLocked],
    judge: advise_of_clock,
};

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let facts = vec![bound(cell, t)?];
    Some(Grounds { confidence: COUNTED, facts, missing: Vec::new() })
}

fn advise_of_clock(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let bound = bound(cell, t)?;
    let (clock, highest) = (work(cell, t)?.clock?, cell.mean(Signal::SmMaxClock)?);
    let floor = highest * t.locked_clock_ratio;
    let facts = vec![bound, Fact::of(Signal::SmClock, clock, floor)];
    (clock >= floor).then_some(Grounds { confidence: COUNTED, facts, missing: Vec::new() })
}

/// That device memory is nearly always sending or receiving while the GPU is busy.
fn bound(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let value = per_busy(cell, Signal::DramActive, t).filter(|active| *active >= t.memory_bound_ratio)?;
    Some(Fact { signal: "dram_active / busy", unit: "ratio", value, threshold: t.memory_bound_ratio })
}
