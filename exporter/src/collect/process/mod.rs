//! `process`: what the processes that hold GPUs do, with all that they started, summed by owner.

mod account;
pub(super) mod tree;

use std::collections::BTreeMap;

use self::account::Account;
use self::tree::{Member, Tree};
use super::*;
use crate::parse::limits::Limit;
use crate::parse::stat::TICKS_PER_SECOND;
use crate::parse::{Parsed, keyed, limits, number, process, status};
use goodput_catalog::process::*;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Processes>(
    "process",
    "What the processes that hold GPUs do, with all that they started, summed by owner; 4 files per process and 2 more of those on GPUs, at most 256 processes, and 1 per thread to find them.",
    2,
);

/// A counter of the tree: its row, the value of its second label, and how many of the kernel's units make one of ours.
struct Counter(&'static Metric, Option<&'static str>, f64);

/// Every counter of a process, in the order of [`Reading::counts`].
static COUNTERS: [Counter; 11] = [
    Counter(&PROCESS_CPU, Some("user"), TICKS_PER_SECOND),
    Counter(&PROCESS_CPU, Some("system"), TICKS_PER_SECOND),
    Counter(&PROCESS_FAULTS, Some("minor"), 1.0),
    Counter(&PROCESS_FAULTS, Some("major"), 1.0),
    Counter(&PROCESS_RUN_DELAY, None, 1e9),
    Counter(&PROCESS_SWITCHES, Some("voluntary"), 1.0),
    Counter(&PROCESS_SWITCHES, Some("involuntary"), 1.0),
    Counter(&PROCESS_READ, None, 1.0),
    Counter(&PROCESS_WRITTEN, None, 1.0),
    Counter(&PROCESS_CALLS_READ, None, 1.0),
    Counter(&PROCESS_HOLDERS_CPU, None, TICKS_PER_SECOND),
];
/// The places of the context switches.
const SWITCHES: std::ops::Range<usize> = 5..7;
/// The places of what `/proc/PID/io` counts.
const IO: std::ops::Range<usize> = 7..10;
/// The place of what only processes on GPUs count, so that none is missing of a worker.
const HOLDERS: usize = 10;

/// A process that computes for so much of the time has none to spare: the rest goes into handing over what it made.
const SATURATED: f64 = 0.85;

const STATES: [&str; 3] = ["running", "sleeping", "uninterruptible"];

/// Reads `/proc/PID` of every process of the trees. Keeps what it saw of each, so that sums of processes that come and
/// go only grow.
#[derive(Default)]
pub struct Processes {
    accounts: BTreeMap<String, Account>,
    /// Ticks since boot at the scrape before: what began later has used all that it has since.
    before: Option<u64>,
}

impl Collector for Processes {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let uptime = files::get(&roots.proc.join("uptime"), process::uptime);
        let now = uptime.map(|seconds| (seconds * TICKS_PER_SECOND) as u64);
        let clock = Clock { before: self.before, now };
        let tree = Tree::find(roots, context.owners.all().iter().map(|owner| (owner.id.as_str(), &owner.pids[..])));
        out.push(&PROCESS_SKIPPED, &[], tree.skipped as f64);
        let mut denied = 0;
        let mut accounts = BTreeMap::new();
        for (owner, members) in tree.by_owner {
            let mut sums = Sums::default();
            let mut account = self.accounts.remove(owner).unwrap_or_default();
            for member in &members {
                read(context, member, &mut sums, &mut account, &clock);
            }
            account.end();
            denied += sums.denied;
            sums.push(owner, &account, clock.elapsed().is_some(), out);
            accounts.insert(owner.to_owned(), account);
        }
        out.push(&PROCESS_IO_DENIED, &[], denied as f64);
        self.accounts = accounts;
        self.before = now;
        Ok(Done::Ok)
    }
}

/// Ticks since boot at the scrape before and at this one.
struct Clock {
    before: Option<u64>,
    now: Option<u64>,
}

impl Clock {
    /// `None` at the first scrape, and where time did not pass.
    fn elapsed(&self) -> Option<u64> {
        self.now?.checked_sub(self.before?).filter(|ticks| *ticks > 0)
    }
}

/// What one owner's processes are at this moment.
#[derive(Default)]
struct Sums {
    alive: u64,
    workers: u64,
    saturated: u64,
    /// Does the kernel say who started whom? Otherwise no worker found is not no worker.
    children_known: bool,
    threads: u64,
    states: [u64; STATES.len()],
    denied: u64,
    /// Is a process missing from a counter? A sum without it would say too little.
    incomplete: [bool; COUNTERS.len()],
    memlock: Option<u64>,
    oom_score: Option<u64>,
}

/// Reads one process. One that has ended leaves nothing.
fn read(context: &Context, member: &Member, sums: &mut Sums, account: &mut Account, clock: &Clock) {
    let folder = context.roots.proc.join(member.pid.to_string());
    let Some(stat) = files::get(&folder.join("stat"), process::stat) else { return };
    sums.alive += 1;
    sums.workers += u64::from(member.worker);
    sums.children_known |= member.children_known;
    sums.threads += stat.threads;
    if let Some(state) = state(stat.state) {
        sums.states[state] += 1;
    }
    let mut counts = [None; COUNTERS.len()];
    counts[..4].copy_from_slice(&[stat.user_ticks, stat.system_ticks, stat.minor_faults, stat.major_faults].map(Some));
    counts[HOLDERS] = (!member.worker).then_some(stat.user_ticks + stat.system_ticks);
    rest(context, &folder, member, sums, &mut counts);
    for (incomplete, count) in sums.incomplete.iter_mut().zip(&counts[..HOLDERS]) {
        *incomplete |= count.is_none();
    }
    let process = (member.pid, stat.start_ticks);
    let used = account.cpu_ticks_since(process, &counts).zip(clock.elapsed());
    let is_saturated = used.is_some_and(|(used, elapsed)| used as f64 >= SATURATED * elapsed as f64);
    sums.saturated += u64::from(member.worker && is_saturated);
    let since = clock.before.is_some_and(|before| stat.start_ticks >= before);
    account.add(process, counts, since);
}

/// The files next to `stat`.
fn rest(
    context: &Context,
    folder: &std::path::Path,
    member: &Member,
    sums: &mut Sums,
    counts: &mut [Option<u64>; COUNTERS.len()],
) {
    counts[4] = files::get(&folder.join("schedstat"), process::run_delay).flatten();
    let status = folder.join("status");
    let switches = match member.worker {
        // No other collector reads it.
        true => files::get(&status, status::context_switches),
        false => context.common.get(&status, status::context_switches),
    };
    counts[SWITCHES].copy_from_slice(&switches.unwrap_or_default());
    let io = files::found_or_denied(files::parse_optional(&folder.join("io"), io), &mut sums.denied);
    counts[IO].copy_from_slice(&io.unwrap_or_default());
    if !member.worker {
        let limit = files::get(&folder.join("limits"), limits::max_locked_memory).flatten();
        sums.memlock = sums.memlock.into_iter().chain(limit.and_then(Limit::bytes)).min();
        let score = files::get(&folder.join("oom_score"), number::<u64>);
        sums.oom_score = sums.oom_score.into_iter().chain(score).max();
    }
}

/// `read_bytes`, `write_bytes` and `rchar`.
fn io(text: &str) -> Parsed<[Option<u64>; 3]> {
    let mut found = [None; 3];
    let parsed = keyed::each(text, |key, bytes| {
        let at = ["read_bytes:", "write_bytes:", "rchar:"].iter().position(|name| *name == key);
        if let Some(place) = at.and_then(|at| found.get_mut(at)) {
            *place = Some(bytes);
        }
    });
    parsed.map(|()| found)
}

/// The place in [`STATES`].
fn state(letter: char) -> Option<usize> {
    "RSD".find(letter)
}

impl Sums {
    fn push(&self, owner: &str, account: &Account, is_timed: bool, out: &mut Families) {
        if self.alive == 0 {
            return;
        }
        out.push(&PROCESS_COUNT, &[owner], self.alive as f64);
        out.push(&PROCESS_WORKERS, &[owner], self.children_known.then_some(self.workers as f64));
        let saturated = (self.children_known && is_timed).then_some(self.saturated as f64);
        out.push(&PROCESS_SATURATED_WORKERS, &[owner], saturated);
        out.push(&PROCESS_THREADS, &[owner], self.threads as f64);
        for (state, count) in STATES.iter().zip(self.states) {
            out.push(&PROCESS_STATE, &[owner, state], count as f64);
        }
        for ((Counter(row, label, unit), total), incomplete) in
            COUNTERS.iter().zip(account.totals()).zip(self.incomplete)
        {
            let total = (!incomplete).then_some(total as f64 / unit);
            match label {
                Some(label) => out.push(row, &[owner, label], total),
                None => out.push(row, &[owner], total),
            }
        }
        out.push(&PROCESS_MEMLOCK, &[owner], self.memlock.map(|bytes| bytes as f64));
        out.push(&PROCESS_OOM_SCORE, &[owner], self.oom_score.map(|score| score as f64));
    }
}
