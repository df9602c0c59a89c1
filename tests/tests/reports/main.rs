//! Weekly reports of the real analyzer: delivered on schedule, with what a job says about its own progress, and the
//! analyzer's own metrics about them.

mod delivery;
mod events;
mod history;
mod throughput;
