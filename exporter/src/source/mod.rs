//! The only room that touches the machine: files below injected roots, NVML, and a few programs of the system.

pub mod blocks;
pub mod cgroupfs;
pub mod common;
pub mod container_logs;
pub mod daemons;
pub mod environ;
pub mod ethtool;
pub mod files;
pub mod hostname;
pub mod inspector;
pub mod job_map;
pub mod kmsg;
pub mod left_out;
pub mod nodes;
pub mod nvml;
pub mod oom;
pub mod own;
pub(crate) mod pci_path;
pub mod pod_resources;
pub mod process;
pub mod program;
pub mod slurm;
pub mod xid;
