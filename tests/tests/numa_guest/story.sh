#!/bin/sh
# Runs as root in the two-node guest, in the folder that it shares with the test: the real exporter over two fake GPUs,
# 22:00.0 on node 0 and 42:00.0 on node 1. Leaves in out/ what the exporter answered and what the kernel counted.
#   BEGIN    what the clock shows when the first phase begins, in seconds since 1970
#   MINUTES  how long each phase lasts
set -eu
EVENTS=/tmp/gpus.jsonl
OWNER=/sys/fs/cgroup/train.service
export METRICS=http://127.0.0.1:9400/metrics OUT=$PWD/out
mkdir "$OUT" "$OWNER"
cp gpus.jsonl "$EVENTS"

# Milliseconds since 1970. busybox's date knows seconds only, so what it sets is the origin of the uptime.
uptime_ms() { read -r up _ </proc/uptime; echo "${up%.*}${up#*.}0"; }
now_ms() { echo $(($(uptime_ms) + origin_ms)); }

start_exporter() {
    FAKE_NVML=$EVENTS ./goodput-exporter --nvml.library="$PWD/libfake_nvml.so" --web.listen-address=127.0.0.1:9400 "$@" \
        >>"$OUT/exporter.log" 2>&1 &
    exporter=$!
    until wget -q -O "$OUT/start" "$METRICS" 2>/dev/null; do
        kill -0 $exporter || { cat "$OUT/exporter.log" >&2; exit 1; }
        sleep 0.2
    done
}

# The interrupts of node 1's NIC, steered to a CPU of node 0 and home again, with traffic: before, after, home.
start_exporter --collector.cgroup.include='/job-*'
sh /scenarios/irq-affinity.sh >/dev/null
# Limits that bite, of cgroups that hold no GPU: a CPU quota, reclaim at the memory limit, an OOM kill. Both cgroups stay;
# the exporter answers within a second from its last reading. How much of it there is depends on the host's load, which
# the scenarios' own checks do not know.
SECONDS_TO_BURN=4 sh /scenarios/cpu-throttle.sh >/dev/null || true
sh /scenarios/memory-oom.sh >/dev/null || true
sleep 2
wget -q -O "$OUT/limits.prom" "$METRICS"
kill $exporter
wait $exporter

# The job's data: two batches of 1 MiB.
dd if=/dev/zero of=/scratch/batches bs=1M count=2 2>/dev/null
mkfifo /tmp/open

# start GPU CPUS DECODE_MS: a process of the owner on these CPUs that works on the GPU for a second per batch, and one
# that holds 64 MiB as well. Their pids are in pids.GPU.
start() {
    for program in "./gpu-job $EVENTS $1 /scratch/batches 1048576 $3 1000" "touchmem --mib 64 --hold 100000 --advise nohuge"; do
        # shellcheck disable=SC2086
        sh -c 'echo $$ >"$0/cgroup.procs"; exec taskset -c "$@"' "$OWNER" "$2" $program <>/tmp/open >>"$OUT/jobs.log" 2>&1 &
        echo $!
    done >"/tmp/pids.$1"
}

# stop GPU: ends both, and tells the driver, which would notice by itself.
stop() {
    # shellcheck disable=SC2046
    set -- "$1" $(cat "/tmp/pids.$1")
    kill "$2" "$3"
    wait "$2" "$3" || true
    echo "{\"exit\":{\"gpu\":$1,\"pid\":$2,\"at_us\":$(now_ms)000}}" >>"$EVENTS"
}

# phase NAME: scrapes every ten seconds for MINUTES.
phase() {
    from=$(now_ms)
    until [ "$(date +%s)" -ge $((BEGIN + MINUTES * 60)) ]; do
        at=$(now_ms)
        wget -q -O "$OUT/scrape" "$METRICS" && mv "$OUT/scrape" "$OUT/$at.prom"
        sleep $((10 - $(date +%s) % 10))
    done
    BEGIN=$((BEGIN + MINUTES * 60))
    echo "$1 $from $(now_ms)" >>"$OUT/phases"
}

date -u -s "@$BEGIN" >/dev/null
origin_ms=$((BEGIN * 1000 - $(uptime_ms)))

start_exporter
start 0 0-1 100
start 1 2-3 100
phase on-node
stop 1
start 1 0-1 100
phase off-node
stop 1
start 1 0-1 2000
phase off-node-waiting
stop 1
stop 0
kill $exporter
wait $exporter
