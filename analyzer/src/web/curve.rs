//! Charts of the signals that a verdict rests on: their values in each cell, from the stored samples, around and within
//! the stretch.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::axis::{Tick, ticks};
use super::clock::{Clock, HOUR_MS, MINUTE_MS, length};
use super::page::Problem;
use super::stretch::Stretch;
use super::strip::WIDTH;
use crate::report::{Proof, text, units};
use goodput_exposition::sample::{Series, TimeMs};
use goodput_rules::classify::{Cell, Node};
use goodput_rules::frame::{GpuFrame, MAX_BRIDGE_MS, frames, sources};
use goodput_rules::signal::{Scope, Signal, metrics_of};
use goodput_store::{Samples, Selection};
use goodput_verdict::Instance;

/// Of a longer stretch the beginning is drawn: samples of more hours are not loaded for one page.
const MAX_DRAWN_MS: i64 = 6 * HOUR_MS;
/// Height of a chart, in units of its view box.
const HEIGHT: f64 = 100.0;
/// Room above the highest value: its label stands there.
const HEADROOM: f64 = 1.25;

/// One signal over time.
pub(super) struct Chart {
    pub(super) signal: &'static str,
    /// What is drawn, in words.
    pub(super) label: String,
    pub(super) lines: Vec<Line>,
    /// Left edge and width of the stretch.
    pub(super) shade: (String, String),
    /// Where the threshold is drawn, percent from above, and what it is.
    pub(super) threshold: Option<(String, String)>,
    /// The value at the upper edge; the lower is zero.
    pub(super) top: String,
    pub(super) ticks: Vec<Tick>,
}

/// A curve and the band of what was lowest and highest within each cell.
pub(super) struct Line {
    /// The NUMA node, port or interface, where the signal is one per part.
    pub(super) of: Option<String>,
    pub(super) mean: String,
    pub(super) band: String,
}

/// A value in a cell: mean, lowest and highest.
type Level = [f64; 3];

/// A signal in the cells; several where it is one per NUMA node, port or interface.
struct Curve {
    signal: Signal,
    levels: Vec<(Option<String>, Vec<Option<Level>>)>,
}

/// The cells, and each signal in them.
struct Curves {
    cells: Vec<Range<TimeMs>>,
    curves: Vec<Curve>,
}

/// The time that is drawn: the stretch and some of what is around it, in steps of ten minutes.
pub(super) fn range(stretch: &Stretch<'_>) -> Range<TimeMs> {
    const STEP: i64 = 10 * MINUTE_MS;
    let end = stretch.end_ms.min(stretch.start_ms + MAX_DRAWN_MS);
    let context = ((end - stretch.start_ms) / 4).clamp(STEP, HOUR_MS);
    let (from, to) = (stretch.start_ms - context, if end < stretch.end_ms { end } else { end + context });
    from.div_euclid(STEP) * STEP..-(-to).div_euclid(STEP) * STEP
}

/// A chart of each signal.
pub(super) async fn charts(
    store: &impl Samples,
    stretch: &Stretch<'_>,
    uuid: &str,
    signals: &[Signal],
    proofs: &[Proof],
    clock: &Clock,
) -> Result<Vec<Chart>, Problem> {
    let range = range(stretch);
    let series = load(store, uuid, stretch.owner, signals, &range).await?;
    let (gpu, owner, asked, drawn) =
        (uuid.to_owned(), stretch.owner.map(str::to_owned), signals.to_vec(), range.clone());
    let instance = stretch.instance.cloned();
    let curves = tokio::task::spawn_blocking(move || {
        curves(&series, (&gpu, instance.as_ref()), owner.as_deref(), &asked, &drawn)
    });
    let curves = curves.await.map_err(|error| Problem::failed(&error))?;
    Ok(curves.curves.iter().map(|curve| chart(curve, &curves.cells, &range, stretch, proofs, clock)).collect())
}

/// The series of the signals, and what it takes to join them: the GPU's own, its owner's, and those of all nodes, for
/// which node is the GPU's is known only when they are joined.
async fn load(
    store: &impl Samples,
    uuid: &str,
    owner: Option<&str>,
    signals: &[Signal],
    range: &Range<TimeMs>,
) -> Result<Vec<Series>, Problem> {
    let of = |scope: Scope, more: &[Signal]| -> Vec<Signal> {
        signals.iter().chain(more).copied().filter(|s| s.scope() == scope).collect()
    };
    let label = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let gpu = of(Scope::Gpu, &[Signal::GpuBusy, Signal::GpuObserved, Signal::GpuUtilization]);
    let mut wanted = vec![
        (gpu.clone(), label("UUID", uuid)),
        (gpu, label("uuid", uuid)),
        (of(Scope::Node, &[Signal::NodeInfo]), Vec::new()),
    ];
    wanted.extend(owner.map(|owner| (of(Scope::Job, &[]), label("owner", owner))));
    let range = range.start - MAX_BRIDGE_MS..range.end + MAX_BRIDGE_MS;
    let mut series = Vec::new();
    for (signals, labels) in wanted.into_iter().filter(|(signals, _)| !signals.is_empty()) {
        let selection = Selection { metrics: metrics_of(&signals), labels, range: range.clone() };
        series.extend(store.select(&selection).await?);
    }
    Ok(series)
}

/// Lays the series on the grid of cells, as the judgement did.
fn curves(
    series: &[Series],
    (uuid, instance): (&str, Option<&Instance>),
    owner: Option<&str>,
    signals: &[Signal],
    range: &Range<TimeMs>,
) -> Curves {
    let sources = sources(series);
    let nodes: Vec<Node> = frames(sources.iter(), range, 0).nodes.into_iter().map(Node::from).collect();
    let is_asked = |gpu: &&GpuFrame| gpu.uuid == uuid && gpu.instance.as_ref() == instance;
    let found = nodes.iter().find_map(|node| Some((node, node.gpus.iter().find(is_asked)?)));
    let (cells, readings): (_, Vec<Cell<'_>>) = match found {
        None => (Vec::new(), Vec::new()),
        Some((node, gpu)) => {
            let cell = |index| Cell::of(node, gpu, owner, index);
            (node.cells.clone(), (0..node.cells.len()).map(cell).collect())
        }
    };
    let curve = |signal: &Signal| Curve { signal: *signal, levels: levels(&readings, *signal) };
    Curves { cells, curves: signals.iter().map(curve).collect() }
}

/// Nothing where nothing is known.
fn levels(cells: &[Cell<'_>], signal: Signal) -> Vec<(Option<String>, Vec<Option<Level>>)> {
    let numa_nodes: BTreeSet<&str> = cells.iter().flat_map(|c| c.by_numa_node(signal)).map(|(node, _)| node).collect();
    let on = |node: &str| {
        let value = |cell: &Cell<'_>| cell.by_numa_node(signal).find(|(n, _)| *n == node).map(|(_, value)| [value; 3]);
        (Some(node.to_owned()), cells.iter().map(value).collect())
    };
    let whole: Vec<Option<Level>> =
        cells.iter().map(|cell| cell.read(signal).map(|r| [r.mean, r.min, r.max])).collect();
    let is_known = whole.iter().any(Option::is_some);
    numa_nodes.into_iter().map(on).chain(is_known.then_some((None, whole))).collect()
}

fn chart(
    curve: &Curve,
    cells: &[Range<TimeMs>],
    range: &Range<TimeMs>,
    stretch: &Stretch<'_>,
    proofs: &[Proof],
    clock: &Clock,
) -> Chart {
    let (signal, unit) = (curve.signal.name(), curve.signal.unit());
    let threshold = proofs.iter().find(|p| p.signal == signal && p.threshold > 0.0).map(|p| p.threshold);
    let known = || curve.levels.iter().flat_map(|(_, levels)| levels).flatten();
    let highest = known().map(|[.., max]| *max).chain(threshold).fold(0.0, f64::max);
    let scale = Scale { range: range.clone(), top: if highest > 0.0 { highest * HEADROOM } else { 1.0 } };
    let kind = if curve.signal.is_by_port() { "Port" } else { "NUMA node" };
    let line = |(of, levels): &(Option<String>, Vec<Option<Level>>)| Line {
        of: of.as_ref().map(|of| format!("{kind} {of}")),
        mean: scale.mean(cells, levels),
        band: scale.band(cells, levels),
    };
    let left = scale.x(stretch.start_ms);
    let width = scale.x(stretch.end_ms.min(range.end)) - left;
    let against = threshold.map(|t| (text::fixed(scale.y(t) / HEIGHT * 100.0), units::measure(t, unit)));
    Chart {
        signal,
        label: label(curve, cells, stretch, against.as_ref().map(|(_, text)| text.as_str()), clock),
        lines: curve.levels.iter().map(line).collect(),
        shade: (text::fixed(left), text::fixed(width)),
        threshold: against,
        top: units::measure(scale.top, unit),
        ticks: ticks(range, clock),
    }
}

/// What the curve does within the stretch, in words.
fn label(
    curve: &Curve,
    cells: &[Range<TimeMs>],
    stretch: &Stretch<'_>,
    threshold: Option<&str>,
    clock: &Clock,
) -> String {
    let unit = curve.signal.unit();
    let inside = |levels: &[Option<Level>]| -> Vec<Level> {
        let within = |cell: &Range<TimeMs>| cell.start >= stretch.start_ms && cell.end <= stretch.end_ms;
        cells.iter().zip(levels).filter(|(cell, _)| within(cell)).filter_map(|(_, level)| *level).collect()
    };
    let when = clock.stretch(stretch.start_ms, stretch.end_ms.min(cells.last().map_or(stretch.end_ms, |c| c.end)));
    let mut label = String::new();
    for (node, levels) in &curve.levels {
        let inside = inside(levels);
        let node = node.as_ref().map_or(String::new(), |node| format!("NUMA node {node}: "));
        if inside.is_empty() {
            let _ = write!(label, "{node}not known within {when}. ");
            continue;
        }
        let mean = inside.iter().map(|[mean, ..]| mean).sum::<f64>() / inside.len() as f64;
        let lowest = inside.iter().map(|[_, min, _]| *min).fold(f64::INFINITY, f64::min);
        let highest = inside.iter().map(|[.., max]| *max).fold(0.0, f64::max);
        let cell = length(cells.first().map_or(0, |c| c.end - c.start));
        let (mean, range, count) = (units::measure(mean, unit), units::range(lowest, highest, unit), inside.len());
        let _ = write!(label, "{node}mean {mean}, range {range}, over {count} cells of {cell} within {when}. ");
    }
    if let Some(threshold) = threshold {
        let _ = write!(label, "Threshold {threshold}.");
    }
    label.trim_end().to_owned()
}

/// From times and values to coordinates.
struct Scale {
    range: Range<TimeMs>,
    /// The value at the upper edge.
    top: f64,
}

impl Scale {
    fn x(&self, time: TimeMs) -> f64 {
        (time - self.range.start) as f64 / (self.range.end - self.range.start) as f64 * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        (1.0 - value / self.top) * HEIGHT
    }

    /// A step per change; where nothing is known the line is broken.
    fn mean(&self, cells: &[Range<TimeMs>], levels: &[Option<Level>]) -> String {
        let mut path = String::new();
        let mut last: Option<(String, String)> = None;
        for (cell, level) in cells.iter().zip(levels) {
            let next = level.map(|[mean, ..]| (text::fixed(self.y(mean)), text::fixed(self.x(cell.end))));
            let _ = match (&last, &next) {
                (Some((before, end)), Some((y, _))) if before != y => write!(path, "H{end}V{y}"),
                (Some((_, end)), None) => write!(path, "H{end}"),
                (None, Some((y, _))) => write!(path, "M{} {y}", text::fixed(self.x(cell.start))),
                _ => Ok(()),
            };
            last = next;
        }
        path + &last.map_or(String::new(), |(_, end)| format!("H{end}"))
    }

    /// A rectangle per cell, from the lowest to the highest value within.
    fn band(&self, cells: &[Range<TimeMs>], levels: &[Option<Level>]) -> String {
        let mut path = String::new();
        let known = cells.iter().zip(levels).filter_map(|(cell, level)| Some((cell, (*level)?)));
        for (cell, [_, min, max]) in known.filter(|(_, [_, min, max])| min < max) {
            let sides = [self.x(cell.start), self.y(max), self.x(cell.end), self.y(min)].map(text::fixed);
            let [left, upper, right, lower] = sides;
            let _ = write!(path, "M{left} {upper}H{right}V{lower}H{left}z");
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_nothing_is_known() {
        let scale = Scale { range: 0..100, top: 2.0 };
        let cells = [0..25, 25..50, 50..75, 75..100];
        let levels = [Some([1.0, 0.5, 2.0]), Some([2.0; 3]), None, Some([0.0; 3])];
        assert_eq!(scale.mean(&cells, &levels), "M0 50H250V0H500M750 100H1000");
        assert!(scale.band(&cells, &levels).starts_with("M0 0H250V75H0z"));
    }
}
