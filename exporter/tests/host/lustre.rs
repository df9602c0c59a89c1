use goodput_exporter::collect::Done;

use crate::support::{Collected, Machine};

const TIMES: &str = include_str!("../fixtures/collectors/lustre/times.stats");
const COUNTS: &str = include_str!("../fixtures/collectors/lustre/counts.stats");
const CLIENT: &str = "lustre/llite/scratch-ffff9a0b1c2d3800";

#[track_caller]
fn expect(collected: &Collected, series: &[(&str, f64)]) {
    for (name, expected) in series {
        let (name, more) = name.split_once('{').unwrap_or((name, "}"));
        let labels = "filesystem=\"scratch\",client=\"ffff9a0b1c2d3800\"";
        let comma = if more == "}" { "" } else { "," };
        assert_eq!(collected.value(&format!("goodput_lustre_{name}{{{labels}{comma}{more}")), *expected, "{name}");
    }
}

#[test]
fn a_client_since_2_12() {
    let machine = Machine::empty();
    machine.write(&format!("sys/fs/{CLIENT}/blocksize"), "4096\n");
    machine.write(&format!("sys/kernel/debug/{CLIENT}/stats"), TIMES);
    let collected = machine.collect("lustre").ok();
    expect(
        &collected,
        &[
            ("read_bytes_total", 8_388_608_000.0),
            ("written_bytes_total", 1_258_291_200.0),
            ("calls_total{operation=\"read\"}", 4000.0),
            ("calls_total{operation=\"write\"}", 1200.0),
            ("calls_total{operation=\"other\"}", 76_790.0),
            ("call_seconds_total{operation=\"read\"}", 6.0),
            ("call_seconds_total{operation=\"write\"}", 1.5),
            ("call_seconds_total{operation=\"other\"}", 0.859),
        ],
    );
    assert_eq!(collected.value("goodput_lustre_clients"), 1.0);
    assert_eq!(collected.value("goodput_lustre_denied"), 0.0);
}

#[test]
fn a_client_before_2_12() {
    let machine = Machine::empty();
    machine.write(&format!("proc/fs/{CLIENT}/stats"), COUNTS);
    let collected = machine.collect("lustre").ok();
    expect(
        &collected,
        &[
            ("read_bytes_total", 5000.0),
            ("written_bytes_total", 0.0),
            ("calls_total{operation=\"read\"}", 10.0),
            ("calls_total{operation=\"other\"}", 13.0),
        ],
    );
    assert_eq!(collected.count("goodput_lustre_call_seconds_total"), 0, "nobody measured it");
}

#[test]
fn what_takes_root_is_denied_and_not_zero() {
    let machine = Machine::empty();
    machine.write(&format!("sys/fs/{CLIENT}/blocksize"), "4096\n");
    machine.write(&format!("sys/kernel/debug/{CLIENT}/blocksize"), "4096\n");
    machine.deny(&format!("sys/kernel/debug/{CLIENT}/stats"));
    let collected = machine.collect("lustre").ok();
    assert_eq!(collected.value("goodput_lustre_denied"), 1.0);
    assert_eq!(collected.count("goodput_lustre_read_bytes_total"), 0);
}

#[test]
fn no_lustre() {
    assert!(matches!(Machine::empty().collect("lustre").result, Ok(Done::NotApplicable(_))));
}
