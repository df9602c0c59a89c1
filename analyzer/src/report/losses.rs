//! The findings of a period, as far as sums tell them: in the order of their rank, without evidence.

use super::finding::{by_finding, findings};
use super::group::{FindingGroup, groups};
use super::order::rank;
use super::scope::Scopes;
use super::sum::Sum;
use super::summed::Item;
use super::{Amount, Finding};
use goodput_verdict::Class;

/// What was lost, and what could not be judged.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    /// Those with a named cause, by cost.
    pub(crate) findings: Vec<Finding>,
    /// The same, those of one cause and one remedy together, by cost.
    pub(crate) groups: Vec<FindingGroup>,
    /// Time without data or without a cause, by loss.
    pub(super) unjudged: Vec<Finding>,
}

impl Losses {
    /// Of what is summed of a period; shares are of `capacity_ms`.
    pub(crate) fn of(items: &[Item<'_>], before: Option<&[Item<'_>]>, capacity_ms: i64) -> Self {
        let (sums, scopes) = (by_finding(items), Scopes::of(items));
        let scopes_before = before.map(Scopes::of);
        let before = before.map(|items| (Sum::of(items).ms, by_finding(items)));
        let all = findings(items, before.as_ref(), capacity_ms);
        let (mut unjudged, mut findings): (Vec<_>, Vec<_>) = all.into_iter().partition(|f| is_unjudged(f.class));
        unjudged.sort_by_key(|f| std::cmp::Reverse(f.lost.gpu_ms));
        rank(&mut findings);
        let mut groups = groups(&findings, (&scopes, &sums), before.as_ref().zip(scopes_before.as_ref()), capacity_ms);
        rank(&mut groups);
        Self { findings, groups, unjudged }
    }

    /// What the groups from this place on lost together.
    pub(crate) fn lost_after(&self, place: usize) -> Amount {
        let after = self.groups.iter().skip(place);
        after.fold(Amount::default(), |sum, group| sum.plus(&group.lost))
    }
}

/// No cause can be named: there are no samples, or not enough evidence.
fn is_unjudged(class: Class) -> bool {
    matches!(class, Class::NoData | Class::Unexplained)
}
