//! Our own families.

use std::cmp::Reverse;
use std::time::Duration;

use crate::source::nvml::activity::{self, Activity};
use crate::source::nvml::{Absent, Gpu, Power, Process, Reading, State, Virtualization, fields};
use goodput_catalog::dcgm::Scope;
use goodput_catalog::{Metric, gpu as rows, sampler};
use goodput_exposition::Families;

/// Processes per GPU with a series of their own. MPS allows 48 clients per GPU.
const PROCESSES: usize = 64;

/// Writes who the GPU is, how reading it goes, and how old the reading is.
pub(super) fn push_identity(gpu: &Gpu, age: Option<Duration>, index: &str, device: &str, out: &mut Families) {
    push_state(index, &gpu.uuid, gpu.state, out);
    let labels = [index, &gpu.uuid, &gpu.pci_bus_id, device, &gpu.model];
    let virtualization = gpu.virtualization.map_or("", Virtualization::name);
    out.push_with(&rows::INFO, &labels, &[gpu.serial.as_deref().unwrap_or_default(), virtualization], 1.0);
    out.push(&rows::READING_AGE, &[index, &gpu.uuid], age.map(|age| age.as_secs_f64()));
    out.push(&rows::READ_FAILURES, &[index, &gpu.uuid], gpu.failures as f64);
}

/// Writes the readings.
pub(super) fn push_readings(gpu: &Gpu, index: &str, out: &mut Families) {
    out.push(&rows::CYCLES, &[index, &gpu.uuid], gpu.totals.cycles as f64);
    out.push(&rows::IMPLAUSIBLE, &[index, &gpu.uuid], gpu.totals.absurd as f64);
    push_busy(gpu, index, out);
    push_power(&gpu.totals.power, [index, &gpu.uuid], out);
    push_activity(&gpu.totals.activity, [index, &gpu.uuid], out);
    push_processes(gpu, index, out);
    push_fields(gpu, index, out);
}

pub(super) fn push_state(index: &str, uuid: &str, state: State, out: &mut Families) {
    let now = match state {
        State::Starting => "starting",
        State::Ok => "ok",
        State::Stale(_) => "stale",
        State::Lost => "lost",
        State::Failing(_) => "failing",
        State::Released => "released",
    };
    for name in ["starting", "ok", "stale", "lost", "failing", "released"] {
        out.push(&rows::STATE, &[index, uuid, name], f64::from(u8::from(name == now)));
    }
}

/// A GPU whose samples cannot be had (MIG, vGPU) has no busy time; that is not a busy time of zero.
fn push_busy(gpu: &Gpu, index: &str, out: &mut Families) {
    if gpu.values.samples == Err(Absent::NotSupported) {
        return;
    }
    let (labels, busy) = ([index, gpu.uuid.as_str()], &gpu.totals.busy);
    out.push(&rows::BUSY, &labels, busy.busy_seconds());
    out.push(&rows::OBSERVED, &labels, busy.observed_seconds());
    out.push(&rows::OVERRUNS, &labels, busy.overruns as f64);
    out.push(&rows::LONGEST_GAP, &labels, busy.longest_gap_seconds());
    let buckets: Vec<_> = busy.gap_buckets().collect();
    out.push_histogram(&rows::IDLE_GAP, &labels, &buckets, busy.gap_count, busy.gap_seconds());
}

/// Nothing before power was observed.
fn push_power(power: &Power, labels: [&str; 2], out: &mut Families) {
    if power.observed_seconds() == 0.0 {
        return;
    }
    out.push(&sampler::POWER_JOULES, &labels, power.joules());
    out.push(&sampler::POWER_SQUARED, &labels, power.squared_watts_seconds());
    out.push(&sampler::POWER_OBSERVED, &labels, power.observed_seconds());
    out.push(&sampler::POWER_OVERRUNS, &labels, power.overruns as f64);
}

fn push_activity(activity: &Activity, [index, uuid]: [&str; 2], out: &mut Families) {
    out.push(&sampler::GPM_OBSERVED, &[index, uuid], activity.observed_seconds());
    for (unit, seconds) in activity.active_seconds() {
        out.push(&sampler::GPM_ACTIVE, &[index, uuid, unit], seconds);
    }
    let mut push = |row: &'static Metric, counter: u32, label: Option<&str>| {
        let labels: Vec<_> = [index, uuid].into_iter().chain(label).collect();
        out.push(row, &labels, activity.counted(counter).map(|count| count as f64));
    };
    push(&sampler::SM_ELAPSED_CYCLES, activity::SM_CYCLES_ELAPSED, None);
    push(&sampler::SM_ACTIVE_CYCLES, activity::SM_CYCLES_ACTIVE, None);
    for (counter, pipe) in activity::PIPE_CYCLES {
        push(&sampler::PIPE_ACTIVE_CYCLES, counter, Some(pipe));
    }
    push(&sampler::PCIE_BYTES, activity::PCIE_RX, Some("rx"));
    push(&sampler::PCIE_BYTES, activity::PCIE_TX, Some("tx"));
}

fn push_processes(gpu: &Gpu, index: &str, out: &mut Families) {
    let Ok(processes) = &gpu.processes else { return };
    out.push(&rows::PROCESSES, &[index, &gpu.uuid], processes.len() as f64);
    let clients = gpu.values.mps_clients.ok().map(|count| count as f64);
    out.push(&rows::MPS_CLIENTS, &[index, &gpu.uuid], clients);
    let mut largest: Vec<&Process> = processes.iter().collect();
    largest.sort_by_key(|p| (Reverse(p.used_bytes), p.pid));
    for process in largest.into_iter().take(PROCESSES) {
        let labels = [index, &gpu.uuid, &process.pid.to_string()];
        let instance = process.instance.map(|id| id.to_string()).unwrap_or_default();
        let used = process.used_bytes.map(|bytes| bytes as f64);
        out.push_with(&rows::PROCESS_MEMORY, &labels, &[&instance], used);
    }
}

fn push_fields(gpu: &Gpu, index: &str, out: &mut Families) {
    let values = &gpu.values;
    let mut push = |row, label: &str, value: Reading<f64>| out.push(row, &[index, &gpu.uuid, label], value.ok());
    for (direction, kibibytes) in fields::nvlink_data(Scope::AllLinks) {
        push(&rows::NVLINK_BYTES, direction, values.field(kibibytes).map(|kib| kib * 1024.0));
    }
    for (error, count) in fields::PCIE_ERRORS {
        push(&rows::PCIE_ERRORS, error, values.field(count));
    }
    out.push(&rows::RECOVERY_ACTION, &[index, &gpu.uuid], values.field(fields::RECOVERY_ACTION).ok());
}
