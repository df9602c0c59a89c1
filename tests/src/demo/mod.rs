//! The demonstration: a simulated node under the real programs.

pub mod machine;
pub mod script;
