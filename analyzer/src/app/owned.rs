//! Reports with what people said about their findings, which is kept too: a report of a large fleet takes a while to copy.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ownership::Book;
use crate::report::Report;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// As many as there are reports without.
const KEPT: usize = 2;

/// The reports that are kept.
#[derive(Debug, Default)]
pub(super) struct Owned(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    bare: Arc<Report>,
    book: Book,
    /// States may end with any hour.
    hour: i64,
    owned: Arc<Report>,
}

impl Owned {
    /// The report with what the book says of its findings at `now`.
    pub(super) fn of(&self, bare: Arc<Report>, book: Book, now: TimeMs) -> Arc<Report> {
        if book.is_empty() {
            return bare;
        }
        let (mut all, hour) = (self.0.lock(), now.div_euclid(HOUR_MS));
        let is_it = |kept: &&Kept| Arc::ptr_eq(&kept.bare, &bare) && kept.hour == hour && kept.book == book;
        if let Some(kept) = all.iter().find(is_it) {
            return Arc::clone(&kept.owned);
        }
        let owned = Arc::new(Report::clone(&bare).with_ownership(&book, now));
        all.retain(|kept| !Arc::ptr_eq(&kept.bare, &bare));
        all.push_back(Kept { bare, book, hour, owned: Arc::clone(&owned) });
        while all.len() > KEPT {
            all.pop_front();
        }
        owned
    }
}
