//! Free GPUs while jobs wait: the causes of `unallocated`.
//!
//! No time moves from class to class: what is booked as `unallocated` gets a cause, minute by minute, or none where no source of
//! demand covers the node. Of each minute as many free GPUs are waited for as pods and jobs ask for, and no more. Demand that may
//! not have a GPU yet does not count: held jobs, workloads that a quota keeps out.

mod demand;
mod queue;
mod read;
mod resource;
mod room;

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

use super::cell::Part;
use super::judge::Booked;
use super::phase::Course;
use super::thresholds::confidence::INFERRED;
use super::thresholds::ms;
use super::{Cause, CauseKind, Class, Fact, Thresholds};
use crate::apportion;
use crate::frame::grid::MINUTE_MS;
use crate::frame::{Runs, Source, named};
use demand::{Demand as Told, Pod};
use goodput_exposition::sample::TimeMs;
use queue::{Free, Gang, Queue, Why};
use read::Cluster;
use resource::{Kind, Resource};

/// GPUs that were waited for in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The cluster; `None` where series name none.
    pub cluster: Option<String>,
    /// The profile of MIG instances that are asked for; `any` of whole GPUs, for requests name no model.
    pub model: String,
    /// What came of it.
    pub state: DemandState,
    /// How many, in the mean of the minutes for which it is told.
    pub gpus: f64,
}

/// What GPUs that are waited for lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DemandState {
    /// Nothing: they are free, and who waits would fit.
    Fits,
    /// They are free, and something keeps who waits out.
    Unfit,
    /// None are free.
    Short,
}

impl DemandState {
    /// The value of a label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DemandState::Fits => "fits",
            DemandState::Unfit => "unfit",
            DemandState::Short => "short",
        }
    }
}

/// What is said of a GPU in a minute: which of the booked ones, which of its cells.
struct Said {
    booked: usize,
    cell: usize,
    why: Why,
    facts: Vec<Fact>,
}

/// What a cluster says of a minute.
struct Minute {
    cluster: String,
    said: Vec<Said>,
    counts: queue::Counts,
}

/// Gives free time its cause, where a source of demand covers the node. Gives what was waited for.
pub(super) fn split(
    booked: &mut [Booked<'_>],
    sources: &[Source<'_>],
    window: &Range<TimeMs>,
    t: &Thresholds,
) -> Vec<Demand> {
    let bridge_ms = ms(t.demand_bridge_seconds);
    let clusters = read::by_cluster(sources, window, bridge_ms);
    if clusters.is_empty() {
        return Vec::new();
    }
    let of_cluster = by_cluster(booked);
    let minutes: Vec<TimeMs> = (window.start..window.end).step_by(MINUTE_MS as usize).collect();
    let pairs: Vec<(TimeMs, &str, &Cluster<'_, '_>)> = minutes
        .iter()
        .flat_map(|minute| clusters.iter().map(move |(name, cluster)| (*minute, *name, cluster)))
        .collect();
    let of_minute = |(start, name, cluster): &(TimeMs, &str, &Cluster<'_, '_>)| {
        let middle = start + (window.end - start).min(MINUTE_MS) / 2;
        let places = of_cluster.get(*name).map(Vec::as_slice).unwrap_or_default();
        of_moment(name, cluster.at(middle, bridge_ms), places, booked, middle)
    };
    let said: Vec<Minute> = pairs.par_iter().filter_map(of_minute).collect();
    let demand = means(&said);
    apply(booked, said.into_iter().flat_map(|minute| minute.said));
    demand
}

/// The booked GPUs of each cluster.
fn by_cluster(booked: &[Booked<'_>]) -> BTreeMap<String, Vec<usize>> {
    let mut clusters: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (n, one) in booked.iter().enumerate() {
        clusters.entry(one.course.node.cluster.clone()).or_default().push(n);
    }
    clusters
}

/// A free GPU in a moment.
struct Place {
    booked: usize,
    cell: usize,
}

/// What is said of the free GPUs of a cluster in a moment; `None` where no source covers it.
fn of_moment(cluster: &str, told: Told<'_>, gpus: &[usize], booked: &[Booked<'_>], at: TimeMs) -> Option<Minute> {
    if !told.is_of_kubernetes() && !told.is_of_slurm() {
        return None;
    }
    let places: Vec<Place> = gpus.iter().filter_map(|n| place(booked, *n, at)).collect();
    let (mut kubernetes, mut slurm) = (Queue::default(), Queue::default());
    let short: BTreeMap<&str, &str> = told.allocatable.keys().map(|name| (host(name), *name)).collect();
    for (n, free) in places.iter().enumerate() {
        let course = &booked[free.booked].course;
        let listed = listed(&course.node.node, &told, &short);
        let name = listed.map_or(course.node.node.as_str(), |(name, _)| name);
        let is_listed = listed.is_some() || told.allocatable.is_empty();
        let queue = match () {
            () if is_listed && told.is_of_kubernetes() => &mut kubernetes,
            () if told.is_of_slurm() && listed.is_none() => &mut slurm,
            () => continue,
        };
        let kind = kind(course, free.cell, listed.map(|(_, has)| has));
        queue.rooms.entry(name).or_default().free.entry(kind).or_default().push(n);
    }
    let runs = gpus.first().map(|n| &*booked[*n].course.node.runs);
    if told.is_of_kubernetes() {
        serve_pods(&mut kubernetes, &told, runs, at);
    }
    serve_jobs(&mut slurm, &told);
    let mut counts = kubernetes.counts;
    for (key, count) in slurm.counts {
        *counts.entry(key).or_default() += count;
    }
    let said = kubernetes.found.into_iter().chain(slurm.found).map(|Free { gpu, why, facts }| {
        let Place { booked, cell } = places[gpu];
        Said { booked, cell, why, facts }
    });
    Some(Minute { cluster: cluster.to_owned(), said: said.collect(), counts })
}

/// The GPU, where some of the cell that has the moment is free.
fn place(booked: &[Booked<'_>], n: usize, at: TimeMs) -> Option<Place> {
    let one = &booked[n];
    let cells = &one.course.node.cells[one.course.node.body.clone()];
    let cell = cells.partition_point(|cell| cell.end <= at);
    let is_free =
        cells.get(cell)?.contains(&at) && one.cells[cell].iter().any(|(part, _)| part.class == Class::Unallocated);
    is_free.then_some(Place { booked: n, cell })
}

/// What a request has to ask for to get the GPU, or the instance.
fn kind(course: &Course<'_>, cell: usize, allocatable: Option<&BTreeMap<Resource, f64>>) -> Kind {
    let index = course.node.body.start + cell;
    let Some(instance) = &course.gpu.instance else {
        let is_cut = !course.gpu.cut.layouts(index).is_empty();
        return if is_cut { Kind::Rest } else { Kind::Whole };
    };
    // Where all instances of a node are alike, the device plugin may call them GPUs.
    let has = |is: fn(&Resource) -> bool| allocatable.is_some_and(|all| all.keys().any(is));
    let has_profiles = has(|resource| matches!(resource, Resource::Gpu(Kind::Profile(_))));
    match &instance.profile {
        _ if has(|resource| *resource == Resource::Gpu(Kind::Whole)) && !has_profiles => Kind::Whole,
        Some(profile) => Kind::profile(profile),
        None => Kind::Rest,
    }
}

/// A node as Kubernetes knows it: its name, and what pods may have of it.
type Listed<'t, 'a> = (&'a str, &'t BTreeMap<Resource, f64>);

/// The node of this name, with or without its domain.
fn listed<'t, 'a>(name: &str, told: &'t Told<'a>, short: &BTreeMap<&str, &'a str>) -> Option<Listed<'t, 'a>> {
    let find = |name: &str| told.allocatable.get_key_value(name).map(|(name, has)| (*name, has));
    let is_short = host(name) == name;
    let other = || if is_short { short.get(name).and_then(|long| find(long)) } else { find(host(name)) };
    find(name).or_else(other)
}

/// A host's name without its domain.
fn host(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn serve_pods(queue: &mut Queue<'_>, told: &Told<'_>, runs: Option<&Runs>, at: TimeMs) {
    let requested = told.requested(|node| queue.rooms.contains_key(node));
    for (node, room) in &mut queue.rooms {
        if let Some(allocatable) = told.allocatable.get(node) {
            room.counted(allocatable, requested.get(node));
        }
    }
    let pods = told.waiting();
    let gangs = gangs(&pods, runs);
    queue.serve(&gangs, at as f64 / 1000.0);
    let mut unsized_in = None;
    for (name, workloads) in told.queues.iter().filter(|(_, workloads)| workloads.active > 0.0) {
        // Of a queue that keeps some out it is not told how many GPUs the others ask for.
        if workloads.held > 0.0 || workloads.gpus.values().sum::<f64>() < 1.0 {
            unsized_in = unsized_in.or(Some(*name));
            continue;
        }
        workloads.gpus.iter().for_each(|(kind, gpus)| queue.give(kind, *gpus as usize, name));
    }
    let first = gangs.first().map(|gang| gang.name.as_str()).or(unsized_in).unwrap_or("workloads");
    queue.finish(unsized_in, first);
}

fn serve_jobs(queue: &mut Queue<'_>, told: &Told<'_>) {
    let Some(pending) = told.pending_gpus() else {
        queue.finish(told.longest_partition(), "jobs");
        return;
    };
    for (partition, gpus) in &pending {
        queue.give(&Kind::Whole, *gpus as usize, if partition.is_empty() { "jobs" } else { partition });
    }
    queue.finish(None, "jobs");
}

/// Pods of one run together, the run with the pod that was made first in front.
fn gangs<'p, 'a>(pods: &'p [Pod<'a>], runs: Option<&Runs>) -> Vec<Gang<'p, 'a>> {
    let mut gangs: Vec<Gang<'p, 'a>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods {
        let owner = format!("{}/{}", pod.namespace, pod.name);
        let name = runs.map_or(owner.as_str(), |runs| runs.name(&owner)).to_owned();
        let place = *places.entry(name.clone()).or_insert(gangs.len());
        match gangs.get_mut(place) {
            Some(gang) => gang.pods.push(pod),
            None => gangs.push(Gang { name, pods: vec![pod] }),
        }
    }
    gangs
}

/// The mean of the minutes of each cluster.
fn means(minutes: &[Minute]) -> Vec<Demand> {
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sums: BTreeMap<(&str, &str, DemandState), usize> = BTreeMap::new();
    for minute in minutes {
        *told.entry(&minute.cluster).or_default() += 1;
        for ((model, state), count) in &minute.counts {
            *sums.entry((&minute.cluster, model, *state)).or_default() += count;
        }
    }
    let mean = |((cluster, model, state), sum): ((&str, &str, DemandState), usize)| Demand {
        cluster: named(cluster),
        model: model.to_owned(),
        state,
        gpus: sum as f64 / told[cluster] as f64,
    };
    sums.into_iter().map(mean).collect()
}

/// What is said of one cell, and of how many of its minutes.
type OfCell = BTreeMap<Why, (usize, Vec<Fact>)>;

/// Cuts free parts by what is said of the minutes of their cells. Minutes without a source leave their share without a cause.
fn apply(booked: &mut [Booked<'_>], said: impl Iterator<Item = Said>) {
    let mut cells: BTreeMap<(usize, usize), OfCell> = BTreeMap::new();
    for Said { booked, cell, why, facts } in said {
        let of_cell = cells.entry((booked, cell)).or_default();
        of_cell.entry(why).or_insert((0, facts)).0 += 1;
    }
    for ((n, cell), of_cell) in cells {
        let span = &booked[n].course.node.cells[booked[n].course.node.body.start + cell];
        let minutes = ((span.end - span.start) as f64 / MINUTE_MS as f64).ceil();
        let known: usize = of_cell.values().map(|(minutes, _)| minutes).sum();
        let mut weights: Vec<f64> = of_cell.values().map(|(minutes, _)| *minutes as f64).collect();
        weights.push((minutes - known as f64).max(0.0));
        let parts = std::mem::take(&mut booked[n].cells[cell]);
        booked[n].cells[cell] = parts.into_iter().flat_map(|(part, ms)| cut(part, ms, &of_cell, &weights)).collect();
    }
}

/// A free part by cause, in whole milliseconds that sum to it; any other part as it is.
fn cut(part: Part, ms: i64, of_cell: &OfCell, weights: &[f64]) -> Vec<(Part, i64)> {
    if part.class != Class::Unallocated {
        return vec![(part, ms)];
    }
    let caused = of_cell.iter().map(|(why, (_, facts))| {
        let mut part = part.clone();
        part.cause = Some(why.cause());
        part.facts.extend(facts.iter().copied());
        part.confidence = if why.is_counted() { part.confidence } else { part.confidence.min(INFERRED) };
        part
    });
    let parts = caused.chain([part.clone()]).zip(apportion(ms, weights));
    parts.filter(|(_, ms)| *ms > 0).collect()
}

impl Why {
    fn cause(&self) -> Cause {
        let (kind, which) = match self {
            Why::Waits(name) => (CauseKind::FreeWhileWaiting, Some(name.clone())),
            Why::Unfit(lack, name) => (CauseKind::FreeUnfit, Some(format!("{} for {name}", lack.name()))),
            Why::FitUnknown(place) => (CauseKind::FreeFitUnknown, Some(place.clone())),
            Why::NoDemand => (CauseKind::Free, None),
        };
        Cause { kind, which }
    }

    fn is_counted(&self) -> bool {
        !matches!(self, Why::FitUnknown(_))
    }
}
