//! Weekly reports of the real analyzer: delivered on schedule, with what a job says about its own progress,
//! and what it tells of itself.

mod delivery;
mod events;
mod history;
mod throughput;
