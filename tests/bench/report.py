"""What was measured, as tables and JSON, and what our targets make of it."""

import json

# Scenario, whose figure, against whose, which, and what it may be at most.
TARGETS = [
    ("GPUs", "goodput, GPU half", "nvitop-exporter", "cpu_ms_per_interval", 1 / 10),
    ("GPUs", "goodput, GPU half", "all-smi", "cpu_ms_per_interval", 1 / 2),
    ("GPUs", "goodput, whole", "nvitop-exporter", "cpu_ms_per_interval", None),
    ("GPUs", "goodput, whole", "all-smi", "cpu_ms_per_interval", None),
    ("host", "goodput, equal set", "node_exporter, equal set", "cpu_ms_per_scrape", 1 / 3),
    ("host", "goodput, equal set", "node_exporter, equal set", "rss_mib", 1 / 2),
    ("host", "goodput, equal set", "node_exporter, equal set", "p99_ms", 1 / 2),
    ("host", "goodput, without interrupts", "node_exporter, without interrupts", "cpu_ms_per_scrape", None),
    ("host", "goodput, without interrupts", "node_exporter, without interrupts", "rss_mib", None),
    ("host", "goodput, without interrupts", "node_exporter, without interrupts", "p99_ms", None),
    ("host", "goodput, defaults", "node_exporter, defaults", "cpu_ms_per_scrape", None),
    ("host", "goodput, defaults", "node_exporter, defaults", "rss_mib", None),
    ("host", "goodput, defaults", "node_exporter, defaults", "p99_ms", None),
    ("release", "goodput", "goodput, before", "cpu_ms_per_scrape", None),
    ("release", "goodput", "goodput, before", "cpu_ms_per_interval", None),
    ("release", "goodput", "goodput, before", "rss_mib", None),
]

# Scenario, whose figure, which, and what it may be at most: promises that need no peer.
LIMITS = [
    ("8 GPUs", "goodput, whole", "nvml_calls_per_s", 40),
    ("8 GPUs, 200 pods, 10,000 scrapes", "goodput, whole", "rss_mib", 32),
    ("8 GPUs, 200 pods, 10,000 scrapes", "goodput, whole", "rss_reloaded_mib", 32),
    ("8 GPUs, one hangs", "goodput, whole", "p99_ms", 5),
    ("8 GPUs, one hangs", "goodput, whole", "back_to_back_p99_ms", 5),
]


def verdicts(rows):
    """Each target with what was measured."""
    of = {(row["scenario"], row["program"]): row for row in rows}
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    for kind, ours, theirs, figure, target in TARGETS:
        for scenario in scenarios:
            mine, other = of.get((scenario, ours)), of.get((scenario, theirs))
            if kind in scenario and mine and other and mine.get(figure) is not None and other.get(figure):
                yield verdict(scenario, ours, theirs, figure, mine[figure] / other[figure], target)
    for scenario, ours, figure, target in LIMITS:
        row = of.get((scenario, ours), {})
        if figure in row:
            yield verdict(scenario, ours, None, figure, row[figure], target)


def verdict(scenario, ours, theirs, figure, value, target):
    met = None if target is None else value <= target
    names = {"scenario": scenario, "program": ours, "against": theirs, "figure": figure}
    return names | {"value": value, "target": target, "met": met}


def table(rows):
    """Columns of what any of the rows has."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "scenario"))
    cells = [columns] + [[cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    for name, *figures in cells:
        print("  ".join(["", name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(figures, widths[1:]))]))


def cell(value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "met" if value else "MISSED"
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 1 else f"{value:,.2f}"
    return str(value)


def show(rows, skipped, about, as_json):
    """Writes it to standard output."""
    judged = list(verdicts(rows))
    if as_json:
        about = about | {"not_measured": sorted(skipped)}
        for line in [{"conditions": about}, *({"measured": row} for row in rows), *({"verdict": row} for row in judged)]:
            print(json.dumps(line))
        return
    print(f"{about['cpus']} CPUs, Linux {about['kernel']}, load {about['load1']}; {about['versions']}")
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        print(f"\n{scenario}")
        table([row for row in rows if row["scenario"] == scenario])
    print("\nratios and limits")
    for row in judged:
        against = f" / {row['against']}" if row["against"] else ""
        target = "" if row["target"] is None else f"  (at most {row['target']:.3g}: {cell(row['met'])})"
        print(f"  {row['scenario']}: {row['figure']} of {row['program']}{against} = {row['value']:.3g}{target}")
    for reason in sorted(skipped):
        print(f"  not measured: {reason}")
