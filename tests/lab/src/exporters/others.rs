//! The families of programs that are not ours, and their series. A row is what a recorded page of that program has
//! (`tests/lab/fixtures`): `by` names the page, `since` the version; labels that a row may lack are those of the target.

use goodput_catalog::Metric;

use super::{DISK_SIZE, Exporters, PODS, Recorder, Samples, View, push};

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
