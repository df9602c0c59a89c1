//! Weekly reports of the real analyzer: delivered on schedule, and with what a job says about its own progress.

mod delivery;
mod history;
mod throughput;
