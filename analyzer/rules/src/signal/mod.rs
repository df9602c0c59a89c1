//! The vocabulary: which metric names, of whose exporter, mean which signal. Nothing else knows metric names.
//!
//! A [`Signal`] is what rules speak about; [`resolve`] turns the labels of a series into a [`Meaning`]. The names are
//! rows of one table.

mod bounds;
mod demand;
mod list;
mod meaning;
mod mig;
mod nccl;
mod network;
mod origin;
mod servers;
mod setting;
mod storage;
mod table;

pub(crate) use bounds::{LEAST_WATTS, MOST_WATTS};
pub(crate) use list::LADDER;
pub use list::{Kind, Scope, Signal};
pub use meaning::{
    Entity, Meaning, hostname_of, is_known, is_of, is_of_containers, matcher_of, metric_names, metrics_of, model_of,
    resolve,
};
pub use mig::{names_instance, profile_of};
pub use origin::{Origin, named_in, origins};
pub(crate) use servers::engine_of;
pub use setting::{Setting, setting_metrics, settings};
pub(crate) use storage::Mounted;

/// A series of every metric, for tests of whatever is made of them.
#[cfg(test)]
pub(crate) fn examples() -> Vec<(Signal, f64, goodput_exposition::sample::Labels)> {
    table::examples()
}
