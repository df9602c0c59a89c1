//! Vanished GPUs of windows after those that were judged.
//!
//! Which GPUs had vanished in a window depends on the verdicts of the day before it. Windows that are judged in order need
//! nothing of this. Where one is judged again, or late, those after it follow without their samples being read.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::tz::TimeZone;

use super::{Judge, JudgeError, Node, windows};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::{Capacity, Seen, VANISHED_MS, declare, has_vanished};
use goodput_store::{Place, Replacement, Results, Samples};
use goodput_verdict::Interval;

impl<S: Samples, R: Results> Judge<S, R> {
    /// Books again which GPUs had vanished in the windows from `from` to `until` that were judged, until nothing changes
    /// any more.
    pub async fn rebook_vanished(&self, from: TimeMs, until: TimeMs, zone: &TimeZone) -> Result<(), JudgeError> {
        let judged = self.results.judged_windows(from..until).await?;
        let mut capacity = self.capacity_at(from).await?;
        for window in windows(from..until, zone) {
            let stored = self.results.intervals(window.clone()).await?;
            // Releases before this one did not note which windows were judged.
            let last = stored.iter().map(|i| i.end_ms).max();
            let Some(end) = judged.get(&window.start).copied().max(last) else { continue };
            let changed = self.rebook(&mut capacity, &window, window.start..end.min(window.end), stored).await?;
            if !changed && window.end - from >= VANISHED_MS {
                break;
            }
        }
        self.seen.lock().split_off(&(from + 1));
        Ok(())
    }

    /// Whether something changed in the window; `judged` is the part of it that was judged.
    async fn rebook(
        &self,
        capacity: &mut Capacity,
        window: &Range<TimeMs>,
        judged: Range<TimeMs>,
        stored: Vec<Interval>,
    ) -> Result<bool, JudgeError> {
        let (old, own): (Vec<Interval>, Vec<Interval>) = stored.into_iter().partition(has_vanished);
        let there: BTreeSet<&str> = own.iter().map(|i| i.gpu.as_str()).collect();
        let new = capacity.vanished(&judged, |seen: &Seen| there.contains(seen.gpu.as_str()));
        let mut new = declare(new, &self.maintenance);
        new.sort_by(|a, b| (&a.node, &a.gpu, a.start_ms).cmp(&(&b.node, &b.gpu, b.start_ms)));
        capacity.note(own.iter().chain(&new));
        if old == new {
            return Ok(false);
        }
        let place = |i: &Interval| (i.cluster.clone(), i.node.clone());
        let nodes: BTreeSet<Node> = old.iter().chain(&new).map(place).collect();
        let of = |node: &Node| own.iter().chain(&new).filter(|i| place(i) == *node).cloned().collect::<Vec<_>>();
        let rows: Vec<(&Node, Vec<Interval>)> = nodes.iter().map(|node| (node, of(node))).collect();
        let replaced = rows.iter().map(|((cluster, node), rows)| Replacement {
            place: Place::new(cluster, node),
            intervals: Some(rows),
            outlook: None,
        });
        let new: Vec<Replacement<'_>> = replaced.collect();
        for (n, reason) in self.results.replace_window(window.clone(), &new).await? {
            tracing::error!(node = %new[n].place, %reason, "a node's vanished GPUs are not stored");
        }
        Ok(true)
    }
}
