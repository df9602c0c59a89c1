"""Makes hours of a recording's phases: `repeat.py PAGES.jsonl LOG JOB.log OUT MINUTES [PHASE:MINUTES...]`.

A phase that was recorded for a minute is played over and over: counters go on, gauges repeat. So cells of the ledger hold
one thing alone, as they do on machines whose faults last. `OUT.jsonl` and `OUT.edges` are as PAGES and LOG. Its values are
the recorded ones, and no more of them: it shows what rules say of such values, not how often they are right.
"""

import json
import sys

# Workers start, and counters are read a little later than they count.
SETTLES_MS, ENDS_MS = 5000, 1500


class Page:
    """What was answered at a moment."""

    def __init__(self, line):
        line = json.loads(line)
        self.ms, self.counters, self.values = line["ms"], set(), {}
        types = {}
        for row in line["page"].splitlines():
            if row.startswith("# TYPE "):
                _, _, name, kind = row.split()
                types[name] = kind
            elif row and not row.startswith("#"):
                series, value = row.rsplit(" ", 1)
                self.values[series] = value
                if grows(series.split("{")[0], types):
                    self.counters.add(series)


def grows(name, types):
    parts = [name[: -len(end)] for end in ("_bucket", "_sum", "_count") if name.endswith(end)]
    return types.get(name) == "counter" or any(types.get(part) == "histogram" for part in parts)


class Player:
    """Plays stretches of pages, one after another."""

    def __init__(self, out, edges):
        self.pages, self.log, self.edges = open(f"{out}.jsonl", "w"), open(f"{out}.edges", "w"), edges
        self.now, self.totals = 1_795_699_983_000, {}

    def play(self, pages, minutes):
        end = self.now + minutes * 60_000
        while self.now < end:
            first, totals = pages[0], {}
            for page, after in zip(pages, pages[1:]):
                totals = self.emit(first, page)
                self.tell(page.ms, after.ms)
                self.now += after.ms - page.ms
            self.totals.update(totals)

    def emit(self, first, page):
        totals = {}
        for series in page.counters:
            value, before = float(page.values[series]), float(first.values.get(series, page.values[series]))
            totals[series] = self.totals.get(series, before) + value - before
        rows = [f"{series} {totals.get(series, value)}" for series, value in page.values.items()]
        self.pages.write(json.dumps({"ms": self.now, "page": "\n".join(rows) + "\n"}) + "\n")
        return totals

    def tell(self, start, end):
        """Writes down what the GPU did between two pages."""
        doing = "unallocated"
        for ms, what in self.edges:
            if ms <= start:
                doing = what
        self.log.write(f"{self.now * 1000} {doing}\n")
        for ms, what in self.edges:
            if start < ms < end:
                self.log.write(f"{int((self.now + ms - start) * 1000)} {what}\n")


def main():
    pages, log, job, out, minutes, *others = sys.argv[1:]
    pages = [Page(line) for line in open(pages)]
    edges = [(int(at) / 1000, doing) for at, doing in (line.strip().split(" ", 1) for line in open(log))]
    lasting = {name: float(minutes) for name, minutes in (other.split(":") for other in others)}
    player = Player(out, edges)
    for line in open(job):
        if " phase " not in line:
            continue
        at, _, phase = line.split()
        name, seconds = phase.split(":")
        start, end = float(at) * 1000 + SETTLES_MS, (float(at) + float(seconds)) * 1000 - ENDS_MS
        held = [page for page in pages if start <= page.ms < end]
        if len(held) > 10 and lasting.get(name) != 0:
            player.play(held, lasting.get(name, float(minutes)))


if __name__ == "__main__":
    main()
