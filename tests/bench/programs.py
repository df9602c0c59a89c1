"""The exporters that are compared: how each is started, and what it used."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from measure import Scrapes, Usage, resident_mib

ROOT = Path(__file__).resolve().parents[2]
EXPORTER = os.environ.get("GOODPUT_EXPORTER", f"{ROOT}/target/release/goodput-exporter")
FAKE_NVML = os.environ.get("FAKE_NVML_LIBRARY", f"{ROOT}/target/release/libfake_nvml.so")
# The others are those on the PATH.
NODE_EXPORTER, NVITOP, ALL_SMI = "prometheus-node-exporter", "nvitop-exporter", "all-smi"


def goodput(port, *arguments):
    return [EXPORTER, "serve", f"--web.listen-address=127.0.0.1:{port}", *arguments]


def node_exporter(port, *arguments):
    return [NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{port}", *arguments]


def nvitop(port, *arguments):
    return [NVITOP, "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "1", *arguments]


def all_smi(port, *arguments):
    return [ALL_SMI, "api", "--port", str(port), "--interval", "1", *arguments]


def missing(name):
    """Why the program cannot be measured here; nothing if it can."""
    if not shutil.which(name):
        return f"{name} is not on the PATH"
    if name == ALL_SMI and interfaces() != {"lo"}:
        return "all-smi listens on every address, so it runs only where there is no network but loopback"
    return None


def interfaces():
    return {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}


def version(name):
    """What the program says of itself, or its Python package."""
    output = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+\.\d+", output.stdout + output.stderr)
    return found.group() if found else "unknown"


class Program:
    """One exporter, and its scrapes."""

    def __init__(self, name, command, folder, gpus=None, arguments=()):
        self.name, self.gpus = name, gpus
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = folder / f"{name.replace(' ', '-').replace('/', '-')}-{port}.log"
        self.environment = dict(os.environ)
        if gpus:
            self.environment |= gpus.env() | found_by_name(folder)
        self.command, self.child, self.scrapes = command(port, *arguments), None, Scrapes(port)

    @property
    def pid(self):
        return self.child.pid

    def start(self):
        """Until the first scrape is answered."""
        with self.log.open("w") as log:
            self.child = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        deadline = time.monotonic() + 60
        while True:
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.log.read_text()[-2000:]}")
            try:
                return self.scrapes.once()
            except OSError:
                self.scrapes.connection.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def until(self, metric, series):
        """Waits until the program serves this many series of the metric."""
        deadline = time.monotonic() + 60
        while len(self.scrapes.values(metric)) < series:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: not {series} of {metric}: {self.log.read_text()[-2000:]}")
            time.sleep(0.2)
            self.scrapes.once()
        self.scrapes.forget()

    def reload(self):
        """Has our exporter read its settings again, and waits until it says so."""
        before = self.log.stat().st_size
        self.child.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while b"again" not in self.log.read_bytes()[before:]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: reads nothing again: {self.log.read_text()[-2000:]}")
            time.sleep(0.001)

    def usage(self):
        return Usage.of(self.pid)

    def resident_mib(self):
        return resident_mib(self.pid)

    def stop(self):
        self.scrapes.connection.close()
        if self.child is None:
            return
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            # A thread that hangs in NVML is asked for.
            self.child.kill()
            self.child.wait()


def found_by_name(folder):
    """For programs that look for the library by its name, and ask `nvidia-smi` whether there is a GPU first."""
    library, smi = folder / "libnvidia-ml.so.1", folder / "nvidia-smi"
    if not library.exists():
        library.symlink_to(FAKE_NVML)
        smi.write_text('#!/bin/sh\necho "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)"\n')
        smi.chmod(0o755)
    return {"LD_LIBRARY_PATH": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
