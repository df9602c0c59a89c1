//! What the milliseconds of a cell drew.
//!
//! The board's energy counter says it, else its power: the mean over the part of a cell that is known stands for the
//! cell, as for every signal. Within a cell time and energy are not alike: work draws more than waiting. So what is not
//! work gets the power that the model draws with an idle context, and work gets the rest, up to the board's limit: what is
//! beyond it was drawn by waiting that spins. Where the power of an idle context is not known, or nothing in the cell is
//! work, each class gets energy in proportion to its milliseconds. A hole in the data has
//! energy only where the counter bridges it.

use super::cell::Part;
use super::{Cell, Class, Energy, Group, power};
use crate::apportion;
use crate::frame::Reading;
use crate::signal::{MOST_WATTS, Signal};

/// The mean power of a cell, in watts, which are millijoules per millisecond.
struct Draw<'a> {
    reading: &'a Reading,
    is_counted: bool,
}

/// A cell drew more than any board does in its time: a defect of the judgement, never to be papered over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{mj} mJ in {ms} ms are more than any board draws")]
pub struct Excess {
    /// The sum of the parts.
    pub mj: i64,
    /// The time that it is known for.
    pub ms: i64,
}

/// The energy of each part of a booked cell; the parts sum to the cell. `None` where nothing is known of power.
pub(super) fn split(cell: &Cell<'_>, parts: &[(Part, i64)]) -> Result<Vec<Option<Energy>>, Excess> {
    let energy = shares(cell, parts);
    let (mj, ms) = energy.iter().flatten().fold((0_i64, 0), |(mj, ms), e| (mj.saturating_add(e.mj), ms + e.ms));
    // Half a millijoule per part is rounding.
    let most = MOST_WATTS * ms as f64 + parts.len() as f64;
    if mj < 0 || mj as f64 > most { Err(Excess { mj, ms }) } else { Ok(energy) }
}

fn shares(cell: &Cell<'_>, parts: &[(Part, i64)]) -> Vec<Option<Energy>> {
    let Some(draw) = draw(cell) else { return vec![None; parts.len()] };
    let is_hole = |part: &Part| part.class == Class::NoData;
    let known: i64 = parts.iter().filter(|(part, _)| !is_hole(part)).map(|(_, ms)| ms).sum();
    let bridged = (draw.reading.covered_ms - known).max(0);
    let weights = weights(parts, power::model(cell).map(|m| m.idle), power::limit(cell), draw.reading.mean);
    let shares = apportion((draw.reading.mean * known as f64).round() as i64, &weights);
    let energy = |((part, ms), share): (&(Part, i64), i64)| {
        let ms = if is_hole(part) { bridged.min(*ms) } else { *ms };
        let mj = if is_hole(part) { (draw.reading.mean * ms as f64).round() as i64 } else { share };
        (ms > 0).then_some(Energy { mj, ms, counted_ms: if draw.is_counted { ms } else { 0 } })
    };
    parts.iter().zip(shares).map(energy).collect()
}

/// The counter misses nothing between scrapes; power is what it was at each.
fn draw<'a>(cell: &Cell<'a>) -> Option<Draw<'a>> {
    let counted = power::counted(cell).map(|reading| Draw { reading, is_counted: true });
    counted.or_else(|| cell.read(Signal::GpuPower).map(|reading| Draw { reading, is_counted: false }))
}

/// How much of the known energy each part has, in millijoules before rounding.
fn weights(parts: &[(Part, i64)], idle: Option<f64>, limit: Option<f64>, mean: f64) -> Vec<f64> {
    let works = parts.iter().any(|(part, _)| is_work(part.class));
    let waiting = idle.filter(|_| works).unwrap_or(mean).min(mean);
    let known: i64 = parts.iter().filter(|(part, _)| part.class != Class::NoData).map(|(_, ms)| ms).sum();
    let (work, wait) = parts.iter().fold((0, 0), |(work, wait), (part, ms)| match part.class {
        Class::NoData => (work, wait),
        class if is_work(class) => (work + ms, wait),
        _ => (work, wait + ms),
    });
    let whole = mean * known as f64;
    let most = limit.map_or(mean, |limit| limit.max(mean));
    let working = if work > 0 { ((whole - waiting * wait as f64) / work as f64).min(most) } else { 0.0 };
    let waiting = if wait > 0 { (whole - working * work as f64) / wait as f64 } else { 0.0 };
    // A GPU that drew nothing still gets parts of it: of zero.
    let weight = |(part, ms): &(Part, i64)| match part.class {
        Class::NoData => 0.0,
        class if is_work(class) => working * *ms as f64,
        _ => waiting * *ms as f64,
    };
    parts.iter().map(weight).collect()
}

/// Did the GPU run kernels in this time?
fn is_work(class: Class) -> bool {
    matches!(class.group(), Group::Productive | Group::Derate | Group::Loss | Group::Sharing)
}
