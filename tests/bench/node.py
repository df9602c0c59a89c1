"""The machines that are measured on: fake GPUs, and a large node's kernel files."""

import json
import os
import subprocess
import time
from pathlib import Path

CPUS, IRQS, TASKS, NODES = 256, 2000, 4000, 2
# The number of an H100's first instance of a seventh.
FIRST_INSTANCE = 7
# Tasks of a job that are threads of its GPU process.
THREADS = 64

# Files about the whole kernel whose size does not depend on the machine: taken from the one that this runs on, so that
# either program finds what it looks for.
COPIED = """
meminfo vmstat swaps loadavg uptime version mounts filesystems buddyinfo zoneinfo mdstat cpuinfo
net/dev net/netstat net/snmp net/snmp6 net/sockstat net/sockstat6 net/udp net/udp6 net/arp net/protocols
pressure/cpu pressure/io pressure/memory
sys/fs/file-nr sys/kernel/hostname sys/kernel/osrelease sys/kernel/numa_balancing sys/kernel/random/entropy_avail
sys/kernel/random/poolsize sys/vm/swappiness sys/vm/compaction_proactiveness
""".split()

# What a port of an mlx5 counts of its link and of the transport.
RDMA_COUNTERS = """
port_rcv_data port_xmit_data port_xmit_wait symbol_error link_error_recovery link_downed port_rcv_errors
port_rcv_remote_physical_errors port_xmit_discards local_link_integrity_errors excessive_buffer_overrun_errors
""".split()
RDMA_TRANSPORT = (
    "implied_nak_seq_err local_ack_timeout_err out_of_buffer out_of_sequence packet_seq_err req_rnr_retries_exceeded "
    "req_transport_retries_exceeded rnr_nak_retry_err roce_adp_retrans roce_adp_retrans_to roce_slow_restart"
).split()

# What a process shows about itself; copied from this one, as far as its kernel has it.
OF_PROCESS = "stat status io limits comm schedstat oom_score oom_score_adj smaps_rollup".split()
OWN = {name: Path("/proc/self", name).read_text() for name in OF_PROCESS if os.access(f"/proc/self/{name}", os.R_OK)}


class Gpus:
    """The event log of the fake NVML (its lines are told in the crate `fake-nvml`), as one program sees it."""

    def __init__(self, folder, count, pids, instances=0):
        self.log, self.calls = folder / "gpus.jsonl", folder / "calls.json"
        at = int(time.time() * 1e6)
        slots = [{"pci": f"0000:{0x10 + 8 * n:02x}:00.0", "numa": 2 * n // count} for n in range(count)]
        self.append({"node": {"model": "NVIDIA H100 80GB HBM3", "count": count, "loaded_us": at, "gpus": slots}})
        layout = [{"id": FIRST_INSTANCE + n, "profile": "1g.10gb"} for n in range(instances)]
        for gpu in range(count if instances else 0):
            self.append({"mig": {"gpu": gpu, "instances": layout}})
        # Processes spread over the GPUs, or over their instances; the first of each works.
        places = [{"gpu": gpu} | ({"instance": one["id"]} if one else {}) for gpu in range(count) for one in layout or [None]]
        for n, pid in enumerate(pids):
            place = places[n * len(places) // len(pids)]
            self.append({"process": place | {"pid": pid, "used_bytes": 1 << 30}})
        # Busy: readers that adapt read the most then.
        for n, place in enumerate(places):
            work = {"pid": pids[n * len(pids) // len(places)], "load": {"gpu": 80, "memory": 30, "sm": 60, "pcie_rx": 2e9}}
            self.append({"start": place | {"id": str(n), "at_us": at} | work})

    def append(self, line):
        with self.log.open("a") as log:
            log.write(json.dumps(line) + "\n")

    def env(self):
        return {"FAKE_NVML": str(self.log), "FAKE_NVML_CALLS": str(self.calls)}

    def called(self):
        """NVML calls of the program so far: it writes them down at its next one."""
        self.calls.unlink(missing_ok=True)
        self.append({"count": {}})
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                return sum(json.loads(self.calls.read_text()).values())
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.01)
        raise RuntimeError(f"nothing called NVML: no {self.calls}")


class Idlers:
    """Processes that do nothing, for programs that look up the processes of GPUs on this machine."""

    def __init__(self, count):
        self.children = [subprocess.Popen(["sleep", "3600"]) for _ in range(count)]
        self.pids = [child.pid for child in self.children]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()


class Tree:
    """Kernel files of a node: two sockets, 256 CPUs, 2,000 interrupts, and 4,000 tasks spread over these cgroups."""

    def __init__(self, root, groups):
        self.root, self.groups = root, groups
        self.pids = [1000 + n * (TASKS // len(groups)) for n in range(len(groups))]
        for path in COPIED:
            source = Path("/proc", path)
            if source.exists():
                self.write(f"proc/{path}", source.read_text())
        self.write("proc/1/mounts", Path("/proc/mounts").read_text())
        self.processors()
        self.interrupts()
        self.numa_nodes()
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        for pid, group in zip(self.pids, groups):
            self.control_group(group)
            for n in range(TASKS // len(groups)):
                self.task(pid + n, pid, group)
            for n in range(1, min(THREADS, TASKS // len(groups))):
                self.write(f"proc/{pid}/task/{pid + n}/stat", self.stat(pid + n, pid))

    def arguments(self):
        """For our exporter and for node_exporter alike."""
        return [f"--path.procfs={self.root}/proc", f"--path.sysfs={self.root}/sys"]

    def equip(self):
        """What else our collectors look at on a GPU node, so that none of them is measured with nothing to read."""
        self.driver()
        self.kubelet()
        self.links()
        self.power()
        self.storage()

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def processors(self):
        ticks = "182736455 2233 9182736 8827364551 77233 0 128834 0 0 0"
        rows = per_cpu(lambda cpu: f"cpu{cpu} {ticks}")
        counts = "ctxt 9\nbtime 1760000000\nprocesses 9\nprocs_running 9\nprocs_blocked 0\n"
        self.write("proc/stat", f"cpu  {ticks}\n{rows}intr 1{' 0' * IRQS}\n{counts}softirq 1{' 0' * 10}\n")
        rows = per_cpu(lambda cpu: f"cpu{cpu} 0 0 0 0 0 0 9{cpu} 8{cpu} 7")
        self.write("proc/schedstat", f"version 15\ntimestamp 4\n{rows}")
        zeros = " 00000000" * 9
        rows = per_cpu(lambda cpu: f"0098ab3c 00000000 00000012{zeros} {cpu:08x} 00000000 00000000")
        self.write("proc/net/softnet_stat", rows)
        kinds = "HI TIMER NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU".split()
        self.write("proc/softirqs", table([(kind, "") for kind in kinds]))
        for cpu in range(CPUS):
            folder, package = f"sys/devices/system/cpu/cpu{cpu}", cpu * NODES // CPUS
            self.write(f"{folder}/topology/physical_package_id", f"{package}\n")
            self.write(f"{folder}/topology/core_id", f"{cpu % 64}\n")
            self.write(f"{folder}/topology/thread_siblings_list", f"{cpu}\n")
            self.write(f"{folder}/thermal_throttle/core_throttle_count", "0\n")
            self.write(f"{folder}/thermal_throttle/package_throttle_count", "0\n")
            for name, value in {"cur": 3_000_000, "min": 800_000, "max": 3_800_000}.items():
                self.write(f"{folder}/cpufreq/scaling_{name}_freq", f"{value}\n")
                self.write(f"{folder}/cpufreq/cpuinfo_{name}_freq", f"{value}\n")
            self.write(f"{folder}/cpufreq/scaling_governor", "performance\n")
        self.write("sys/devices/system/cpu/online", f"0-{CPUS - 1}\n")
        self.write("sys/devices/system/cpu/possible", f"0-{CPUS - 1}\n")

    def interrupts(self):
        """One per GPU, and a queue per CPU and device for NICs and disks until the number is full."""
        devices = [(f"{0x10 + 8 * n:02x}:00.0", "0x030200", n // 4) for n in range(8)]
        devices += [(f"{0x12 + 8 * n:02x}:00.0", "0x020000", n // 4) for n in range(10)]
        devices += [(f"{0x14 + 8 * n:02x}:00.0", "0x010802", n // 6) for n in range(12)]
        for address, code, node in devices:
            folder = f"sys/bus/pci/devices/0000:{address}"
            files = {"class": code, "vendor": "0x10de", "numa_node": node, "local_cpulist": span(node)}
            for name, text in files.items():
                self.write(f"{folder}/{name}", f"{text}\n")
        owners = [devices[n if n < 8 else 8 + n % 22][0] for n in range(IRQS)]
        names = [f"IR-PCI-MSIX-0000:{owner}  {n}-edge  queue-{n}" for n, owner in enumerate(owners)]
        self.write("proc/interrupts", table([(str(24 + n), name) for n, name in enumerate(names)]))
        disks = [f" 259 {n} nvme{n}n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n" for n in range(12)]
        self.write("proc/diskstats", "".join(disks))
        for n in range(12):
            self.write(f"sys/block/nvme{n}n1/size", "7501476528\n")

    def numa_nodes(self):
        rows = "MemTotal MemFree MemUsed Active Inactive Dirty FilePages AnonPages Shmem".split()
        for node in range(NODES):
            folder = f"sys/devices/system/node/node{node}"
            self.write(f"{folder}/meminfo", "".join(f"Node {node} {row}: 1000000 kB\n" for row in rows))
            keys = "numa_hit numa_miss numa_foreign interleave_hit local_node other_node".split()
            self.write(f"{folder}/numastat", "".join(f"{key} 123456789\n" for key in keys))
            self.write(f"{folder}/cpulist", span(node) + "\n")
            self.write(f"{folder}/distance", " ".join("10" if node == to else "21" for to in range(NODES)) + "\n")
        for name in ["online", "possible", "has_cpu", "has_memory"]:
            self.write(f"sys/devices/system/node/{name}", f"0-{NODES - 1}\n")
        huge = "sys/kernel/mm/transparent_hugepage"
        self.write(f"{huge}/enabled", "always [madvise] never\n")
        self.write(f"{huge}/defrag", "always defer defer+madvise [madvise] never\n")
        for size in ["2048kB", "1048576kB"]:
            for name in ["nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages"]:
                self.write(f"sys/kernel/mm/hugepages/hugepages-{size}/{name}", "0\n")

    def control_group(self, group):
        averages = "avg10=0.00 avg60=0.00 avg300=0.00 total=1"
        pressure = f"some {averages}\nfull {averages}\n"
        stat = "anon file kernel shmem anon_thp inactive_file active_file pgfault pgmajfault"
        stat += " workingset_refault_anon workingset_refault_file"
        on_nodes = " ".join(f"N{node}=4096000" for node in range(NODES))
        files = {
            "cpu.stat": "usage_usec 9\nuser_usec 8\nsystem_usec 1\nnr_periods 5\nnr_throttled 1\nthrottled_usec 7\n",
            "cpu.max": "1600000 100000\n",
            "cpuset.cpus.effective": f"0-{CPUS - 1}\n",
            "memory.current": "8192000\n",
            "memory.max": "68719476736\n",
            "memory.high": "max\n",
            "memory.swap.current": "0\n",
            "memory.stat": "".join(f"{key} 4096000\n" for key in stat.split()),
            "memory.events": "low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n",
            "memory.numa_stat": "".join(f"{key} {on_nodes}\n" for key in ["anon", "file", "shmem"]),
            "io.stat": "259:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
            "pids.current": "500\n",
            "cpu.pressure": pressure,
            "memory.pressure": pressure,
            "io.pressure": pressure,
        }
        for name, text in files.items():
            self.write(f"sys/fs/cgroup{group}/{name}", text)

    def driver(self):
        folder = "proc/driver/nvidia"
        self.write(f"{folder}/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  Release Build\n")
        names = "EnableGpuFirmware EnableMSI EnablePCIERelaxedOrderingMode NvLinkDisable DynamicPowerManagement".split()
        self.write(f"{folder}/params", "".join(f"{name}: 1\n" for name in names))
        for n in range(8):
            information = "GPU Firmware: 580.105.08\nGPU Excluded: No\n"
            self.write(f"{folder}/gpus/0000:{0x10 + 8 * n:02x}:00.0/information", information)
        self.write("proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 nvidia_uvm, Live 0x0\n")
        self.write("proc/2/comm", "kthreadd\n")
        self.write("proc/3/comm", "irqbalance\n")
        self.write("etc/default/irqbalance", "#IRQBALANCE_BANNED_CPUS=\nIRQBALANCE_ARGS=\n")

    def kubelet(self):
        folder = "var/lib/kubelet"
        policies = "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\ntopologyManagerPolicy: restricted\n"
        self.write(f"{folder}/config.yaml", f"kind: KubeletConfiguration\n{policies}reservedSystemCPUs: 0-1\n")
        cpus = {"policyName": "static", "defaultCpuSet": "0-127", "entries": {"uid": {"train": "128-255"}}}
        self.write(f"{folder}/cpu_manager_state", json.dumps(cpus))
        blocks = [{"numaAffinity": [node], "type": "memory", "size": 1 << 36} for node in range(NODES)]
        self.write(f"{folder}/memory_manager_state", json.dumps({"policyName": "Static", "entries": {"uid": {"a": blocks}}}))

    def links(self):
        """Ten interfaces, eight of them with an RDMA port."""
        for n in range(10):
            address = f"0000:{0x12 + 8 * n:02x}:00.0"
            interface, port = f"sys/class/net/eth{n}", f"sys/class/infiniband/mlx5_{n}"
            for name, text in {"operstate": "up", "speed": "400000", "mtu": "9000", "carrier_changes": "1"}.items():
                self.write(f"{interface}/{name}", f"{text}\n")
            self.link(f"{interface}/device", f"sys/bus/pci/devices/{address}")
            if n >= 8:
                continue
            for name, text in {"link_layer": "InfiniBand", "state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)"}.items():
                self.write(f"{port}/ports/1/{name}", f"{text}\n")
            for name in RDMA_COUNTERS:
                self.write(f"{port}/ports/1/counters/{name}", "123456\n")
            for name in RDMA_TRANSPORT:
                self.write(f"{port}/ports/1/hw_counters/{name}", "12\n")
            self.link(f"{port}/device", f"sys/bus/pci/devices/{address}")
        columns = " 1" * 16
        self.write("proc/net/dev", "".join(f"  eth{n}:{columns}\n" for n in range(10)))

    def power(self):
        for cpu in range(CPUS):
            policy = f"sys/devices/system/cpu/cpufreq/policy{cpu}"
            files = {"scaling_governor": "performance", "cpuinfo_max_freq": 3_800_000, "affected_cpus": cpu}
            for name, text in files.items():
                self.write(f"{policy}/{name}", f"{text}\n")
            for state, name in enumerate("POLL C1 C1E C6".split()):
                folder = f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}"
                self.write(f"{folder}/name", f"{name}\n")
                self.write(f"{folder}/time", "123456789\n")

    def storage(self):
        operations = "".join(f"\t{name}: 9 9 0 900 900 1 8 9\n" for name in "READ WRITE GETATTR LOOKUP OPEN".split())
        mount = "device nas:/data mounted on /data with fstype nfs4 statvers=1.1\n\tbytes: 1 2 3 4 5 6 7 8\n"
        self.write("proc/1/mountstats", f"{mount}\tper-op statistics\n{operations}")
        calls = "".join(f"{name} 4000 samples [bytes] 4096 4194304 8388608000\n" for name in ["read_bytes", "write_bytes"])
        self.write("proc/fs/lustre/llite/scratch-0/stats", f"snapshot_time 1760000000.1 secs.nsecs\n{calls}")
        self.write("proc/1/mountinfo", "24 1 259:0 / / rw shared:1 - xfs /dev/nvme0n1 rw\n")
        self.write("sys/dev/block/259:0/uevent", "DEVNAME=nvme0n1\n")
        for pid in self.pids:
            layer = f"rw,lowerdir=/l,upperdir=/var/lib/containerd/{pid}/fs,workdir=/w"
            self.write(f"proc/{pid}/mountinfo", f"90 80 0:55 / / rw - overlay overlay {layer}\n")

    def link(self, path, target):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.root / target)

    def task(self, pid, leader, group):
        for name, text in OWN.items():
            self.write(f"proc/{pid}/{name}", text)
        self.write(f"proc/{pid}/stat", self.stat(pid, 1 if pid == leader else leader))
        self.write(f"proc/{pid}/cgroup", f"0::{group}\n")

    @staticmethod
    def stat(pid, parent):
        """This process's own line under another number and parent."""
        state, _, rest = OWN["stat"].rsplit(") ", 1)[1].split(" ", 2)
        return f"{pid} (python3) {state} {parent} {rest}"


def span(node):
    """The CPUs of a NUMA node."""
    each = CPUS // NODES
    return f"{node * each}-{(node + 1) * each - 1}"


def per_cpu(line):
    """A line for each CPU."""
    return "".join(line(cpu) + "\n" for cpu in range(CPUS))


def table(rows):
    """A row per name and a column per CPU, laid out as the kernel does."""
    counts = "".join(f"{1_000_000 + cpu:>11}" for cpu in range(CPUS))
    head = "    " + "".join(f"{'CPU' + str(cpu):>11}" for cpu in range(CPUS))
    return head + "\n" + "".join(f"{name:>4}:{counts}  {description}\n" for name, description in rows)
