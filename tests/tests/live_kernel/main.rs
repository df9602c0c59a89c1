//! The exporter on the kernel that runs the tests: what is provoked there in a real cgroup is compared with the kernel's
//! own files, under every user and in a container's root.
//!
//! All of it needs root. Another kernel than that of a test's machine cannot be had, so what this one lacks is not
//! tested here: each test says what it needs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests may run programs")]

mod container;
mod exporter;
mod kernel;
mod limits;
mod rights;
