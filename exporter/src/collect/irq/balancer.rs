//! irqbalance: does it run, and what is it told?

use std::time::{Duration, Instant};

use crate::context::Context;
use crate::parse::cpus;
use crate::parse::irqbalance::{self, Settings};
use crate::source::daemons;
use crate::source::files::{self, Roots};
use goodput_catalog::irq::*;
use goodput_exposition::Families;

/// As the kernel and people call it.
pub(crate) const NAME: &str = "irqbalance";

/// The daemon rarely restarts; where it does not run, looking for it reads a file of every process.
const EVERY: Duration = Duration::from_secs(60);

/// Where distributions put its settings: Debian and its kin, then Red Hat's and SUSE's.
const SETTINGS: [&str; 2] = ["etc/default/irqbalance", "etc/sysconfig/irqbalance"];

/// What was found at the last look.
#[derive(Default)]
pub(super) struct Balancer {
    process: Lasting<Process>,
    settings: Lasting<Option<Settings>>,
}

/// Whether it runs.
#[derive(Clone, Copy)]
enum Process {
    Running(u32),
    Missing,
    /// The node's processes cannot be seen.
    Unseen,
}

/// Something that is read now and then.
struct Lasting<T>(Option<(Instant, T)>);

impl<T> Default for Lasting<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Lasting<T> {
    fn get(&mut self, now: Instant, read: impl FnOnce(Option<T>) -> T) -> &T {
        let (then, found) = match self.0.take() {
            Some((then, found)) if now.duration_since(then) < EVERY => (then, found),
            old => (now, read(old.map(|(_, found)| found))),
        };
        &self.0.insert((then, found)).1
    }
}

impl Balancer {
    /// Looks if it is time to, and writes what was found.
    pub(super) fn collect(&mut self, context: &Context, out: &mut Families) {
        // The clock of the readings, which may be an injected one.
        let (roots, now) = (&context.roots, context.gpus.at);
        match self.process.get(now, |last| process(roots, last)) {
            Process::Running(_) => out.push(&IRQBALANCE_RUNNING, &[], 1.0),
            Process::Missing => out.push(&IRQBALANCE_RUNNING, &[], 0.0),
            Process::Unseen => {}
        }
        if let Some(settings) = self.settings.get(now, |_| settings(roots)) {
            push(settings, out);
        }
    }
}

/// Where it ran before is looked at first.
fn process(roots: &Roots, last: Option<Process>) -> Process {
    if let Some(Process::Running(pid)) = last
        && daemons::is_running(roots, pid, NAME)
    {
        return Process::Running(pid);
    }
    match daemons::running(roots, &[NAME]) {
        None => Process::Unseen,
        Some(running) => running.get(NAME).map_or(Process::Missing, |pid| Process::Running(*pid)),
    }
}

fn push(settings: &Settings, out: &mut Families) {
    let mode = if settings.oneshot { "oneshot" } else { "daemon" };
    let script = if settings.policy_script { "true" } else { "false" };
    out.push_with(&IRQBALANCE_INFO, &[mode, script], &[settings.hint_policy.unwrap_or_default()], 1.0);
    out.push(&IRQBALANCE_BANNED_CPUS, &[], settings.banned.as_ref().map(|banned| cpus::count(banned) as f64));
}

/// Its settings, from the first of the places that has some.
pub(crate) fn settings(roots: &Roots) -> Option<Settings> {
    for path in SETTINGS {
        if let Some(found) = files::get(&roots.root.join(path), irqbalance::settings) {
            return Some(found);
        }
    }
    None
}
