//! Servers of network file systems that do not answer: the kernel sends a request again after the mount's time-out, and all that
//! the job asks of the mount waits meanwhile.

use super::super::Cell;
use super::super::thresholds::ms;
use super::mounts::{only_mount, timeout_seconds};
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
    /// How many were sent again in the cell, or so shortly after it that they were waited for in it.
    pub(in super::super) count: f64,
    /// Seconds of the cell for which they were waited for at most.
    pub(in super::super) waited_seconds: f64,
}

/// The mount with the most of them. The kernel adds what it sent again to a mount's counts when the request ends, and to the
/// node's at once: the node's are asked where no mount has any.
pub(in super::super) fn unanswered<'a>(cell: &Cell<'a>) -> Option<Unanswered<'a>> {
    let node = cell.node;
    let of_mounts = node.host.splits(Signal::MountRetransmissions).filter_map(|(mount, track)| {
        let timeout_seconds = timeout_seconds(node, mount).map_or(TIMEOUT_SECONDS, |seconds| seconds.min(MOST_SECONDS));
        within(cell, Some(mount), timeout_seconds, |index| track.get(index)?.as_ref())
    });
    let of_node = || {
        let count = |index| node.host.read(Signal::NodeNfsRetransmissions, index);
        within(cell, only_mount(node), TIMEOUT_SECONDS, count)
    };
    of_mounts.max_by(|a, b| a.count.total_cmp(&b.count)).or_else(of_node)
}

/// Those of the cell and of the time-out after it, by what the node tells per second in each of its cells. Each was waited for
/// from its time-out before until then, which is taken to be the middle of its cell.
fn within<'a>(
    cell: &Cell<'a>,
    mount: Option<&'a str>,
    timeout_seconds: f64,
    rate: impl Fn(usize) -> Option<&'a Reading>,
) -> Option<Unanswered<'a>> {
    let cells = &cell.node.cells;
    let span = &cells[cell.index];
    let middle = |index: usize| (cells[index].start + cells[index].end) / 2;
    let near = (cell.index..cells.len()).take_while(|index| middle(*index) - ms(timeout_seconds) < span.end);
    let (mut count, mut waited_seconds) = (0.0, 0.0);
    for index in near {
        let Some(reading) = rate(index) else { continue };
        let here = reading.mean * (cells[index].end - cells[index].start) as f64 / 1000.0;
        let waited = span.end.min(middle(index)) - span.start.max(middle(index) - ms(timeout_seconds));
        count += here;
        waited_seconds += here * waited.max(0) as f64 / 1000.0;
    }
    (count >= ONE).then_some(Unanswered { mount, count, waited_seconds })
}
