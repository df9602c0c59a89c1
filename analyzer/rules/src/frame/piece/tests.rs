use super::*;
use goodput_exposition::sample::STALE_BITS;

fn samples(pairs: &[(i64, f64)]) -> Vec<Sample> {
    pairs.iter().map(|(s, value)| Sample { time_ms: s * 1000, value: *value }).collect()
}

fn read(signal: Signal, pairs: &[(i64, f64)]) -> Vec<Option<Reading>> {
    let samples = samples(pairs);
    let cells: Vec<_> = (0..3).map(|i| i * 60_000..(i + 1) * 60_000).collect();
    readings(signal, &pieces(signal, &samples, 1.0, 15_000), &samples, &cells)
}

#[test]
fn a_counter_is_shared_out_at_cell_borders() {
    let got = read(Signal::JobCpuUsage, &[(30, 0.0), (90, 60.0), (120, 60.0)]);
    let first = got[0].unwrap();
    assert_eq!((first.mean, first.covered_ms, first.samples), (1.0, 30_000, 1));
    let second = got[1].unwrap();
    assert_eq!((second.mean, second.min, second.max, second.covered_ms), (0.5, 0.0, 1.0, 60_000));
    assert_eq!(got[2], None);
}

#[test]
fn a_reset_counts_from_zero() {
    let got = read(Signal::JobCpuUsage, &[(0, 1000.0), (30, 6.0), (60, 36.0)]);
    assert!((got[0].unwrap().mean - 0.6).abs() < 1e-12);
}

#[test]
fn a_counter_that_fell_a_little_was_not_reset() {
    let watts = |pairs: &[(i64, f64)]| -> Vec<Option<f64>> {
        read(Signal::GpuEnergy, pairs).into_iter().map(|r| r.map(|r| r.mean)).collect()
    };
    let dip = [(0, 3.456e9), (30, 3.456e9 + 15e3), (60, 3.456e9 - 20e3), (90, 3.456e9 + 45e3), (180, 3.456e9 + 90e3)];
    assert_eq!(watts(&dip), [Some(500.0); 3], "one sample alone is wrong");
    let step = [(0, 3.456e9), (60, 3.456e9 + 30e3), (120, 3.4e9), (180, 3.4e9 + 30e3)];
    assert_eq!(watts(&step), [Some(500.0), None, Some(500.0)], "what it grew by then is not known");
    let half = [(0, 3.456e9), (60, 3.456e9 + 30e3), (120, 1.7e9), (180, 1.7e9 + 30e3)];
    assert_eq!(watts(&half), [Some(500.0), None, Some(500.0)], "no board draws as much in a minute");
    let leap = [(0, 1e6), (60, 1e6 + 30e3), (120, 9e9), (180, 9e9 + 30e3)];
    assert_eq!(watts(&leap), [Some(500.0), None, Some(500.0)]);
    let restart = [(0, 3.456e9), (60, 3.456e9 + 30e3), (120, 12e3), (180, 42e3)];
    assert_eq!(watts(&restart), [Some(500.0), Some(200.0), Some(500.0)]);
}

#[test]
fn a_counter_of_time_that_fell_to_more_than_the_time_between_was_not_reset() {
    let fell =
        |to: f64| read(Signal::NodeIoPressure, &[(0, 9e5), (60, to), (120, to + 30.0)])[0].map(|reading| reading.mean);
    assert_eq!((fell(4e5), fell(12.0)), (None, Some(0.2)));
}

#[test]
fn values_up_to_a_minute_old_are_no_leap() {
    let (old, new) = (0.0, 60.0);
    let got = read(Signal::GpuBusy, &[(0, old), (15, old), (30, old), (45, old), (60, new)]);
    assert_eq!(got[0].map(|r| r.mean), Some(1.0), "read once a minute, handed out four times");
}

#[test]
fn a_failed_scrape_does_not_hide_what_the_counter_knows() {
    let stale = f64::from_bits(STALE_BITS);
    let got = read(Signal::JobCpuUsage, &[(0, 0.0), (15, stale), (60, 30.0)]);
    assert_eq!(got[0].unwrap().mean, 0.5);
    assert_eq!(got[0].unwrap().covered_ms, 60_000);
}

#[test]
fn a_long_gap_is_bridged_coarsely_unless_the_counter_fell() {
    let cells = [240_000..300_000, 300_000..360_000];
    let bridge = |value| {
        let samples = samples(&[(0, 100.0), (600, value)]);
        readings(Signal::GpuBusy, &pieces(Signal::GpuBusy, &samples, 1.0, 15_000), &samples, &cells)[1]
    };
    assert_eq!(bridge(400.0).map(|r| (r.mean, r.coarse, r.samples)), Some((0.5, true, 0)));
    assert_eq!(bridge(50.0), None);
    let far = samples(&[(0, 0.0), (1801, 1801.0)]);
    assert_eq!(pieces(Signal::GpuBusy, &far, 1.0, 15_000), []);
}

#[test]
fn a_level_holds_until_the_next_sample_a_marker_or_one_interval() {
    let stale = f64::from_bits(STALE_BITS);
    let got = read(Signal::GpuPower, &[(0, 100.0), (30, 300.0), (90, stale), (100, 50.0)]);
    let first = got[0].unwrap();
    assert_eq!((first.mean, first.min, first.max), (200.0, 100.0, 300.0));
    let second = got[1].unwrap();
    assert_eq!((second.covered_ms, second.samples), (30_000 + 15_000, 2));
    assert_eq!(got[2], None);
    assert_eq!(read(Signal::GpuPower, &[(0, 100.0), (301, 100.0)])[0].unwrap().covered_ms, 15_000);
}

#[test]
fn a_state_is_bridged_only_when_both_sides_agree() {
    const CELLS: [Range<TimeMs>; 2] = [240_000..300_000, 300_000..360_000];
    let within = |before, after| {
        let samples = samples(&[(0, before), (600, after)]);
        readings(Signal::GpuProcesses, &pieces(Signal::GpuProcesses, &samples, 1.0, 15_000), &samples, &CELLS)[1]
    };
    assert_eq!(within(2.0, 2.0).map(|r| (r.mean, r.coarse)), Some((2.0, true)));
    assert_eq!(within(2.0, 0.0), None);
}

#[test]
fn an_average_is_of_the_time_before_it() {
    let stale = f64::from_bits(STALE_BITS);
    let got = read(Signal::SmActive, &[(30, 0.5), (90, 1.0), (105, stale), (120, 0.2), (480, 0.9)]);
    assert_eq!(got[0].map(|r| (r.mean, r.covered_ms)), Some((1.0, 30_000)));
    let second = got[1].unwrap();
    assert_eq!((second.max, second.min, second.covered_ms), (1.0, 0.2, 45_000));
    assert_eq!(got[2], None);
}

#[test]
fn what_is_not_admitted_is_absent_not_zero() {
    assert_eq!(read(Signal::GrEngineActive, &[(0, 9e18), (15, f64::NAN)]), [None, None, None]);
}

#[test]
fn covered_time_is_a_union() {
    let cells = [0..10, 10..20, 20..30];
    assert_eq!(union_ms(vec![12..14, 0..3, 2..8, 13..22], &cells), [8, 8, 2]);
}
