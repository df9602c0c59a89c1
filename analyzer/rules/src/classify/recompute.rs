//! `recompute`: a server ran out of memory for keys and values, took it from requests in work, and computed their tokens again.
//!
//! SGLang alone counts these tokens; others count how often it happened.

use super::busy::busy;
use super::derate::Derate;
use super::thresholds::confidence::COUNTED;
use super::{Cell, Class, Fact, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const DERATE: Derate = Derate { class: Class::Recompute, judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let [computed, first, extend] = [Signal::ServerPrefillTokens, Signal::ServerFirstTokens, Signal::ServerExtendTime]
        .map(|signal| cell.mean(signal));
    // Where a server does not count them there is nothing to abstain from.
    let (Some(computed), Some(first), Some(extend)) = (computed, first, extend) else { return Verdict::No };
    let Some(busy) = busy(cell, t).filter(|busy| busy.ratio > t.idle_busy_ratio) else { return Verdict::No };
    let again = 1.0 - first / computed;
    if computed <= 0.0 || again <= 0.0 {
        return Verdict::No;
    }
    let formula = "1 - server_first_tokens / server_prefill_tokens";
    let facts = vec![
        Fact { signal: formula, unit: "ratio", value: again, threshold: 0.0 },
        Fact::of(Signal::ServerExtendTime, extend, 0.0),
    ];
    Verdict::Claim { max_share: (again * extend / busy.ratio).min(1.0), confidence: COUNTED, facts }
}
