"""What a running exporter costs its machine, and what its scrapes give.

CPU time is the kernel's own clock of the whole process (CLOCK_PROCESS_CPUTIME_ID of another process), which counts in
nanoseconds and keeps the time of threads that have ended. Reads are `syscr` and `rchar` of /proc/PID/io.
"""

import gzip
import http.client
import time
from dataclasses import dataclass, field

# What Prometheus sends.
HEADERS = {
    "Accept": "text/plain;version=0.0.4",
    "Accept-Encoding": "gzip",
    "X-Prometheus-Scrape-Timeout-Seconds": "10",
}


def cpu_seconds(pid):
    """User and system time of a process so far. The clock of process P is ~P << 3 | 2: see clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


def keyed(pid, file):
    """A file of `/proc/PID` with one `key: number` per line."""
    with open(f"/proc/{pid}/{file}") as text:
        rows = (line.split(":", 1) for line in text)
        return {key: int(value.split()[0]) for key, value in rows if value.split()[:1] and value.split()[0].isdigit()}


def resident_mib(pid):
    return keyed(pid, "status")["VmRSS"] / 1024


@dataclass
class Usage:
    """What a process has used up to a moment."""

    at: float
    cpu: float
    reads: int
    read_bytes: int

    @classmethod
    def of(cls, pid):
        io = keyed(pid, "io")
        return cls(time.monotonic(), cpu_seconds(pid), io["syscr"], io["rchar"])


@dataclass
class Scrapes:
    """Scrapes of one exporter over connections that are kept as long as it keeps them."""

    port: int
    milliseconds: list = field(default_factory=list)
    wire_bytes: int = 0
    text: str = ""

    def __post_init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def once(self):
        """From the request to the last byte; an answer other than 200 is an error."""
        try:
            response, body = self.timed()
        except (http.client.HTTPException, ConnectionResetError, BrokenPipeError):
            # Closed while it was idle.
            self.connection.close()
            response, body = self.timed()
        if response.status != 200:
            raise RuntimeError(f"port {self.port} answered {response.status}")
        self.wire_bytes = len(body)
        zipped = response.getheader("Content-Encoding") == "gzip"
        self.text = (gzip.decompress(body) if zipped else body).decode()

    def timed(self):
        begun = time.perf_counter()
        self.connection.request("GET", "/metrics", headers=HEADERS)
        response = self.connection.getresponse()
        body = response.read()
        self.milliseconds.append((time.perf_counter() - begun) * 1e3)
        return response, body

    def forget(self):
        """Drops the latencies so far."""
        self.milliseconds.clear()

    def series(self):
        return sum(1 for line in self.text.splitlines() if line and not line.startswith("#"))

    def values(self, metric):
        """The samples of a metric: labels as they are written, and value."""
        rows = (line for line in self.text.splitlines() if line.startswith((metric + "{", metric + " ")))
        return {row.rsplit(" ", 1)[0].removeprefix(metric): float(row.rsplit(" ", 1)[1]) for row in rows}


def percentile(values, share):
    """With linear interpolation between the neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = ordered[int(place)]
    return below + (ordered[min(int(place) + 1, len(ordered) - 1)] - below) * (place % 1)
