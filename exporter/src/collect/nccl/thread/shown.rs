//! The samples of what was read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::super::account::{Communicator, Finished};
use super::super::board::{Added, Board, Sums};
use super::super::rows::{Place, Row, Rows};
use super::files::Files;
use super::text::Text;
use crate::parse::inspector::Operation;
use crate::source::inspector::folder::Found;

/// Pairs of communicator and operation of a GPU whose collectives are sampled.
const SAMPLED: usize = 2;

impl Files {
    /// Books what the files said since the last time.
    pub(super) fn book(&mut self, at: Instant) {
        let logs = self.logs.values();
        let alive: BTreeSet<(&str, u64, u32)> = logs
            .flat_map(|log| log.account.communicators.keys().map(|(id, rank)| (log.place.owner.as_str(), *id, *rank)))
            .collect();
        self.ranks.keep(&alive);
        let mut added: BTreeMap<Place, (Added, Option<Sums>)> = BTreeMap::new();
        for log in self.logs.values_mut() {
            let (communicators, rest) = added.entry(log.place.clone()).or_default();
            if let Some(more) = log.account.rest.take() {
                rest.get_or_insert_default().add(&more);
            }
            for ((id, rank), communicator) in &mut log.account.communicators {
                let sums = communicators.entry(*id).or_default();
                for (operation, finished) in &mut communicator.operations {
                    let mut new = std::mem::take(&mut finished.added);
                    new.last = self.ranks.take_last(&log.place.owner, (*id, *operation), *rank);
                    sums.entry(*operation).or_default().add(&new);
                }
            }
            let lost = self.lost.entry(log.place.owner.clone()).or_default();
            for (total, new) in lost.iter_mut().zip(std::mem::take(&mut log.account.lost)) {
                *total = total.saturating_add(new);
            }
        }
        self.boards.retain(|place, _| added.contains_key(place));
        for (place, (communicators, rest)) in added {
            self.boards.entry(place).or_default().book(&communicators, rest, at);
        }
    }

    /// All samples; `read` is how many files were read.
    pub(super) fn rows(&self, found: &Found, read: usize, at: Instant) -> Vec<Row> {
        let mut rows = Rows::default();
        for (place, board) in &self.boards {
            self.of_place(place, board, &mut rows);
        }
        let pairs = self.boards.iter().flat_map(|(place, board)| board.pairs().map(|(pair, _)| (&place.owner, pair)));
        for (owner, pair) in pairs.collect::<BTreeSet<_>>() {
            if let Some(seconds) = self.ranks.transfer(owner, pair) {
                rows.transfer(owner, pair, seconds);
            }
        }
        let has_records = |place: &Place| {
            self.boards.keys().any(|other| {
                other.owner == place.owner && other.gpu.as_ref().is_none_or(|gpu| Some(gpu) == place.gpu.as_ref())
            })
        };
        let mut newest: BTreeMap<&Place, &Text> = BTreeMap::new();
        for text in self.texts.values().filter(|text| text.is_fresh(at) && !has_records(&text.place)) {
            let known = newest.entry(&text.place).or_insert(text);
            *known = if text.changed() > known.changed() { text } else { known };
        }
        for text in newest.into_values() {
            text.means.iter().for_each(|(kind, mean)| rows.mean(&text.place, kind, mean));
        }
        self.lost.iter().for_each(|(owner, losses)| rows.lost(owner, losses));
        let Found { strangers, refused, beyond, .. } = found;
        rows.files([("read", read as u64), ("unowned", *strangers), ("refused", *refused), ("beyond", *beyond)]);
        rows.0
    }

    fn of_place(&self, place: &Place, board: &Board, rows: &mut Rows) {
        for (pair, sums) in board.pairs() {
            let sequence = self.finished(place, pair).map(|finished| finished.sequence).min();
            let is_matched = self.ranks.transfer(&place.owner, pair).is_some();
            rows.pair(place, pair, sums, sequence, is_matched);
        }
        if let Some(other) = &board.other {
            rows.other(place, other);
        }
        let mut busiest: Vec<_> = board.pairs().filter(|((_, operation), _)| operation.is_joint()).collect();
        busiest.sort_by(|(a, x), (b, y)| y.bus_bytes.total_cmp(&x.bus_bytes).then(a.cmp(b)));
        for (pair, _) in busiest.into_iter().take(SAMPLED) {
            // A process with several ranks shows those of the first.
            let Some(finished) = self.finished(place, pair).next() else { continue };
            let samples = finished.samples.iter().enumerate();
            samples.filter_map(|(slot, sample)| Some((slot, (*sample)?))).for_each(|(slot, sample)| {
                rows.sample(place, pair, slot, sample);
            });
        }
        for id in board.communicators() {
            if let Some((_, communicator)) = self.communicators(place).find(|(other, _)| *other == id) {
                rows.communicator(place, &communicator.about, self.settings.has_names);
            }
        }
    }

    /// The communicators in which the processes of a place have ranks.
    fn communicators<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = (u64, &'a Communicator)> {
        let logs = self.logs.values().filter(move |log| &log.place == place);
        logs.flat_map(|log| log.account.communicators.iter().map(|((id, _), communicator)| (*id, communicator)))
    }

    /// What they did of one pair, rank by rank.
    fn finished<'a>(&'a self, place: &'a Place, pair: (u64, Operation)) -> impl Iterator<Item = &'a Finished> {
        let of_pair = self.communicators(place).filter(move |(id, _)| *id == pair.0);
        of_pair.filter_map(move |(_, communicator)| communicator.operations.get(&pair.1))
    }
}
