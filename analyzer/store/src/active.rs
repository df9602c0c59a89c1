//! Which series count towards `max_series`, and towards the bound of their sender or scrape job. Pure.
//!
//! A series counts from its first sample until it is evicted: when room is needed, those that ended first go. Eviction ends
//! the counting and nothing more. The series stays in the catalogue, and its samples stay readable, as long as retention
//! keeps them; a series that comes back counts again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::catalogue::SeriesId;
use super::pages::Pages;

/// A series without samples for so long has ended, whether a staleness marker said so or not.
const SILENT_S: u32 = 3600;
/// When nothing is known to have ended, all series are looked at again after so long.
const LOOK_S: u32 = 10;
/// Or when this part of all series has ended since: then a look costs little per series that ended.
const LOOK_SHARE: usize = 64;

/// Who brought a series: a sender or a scrape job, by its place in [`Active::owners`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Owner(u32);

/// Why a new series does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Full {
    /// `max_series`.
    Series,
    /// `max_series_per_sender`, or the `max_series` of a scrape job.
    Owner,
    /// `max_label_bytes`.
    LabelBytes,
    /// The catalogue, ended series included, is as large as it may be.
    Catalogue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    counts: bool,
    /// Its newest sample is a staleness marker, or it was only found in segments at the start.
    ended: bool,
    owner: Owner,
    /// When its last sample came.
    heard_s: u32,
}

#[derive(Debug)]
struct Bound {
    name: Arc<str>,
    max: usize,
    series: usize,
}

pub(super) struct Active {
    max: usize,
    series: Pages<Entry>,
    count: usize,
    evicted: u64,
    owners: Vec<Bound>,
    by_name: HashMap<Arc<str>, Owner>,
    /// Places of owners that have no series any more.
    free: Vec<Owner>,
    /// Series that had ended when they were last looked for, by owner: the first to end comes first.
    ended: HashMap<Owner, VecDeque<(u32, SeriesId)>>,
    looked_s: u32,
    /// How many have ended since.
    ended_since: usize,
}

impl Active {
    /// Of series without an owner nothing is known but that they were stored before the start.
    pub(super) fn new(max: usize) -> Self {
        let before = Bound { name: "".into(), max: usize::MAX, series: 0 };
        Self {
            max,
            series: Pages::default(),
            count: 0,
            evicted: 0,
            owners: vec![before],
            by_name: HashMap::new(),
            free: Vec::new(),
            ended: HashMap::new(),
            looked_s: 0,
            ended_since: 1,
        }
    }

    /// How many series count.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many were evicted so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Gives back the places of owners without series. Owners that were asked for before are not valid any more.
    pub(super) fn forget_owners(&mut self) {
        let owners = &self.owners;
        let free = &mut self.free;
        self.by_name.retain(|_, owner| {
            let used = owners.get(owner.0 as usize).is_some_and(|bound| bound.series > 0);
            if !used {
                free.push(*owner);
            }
            used
        });
    }

    /// The owner of this name; `max` bounds its series.
    pub(super) fn owner(&mut self, name: &Arc<str>, max: usize) -> Owner {
        if let Some(owner) = self.by_name.get(name) {
            return *owner;
        }
        let bound = Bound { name: Arc::clone(name), max, series: 0 };
        let owner = match self.free.pop() {
            Some(owner) => {
                self.owners[owner.0 as usize] = bound;
                owner
            }
            None => {
                self.owners.push(bound);
                Owner(self.owners.len() as u32 - 1)
            }
        };
        self.by_name.insert(Arc::clone(name), owner);
        owner
    }

    /// The owner's name and bound.
    pub(super) fn bound(&self, owner: Owner) -> (&str, usize) {
        self.owners.get(owner.0 as usize).map_or(("", usize::MAX), |bound| (&*bound.name, bound.max))
    }

    /// Makes room for one more series of the owner, for which others that have ended may go.
    pub(super) fn make_room(&mut self, owner: Owner, now_s: u32) -> Result<(), Full> {
        // More than one may have to go: series that come back are always taken.
        while self.owners[owner.0 as usize].series >= self.owners[owner.0 as usize].max {
            self.evict(Some(owner), now_s).ok_or(Full::Owner)?;
        }
        while self.count >= self.max {
            self.evict(None, now_s).ok_or(Full::Series)?;
        }
        Ok(())
    }

    /// A sample of the series is stored: it counts. `ended`: the sample is a staleness marker.
    pub(super) fn heard(&mut self, id: SeriesId, owner: Owner, now_s: u32, ended: bool) {
        let entry = self.series.get_mut(id);
        if !entry.counts || entry.owner == Owner::default() {
            self.owners[entry.owner.0 as usize].series -= usize::from(entry.counts);
            self.owners[owner.0 as usize].series += 1;
            self.count += usize::from(!entry.counts);
            (entry.counts, entry.owner) = (true, owner);
        }
        self.ended_since += usize::from(ended && !entry.ended);
        (entry.ended, entry.heard_s) = (ended, now_s);
    }

    /// The series is no longer there.
    pub(super) fn remove(&mut self, id: SeriesId) {
        let entry = std::mem::take(self.series.get_mut(id));
        if entry.counts {
            self.count -= 1;
            self.owners[entry.owner.0 as usize].series -= 1;
        }
    }

    /// Gives back memory of series that are gone.
    pub(super) fn shrink(&mut self) {
        self.series.shrink();
    }

    /// Evicts the series that ended first, of the owner or of all. `None` when none has ended.
    fn evict(&mut self, owner: Option<Owner>, now_s: u32) -> Option<()> {
        let known = self.next_ended(owner, now_s);
        let id = known.or_else(|| {
            let due = now_s.saturating_sub(self.looked_s) >= LOOK_S || self.ended_since > self.count / LOOK_SHARE;
            due.then(|| self.look_for_ended(now_s))?;
            self.next_ended(owner, now_s)
        })?;
        let entry = self.series.get_mut(id);
        entry.counts = false;
        self.count -= 1;
        self.owners[entry.owner.0 as usize].series -= 1;
        self.evicted += 1;
        Some(())
    }

    /// The series that ended first by what was found, and has not come back since.
    fn next_ended(&mut self, owner: Option<Owner>, now_s: u32) -> Option<SeriesId> {
        loop {
            let first = |(owner, ended): (&Owner, &VecDeque<_>)| ended.front().map(|first| (*first, *owner));
            let owner = match owner {
                Some(owner) => owner,
                None => self.ended.iter().filter_map(first).min_by_key(|((heard_s, id), _)| (*heard_s, id.0))?.1,
            };
            let (heard_s, id) = self.ended.get_mut(&owner)?.pop_front()?;
            let entry = self.series.get(id).copied().unwrap_or_default();
            if entry.owner == owner && entry.heard_s == heard_s && entry.has_ended(now_s) {
                return Some(id);
            }
        }
    }

    fn look_for_ended(&mut self, now_s: u32) {
        let mut found: Vec<(u32, SeriesId, Owner)> = Vec::new();
        for (id, entry) in self.series.iter().filter(|(_, entry)| entry.has_ended(now_s)) {
            found.push((entry.heard_s, id, entry.owner));
        }
        found.sort_unstable_by_key(|(heard_s, id, _)| (*heard_s, *id));
        self.ended.clear();
        for (heard_s, id, owner) in found {
            self.ended.entry(owner).or_default().push_back((heard_s, id));
        }
        (self.looked_s, self.ended_since) = (now_s, 0);
    }
}

impl Entry {
    fn has_ended(self, now_s: u32) -> bool {
        self.counts && (self.ended || now_s.saturating_sub(self.heard_s) >= SILENT_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a series if there is room for it.
    fn begin(active: &mut Active, id: u32, owner: Owner, now_s: u32, ended: bool) -> Result<(), Full> {
        active.make_room(owner, now_s)?;
        active.heard(SeriesId(id), owner, now_s, ended);
        Ok(())
    }

    fn counted(active: &Active) -> Vec<u32> {
        active.series.iter().filter(|(_, entry)| entry.counts).map(|(id, _)| id.0).collect()
    }

    #[test]
    fn those_that_ended_first_make_room() {
        let mut active = Active::new(4);
        let owner = active.owner(&"a".into(), 10);
        for (id, now_s, ended) in [(0, 0, false), (1, 5, true), (2, 3, true), (3, 6, false)] {
            begin(&mut active, id, owner, now_s, ended).unwrap();
        }
        begin(&mut active, 4, owner, 7, false).unwrap();
        assert_eq!(counted(&active), [0, 1, 3, 4], "2 ended first");
        active.heard(SeriesId(1), owner, 8, false);
        assert_eq!(begin(&mut active, 5, owner, 8, false), Err(Full::Series), "1 has come back");
        active.heard(SeriesId(3), owner, 3599, false);
        begin(&mut active, 5, owner, 3600, false).unwrap();
        assert_eq!(counted(&active), [1, 3, 4, 5], "0 has been silent for an hour");
        assert_eq!((active.len(), active.evicted()), (4, 2));
        active.heard(SeriesId(2), owner, 3601, false);
        assert_eq!(counted(&active), [1, 2, 3, 4, 5], "one that comes back is always taken");
        active.remove(SeriesId(2));
        assert_eq!(active.len(), 4);
    }

    #[test]
    fn an_owner_makes_room_by_its_own_series_alone() {
        let mut active = Active::new(10);
        let (flood, honest) = (active.owner(&"flood".into(), 3), active.owner(&"honest".into(), 8));
        begin(&mut active, 0, honest, 0, true).unwrap();
        for id in 1..4 {
            begin(&mut active, id, flood, 1, false).unwrap();
        }
        assert_eq!(begin(&mut active, 4, flood, 20, false), Err(Full::Owner));
        active.heard(SeriesId(2), flood, 21, true);
        begin(&mut active, 4, flood, 21, false).unwrap();
        assert_eq!(counted(&active), [0, 1, 3, 4]);
        for id in 5..12 {
            begin(&mut active, id, honest, 22, false).unwrap();
        }
        assert_eq!((active.len(), active.bound(flood)), (10, ("flood", 3)));
    }

    #[test]
    fn owners_without_series_are_forgotten() {
        let mut active = Active::new(10);
        for n in 0..100 {
            let owner = active.owner(&n.to_string().into(), 10);
            active.heard(SeriesId(n), owner, 0, false);
            active.remove(SeriesId(n));
            active.forget_owners();
        }
        assert_eq!((active.owners.len(), active.by_name.len(), active.len()), (2, 0, 0));
    }

    #[test]
    fn series_of_before_the_start_belong_to_who_brings_them_next() {
        let mut active = Active::new(2);
        for id in 0..2 {
            active.heard(SeriesId(id), Owner::default(), 0, true);
        }
        let owner = active.owner(&"a".into(), 2);
        active.heard(SeriesId(1), owner, 1, false);
        begin(&mut active, 2, owner, 1, false).unwrap();
        assert_eq!(counted(&active), [1, 2]);
        assert_eq!(active.owners.iter().map(|bound| bound.series).collect::<Vec<_>>(), [0, 2]);
    }
}
