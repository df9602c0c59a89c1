use goodput_exporter::collect::Done;

use crate::support::{Collected, Machine, shared};

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

/// A file system's targets, whose requests take 2 ms each, and as many evictions as their number.
fn targets(machine: &Machine, filesystem: &str, count: u64) {
    for number in 0..count {
        let folder = format!("lustre/osc/{filesystem}-OST{number:04x}-osc-ffff9a0b1c2d3800");
        let (requests, generation) = (100 + number, 1 + number);
        let micros = 2000 * requests;
        machine.write(&format!("sys/fs/{folder}/active"), "1\n");
        let stats = format!("req_waittime {requests} samples [usec] 1 9000 {micros} 99\n");
        machine.write(&format!("sys/kernel/debug/{folder}/stats"), &stats);
        machine.write(
            &format!("sys/kernel/debug/{folder}/import"),
            &format!("import:\n       generation: {generation}\n"),
        );
    }
}

fn with_a_client() -> Machine {
    let machine = Machine::empty();
    machine.write(&format!("sys/fs/{CLIENT}/blocksize"), "4096\n");
    machine.write(&format!("sys/kernel/debug/{CLIENT}/stats"), TIMES);
    machine
}

#[test]
fn targets_by_name() {
    let machine = with_a_client();
    targets(&machine, "scratch", 11);
    // A second mount of the file system, and a connection of a metadata server.
    let second = "sys/kernel/debug/lustre/osc/scratch-OST000a-osc-ffff9a0b1c2d4000";
    machine.write("sys/fs/lustre/osc/scratch-OST000a-osc-ffff9a0b1c2d4000/active", "1\n");
    machine.write(&format!("{second}/stats"), "req_waittime 890 samples [usec] 1 9000 3000000 99\n");
    machine.write(&format!("{second}/import"), "    generation: 2\n");
    machine.write("sys/fs/lustre/osc/scratch-OST000b-osc-MDT0000/active", "1\n");
    let collected = machine.collect("lustre").ok();
    assert_eq!(collected.count("goodput_lustre_target_requests_total"), 11);
    let of = |name: &str, target: &str| {
        collected.value(&format!("goodput_lustre_target_{name}_total{{filesystem=\"scratch\",target=\"{target}\"}}"))
    };
    assert_eq!(of("requests", "OST0001"), 101.0);
    assert_eq!(of("request_seconds", "OST0001"), 0.202);
    assert_eq!(of("evictions", "OST0001"), 1.0);
    assert_eq!(of("requests", "OST000a"), 1000.0, "of both mounts");
    assert_eq!(of("request_seconds", "OST000a"), 3.22);
    assert_eq!(of("evictions", "OST000a"), 11.0);
}

#[test]
fn more_targets_than_series_are_summed() {
    let machine = with_a_client();
    targets(&machine, "home", 4);
    targets(&machine, "scratch", 61);
    let collected = machine.collect("lustre").ok();
    assert_eq!(collected.count("goodput_lustre_target_requests_total"), 5);
    let all = "{filesystem=\"scratch\",target=\"all\"}";
    assert_eq!(collected.value(&format!("goodput_lustre_target_requests_total{all}")), 7930.0);
    assert_eq!(collected.value(&format!("goodput_lustre_target_evictions_total{all}")), 1830.0);
    let home = "{filesystem=\"home\",target=\"OST0003\"}";
    assert_eq!(collected.value(&format!("goodput_lustre_target_requests_total{home}")), 103.0);
    // What one of them does not tell, the sum does not tell.
    machine.write(
        "sys/kernel/debug/lustre/osc/scratch-OST0007-osc-ffff9a0b1c2d3800/stats",
        "snapshot_time 1 secs.usecs\n",
    );
    let collected = machine.collect("lustre").ok();
    assert_eq!(collected.count("goodput_lustre_target_requests_total"), 4);
    assert_eq!(collected.count("goodput_lustre_target_evictions_total"), 4, "OST0000 of home has had none");
}

#[test]
fn targets_that_may_not_be_read_are_counted() {
    let machine = with_a_client();
    targets(&machine, "scratch", 3);
    for file in ["stats", "import"] {
        machine.deny(&format!("sys/kernel/debug/lustre/osc/scratch-OST0001-osc-ffff9a0b1c2d3800/{file}"));
    }
    let collected = machine.collect("lustre").ok();
    assert_eq!(collected.value("goodput_lustre_denied"), 1.0);
    assert_eq!(collected.count("goodput_lustre_target_requests_total"), 2);
}

#[test]
fn a_recorded_client_of_2015_measures_no_time() {
    let machine = Machine::empty();
    let stats = "sys/kernel/debug/lustre/llite/lustre-ffff880378305c00/stats";
    machine.write(stats, &std::fs::read_to_string(shared(&format!("net-lustre-llite/{stats}"))).unwrap());
    machine.write("sys/fs/lustre/llite/lustre-ffff880378305c00/blocksize", "4096\n");
    let collected = machine.collect("lustre").ok();
    let client = "filesystem=\"lustre\",client=\"ffff880378305c00\"";
    let of = |name: &str| collected.value(&format!("goodput_lustre_{name}"));
    assert_eq!(of(&format!("read_bytes_total{{{client}}}")), 1003.0);
    assert_eq!(of(&format!("written_bytes_total{{{client}}}")), 203_517.0);
    assert_eq!(of(&format!("calls_total{{{client},operation=\"read\"}}")), 34.0);
    assert_eq!(of(&format!("calls_total{{{client},operation=\"other\"}}")), 581.0);
    assert_eq!(collected.count("goodput_lustre_call_seconds_total"), 0);
    assert_eq!(collected.count("goodput_lustre_target_requests_total"), 0);
}
