"""Records a GPU under `train.py`, `language.py` or `libraries.py`: `record.py --exporter FILE --out DIR --data DIR PHASE:SECONDS...`.

Needs root and a GPU. The log that becomes the truth is the first job's: with `--beside` it is to work all the time.

`pages.jsonl.gz` has what goodput-exporter answered every two seconds, a line each, with made-up identities for the
GPU's; `raw.tar.gz` has the job's log of what it did, what nvidia-smi said of the same moments, and what the programs
printed. `goodput-lab-pages` makes a trace of them. The GPU's settings are left alone.
"""

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = "127.0.0.1:19400"
QUERY = ",".join("""timestamp name uuid pci.bus_id driver_version pstate utilization.gpu utilization.memory memory.total
memory.used memory.free memory.reserved temperature.gpu temperature.memory power.draw power.draw.average
power.draw.instant power.limit enforced.power.limit clocks.sm clocks.mem clocks.video clocks.max.sm
clocks_event_reasons.active pcie.link.gen.gpucurrent pcie.link.gen.max pcie.link.width.current pcie.link.width.max
ecc.errors.corrected.volatile.total ecc.errors.uncorrected.volatile.total""".split())

GPM = "1,2,3,4,5,6,7,9,10,11,12,13,20,21,60,61"


def cgroup(number):
    """Folders of a new cgroup that is named like a container's; none where this machine has no cgroups to write to."""
    name = f"docker-{0x90090000 + number:08x}{0:056x}.scope"
    root = "/sys/fs/cgroup"
    if not os.path.exists(f"{root}/cgroup.controllers") and not os.path.isdir(f"{root}/cpu"):
        subprocess.run(["mount", "-t", "cgroup2", "none", root], check=False)
    if os.path.exists(f"{root}/cgroup.controllers"):
        for controller in ("cpu", "cpuset", "io", "memory", "pids"):
            try:
                with open(f"{root}/cgroup.subtree_control", "w") as file:
                    file.write(f"+{controller}")
            except OSError as error:
                print(f"no controller {controller}: {error}")
        folders = [f"{root}/{name}"]
    else:
        folders = [f"{root}/{c}/{name}" for c in os.listdir(root) if os.path.isdir(f"{root}/{c}")]
    made = []
    for folder in folders:
        try:
            os.makedirs(folder, exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                above = f"{os.path.dirname(folder)}/{file}"
                if os.path.exists(above) and "/cpuset/" in folder:
                    open(f"{folder}/{file}", "w").write(open(above).read())
            made.append(folder)
        except OSError as error:
            print(f"no cgroup {folder}: {error}")
    return made


def join(folders):
    def enter():
        for folder in folders:
            try:
                with open(f"{folder}/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
            except OSError:
                pass

    return enter


def usage(pid):
    """CPU seconds and resident bytes of a process."""
    stat = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    rss = [l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")][0].split()[1]
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), int(rss) * 1024


def identities():
    """What the GPUs are called, and what they are called here."""
    asked = ["nvidia-smi", "--query-gpu=index,uuid,serial", "--format=csv,noheader"]
    made_up = {}
    for line in subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines():
        index, uuid, serial = line.split(", ")
        made_up[uuid] = f"GPU-{int(index):08x}-0000-4000-8000-000000000000"
        made_up[serial] = index
    return made_up


class Recorder(threading.Thread):
    def __init__(self, out, pid, interval, made_up):
        super().__init__(daemon=True)
        self.made_up = made_up
        self.file, self.pid, self.interval = gzip.open(f"{out}/pages.jsonl.gz", "wt", 6), pid, interval
        self.stopped, self.failures = threading.Event(), 0

    def run(self):
        next_at = time.time()
        while not self.stopped.wait(max(0.0, next_at - time.time())):
            next_at += self.interval
            begin = time.time()
            try:
                text = urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=10).read().decode()
            except OSError as error:
                print(f"scrape: {error}", flush=True)
                self.failures += 1
                continue
            for name, other in self.made_up.items():
                text = text.replace(name, other)
            cpu_s, rss_bytes = usage(self.pid)
            line = {"ms": int(begin * 1000), "took_s": time.time() - begin, "cpu_s": cpu_s, "rss": rss_bytes, "page": text}
            self.file.write(json.dumps(line) + "\n")

    def finish(self):
        self.stopped.set()
        self.join()
        self.file.close()


def smi(raw, stop):
    """nvidia-smi's XML, every 15 s."""
    while True:
        begin = int(time.time() * 1000)
        done = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=False)
        end = int(time.time() * 1000)
        open(f"{raw}/smi-{begin}-{end}.xml", "wb").write(done.stdout)
        if stop.wait(15):
            return


def start(command, log, **more):
    return subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT, **more)


def run(args, raw, log, folders, phases):
    """Starts a job in a cgroup."""
    command = [sys.executable, f"{HERE}/{args.job}", f"--data={args.data}", f"--edges={raw}/{log}", *args.job_flag, *phases]
    return start(command, f"{raw}/{log.replace('edges', 'job')}.log", preexec_fn=join(folders), start_new_session=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exporter", required=True)
    parser.add_argument("--exporter-flag", action="append", default=[])
    parser.add_argument("--out", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--free", type=float, default=10, help="seconds without a job, before and after")
    parser.add_argument("--interval", type=float, default=2)
    parser.add_argument("--limit", type=float, help="seconds after which the job is ended and what there is is kept")
    parser.add_argument("--job", choices=("train.py", "language.py", "libraries.py"), default="train.py")
    parser.add_argument("--job-flag", action="append", default=[])
    parser.add_argument("--beside", default="", help="phases of a second job, in a cgroup of its own, 15 s later")
    parser.add_argument("phases", nargs="+")
    args = parser.parse_args()
    raw = f"{args.out}/raw"
    os.makedirs(raw, exist_ok=True)
    exporter = start([args.exporter, "serve", f"--web.listen-address={ADDRESS}", *args.exporter_flag], f"{raw}/exporter.log")
    time.sleep(3)
    recorder = Recorder(args.out, exporter.pid, args.interval, identities())
    recorder.start()
    stop = threading.Event()
    others = [
        start(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,nounits", "-lms", "1000"], f"{raw}/query.csv"),
        start(["nvidia-smi", "dmon", "-o", "DT", "-s", "pucvmet", "--gpm-metrics", GPM], f"{raw}/dmon.txt"),
    ]
    threading.Thread(target=smi, args=(raw, stop), daemon=True).start()
    time.sleep(args.free)
    folders, other_folders = cgroup(1), cgroup(2) if args.beside else []
    job = run(args, raw, "edges", folders, args.phases)
    if args.beside:
        time.sleep(15)
        others.append(run(args, raw, "edges-beside", other_folders, args.beside.split()))
    try:
        print("the job ended with", job.wait(args.limit), flush=True)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGTERM)
        print("the job was ended with", job.wait(), flush=True)
    time.sleep(args.free)
    stop.set()
    recorder.finish()
    for other in others:
        other.terminate()
    exporter.terminate()
    exporter.wait()
    for folder in folders + other_folders:
        try:
            os.rmdir(folder)
        except OSError:
            pass
    with tarfile.open(f"{args.out}/raw.tar.gz", "w:gz") as tar:
        tar.add(raw, "raw")
    print(open(f"{raw}/job.log").read()[-2500:])
    print("exporter:", open(f"{raw}/exporter.log").read()[-1500:])
    print("scrapes that failed:", recorder.failures)


if __name__ == "__main__":
    main()
