//! Samples to verdicts, and no IO.
//!
//! [`signal`] names what each series means, [`frame`] lays signals on the grid of cells, [`classify`] judges cells and does
//! the ledger's arithmetic, [`forecast`] says what has not happened yet, [`tuning`] compares how nodes are set up,
//! [`application`] joins what jobs count themselves, [`serving`] what inference servers count, [`told`] what jobs reported,
//! to the owners of GPUs.

pub mod application;
mod apportion;
mod caught;
pub mod classify;
pub mod forecast;
pub mod frame;
mod links;
pub mod median;
pub mod mig;
pub mod serving;
pub mod signal;
pub mod told;
pub mod tuning;

pub use apportion::apportion;
