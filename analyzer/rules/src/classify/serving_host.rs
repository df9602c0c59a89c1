//! `serving_host`: requests were open, and the GPU waited for what the server does on its CPUs: tokenising, HTTP, scheduling.

use super::server_clock::{self, split};
use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Rule, Thresholds, Verdict};

pub(super) const RULE: Rule = Rule { class: Class::ServingHost, explains: &[], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(split) = split(cell, t) else { return server_clock::untold(cell) };
    let facts = split.front.into_iter().chain([split.active]).collect();
    Verdict::Claim { max_share: split.on_the_host, confidence: INFERRED, facts }
}
