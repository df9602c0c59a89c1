//! The lab: machines simulated by a queue model, what exporters would have reported about them, and what was the
//! matter; and real processes on this machine's kernel, under the real exporter (`live`).

pub mod board;
pub mod counters;
pub mod exporters;
pub mod families;
pub mod floors;
pub mod live;
pub mod model;
pub mod phase;
pub mod record;
pub mod spoil;
pub mod trace;
