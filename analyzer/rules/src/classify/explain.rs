//! What was held and not busy, given to the rules: causes before symptoms, the remainder unexplained.

use super::busy::Busy;
use super::cell::{Part, part};
use super::ledger::{Account, share};
use super::{Cell, Class, Imbalance, RULES, Rule, Thresholds, Verdict};
use crate::signal::Signal;

/// A rule that claims up to `max_ms` milliseconds.
struct Claim {
    rule: &'static Rule,
    part: Part,
    max_ms: i64,
}

/// Books all that is left of the account, which has `known` milliseconds in all.
pub(super) fn explain(
    cell: &Cell<'_>,
    busy: &Busy,
    known: i64,
    account: &mut Account<Part>,
    t: &Thresholds,
) -> Result<(), Imbalance> {
    let (mut claims, mut missing) = ask(cell, busy, known, t);
    while !claims.is_empty() {
        let (ready, later) = causes_first(claims);
        let max_ms: Vec<i64> = ready.iter().map(|c| c.max_ms).collect();
        for (claim, ms) in ready.into_iter().zip(share(account.rest(), &max_ms)) {
            account.book(claim.part, ms)?;
        }
        claims = later;
    }
    missing.sort_unstable();
    missing.dedup();
    let unexplained = part(cell, Class::Unexplained, 0.0);
    let rest = account.rest();
    account.book(Part { missing, facts: busy.facts.clone(), rung: Some(busy.rung), ..unexplained }, rest)
}

/// What each rule claims, and which signals the others lack.
fn ask(cell: &Cell<'_>, busy: &Busy, known: i64, t: &Thresholds) -> (Vec<Claim>, Vec<Signal>) {
    let (mut claims, mut missing) = (Vec::new(), Vec::new());
    for rule in RULES {
        match (rule.judge)(cell, t).sound() {
            Verdict::Abstain { missing: signals } => missing.extend(signals),
            Verdict::No => {}
            Verdict::Claim { max_share, confidence, facts } => {
                let confidence = confidence.min(busy.confidence);
                let max_ms = (max_share.clamp(0.0, 1.0) * known as f64).round() as i64;
                if confidence >= t.confidence_floor && max_share >= t.claim_floor {
                    let part = Part { facts, rung: Some(busy.rung), ..part(cell, rule.class, confidence) };
                    claims.push(Claim { rule, part, max_ms });
                }
            }
        }
    }
    (claims, missing)
}

/// Splits off the claims that no other claim explains: only these share. The first is always among them, for rules stand
/// in [`RULES`] before what they explain.
fn causes_first(claims: Vec<Claim>) -> (Vec<Claim>, Vec<Claim>) {
    let symptoms: Vec<Class> = claims.iter().flat_map(|c| c.rule.explains).copied().collect();
    let (mut ready, mut later) = (Vec::new(), Vec::new());
    for claim in claims {
        let is_symptom = !ready.is_empty() && symptoms.contains(&claim.rule.class);
        if is_symptom { later.push(claim) } else { ready.push(claim) }
    }
    (ready, later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_before_what_they_explain() {
        for (i, rule) in RULES.iter().enumerate() {
            let before: Vec<Class> = RULES[..=i].iter().map(|r| r.class).collect();
            assert!(rule.explains.iter().all(|c| !before.contains(c)), "{:?} explains an earlier rule", rule.class);
        }
    }
}
