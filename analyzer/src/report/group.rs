//! Findings that have one cause and one remedy: of one class, and of the same work or the same kind of nodes.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{self, Before};
use super::identity::finding_id;
use super::scope::{Scope, Scopes};
use super::sum::{Amount, Sum};
use super::{Finding, Recoverable};
use crate::ownership::Ownership;
use goodput_rules::classify::sampling::Bounds;
use goodput_verdict::{Class, Gain};

/// Findings of one class, cluster and scope.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FindingGroup {
    /// Its name, which is the same in every week.
    pub id: String,
    /// The cluster; null where series name none.
    pub cluster: Option<String>,
    /// The class.
    pub class: Class,
    /// What its findings have in common.
    pub scope: Scope,
    /// The sum of what they lost; share of capacity.
    pub lost: Amount,
    /// Its 90 % interval; null where verdicts of earlier releases are in.
    pub interval: Option<Bounds>,
    /// The same class and scope in the period that is compared; null where none is.
    pub previous: Option<Amount>,
    /// What acting on it is said to return, by a source; null where no source gives a figure.
    pub gain: Option<&'static Gain>,
    /// The sum of what is recoverable of each; null without `gain`.
    pub recoverable: Option<Recoverable>,
    /// 0 to 1, weighted by time.
    pub confidence: f64,
    /// Their places in `findings`, from 0, greatest loss first.
    pub findings: Vec<usize>,
    /// Who looks after it, and whether it is new; not there where nothing was said of any finding and no week was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Ownership>,
}

/// Class, cluster and scope.
type Key<'a> = (Class, Option<&'a str>, &'a Scope);

/// The sums of findings by what these have in common.
fn sums<'a, 'p>(
    scopes: &'a Scopes<'_>,
    by_finding: &'a HashMap<finding::Key<'a>, Sum<'p>>,
) -> HashMap<Key<'a>, Sum<'p>> {
    let mut sums: HashMap<Key<'a>, Sum<'p>> = HashMap::new();
    for ((class, cluster, holder, node), sum) in by_finding {
        if let Some(scope) = scopes.get(*cluster, *holder, *node) {
            let all = sums.entry((*class, *cluster, scope)).or_default();
            *all = std::mem::take(all).plus(sum);
        }
    }
    sums
}

/// The groups of these findings, in no order. Findings are in the order of their rank.
pub(super) fn groups(
    findings: &[Finding],
    (scopes, by_finding): (&Scopes<'_>, &HashMap<finding::Key<'_>, Sum<'_>>),
    before: Option<(&Before<'_, '_>, &Scopes<'_>)>,
    capacity_ms: i64,
) -> Vec<FindingGroup> {
    let mut members: BTreeMap<Key<'_>, Vec<usize>> = BTreeMap::new();
    for (n, finding) in findings.iter().enumerate() {
        let Finding { class, cluster, owner, node, .. } = finding;
        let scope = scopes.get(cluster.as_deref(), owner.as_deref(), node.as_deref());
        if let Some(scope) = scope {
            members.entry((*class, cluster.as_deref(), scope)).or_default().push(n);
        }
    }
    let before = before.map(|((whole, by_finding), scopes)| (*whole, sums(scopes, by_finding)));
    let sums = sums(scopes, by_finding);
    let group = |(key, members): (Key<'_>, Vec<usize>)| {
        let (class, cluster, scope) = key;
        let of = || members.iter().map(|n| &findings[*n]);
        let sum = sums.get(&key).cloned().unwrap_or_default();
        let lost = sum.amount(capacity_ms);
        let weighted: f64 = of().map(|f| f.confidence * f.lost.gpu_ms as f64).sum();
        let previous = before.as_ref().map(|(whole, sums)| sums.get(&key).cloned().unwrap_or_default().amount(*whole));
        FindingGroup {
            id: finding_id(cluster, class, scope.kind(), &scope.key()),
            cluster: cluster.map(str::to_owned),
            class,
            scope: scope.clone(),
            interval: sum.bounds(capacity_ms),
            previous,
            gain: of().find_map(|f| f.gain).or(class.info().gain),
            recoverable: of().filter_map(|f| f.recoverable.clone()).reduce(|a, b| a.plus(&b)),
            confidence: if lost.gpu_ms > 0 { weighted / lost.gpu_ms as f64 } else { 0.0 },
            lost,
            findings: members,
            ownership: None,
        }
    };
    members.into_iter().map(group).collect()
}
