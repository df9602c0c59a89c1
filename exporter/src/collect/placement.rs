//! `placement`: on which NUMA nodes the threads of GPU processes run, estimated from the busiest of them once a minute.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::process::tree::Tree;
use super::*;
use crate::parse::process;
use crate::parse::stat::TICKS_PER_SECOND;
use goodput_catalog::placement::*;

/// The kernel keeps no time per thread and node, so a thread's time goes to where it is found; walking thousands of
/// threads takes tens of milliseconds.
const EVERY: Duration = Duration::from_secs(60);

/// Most threads whose file is read in a round: each process's first ones, process after process.
const MAX_READ: usize = 1024;

/// Most threads that count in a round: those that used most CPU time since the round before.
const HOTTEST: usize = 256;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Placement>(
    "placement",
    "NUMA nodes on which the threads of GPU processes run, estimated once a minute; at most 1,024 small files, and the threads of at most 256 processes listed.",
    2,
);

/// A thread: its id, and when it began, because ids come back.
type Key = (u32, u64);

/// Reads `/proc/PID/task/TID/stat` now and then, and keeps what each thread had used.
#[derive(Default)]
pub struct Placement {
    sampled: Option<Instant>,
    last: BTreeMap<Key, u64>,
    /// Ticks by owner and node; nodes that have CPUs are there from the first round on.
    totals: BTreeMap<String, BTreeMap<Option<u32>, u64>>,
    skipped: usize,
}

impl Collector for Placement {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let is_due = self.sampled.is_none_or(|then| now.duration_since(then) >= EVERY);
        if is_due {
            // The first job that takes a GPU does not wait for the next round.
            let is_held = context.owners.all().iter().any(|owner| !owner.pids.is_empty());
            self.sampled = is_held.then_some(now);
            self.sample(context);
        }
        out.push(&PLACEMENT_SKIPPED, &[], self.skipped as f64);
        for (owner, nodes) in &self.totals {
            for (node, ticks) in nodes {
                let node = node.map(|node| node.to_string()).unwrap_or_default();
                out.push_with(&PLACEMENT_CPU, &[owner], &[&node], *ticks as f64 / TICKS_PER_SECOND);
            }
        }
        Ok(Done::Ok)
    }
}

/// What a thread used since the round before, and the CPU that it was found on.
struct Use<'a> {
    owner: &'a str,
    cpu: u32,
    ticks: u64,
}

impl Placement {
    fn sample(&mut self, context: &Context) {
        let nodes = context.common.nodes(&context.roots);
        let owners = context.owners.all().iter().filter(|owner| !owner.pids.is_empty());
        let tree = Tree::find(&context.roots, owners.map(|owner| (owner.id.as_str(), &owner.pids[..])));
        let threads = self.threads(context, &tree.by_owner);
        let mut before = std::mem::take(&mut self.totals);
        for owner in tree.by_owner.keys() {
            let known = nodes.iter().map(|(node, _)| (Some(node), 0));
            let total = before.remove(*owner).unwrap_or_else(|| known.collect());
            self.totals.insert((*owner).to_owned(), total);
        }
        let (mut uses, mut now) = (Vec::new(), BTreeMap::new());
        for (owner, pid, tid) in threads {
            let path = context.roots.proc.join(format!("{pid}/task/{tid}/stat"));
            let Some(thread) = files::get(&path, process::thread) else { continue };
            let key = (tid, thread.start_ticks);
            let ticks = self.last.get(&key).map_or(0, |last| thread.ticks.saturating_sub(*last));
            now.insert(key, thread.ticks);
            uses.push(Use { owner, cpu: thread.cpu, ticks });
        }
        self.last = now;
        uses.sort_by_key(|one| Reverse(one.ticks));
        for one in uses.iter().take(HOTTEST).filter(|one| one.ticks > 0) {
            let node = nodes.of_cpu(one.cpu);
            if let Some(totals) = self.totals.get_mut(one.owner) {
                let total = totals.entry(node).or_default();
                *total = total.saturating_add(one.ticks);
            }
        }
    }

    /// The threads that are read in this round: the first of every process, then the second of every process, and so on.
    fn threads<'a>(
        &mut self,
        context: &Context,
        by_owner: &BTreeMap<&'a str, Vec<super::process::tree::Member>>,
    ) -> Vec<(&'a str, u32, u32)> {
        let mut threads = Vec::new();
        for (owner, members) in by_owner {
            for member in members {
                let names = files::names(&context.roots.proc.join(format!("{}/task", member.pid))).unwrap_or_default();
                let mut tids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
                tids.sort_unstable();
                threads.extend(tids.into_iter().enumerate().map(|(place, tid)| (place, *owner, member.pid, tid)));
            }
        }
        threads.sort_by_key(|(place, ..)| *place);
        self.skipped = threads.len().saturating_sub(MAX_READ);
        threads.into_iter().take(MAX_READ).map(|(_, owner, pid, tid)| (owner, pid, tid)).collect()
    }
}
