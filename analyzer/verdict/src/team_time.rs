//! What a delivered report said of a team.

use crate::Class;

/// A row of the store: GPU time of a team in one class that has a price in one currency, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamTime {
    /// ISO week, such as 2026-W47.
    pub week: String,
    /// The team, or one of the two rows that are always there.
    pub team: String,
    /// The class.
    pub class: Class,
    /// Three letters (ISO 4217); `None` where no price applied.
    pub currency: Option<String>,
    /// GPU-milliseconds.
    pub ms: i64,
    /// Millionths of the currency.
    pub micros: i64,
}
