"""A fleet of 8-GPU nodes: days of single nodes, which the lab simulates (`goodput-lab --days`), multiplied to as many nodes as
are asked for. What the lab does not tell, as no rule reads it, comes from `node_model.py`, up to 60 series for each GPU and 120
for each node.
"""

import struct
from array import array
from bisect import bisect_left
from pathlib import Path

from node_model import Node
from store import field, labels, literals, varint

GPUS = 8
SERIES_PER_GPU, SERIES_PER_NODE = 60, 120
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
# goodput-lab's days begin then: tests/lab/src/families/day.rs.
LAB_START_MS = 1_789_948_800_000
STALE = struct.unpack("<d", bytes.fromhex("020000000000f07f"))[0]
# How many nodes a run of a job has: those of one day, in turn. What they do is the same in the same moment, as of ranks in step.
RUN_NODES = [1, 1, 2, 4]
SHAPE = {"gpus": GPUS, "cpus": 2, "links": 0, "numa": 1, "nics": 2, "disks": 2}


class Day:
    """One node for a day: series by metric and labels, each with its times since midnight and its values."""

    def __init__(self, path, number, minutes):
        self.series = {}
        for line in (Path(path) / "metrics.om").open():
            if line.startswith("#"):
                continue
            head, value, at = line.rsplit(" ", 2)
            times, values = self.series.setdefault(head, (array("q"), array("d")))
            times.append(round(float(at) * 1000) - LAB_START_MS)
            values.append(STALE if value == "NaN" else float(value))
        self.times = sorted({at for times, _ in self.series.values() for at in times})
        self.series = [(*parsed(head), *points) for head, points in self.series.items()]
        self.fill(number)
        self.ends = minutes * 60_000

    def fill(self, number):
        """Series that no rule reads."""
        node = Node(f"day-{number}", **SHAPE)
        of_gpus = sum("UUID" in pairs for _, pairs, _, _ in self.series)
        lacking = {True: SERIES_PER_GPU * GPUS - of_gpus, False: SERIES_PER_NODE - len(self.series) + of_gpus}
        # Those of all GPUs in turn, and such as move first.
        order = sorted(range(len(node.meta)), key=lambda n: node.meta[n][2] == "const")
        kept = []
        for is_gpus, wanted in lacking.items():
            kept += [n for n in order if ("uuid" in node.meta[n][1]) == is_gpus][:max(0, wanted)]
        node.meta, node.value, node.kinds = ([of[n] for n in kept] for of in (node.meta, node.value, node.kinds))
        columns = [array("d") for _ in kept]
        for _ in self.times:
            for column, value in zip(columns, node.tick()):
                column.append(value)
        times = array("q", self.times)
        for (name, pairs, _, _), column in zip(node.meta, columns):
            self.series.append((name, {**pairs, "instance": "n1:9400"}, times, column))

    def points(self, begin, end, midnight_ms):
        """For each series its samples of that part of the day, as remote write has them; their number."""
        stamps, count, all_points = {}, 0, []
        for name, _, times, values in self.series:
            more = (midnight_ms - LAB_START_MS) / 1000 if name == "goodput_node_boot_time_seconds" else 0
            flat = []
            for n in range(bisect_left(times, begin), bisect_left(times, end)):
                at, value = times[n], values[n]
                stamp = stamps.get(at) or stamps.setdefault(at, b"\x10" + varint(midnight_ms + at))
                flat += (b"\x12\x10\x09", value + more if more else value, stamp)
            count += len(flat) // 3
            all_points.append(struct.pack("<" + "3sd7s" * (len(flat) // 3), *flat))
        return all_points, count


def parsed(head):
    """Metric and labels of a line; no value of the lab has a quote or a comma in it."""
    name, _, pairs = head.removesuffix("}").partition("{")
    return name, {key: value.strip('"') for key, value in (pair.split("=", 1) for pair in pairs.split(",") if pair)}


class Fleet:
    """Nodes that each live through one of the days; over several days through one after another."""

    def __init__(self, days, nodes):
        self.days, self.nodes = days, nodes
        self.heads = {}

    def bodies(self, first_ms, hours):
        """All requests, in order of time: an hour of a node each, with the number of its samples."""
        for hour in range(hours):
            begin = hour % 24 * HOUR_MS
            yield from self.between(begin, begin + HOUR_MS, first_ms + hour // 24 * DAY_MS, hour // 24)

    def between(self, begin, end, midnight_ms, day=0):
        """The requests of a part of the day, one of a node each, with the number of its samples."""
        for first in range(min(len(self.days), self.nodes)):
            number = (first + day) % len(self.days)
            points, count = self.days[number].points(begin, end, midnight_ms)
            for turn, node in enumerate(range(first, self.nodes, len(self.days))):
                yield self.body(self.days[number], node, owner(first, turn), points), count

    def body(self, day, node, run, points):
        heads = self.heads.get((id(day), node))
        if heads is None:
            heads = [head(name, pairs, node, run) for name, pairs, _, _ in day.series]
            self.heads[id(day), node] = heads
        series = (field(1, head + some) for head, some in zip(heads, points) if some)
        return literals(b"".join(series))


def owner(first, turn):
    """Whose job a node works for."""
    run, left = 0, turn
    while left >= RUN_NODES[run % len(RUN_NODES)]:
        left -= RUN_NODES[run % len(RUN_NODES)]
        run += 1
    return f"train-{first}-{run}"


def head(name, pairs, node, run):
    """A series of the lab's node `n1` as that of another node."""
    def renamed(key, value):
        if value.startswith("n1") and key in ("instance", "Hostname", "nodename", "node"):
            return f"node-{node:04}" + value[2:]
        if key in ("UUID", "uuid"):
            return f"GPU-{node:08x}" + value[12:]
        return run if key == "owner" else value

    return labels(name, {key: renamed(key, value) for key, value in pairs.items() if key != "job"})
