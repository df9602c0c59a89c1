#!/usr/bin/env python3
"""Judging a fleet for a day: what it takes the analyzer at three sizes, and what VictoriaMetrics for such of its rules as PromQL
can say, over the same samples; then a week of a small fleet, and the weekly report from what is stored.

Started by `make bench ARGS=scale`, which builds and installs what it needs; docs/internals/benchmarks.md says what is compared.
"""

import argparse
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import promql_rules
from fleet import DAY_MS, GPUS, HOUR_MS, STALE, Day, Fleet
from measure import cpu_seconds, keyed
from store import ANALYZER, ROOT, Server, field, literals, size, varint

LAB = os.environ.get("GOODPUT_LAB", f"{ROOT}/target/release/goodput-lab")
# Beyond 14 days `serve` judges nothing by itself, so that judging is measured apart from taking in.
AGE_DAYS = 21
STEP_SECONDS = 60
TARGET_RATIO, TARGET_REPORT_S, TARGET_RSS_MIB, TARGET_SLOPE = 10, 5, 4096, 1.05
# Whatever is asked is computed: no answer is kept, and none is cut off.
PEER_FLAGS = ["-search.disableCache", "-search.maxQueryDuration=10m", "-search.maxSamplesPerQuery=4000000000"]
SERIES_PER_WRITE = 100


def told(**figures):
    print(json.dumps(figures), flush=True)


def make_days(folder, count, minutes):
    """Lets the lab simulate `count` days, as many at a time as there are CPUs; existing days stay."""
    missing = [n for n in range(count) if not (folder / f"day/{n:02}/about.md").exists()]
    running = []
    while missing or running:
        while missing and len(running) < os.cpu_count():
            n = missing.pop(0)
            command = [LAB, str(folder), f"--days={n}-{n}", f"--minutes={minutes}"]
            running.append(subprocess.Popen(command))
        child = running.pop(0)
        if child.wait():
            raise RuntimeError(f"{child.args} ended with {child.returncode}")
    return [Day(folder / f"day/{n:02}", n, minutes) for n in range(count)]


def first_midnight():
    """The beginning of a week that is long over."""
    today = int(time.time() * 1000) // DAY_MS
    # The epoch was a Thursday.
    return (today - AGE_DAYS - 7 - (today - AGE_DAYS - 7 + 3) % 7) * DAY_MS


def at(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms // 1000))


def fill(server, fleet, first_ms, hours):
    """Sends it all; samples, and the CPU seconds until all was answered."""
    samples, before = 0, cpu_seconds(server.child.pid)

    def bodies():
        nonlocal samples
        for body, count in fleet.bodies(first_ms, hours):
            samples += count
            yield body

    server.push(bodies())
    used = cpu_seconds(server.child.pid) - before
    server.settle()
    return samples, used


def run(*arguments):
    """A command of the analyzer: its output, CPU seconds, wall seconds and peak RSS in MiB."""
    begun, peak, ended = time.monotonic(), 0, 0
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([ANALYZER, "--log.level=error", *arguments], stdout=said)
        while not ended:
            # Not `ru_maxrss`, which begins with what this process had when it forked. A run of milliseconds shows less than it had.
            peak = max(peak, keyed(child.pid, "status").get("VmHWM", 0))
            time.sleep(0.02)
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        if status:
            raise RuntimeError(f"{arguments} ended with {status}")
        said.seek(0)
        return said.read(), usage.ru_utime + usage.ru_stime, time.monotonic() - begun, peak / 1024


def hours_by_class(report):
    """GPU-hours of each class, by the report's JSON."""
    return {row["class"]: round(row["amount"]["gpu_hours"], 1) for row in report["classes"]}


def ours(fleet, first_ms, hours, folder):
    server = Server("goodput", folder)
    server.start()
    try:
        samples, taken = fill(server, fleet, first_ms, hours)
        peak = keyed(server.child.pid, "status")["VmHWM"] / 1024
    finally:
        server.stop()
    config, data = f"--config.file={folder}/config.yml", f"--data.dir={server.store}"
    span = [f"--start={at(first_ms)}", f"--end={at(first_ms + hours * HOUR_MS)}"]
    _, cpu, wall, rss = run("classify", config, data, *span)
    week = time.strftime("%G-W%V", time.gmtime(first_ms // 1000))
    text, report_cpu, report_wall, report_rss = run("report", config, data, f"--week={week}", "--format=json")
    run("report", config, data, f"--week={week}", "--format=html", f"--out={folder}/report.html")
    return {
        "samples": samples,
        "ingest_cpu_s": taken,
        "ingest_peak_rss_mib": peak,
        "bytes": size(server.store),
        "judge_cpu_s": cpu,
        "judge_s": wall,
        "judge_peak_rss_mib": rss,
        "report_cpu_s": report_cpu,
        "report_s": report_wall,
        "report_peak_rss_mib": report_rss,
        "gpu_hours": hours_by_class(json.loads(text)),
        "load1": os.getloadavg()[0],
    }


class Peer:
    """VictoriaMetrics with the rules as recording rules."""

    def __init__(self, server):
        self.server = server

    def ask(self, path, **arguments):
        begun = cpu_seconds(self.server.child.pid)
        found = self.server.get(f"/api/v1/{path}?" + urllib.parse.urlencode({**arguments, "nocache": 1}))
        used = cpu_seconds(self.server.child.pid) - begun
        return json.loads(found)["data"]["result"], used

    def record(self, name, series):
        """What vmalert does with the answer: remote write. CPU seconds of taking it in."""
        begun = cpu_seconds(self.server.child.pid)
        self.server.push(written(name, series))
        self.server.get("/internal/force_flush")
        return cpu_seconds(self.server.child.pid) - begun

    def judge(self, first_ms, hours):
        start, end = first_ms // 1000, first_ms // 1000 + hours * 3600 - STEP_SECONDS
        queries = recording = points = 0
        by_rule = {}
        for name, expression in promql_rules.rules():
            series, used = self.ask("query_range", query=expression, start=start, end=end, step=STEP_SECONDS)
            by_rule[name] = used
            queries += used
            points += sum(len(one["values"]) for one in series)
            recording += self.record(name, series)
        found = {}
        for name in promql_rules.CLASSES:
            whole, _ = self.ask("query", query=f"sum(sum_over_time(goodput:{name}[{hours}h]))", time=end + 1)
            found[name] = round(float(whole[0]["value"][1]) / 60, 1) if whole else 0
        peak = keyed(self.server.child.pid, "status")["VmHWM"] / 1024
        return {
            "query_cpu_s": queries,
            "recording_cpu_s": recording,
            "recorded_points": points,
            "peak_rss_mib": peak,
            "gpu_hours": found,
            "cpu_s_by_rule": {name: round(used, 2) for name, used in by_rule.items()},
        }


def ended(values):
    """With a stale marker where there is no value any more, as vmalert writes it: a later rule would see the last for five minutes."""
    following = [moment for moment, _ in values[1:]] + [math.inf]
    for (moment, value), after in zip(values, following):
        yield moment, float(value)
        if after > moment + STEP_SECONDS:
            yield moment + STEP_SECONDS, STALE


def written(name, series):
    """Remote-write bodies of an answer."""
    stamps = {}
    for first in range(0, len(series), SERIES_PER_WRITE):
        body = b""
        for one in series[first:first + SERIES_PER_WRITE]:
            pairs = sorted({**one["metric"], "__name__": f"goodput:{name}"}.items())
            head = b"".join(field(1, field(1, key.encode()) + field(2, value.encode())) for key, value in pairs)
            flat = []
            for moment, value in ended(one["values"]):
                stamp = stamps.get(moment) or stamps.setdefault(moment, b"\x10" + varint(int(moment) * 1000))
                flat += (b"\x12\x10\x09", value, stamp)
            body += field(1, head + struct.pack("<" + "3sd7s" * (len(flat) // 3), *flat))
        yield literals(body)


def theirs(fleet, first_ms, hours, folder):
    server = Server("victoria", folder, PEER_FLAGS)
    server.start()
    try:
        samples, taken = fill(server, fleet, first_ms, hours)
        judged = Peer(server).judge(first_ms, hours)
    finally:
        server.stop()
    return {"samples": samples, "ingest_cpu_s": taken, **judged, "load1": os.getloadavg()[0]}


def verdicts(rows):
    """Rows by who, nodes and hours."""
    fleets = sorted(key for key in rows if key[0] == "goodput" and not key[3])
    smallest = rows[fleets[0]] if fleets else None
    for key in fleets[1:]:
        for figure in ("judge_cpu_s", "report_cpu_s"):
            grown = math.log(rows[key][figure] / smallest[figure]) / math.log(rows[key]["samples"] / smallest["samples"])
            yield {"figure": f"slope of {figure}", "nodes": key[1], "value": grown, "target": TARGET_SLOPE, "met": grown <= TARGET_SLOPE}
    for key, row in rows.items():
        if key[0] == "goodput":
            peak = max(row["ingest_peak_rss_mib"], row["judge_peak_rss_mib"], row["report_peak_rss_mib"])
            yield {"figure": "peak_rss_mib", "of": key, "value": peak, "target": TARGET_RSS_MIB, "met": peak <= TARGET_RSS_MIB}
            yield {"figure": "report_s", "of": key, "value": row["report_s"], "target": TARGET_REPORT_S, "met": row["report_s"] <= TARGET_REPORT_S}
        elif ("goodput", *key[1:]) in rows:
            mine = rows[("goodput", *key[1:])]["judge_cpu_s"]
            whole = (row["query_cpu_s"] + row["recording_cpu_s"]) / mine
            yield {"figure": "queries alone / ours", "of": key, "ratio": row["query_cpu_s"] / mine}
            yield {"figure": "rules / ours", "of": key, "ratio": whole, "target": TARGET_RATIO, "met": whole >= TARGET_RATIO}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="8,32,125", help="of eight GPUs each (default: 8,32,125)")
    parser.add_argument("--hours", type=int, default=24, help="that are judged (default: 24)")
    parser.add_argument("--days", type=int, default=8, help="that differ (default: 8)")
    parser.add_argument("--week-nodes", type=int, default=2, help="that are judged for a week; 0: none (default: 2)")
    parser.add_argument("--peer-nodes", default="125", help="sizes at which VictoriaMetrics is asked too (default: 125)")
    parser.add_argument("--servers", default="goodput,victoria")
    parser.add_argument("--lab", type=Path, default=ROOT / "target/bench/days", help="where the lab's days lie, or are made")
    options = parser.parse_args()
    minutes = min(24, options.hours) * 60
    days = make_days(options.lab / str(minutes), options.days, minutes)
    first_ms, rows = first_midnight(), {}
    peers = [int(n) for n in options.peer_nodes.split(",") if n]
    runs = [(int(n), options.hours, False) for n in options.nodes.split(",")]
    runs += [(options.week_nodes, 168, True)] if options.week_nodes else []
    for nodes, hours, is_week in runs:
        fleet = Fleet(days, nodes)
        for name, measure in [("goodput", ours), ("victoria", theirs)]:
            is_peer = bool(peers) if is_week else nodes in peers
            if name not in options.servers.split(",") or name == "victoria" and not is_peer:
                continue
            with tempfile.TemporaryDirectory(prefix="goodput-scale.") as folder:
                row = measure(fleet, first_ms, hours, Path(folder))
            rows[name, nodes, hours, is_week] = row
            told(measured={"server": name, "gpus": nodes * GPUS, "hours": hours, **row})
    for verdict in verdicts(rows):
        told(verdict=verdict)


if __name__ == "__main__":
    if not shutil.which("victoria-metrics"):
        sys.exit("victoria-metrics is missing: deploy/local/packages bench-store")
    main()
