//! Signals of one GPU, node or owner on the grid of cells, as rules see them.

use std::collections::BTreeSet;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::parameters::{CURSOR, LIMIT, Parameter};
use super::query::Asked;
use super::route::{Reads, Route};
use super::table::Table;
use super::{Answer, Page, Problem};
use crate::app::App;
use goodput_exposition::sample::{Series, TimeMs};
use goodput_rules::frame::{MAX_BRIDGE_MS, NodeFrame, Reading, Tracks, frames, sources};
use goodput_rules::signal::{Kind, Scope, Signal, metrics_of};
use goodput_store::{Results, Samples, Selection, Whose};

/// Signals of a longer time are not read at once.
const MAX_HOURS: i64 = 25;

const SIGNAL: Parameter = Parameter::new::<String>("signal", "Which, by the name that /signals lists.").required();
const GPU: Parameter = Parameter::new::<String>("gpu", "The GPU, by UUID; of a GPU's signal.");
const CLUSTER: Parameter =
    Parameter::new::<String>("cluster", "The cluster of the node; without it, the first node of the name.");
const NODE: Parameter = Parameter::new::<String>("node", "The node; of a node's or an owner's signal.");
const OWNER: Parameter = Parameter::new::<String>("owner", "The owner; of an owner's signal.");

pub(super) fn routes<S: Samples + Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table
        .get(
            Route::new("/signals", "Signals that can be asked for").asks(&[LIMIT, CURSOR]).reads(Reads::Memory),
            signals,
        )
        .get(
            Route::new("/series", "A signal of one GPU, node or owner on the grid of cells")
                .hours(MAX_HOURS)
                .asks(&[SIGNAL, GPU, CLUSTER, NODE, OWNER, LIMIT, CURSOR]),
            series,
        )
}

/// A signal that rules use.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Signal")]
struct Named {
    /// Its name.
    signal: &'static str,
    /// `gpu`, `node` or `owner`: whose it is.
    #[schemars(extend("enum" = ["gpu", "node", "owner"]))]
    scope: &'static str,
    /// `counter`, `gauge` or `state`.
    #[schemars(extend("enum" = ["counter", "gauge", "state"]))]
    kind: &'static str,
    /// Of a reading; of a counter, of its rate.
    unit: &'static str,
    /// The metrics that give it.
    metrics: Vec<String>,
}

/// A signal in one cell.
#[derive(Serialize, JsonSchema)]
struct Point {
    /// Start of the cell, Unix milliseconds, UTC.
    start_ms: TimeMs,
    /// End of the cell, Unix milliseconds, UTC.
    end_ms: TimeMs,
    /// The NUMA node; null unless there is one such signal per NUMA node.
    numa_node: Option<String>,
    /// The RDMA port (`device/port`) or network interface; null unless there is one such signal per port.
    port: Option<String>,
    /// Weighted by time; of a counter, its rate per second.
    mean: f64,
    /// The least.
    min: f64,
    /// The most.
    max: f64,
    /// Milliseconds of the cell in which the signal is known.
    covered_ms: i64,
    /// Samples within the cell.
    samples: u32,
    /// Does part of it bridge a gap in the data?
    coarse: bool,
}

async fn signals<S>(_: App<S>, asked: Asked) -> Answer<Page<Named>> {
    let named = |signal: &Signal| Named {
        signal: signal.name(),
        scope: match signal.scope() {
            Scope::Gpu => "gpu",
            Scope::Node => "node",
            Scope::Job => "owner",
        },
        kind: match signal.kind() {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Average => "gauge",
            Kind::State => "state",
        },
        unit: signal.unit(),
        metrics: metrics_of(&[*signal]),
    };
    Ok(asked.part()?.of(Signal::ALL.iter().map(named)))
}

/// Whose signal is asked for.
enum Entity {
    Gpu(String),
    Node(Place),
    Owner(Place, String),
}

/// A node; without a cluster, the first of its name.
struct Place {
    cluster: Option<String>,
    node: String,
}

impl Place {
    fn is(&self, frame: &NodeFrame) -> bool {
        frame.node == self.node && self.cluster.as_ref().is_none_or(|cluster| *cluster == frame.cluster)
    }
}

async fn series<S: Samples + Results>(app: App<S>, asked: Asked) -> Answer<Page<Point>> {
    let signal = asked.named("signal", Signal::ALL, Signal::name)?;
    let signal = signal.ok_or_else(|| Problem::bad("signal", "a signal that /api/v1/signals lists", None))?;
    let entity = entity(&asked, signal)?;
    let (range, part) = (asked.range((app.now)(), &app.zone)?, asked.part()?);
    let series = load(&app.store, &entity, signal, &range).await?;
    let points = tokio::task::spawn_blocking(move || points(&series, &entity, signal, &range));
    Ok(part.of(points.await.map_err(|error| Problem::failed(&error))?))
}

fn entity(asked: &Asked, signal: Signal) -> Result<Entity, Problem> {
    let place = asked.owned("node").map(|node| Place { cluster: asked.owned("cluster"), node });
    let given = (signal.scope(), asked.owned("gpu"), place, asked.owned("owner"));
    let (field, expected) = match given {
        (Scope::Gpu, Some(gpu), None, None) => return Ok(Entity::Gpu(gpu)),
        (Scope::Node, None, Some(place), None) => return Ok(Entity::Node(place)),
        (Scope::Job, None, Some(place), Some(owner)) => return Ok(Entity::Owner(place, owner)),
        (Scope::Gpu, ..) => ("gpu", "a UUID, and neither node nor owner, for this is a GPU's signal"),
        (Scope::Node, ..) => ("node", "a node, and neither gpu nor owner, for this is a node's signal"),
        (Scope::Job, ..) => ("owner", "an owner and its node, and no gpu, for this is an owner's signal"),
    };
    Err(Problem::bad(field, expected, asked.get(field)))
}

/// The series of the signal, and what it takes to join them to their node: which GPUs it has, and its name.
async fn load<S: Samples + Results>(
    store: &S,
    entity: &Entity,
    signal: Signal,
    range: &Range<TimeMs>,
) -> Result<Vec<Series>, Problem> {
    let gpus: BTreeSet<String> = match entity {
        Entity::Gpu(gpu) => BTreeSet::from([gpu.clone()]),
        Entity::Node(Place { cluster, node }) | Entity::Owner(Place { cluster, node }, _) => {
            let whose = Whose { cluster: cluster.clone(), node: Some(node.clone()), ..Whose::default() };
            store.intervals_of(range.clone(), &whose).await?.into_iter().map(|interval| interval.gpu).collect()
        }
    };
    let label = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let mut of_gpu = vec![Signal::GpuBusy, Signal::GpuObserved, Signal::GpuUtilization];
    let mut wanted = vec![(vec![Signal::NodeInfo], Vec::new())];
    match entity {
        Entity::Gpu(_) => of_gpu.push(signal),
        Entity::Node(_) => wanted.push((vec![signal], Vec::new())),
        Entity::Owner(_, owner) => wanted.push((vec![signal], label("owner", owner))),
    }
    for gpu in &gpus {
        wanted.extend(["UUID", "uuid"].map(|name| (of_gpu.clone(), label(name, gpu))));
    }
    let range = range.start - MAX_BRIDGE_MS..range.end + MAX_BRIDGE_MS;
    let mut series = Vec::new();
    for (signals, labels) in wanted {
        let selection = Selection { metrics: metrics_of(&signals), labels, range: range.clone() };
        series.extend(store.select(&selection).await?);
    }
    Ok(series)
}

fn points(series: &[Series], entity: &Entity, signal: Signal, range: &Range<TimeMs>) -> Vec<Point> {
    let sources = sources(series);
    let framed = frames(sources.iter(), range, 0);
    let found = framed.nodes.iter().find_map(|node| Some((node, tracks(node, entity)?)));
    let Some((node, tracks)) = found else { return Vec::new() };
    let mut points = Vec::new();
    for (index, cell) in node.cells.iter().enumerate() {
        let split = tracks.split(signal, index).map(|(of, reading)| (Some(of.to_owned()), reading));
        let whole = tracks.read(signal, index).map(|reading| (None, reading));
        points.extend(split.chain(whole).map(|(of, reading)| {
            let (port, numa_node) = if signal.is_by_port() { (of, None) } else { (None, of) };
            Point { port, ..point(cell, numa_node, reading) }
        }));
    }
    points
}

fn tracks<'a>(node: &'a NodeFrame, entity: &Entity) -> Option<&'a Tracks> {
    match entity {
        Entity::Gpu(uuid) => node.gpus.iter().find(|gpu| gpu.uuid == *uuid).map(|gpu| &gpu.tracks),
        Entity::Node(place) => place.is(node).then_some(&node.host),
        Entity::Owner(place, owner) => node.jobs.get(owner).filter(|_| place.is(node)),
    }
}

fn point(cell: &Range<TimeMs>, numa_node: Option<String>, reading: &Reading) -> Point {
    let Reading { mean, min, max, covered_ms, samples, coarse, .. } = *reading;
    Point { start_ms: cell.start, end_ms: cell.end, numa_node, port: None, mean, min, max, covered_ms, samples, coarse }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::{Labels, Sample};

    #[test]
    fn a_node_is_that_of_the_cluster_that_is_asked_for() {
        let range = 0..600_000;
        let told = |cluster: &str, metric: &str, value| Series {
            labels: Labels::new([
                ("__name__", metric),
                ("cluster", cluster),
                ("UUID", if metric.starts_with("DCGM") { cluster } else { "" }),
                ("Hostname", "n1"),
                ("instance", "n1:9400"),
                ("node", "n1"),
            ]),
            samples: range.clone().step_by(30_000).map(|time_ms| Sample { time_ms, value }).collect(),
        };
        let of = |cluster, total| {
            [told(cluster, "DCGM_FI_DEV_GPU_UTIL", 50.0), told(cluster, "node_memory_MemTotal_bytes", total)]
        };
        let series = [of("east", 1e12), of("west", 2e12)].concat();
        let mean = |cluster: Option<&str>| {
            let place = Place { cluster: cluster.map(str::to_owned), node: "n1".to_owned() };
            points(&series, &Entity::Node(place), Signal::NodeMemoryTotal, &range).first().map(|point| point.mean)
        };
        assert_eq!([Some("east"), Some("west"), Some("north")].map(mean), [Some(1e12), Some(2e12), None]);
        assert_eq!(mean(None), Some(1e12));
    }
}
