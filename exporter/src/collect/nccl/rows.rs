//! Samples of catalog rows, made by the reader's thread and pushed by the scrape.

use goodput_catalog::Metric;
use goodput_catalog::nccl::*;
use goodput_exposition::Families;

use super::account::{Losses, Lost};
use super::board::Sums;
use crate::parse::inspector::Operation;
use crate::parse::inspector::json::Context;
use crate::parse::inspector::text::{Kind, Mean};

/// One sample.
pub(super) struct Row {
    metric: &'static Metric,
    labels: Vec<String>,
    optional: Option<String>,
    value: f64,
}

impl Row {
    /// Hands it to the scrape.
    pub(super) fn push(&self, out: &mut Families) {
        let labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        out.push_with(self.metric, &labels, self.optional.as_deref().as_slice(), self.value);
    }
}

/// A GPU and its owner, or the owner alone where a process holds several GPUs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) owner: String,
    /// Index and UUID.
    pub(super) gpu: Option<(String, String)>,
}

/// What communicators beyond those with series of their own are called, and their operations.
const OTHER: &str = "other";

/// The samples of a round.
#[derive(Default)]
pub(super) struct Rows(pub(super) Vec<Row>);

impl Rows {
    fn add(&mut self, metric: &'static Metric, labels: Vec<String>, value: f64) {
        self.0.push(Row { metric, labels, optional: None, value });
    }

    /// `(gpu, UUID, owner)` and more.
    fn place<const N: usize>(&mut self, metric: &'static Metric, place: &Place, more: [&str; N], value: f64) {
        let (gpu, uuid) = place.gpu.as_ref().map_or(("", ""), |(gpu, uuid)| (gpu, uuid));
        let labels = [gpu, uuid, &place.owner].into_iter().chain(more);
        self.add(metric, labels.map(str::to_owned).collect(), value);
    }

    fn sums(&mut self, place: &Place, pair: [&str; 2], sums: &Sums) {
        self.place(&NCCL_SECONDS, place, pair, sums.seconds);
        self.place(&NCCL_COLLECTIVES, place, pair, sums.collectives as f64);
        self.place(&NCCL_BUS_BYTES, place, pair, sums.bus_bytes);
    }

    /// A communicator's collectives of one operation, and the number of the last one. Who came last is known where ranks are
    /// matched.
    pub(super) fn pair(
        &mut self,
        place: &Place,
        (comm, operation): (u64, Operation),
        sums: &Sums,
        sequence: Option<u64>,
        is_matched: bool,
    ) {
        let (comm, operation_name) = (id(comm), operation.name());
        let pair = [comm.as_str(), operation_name];
        self.sums(place, pair, sums);
        if is_matched {
            self.place(&NCCL_LAST, place, pair, sums.last as f64);
        }
        if let Some(sequence) = sequence {
            self.place(&NCCL_SEQUENCE, place, pair, sequence as f64);
        }
    }

    /// All other communicators together.
    pub(super) fn other(&mut self, place: &Place, sums: &Sums) {
        self.sums(place, [OTHER, OTHER], sums);
    }

    /// One slot's sample.
    pub(super) fn sample(&mut self, place: &Place, pair: (u64, Operation), slot: usize, sample: (u64, f64)) {
        let (comm, slot) = (id(pair.0), slot.to_string());
        let labels = [comm.as_str(), pair.1.name(), slot.as_str()];
        self.place(&NCCL_SAMPLED_SEQUENCE, place, labels, sample.0 as f64);
        self.place(&NCCL_SAMPLED_SECONDS, place, labels, sample.1);
    }

    /// What a communicator is.
    pub(super) fn communicator(&mut self, place: &Place, about: &Context, has_name: bool) {
        let numbers = [about.ranks, about.nodes, about.rank].map(|number| number.to_string());
        let [ranks, nodes, rank] = numbers.each_ref().map(String::as_str);
        self.place(&NCCL_COMMUNICATOR, place, [&id(about.communicator), ranks, nodes, rank], 1.0);
        if let Some(row) = self.0.last_mut().filter(|_| has_name) {
            row.optional.clone_from(&about.name);
        }
    }

    /// Time of the transfer on the node.
    pub(super) fn transfer(&mut self, owner: &str, (comm, operation): (u64, Operation), seconds: f64) {
        self.add(&NCCL_TRANSFER, vec![owner.to_owned(), id(comm), operation.name().to_owned()], seconds);
    }

    /// What an owner's counters lack.
    pub(super) fn lost(&mut self, owner: &str, losses: &Losses) {
        for (reason, count) in Lost::ALL.iter().zip(losses) {
            self.add(&NCCL_LOST, vec![owner.to_owned(), reason.name().to_owned()], *count as f64);
        }
    }

    /// Means of the text form.
    pub(super) fn mean(&mut self, place: &Place, kind: &Kind, mean: &Mean) {
        let nodes = kind.nodes.to_string();
        let labels = [kind.operation, &kind.size, &nodes];
        if let Some(bandwidth) = mean.bandwidth {
            self.place(&NCCL_BUS_BANDWIDTH, place, labels, bandwidth);
        }
        if let Some(seconds) = mean.seconds {
            self.place(&NCCL_MEAN_SECONDS, place, labels, seconds);
        }
    }

    /// How many files are in which state.
    pub(super) fn files(&mut self, states: [(&str, u64); 4]) {
        for (state, count) in states {
            self.add(&NCCL_FILES, vec![state.to_owned()], count as f64);
        }
    }
}

/// A communicator's id as NCCL writes it.
fn id(communicator: u64) -> String {
    format!("{communicator:#x}")
}
