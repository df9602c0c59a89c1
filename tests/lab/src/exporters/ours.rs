//! The series of goodput-exporter.

use goodput_catalog::{
    Metric, cpu, driver, ethtool, gpu, health, host, irq, memory, mig, network, owner, process, xid as xids, xid_codes,
};

use super::{MEMORY_LIMIT, PROCESS_MEMORY, Recorder, Samples, View, instance_id, push};
use crate::counters::Counters;
use crate::model::Machine;
use crate::network::{MOST_RAILS, MOST_TICKS, NVLINKS};
use crate::phase::{LANES, Loader, MIG_SLICES, Phase};

/// Share of a process' memory that lies on NUMA nodes of memory alone: HBM of a superchip, which its GPU reads in place.
const IN_MEMORY_NODES: f64 = 0.5;

/// The interface of the node's first RDMA port: what goes over RDMA is not counted by it.
pub(super) const OF_FIRST_PORT: &str = "eth1";

impl Recorder {
    /// The series of our exporter on a node that was booted then, but for DCGM's.
    pub(super) fn ours(&self, samples: &mut Samples, view: &View<'_>, booted: f64) {
        let (phase, c) = (view.phase, &view.machine.counters);
        let instance = self.instance(9400);
        let target = [("job", "goodput"), ("instance", instance.as_str())];
        let seconds = view.machine.now() - self.started.1;
        if !phase.mig.is_empty() {
            self.instances(samples, view, target);
        }
        let whole = if phase.mig.is_empty() { view.gpus() } else { 0 };
        for gpu in 0..whole {
            let (uuid, index) = (self.uuid(gpu), (gpu + self.first_gpu).to_string());
            let device = [("gpu", index.as_str()), ("UUID", uuid.as_str())];
            for (state, is) in [("ok", !view.is_lost(gpu)), ("lost", view.is_lost(gpu))] {
                let labels = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("state", state)];
                push(samples, &gpu::STATE, target, &labels, f64::from(u8::from(is)));
            }
            if let Some(code) = xid_codes::find(phase.xid.into()).filter(|_| view.is_odd(gpu)) {
                let number = code.code.to_string();
                let told = [("xid", number.as_str()), ("class", code.class.name()), ("action", code.action.name())];
                let labels: Vec<_> = device.iter().chain(&told).copied().collect();
                push(samples, &xids::ERRORS, target, &labels, 1.0);
            }
            if view.is_lost(gpu) {
                continue;
            }
            let narrow = f64::from(u8::from(view.lanes(gpu) < LANES));
            for (aspect, value) in [("generation", 0.0), ("width", narrow)] {
                let labels = [("UUID", uuid.as_str()), ("aspect", aspect), ("against", "max")];
                push(samples, &health::PCIE_DEGRADED, target, &labels, value);
            }
            let wants_reset = view.is_odd(gpu) && phase.wants_reset;
            let labels = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("kind", "reset")];
            push(samples, &health::RESET_REQUIRED, target, &labels, f64::from(u8::from(wants_reset)));
            let before = self.started.0.gpus.get(gpu).copied().unwrap_or_default();
            push(samples, &gpu::BUSY, target, &device, c.gpus[gpu].busy - before.busy);
            let observed = seconds - (c.gpus[gpu].lost - before.lost);
            push(samples, &gpu::OBSERVED, target, &device, observed);
            for (reason, value) in [("hw_thermal", c.gpus[gpu].hot), ("power_cap", c.gpus[gpu].capped)] {
                let labels = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("reason", reason)];
                push(samples, &health::CLOCK_EVENT, target, &labels, value);
            }
            push(samples, &gpu::PROCESSES, target, &device, f64::from(u8::from(view.is_held(gpu))));
            if view.is_held(gpu) {
                for owner in self.tenants().take(phase.tenants) {
                    let owned = [("UUID", uuid.as_str()), ("owner", owner)];
                    push(samples, &owner::GPU_OWNER, target, &owned, 1.0);
                }
            }
        }
        if phase.mig.is_empty() {
            self.placement(samples, view, target);
        }
        self.network(samples, view, target);
        self.nvlinks(samples, view, target);
        self.mounts(samples, view, target);
        self.collectives(samples, view, target);
        let mut node = |row: &Metric, labels: &[(&str, &str)], value| push(samples, row, target, labels, value);
        node(&host::NODE_BOOT_TIME, &[], booted);
        node(&host::NODE_INFO, &[("nodename", &self.node)], 1.0);
        let waiting = [("cpu", c.node_cpu_waiting), ("memory", c.node_memory_waiting), ("io", c.node_io_waiting)];
        for (resource, value) in waiting {
            node(&host::PRESSURE_WAITING, &[("resource", resource)], value);
        }
        for (mode, value) in c.modes() {
            node(&host::NODE_CPU_SECONDS, &[("mode", mode)], value);
        }
        node(&cpu::CPU_SECONDS, &[("mode", "softirq"), ("node", "0")], c.node_softirq);
        node(&cpu::CPU_BUSIEST_SOFTIRQ, &[], c.busiest_softirq);
        node(&irq::IRQ_MOVABLE, &[], c.interrupts);
        node(&memory::COMPACTION_STALLS, &[], c.compaction_stalls);
        node(&memory::RECLAIM_STALLS, &[], c.refaults);
        node(&host::DISK_READ_BYTES, &[("device", "nvme0n1")], c.read);
        node(&host::DISK_WRITTEN_BYTES, &[("device", "nvme0n1")], c.written + c.others_written);
        let mps = [("daemon", "nvidia-cuda-mps-control")];
        node(&driver::DRIVER_DAEMON, &mps, f64::from(u8::from(phase.mps)));
        if phase.job {
            let owner = self.owner();
            for owner in self.tenants().take(phase.tenants).skip(1) {
                node(&host::CGROUP_CPU_USAGE, &[("owner", owner)], c.cpu_usage);
            }
            let saturated = saturated(&c.workers, &self.before.0.workers, view.machine.now() - self.before.1);
            node(&process::PROCESS_SATURATED_WORKERS, &[("owner", owner)], saturated as f64);
            node(&process::PROCESS_HOLDERS_CPU, &[("owner", owner)], c.holders);
            job(samples, owner, phase, c, target);
            if phase.tells_processes {
                processes(samples, owner, phase, view.machine, target);
            }
        }
    }

    /// RDMA ports and interfaces of the node. Kinds of events, and pauses, have no series before the first.
    fn network(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let (Some(phase), carried) = (&view.phase.network, &view.machine.counters.network) else { return };
        for rail in 0..phase.rails.min(MOST_RAILS) {
            let is_first = rail == 0;
            let of_first = |value: f64| if is_first { value } else { 0.0 };
            let (device, is_up) = (format!("mlx5_{rail}"), !(is_first && phase.down));
            let port = [("device", device.as_str()), ("port", "1")];
            let mut tell = |row: &Metric, value| push(samples, row, target, &port, value);
            tell(&network::RDMA_ACTIVE, f64::from(u8::from(is_up)));
            tell(&network::RDMA_SENT, carried.rail[rail].round());
            tell(&network::RDMA_RECEIVED, carried.rail[rail].round());
            if is_up {
                tell(&network::RDMA_SPEED, phase.speed * if is_first { phase.slow } else { 1.0 });
            }
            if phase.ticks.is_some() {
                let ticks = of_first(carried.ticks);
                tell(&network::RDMA_WAIT, ticks.floor());
                tell(&network::RDMA_SATURATED, f64::from(u8::from(ticks >= MOST_TICKS)));
            }
            let always = [
                ("local_ack_timeout_err", of_first(carried.timeouts).floor() + carried.stray[rail]),
                ("np_cnp_sent", carried.congestion.floor()),
                ("packet_seq_err", 0.0),
            ];
            let unready = of_first(carried.unready).floor();
            let once =
                [("out_of_buffer", unready), ("rnr_nak_retry_err", unready), ("out_of_sequence", carried.reordered)];
            for (kind, value) in always.into_iter().chain(once.into_iter().filter(|(_, value)| *value >= 1.0)) {
                let labels = [&port[..], &[("kind", kind)]].concat();
                push(samples, &network::RDMA_TRANSPORT, target, &labels, value.floor());
            }
        }
        for (row, value) in [(&network::NETWORK_SENT, carried.sent), (&network::NETWORK_RECEIVED, carried.received)] {
            push(samples, row, target, &[("device", "eth0")], value.round());
        }
        if carried.paused > 0.0 {
            let labels = [("device", OF_FIRST_PORT), ("direction", "receive"), ("priority", "3")];
            push(samples, &ethtool::NETWORK_PAUSE, target, &labels, carried.paused);
        }
    }

    /// NVLinks of every GPU.
    fn nvlinks(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let Some(up) = view.phase.network.as_ref().and_then(|network| network.nvlinks) else { return };
        for gpu in 0..view.gpus() {
            let up = if view.is_odd(gpu) { up } else { NVLINKS };
            for (state, count) in [("up", up), ("down", NVLINKS - up)] {
                let labels = [("UUID", self.uuid(gpu)), ("state", state.to_owned())];
                let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
                push(samples, &health::NVLINK_LINKS, target, &labels, f64::from(count));
            }
        }
    }

    /// The machine's only GPU in MIG mode, and its instances.
    fn instances(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let (uuid, c) = (self.uuid(0), &view.machine.counters);
        let board = [("gpu", "0"), ("UUID", uuid.as_str())];
        let held = (0..view.gpus()).filter(|gpu| view.is_held(*gpu)).count();
        push(samples, &gpu::STATE, target, &[&board[..], &[("state", "ok")]].concat(), 1.0);
        push(samples, &mig::CAPACITY, target, &board, MIG_SLICES);
        push(samples, &gpu::PROCESSES, target, &board, held as f64);
        for (gpu, profile) in view.phase.mig.iter().enumerate() {
            let id = instance_id(gpu);
            let part = [&board[..], &[("GPU_I_ID", id.as_str()), ("GPU_I_PROFILE", profile)]].concat();
            let before = self.started.0.gpus.get(gpu).copied().unwrap_or_default();
            for (row, value) in [
                (&mig::SLICES, view.phase.slices(gpu) * MIG_SLICES),
                (&mig::MIG_BUSY, c.gpus[gpu].busy - before.busy),
                (&mig::MIG_OBSERVED, view.machine.now() - self.started.1),
                (&mig::MIG_PROCESSES, f64::from(u8::from(view.is_held(gpu)))),
            ] {
                push(samples, row, target, &part, value);
            }
            for owner in self.tenants().take(if view.is_held(gpu) { view.phase.tenants } else { 0 }) {
                let owned = [("UUID", uuid.as_str()), ("GPU_I_ID", id.as_str()), ("owner", owner)];
                push(samples, &owner::GPU_OWNER, target, &owned, 1.0);
            }
        }
    }

    /// Which NUMA node each GPU hangs on, and where the processes of the GPUs may run and have their memory.
    fn placement(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        const NUMA_NODES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
        let layout = view.machine.layout;
        let per_socket = layout.nodes_per_socket;
        let with_cpus = layout.sockets * per_socket;
        let names = &NUMA_NODES[..with_cpus + layout.memory_nodes];
        let mut job_memory = vec![0.0; names.len()];
        for gpu in 0..view.gpus() {
            let uuid = self.uuid(gpu);
            let own = NUMA_NODES[layout.gpu_numa_node(gpu) * per_socket];
            push(samples, &host::GPU_NUMA, target, &[("UUID", &uuid), ("node", own)], 1.0);
            if !view.is_held(gpu) {
                continue;
            }
            let home = layout.process_numa_node(gpu, view.phase);
            // First touch lays pages on the nodes of the socket that the process may run on; memory without CPUs takes
            // what the program puts there itself.
            let beyond = if layout.memory_nodes > 0 { IN_MEMORY_NODES * PROCESS_MEMORY } else { 0.0 };
            for part in 0..per_socket {
                job_memory[home * per_socket + part] += (PROCESS_MEMORY - beyond) / per_socket as f64;
            }
            for node in 0..layout.memory_nodes {
                job_memory[with_cpus + node] += beyond / layout.memory_nodes as f64;
            }
            for (node, name) in names[..with_cpus].iter().enumerate() {
                let cpus = if node / per_socket == home { layout.cpus / with_cpus } else { 0 };
                let labels = [("UUID", uuid.as_str()), ("node", name)];
                push(samples, &host::GPU_ALLOWED_CPUS, target, &labels, cpus as f64);
            }
        }
        let owner = self.owner();
        for (bytes, name) in job_memory.into_iter().zip(names).filter(|_| view.phase.job) {
            let labels = [("owner", owner), ("node", name)];
            push(samples, &host::CGROUP_NUMA_ANON_SHMEM, target, &labels, bytes);
        }
    }
}

/// Processes that had a CPU for at least 85 % of these seconds, of those that were there before too.
fn saturated(now: &[f64], before: &[f64], seconds: f64) -> usize {
    now.iter().zip(before).filter(|(now, before)| **now - **before >= 0.85 * seconds).count()
}

/// The series of the job's processes.
fn processes(samples: &mut Samples, owner: &str, phase: &Phase, machine: &Machine, target: [(&str, &str); 2]) {
    let workers = if phase.loader == Loader::Processes { phase.workers * machine.layout.gpus } else { 0 };
    let (owner, mounts) = (("owner", owner), &machine.counters.mounts);
    let written = machine.counters.written + mounts.saved;
    push(samples, &process::PROCESS_WORKERS, target, &[owner], workers as f64);
    push(samples, &process::PROCESS_WRITTEN, target, &[owner], written);
    push(samples, &process::PROCESS_CALLS_READ, target, &[owner], machine.counters.read + mounts.read());
    let stalled = [owner, ("resource", "io")];
    push(samples, &host::CGROUP_PRESSURE_STALLED, target, &stalled, machine.counters.job_io_stalled);
}

/// What the job's cgroup counts.
fn job(samples: &mut Samples, owner: &str, phase: &Phase, c: &Counters, target: [(&str, &str); 2]) {
    let mut job = |row: &Metric, value| push(samples, row, target, &[("owner", owner)], value);
    job(&host::CGROUP_CPU_USAGE, c.cpu_usage);
    job(&host::CGROUP_ALLOWED_CPUS, phase.cpus as f64);
    job(&host::CGROUP_CPU_PERIODS, c.periods);
    job(&host::CGROUP_CPU_THROTTLED_PERIODS, c.throttled_periods);
    job(&host::CGROUP_CPU_THROTTLED, c.throttled);
    job(&irq::IRQ_OWNER_CPUS, c.job_interrupts);
    job(&host::CGROUP_MAJOR_FAULTS, c.refaults);
    job(&host::CGROUP_READ_BYTES, c.read);
    job(&host::CGROUP_WRITTEN_BYTES, c.written);
    if let Some(quota) = phase.quota {
        job(&host::CGROUP_CPU_LIMIT, quota);
    }
    if phase.inactive {
        job(&host::CGROUP_MEMORY_CURRENT, MEMORY_LIMIT);
        job(&host::CGROUP_MEMORY_MAX, MEMORY_LIMIT);
    }
    for (resource, value) in [("cpu", c.job_cpu_waiting), ("memory", c.job_memory_waiting), ("io", c.job_io_waiting)] {
        let labels = [("owner", owner), ("resource", resource)];
        push(samples, &host::CGROUP_PRESSURE_WAITING, target, &labels, value);
    }
    for (kind, share) in [("anon", 0.25), ("file", 0.75)] {
        let labels = [("owner", owner), ("kind", kind)];
        push(samples, &host::CGROUP_REFAULTS, target, &labels, share * c.refaults);
    }
}
