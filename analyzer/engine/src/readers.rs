//! Raw samples of one metric, by each of the ways in which an engine gives them. Each reads the whole range or fails.

pub(crate) mod remote_read;
pub(crate) mod victoria;
