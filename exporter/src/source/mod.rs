//! The only room that touches the machine: files below injected roots, and NVML.

pub mod cgroupfs;
pub mod files;
pub mod kmsg;
pub mod nodes;
pub mod nvml;
pub mod own;
pub mod process;
pub mod xid;
