//! What a loss is named to come from: ports, network file systems and disks, causes.

use std::collections::BTreeMap;

use super::sum::{Amount, Sum};
use super::summed::Item;
use super::{CauseAmount, Port, Storage, Waiting};
use goodput_verdict::{CauseKind, Class, Interval};

/// The loss by port, or by node where no port of it is named.
pub(super) fn ports(group: &[&Item<'_>], lost_ms: i64) -> Vec<Port> {
    let of = |i: &Interval| {
        let culprit = i.charged_to.as_ref().filter(|culprit| culprit.gpu.is_none())?;
        Some((culprit.node.clone(), i.cause.as_ref().and_then(|cause| cause.which.clone())))
    };
    let port = |((node, which), amount): ((String, Option<String>), Amount)| Port { node, which, amount };
    amounts(group, lost_ms, of).into_iter().map(port).collect()
}

/// Free time by who waited meanwhile.
pub(super) fn waiting(group: &[&Item<'_>], lost_ms: i64) -> Vec<Waiting> {
    let of = |i: &Interval| i.cause.as_ref().filter(|_| i.class == Class::Unallocated)?.which.clone();
    amounts(group, lost_ms, of).into_iter().map(|(which, amount)| Waiting { which, amount }).collect()
}

/// The loss by network file system or disk.
pub(super) fn storage(group: &[&Item<'_>], lost_ms: i64) -> Vec<Storage> {
    let of = |i: &Interval| {
        let is_storage = i.charged_to.is_none() && i.class != Class::Unallocated;
        let which = i.cause.as_ref().filter(|_| is_storage)?.which.clone()?;
        Some((i.node.clone(), which))
    };
    let one = |((node, which), amount): ((String, String), Amount)| Storage { node, which, amount };
    amounts(group, lost_ms, of).into_iter().map(one).collect()
}

/// The loss by cause.
pub(super) fn causes(group: &[&Item<'_>], lost_ms: i64) -> Vec<CauseAmount> {
    let all = amounts(group, lost_ms, |i| i.cause.as_ref().map(|cause| cause.kind));
    let one = |(cause, amount): (CauseKind, Amount)| CauseAmount { cause, meaning: cause.meaning(), amount };
    all.into_iter().map(one).collect()
}

/// The cause of most of the loss; `None` where more of it has none.
pub(super) fn main_cause(causes: &[CauseAmount], lost_ms: i64) -> Option<CauseKind> {
    let named: i64 = causes.iter().map(|one| one.amount.gpu_ms).sum();
    causes.first().filter(|first| first.amount.gpu_ms >= lost_ms - named).map(|first| first.cause)
}

/// The loss by key, the greatest first, as shares of the whole loss.
fn amounts<K: Ord>(group: &[&Item<'_>], lost_ms: i64, key: fn(&Interval) -> Option<K>) -> Vec<(K, Amount)> {
    let mut sums: BTreeMap<K, Sum<'_>> = BTreeMap::new();
    for item in group {
        if let Some(key) = key(item) {
            sums.entry(key).or_default().add(item);
        }
    }
    let mut all: Vec<(K, Amount)> = sums.into_iter().map(|(key, sum)| (key, sum.amount(lost_ms))).collect();
    all.sort_by_key(|(_, amount)| std::cmp::Reverse(amount.gpu_ms));
    all
}
