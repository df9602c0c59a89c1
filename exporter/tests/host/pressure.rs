use goodput_exporter::collect::Done;

use crate::support::{Collected, Machine, facts, shared};

fn waiting(collected: &Collected, resource: &str) -> f64 {
    collected.value(&format!("goodput_pressure_waiting_seconds_total{{resource=\"{resource}\"}}"))
}

fn stalled(collected: &Collected, resource: &str) -> f64 {
    collected.value(&format!("goodput_pressure_stalled_seconds_total{{resource=\"{resource}\"}}"))
}

/// The microseconds behind `total=` of a fixture's line.
fn total(line: &serde_json::Value) -> f64 {
    line.as_str().unwrap().rsplit_once("total=").unwrap().1.parse::<f64>().unwrap() / 1e6
}

#[test]
fn interrupts_have_only_full() {
    let machine = Machine::empty();
    for resource in ["cpu", "io", "irq", "memory"] {
        let text = std::fs::read_to_string(shared(&format!("psi-with-irq/proc/pressure/{resource}"))).unwrap();
        machine.write(&format!("proc/pressure/{resource}"), &text);
    }
    let collected = machine.collect("pressure").ok();
    let facts = facts("psi-with-irq");
    for resource in ["cpu", "io", "memory"] {
        assert_eq!(waiting(&collected, resource), total(&facts[resource][0]));
        assert_eq!(stalled(&collected, resource), total(&facts[resource][1]));
    }
    assert_eq!(stalled(&collected, "irq"), total(&facts["irq"][0]));
    assert_eq!(collected.count("goodput_pressure_waiting_seconds_total"), 3);
}

#[test]
fn agrees_with_node_exporter() {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    let collected = machine.collect("pressure").ok();
    let oracle = std::fs::read_to_string(shared("node-exporter-e2e/e2e-output.txt")).unwrap();
    let expected = |metric: &str| -> f64 {
        let line = oracle.lines().find(|line| line.starts_with(&format!("node_pressure_{metric} "))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    for resource in ["cpu", "io", "memory"] {
        let value = expected(&format!("{resource}_waiting_seconds_total"));
        assert!((waiting(&collected, resource) - value).abs() < 1e-9);
    }
    for resource in ["io", "memory", "irq"] {
        let value = expected(&format!("{resource}_stalled_seconds_total"));
        assert!((stalled(&collected, resource) - value).abs() < 1e-9);
    }
    assert_eq!(collected.count("goodput_pressure_stalled_seconds_total"), 3, "full of cpu is a constant 0 there");
    collected.golden("pressure/node-exporter-e2e");
}

#[test]
fn the_kernel_command_line_says_why_there_is_none() {
    let collected = Machine::recorded("sys-2s112-ice-nvme", &["proc/cmdline"]).collect("pressure");
    match collected.result {
        Ok(Done::NotApplicable(why)) => assert!(why.contains("psi=0"), "{why}"),
        other => panic!("{other:?}"),
    }
    match Machine::empty().collect("pressure").result {
        Ok(Done::NotApplicable(why)) => assert!(why.contains("4.20"), "{why}"),
        other => panic!("{other:?}"),
    }
}
