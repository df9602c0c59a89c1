use goodput_exporter::collect::Done;

use crate::support::{Collected, Machine, collector};

/// A process's counts, one step apart in every figure.
struct Process {
    pid: u32,
    state: char,
    start: u64,
    count: u64,
    children: &'static str,
}

impl Process {
    fn new(pid: u32, children: &'static str) -> Self {
        Self { pid, state: 'S', start: 100, count: 1000, children }
    }

    fn write(&self, machine: &Machine) {
        let Self { pid, state, start, count, children } = self;
        let c = |step: u64| count + step;
        for (file, text) in [
            ("cgroup", "0::/lab/job\n".to_owned()),
            (
                "stat",
                format!(
                    "{pid} (a (b) c) {state} 1 1 1 0 -1 0 {} 7 {} 7 {} {} 7 7 20 0 3 0 {start} 1 1",
                    c(1),
                    c(2),
                    c(100),
                    c(200)
                ),
            ),
            ("schedstat", format!("7 {} 7\n", c(5_000_000_000))),
            ("status", format!("voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n", c(6), c(7))),
            ("io", format!("rchar: {}\nwchar: 1\nread_bytes: {}\nwrite_bytes: {}\n", c(10), c(8), c(9))),
            ("limits", format!("Max locked memory         {}              unlimited            bytes\n", pid * 1024)),
            ("oom_score", format!("{}\n", 600 + pid)),
            (&format!("task/{pid}/children"), format!("{children}\n")),
        ] {
            machine.write(&format!("proc/{pid}/{file}"), &text);
        }
    }
}

fn machine(processes: &[Process], gpu: &[u32]) -> Machine {
    let mut machine = Machine::empty();
    machine.write("proc/uptime", "100.00 200.00\n");
    for process in processes {
        process.write(&machine);
    }
    machine.gpu("00000000:1A:00.0", gpu);
    machine
}

#[track_caller]
fn expect(collected: &Collected, series: &[(&str, f64)]) {
    for (name, expected) in series {
        let series = match name.split_once('{') {
            Some((name, labels)) => format!("goodput_process_{name}{{owner=\"/lab/job\",{labels}"),
            None => format!("goodput_process_{name}{{owner=\"/lab/job\"}}"),
        };
        assert_eq!(collected.value(&series), *expected, "{series}");
    }
}

#[test]
fn a_job_and_its_workers() {
    let blocked = Process { state: 'D', ..Process::new(11, "13") };
    let running = Process { state: 'R', ..Process::new(12, "") };
    let processes = [Process::new(10, "11 12"), blocked, running, Process::new(13, ""), Process::new(20, "")];
    let machine = machine(&processes, &[10, 20]);
    let collected = machine.collect("process").ok();
    expect(
        &collected,
        &[
            ("count", 5.0),
            ("workers", 3.0),
            ("threads", 15.0),
            ("state{state=\"running\"}", 1.0),
            ("state{state=\"sleeping\"}", 3.0),
            ("state{state=\"uninterruptible\"}", 1.0),
            ("cpu_seconds_total{mode=\"user\"}", 0.0),
            ("memlock_limit_bytes", 10_240.0),
            ("oom_score", 620.0),
        ],
    );
    assert_eq!(collected.value("goodput_process_skipped"), 0.0);
    assert_eq!(collected.value("goodput_process_io_denied"), 0.0);
}

#[test]
fn counters_grow_by_what_was_used_since_the_scrape_before() {
    let machine = machine(&[Process::new(10, "")], &[10]);
    let mut collector = collector("process");
    machine.collect_with(collector.as_mut()).ok();
    Process { count: 1_000 + 300, ..Process::new(10, "11 12") }.write(&machine);
    Process { start: 10_000, count: 50, ..Process::new(11, "") }.write(&machine);
    Process { start: 9_000, count: 777, ..Process::new(12, "") }.write(&machine);
    let collected = machine.collect_with(collector.as_mut()).ok();
    // 300 of the first, all of the one that began since, nothing of the one that is older and new here.
    expect(
        &collected,
        &[
            ("cpu_seconds_total{mode=\"user\"}", (300.0 + 150.0) / 100.0),
            ("cpu_seconds_total{mode=\"system\"}", (300.0 + 250.0) / 100.0),
            ("holders_cpu_seconds_total", (300.0 + 300.0) / 100.0),
            ("page_faults_total{kind=\"minor\"}", 351.0),
            ("page_faults_total{kind=\"major\"}", 352.0),
            ("run_delay_seconds_total", (300.0 + 5_000_000_050.0) / 1e9),
            ("context_switches_total{kind=\"voluntary\"}", 356.0),
            ("context_switches_total{kind=\"involuntary\"}", 357.0),
            ("storage_read_bytes_total", 358.0),
            ("storage_written_bytes_total", 359.0),
            ("read_bytes_total", 360.0),
        ],
    );
    std::fs::remove_dir_all(machine.path("proc/11")).unwrap();
    let ended = machine.collect_with(collector.as_mut()).ok();
    expect(&ended, &[("cpu_seconds_total{mode=\"user\"}", 4.5), ("count", 2.0)]);
}

#[test]
fn a_worker_is_saturated_that_computed_nearly_all_of_the_time() {
    let machine = machine(&[Process::new(10, "11 12"), Process::new(11, ""), Process::new(12, "")], &[10]);
    let mut collector = collector("process");
    let first = machine.collect_with(collector.as_mut()).ok();
    assert_eq!(first.count("goodput_process_saturated_workers"), 0, "nothing is known of the time before");
    // In these ten seconds each uses twice as many ticks as the count grows by.
    machine.write("proc/uptime", "110.00 200.00\n");
    Process { count: 1_000 + 500, ..Process::new(10, "11 12 13") }.write(&machine);
    Process { count: 1_000 + 424, ..Process::new(11, "") }.write(&machine);
    Process { count: 1_000 + 425, ..Process::new(12, "") }.write(&machine);
    Process { start: 10_500, count: 500, ..Process::new(13, "") }.write(&machine);
    let collected = machine.collect_with(collector.as_mut()).ok();
    expect(&collected, &[("workers", 3.0), ("saturated_workers", 1.0)]);
}

#[test]
fn what_the_kernel_does_not_count_is_absent() {
    let machine = machine(&[Process::new(10, "")], &[10]);
    machine.write("proc/10/schedstat", "0 0 0\n");
    for file in ["io", "oom_score", "status", "task/10/children"] {
        std::fs::remove_file(machine.path(&format!("proc/10/{file}"))).unwrap();
    }
    machine.write("proc/10/limits", "Max locked memory         unlimited            unlimited            bytes\n");
    let collected = machine.collect("process").ok();
    expect(&collected, &[("count", 1.0), ("page_faults_total{kind=\"major\"}", 0.0)]);
    for absent in [
        "workers",
        "run_delay_seconds_total",
        "context_switches_total",
        "storage_read_bytes_total",
        "read_bytes_total",
        "memlock_limit_bytes",
        "oom_score",
    ] {
        assert_eq!(collected.count(&format!("goodput_process_{absent}")), 0, "{absent}");
    }
}

#[test]
fn more_processes_than_are_read_are_counted() {
    let children: String = (1000..1300).map(|pid| format!("{pid} ")).collect();
    let machine = machine(&[Process::new(10, "")], &[10]);
    machine.write("proc/10/task/10/children", &children);
    for pid in 1000..1300 {
        Process::new(pid, "").write(&machine);
    }
    let collected = machine.collect("process").ok();
    expect(&collected, &[("count", 256.0), ("workers", 255.0)]);
    assert_eq!(collected.value("goodput_process_skipped"), 45.0);
}

#[test]
fn a_bad_file_of_one_process_leaves_the_others() {
    let machine = machine(&[Process::new(10, "11"), Process::new(11, "")], &[10]);
    machine.write("proc/10/io", "read_bytes: many\n");
    let collected = machine.collect("process").ok();
    assert!(collected.left().contains("proc/10/io: line 1"), "{}", collected.left());
    expect(&collected, &[("count", 2.0), ("cpu_seconds_total{mode=\"user\"}", 0.0)]);
    assert_eq!(collected.count("goodput_process_storage_read_bytes_total"), 0, "a sum without one is no sum");
}

#[test]
fn io_that_may_not_be_read_is_counted_and_not_zero() {
    let machine = machine(&[Process::new(10, "11"), Process::new(11, "")], &[10]);
    machine.deny("proc/11/io");
    let collected = machine.collect("process").ok();
    assert_eq!(collected.value("goodput_process_io_denied"), 1.0);
    assert_eq!(collected.count("goodput_process_storage_read_bytes_total"), 0);
    expect(&collected, &[("count", 2.0), ("context_switches_total{kind=\"voluntary\"}", 0.0)]);
}

#[test]
fn nobody_on_a_gpu() {
    let collected = machine(&[], &[]).collect("process");
    assert!(matches!(collected.result, Ok(Done::Ok)));
    assert_eq!(collected.families.samples(), 2);
}
