//! Answers that were not whole, where these are accepted.

use std::fmt::Write as _;

use parking_lot::Mutex;
use tracing::warn;

/// How many partial answers are kept with the server's words; all are counted.
const MAX_PARTIAL: usize = 20;

/// Partial answers that were accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// How many.
    pub answers: u64,
    /// The first of them.
    pub first: Vec<PartialAnswer>,
}

/// One answer that was not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialAnswer {
    /// Query and time range.
    pub asked: String,
    /// What the server said.
    pub reason: String,
}

impl Partial {
    /// How many answers were partial, what comes of that, and the first of them, a line each.
    #[must_use]
    pub fn summary(&self, after: &str) -> String {
        let mut text = format!("partial: the server left something out of {} answers{after}\n", self.answers);
        for PartialAnswer { asked, reason } in &self.first {
            let _ = writeln!(text, "  {asked}: {reason}");
        }
        text
    }
}

/// Where partial answers are noted.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<Partial>);

impl Noted {
    pub(crate) fn partial(&self) -> Partial {
        self.0.lock().clone()
    }

    /// One more, to this query.
    pub(crate) fn add(&self, asked: &str, reason: String) {
        warn!(asked, reason, "partial answer");
        let mut noted = self.0.lock();
        noted.answers += 1;
        if noted.first.len() < MAX_PARTIAL {
            noted.first.push(PartialAnswer { asked: asked.to_owned(), reason });
        }
    }
}
