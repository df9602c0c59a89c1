//! The demonstration: a simulated node under the real programs.

pub mod check;
pub mod history;
pub mod machine;
pub mod programs;
pub mod script;
pub mod sections;
pub mod send;
pub mod stop;
