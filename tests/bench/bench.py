#!/usr/bin/env python3
"""Goodput's exporter and its peers, in one run on one machine. docs/internals/benchmarks.md says what is compared.

Started by `make bench`, which builds and installs what it needs.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import programs as p
from measure import percentile
from kubelet import Kubelet
from node import Gpus, Idlers, Tree
from programs import Program
from report import show

# Our exporter answers scrapes within a second from one reading: further apart, each is a reading of its own.
PACE_SECONDS = 1.25
# After this many at that pace a program that learns it knows it.
WARM_UP_SCRAPES = 4
# At what interval background work and scrapes are added up: Prometheus' usual one for exporters of nodes.
INTERVAL_SECONDS = 15
# Adaptive readers find their rhythm meanwhile.
SETTLE_SECONDS = 10
BACKGROUND_SECONDS = 20
# Where a peer takes seconds for a scrape, there are fewer of them.
PACED_LIMIT_SECONDS = 120

# Our collectors, and node_exporter's that read the same files; it has nothing of the others. A pair counts where our
# exporter has the collector.
EQUAL = {
    "node": ["stat", "meminfo", "diskstats", "uname"],
    "numa": ["meminfo_numa"],
    "irq": ["interrupts", "softnet"],
    "swap": ["vmstat"],
    "pressure": ["pressure"],
    "cpu": ["cpu", "cpufreq", "loadavg"],
    "network": ["netdev", "netclass", "netstat", "infiniband"],
}

# GPUs, and how many MIG instances each is cut up into.
GPU_SCENARIOS = {
    "8 GPUs": (8, 0),
    "16 GPUs": (16, 0),
    "8 GPUs, 7 MIG instances each": (8, 7),
    "16 GPUs, 7 MIG instances each": (16, 7),
}

COUNTERS = """DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.
DCGM_FI_DEV_POWER_USAGE, gauge, Power.
DCGM_FI_DEV_GPU_UTIL, gauge, Utilization.
DCGM_FI_DEV_FB_USED, gauge, Memory.
DCGM_FI_DEV_SM_CLOCK, gauge, Clock.
"""

JOBS = [f"/system.slice/slurmstepd.scope/job_{n}" for n in range(8)]
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
PODS = [f"{BURSTABLE}{n:08x}_0000_4000_8000_{n:012x}.slice/cri-containerd-{n:064x}.scope" for n in range(200)]


class Bench:
    """One run: what was measured so far, and where."""

    def __init__(self, options, folder):
        self.scrapes, self.folder, self.rows, self.skipped = options.scrapes, folder, [], set()
        self.before = options.before
        self.names = set()

    def fresh(self):
        return Path(tempfile.mkdtemp(dir=self.folder))

    def gpu_programs(self, count, pids, instances):
        """Ours with the GPU half alone and whole, and the peers; each has a log of its own, so that calls are counted."""
        library = f"--nvml.library={p.FAKE_NVML}"
        half = [*switches(["gpu", "owner"]), library]
        wanted = [("goodput, GPU half", p.goodput, half), ("goodput, whole", p.goodput, [library])]
        for name, command in [(p.NVITOP, p.nvitop), (p.ALL_SMI, p.all_smi)]:
            if reason := p.missing(name):
                self.skipped.add(reason)
            else:
                wanted.append((name, command, []))
        for name, command, arguments in wanted:
            folder = self.fresh()
            gpus = Gpus(folder, count, pids, instances)
            yield Program(name, command, folder, gpus, arguments)

    def gpus(self):
        for scenario, (count, instances) in GPU_SCENARIOS.items():
            with Idlers(count * max(instances, 1)) as idlers:
                self.measure(scenario, list(self.gpu_programs(count, idlers.pids, instances)), back_to_back=200)

    def host_programs(self, paths, jobs):
        # No driver here, whatever the machine has.
        none = f"--nvml.library={self.folder}/none"
        reason = p.missing(p.NODE_EXPORTER)
        for name, pairs in self.sets():
            ours, theirs = switches(pairs), switches(name for names in pairs.values() for name in names)
            yield Program(f"goodput, {name}", p.goodput, self.fresh(), None, [*ours, none, *paths])
            if not reason:
                yield Program(f"node_exporter, {name}", p.node_exporter, self.fresh(), None, [*theirs, *paths])
        yield Program("goodput, defaults", p.goodput, self.fresh(), None, [none, *paths])
        if jobs:
            folder = self.fresh()
            library = f"--nvml.library={p.FAKE_NVML}"
            yield Program("goodput, defaults, 8 GPUs", p.goodput, folder, Gpus(folder, 8, jobs), [library, *paths])
        if reason:
            self.skipped.add(reason)
        else:
            yield Program("node_exporter, defaults", p.node_exporter, self.fresh(), None, paths)

    def sets(self):
        """Equal sets of collectors: all, and without the one table that grows with CPUs times interrupts."""
        equal = {name: theirs for name, theirs in EQUAL.items() if name in self.our_collectors()}
        yield "equal set", equal
        yield "without interrupts", {name: theirs for name, theirs in equal.items() if name != "irq"}

    def our_collectors(self):
        """What this exporter can collect, by its own samples."""
        if not self.names:
            program = Program("collectors", p.goodput, self.fresh(), None, [f"--nvml.library={self.folder}/none"])
            try:
                program.start()
                labels = program.scrapes.values("goodput_exporter_collector_duration_seconds")
            finally:
                program.stop()
            self.names = {label.split('"')[1] for label in labels} - {"attribution", "relay"}
        return self.names

    def host(self):
        self.measure("host, this machine", list(self.host_programs([], None)))
        tree = Tree(self.fresh(), JOBS)
        self.measure("host, 256 CPUs", list(self.host_programs(tree.arguments(), tree.pids)))

    def release(self):
        """The exporter and an earlier one, in turns, over the large node with all that our collectors look at."""
        if not self.before:
            self.skipped.add("an earlier release: --before BINARY names it")
            return
        tree, folder = Tree(self.fresh(), JOBS), self.fresh()
        tree.equip()
        arguments = [f"--nvml.library={p.FAKE_NVML}", *tree.arguments(), f"--path.rootfs={tree.root}"]
        programs = {"goodput": p.goodput, "goodput, before": lambda port, *rest: [self.before, *p.goodput(port, *rest)[1:]]}
        gpus = Gpus(folder, 8, tree.pids)
        running = [Program(name, command, self.fresh(), gpus, arguments) for name, command in programs.items()]
        self.measure("release, 256 CPUs, 8 GPUs", running)

    def collectors(self):
        """Our collectors alone over the large node, and none: what the exporter reads of itself and of owners."""
        tree, folder, running = Tree(self.fresh(), JOBS), self.fresh(), {}
        tree.equip()
        gpus = Gpus(folder, 8, tree.pids)
        paths = [f"--nvml.library={p.FAKE_NVML}", *tree.arguments(), f"--path.rootfs={tree.root}"]
        try:
            for name in ["none", *sorted(self.our_collectors())]:
                flags = switches([] if name == "none" else [name])
                running[name] = Program(name, p.goodput, self.fresh(), gpus, [*paths, *flags])
            for program in running.values():
                program.start()
            time.sleep(SETTLE_SECONDS)
            # What is read once in a while has been read then.
            for program in running.values():
                program.scrapes.once()
            before = {name: program.usage() for name, program in running.items()}
            durations = {name: [] for name in running}
            rounds = 10
            for _ in range(rounds):
                time.sleep(PACE_SECONDS)
                for name, program in running.items():
                    program.scrapes.once()
                    taken = program.scrapes.values("goodput_exporter_collector_duration_seconds")
                    durations[name].append(taken.get(f'{{collector="{name}"}}', 0.0) * 1e3)
            for name, program in running.items():
                after = program.usage()
                states = program.scrapes.values("goodput_exporter_collector_state")
                ended = [key.split('state="')[1].split('"')[0] for key, value in states.items() if value and f'"{name}"' in key]
                self.rows.append({
                    "scenario": "collector alone, 256 CPUs, 8 GPUs",
                    "program": name,
                    "duration_p50_ms": percentile(durations[name], 0.5),
                    "reads_per_scrape": (after.reads - before[name].reads) / rounds,
                    "read_kib_per_scrape": (after.read_bytes - before[name].read_bytes) / rounds / 1024,
                    "series": program.scrapes.series(),
                    "state": ended[0] if ended else None,
                })
        finally:
            for program in running.values():
                program.stop()

    def endurance(self):
        """Memory over 10,000 scrapes as fast as they go, one a second with a new reading, and over 1,000 times that the
        settings are read again."""
        scenario, tree, folder = "8 GPUs, 200 pods, 10,000 scrapes", Tree(self.fresh(), PODS), self.fresh()
        counters, socket = folder / "counters.csv", folder / "kubelet.sock"
        settings = [f"--dcgm.counters={counters}", f"--kubernetes.pod-resources-socket={socket}"]
        arguments = [f"--nvml.library={p.FAKE_NVML}", *settings, *tree.arguments()]
        program = Program("goodput, whole", p.goodput, folder, Gpus(folder, 8, tree.pids), arguments)
        counters.write_text(COUNTERS)
        # GPU by index, shared by 25 pods each.
        kubelet = Kubelet(socket, [(f"train-{n}", [str(n // 25)]) for n in range(200)])
        try:
            program.start()
            program.until("goodput_gpu_owner_allocated_devices", 200)
            row = {"scenario": scenario, "program": program.name, "rss_start_mib": program.resident_mib()}
            begun = time.monotonic()
            for n in range(10_000):
                if n == 5_000:
                    row["rss_middle_mib"] = program.resident_mib()
                program.scrapes.once()
            row["rss_mib"], row["seconds"] = program.resident_mib(), time.monotonic() - begun
            for n in range(1_000):
                # One field more or less, so that something changes each time.
                counters.write_text(COUNTERS if n % 2 else COUNTERS.rsplit("\n", 2)[0] + "\n")
                program.reload()
            row["rss_reloaded_mib"] = program.resident_mib()
            row["body_bytes"], row["series"] = len(program.scrapes.text), program.scrapes.series()
            row["p99_ms"] = percentile(program.scrapes.milliseconds, 0.99)
            self.rows.append(row)
        finally:
            program.stop()
            kubelet.stop()

    def wedged(self):
        """One GPU answers no call any more, once it has been read."""
        with Idlers(8) as idlers:
            folder = self.fresh()
            gpus = Gpus(folder, 8, idlers.pids)
            program = Program("goodput, whole", p.goodput, folder, gpus, [f"--nvml.library={p.FAKE_NVML}"])
            self.measure("8 GPUs, one hangs", [program], back_to_back=1000, hang=gpus)

    def measure(self, scenario, running, back_to_back=0, hang=None):
        """Background, then scrapes in turn at a pace, then as fast as they go; all programs in the same minutes."""
        note(f"{scenario}: {', '.join(program.name for program in running)}")
        try:
            rows = [{"scenario": scenario, "program": program.name} for program in running]
            for program in running:
                program.start()
            time.sleep(SETTLE_SECONDS)
            if hang:
                hang.append({"hang": {"gpu": 3}})
            self.background(running, rows)
            self.paced(running, rows)
            for program, row in zip(running, rows):
                if hang:
                    self.irregular(program, row)
                if back_to_back:
                    self.back_to_back(program, row, back_to_back)
                row["rss_mib"] = program.resident_mib()
            self.rows += rows
        finally:
            for program in running:
                program.stop()

    @staticmethod
    def background(running, rows):
        """Without scrapes."""
        before = {program: (program.usage(), program.gpus.called() if program.gpus else 0) for program in running}
        time.sleep(BACKGROUND_SECONDS)
        for program, row in zip(running, rows):
            usage, called = before[program]
            after = program.usage()
            row["background_ms_per_s"] = (after.cpu - usage.cpu) / (after.at - usage.at) * 1e3
            if program.gpus:
                row["nvml_calls_per_s"] = (program.gpus.called() - called) / (time.monotonic() - usage.at)

    def paced(self, running, rows):
        for _ in range(WARM_UP_SCRAPES):
            scrape_in_turn(running)
        for program in running:
            program.scrapes.forget()
        before, begun, count = [program.usage() for program in running], time.monotonic(), 0
        while count < self.scrapes and time.monotonic() - begun < PACED_LIMIT_SECONDS:
            scrape_in_turn(running)
            count += 1
        for program, row, was in zip(running, rows, before):
            now, latency = program.usage(), program.scrapes.milliseconds
            row["scrapes"] = count
            background = row["background_ms_per_s"] * (now.at - was.at)
            row["cpu_ms_per_scrape"] = max(0.0, (now.cpu - was.cpu) * 1e3 - background) / count
            row["cpu_ms_per_interval"] = row["cpu_ms_per_scrape"] + INTERVAL_SECONDS * row["background_ms_per_s"]
            row["p50_ms"], row["p99_ms"] = percentile(latency, 0.5), percentile(latency, 0.99)
            row["reads_per_scrape"] = (now.reads - was.reads) / count
            row["body_bytes"], row["wire_bytes"] = len(program.scrapes.text), program.scrapes.wire_bytes
            row["series"] = program.scrapes.series()

    def irregular(self, program, row):
        """At moments that nothing foretells, so that each scrape waits for its own reading."""
        program.scrapes.forget()
        for _ in range(self.scrapes):
            time.sleep(random.uniform(PACE_SECONDS, 2 * PACE_SECONDS))
            program.scrapes.once()
        latency = program.scrapes.milliseconds
        row["irregular_p50_ms"], row["irregular_p99_ms"] = percentile(latency, 0.5), percentile(latency, 0.99)

    @staticmethod
    def back_to_back(program, row, count):
        program.scrapes.forget()
        before = program.usage()
        for _ in range(count):
            program.scrapes.once()
        after, latency = program.usage(), program.scrapes.milliseconds
        spent = (after.cpu - before.cpu) * 1e3 - row["background_ms_per_s"] * (after.at - before.at)
        row["back_to_back_cpu_ms"] = max(0.0, spent) / count
        row["back_to_back_p50_ms"] = percentile(latency, 0.5)
        row["back_to_back_p99_ms"] = percentile(latency, 0.99)


def scrape_in_turn(running):
    time.sleep(PACE_SECONDS)
    for program in running:
        program.scrapes.once()


def switches(collectors):
    """Flags for exactly these collectors, the same for both exporters."""
    return ["--collector.disable-defaults", *(f"--collector.{name}" for name in collectors)]


def note(text):
    print(text, file=sys.stderr, flush=True)


def conditions():
    names = [p.EXPORTER, p.NODE_EXPORTER, p.NVITOP, p.ALL_SMI]
    load = Path("/proc/loadavg").read_text().split()[0]
    versions = {Path(name).name: p.version(name) for name in names if shutil.which(name)}
    return {"cpus": os.cpu_count(), "kernel": os.uname().release, "load1": float(load), "versions": versions}


def main():
    parts = ["gpus", "wedged", "host", "collectors", "endurance", "release"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}; all without")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--before", metavar="BINARY", help="goodput-exporter of an earlier release, for the part `release`")
    parser.add_argument("--scrapes", type=int, default=60, help="paced scrapes of each exporter (default: 60)")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part {', '.join(sorted(unknown))}; expected {', '.join(parts)}")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    about = conditions()
    with tempfile.TemporaryDirectory(prefix="goodput-bench.", dir=memory) as folder:
        bench = Bench(options, Path(folder))
        for part in options.parts or parts:
            getattr(bench, part)()
    show(bench.rows, bench.skipped, about, options.format == "json")


if __name__ == "__main__":
    main()
