use goodput_catalog::dcgm;

use super::super::table;
use super::*;

#[test]
fn blank_values_are_not_values() {
    for (signal, blank) in [(Signal::GpuUtilization, 2_147_483_632.0 * 0.01), (Signal::GpuPower, 140_737_488_355_328.0)]
    {
        assert!(!signal.admits(blank), "{signal:?}");
    }
    assert!(!Signal::FbUsed.admits(9_223_372_036_854_775_794.0 * 1_048_576.0));
    assert!(!Signal::GpuPower.admits(f64::NAN) && Signal::FbUsed.admits(0.0));
}

#[test]
fn what_rules_divide_by_is_never_next_to_nothing() {
    for (signal, lowest) in [
        (Signal::JobCpuLimit, 0.001),
        (Signal::JobAllowedCpus, 1.0),
        (Signal::PcieWidth, 1.0),
        (Signal::PcieMaxGeneration, 1.0),
        (Signal::FsInodes, 1.0),
        (Signal::SmMaxClock, 1e6),
        (Signal::GpuPower, 1.0),
    ] {
        let admits = [0.0, 1e-305, lowest / 2.0, lowest].map(|value| signal.admits(value));
        assert_eq!(admits, [false, false, false, true], "{signal:?}");
    }
    assert!(Signal::FbUsed.admits(0.0) && Signal::FsAvailable.admits(0.0));
}

#[test]
fn every_signal_has_a_metric() {
    for signal in Signal::ALL {
        assert!(table::rows().any(|r| r.signal == *signal), "{signal:?} has no metric");
    }
}

#[test]
fn what_our_exporter_can_tell_of_a_signal_it_tells_by_default() {
    let selection = dcgm::Selection::default();
    let is_ours = |row: &&table::Row| row.metric.starts_with("goodput_") || row.metric.starts_with("DCGM_");
    let is_told = |row: &table::Row| dcgm::by_name(row.metric).is_none_or(|field| selection.has(field));
    for signal in Signal::ALL.iter().filter(|signal| !signal.is_a_setting()) {
        let mut ours = table::rows().filter(|row| row.signal == *signal).filter(is_ours).peekable();
        assert!(ours.peek().is_none() || ours.any(is_told), "{signal:?} is told to those alone who ask for it");
    }
}
