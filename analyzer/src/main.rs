//! The `goodput-analyzer` program.

fn main() {}
