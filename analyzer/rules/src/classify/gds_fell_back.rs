//! A job has GPUDirect Storage open and reads a network file system, and none of it goes the direct way: `gds_fell_back`.
//!
//! The library then copies by host memory without an error. Disks are left out: newer releases read NVMe without nvidia-fs, whose
//! counts stay 0.

use super::advisory::Adviser;
use super::intervals::Grounds;
use super::loaders::is_alone;
use super::thresholds::confidence::INFERRED;
use super::{Advice, Cell, Fact, Thresholds, storage};
use crate::signal::Signal;

pub(super) const ADVISER: Adviser = Adviser { advice: Advice::GdsFellBack, charged_as: &[], judge };

/// The counts are the node's, so that they are a job's only where it has all GPUs that are held.
fn judge(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let (processes, operations) = (cell.read(Signal::GdsProcesses)?, cell.read(Signal::GdsOperations)?);
    let read = storage::most_read(cell.node, cell.index)?;
    let is_open = processes.min >= 1.0 && operations.max <= 0.0 && read >= t.gds_read_bytes;
    let fact = |signal: &'static str, unit, value, threshold| Fact { signal, unit, value, threshold };
    let facts = vec![
        fact("bytes read from the network file system", "bytes per second", read, t.gds_read_bytes),
        fact(Signal::GdsOperations.name(), "operations per second", operations.mean, 0.0),
        fact(Signal::GdsProcesses.name(), "processes", processes.mean, 1.0),
    ];
    (is_open && is_alone(cell)).then(|| Grounds { confidence: INFERRED, facts, missing: Vec::new() })
}
