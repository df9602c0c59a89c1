//! The configuration file and command line in one typed, wholly validated value.
