//! Prometheus text 0.0.4 and OpenMetrics 1.0 for both programs: [`Families`] are samples to write, [`encode`] writes
//! them, [`Points`] reads what others wrote, [`sample`] holds samples and their labels. Text in and out; this crate opens no file and no connection.

mod about;
mod batch;
mod encode;
mod family;
mod fault;
mod format;
pub mod sample;
mod text;

pub use about::{About, about};
pub use batch::parse;
pub use encode::encode;
pub use family::{Constants, Counter, CounterType, Counters, Devices, Families, Family, Head, Style};
pub use fault::{Fault, Reason, excerpt};
pub use format::Format;
pub use text::{Limits, LineByLine, Point, PointLabels, Points, TextError};
