use std::time::{Duration, Instant};

use goodput_exporter::collect::Done;

use crate::support::{Machine, collector};

#[test]
fn a_recorded_machine_with_eight_gpus() {
    let machine = Machine::recorded("irq-2s48-8xgpu", &["proc/driver"]);
    let collected = machine.collect("driver").ok();
    assert_eq!(collected.value("goodput_driver_info{version=\"460.56\",module=\"proprietary\"}"), 1.0);
    assert_eq!(collected.value("goodput_driver_excluded_gpus"), 0.0);
    for absent in ["firmware_gpus", "parameter", "module_loaded", "daemon_running"] {
        assert_eq!(collected.count(&format!("goodput_driver_{absent}")), 0, "{absent} was not recorded");
    }
}

fn machine() -> Machine {
    let machine = Machine::empty();
    let folder = "proc/driver/nvidia";
    let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (root@build)\n";
    machine.write(&format!("{folder}/version"), version);
    machine.write(&format!("{folder}/params"), "EnableMSI: 1\nEnableGpuFirmware: 18\nRmMsg: \"\"\nNewOne: 4\n");
    for (gpu, firmware, excluded) in [("19", "580.105.08", "No"), ("3b", "580.105.08", "No"), ("4c", "N/A", "Yes")] {
        let text = format!("Model: \t NVIDIA H100\nGPU Firmware: \t {firmware}\nGPU Excluded:\t {excluded}\n");
        machine.write(&format!("{folder}/gpus/0000:{gpu}:00.0/information"), &text);
    }
    machine.write("proc/modules", "nvidia_uvm 1 2 - Live 0x0 (O)\nnvidia 1 2 nvidia_uvm, Live 0x0 (O)\nmlx5_core 1\n");
    machine.write("proc/2/comm", "kthreadd\n");
    machine.write("proc/900/comm", "nvidia-persiste\n");
    machine.write("proc/901/comm", "nv-hostengine\n");
    machine
}

#[test]
fn modules_parameters_firmware_and_daemons() {
    let collected = machine().collect("driver").ok();
    for (series, expected) in [
        ("info{version=\"580.105.08\",module=\"open\"}", 1.0),
        ("module_loaded{module=\"nvidia\"}", 1.0),
        ("module_loaded{module=\"nvidia_uvm\"}", 1.0),
        ("module_loaded{module=\"nvidia_peermem\"}", 0.0),
        ("parameter{name=\"EnableGpuFirmware\"}", 18.0),
        ("parameter{name=\"EnableMSI\"}", 1.0),
        ("firmware_gpus{firmware=\"580.105.08\"}", 2.0),
        ("firmware_gpus{firmware=\"N/A\"}", 1.0),
        ("excluded_gpus", 1.0),
        ("daemon_running{daemon=\"nvidia-persistenced\"}", 1.0),
        ("daemon_running{daemon=\"nv-hostengine\"}", 1.0),
        ("daemon_running{daemon=\"nv-fabricmanager\"}", 0.0),
    ] {
        assert_eq!(collected.value(&format!("goodput_driver_{series}")), expected, "{series}");
    }
    assert_eq!(collected.count("goodput_driver_parameter"), 2, "only those that are known");
}

#[test]
fn a_container_cannot_tell_which_daemons_run() {
    let machine = machine();
    machine.write("proc/2/comm", "sh\n");
    assert_eq!(machine.collect("driver").ok().count("goodput_driver_daemon_running"), 0);
}

#[test]
fn daemons_are_looked_for_once_a_minute() {
    let machine = machine();
    let mut collector = collector("driver");
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    machine.collect_at(collector.as_mut(), start).ok();
    std::fs::remove_dir_all(machine.path("proc/900")).unwrap();
    let persistence = "goodput_driver_daemon_running{daemon=\"nvidia-persistenced\"}";
    let soon = machine.collect_at(collector.as_mut(), start + 59 * second).ok();
    assert_eq!(soon.value(persistence), 1.0);
    assert_eq!(machine.collect_at(collector.as_mut(), start + 60 * second).ok().value(persistence), 0.0);
}

#[test]
fn without_the_driver() {
    match Machine::recorded("sys-power9-6xv100", &["proc/driver"]).collect("driver").result {
        Ok(Done::NotApplicable(why)) => assert!(why.contains("not loaded"), "{why}"),
        other => panic!("{other:?}"),
    }
}
