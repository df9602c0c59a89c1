//! What ports and mounts of a node did while a run that held its GPUs waited for them.

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an RDMA port or a network interface of a node did in a window in which a run waited for the network, as far as the run
/// held GPUs of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortUse {
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// The run.
    pub owner: String,
    /// The RDMA port (`device/port`), or the interface.
    pub port: String,
    /// Start of the window, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// Ports of the run that are known in the window, this one and those that are not kept included.
    pub ports: usize,
    /// The highest line rate, in bytes per second; null where it is not told.
    pub rate: Option<f64>,
    /// The cells in which it was down, in milliseconds; null where its state is not told.
    pub down_ms: Option<i64>,
    /// Bytes that it sent; null where that is not told.
    pub sent_bytes: Option<f64>,
    /// Times that it waited for an acknowledgement and got none; null where that is not told.
    pub timeouts: Option<f64>,
    /// What it sent again; null where that is not told.
    pub retransmits: Option<f64>,
    /// Times that its link came up or went down, or was trained again; null where that is not told.
    pub link_changes: Option<f64>,
    /// How long it sent nothing of some priority because its peer asked it to pause, in milliseconds; null where that is not
    /// told.
    pub paused_ms: Option<f64>,
}

impl PortUse {
    /// Adds what it did in another time.
    pub fn add(&mut self, other: &PortUse) {
        self.rate = self.rate.into_iter().chain(other.rate).reduce(f64::max);
        self.down_ms = self.down_ms.into_iter().chain(other.down_ms).reduce(|a, b| a + b);
        grow(&mut self.sent_bytes, other.sent_bytes);
        grow(&mut self.timeouts, other.timeouts);
        grow(&mut self.retransmits, other.retransmits);
        grow(&mut self.link_changes, other.link_changes);
        grow(&mut self.paused_ms, other.paused_ms);
    }

    /// Timeouts, retransmissions and changes of its link.
    #[must_use]
    pub fn events(&self) -> f64 {
        [self.timeouts, self.retransmits, self.link_changes].into_iter().flatten().sum()
    }
}

/// What a network file system of a node did in a window in which a run waited for one, as far as the run held GPUs of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MountUse {
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// The run.
    pub owner: String,
    /// The mount point, else the export.
    pub mount: String,
    /// What is mounted there; null where that is not told.
    pub export: Option<String>,
    /// Start of the window, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// Mounts of the run's nodes that were used in the window, this one and those that are not kept included.
    pub mounts: usize,
    /// Bytes that were read; null where that is not told.
    pub read_bytes: Option<f64>,
    /// Reads; null where that is not told.
    pub reads: Option<f64>,
    /// What all reads took together, in seconds; null where that is not told.
    pub read_seconds: Option<f64>,
    /// The part of it from the request on the wire to the answer, in seconds; null where that is not told.
    pub read_trip_seconds: Option<f64>,
    /// What a read takes at best, in seconds, there, of the same export on another node or of another mount of the node with reads
    /// as large; null where too few reads tell it.
    pub best_read_seconds: Option<f64>,
    /// Requests that neither read nor write, such as look-ups; null where that is not told.
    pub others: Option<f64>,
    /// What they took together, in seconds; null where that is not told.
    pub other_seconds: Option<f64>,
    /// Bytes that were written; null where that is not told.
    pub written_bytes: Option<f64>,
    /// Requests that were sent again; null where that is not told.
    pub retransmissions: Option<f64>,
}

impl MountUse {
    /// Adds what it did in another time.
    pub fn add(&mut self, other: &MountUse) {
        self.best_read_seconds = self.best_read_seconds.into_iter().chain(other.best_read_seconds).reduce(f64::min);
        self.export = self.export.take().or_else(|| other.export.clone());
        grow(&mut self.read_bytes, other.read_bytes);
        grow(&mut self.reads, other.reads);
        grow(&mut self.read_seconds, other.read_seconds);
        grow(&mut self.read_trip_seconds, other.read_trip_seconds);
        grow(&mut self.others, other.others);
        grow(&mut self.other_seconds, other.other_seconds);
        grow(&mut self.written_bytes, other.written_bytes);
        grow(&mut self.retransmissions, other.retransmissions);
    }

    /// Did it have a request?
    #[must_use]
    pub fn is_used(&self) -> bool {
        [self.reads, self.others, self.written_bytes].into_iter().flatten().any(|count| count > 0.0)
    }

    /// What all its reads and look-ups took together, in seconds.
    #[must_use]
    pub fn waited_seconds(&self) -> f64 {
        [self.read_seconds, self.other_seconds].into_iter().flatten().sum()
    }
}

/// A sum of what is told; what is not told adds nothing to it.
fn grow(sum: &mut Option<f64>, by: Option<f64>) {
    *sum = sum.iter().copied().chain(by).reduce(|a, b| a + b);
}
