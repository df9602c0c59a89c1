#!/usr/bin/env python3
"""What a sample costs the analyzer's ingest: instructions, CPU time and fsyncs, against an older release.

Started by `make bench ARGS="ingest --against BINARY"`, which builds and installs what it needs; docs/internals/benchmarks.md says how
the figures are made.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import store
from measure import cpu_seconds
from node_model import Node
from store import ANALYZER, Server, bodies

# Ticks of every series: those that create the series and fill caches, and those that are counted.
WARM_TICKS = 2
SHAPES = {"live": 1, "batch": 20}
INSTRUCTION_TICKS = {"live": 20, "batch": 60}
CPU_TICKS = {"live": 120, "batch": 480}
# Which ratio to the older release is too much.
MOST = {"instructions": 1.03, "cpu": 1.10}
CALLGRIND = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=no"]
# A process that takes less CPU time in a second is idle.
IDLE_SECONDS = 0.03
PATIENCE_SECONDS = 60
# No flush within a run: its cost depends on when it comes.
HEAD_AGE_SECONDS = 3600


def requests(ticks, batch, end_ms):
    """What creates the series, and what is measured."""
    node = Node("node0")
    warm = list(bodies(node, WARM_TICKS, 1, end_ms - ticks * store.STEP_SECONDS * 1000))
    return warm, list(bodies(node, ticks, batch, end_ms))


def instructions(binary, shape, end_ms):
    """Instructions of the whole process for each sample, in one run under callgrind."""
    ticks = INSTRUCTION_TICKS[shape]
    warm, measured = requests(ticks, SHAPES[shape], end_ms)
    with tempfile.TemporaryDirectory(prefix="goodput-ingest.") as folder:
        out = Path(folder) / "callgrind"
        server = Server("goodput", Path(folder), program=[*CALLGRIND, f"--callgrind-out-file={out}", binary])
        server.start()
        try:
            server.push(warm)
            wait_until_idle(server)
            control(server, "-i", "on")
            server.push(measured)
            control(server, "-i", "off")
        finally:
            server.stop()
        # Parts that a control request dumped, and the rest.
        texts = [part.read_text() for part in Path(folder).glob("callgrind*")]
        found = [int(total[1]) for text in texts if (total := re.search(r"^totals: (\d+)", text, re.M))]
        return sum(found) / (ticks * len(Node("node0").meta))


def wait_until_idle(server):
    """Judging runs at the start and once a minute, and is no part of ingest: what is measured begins when it is over."""
    quiet, last = 0, cpu_seconds(server.child.pid)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(1)
        now = cpu_seconds(server.child.pid)
        quiet, last = (quiet + 1 if now - last < IDLE_SECONDS else 0), now


def control(server, *how):
    command = ["callgrind_control", *how, str(server.child.pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu(binary, shape, end_ms):
    """CPU microseconds of a sample."""
    ticks = CPU_TICKS[shape]
    warm, measured = requests(ticks, SHAPES[shape], end_ms)
    with tempfile.TemporaryDirectory(prefix="goodput-ingest.") as folder:
        server = Server("goodput", Path(folder), program=[binary])
        server.start()
        try:
            server.push(warm)
            wait_until_idle(server)
            before = cpu_seconds(server.child.pid)
            server.push(measured)
            used = cpu_seconds(server.child.pid) - before
        finally:
            server.stop()
        return used * 1e6 / (ticks * len(Node("node0").meta))


def fsyncs(binary, end_ms):
    """fsync and fdatasync calls of a request that is one commit."""
    ticks = 50
    warm, measured = requests(ticks, 1, end_ms)
    counts = []
    for sent in (warm, warm + measured):
        with tempfile.TemporaryDirectory(prefix="goodput-ingest.") as folder:
            trace = Path(folder) / "trace"
            # -D: the child is the program, and strace ends after it.
            program = ["strace", "-D", "-f", "-e", "trace=fsync,fdatasync", "-o", str(trace), binary]
            server = Server("goodput", Path(folder), program=program)
            server.start()
            try:
                server.push(sent)
            finally:
                server.stop()
            while f"{server.child.pid} +++ exited" not in trace.read_text():
                time.sleep(0.05)
            # A call that another thread interrupts in the trace has a second line, without a bracket.
            counts.append(len(re.findall(r" f(?:data)?sync\(", trace.read_text())))
    return (counts[1] - counts[0]) / len(measured)


def compared(what, shape, figures):
    """A line of the table: each binary's figure, and the first one's ratio to the last. Is the ratio fine?"""
    ratio = figures[0] / figures[-1]
    shown = "  ".join(f"{figure:12.2f}" for figure in figures)
    print(f"{what:<24} {shape:<6} {shown}  {ratio:8.3f}", flush=True)
    return ratio <= MOST.get(what.split()[0], float("inf"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="BINARY", help="goodput-analyzer of an earlier release")
    parser.add_argument("--runs", type=int, default=3, help="runs under callgrind; the least counts")
    parser.add_argument("--turns", type=int, default=5, help="runs for CPU time, the binaries in turns; the median counts")
    parser.add_argument("--parts", default="instructions,cpu,fsyncs")
    args = parser.parse_args()
    store.HEAD_AGE_SECONDS = HEAD_AGE_SECONDS
    binaries = [ANALYZER, *([args.against] if args.against else [])]
    parts = args.parts.split(",")
    end_ms = int(time.time()) * 1000 // 15_000 * 15_000
    print(f"{'':<24} {'':<6} " + "  ".join(f"{Path(binary).name[-12:]:>12}" for binary in binaries) + "     ratio")
    fine = True
    for shape in SHAPES:
        if "instructions" in parts:
            figures = [min(instructions(binary, shape, end_ms) for _ in range(args.runs)) for binary in binaries]
            fine &= compared("instructions a sample", shape, figures)
        if "cpu" in parts:
            turns = [[cpu(binary, shape, end_ms) for binary in binaries] for _ in range(args.turns)]
            fine &= compared("cpu us a sample", shape, [statistics.median(column) for column in zip(*turns)])
    if "fsyncs" in parts:
        compared("fsyncs a commit", "live", [fsyncs(binary, end_ms) for binary in binaries])
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
