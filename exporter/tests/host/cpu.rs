use std::time::{Duration, Instant};

use crate::support::{Machine, collector, facts, oracle};

#[test]
fn agrees_with_node_exporter() {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    let collected = machine.collect("cpu").ok();
    let expected = oracle();
    for (ours, theirs) in [
        ("goodput_cpu_context_switches_total", "node_context_switches_total"),
        ("goodput_cpu_forks_total", "node_forks_total"),
        ("goodput_cpu_tasks_running", "node_procs_running"),
        ("goodput_cpu_tasks_blocked", "node_procs_blocked"),
        ("goodput_cpu_load{minutes=\"1\"}", "node_load1"),
        ("goodput_cpu_load{minutes=\"5\"}", "node_load5"),
        ("goodput_cpu_load{minutes=\"15\"}", "node_load15"),
    ] {
        assert_eq!(collected.value(ours), expected[theirs], "{ours}");
    }
    let sum = |metric: &str, labels: &str| -> f64 {
        let of = |cpu: u32| expected.get(&format!("{metric}{{cpu=\"{cpu}\"{labels}}}"));
        (0..8).filter_map(of).sum()
    };
    for mode in ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"] {
        let ours = collected.value(&format!("goodput_cpu_seconds_total{{mode=\"{mode}\"}}"));
        let theirs = sum("node_cpu_seconds_total", &format!(",mode=\"{mode}\""));
        assert!((ours - theirs).abs() < 1e-6, "{mode}: {ours} {theirs}");
    }
    let theirs = sum("node_schedstat_waiting_seconds_total", "");
    assert!((collected.value("goodput_cpu_run_delay_seconds_total") - theirs).abs() < 1e-3, "{theirs}");
    assert_eq!(collected.count("goodput_cpu_governor_policies"), 0, "not recorded");
}

#[test]
fn the_cpu_with_most_time_in_softirqs() {
    let machine = Machine::empty();
    let mut cpu = collector("cpu");
    machine.write("proc/stat", "cpu  0 0 0 0 0 0 400 0\ncpu0 0 0 0 0 0 0 300 0\ncpu1 0 0 0 0 0 0 100 0\n");
    machine.collect_with(cpu.as_mut()).ok();
    machine.write("proc/stat", "cpu  0 0 0 0 0 0 610 0\ncpu0 0 0 0 0 0 0 310 0\ncpu1 0 0 0 0 0 0 300 0\n");
    let collected = machine.collect_with(cpu.as_mut()).ok();
    assert_eq!(collected.value("goodput_cpu_busiest_softirq_seconds_total"), 5.0, "3 s of CPU 0, then 2 s of CPU 1");
}

/// A recorded 2-socket server: every frequency policy and the idle states of these CPUs, with the files of `/proc` that
/// were not recorded.
fn server(fixture: &str, cpus: &[u32]) -> Machine {
    let idle = cpus.iter().map(|cpu| format!("sys/devices/system/cpu/cpu{cpu}/cpuidle"));
    let parts: Vec<String> =
        ["proc/cpuinfo", "sys/devices/system/cpu/cpufreq"].map(str::to_owned).into_iter().chain(idle).collect();
    let machine = Machine::recorded(fixture, &parts.iter().map(String::as_str).collect::<Vec<_>>());
    let nodes = facts(fixture)["nodes"].clone();
    for (node, cpus) in nodes.as_object().unwrap() {
        machine.write(&format!("sys/devices/system/node/{node}/cpulist"), cpus.as_str().unwrap());
    }
    machine.write("proc/stat", "cpu  3 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1 1\ncpu71 2 0 0 0 0 0 0 0\n");
    machine
}

#[test]
fn power_saving_on_144_cpus() {
    let machine = server("cpu-power-2s-icelake-powersave", &[0, 36, 107, 143]);
    let collected = machine.collect("cpu").ok();
    let facts = facts("cpu-power-2s-icelake-powersave");
    let policies = facts["governors"]["powersave"].as_f64().unwrap();
    assert_eq!(collected.value("goodput_cpu_governor_policies{governor=\"powersave\"}"), policies);
    assert_eq!(collected.count("goodput_cpu_governor_policies"), 1);
    assert_eq!(collected.value("goodput_cpu_seconds_total{mode=\"user\",node=\"0\"}"), 0.01);
    assert_eq!(collected.value("goodput_cpu_seconds_total{mode=\"user\",node=\"1\"}"), 0.02);
    // Summed from the files themselves; CPUs 0 and 107 are on node 0.
    for state in facts["idle_states_cpu0"].as_object().unwrap().iter() {
        let (folder, name) = (state.0, state.1["name"].as_str().unwrap());
        for (node, cpus) in [("0", [0, 107]), ("1", [36, 143])] {
            let time = |cpu: u32| -> u64 {
                let path = machine.path(&format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/{folder}/time"));
                std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
            };
            let expected = cpus.map(time).iter().sum::<u64>() as f64 / 1e6;
            let series = format!("goodput_cpu_idle_state_seconds_total{{state=\"{name}\",node=\"{node}\"}}");
            assert_eq!(collected.value(&series), expected, "{series}");
        }
    }
    for node in [0, 1] {
        let clock = |statistic| {
            collected.value(&format!("goodput_cpu_frequency_ratio{{statistic=\"{statistic}\",node=\"{node}\"}}"))
        };
        let [min, mean, max] = ["min", "mean", "max"].map(clock);
        assert!(0.0 < min && min <= mean && mean <= max && max <= 1.1, "{min} {mean} {max}");
        assert_eq!(collected.value(&format!("goodput_cpu_max_frequency_hertz{{node=\"{node}\"}}")), 3.5e9);
    }
}

#[test]
fn performance_on_256_cpus_makes_no_more_series() {
    let collected = server("cpu-power-2s-turin-performance", &[0, 255]).collect("cpu").ok();
    assert_eq!(collected.value("goodput_cpu_governor_policies{governor=\"performance\"}"), 256.0);
    assert_eq!(collected.count("goodput_cpu_idle_state_seconds_total"), 6, "three states on two nodes");
    assert!(collected.families.samples() < 50, "{}", collected.families.samples());
}

#[test]
fn power_is_read_once_a_minute() {
    let machine = Machine::empty();
    machine.write("proc/stat", "cpu  1 1\ncpu0 1 1\n");
    machine.write("sys/devices/system/cpu/smt/active", "1\n");
    let mut collector = collector("cpu");
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    machine.collect_at(collector.as_mut(), start).ok();
    machine.write("sys/devices/system/cpu/smt/active", "0\n");
    machine.write("proc/stat", "cpu  5 1\ncpu0 5 1\n");
    let soon = machine.collect_at(collector.as_mut(), start + 59 * second).ok();
    assert_eq!(soon.value("goodput_cpu_smt_active"), 1.0);
    assert_eq!(soon.value("goodput_cpu_seconds_total{mode=\"user\"}"), 0.05, "the rest is read at every scrape");
    assert_eq!(machine.collect_at(collector.as_mut(), start + 60 * second).ok().value("goodput_cpu_smt_active"), 0.0);
}

#[test]
fn what_the_kernel_does_not_say_is_absent() {
    let machine = Machine::empty();
    machine.write("proc/stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\n");
    machine.write("sys/devices/system/cpu/nohz_full", " (null)\n");
    let collected = machine.collect("cpu").ok();
    assert_eq!(collected.count("goodput_cpu_seconds_total"), 4, "an old kernel has four modes");
    assert_eq!(collected.value("goodput_cpu_tickless_cpus"), 0.0);
    for absent in ["isolated_cpus", "smt_active", "load", "run_delay_seconds_total", "tasks_running", "frequency_ratio"]
    {
        assert_eq!(collected.count(&format!("goodput_cpu_{absent}")), 0, "{absent}");
    }
}

#[test]
fn what_could_not_be_read_is_tried_again() {
    let machine = Machine::empty();
    machine.write("proc/stat", "cpu  1 1\ncpu0 1 1\n");
    machine.write("sys/devices/system/cpu/smt/active", "on\n");
    let mut collector = collector("cpu");
    let begin = Instant::now();
    let collected = machine.collect_at(collector.as_mut(), begin).ok();
    assert!(collected.left().contains("smt/active: line 1"), "{}", collected.left());
    assert_eq!(collected.count("goodput_cpu_smt_active"), 0);
    machine.write("sys/devices/system/cpu/smt/active", "1\n");
    let later = machine.collect_at(collector.as_mut(), begin + Duration::from_secs(60)).ok();
    assert_eq!(later.value("goodput_cpu_smt_active"), 1.0);
}
