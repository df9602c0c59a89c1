//! What was built: both programs say it by `--version` and as labels of `build_info`.

/// The version, its commit and day, and the target. Commit and day are `unknown` in a development build and outside a
/// repository.
pub const BUILT: [&str; 4] =
    [env!("CARGO_PKG_VERSION"), env!("GOODPUT_REVISION"), env!("GOODPUT_DATE"), env!("GOODPUT_TARGET")];

/// The same for people.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("GOODPUT_REVISION"),
    " of ",
    env!("GOODPUT_DATE"),
    ", ",
    env!("GOODPUT_TARGET"),
    ")"
);
