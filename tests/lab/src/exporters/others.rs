//! The families of programs that are not ours, and their series. A row is what a recorded page of that program has
//! (`tests/lab/fixtures`): `by` names the page, `since` the version; labels that a row may lack are those of the target.

use goodput_catalog::Metric;

use super::ours::OF_FIRST_PORT;
use super::{DISK_SIZE, Exporters, PODS, Recorder, Samples, View, push};
use crate::network::MOST_RAILS;

goodput_catalog::metric_rows! {
    UNAME = Gauge None "node_uname_info" ["domainname", "machine", "nodename", "release", "sysname", "version"] {
        "Labeled system information as provided by the uname system call.",
        from "uname(2)", by "node_exporter", series "1", since "1.5.0"
    }
    BOOT_TIME = Gauge Seconds "node_boot_time_seconds" [] {
        "Node boot time, in unixtime.",
        from "/proc/stat btime", by "node_exporter", series "1", since "1.5.0"
    }
    CPU_SECONDS = Counter Seconds "node_cpu_seconds_total" ["cpu", "mode"] {
        "Seconds the CPUs spent in each mode.",
        from "/proc/stat", by "node_exporter", series "8 per CPU", since "1.5.0"
    }
    DISK_READ = Counter Bytes "node_disk_read_bytes_total" ["device"] {
        "The total number of bytes read successfully.",
        from "/proc/diskstats field 6", by "node_exporter", series "1 per disk", since "1.5.0"
    }
    DISK_WRITTEN = Counter Bytes "node_disk_written_bytes_total" ["device"] {
        "The total number of bytes written successfully.",
        from "/proc/diskstats field 10", by "node_exporter", series "1 per disk", since "1.5.0"
    }
    FILESYSTEM_SIZE = Gauge Bytes "node_filesystem_size_bytes" ["device", "fstype", "mountpoint"] {
        "Filesystem size in bytes.",
        from "statfs(2)", by "node_exporter", series "1 per file system", since "1.5.0"
    }
    FILESYSTEM_AVAILABLE = Gauge Bytes "node_filesystem_avail_bytes" ["device", "fstype", "mountpoint"] {
        "Filesystem space available to non-root users in bytes.",
        from "statfs(2)", by "node_exporter", series "1 per file system", since "1.5.0"
    }
    FILESYSTEM_READONLY = Gauge None "node_filesystem_readonly" ["device", "fstype", "mountpoint"] {
        "Filesystem read-only status.",
        from "statfs(2)", by "node_exporter", series "1 per file system", since "1.5.0"
    }
    CPU_WAITING = Counter Seconds "node_pressure_cpu_waiting_seconds_total" [] {
        "Total time in seconds that processes have waited for CPU time",
        from "/proc/pressure/cpu some", by "node_exporter", series "1", since "1.5.0"
    }
    IO_WAITING = Counter Seconds "node_pressure_io_waiting_seconds_total" [] {
        "Total time in seconds that processes have waited due to IO congestion",
        from "/proc/pressure/io some", by "node_exporter", series "1", since "1.5.0"
    }
    MEMORY_WAITING = Counter Seconds "node_pressure_memory_waiting_seconds_total" [] {
        "Total time in seconds that processes have waited for memory",
        from "/proc/pressure/memory some", by "node_exporter", series "1", since "1.5.0"
    }
    PORT_STATE = Gauge None "node_infiniband_state_id" ["device", "port"] {
        "State of an RDMA port, as the kernel numbers them: 1 is down, 4 is active.",
        from "/sys/class/infiniband/*/ports/*/state", by "node_exporter", series "1 per RDMA port", since "1.5.0"
    }
    PORT_RATE = Gauge Bytes "node_infiniband_rate_bytes_per_second" ["device", "port"] {
        "Line rate of an RDMA port.",
        from "/sys/class/infiniband/*/ports/*/rate", by "node_exporter", series "1 per RDMA port", since "1.5.0"
    }
    PORT_RECEIVED = Counter Bytes "node_infiniband_port_data_received_bytes_total" ["device", "port"] {
        "Bytes received by an RDMA port.",
        from "/sys/class/infiniband/*/ports/*/counters/port_rcv_data", by "node_exporter", series "1 per RDMA port", since "1.5.0"
    }
    PORT_SENT = Counter Bytes "node_infiniband_port_data_transmitted_bytes_total" ["device", "port"] {
        "Bytes sent by an RDMA port.",
        from "/sys/class/infiniband/*/ports/*/counters/port_xmit_data", by "node_exporter", series "1 per RDMA port", since "1.5.0"
    }
    PORT_WAIT = Counter None "node_infiniband_port_transmit_wait_total" ["device", "port"] {
        "Ticks in which an RDMA port had data to send and might not send it.",
        from "/sys/class/infiniband/*/ports/*/counters/port_xmit_wait", by "node_exporter", series "1 per RDMA port", since "1.5.0"
    }
    PAUSED = Counter None "node_ethtool_received_prio3_pause_duration" ["device"] {
        "Microseconds for which the peer paused an interface, of priority 3.",
        from "ethtool -S rx_prio3_pause_duration", by "node_exporter", series "1 per interface", since "1.5.0"
    }
    UNSCHEDULABLE = Gauge None "kube_node_spec_unschedulable" ["node"] {
        "[STABLE] Whether a node can schedule new pods.",
        from "spec.unschedulable", by "kube-state-metrics", series "1 per node", since "2.19.1"
    }
    REQUESTS_RUNNING = Gauge None "vllm:num_requests_running" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Number of requests in model execution batches.",
        from "the scheduler", by "vllm", series "1 per engine", since "2026-03"
    }
    REQUESTS_WAITING = Gauge None "vllm:num_requests_waiting" ["engine", "model_name"] + ["namespace", "pod", "owner"] {
        "Number of requests waiting to be processed.",
        from "the scheduler", by "vllm", series "1 per engine", since "2026-03"
    }
    REQUESTS = Counter None "vllm:request_success_total" ["engine", "finished_reason", "model_name"] + ["namespace", "pod", "owner"] {
        "Count of successfully processed requests.",
        from "the engine", by "vllm", series "1 per engine and reason", since "2026-03"
    }
}

/// Rows of hardware that the machine of the recorded page lacks: node_exporter's source has them (`collector/infiniband_linux.go`,
/// `collector/ethtool_linux.go`).
#[cfg(test)]
pub(super) const UNRECORDED: [&Metric; 6] = [&PORT_STATE, &PORT_RATE, &PORT_RECEIVED, &PORT_SENT, &PORT_WAIT, &PAUSED];

impl Recorder {
    /// The series of node_exporter on a node that was booted then.
    pub(super) fn node_exporter(&self, samples: &mut Samples, view: &View<'_>, booted: f64) {
        let c = &view.machine.counters;
        let instance = self.instance(9100);
        let target = [("job", "node"), ("instance", instance.as_str())];
        let mut host = |row: &Metric, labels: &[(&str, &str)], value| push(samples, row, target, labels, value);
        host(&BOOT_TIME, &[], booted);
        host(&UNAME, &[("nodename", &self.node)], 1.0);
        host(&DISK_READ, &[("device", "nvme0n1")], c.read);
        host(&DISK_WRITTEN, &[("device", "nvme0n1")], c.written + c.others_written);
        let disk = [("device", "/dev/nvme0n1p1"), ("fstype", "ext4"), ("mountpoint", "/")];
        host(&FILESYSTEM_SIZE, &disk, DISK_SIZE);
        host(&FILESYSTEM_AVAILABLE, &disk, (DISK_SIZE * (1.0 - view.machine.disk)).round());
        host(&FILESYSTEM_READONLY, &disk, 0.0);
        host(&CPU_WAITING, &[], c.node_cpu_waiting);
        host(&IO_WAITING, &[], c.node_io_waiting);
        host(&MEMORY_WAITING, &[], c.node_memory_waiting);
        for cpu in ["0", "1"] {
            for (mode, value) in c.modes() {
                host(&CPU_SECONDS, &[("cpu", cpu), ("mode", mode)], value / 2.0);
            }
        }
        self.ports(samples, view, target);
    }

    /// RDMA ports of the node, and pauses of the interface of the first one.
    fn ports(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let (Some(phase), carried) = (&view.phase.network, &view.machine.counters.network) else { return };
        for rail in 0..phase.rails.min(MOST_RAILS) {
            let (device, is_first) = (format!("mlx5_{rail}"), rail == 0);
            let port = [("device", device.as_str()), ("port", "1")];
            let mut tell = |row: &Metric, value| push(samples, row, target, &port, value);
            tell(&PORT_STATE, if is_first && phase.down { 1.0 } else { 4.0 });
            tell(&PORT_RATE, phase.speed * if is_first { phase.slow } else { 1.0 });
            tell(&PORT_RECEIVED, carried.rail[rail].round());
            tell(&PORT_SENT, carried.rail[rail].round());
            if phase.ticks.is_some() {
                tell(&PORT_WAIT, if is_first { carried.ticks.floor() } else { 0.0 });
            }
        }
        if carried.paused > 0.0 {
            push(samples, &PAUSED, target, &[("device", OF_FIRST_PORT)], (carried.paused * 1e6).floor());
        }
    }

    /// What kube-state-metrics says of the node.
    pub(super) fn kube_state(&self, samples: &mut Samples, view: &View<'_>) {
        let target = [("job", "kube-state-metrics"), ("instance", "10.0.0.9:8080")];
        let cordoned = f64::from(u8::from(view.phase.cordoned));
        push(samples, &UNSCHEDULABLE, target, &[("node", &self.node)], cordoned);
    }

    /// vLLM's own metrics, under the name of its pod, or of its owner where our exporter names owners otherwise.
    pub(super) fn server(&self, samples: &mut Samples, view: &View<'_>) {
        let instance = self.instance(8000);
        let target = [("job", "vllm"), ("instance", instance.as_str())];
        let own = self.exporters == Exporters::Ours;
        let pod = [("namespace", "ml"), ("pod", PODS[self.tenant])];
        let owner = [("owner", self.owner())];
        let who = if own { &owner[..] } else { &pod[..] };
        let (open, waiting) = view.machine.requests_open();
        let answered = view.machine.counters.requests - (open + waiting) as f64;
        for (row, value) in
            [(&REQUESTS_RUNNING, open as f64), (&REQUESTS_WAITING, waiting as f64), (&REQUESTS, answered.max(0.0))]
        {
            push(samples, row, target, who, value);
        }
    }
}
