use std::time::{Duration, Instant};

use goodput_exporter::collect::Collector;

use crate::support::{Collected, Machine, collector};

/// Process 10 holds a GPU; even CPUs are on node 0, odd ones on node 1.
fn machine() -> Machine {
    let mut machine = Machine::empty();
    machine.write("sys/devices/system/node/node0/cpulist", "0,2\n");
    machine.write("sys/devices/system/node/node1/cpulist", "1,3\n");
    machine.write("proc/10/cgroup", "0::/lab/job\n");
    machine.gpu("00000000:1A:00.0", &[10]);
    machine
}

/// A thread with this many ticks in the kernel and as many in user mode.
fn thread(machine: &Machine, tid: u32, ticks: u64, cpu: u32) {
    let zeros = "0 ".repeat(16);
    let text = format!("{tid} (a b) R 1 1 1 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0 1 0 500 {zeros}{cpu} 0 0\n");
    machine.write(&format!("proc/10/task/{tid}/stat"), &text);
    machine.write(&format!("proc/10/task/{tid}/children"), "");
}

fn scrape(machine: &Machine, placement: &mut dyn Collector, at: Instant) -> Collected {
    machine.collect_at(placement, at).ok()
}

fn seconds(collected: &Collected) -> [f64; 2] {
    [0, 1].map(|node| {
        let labels = format!("{{owner=\"/lab/job\",node=\"{node}\"}}");
        collected.value(&format!("goodput_process_numa_cpu_estimated_seconds_total{labels}"))
    })
}

#[test]
fn time_goes_to_where_threads_are_found() {
    let (machine, begin) = (machine(), Instant::now());
    let mut placement = collector("placement");
    thread(&machine, 10, 1000, 0);
    thread(&machine, 11, 1000, 1);
    assert_eq!(seconds(&scrape(&machine, placement.as_mut(), begin)), [0.0, 0.0], "nobody knows where that was");
    thread(&machine, 10, 1100, 2);
    thread(&machine, 11, 4000, 3);
    thread(&machine, 12, 9000, 0);
    let early = scrape(&machine, placement.as_mut(), begin + Duration::from_secs(59));
    assert_eq!(seconds(&early), [0.0, 0.0], "once a minute");
    let minute = scrape(&machine, placement.as_mut(), begin + Duration::from_secs(60));
    assert_eq!(seconds(&minute), [2.0, 60.0], "the third thread was not there before");
    std::fs::remove_dir_all(machine.path("proc/10/task/11")).unwrap();
    thread(&machine, 10, 1150, 1);
    let later = scrape(&machine, placement.as_mut(), begin + Duration::from_secs(120));
    assert_eq!(seconds(&later), [2.0, 61.0]);
}

#[test]
fn only_the_busiest_threads_count_and_not_all_are_read() {
    let (machine, begin) = (machine(), Instant::now());
    let mut placement = collector("placement");
    for tid in 10..1110 {
        thread(&machine, tid, 0, 0);
    }
    let first = scrape(&machine, placement.as_mut(), begin);
    assert_eq!(first.value("goodput_process_numa_skipped_threads"), 76.0);
    for tid in 10..1110 {
        thread(&machine, tid, if tid < 410 { 50 } else { 5 }, 1);
    }
    let second = scrape(&machine, placement.as_mut(), begin + Duration::from_secs(60));
    assert_eq!(seconds(&second), [0.0, 256.0]);
}

#[test]
fn a_bad_file_of_one_thread_leaves_the_others() {
    let (machine, begin) = (machine(), Instant::now());
    let mut placement = collector("placement");
    thread(&machine, 10, 0, 1);
    machine.collect_at(placement.as_mut(), begin).ok();
    thread(&machine, 10, 50, 1);
    thread(&machine, 11, 50, 1);
    machine.write("proc/10/task/11/stat", "11 (a) R\n");
    let collected = machine.collect_at(placement.as_mut(), begin + Duration::from_secs(60)).ok();
    let error = collected.left();
    assert!(error.contains("task/11/stat: line 1"), "{error}");
    assert_eq!(seconds(&collected), [0.0, 1.0]);
}
