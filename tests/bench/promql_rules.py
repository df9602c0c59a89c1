"""What can be said in PromQL of the analyzer's rules, as recording rules: each line's expression is recorded under its name, and
later lines read it. Values are shares of a minute, by GPU (`UUID`), `owner` and `instance`. Thresholds are the analyzer's.

Not said here, for PromQL has no word for it or needs far more: lost_work, straggler, gang_wait, cross_numa, timeslice_gap,
stranded_mig, feeding_unsplit, what XIDs tell of `down`, power spinning, sharing out between rules that do not explain each other,
energy and evidence by class, advisories, standings of nodes, forecasts. So this is less than the analyzer does.
"""

JOIN = "* on (instance, owner) group_left ()"


def at_most(what, limit, on):
    """The smaller of two, by GPU, where the second is there; it is of an owner or a node."""
    join = f"on ({on}) group_left ()"
    return f"(({what}) <= {join} ({limit})) or (0 * ({what}) + {join} ({limit}))"


def throughout(condition, minutes):
    """Is the minute one of `minutes` in a row that fulfil the condition?"""
    return f"max_over_time(min_over_time(({condition})[{minutes}m:1m])[{minutes}m:1m] offset -{minutes - 1}m) == 1"


def around(name, quantile):
    """Of the half hour before and that after."""
    return f"quantile_over_time({quantile}, {name}[1h] offset -30m)"


def of_owner(name, labels="", window="1m"):
    return f"rate(goodput_cgroup_{name}_total{{{labels}}}[{window}])"


IO, CPU, MEMORY = (of_owner("pressure_waiting_seconds", f'resource="{kind}"') for kind in ("io", "cpu", "memory"))
ON_JOB, ON_NODE = "instance, owner", "instance"
# What explains it comes first; each takes from what those before it left.
FEEDING = [
    ("memory_pressure", ON_JOB,
     f"({MEMORY} >= 0.1) and on (instance, owner) (sum by (instance, owner) ({of_owner('refault_pages')}) >= 100"
     f" or {of_owner('major_faults')} >= 500)"),
    ("thp_compaction", ON_JOB,
     f"({MEMORY} >= 0.1) and on (instance) (rate(goodput_compaction_stalls_total[1m]) >= 10"
     " > on (instance) rate(goodput_memory_reclaim_stalls_total[1m]))"),
    ("cpu_throttled", ON_JOB,
     f"{of_owner('cpu_throttled_seconds')} and on (instance, owner) ({of_owner('cpu_throttled_periods')} / on (instance, owner)"
     f" {of_owner('cpu_periods')} >= 0.25)"),
    ("irq_placement", ON_JOB,
     "(rate(goodput_irq_owner_cpus_interrupts_total[1m]) / on (instance) group_left () rate(goodput_irq_movable_interrupts_total[1m])"
     " * on (instance) group_left () sum by (instance) (rate(goodput_cpu_seconds_total[1m])) >= 0.1)"
     f" and on (instance, owner) ({CPU} >= 0.2)"),
    ("host_noise", ON_JOB,
     f"({CPU} - on (instance, owner) {of_owner('cpu_throttled_seconds')} >= 0.2)"
     " and on (instance, owner) (goodput:cpu_ratio < 0.85)"),
    ("steal", ON_NODE,
     'sum by (instance) (rate(goodput_node_cpu_seconds_total{mode="steal"}[1m])) / on (instance)'
     ' sum by (instance) (rate(goodput_node_cpu_seconds_total{mode=~"user|nice|system|irq|softirq|steal"}[1m])) >= 0.1'),
    ("checkpoint", ON_JOB,
     "goodput:written >= 5e7 and goodput:written >= 3 * quantile_over_time(0.5, goodput:written[40m] offset -20m)"),
    ("dataloader_storage", ON_JOB, f"({IO} >= 0.1) and on (instance, owner) (goodput:cpu_ratio <= 0.5)"),
    ("dataloader_cpu", ON_JOB, f"(goodput:cpu_ratio >= 0.85) or on (instance, owner) ({CPU} >= 0.2)"),
    ("pcie_degraded", "UUID",
     "goodput:copying * on (UUID) (1 - max_over_time(DCGM_FI_DEV_PCIE_LINK_WIDTH[5m]) / on (UUID) DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH) > 0"),
    ("host_to_device", "UUID", "goodput:copying >= 0.1"),
]


def rules():
    """Name and expression of every rule, in order."""
    yield "busy", "sum by (instance, UUID) (rate(goodput_gpu_busy_seconds_total[1m])) / " \
        "sum by (instance, UUID) (rate(goodput_gpu_observed_seconds_total[1m]))"
    # A GPU that is not held has no `owner`.
    yield "owned", "goodput:busy * on (instance, UUID) group_left (owner) max by (instance, UUID, owner) (goodput_gpu_owner_info)"
    yield "down", 'max by (instance, UUID) (goodput_gpu_state{state="lost"}) == 1'
    free = "(1 - goodput:busy unless on (UUID) goodput_gpu_owner_info) unless on (UUID) goodput:down"
    cordoned = 'label_replace(kube_node_spec_unschedulable == 1, "instance", "$1:9400", "node", "(.*)")'
    yield "maintenance", f"({free}) and on (instance) {cordoned}"
    yield "unallocated", f"({free}) unless on (UUID) goodput:maintenance"
    yield "cpu_ratio", f"{of_owner('cpu_usage_seconds')} / on (instance, owner) (goodput_cgroup_cpu_limit_cores " \
        "or on (instance, owner) goodput_cgroup_allowed_cpus)"
    yield "written", of_owner("io_written_bytes")
    yield "copying", "sum by (instance, UUID) (avg_over_time(DCGM_FI_PROF_PCIE_RX_BYTES[1m])) / 6e9"
    # What lowered clocks cost of the busy time: the clocks of GPUs of the node that work and are not held down.
    yield "hot", 'sum by (instance, UUID) (rate(goodput_gpu_clock_event_seconds_total{reason=~".*thermal"}[1m]))'
    yield "capped", 'sum by (instance, UUID) (rate(goodput_gpu_clock_event_seconds_total{reason="power_cap"}[1m])) and on (UUID)' \
        " (DCGM_FI_DEV_ENFORCED_POWER_LIMIT < on (UUID) 0.98 * DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF)"
    yield "clock", "max by (instance, UUID) (avg_over_time(DCGM_FI_DEV_SM_CLOCK[1m])) and on (UUID) goodput:owned >= 0.5"
    yield "free_clock", "(goodput:clock unless on (UUID) goodput:hot > 0) unless on (UUID) goodput:capped > 0"
    yield "usual_clock", f"quantile by (instance) (0.5, {around('goodput:free_clock', 0.5)})"
    slow = "(1 - goodput:clock / on (instance) group_left () goodput:usual_clock)"
    yield "thermal_throttle", f"goodput:owned * on (UUID) group_left () ({at_most(slow, 'goodput:hot > 0', 'UUID')})"
    yield "power_throttle", f"goodput:owned * on (UUID) group_left () ({at_most(slow, 'goodput:capped > 0', 'UUID')})"
    still = "max_over_time(goodput:clock[2m]) - min_over_time(goodput:clock[2m]) <= 15"
    yield "clock_locked", f"goodput:owned * on (UUID) group_left () ((({slow} > 0.05 and on (UUID) ({still}))" \
        " unless on (UUID) goodput:hot > 0) unless on (UUID) goodput:capped > 0)"
    # Kernels that are less than usual while the GPU is busy: another rank, or launching, is waited for.
    yield "depth", "avg by (instance, UUID) (avg_over_time(DCGM_FI_PROF_SM_ACTIVE[1m])) / on (instance, UUID) goodput:owned > 0.05"
    yield "drawn", "sum by (instance, UUID) (rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[1m])) / 1000"
    yield "deep", around("goodput:depth", 0.9)
    yield "high", around("goodput:drawn", 0.9)
    yield "per_gpu", f"{of_owner('cpu_usage_seconds')} / on (instance, owner) count by (instance, owner) (goodput:owned)"
    lower = "(1 - goodput:drawn / on (UUID) goodput:high)"
    shallow = "((1 - goodput:depth / on (UUID) goodput:deep) >= 0.15)"
    waits = f"goodput:owned * on (UUID) group_left () ({at_most(shallow, f'{lower} >= 0.15', 'UUID')})"
    launches = "goodput:per_gpu - on (instance, owner) quantile_over_time(0.5, goodput:per_gpu[1h] offset -30m) >= 0.75"
    yield "launch_bound", f"({waits}) and on (instance, owner) ({launches})"
    yield "collective_wait", f"({waits}) unless on (UUID) goodput:launch_bound"
    derates = ["thermal_throttle", "power_throttle", "clock_locked", "launch_bound", "collective_wait"]
    less = "".join(f" - on (UUID, owner, instance) (goodput:{name} or on (UUID, owner, instance) 0 * goodput:owned)" for name in derates)
    yield "productive", f"clamp_min(goodput:owned{less}, 0)"
    # Phases: a minute has one, which takes all that was not busy.
    yield "at_rest", "goodput:owned <= bool 0.01"
    yield "idle", throughout("goodput:at_rest", 5).replace("((goodput:at_rest)[5m:1m])", "(goodput:at_rest[5m])")
    # No earlier work by this owner within the longest start, and not held by it throughout.
    started = "count_over_time(goodput:owned[20m]) < 20 and max_over_time(goodput:owned[20m]) < 0.05"
    yield "cold_start", f"((1 - goodput:owned) and ({started})) and on (UUID) present_over_time(goodput:busy[20m] offset 1m)"
    used = "max_over_time(goodput:owned[40m] offset -20m)"
    others = f"on (instance, owner) group_left () (max by (instance, owner) ({used}) > 0.01)"
    yield "partial_allocation", f"((1 - goodput:owned) and ({used} <= 0.01 and goodput:idle) and {others})" \
        .replace("group_left () ", "") + " unless goodput:cold_start"
    open_requests = '(sum by (owner) ({__name__=~"vllm:num_requests_(running|waiting)"}) == 0)'
    yield "no_demand", f"((1 - goodput:owned) and goodput:idle and on (owner) {open_requests}) unless goodput:cold_start"
    bursts = "count_over_time((goodput:owned >= 0.02)[10m:1m] offset -5m) >= 3"
    quiet = "(goodput:drawn - 115) / 585 <= 0.085 and on (UUID) " + throughout("goodput:owned <= bool 0.15", 5)
    yield "keep_alive", f"(1 + 0 * goodput:owned and ({bursts})) and on (UUID) ({quiet})"
    phases = "unless goodput:cold_start unless goodput:partial_allocation unless goodput:no_demand unless goodput:keep_alive"
    yield "idle_held", f"((1 - goodput:owned) and goodput:idle) {phases}"
    yield "left", f"(1 - goodput:owned) {phases} unless goodput:idle_held"
    left = "goodput:left"
    for name, on, claim in FEEDING:
        yield name, at_most(left, claim, on)
        yield f"left_by_{name}", f"({left} - goodput:{name}) or {left}"
        left = f"goodput:left_by_{name}"
    yield "unexplained", f"{left} > 0"


CLASSES = [
    "down", "maintenance", "unallocated", "thermal_throttle", "power_throttle", "clock_locked", "launch_bound", "collective_wait",
    "productive", "cold_start", "partial_allocation", "no_demand", "keep_alive", "idle_held", *(name for name, _, _ in FEEDING),
    "unexplained",
]
