//! Verdicts to be read, and which of them.

use std::future::Future;
use std::ops::Range;

use super::{History, ReadOwnership, StoreError};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_verdict::{Achieved, Class, Interval, Message, Outlook, RollUp, TeamTime, Unsubscribed};

/// Which intervals of a window are wanted; all, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Only of this cluster.
    pub cluster: Option<String>,
    /// Only this node's.
    pub node: Option<String>,
    /// Only this GPU's.
    pub gpu: Option<String>,
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only this run's.
    pub run: Option<String>,
    /// Only this account's.
    pub account: Option<String>,
    /// Only of this class.
    pub class: Option<Class>,
    /// Only what was caused by the GPU of this UUID.
    pub charged_to: Option<String>,
    /// Without this many at the beginning.
    pub skip: usize,
    /// At most this many.
    pub limit: Option<usize>,
}

impl Whose {
    /// Everything of a node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self { node: Some(name.to_owned()), ..Self::default() }
    }

    /// Everything of a GPU.
    #[must_use]
    pub fn gpu(uuid: &str) -> Self {
        Self { gpu: Some(uuid.to_owned()), ..Self::default() }
    }
}

/// What is stored of a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// The ledger's.
    pub intervals: Vec<Interval>,
    /// What was at risk, what was advised, and how nodes compare.
    pub outlook: Outlook,
    /// What jobs counted.
    pub achieved: Vec<Achieved>,
    /// What jobs told.
    pub history: History,
}

/// Verdicts to be read.
pub trait ReadVerdicts: ReadOwnership {
    /// The intervals that lie in the window; those that reach out of it do not exist, for windows are cut at hours.
    fn intervals(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Vec<Interval>, StoreError>> + Send {
        async move { self.intervals_of(window, &Whose::default()).await }
    }

    /// Those of the intervals that are wanted, in order of node, GPU, start, class, owner and culprit.
    fn intervals_of(
        &self,
        window: Range<TimeMs>,
        whose: &Whose,
    ) -> impl Future<Output = Result<Vec<Interval>, StoreError>> + Send;

    /// The roll-up of the intervals that lie in the window, or of one node's, in no order.
    fn hours(
        &self,
        window: Range<TimeMs>,
        node: Option<&str>,
    ) -> impl Future<Output = Result<Vec<RollUp>, StoreError>> + Send;

    /// The roll-up of the day of UTC that a time lies in: one of each node once the day is rolled up, until then one of
    /// each hour.
    fn day(&self, time: TimeMs) -> impl Future<Output = Result<Vec<RollUp>, StoreError>> + Send;

    /// From the first to the last stored interval; none where there is none.
    fn extent(&self) -> impl Future<Output = Result<Option<Range<TimeMs>>, StoreError>> + Send;

    /// The risks, advisories and standings that lie in the window; as intervals, they are cut at windows.
    fn outlook(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Outlook, StoreError>> + Send;

    /// What was achieved in the windows that lie within this one.
    fn achieved(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Vec<Achieved>, StoreError>> + Send;

    /// What jobs reported about runs that have an event in the window, or one before it and one after it.
    fn history(&self, window: Range<TimeMs>) -> impl Future<Output = Result<History, StoreError>> + Send;

    /// The series of these metrics, as far as there is a catalogue beside the verdicts; none where there is none.
    fn series_of(&self, metrics: &[String]) -> impl Future<Output = Result<Vec<Labels>, StoreError>> + Send;

    /// The teams that an ISO week was delivered with, as they were noted; none where it was not delivered with any.
    fn teams_of(&self, week: &str) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;

    /// What teams had in the delivered weeks from one to another, which is one of them, in order of week and team.
    fn team_times(&self, weeks: [&str; 2]) -> impl Future<Output = Result<Vec<TeamTime>, StoreError>> + Send;

    /// The messages about weeks from one to another, which is one of them, in order of destination, contact and week.
    fn messages(&self, weeks: [&str; 2]) -> impl Future<Output = Result<Vec<Message>, StoreError>> + Send;

    /// Who wants no messages, in order of destination and contact.
    fn unsubscribed(&self) -> impl Future<Output = Result<Vec<Unsubscribed>, StoreError>> + Send;

    /// All that is stored of the window.
    fn verdicts(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        async move {
            let intervals = self.intervals(window.clone()).await?;
            let outlook = self.outlook(window.clone()).await?;
            let achieved = self.achieved(window.clone()).await?;
            Ok(Verdicts { intervals, outlook, achieved, history: self.history(window).await? })
        }
    }
}
