//! Storage targets of Lustre file systems, by name, or summed where there are too many.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use super::{folders, read};
use crate::parse::lustre::{self, Requests};
use goodput_catalog::lustre::*;

/// Most targets that get series of their own; what is above belongs to sums.
const MAX_TARGETS: usize = 64;
/// The target of a sum.
const ALL: &str = "all";

/// What is counted of a target, or of several.
#[derive(Clone, Copy)]
struct Told {
    requests: Option<Requests>,
    evictions: Option<u64>,
}

/// Pushes the series of all targets. Connections whose files this process may not read are counted.
pub(super) fn push(roots: &Roots, out: &mut Families, denied: &mut u64) -> Result<(), FileError> {
    let names = folders(roots, "osc")?.unwrap_or_default();
    let mut by_filesystem: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for name in &names {
        if let Some((filesystem, target)) = lustre::target(name) {
            by_filesystem.entry(filesystem).or_default().entry(target).or_default().push(name);
        }
    }
    let mut by_size: Vec<_> = by_filesystem.into_iter().collect();
    by_size.sort_by_key(|(_, targets)| targets.len());
    let mut room = MAX_TARGETS;
    for (filesystem, targets) in by_size {
        let told = targets.iter().map(|(target, folders)| {
            let of_mounts = folders.iter().map(|name| Told::of(roots, name, denied));
            (*target, of_mounts.reduce(Told::and))
        });
        let told: Vec<(&str, Option<Told>)> = told.collect();
        if targets.len() <= room {
            room -= targets.len();
            told.into_iter().for_each(|(target, told)| series(filesystem, target, told, out));
        } else {
            room = 0;
            series(filesystem, ALL, told.into_iter().filter_map(|(_, told)| told).reduce(Told::and), out);
        }
    }
    Ok(())
}

fn series(filesystem: &str, target: &str, told: Option<Told>, out: &mut Families) {
    let labels = [filesystem, target];
    let (requests, evictions) = (told.and_then(|told| told.requests), told.and_then(|told| told.evictions));
    let evictions = evictions.filter(|evictions| *evictions > 0);
    out.push(&LUSTRE_TARGET_TIME, &labels, requests.map(|requests| requests.time.as_secs_f64()));
    out.push(&LUSTRE_TARGET_REQUESTS, &labels, requests.map(|requests| requests.count as f64));
    out.push(&LUSTRE_TARGET_EVICTIONS, &labels, evictions.map(|n| n as f64));
}

impl Told {
    fn of(roots: &Roots, name: &str, denied: &mut u64) -> Told {
        let mut files_denied = 0;
        let requests = read(roots, "osc", name, "stats", lustre::requests);
        let evictions = read(roots, "osc", name, "import", lustre::evictions);
        let told = Told {
            requests: files::found_or_denied(requests, &mut files_denied).flatten(),
            evictions: files::found_or_denied(evictions, &mut files_denied).flatten(),
        };
        *denied += files_denied.min(1);
        told
    }

    /// Both together; a sum that lacks a part is absent.
    fn and(self, other: Told) -> Told {
        let both = |(a, b): (Requests, Requests)| Requests {
            count: a.count.saturating_add(b.count),
            time: a.time.checked_add(b.time).unwrap_or(Duration::MAX),
        };
        Told {
            requests: self.requests.zip(other.requests).map(both),
            evictions: self.evictions.zip(other.evictions).map(|(a, b)| a.saturating_add(b)),
        }
    }
}
