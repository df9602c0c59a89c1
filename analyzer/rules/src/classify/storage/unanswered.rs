//! Servers of network file systems that do not answer: the kernel sends a request again after the mount's time-out, and all that
//! the job asks of the mount waits meanwhile.

use super::super::Cell;
use super::super::thresholds::ms;
use super::mounts::timeout_seconds;
use crate::frame::Reading;
use crate::signal::Signal;

/// Time after which a request over TCP or RDMA is sent again, where the mount's own is not known (nfs(5), `timeo`: 600
/// tenths of a second).
const TIMEOUT_SECONDS: f64 = 60.0;
/// Longest time-out that is believed (nfs(5): the kernel waits for no longer over TCP, `NFS_MAX_TCP_TIMEOUT`).
const MOST_SECONDS: f64 = 600.0;
/// From which count there was one: counters are spread over cells.
const ONE: f64 = 0.5;

/// Requests that got no answer in time.
pub(in super::super) struct Unanswered<'a> {
    /// The mount; `None` where only the node's count is known, and it has several mounts or none that is told.
    pub(super) mount: Option<&'a str>,
    /// How many were sent again.
    pub(in super::super) count: f64,
    /// Seconds after which they were.
    pub(in super::super) timeout_seconds: f64,
}

/// The mount with the most requests that were sent again in the cell, or so shortly after it that they were waited for in it.
pub(in super::super) fn unanswered<'a>(cell: &Cell<'a>) -> Option<Unanswered<'a>> {
    let node = cell.node;
    let of_mounts = node.host.splits(Signal::MountRetransmissions).filter_map(|(mount, track)| {
        let timeout_seconds = timeout_seconds(node, mount).map_or(TIMEOUT_SECONDS, |seconds| seconds.min(MOST_SECONDS));
        let count = within(cell, timeout_seconds, |index| track.get(index)?.as_ref())?;
        Some(Unanswered { mount: Some(mount), count, timeout_seconds })
    });
    let most = of_mounts.max_by(|a, b| a.count.total_cmp(&b.count));
    most.or_else(|| of_node(cell)).filter(|found| found.count >= ONE)
}

/// The same of all mounts of the node together, where no more is told.
fn of_node<'a>(cell: &Cell<'a>) -> Option<Unanswered<'a>> {
    let count = within(cell, TIMEOUT_SECONDS, |index| cell.node.host.read(Signal::NodeNfsRetransmissions, index))?;
    let mut mounts = cell.node.host.splits(Signal::MountReads).map(|(mount, _)| mount);
    let mount = mounts.next().filter(|_| mounts.next().is_none());
    Some(Unanswered { mount, count, timeout_seconds: TIMEOUT_SECONDS })
}

/// How many there are from the start of the cell until the time-out after its end, by what the node tells per second in each
/// of its cells; `None` is not known.
fn within<'a>(cell: &Cell<'a>, timeout_seconds: f64, rate: impl Fn(usize) -> Option<&'a Reading>) -> Option<f64> {
    let cells = &cell.node.cells;
    let until = cells[cell.index].end + ms(timeout_seconds);
    let near = (cell.index..cells.len()).take_while(|index| cells[*index].start < until);
    let seconds = |index: usize| (cells[index].end - cells[index].start) as f64 / 1000.0;
    near.filter_map(|index| Some(rate(index)?.mean * seconds(index))).reduce(|a, b| a + b)
}
