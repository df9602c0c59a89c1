//! What tokens cost and draw.

use super::Money;
use crate::report::text::{self, UNKNOWN};
use crate::report::{Amount, Cost, LEAST_COVERAGE, MICROS, ratio};

/// Money for the report.
#[must_use]
pub fn money(money: &Option<Money>) -> String {
    let shown = money.as_ref().map(|money| format!("{} {}", text::money(money.amount), money.currency));
    shown.unwrap_or_else(|| UNKNOWN.to_owned())
}

pub(super) fn per_second(tokens: Option<f64>, time: &Amount) -> Option<f64> {
    Some(tokens? / (time.gpu_ms as f64 / 1000.0)).filter(|rate| rate.is_finite())
}

/// What the time costs, where all of it has a price in one currency.
pub(super) fn priced(time: &Amount) -> Option<Money> {
    let [Cost { currency, micros, priced_ms, .. }] = &time.cost[..] else { return None };
    let is_whole = *priced_ms == time.gpu_ms;
    is_whole.then(|| Money { currency: currency.clone(), amount: *micros as f64 / MICROS })
}

/// The same for a million tokens.
pub(super) fn per_million(tokens: Option<f64>, time: &Amount) -> Option<Money> {
    let tokens = tokens.filter(|tokens| *tokens > 0.0)?;
    priced(time).map(|money| Money { amount: money.amount / tokens * 1e6, ..money })
}

/// Where energy is not known for a part of the time, it is taken to have drawn as much as the rest.
pub(super) fn joules(tokens: Option<f64>, time: &Amount) -> Option<f64> {
    let (tokens, drawn) = (tokens.filter(|tokens| *tokens > 0.0)?, time.energy?);
    let known = ratio(drawn.known_ms, time.gpu_ms).filter(|known| *known >= LEAST_COVERAGE)?;
    Some(drawn.mj as f64 / 1000.0 / known / tokens)
}
