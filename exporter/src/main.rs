//! The `goodput-exporter` program.

fn main() {}
