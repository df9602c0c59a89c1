//! Rows of the `gpu` collector under our own names: what dcgm-exporter cannot say.
//!
//! They carry `gpu` and `UUID` only; `goodput_gpu_info` joins the rest.

crate::metric_rows! {
    DRIVER_UP = Gauge None "goodput_gpu_driver_up" [] {
        "1 while the NVIDIA driver answers, 0 while there is none; absent while it is released on request.",
        from "nvmlInit_v2, nvmlSystemGetDriverVersion", by "gpu", series "1", since "0.1.0"
    }
    DRIVER_INFO = Info None "goodput_gpu_driver_info" ["version"] {
        "Version of the NVIDIA driver.",
        from "nvmlSystemGetDriverVersion", by "gpu", series "1", since "0.1.0"
    }
    INFO = Info None "goodput_gpu_info" ["gpu", "UUID", "pci_bus_id", "device", "modelName"] + ["serial", "virtualization"] {
        "Identity of the GPU; virtualization is none, passthrough (a whole GPU in a virtual machine), vgpu (a share of one in a virtual machine), host_vgpu or host_vsga (a GPU of a hypervisor).",
        from "nvmlDeviceGetUUID, GetPciInfo_v3, GetMinorNumber, GetName, GetSerial, GetVirtualizationMode", by "gpu", series "1 per GPU", since "0.1.0"
    }
    STATE = Gauge None "goodput_gpu_state" ["gpu", "UUID", "state"] {
        "1 for how reading the GPU goes, 0 for the others: starting, ok, stale (a driver call hangs), lost (also when the driver lists it no more), failing (errors, or answers that take seconds), released (on request).",
        from "return codes and duration of NVML calls", by "gpu", series "6 per GPU", since "0.1.0"
    }
    READING_AGE = Gauge Seconds "goodput_gpu_reading_age_seconds" ["gpu", "UUID"] {
        "Time since the last complete reading of the GPU; gauges may be up to 10 s older, those of codecs, PCIe link, memory clock and profiling of an idle GPU up to 30 s.",
        from "own clock", by "gpu", series "1 per GPU", since "0.1.0"
    }
    PCI_DEVICES = Gauge None "goodput_gpu_pci_devices" ["driver"] {
        "NVIDIA GPUs on the PCI bus by the kernel driver bound to them, empty where none is: more under nvidia than goodput_gpu_info has are GPUs that the driver does not list.",
        from "/sys/bus/pci/devices/*/{class,vendor,driver}", by "pci", series "1 per driver", since "0.1.0"
    }
    NEAREST_NIC = Info None "goodput_gpu_nearest_nic_info" ["gpu", "UUID", "device", "path"] {
        "The RDMA device nearest to the GPU (a network interface where the node has no RDMA device), and what lies between, in NCCL's words: pix (one PCIe switch at most), pxb (several), phb (a host bridge), node (host bridges of one NUMA node), sys (NUMA nodes). Of several that are equally near, the first 2; no series in a virtual machine, or where another NIC may be nearer because its NUMA node is not known.",
        from "/sys/bus/pci/devices/* and /sys/class/{infiniband,net}/*/device: where they lead, and numa_node", by "pci", series "1 per GPU, 2 with several NICs equally near", since "0.3.0"
    }
    READ_FAILURES = Counter None "goodput_gpu_read_failures_total" ["gpu", "UUID"] {
        "Times the exporter stopped reading the GPU and retried after 2 to 30 s because it was lost, failed or too slow.",
        from "return codes and duration of NVML calls", by "gpu", series "1 per GPU", since "0.1.0"
    }
    RELEASE_REMAINING = Gauge Seconds "goodput_gpu_release_remaining_seconds" [] {
        "Time until the exporter reacquires the GPUs that it released on request; absent while it reads them.",
        from "own clock", by "gpu", series "1", since "0.1.0",
        for "to see when GPUs that were released on request are taken back"
    }
    CYCLES = Counter None "goodput_gpu_read_cycles_total" ["gpu", "UUID"] {
        "Complete readings of the GPU.",
        from "own count", by "gpu", series "1 per GPU", since "0.1.0",
        for "to divide the NVML calls by, and to see how often a GPU is read"
    }
    IMPLAUSIBLE = Counter None "goodput_gpu_implausible_answers_total" ["gpu", "UUID"] {
        "Answers of the driver that cannot be, such as a utilization of 4294967295 %: the reading is absent until the driver answers soundly, and the log names each kind once.",
        from "the plausible range of each reading", by "gpu", series "1 per GPU", since "0.1.0"
    }
    NVML_CALLS = Counter None "goodput_gpu_nvml_calls_total" [] {
        "NVML calls made for all GPUs; divided by the reading cycles it is the cost of one.",
        from "own count", by "gpu", series "1", since "0.1.0",
        for "the exporter's own cost in NVML calls per second"
    }
    BUSY = Counter Seconds "goodput_gpu_busy_seconds_total" ["gpu", "UUID"] {
        "Integral of GPU utilization over time since the exporter started.",
        from "nvmlDeviceGetSamples GPU_UTILIZATION, every sample", by "gpu", series "1 per GPU", since "0.1.0"
    }
    OBSERVED = Counter Seconds "goodput_gpu_observed_seconds_total" ["gpu", "UUID"] {
        "Time covered by the samples that the busy time is integrated from.",
        from "nvmlDeviceGetSamples GPU_UTILIZATION, timestamps", by "gpu", series "1 per GPU", since "0.1.0"
    }
    OVERRUNS = Counter None "goodput_gpu_sample_overruns_total" ["gpu", "UUID"] {
        "Times that the driver's sample buffer wrapped before it was drained.",
        from "nvmlDeviceGetSamples GPU_UTILIZATION, timestamps", by "gpu", series "1 per GPU", since "0.1.0"
    }
    IDLE_GAP = Histogram Seconds "goodput_gpu_idle_gap_seconds" ["gpu", "UUID"] {
        "Idle gaps that have ended: at least 3 consecutive utilization samples of at most 5 %.",
        from "nvmlDeviceGetSamples GPU_UTILIZATION", by "gpu", series "12 per GPU", since "0.1.0"
    }
    LONGEST_GAP = Gauge Seconds "goodput_gpu_idle_gap_longest_seconds" ["gpu", "UUID"] {
        "The longest idle gap since the exporter started, including one that still lasts.",
        from "nvmlDeviceGetSamples GPU_UTILIZATION", by "gpu", series "1 per GPU", since "0.1.0",
        for "to see the longest pause of a job that should have none"
    }
    PROCESSES = Gauge None "goodput_gpu_processes" ["gpu", "UUID"] {
        "Processes with a context on the GPU.",
        from "nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses_v3", by "gpu", series "1 per GPU", since "0.1.0"
    }
    MPS_CLIENTS = Gauge None "goodput_gpu_mps_clients" ["gpu", "UUID"] {
        "Processes on the GPU that are clients of an MPS server.",
        from "nvmlDeviceGetMPSComputeRunningProcesses_v3", by "gpu", series "1 per GPU", since "0.1.0",
        for "to see how many clients share the GPU through MPS"
    }
    PROCESS_MEMORY = Gauge Bytes "goodput_gpu_process_memory_bytes" ["gpu", "UUID", "pid"] + ["GPU_I_ID"] {
        "Device memory of a process; of the 64 processes per GPU that use most.",
        from "nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses_v3", by "gpu", series "1 per GPU process, at most 64 per GPU", since "0.1.0"
    }
    RECOVERY_ACTION = Gauge None "goodput_gpu_recovery_action" ["gpu", "UUID"] {
        "Recovery action that the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.",
        from "NVML field 230", by "gpu", series "1 per GPU", since "0.1.0"
    }
    NVLINK_BYTES = Counter Bytes "goodput_gpu_nvlink_bytes_total" ["gpu", "UUID", "direction"] {
        "NVLink payload of all links since the driver was loaded; direction is rx or tx.",
        from "NVML fields 138 and 139", by "gpu", series "2 per GPU", since "0.1.0"
    }
    PCIE_ERRORS = Counter None "goodput_gpu_pcie_errors_total" ["gpu", "UUID", "error"] {
        "PCIe errors since the driver was loaded, by kind, and returns of the link from its low-power state.",
        from "NVML fields 169 and 173 to 183", by "gpu", series "12 per GPU", since "0.1.0"
    }
}
