//! What ports show of a slow network in a cell, of any node of the run.

use super::super::{CauseKind, Fact, Thresholds};
use super::congestion::{self, FULL, Usual};
use super::exchange::{Exchange, Side};
use super::nvlink;
use super::ports::Port;
use crate::signal::Signal;

/// That something makes the network slow in a cell.
pub(super) struct Evidence {
    pub(super) kind: CauseKind,
    /// The most of a GPU's time that it can explain, without looking at how long it waited; `None` is not known.
    pub(super) bound: Option<f64>,
    /// What of the waiting a sound network would have cost as well, as a share of the time.
    pub(super) stays: f64,
    pub(super) grade: Grade,
    /// The sides, and ports or GPUs of them, that show it, with how much of it.
    pub(super) at: Vec<(usize, String, f64)>,
    pub(super) facts: Vec<Fact>,
}

/// How sure it is that what ports show cost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    /// The time itself was counted.
    Counted,
    /// Sound networks do not show it.
    Inferred,
    /// Sound networks show it too, when more is exchanged: it explains no more than the bytes that are missing.
    Weak,
}

/// Share of a line rate that an exchange reaches at least on a sound link, below which bounds by bytes stay above the
/// truth (own simulations with links that reach 0.9).
const EFFICIENCY: f64 = 0.8;

/// Is it a state of ports, which lasts, and not a count of events?
pub(super) fn is_state(kind: CauseKind) -> bool {
    use CauseKind as C;
    matches!(kind, C::NvlinkDown | C::Link | C::RdmaUnused | C::RailUnused)
}

/// Does nothing in the cell show a fault? A port that is full has none.
pub(super) fn is_clean(found: &[Evidence]) -> bool {
    found.iter().all(|found| found.kind == CauseKind::Saturated)
}

/// All that is shown, the first to be believed first.
pub(super) fn told(run: &Exchange<'_>, usual: &Usual, cell: usize, t: &Thresholds) -> Vec<Evidence> {
    let nvlink = nvlink::down(run, cell, t);
    if !run.has_several_nodes() {
        return nvlink.into_iter().collect();
    }
    // Ports of EFA have no rate.
    let rate = common_rate(run, cell);
    let all = [
        nvlink,
        rate.and_then(|rate| slow_links(run, cell, rate, t)),
        rdma_unused(run, cell, t),
        rate.and_then(|rate| rails_unused(run, cell, rate, t)),
        errors(run, cell, t),
        congestion::paused(run, cell, t),
        usual.exceeded(run, cell, t),
        congestion::saturated(run, cell, t),
    ];
    all.into_iter().flatten().collect()
}

/// Who has what is shown in each cell, where exactly one port does.
pub(super) fn named(run: &Exchange<'_>, told: &[Vec<Evidence>], t: &Thresholds) -> Vec<Vec<Option<(usize, String)>>> {
    let one = |cell: usize, found: &Evidence| {
        let (side, which) = match found.kind {
            CauseKind::RdmaUnused => None,
            CauseKind::Errors => most_events(run, told, cell, t),
            _ => only(&found.at),
        }?;
        let port = (found.kind == CauseKind::Congested).then(|| port_of(run, side, cell)).flatten();
        Some((side, port.unwrap_or(which)))
    };
    (0..told.len()).map(|cell| told[cell].iter().map(|found| one(cell, found)).collect()).collect()
}

fn only(at: &[(usize, String, f64)]) -> Option<(usize, String)> {
    match at {
        [(side, which, _)] => Some((*side, which.clone())),
        _ => None,
    }
}

/// The rate that most active ports of the run have.
fn common_rate(run: &Exchange<'_>, cell: usize) -> Option<f64> {
    let ports = run.at(cell).flat_map(|(_, side, index)| side.ports.rdma.values().map(move |cells| cells[index]));
    let active = ports.filter(|port| port.is_active != Some(false));
    let mut rates: Vec<f64> = active.filter_map(|port| port.speed).collect();
    rates.sort_by(f64::total_cmp);
    let alike = rates.chunk_by(|a, b| a == b).max_by_key(|alike| alike.len())?;
    alike.first().copied()
}

/// Ports below the rate of their peers, or down while these are up.
fn slow_links(run: &Exchange<'_>, cell: usize, rate: f64, t: &Thresholds) -> Option<Evidence> {
    let (mut at, mut bound, mut facts, mut down) = (Vec::new(), 0.0_f64, Vec::new(), 0.0);
    for (n, side, index) in run.at(cell) {
        for (name, cells) in &side.ports.rdma {
            let port = cells[index];
            if port.is_active == Some(false) && is_up_elsewhere(run, cell, n, name, rate) {
                let share = without(side, index, rate);
                bound = bound.max(share);
                at.push((n, (*name).to_owned(), share));
                down += 1.0;
                continue;
            }
            let is_up = port.is_active != Some(false);
            let Some(speed) = port.speed.filter(|_| is_up && !port.has_rate(rate)) else { continue };
            if cells.iter().any(|port| port.has_rate(rate)) || is_alone(run, cell, n, name, rate) {
                let share = port.bytes().unwrap_or(0.0) / (EFFICIENCY * speed) * (1.0 - speed / rate);
                bound = bound.max(share);
                at.push((n, (*name).to_owned(), share));
                facts.push(Fact::of(Signal::PortSpeed, speed, rate));
            }
        }
    }
    facts.truncate(1);
    facts.extend((down > 0.0).then_some(Fact {
        signal: "ports that are down",
        unit: "ports",
        value: down,
        threshold: 0.0,
    }));
    at.retain(|(.., share)| *share >= t.claim_floor);
    (bound >= t.claim_floor).then_some(Evidence {
        kind: CauseKind::Link,
        bound: Some(bound),
        stays: 0.0,
        grade: Grade::Inferred,
        at,
        facts,
    })
}

/// Have other ports of its node the rate, and the port of its name on most other nodes? A port that is slower on another node
/// too, or a node that has the same rates as another, is made so.
fn is_alone(run: &Exchange<'_>, cell: usize, own: usize, name: &str, rate: f64) -> bool {
    let Some((_, side, index)) = run.at(cell).find(|(n, ..)| *n == own) else { return false };
    let (own_rates, mut fast, mut slow) = (rates(side, index), 0, 0);
    for (_, other, index) in run.at(cell).filter(|(n, ..)| *n != own) {
        let Some(port) = other.ports.rdma.get(name).map(|cells| cells[index]) else { continue };
        if rates(other, index) == own_rates {
            return false;
        }
        fast += usize::from(port.has_rate(rate));
        slow += usize::from(port.speed.is_some() && !port.has_rate(rate));
    }
    side.ports.rdma.values().any(|cells| cells[index].has_rate(rate)) && fast > slow
}

/// The line rates of a node's ports, in order.
fn rates(side: &Side<'_>, index: usize) -> Vec<f64> {
    let mut rates: Vec<f64> = side.ports.rdma.values().filter_map(|cells| cells[index].speed).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

/// Was it up at some time that is looked at, or is the port of its name up on most other nodes, at the rate that most have?
fn is_up_elsewhere(run: &Exchange<'_>, cell: usize, own: usize, name: &str, rate: f64) -> bool {
    let is_rail = |port: &Port| port.is_active == Some(true) && port.speed.is_none_or(|_| port.has_rate(rate));
    let ports = |n: usize| run.sides[n].ports.rdma.get(name);
    let others = run.at(cell).filter(|(n, ..)| *n != own);
    let known: Vec<bool> = others.filter_map(|(n, _, index)| Some(is_rail(&ports(n)?[index]))).collect();
    let up = known.iter().filter(|is_up| **is_up).count();
    ports(own).is_some_and(|cells| cells.iter().any(is_rail)) || 2 * up > known.len()
}

/// What fewer ports cost at most: the bytes take the ports that are left, where they would have taken all.
fn without(side: &Side<'_>, index: usize, rate: f64) -> f64 {
    let ports = side.ports.rdma.values().map(|cells| cells[index]);
    let (mut left, mut down) = (0.0, 0.0);
    for port in ports {
        left += f64::from(u8::from(port.is_active == Some(true)));
        down += f64::from(u8::from(port.is_active == Some(false)));
    }
    rails(side, index, rate, left, left + down)
}

/// The same of `k` ports that carry of `n`.
fn rails(side: &Side<'_>, index: usize, rate: f64, k: f64, n: f64) -> f64 {
    let bytes = side.ports.rdma_bytes(index).unwrap_or(0.0);
    let share = bytes / (k * EFFICIENCY * rate) * (1.0 - k / n);
    if share.is_finite() { share } else { 0.0 }
}

/// The exchange goes over TCP on several nodes, while their RDMA ports are active and idle.
fn rdma_unused(run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Evidence> {
    let (mut nodes, mut stays, mut least) = (0, 0.0_f64, f64::INFINITY);
    for (_, side, index) in run.at(cell) {
        let Some((tcp, rdma)) = side.tcp(index).zip(side.ports.rdma_bytes(index)) else { continue };
        let active = side.ports.rdma.values().filter(|cells| cells[index].is_active == Some(true));
        let rate: f64 = active.filter_map(|cells| cells[index].speed).sum();
        if rate <= 0.0 || tcp < t.tcp_exchange_bytes || rdma >= t.rdma_idle_ratio * tcp {
            continue;
        }
        nodes += 1;
        stays = stays.max(tcp / (EFFICIENCY * rate));
        least = least.min(tcp);
    }
    let facts = vec![
        Fact {
            signal: "bytes exchanged over TCP",
            unit: "bytes per second",
            value: least,
            threshold: t.tcp_exchange_bytes,
        },
        Fact { signal: "nodes that exchange over TCP", unit: "nodes", value: f64::from(nodes), threshold: 2.0 },
    ];
    let (kind, bound, at) = (CauseKind::RdmaUnused, Some(1.0), Vec::new());
    (nodes > 1).then_some(Evidence { kind, bound, stays, grade: Grade::Inferred, at, facts })
}

/// Some ports of a node carry what all of them could, and there are fewer than GPUs.
fn rails_unused(run: &Exchange<'_>, cell: usize, rate: f64, t: &Thresholds) -> Option<Evidence> {
    let (mut bound, mut facts) = (0.0_f64, Vec::new());
    for (_, side, index) in run.at(cell) {
        let is_rail = |port: &Port| port.is_active == Some(true) && port.has_rate(rate);
        let rails: Vec<f64> = side
            .ports
            .rdma
            .values()
            .map(|cells| cells[index])
            .filter(is_rail)
            .filter_map(|port| port.bytes())
            .collect();
        let most = rails.iter().copied().fold(0.0, f64::max);
        let carry = rails.iter().filter(|bytes| **bytes >= t.rail_idle_ratio * most).count();
        if most < t.tcp_exchange_bytes || carry == rails.len() || carry >= side.gpus(index) {
            continue;
        }
        let share = self::rails(side, index, rate, carry as f64, rails.len() as f64);
        bound = bound.max(share);
        let (value, threshold) = (carry as f64, rails.len() as f64);
        facts.push(Fact { signal: "ports that carry the exchange", unit: "ports", value, threshold });
    }
    facts.truncate(1);
    (bound >= t.claim_floor).then_some(Evidence {
        kind: CauseKind::RailUnused,
        bound: Some(bound),
        stays: 0.0,
        grade: Grade::Inferred,
        at: Vec::new(),
        facts,
    })
}

/// Ports that lose packets, or whose link comes and goes. How long an exchange stands still for it is not counted.
fn errors(run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Evidence> {
    let mut at = Vec::new();
    for (n, side, index) in run.at(cell) {
        let seconds = (side.node.cells[index].end - side.node.cells[index].start) as f64 / 1000.0;
        let bad = side.ports.rdma.iter().filter(|(_, cells)| has_errors(&cells[index], seconds, t));
        at.extend(bad.map(|(name, cells)| (n, (*name).to_owned(), events(&cells[index]))));
    }
    let most = at.iter().map(|(.., count)| *count).reduce(f64::max)?;
    let facts =
        vec![Fact { signal: "errors of a port in the cell", unit: "errors", value: most, threshold: t.port_errors }];
    Some(Evidence { kind: CauseKind::Errors, bound: None, stays: 0.0, grade: Grade::Inferred, at, facts })
}

fn has_errors(port: &Port, seconds: f64, t: &Thresholds) -> bool {
    let gigabytes = port.sent.unwrap_or(0.0) * seconds / 1e9;
    let is_above = |count: Option<f64>, least: f64| count.is_some_and(|count| count >= least);
    is_above(port.timeouts, t.port_errors)
        || is_above(port.link_changes, t.port_errors)
        || is_above(port.retransmits, t.port_errors.max(t.retransmits_per_gigabyte * gigabytes))
}

fn events(port: &Port) -> f64 {
    [port.timeouts, port.retransmits, port.link_changes].into_iter().flatten().sum()
}

/// The port that has by far the most errors around, and had some in the cell.
fn most_events(run: &Exchange<'_>, told: &[Vec<Evidence>], cell: usize, t: &Thresholds) -> Option<(usize, String)> {
    let mut sums: Vec<(usize, &str, f64)> = Vec::new();
    for (n, side) in run.sides.iter().enumerate() {
        let Some(index) = run.index_at(side.node, cell) else { continue };
        for (name, cells) in &side.ports.rdma {
            sums.push((n, name, cells[side.node.around(index, t.around_seconds)].iter().map(events).sum()));
        }
    }
    sums.sort_by(|a, b| b.2.total_cmp(&a.2));
    let (side, name, most) = *sums.first()?;
    let next = sums.get(1).map_or(0.0, |(.., count)| *count);
    let is_here = told[cell].iter().any(|found| found.at.iter().any(|(n, which, _)| *n == side && which == name));
    (is_here && most >= t.port_errors_ratio * next).then(|| (side, name.to_owned()))
}

/// The RDMA port of the only interface of a node that paused: the only port of that node that was held back, by far more than
/// any other until then, or for longer than its counter of 32 bits can tell.
fn port_of(run: &Exchange<'_>, side: usize, cell: usize) -> Option<String> {
    let side = &run.sides[side];
    let index = run.index_at(side.node, cell)?;
    let held_back = |cells: &[Port]| {
        let known: Vec<f64> = cells[..=index].iter().filter_map(|port| port.waited).collect();
        let (first, last) = (*known.first()?, *known.last()?);
        Some(if last >= FULL { f64::INFINITY } else { last - first })
    };
    let ports = side.ports.rdma.iter();
    let mut waited: Vec<(&str, f64)> = ports.filter_map(|(name, cells)| Some((*name, held_back(cells)?))).collect();
    waited.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (name, most) = *waited.first()?;
    let next = waited.get(1).map_or(0.0, |(_, ticks)| *ticks);
    (most > 0.0 && next.is_finite() && most >= HELD_BACK * next).then(|| name.to_owned())
}

/// How many times the ticks of any other port of the node the one has that is held back (own choice, as
/// `port_errors_ratio`).
const HELD_BACK: f64 = 5.0;
