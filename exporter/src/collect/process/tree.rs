//! Who was started by a process that holds a GPU.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::source::files::Roots;
use crate::source::process;

/// Most processes that are read. Those that hold a GPU come first, then what they started, nearest first.
const MAX_PROCESSES: usize = 256;

/// A process of an owner's tree.
pub(in crate::collect) struct Member {
    pub(in crate::collect) pid: u32,
    /// Does it hold no GPU itself?
    pub(in crate::collect) worker: bool,
    /// Does the kernel say what it started?
    pub(in crate::collect) children_known: bool,
}

/// The trees of all owners of a GPU.
pub(in crate::collect) struct Tree<'a> {
    pub(in crate::collect) by_owner: BTreeMap<&'a str, Vec<Member>>,
    /// Processes that are known and were left out; those that they started are not known.
    pub(in crate::collect) skipped: usize,
}

impl<'a> Tree<'a> {
    /// Follows the processes of each owner.
    pub(in crate::collect) fn find(roots: &Roots, owners: impl Iterator<Item = (&'a str, &'a [u32])>) -> Self {
        let mut tree = Tree { by_owner: BTreeMap::new(), skipped: 0 };
        let mut queue: VecDeque<(&str, u32, bool)> =
            owners.flat_map(|(owner, pids)| pids.iter().map(move |pid| (owner, *pid, false))).collect();
        let mut seen: BTreeSet<u32> = queue.iter().map(|(_, pid, _)| *pid).collect();
        let mut found = 0;
        while let Some((owner, pid, worker)) = queue.pop_front() {
            if found == MAX_PROCESSES {
                tree.skipped = queue.len() + 1;
                break;
            }
            found += 1;
            let children = process::children(roots, pid);
            let member = Member { pid, worker, children_known: children.is_some() };
            tree.by_owner.entry(owner).or_default().push(member);
            let new = children.unwrap_or_default().into_iter().filter(|child| seen.insert(*child));
            queue.extend(new.map(|child| (owner, child, true)));
        }
        tree
    }
}
