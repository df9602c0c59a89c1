//! Raw samples from the engines that people run. [`Engine`] asks one by HTTP, in the cheapest of the ways that it offers; the
//! modules below it decode the answers and open no connection. An answer is whole or it is an error.

mod buffer;
mod causes;
mod engine;
mod error;
pub mod http;
mod order;
mod partial;
mod promql;
mod read_error;
mod readers;
pub mod remote_read;
mod retry;
pub mod victoria;
pub mod xor;

pub use engine::{Engine, Reader};
pub use error::DecodeError;
pub use partial::{Partial, PartialAnswer};
pub use read_error::{Kind, ReadError};

/// Bytes that one frame, one line or one decompressed answer may have when no other limit is set: 64 MiB.
pub const DEFAULT_LIMIT: usize = 64 << 20;
