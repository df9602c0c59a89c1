//! Who of those that wait would fit where, and what keeps the others out. Pure: pods and nodes of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::demand::Pod;
use super::resource::{Kind, Resource};
use super::room::{Lack, Room};
use super::{DemandState, Fact};

/// Why a GPU is free.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// This one waits, and would fit.
    Waits(String),
    /// This one waits, and is kept out.
    Unfit(Lack, String),
    /// Some wait here; whether they would fit is not told.
    FitUnknown(String),
    /// Nothing waits for it.
    NoDemand,
}

/// Why a GPU is free, and the numbers that say so.
#[derive(Clone, Debug)]
pub(super) struct Free {
    pub(super) gpu: usize,
    pub(super) why: Why,
    pub(super) facts: Vec<Fact>,
}

/// GPUs that are waited for, by kind and state.
pub(super) type Counts = BTreeMap<(String, DemandState), usize>;

/// Pods of one run: they have their GPUs together, or none of them has.
pub(super) struct Gang<'p, 'a> {
    pub(super) name: String,
    pub(super) pods: Vec<&'p Pod<'a>>,
}

/// What is found out of a moment.
#[derive(Default)]
pub(super) struct Queue<'a> {
    /// By name of the node.
    pub(super) rooms: BTreeMap<&'a str, Room>,
    pub(super) found: Vec<Free>,
    pub(super) counts: Counts,
    /// GPUs that are waited for, and have none that is free.
    unmet: usize,
}

impl Queue<'_> {
    /// Places the gangs in their order, and says of those that have no place what keeps them out.
    pub(super) fn serve(&mut self, gangs: &[Gang<'_, '_>], now_seconds: f64) {
        let (mut out, mut known) = (Vec::new(), BTreeSet::new());
        for gang in gangs {
            match self.place(gang, &mut known) {
                Some(placed) => {
                    for (pod, taken) in gang.pods.iter().zip(placed) {
                        pod.gpus.iter().for_each(|(kind, count)| self.add(kind, DemandState::Fits, *count));
                        let found =
                            |(_, gpu)| Free { gpu, why: Why::Waits(gang.name.clone()), facts: waits(pod, now_seconds) };
                        self.found.extend(taken.into_iter().map(found));
                    }
                }
                None => out.push(gang),
            }
        }
        for gang in out {
            gang.pods.iter().for_each(|pod| self.keep_out(pod, &gang.name, now_seconds));
        }
    }

    /// All pods of the gang on nodes that they fit on; `None`, and nothing is taken, where one of them has none. `known` are requests
    /// that no node has room for: there is never more of it afterwards, and of thousands of pods that wait many are alike.
    fn place(&mut self, gang: &Gang<'_, '_>, known: &mut BTreeSet<Request>) -> Option<Vec<Vec<(Kind, usize)>>> {
        let mut placed: Vec<(&str, Vec<(Kind, usize)>)> = Vec::new();
        for pod in &gang.pods {
            let may_fit = !pod.is_unschedulable && !known.contains(&request(pod));
            // As full as can be, so that whole nodes stay for those that ask for one.
            let fits = self.rooms.iter().filter(|(_, room)| may_fit && room.lack(pod).is_none());
            let Some(node) = fits.min_by_key(|(_, room)| room.all()).map(|(node, _)| *node) else {
                if placed.is_empty() && may_fit {
                    known.insert(request(pod));
                }
                for ((node, taken), pod) in placed.into_iter().zip(&gang.pods).rev() {
                    self.rooms.entry(node).or_default().give_back(pod, taken);
                }
                return None;
            };
            let taken = self.rooms.entry(node).or_default().place(pod);
            placed.push((node, taken));
        }
        Some(placed.into_iter().map(|(_, taken)| taken).collect())
    }

    /// As many of the free GPUs as the pod asks for, each with what keeps the pod out of its node.
    fn keep_out(&mut self, pod: &Pod<'_>, name: &str, now_seconds: f64) {
        // Nodes without free GPUs need not be looked at for the pods behind.
        self.rooms.retain(|_, room| room.all() > 0);
        for (kind, count) in &pod.gpus {
            let mut missing = *count;
            let mut nodes: Vec<(bool, usize, &str)> = self
                .rooms
                .iter()
                .filter(|(_, room)| room.count(kind) > 0)
                .map(|(node, room)| (room.count(kind) < *count, usize::MAX - room.count(kind), *node))
                .collect();
            nodes.sort_unstable();
            for (_, _, node) in nodes {
                let Some(room) = self.rooms.get_mut(node).filter(|_| missing > 0) else { break };
                let alone = if pod.is_unschedulable { Lack::Placement } else { Lack::Gang };
                let lack = room.lack(pod).unwrap_or(alone);
                let facts = lacks(pod, kind, lack, room).into_iter().chain(waits(pod, now_seconds)).collect::<Vec<_>>();
                let taken = room.take(kind, missing);
                missing -= taken.len();
                let why = Why::Unfit(lack, name.to_owned());
                self.found.extend(taken.into_iter().map(|(_, gpu)| Free {
                    gpu,
                    why: why.clone(),
                    facts: facts.clone(),
                }));
            }
            self.add(kind, DemandState::Unfit, count - missing);
            self.add(kind, DemandState::Short, missing);
            self.unmet += missing;
        }
    }

    /// Gives GPUs to what waits without naming a pod.
    pub(super) fn give(&mut self, kind: &Kind, count: usize, name: &str) {
        let mut missing = count;
        for room in self.rooms.values_mut() {
            let taken = room.take(kind, missing);
            missing -= taken.len();
            let found = |(_, gpu)| Free { gpu, why: Why::Waits(name.to_owned()), facts: Vec::new() };
            self.found.extend(taken.into_iter().map(found));
        }
        self.add(kind, DemandState::Fits, count - missing);
        self.add(kind, DemandState::Short, missing);
        self.unmet += missing;
    }

    /// Says of what is left that something waits in this place, or that nothing does. GPUs that are cut up otherwise than those
    /// that wait ask for are kept from them by that.
    pub(super) fn finish(&mut self, waits_in: Option<&str>, first: &str) {
        let mut unmet = self.unmet;
        let free = self.rooms.values_mut().flat_map(|room| mem::take(&mut room.free));
        for (kind, gpu) in free.flat_map(|(kind, gpus)| gpus.into_iter().map(move |gpu| (kind.clone(), gpu))) {
            let is_cut = kind != Kind::Whole && unmet > 0;
            unmet -= usize::from(is_cut);
            let why = match waits_in {
                _ if is_cut => Why::Unfit(Lack::Mig, first.to_owned()),
                Some(place) => Why::FitUnknown(place.to_owned()),
                None => Why::NoDemand,
            };
            self.found.push(Free { gpu, why, facts: Vec::new() });
        }
    }

    fn add(&mut self, kind: &Kind, state: DemandState, count: usize) {
        if count > 0 {
            *self.counts.entry((kind.name().to_owned(), state)).or_default() += count;
        }
    }
}

/// What a pod asks for: GPUs, thousandths of a core, bytes.
type Request = (BTreeMap<Kind, usize>, i64, i64);

fn request(pod: &Pod<'_>) -> Request {
    (pod.gpus.clone(), (pod.cores * 1000.0) as i64, pod.bytes as i64)
}

/// For how long the pod has waited.
fn waits(pod: &Pod<'_>, now_seconds: f64) -> Vec<Fact> {
    let waited = pod.created_seconds.map(|created| (now_seconds - created).max(0.0));
    let fact = |value| Fact { signal: "time since the pod was made", unit: "seconds", value, threshold: 0.0 };
    waited.map(fact).into_iter().collect()
}

/// What the pod asks for, against what the node has.
fn lacks(pod: &Pod<'_>, kind: &Kind, lack: Lack, room: &Room) -> Option<Fact> {
    let asked = pod.gpus.get(kind).copied().unwrap_or_default() as f64;
    let fact = |signal, unit, value, threshold| Fact { signal, unit, value, threshold };
    match lack {
        Lack::WholeNode => {
            Some(fact("GPUs that the pod asks for / free on the node", "GPUs", asked, room.count(kind) as f64))
        }
        Lack::Gpu => {
            let left = room.left(&Resource::Gpu(kind.clone())).unwrap_or_default();
            Some(fact("GPUs that the pod asks for / not asked for on the node", "GPUs", asked, left))
        }
        Lack::Cpu => {
            Some(fact("CPUs that the pod asks for / left on the node", "cores", pod.cores, room.left(&Resource::Cpu)?))
        }
        Lack::Memory => Some(fact(
            "memory that the pod asks for / left on the node",
            "bytes",
            pod.bytes,
            room.left(&Resource::Memory)?,
        )),
        Lack::Placement | Lack::Gang | Lack::Mig => None,
    }
}
