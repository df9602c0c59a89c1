//! The series of goodput-exporter.

use goodput_exporter::catalog::{host, process};
use goodput_exporter::xid;

use super::{MEMORY_LIMIT, PROCESS_MEMORY, Recorder, Samples, TENANTS, View, instance_id, push, uuid};
use crate::lab::counters::Counters;
use crate::lab::model::Machine;
use crate::lab::phase::{LANES, Loader, MIG_SLICES, Phase};

impl Recorder {
    pub(super) fn ours(&self, samples: &mut Samples, view: &View<'_>) {
        let (phase, c) = (view.phase, &view.machine.counters);
        let instance = self.instance(9400);
        let target = [("job", "goodput"), ("instance", instance.as_str())];
        let seconds = view.machine.now() - self.started.1;
        if !phase.mig.is_empty() {
            self.instances(samples, view, target);
        }
        let whole = if phase.mig.is_empty() { view.gpus() } else { 0 };
        for gpu in 0..whole {
            let (uuid, index) = (uuid(&self.node, gpu), gpu.to_string());
            let device = [("gpu", index.as_str()), ("UUID", uuid.as_str())];
            for (state, is) in [("ok", !view.is_lost(gpu)), ("lost", view.is_lost(gpu))] {
                let labels = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("state", state)];
                push(samples, "goodput_gpu_state", target, &labels, f64::from(u8::from(is)));
            }
            if let Some(code) = xid::find(phase.xid.into()).filter(|_| view.is_odd(gpu)) {
                let number = code.code.to_string();
                let told = [("xid", number.as_str()), ("class", code.class.name()), ("action", code.action.name())];
                let labels: Vec<_> = device.iter().chain(&told).copied().collect();
                push(samples, "goodput_gpu_xid_errors_total", target, &labels, 1.0);
            }
            if view.is_lost(gpu) {
                continue;
            }
            let narrow = f64::from(u8::from(view.lanes(gpu) < LANES));
            for (aspect, value) in [("generation", 0.0), ("width", narrow)] {
                let labels = [("UUID", uuid.as_str()), ("aspect", aspect), ("against", "max")];
                push(samples, "goodput_gpu_pcie_link_degraded", target, &labels, value);
            }
            let wants_reset = view.is_odd(gpu) && phase.wants_reset;
            let labels = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("kind", "reset")];
            push(samples, "goodput_gpu_reset_required", target, &labels, f64::from(u8::from(wants_reset)));
            let before = self.started.0.gpus.get(gpu).copied().unwrap_or_default();
            push(samples, "goodput_gpu_busy_seconds_total", target, &device, c.gpus[gpu].busy - before.busy);
            let observed = seconds - (c.gpus[gpu].lost - before.lost);
            push(samples, "goodput_gpu_observed_seconds_total", target, &device, observed);
            for (reason, value) in [("hw_thermal", c.gpus[gpu].hot), ("power_cap", c.gpus[gpu].capped)] {
                let labels = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("reason", reason)];
                push(samples, "goodput_gpu_clock_event_seconds_total", target, &labels, value);
            }
            push(samples, "goodput_gpu_processes", target, &device, f64::from(u8::from(view.is_held(gpu))));
            if view.is_held(gpu) {
                for owner in TENANTS.iter().take(phase.tenants) {
                    let owned = [("UUID", uuid.as_str()), ("owner", owner)];
                    push(samples, "goodput_gpu_owner_info", target, &owned, 1.0);
                }
            }
        }
        if phase.mig.is_empty() {
            self.placement(samples, view, target);
        }
        let mut node = |name, labels: &[(&str, &str)], value| push(samples, name, target, labels, value);
        node("goodput_node_info", &[("nodename", &self.node)], 1.0);
        let waiting = [("cpu", c.node_cpu_waiting), ("memory", c.node_memory_waiting), ("io", c.node_io_waiting)];
        for (resource, value) in waiting {
            node("goodput_pressure_waiting_seconds_total", &[("resource", resource)], value);
        }
        for (mode, value) in c.modes() {
            node("goodput_node_cpu_seconds_total", &[("mode", mode)], value);
        }
        node("goodput_cpu_seconds_total", &[("mode", "softirq"), ("node", "0")], c.node_softirq);
        node("goodput_cpu_busiest_softirq_seconds_total", &[], c.busiest_softirq);
        node("goodput_irq_movable_interrupts_total", &[], c.interrupts);
        node("goodput_compaction_stalls_total", &[], c.compaction_stalls);
        node("goodput_memory_reclaim_stalls_total", &[], c.refaults);
        node(host::DISK_READ_BYTES.name, &[("device", "nvme0n1")], c.read);
        node("goodput_disk_written_bytes_total", &[("device", "nvme0n1")], c.written + c.others_written);
        let mps = [("daemon", "nvidia-cuda-mps-control")];
        node("goodput_driver_daemon_running", &mps, f64::from(u8::from(phase.mps)));
        if phase.job {
            for owner in TENANTS.iter().take(phase.tenants).skip(1) {
                node("goodput_cgroup_cpu_usage_seconds_total", &[("owner", owner)], c.cpu_usage);
            }
            let saturated = saturated(&c.workers, &self.before.0.workers, view.machine.now() - self.before.1);
            node(process::PROCESS_SATURATED_WORKERS.name, &[("owner", "train")], saturated as f64);
            node(process::PROCESS_HOLDERS_CPU.name, &[("owner", "train")], c.holders);
            job(samples, phase, c, target);
            if phase.tells_processes {
                processes(samples, phase, view.machine, target);
            }
        }
    }

    /// The machine's only GPU in MIG mode, and its instances.
    fn instances(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let (uuid, c) = (uuid(&self.node, 0), &view.machine.counters);
        let board = [("gpu", "0"), ("UUID", uuid.as_str())];
        let held = (0..view.gpus()).filter(|gpu| view.is_held(*gpu)).count();
        push(samples, "goodput_gpu_state", target, &[&board[..], &[("state", "ok")]].concat(), 1.0);
        push(samples, "goodput_gpu_mig_capacity_slices", target, &board, MIG_SLICES);
        push(samples, "goodput_gpu_processes", target, &board, held as f64);
        for (gpu, profile) in view.phase.mig.iter().enumerate() {
            let id = instance_id(gpu);
            let part = [&board[..], &[("GPU_I_ID", id.as_str()), ("GPU_I_PROFILE", profile)]].concat();
            let before = self.started.0.gpus.get(gpu).copied().unwrap_or_default();
            for (name, value) in [
                ("goodput_gpu_mig_slices", view.phase.slices(gpu) * MIG_SLICES),
                ("goodput_gpu_mig_busy_seconds_total", c.gpus[gpu].busy - before.busy),
                ("goodput_gpu_mig_observed_seconds_total", view.machine.now() - self.started.1),
                ("goodput_gpu_mig_processes", f64::from(u8::from(view.is_held(gpu)))),
            ] {
                push(samples, name, target, &part, value);
            }
            for owner in TENANTS.iter().take(if view.is_held(gpu) { view.phase.tenants } else { 0 }) {
                let owned = [("UUID", uuid.as_str()), ("GPU_I_ID", id.as_str()), ("owner", owner)];
                push(samples, "goodput_gpu_owner_info", target, &owned, 1.0);
            }
        }
    }

    /// Which NUMA node each GPU hangs on, and where the processes of the GPUs may run and have their memory.
    fn placement(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        const NUMA_NODES: [&str; 2] = ["0", "1"];
        let layout = view.machine.layout;
        let names = &NUMA_NODES[..layout.sockets];
        let mut job_memory = vec![0.0; layout.sockets];
        for gpu in 0..view.gpus() {
            let uuid = uuid(&self.node, gpu);
            let own = NUMA_NODES[layout.gpu_numa_node(gpu)];
            push(samples, "goodput_gpu_numa_info", target, &[("UUID", &uuid), ("node", own)], 1.0);
            if !view.is_held(gpu) {
                continue;
            }
            let home = layout.process_numa_node(gpu, view.phase);
            job_memory[home] += PROCESS_MEMORY;
            for (node, name) in names.iter().enumerate() {
                let cpus = if node == home { layout.cpus / layout.sockets } else { 0 };
                let labels = [("UUID", uuid.as_str()), ("node", name)];
                push(samples, "goodput_gpu_numa_allowed_cpus", target, &labels, cpus as f64);
            }
        }
        for (bytes, name) in job_memory.into_iter().zip(names).filter(|_| view.phase.job) {
            let labels = [("owner", "train"), ("node", name)];
            push(samples, "goodput_cgroup_numa_anon_shmem_bytes", target, &labels, bytes);
        }
    }
}

/// Processes that had a CPU for at least 85 % of so many seconds, of those that were there before too.
fn saturated(now: &[f64], before: &[f64], seconds: f64) -> usize {
    now.iter().zip(before).filter(|(now, before)| **now - **before >= 0.85 * seconds).count()
}

/// What is told of the job's processes.
fn processes(samples: &mut Samples, phase: &Phase, machine: &Machine, target: [(&str, &str); 2]) {
    let workers = if phase.loader == Loader::Processes { phase.workers * machine.layout.gpus } else { 0 };
    let owner = ("owner", "train");
    push(samples, process::PROCESS_WORKERS.name, target, &[owner], workers as f64);
    push(samples, process::PROCESS_WRITTEN.name, target, &[owner], machine.counters.written);
    push(samples, process::PROCESS_CALLS_READ.name, target, &[owner], machine.counters.read);
    let stalled = [owner, ("resource", "io")];
    push(samples, host::CGROUP_PRESSURE_STALLED.name, target, &stalled, machine.counters.job_io_stalled);
}

/// What the job's cgroup counts.
fn job(samples: &mut Samples, phase: &Phase, c: &Counters, target: [(&str, &str); 2]) {
    let mut job = |name, value| push(samples, name, target, &[("owner", "train")], value);
    job("goodput_cgroup_cpu_usage_seconds_total", c.cpu_usage);
    job("goodput_cgroup_allowed_cpus", phase.cpus as f64);
    job("goodput_cgroup_cpu_periods_total", c.periods);
    job("goodput_cgroup_cpu_throttled_periods_total", c.throttled_periods);
    job("goodput_cgroup_cpu_throttled_seconds_total", c.throttled);
    job("goodput_irq_owner_cpus_interrupts_total", c.job_interrupts);
    job("goodput_cgroup_major_faults_total", c.refaults);
    job(host::CGROUP_READ_BYTES.name, c.read);
    job("goodput_cgroup_io_written_bytes_total", c.written);
    if let Some(quota) = phase.quota {
        job("goodput_cgroup_cpu_limit_cores", quota);
    }
    if phase.inactive {
        job(host::CGROUP_MEMORY_CURRENT.name, MEMORY_LIMIT);
        job(host::CGROUP_MEMORY_MAX.name, MEMORY_LIMIT);
    }
    for (resource, value) in [("cpu", c.job_cpu_waiting), ("memory", c.job_memory_waiting), ("io", c.job_io_waiting)] {
        let labels = [("owner", "train"), ("resource", resource)];
        push(samples, "goodput_cgroup_pressure_waiting_seconds_total", target, &labels, value);
    }
    for (kind, share) in [("anon", 0.25), ("file", 0.75)] {
        let labels = [("owner", "train"), ("kind", kind)];
        push(samples, "goodput_cgroup_refault_pages_total", target, &labels, share * c.refaults);
    }
}
