//! The host collectors on recorded machines: kernel files in, exposition text out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail by panicking")]

mod accounts;
mod attribution;
mod audit;
mod bad_input;
mod blocking;
mod budget;
mod cgroup;
mod cpu;
mod driver;
mod ethtool;
mod every;
mod fixture;
mod irq;
mod kubelet;
mod live;
mod lustre;
mod manifest;
mod memory;
mod nccl;
mod nearest;
mod network;
mod node;
mod numa;
mod odd_machines;
mod overlay;
mod pci;
mod placement;
mod pressure;
mod process;
mod recorded;
mod storage;
mod support;
mod swap;
mod thp;
