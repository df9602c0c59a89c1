#!/usr/bin/env python3
"""The analyzer's store, Prometheus and VictoriaMetrics: the same remote-write bodies to each, one after the other.

Started by `make bench ARGS=store`, which builds and installs what it needs; docs/internals/benchmarks.md says what is compared.
Bodies are made before anything is measured; snappy is written as literals, which costs every receiver equally little.
"""

import argparse
import http.client
import json
import math
import os
import shutil
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

from measure import cpu_seconds, keyed
from node_model import Node, families

ROOT = Path(__file__).resolve().parents[2]
ANALYZER = os.environ.get("GOODPUT_ANALYZER", f"{ROOT}/target/release/goodput-analyzer")
STEP_SECONDS = 15
# Ours must give all it took to segments before it is weighed: what the head still holds after so long is written out.
HEAD_AGE_SECONDS = 20
PATIENCE_SECONDS = 180
HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# What is read back: a metric of 1,024 series on each node.
READ = "cpu_seconds"
# Nodes that all come at once: 884 series each, so that a thousand stay below the million that `store.max_series` allows,
# three samples of each, over as many connections as the analyzer takes from one address.
ARRIVING = {"cpus": 0, "links": 0, "nics": 2, "disks": 2}
ARRIVING_TICKS = 3
CONNECTIONS = 8
# What the limits of docs/use/store.md and docs/use/ingest.md sum up to: KiB per series, and head, queue, requests in work, a
# merge's three times `segment_bytes` and its 50 MiB.
BOUND_KIB_PER_SERIES = 1
BOUND_MIB = 64 + 32 + 256 + 3 * 32 + 50
# What an answer to a request promises, by the programs' own documents and flags.
DURABILITY = {
    "goodput": "in the write-ahead, fsync done",
    "prometheus": "in the write-ahead's page cache, no fsync",
    "victoria": "in memory, on disk within seconds",
}
# Figure, shape, against whom, and what ours must be of theirs at least (speed) or at most (bytes).
TARGETS = [
    ("samples_per_cpu_s", "batch", "victoria", 1.0, True),
    ("samples_per_cpu_s", "batch", "prometheus", 3.0, True),
    ("samples_per_cpu_s", "live", "victoria", 1.0, True),
    ("samples_per_cpu_s", "live", "prometheus", 3.0, True),
    ("bytes_per_sample", "batch", "victoria", 1.0, False),
]


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, content):
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def literals(content):
    """Snappy's block format without any copies."""
    pieces = [content[n:n + 65536] for n in range(0, len(content), 65536)]
    return varint(len(content)) + b"".join(b"\xf4" + struct.pack("<H", len(piece) - 1) + piece for piece in pieces)


def labels(name, pairs):
    named = sorted({"__name__": name, "job": "gpu", **pairs}.items())
    return b"".join(field(1, field(1, key.encode()) + field(2, value.encode())) for key, value in named)


def bodies(node, ticks, batch, end_ms):
    """Requests of one node: `batch` ticks of every series each."""
    heads = [labels(name, pairs) for name, pairs, _, _ in node.meta]
    for first in range(0, ticks, batch):
        times = [end_ms - (ticks - 1 - tick) * STEP_SECONDS * 1000 for tick in range(first, min(ticks, first + batch))]
        columns = [list(node.tick()) for _ in times]
        tails = [b"\x10" + varint(at) for at in times]
        series = []
        for number, head in enumerate(heads):
            points = (b"\x09" + struct.pack("<d", column[number]) + tail for column, tail in zip(columns, tails))
            series.append(field(1, head + b"".join(field(2, point) for point in points)))
        yield literals(b"".join(series))


class Server:
    """One of the three, in a folder of its own."""

    def __init__(self, name, folder, flags=(), program=(ANALYZER,)):
        self.name, self.folder, self.store, self.flags = name, folder, folder / "store", flags
        # Ours: the binary, and what runs it.
        self.program = program
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.child = None

    def command(self):
        address = f"127.0.0.1:{self.port}"
        if self.name == "goodput":
            config = self.folder / "config.yml"
            config.write_text(f"store: {{keep_unknown: true, head_age: {HEAD_AGE_SECONDS}s}}\n")
            flags = [f"--config.file={config}", f"--data.dir={self.store}", "--log.level=error"]
            return [*self.program, *flags, "serve", f"--web.listen-address={address}"], "/-/healthy"
        if self.name == "prometheus":
            config = self.folder / "config.yml"
            config.write_text("{}\n")
            flags = [f"--config.file={config}", f"--storage.tsdb.path={self.store}", "--log.level=error"]
            flags += ["--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=10y"]
            return ["prometheus", *flags, f"--web.listen-address={address}"], "/-/ready"
        flags = [f"-storageDataPath={self.store}", f"-httpListenAddr={address}", "-retentionPeriod=100y"]
        flags += ["-loggerLevel=ERROR", "-search.latencyOffset=0s", *self.flags]
        return ["victoria-metrics", *flags], "/health"

    def start(self):
        """Until it answers; how many seconds that took."""
        command, ready = self.command()
        begun = time.monotonic()
        with (self.folder / "log").open("w") as log:
            self.child = subprocess.Popen(command, stdout=log, stderr=log)
        while True:
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {(self.folder / 'log').read_text()[-2000:]}")
            try:
                self.get(ready)
                return time.monotonic() - begun
            except OSError:
                if time.monotonic() - begun > PATIENCE_SECONDS:
                    raise
                time.sleep(0.01)

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status // 100 != 2:
            raise OSError(f"{self.name}: {path} answered {response.status}")
        return body.decode()

    def push_all(self, connections):
        """The requests of each connection, on all of them at once."""
        failures = []

        def one(requests):
            try:
                self.push(requests)
            except Exception as error:  # told by the thread that waits
                failures.append(error)

        threads = [threading.Thread(target=one, args=(requests,)) for requests in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def push(self, requests):
        """All requests on one connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        for body in requests:
            connection.request("POST", "/api/v1/write", body=body, headers=HEADERS)
            response = connection.getresponse()
            answer = response.read()
            if response.status // 100 != 2:
                raise RuntimeError(f"{self.name} answered {response.status}: {answer[:200]!r}")
        connection.close()

    def settle(self):
        """Until all is in the files that stay."""
        if self.name == "victoria":
            self.get("/internal/force_flush")
            self.get("/internal/force_merge")
        quiet, last, deadline = 0, None, time.monotonic() + PATIENCE_SECONDS
        while quiet < 3 and time.monotonic() < deadline:
            time.sleep(2)
            now = self.unsettled()
            quiet, last = (quiet + 1 if now == last and not now[0] else 0), now

    def unsettled(self):
        """How much is still to be written as far as it can be known, and what would change."""
        if self.name == "goodput":
            with sqlite3.connect(f"file:{self.store}/goodput.db?mode=ro", uri=True) as database:
                return database.execute("SELECT count(*) FROM write_ahead").fetchone()[0], size(self.store)
        return 0, size(self.store)

    def stored(self, end_ms, hours):
        """Samples that can be read, by the server's own account."""
        if self.name == "goodput":
            lines = self.get("/metrics").splitlines()
            return sum(int(line.rsplit(" ", 1)[1]) for line in lines if 'samples_total{outcome="stored"}' in line)
        total = 0
        for metric in sorted({name for name, _, _, _ in families()}):
            # A function over time drops the name, so names may not be mixed.
            query = f'sum(count_over_time({metric}{{job="gpu"}}[{int(hours * 60) + 30}m]))'
            found = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": query, "time": end_ms / 1000}))
            result = json.loads(found)["data"]["result"]
            total += int(float(result[0]["value"][1])) if result else 0
        return total

    def read(self, metric, end_ms, hours):
        """All raw samples of a metric: how many, and the seconds and CPU seconds it took. Ours is the `export` command, a
        process of its own that also opens the directory, and writes Parquet; theirs answer over HTTP, in JSON."""
        start, end = end_ms // 1000 - int(hours * 3600), end_ms // 1000 + 1
        begun, cpu = time.monotonic(), cpu_seconds(self.child.pid)
        if self.name == "goodput":
            first, last = (time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(at)) for at in (start, end + 3600))
            command = [ANALYZER, f"--data.dir={self.store}", "--log.level=error", "export", f"--metric={metric}"]
            command += [f"--start={first}", f"--end={last}", f"--out={self.folder}/read.parquet"]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            said = child.stdout.read()
            _, status, usage = os.wait4(child.pid, 0)
            if status:
                raise RuntimeError(f"{command} ended with {status}")
            return int(said.split()[0]), time.monotonic() - begun, usage.ru_utime + usage.ru_stime
        if self.name == "prometheus":
            path = "query?" + urllib.parse.urlencode({"query": f"{metric}[{end - start + 60}s]", "time": end})
        else:
            path = "export?" + urllib.parse.urlencode({"match[]": metric, "start": start - 60, "end": end})
        found = self.get("/api/v1/" + path)
        wall, used = time.monotonic() - begun, cpu_seconds(self.child.pid) - cpu
        series = json.loads(found)["data"]["result"] if self.name == "prometheus" else map(json.loads, found.splitlines())
        return sum(len(one["values"]) for one in series), wall, used

    def data_bytes(self):
        """Samples alone: segments, blocks, parts; not what finds them, nor the write-ahead."""
        if self.name == "goodput":
            return size(self.store / "segments")
        if self.name == "victoria":
            return size(self.store / "data")
        return sum(size(block) for block in self.store.iterdir() if len(block.name) == 26)


def size(folder):
    """Bytes of all files; one may go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            pass
    return total


def measure(name, shape, nodes, connections, samples, end_ms, hours):
    with tempfile.TemporaryDirectory(prefix="goodput-store.") as folder:
        server = Server(name, Path(folder))
        try:
            server.start()
            time.sleep(1)
            cpu, begun = cpu_seconds(server.child.pid), time.monotonic()
            server.push_all(connections)
            wall, used = time.monotonic() - begun, cpu_seconds(server.child.pid) - cpu
            server.settle()
            peak = keyed(server.child.pid, "status")["VmHWM"] / 1024
            stored = server.stored(end_ms, hours)
            read, read_wall, read_cpu = server.read(READ, end_ms, hours) if shape != "arriving" else (0, 0, 0)
            data, everything = server.data_bytes(), size(server.store)
            server.stop()
            opened = server.start()
        finally:
            server.stop()
    return {
        "shape": shape,
        "nodes": nodes,
        "server": name,
        "samples": samples,
        "stored": stored,
        "samples_per_s": samples / wall,
        # Until the last answer: what is flushed and merged later is not in it.
        "samples_per_cpu_s": samples / used,
        "bytes_per_sample": data / samples,
        "all_bytes_per_sample": everything / samples,
        # Until all is written, before anything is read.
        "peak_rss_mib": peak,
        "open_s": opened,
        "read": read,
        "read_s": read_wall,
        "read_cpu_s": read_cpu,
        "load1": os.getloadavg()[0],
    }


def verdicts(rows):
    first = min(row["nodes"] for row in rows)
    of = {(row["shape"], row["server"]): row for row in rows if row["nodes"] == first or row["shape"] == "arriving"}
    for figure, shape, peer, target, at_least in TARGETS:
        ours, theirs = of.get((shape, "goodput")), of.get((shape, peer))
        if ours and theirs and theirs[figure]:
            ratio = ours[figure] / theirs[figure]
            met = ratio >= target if at_least else ratio <= target
            yield {"figure": figure, "shape": shape, "against": peer, "ratio": ratio, "target": target, "met": met}
    for row in rows:
        before = of.get((row["shape"], row["server"]))
        if row["shape"] != "arriving" and row["nodes"] > first:
            # 1 is linear: twice the samples take twice the CPU time.
            cpu = (row["samples"] / row["samples_per_cpu_s"]) / (before["samples"] / before["samples_per_cpu_s"])
            slope = math.log(cpu) / math.log(row["samples"] / before["samples"])
            yield {"figure": "slope", **{key: row[key] for key in ("shape", "server", "nodes")}, "slope": slope}
    if arriving := of.get(("arriving", "goodput")):
        bound = BOUND_MIB + arriving["samples"] / ARRIVING_TICKS * BOUND_KIB_PER_SERIES / 1024
        peak = arriving["peak_rss_mib"]
        yield {"figure": "peak_rss_mib", "shape": "arriving", "value": peak, "target": bound, "met": peak <= bound}


def shapes(options, end_ms):
    """Name, nodes, the requests of each connection, samples and hours of everything that is sent."""
    for count in map(int, options.nodes.split(",")):
        for shape, ticks, batch in [("batch", int(options.hours * 3600 / STEP_SECONDS), 10), ("live", options.ticks, 1)]:
            nodes = [Node(f"node-{n}") for n in range(count)]
            samples = sum(len(node) for node in nodes) * ticks
            turns = zip(*(bodies(node, ticks, batch, end_ms) for node in nodes))
            yield shape, count, [[body for turn in turns for body in turn]], samples, ticks * STEP_SECONDS / 3600
    if options.arriving:
        own, samples = [], 0
        for node in (Node(f"node-{n}", **ARRIVING) for n in range(options.arriving)):
            own.append(list(bodies(node, ARRIVING_TICKS, 1, end_ms)))
            samples += len(node) * ARRIVING_TICKS
        connections = [[body for turn in zip(*own[n::CONNECTIONS]) for body in turn] for n in range(CONNECTIONS)]
        yield "arriving", options.arriving, connections, samples, ARRIVING_TICKS * STEP_SECONDS / 3600


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=6, help="of the batch shape (default: 6)")
    parser.add_argument("--ticks", type=int, default=120, help="of the live shape (default: 120)")
    parser.add_argument("--nodes", default="1", help="how many; 1,4,16 gives the slope (default: 1)")
    parser.add_argument("--arriving", type=int, default=0, help="smaller nodes that all come at once (default: 0)")
    parser.add_argument("--servers", default="goodput,prometheus,victoria")
    options = parser.parse_args()
    programs = {"goodput": ANALYZER, "prometheus": "prometheus", "victoria": "victoria-metrics"}
    servers = [name for name in options.servers.split(",") if shutil.which(programs[name])]
    end_ms = int(time.time()) // STEP_SECONDS * STEP_SECONDS * 1000
    rows = []
    for shape, nodes, connections, samples, hours in shapes(options, end_ms):
        for name in servers:
            rows.append(measure(name, shape, nodes, connections, samples, end_ms, hours))
            print(json.dumps({"measured": rows[-1], "durability": DURABILITY[name]}), flush=True)
    for verdict in verdicts(rows):
        print(json.dumps({"verdict": verdict}))
    if any(row["stored"] != row["samples"] for row in rows):
        raise SystemExit("a server did not store every sample")


if __name__ == "__main__":
    main()
