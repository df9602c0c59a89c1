//! What was stored since it was last asked for, noted by the writer itself: a handler may be dropped while it waits for the
//! commit of its batch.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::catalogue::{Catalogue, SeriesId};
use super::pages::Pages;
use goodput_exposition::sample::{Sample, TimeMs};

/// Sources remembered; samples of further ones are stored too, and only not shown.
const MAX_SOURCES: usize = 10_000;

/// Times of what was stored.
#[derive(Default)]
pub struct Arrivals {
    noted: Mutex<Noted>,
    backlog: Notify,
}

#[derive(Default)]
struct Noted {
    /// Verdicts from there on may change.
    earliest: Option<TimeMs>,
    /// Samples before this are a backlog.
    backlog_before: Option<TimeMs>,
    /// Per series: the place of its source in `newest`, counted from 1; 0 while it is not known.
    of: Pages<u32>,
    places: HashMap<String, u32>,
    newest: Vec<TimeMs>,
}

impl Arrivals {
    /// Notes samples, in order of series and time, before they can be read.
    pub(super) fn note(&self, rows: &[(SeriesId, Sample)], catalogue: &Catalogue) {
        let noted = &mut *self.noted.lock();
        let mut earliest = TimeMs::MAX;
        for series in rows.chunk_by(|a, b| a.0 == b.0) {
            let [(id, first), ..] = series else { continue };
            let last = series.last().map_or(*first, |(_, last)| *last);
            earliest = earliest.min(first.time_ms);
            noted.note_source(*id, last.time_ms, catalogue);
        }
        noted.note_earliest(earliest);
        if noted.backlog_before.is_some_and(|before| earliest < before) {
            self.backlog.notify_one();
        }
    }

    /// Verdicts from there on may change.
    pub fn note_earliest(&self, time: TimeMs) {
        self.noted.lock().note_earliest(time);
    }

    /// From when on verdicts may change, since this was last asked.
    pub fn take_earliest(&self) -> Option<TimeMs> {
        self.noted.lock().earliest.take()
    }

    /// The same, left as it is.
    pub fn earliest(&self) -> Option<TimeMs> {
        self.noted.lock().earliest
    }

    /// From now on samples before this time are a backlog.
    pub fn await_backlog_before(&self, time: TimeMs) {
        self.noted.lock().backlog_before = Some(time);
    }

    /// Resolves when part of a backlog has been stored.
    pub async fn backlog(&self) {
        self.backlog.notified().await;
    }

    /// Time of the newest sample by source: the `instance` label.
    pub fn newest(&self) -> BTreeMap<String, TimeMs> {
        let noted = self.noted.lock();
        let newest = |place: u32| noted.newest.get(place as usize - 1).copied();
        noted.places.iter().filter_map(|(name, place)| Some((name.clone(), newest(*place)?))).collect()
    }
}

impl Noted {
    fn note_earliest(&mut self, time: TimeMs) {
        self.earliest = Some(self.earliest.map_or(time, |earliest| earliest.min(time)));
    }

    fn note_source(&mut self, id: SeriesId, time: TimeMs, catalogue: &Catalogue) {
        let place = self.of.get_mut(id);
        if *place == 0 {
            let labels = catalogue.labels(id);
            let source = labels.and_then(|labels| labels.get("instance")).unwrap_or("(no instance label)");
            let known = self.places.get(source).copied();
            let next = (self.newest.len() < MAX_SOURCES).then_some(self.newest.len() as u32 + 1);
            let Some(found) = known.or(next) else { return };
            if known.is_none() {
                self.places.insert(source.to_owned(), found);
                self.newest.push(TimeMs::MIN);
            }
            *place = found;
        }
        if let Some(newest) = self.newest.get_mut(*place as usize - 1) {
            *newest = time.max(*newest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::Labels;

    #[test]
    fn the_earliest_is_taken_once_and_each_source_has_its_newest() {
        let (arrivals, mut catalogue) = (Arrivals::default(), Catalogue::default());
        catalogue.insert(SeriesId(1), Labels::new([("__name__", "m"), ("instance", "a")]));
        catalogue.insert(SeriesId(2), Labels::new([("__name__", "m")]));
        catalogue.insert(SeriesId(3), Labels::new([("__name__", "n"), ("instance", "a")]));
        let row = |id, time_ms| (SeriesId(id), Sample { time_ms, value: 1.0 });
        arrivals.note(&[row(1, 5), row(1, 9), row(2, 4), row(3, 7)], &catalogue);
        arrivals.note(&[row(1, 6)], &catalogue);
        let newest = BTreeMap::from([("a".to_owned(), 9), ("(no instance label)".to_owned(), 4)]);
        assert_eq!((arrivals.take_earliest(), arrivals.newest()), (Some(4), newest));
        assert_eq!(arrivals.take_earliest(), None);
    }
}
