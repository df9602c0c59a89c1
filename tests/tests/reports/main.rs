//! Weekly reports of the real analyzer: delivered on schedule, with what a job says about its own progress, what an
//! inference server served, and the analyzer's own metrics about them.

mod delivery;
mod events;
mod history;
mod serving;
mod throughput;
