//! Rows of the table for collectives: what the ranks of NCCL's communicators tell, by our exporter's collector `nccl`.
//!
//! Their labels say whose they are (`UUID`, `owner`) and of what (`comm`, `operation`, `slot`): they are matched rank by rank,
//! never laid on a grid.

use goodput_catalog::{Metric, nccl};

use super::Signal;
use super::table::{Row, row};

const fn rank(metric: &'static Metric, signal: Signal) -> Row {
    row(metric.name, signal).of_server()
}

pub(super) static ROWS: &[Row] = &[
    rank(&nccl::NCCL_SECONDS, Signal::CollectiveSeconds),
    rank(&nccl::NCCL_BUS_BYTES, Signal::CollectiveBytes),
    rank(&nccl::NCCL_SEQUENCE, Signal::CollectiveSequence),
    rank(&nccl::NCCL_SAMPLED_SEQUENCE, Signal::SampledSequence),
    rank(&nccl::NCCL_SAMPLED_SECONDS, Signal::SampledSeconds),
    rank(&nccl::NCCL_COMMUNICATOR, Signal::Communicator),
];
