//! The lab: machines simulated by a queue model, what exporters would have told of them, and what was the matter.

pub mod counters;
pub mod exporters;
pub mod families;
pub mod model;
pub mod phase;
pub mod record;
