//! Flags, config file and environment in one typed, wholly validated value.
