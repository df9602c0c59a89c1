//! The series of a group commit: which are known, which are new and fit, and whose they are.

use std::collections::HashMap;

use super::active::{Full, Owner};
use super::admit::{Bounds, Row};
use super::catalogue::SeriesId;
use super::fullness::Dropped;
use super::queue::Incoming;
use super::writer::Writer;
use super::{Appended, Options};
use goodput_exposition::sample::{Labels, Series, TimeMs, is_stale};

/// The catalogue holds at most this multiple of `max_series`, evicted series included.
const ENDED_SHARE: usize = 4;

impl Writer {
    /// Whose the series of each batch are.
    pub(super) fn owners_of(&mut self, group: &[Incoming]) -> Vec<Owner> {
        self.active.forget_owners();
        let default = self.shared.options.series_per_sender();
        let owner = |incoming: &Incoming| match &incoming.source {
            (sender, None) => self.active.owner(sender, default),
            (_, Some(job)) => {
                self.active.owner(&format!("scrape job {}", job.name).into(), job.max_series.unwrap_or(default))
            }
        };
        group.iter().map(owner).collect()
    }

    pub(super) fn note_heard(&mut self, rows: &[Row], owners: &[Owner]) {
        let now_s = since_boot_s(&self.shared.options);
        for series in rows.chunk_by(|a, b| a.id == b.id) {
            let Some((row, owner)) = series.last().and_then(|row| Some((row, owners.get(row.batch as usize)?))) else {
                continue;
            };
            self.active.heard(row.id, *owner, now_s, is_stale(row.sample.value));
        }
    }

    /// For metrics and the log.
    pub(super) fn note_fullness(&mut self) {
        let (series, evicted) = (self.active.len() as u64, self.active.evicted());
        {
            let mut totals = self.shared.totals.lock();
            (totals.series, totals.evicted_series) = (series, evicted);
        }
        let options = &self.shared.options;
        let label_bytes = self.shared.catalogue.read().label_bytes();
        self.fullness.note_used("store.max_series", series, options.max_series as u64);
        self.fullness.note_used("store.max_label_bytes", label_bytes, options.max_label_bytes);
        self.fullness.note_time(since_boot_s(options));
    }

    /// All rows of the group, and the series that are to be created for them: each has a sample that will be accepted.
    pub(super) fn resolve(
        &mut self,
        group: &mut [Incoming],
        counts: &mut [Appended],
        bounds: Bounds,
        owners: &[Owner],
    ) -> (Vec<Row>, Vec<(SeriesId, Labels)>) {
        let (options, now_s) = (&self.shared.options, since_boot_s(&self.shared.options));
        let catalogue = self.shared.catalogue.read();
        let mut created: HashMap<Labels, SeriesId> = HashMap::new();
        let mut held = Held { series: catalogue.len(), label_bytes: catalogue.label_bytes() };
        let mut dropped: HashMap<(Full, Owner), Dropped> = HashMap::new();
        let mut rows = Vec::with_capacity(group.iter().map(|incoming| incoming.rows.len()).sum());
        for (((batch, incoming), counts), owner) in (0..).zip(group).zip(counts).zip(owners) {
            rows.extend(incoming.rows.iter().map(|row| Row { batch, ..*row }));
            for Series { labels, samples } in incoming.fresh.drain(..) {
                // Another batch may have brought the series since this one was looked up.
                let id = match catalogue.id(labels.as_ref()).or_else(|| created.get(&labels).copied()) {
                    Some(id) => id,
                    None if !samples.iter().any(|sample| bounds.contain(sample.time_ms)) => {
                        counts.out_of_bounds += samples.len() as u64;
                        continue;
                    }
                    None => {
                        let fits = held.fits(options, &labels).and_then(|()| self.active.make_room(*owner, now_s));
                        if let Err(full) = fits {
                            counts.over_limit += samples.len() as u64;
                            let dropped = dropped.entry((full, *owner)).or_default();
                            dropped.series += 1;
                            dropped.samples += samples.len() as u64;
                            continue;
                        }
                        let id = SeriesId(self.next_series);
                        self.next_series += 1;
                        held.add(&labels);
                        self.active.heard(id, *owner, now_s, false);
                        *self.newest.get_mut(id) = Some(TimeMs::MIN);
                        created.insert(labels, id);
                        id
                    }
                };
                rows.extend(samples.into_iter().map(|sample| Row { id, batch, sample }));
            }
        }
        drop(catalogue);
        self.tell_dropped(dropped, now_s);
        let mut series: Vec<_> = created.into_iter().map(|(labels, id)| (id, labels)).collect();
        series.sort_unstable_by_key(|(id, _)| *id);
        (rows, series)
    }

    fn tell_dropped(&mut self, dropped: HashMap<(Full, Owner), Dropped>, now_s: u32) {
        for ((full, owner), dropped) in dropped {
            let (of, of_owner) = self.active.bound(owner);
            let limit = match full {
                Full::Owner => of_owner as u64,
                Full::LabelBytes => self.shared.options.max_label_bytes,
                Full::Series | Full::Catalogue => self.shared.options.max_series as u64,
            };
            self.fullness.note_dropped(full, &Dropped { of: of.to_owned(), limit, ..dropped }, now_s);
        }
    }
}

/// What the catalogue holds, with the series that are being created.
struct Held {
    series: usize,
    label_bytes: u64,
}

impl Held {
    fn with(&self, labels: &Labels) -> Self {
        Self { series: self.series + 1, label_bytes: self.label_bytes + labels.as_ref().key().len() as u64 }
    }

    /// Is there room for one more series?
    fn fits(&self, options: &Options, labels: &Labels) -> Result<(), Full> {
        let Self { series, label_bytes } = self.with(labels);
        if label_bytes > options.max_label_bytes {
            return Err(Full::LabelBytes);
        }
        if series > options.max_series.saturating_mul(ENDED_SHARE) {
            return Err(Full::Catalogue);
        }
        Ok(())
    }

    fn add(&mut self, labels: &Labels) {
        *self = self.with(labels);
    }
}

/// Seconds by which it is measured how long ago a series was heard.
pub(super) fn since_boot_s(options: &Options) -> u32 {
    u32::try_from((options.since_boot)().as_secs()).unwrap_or(u32::MAX)
}
