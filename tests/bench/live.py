#!/usr/bin/env python3
"""Judging a fleet as it goes: what it takes the analyzer's `serve`, and what VictoriaMetrics and vmalert for such of its rules as
PromQL can say, a minute at a time, over the same samples. All of it in the machine's own time, at once.

Started by `make bench ARGS=live`, which builds and installs what it needs; docs/internals/benchmarks.md says what is compared.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import promql_rules
from fleet import GPUS, HOUR_MS, Fleet
from measure import cpu_seconds, keyed
from scale import PEER_FLAGS, Peer, make_days, told
from store import ROOT, Server

# How often the fleet is scraped; the lab's days are.
TICK_SECONDS = 30
# Where in the lab's days the run begins.
DAY_HOUR = 12
PATIENCE_SECONDS = 600
TARGET_RATIO = 10


def group(folder):
    """The rules for vmalert, one after another each minute."""
    rules = [{"record": f"goodput:{name}", "expr": expression} for name, expression in promql_rules.rules()]
    path = folder / "rules.yml"
    # JSON is YAML.
    path.write_text(json.dumps({"groups": [{"name": "goodput", "interval": "1m", "rules": rules}]}))
    return path


def vmalert(folder, server):
    """It, started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = f"http://127.0.0.1:{server.port}"
    flags = [f"-rule={group(folder)}", f"-datasource.url={at}", f"-remoteWrite.url={at}", f"-httpListenAddr=127.0.0.1:{port}"]
    flags += ["-remoteWrite.flushInterval=1s", "-remoteWrite.maxQueueSize=10000000", "-loggerLevel=ERROR"]
    with (folder / "vmalert.log").open("w") as log:
        return subprocess.Popen(["vmalert", *flags], stdout=log, stderr=log)


def gauges(server, name):
    """Values of the analyzer's own metric, by labels."""
    found = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", server.get("/metrics"), re.M)
    return {labels: float(value) for labels, value in found}


def judged_until(server):
    return max(gauges(server, "goodput_analyzer_judged_timestamp_seconds").values(), default=0)


def until_judged(server, since):
    """Until verdicts reach that moment: what came before is caught up with."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while judged_until(server) < since:
        if time.monotonic() > deadline:
            raise RuntimeError("the analyzer does not catch up")
        time.sleep(1)


def gpus_by_class(server):
    """GPUs in each class over the last five minutes."""
    found = {}
    for labels, value in gauges(server, "goodput_gpu_class_ratio").items():
        if 'window="5m"' in labels:
            name = re.search('class="(.*?)"', labels)[1]
            found[name] = found.get(name, 0) + value
    return {name: round(value, 1) for name, value in sorted(found.items()) if value}


def gpus_by_rule(peer):
    found = {}
    for name in promql_rules.CLASSES:
        whole, _ = peer.ask("query", query=f"sum(sum_over_time(goodput:{name}[5m])) / 5")
        if whole:
            found[name] = round(float(whole[0]["value"][1]), 1)
    return found


def live(fleet, begin_ms, midnight_ms, minutes, servers):
    """Sends each half minute's samples when it is over; how many."""
    samples = 0
    for tick in range(minutes * 60 // TICK_SECONDS):
        from_ms = begin_ms + tick * TICK_SECONDS * 1000
        part = from_ms - midnight_ms
        bodies = list(fleet.between(part, part + TICK_SECONDS * 1000, midnight_ms))
        time.sleep(max(0, (from_ms + TICK_SECONDS * 1000) / 1000 - time.time()))
        samples += sum(count for _, count in bodies)
        for server in servers:
            server.push(body for body, _ in bodies)
    return samples


def run(fleet, options, folder):
    ours, theirs = Server("goodput", folder / "ours"), Server("victoria", folder / "theirs", PEER_FLAGS)
    history_ms = options.history * HOUR_MS
    alert = None
    for server in (ours, theirs):
        server.folder.mkdir()
    try:
        for server in (ours, theirs):
            server.start()
        # Where the history ends, by which time it has to be filled.
        begin_ms = int(time.time() // 60 + 1 + options.fill) * 60_000
        midnight_ms = begin_ms - DAY_HOUR * HOUR_MS
        filled = (DAY_HOUR * HOUR_MS - history_ms, DAY_HOUR * HOUR_MS)
        for hour in range(*filled, HOUR_MS):
            for body, _ in fleet.between(hour, hour + HOUR_MS, midnight_ms):
                for server in (ours, theirs):
                    server.push([body])
        theirs.get("/internal/force_flush")
        Peer(theirs).judge(begin_ms - history_ms, options.history)
        left = begin_ms / 1000 - time.time()
        if left < 0:
            raise RuntimeError("filling took longer than --fill minutes")
        time.sleep(left)
        alert = vmalert(folder, theirs)
        live(fleet, begin_ms, midnight_ms, options.settle, (ours, theirs))
        begin_ms += options.settle * 60_000
        until_judged(ours, begin_ms / 1000 - 120)
        pids = {"ours": ours.child.pid, "victoria_metrics": theirs.child.pid, "vmalert": alert.pid}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        samples = live(fleet, begin_ms, midnight_ms, options.minutes, (ours, theirs))
        used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
        return {
            "samples": samples,
            "cpu_s_per_minute": {name: cpu / options.minutes for name, cpu in used.items()},
            "peak_rss_mib": {name: keyed(pid, "status")["VmHWM"] / 1024 for name, pid in pids.items()},
            "from_minute": begin_ms // 60_000 % 60,
            "judged_behind_s": time.time() - judged_until(ours),
            "last_round_s": gauges(ours, "goodput_analyzer_judge_duration_seconds").get(""),
            "gpus": {"ours": gpus_by_class(ours), "theirs": gpus_by_rule(Peer(theirs))},
            "said": (folder / "vmalert.log").read_text()[-2000:],
            "load1": os.getloadavg()[0],
        }
    finally:
        if alert:
            alert.terminate()
            alert.wait()
        for server in (ours, theirs):
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="16,125", help="of eight GPUs each (default: 16,125)")
    parser.add_argument("--history", type=int, default=2, help="hours that are there before (default: 2)")
    parser.add_argument("--fill", type=int, default=4, help="minutes until the first samples of the moment (default: 4)")
    parser.add_argument("--settle", type=int, default=3, help="minutes that are not measured (default: 3)")
    parser.add_argument("--minutes", type=int, default=20, help="that are measured (default: 20)")
    parser.add_argument("--days", type=int, default=8, help="that differ (default: 8)")
    parser.add_argument("--lab", type=Path, default=ROOT / "target/bench/days", help="where the lab's days lie, or are made")
    options = parser.parse_args()
    days = make_days(options.lab / "1440", options.days, 1440)
    for nodes in map(int, options.nodes.split(",")):
        with tempfile.TemporaryDirectory(prefix="goodput-live.") as folder:
            row = run(Fleet(days, nodes), options, Path(folder))
        told(measured={"gpus": nodes * GPUS, **row})
        cpu = row["cpu_s_per_minute"]
        for figure, theirs in [("VictoriaMetrics", cpu["victoria_metrics"]), ("with vmalert", cpu["victoria_metrics"] + cpu["vmalert"])]:
            ratio = theirs / cpu["ours"]
            told(verdict={"figure": f"{figure} / ours", "gpus": nodes * GPUS, "ratio": ratio, "target": TARGET_RATIO, "met": ratio >= TARGET_RATIO})


if __name__ == "__main__":
    if missing := [program for program in ("victoria-metrics", "vmalert") if not shutil.which(program)]:
        sys.exit(f"missing: {', '.join(missing)}: deploy/local/packages bench-store")
    main()
