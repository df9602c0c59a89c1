//! Moments of power: integers in, integers out, no NVML.
//!
//! A scrape sees one reading of a second; the integrals of power and of its square over time, with the time that they
//! cover, give mean and standard deviation over any interval.

use super::ring::{Ring, Sample};

/// A sample above this is none (mW): ten times what the largest product draws.
const ABSURD_MW: u32 = 20_000_000;

/// Totals that only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Power {
    milliwatt_us: u128,
    squared_milliwatt_us: u128,
    observed_us: u64,
    /// Times that the ring of power samples wrapped before it was drained.
    pub overruns: u64,
}

impl Power {
    /// Integral of power over the time observed, joules.
    #[must_use]
    pub fn joules(&self) -> f64 {
        self.milliwatt_us as f64 / 1e9
    }

    /// Integral of the square of power over the time observed, watts squared times seconds.
    #[must_use]
    pub fn squared_watts_seconds(&self) -> f64 {
        self.squared_milliwatt_us as f64 / 1e12
    }

    /// Time covered by samples, seconds.
    #[must_use]
    pub fn observed_seconds(&self) -> f64 {
        self.observed_us as f64 / 1e6
    }

    fn add(&mut self, span_us: Option<u64>, milliwatts: u32) {
        let Some(us) = span_us.filter(|_| milliwatts <= ABSURD_MW) else { return };
        let (power, time) = (u128::from(milliwatts), u128::from(us));
        self.milliwatt_us += power * time;
        self.squared_milliwatt_us += power * power * time;
        self.observed_us += us;
    }
}

/// Integrates one GPU's power, from the driver's ring of samples or from single readings: never from both at a time.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// What it has added up.
    pub power: Power,
    /// The driver's ring.
    pub ring: Ring,
    readings: Ring,
}

impl Meter {
    /// Goes on from totals of an earlier one. Time in between is not observed.
    #[must_use]
    pub(super) fn resume(power: Power) -> Self {
        Self { power, ..Self::default() }
    }

    /// Adds what one drain brought, oldest first; readings pause.
    pub(super) fn drain(&mut self, samples: &[Sample]) {
        self.readings = Ring::default();
        let wrapped = self.ring.drain(samples, |span, value| self.power.add(span, value));
        self.power.overruns += u64::from(wrapped);
    }

    /// Adds a single reading, taken this many µs after some moment; the ring pauses: what it holds by its next drain is
    /// of a time that readings have covered.
    pub(super) fn read(&mut self, at_us: u64, milliwatts: u32) {
        self.ring.forget();
        self.readings.drain(&[Sample { at_us, value: milliwatts }], |span, value| self.power.add(span, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 20_000;

    /// Samples of a wave of `high` and `low` watts, a second each.
    fn wave(seconds: u64, low: u32, high: u32) -> Vec<Sample> {
        (1..=seconds * 1_000_000 / PERIOD)
            .map(|i| {
                let first_half = ((i * PERIOD - 1) / 1_000_000).is_multiple_of(2);
                Sample { at_us: i * PERIOD, value: 1000 * if first_half { high } else { low } }
            })
            .collect()
    }

    fn meter() -> Meter {
        let mut meter = Meter::default();
        meter.drain(&[Sample { at_us: 0, value: 9 }]);
        meter
    }

    fn mean_and_deviation(power: &Power) -> (f64, f64) {
        let mean = power.joules() / power.observed_seconds();
        (mean, (power.squared_watts_seconds() / power.observed_seconds() - mean * mean).sqrt())
    }

    #[test]
    fn mean_and_deviation_of_a_square_wave_are_those_of_its_closed_form() {
        let mut meter = meter();
        wave(60, 100, 700).chunks(50).for_each(|samples| meter.drain(samples));
        assert!((meter.power.observed_seconds() - 60.0).abs() < 1e-9);
        let (mean, deviation) = mean_and_deviation(&meter.power);
        // Half of the time 100 W, half of it 700 W: 400 W, and 300 W away from that all of the time.
        assert!((mean - 400.0).abs() < 1e-6 && (deviation - 300.0).abs() < 1e-6, "{mean} W, {deviation} W");
    }

    #[test]
    fn constant_power_has_no_deviation_after_a_year() {
        let power = Power {
            milliwatt_us: 700_123 * 31_536_000_000_000,
            squared_milliwatt_us: 700_123 * 700_123 * 31_536_000_000_000,
            observed_us: 31_536_000_000_000,
            overruns: 0,
        };
        let (mean, deviation) = mean_and_deviation(&power);
        assert!((mean - 700.123).abs() < 1e-6 && (deviation.is_nan() || deviation < 0.1), "{mean} W, {deviation} W");
    }

    #[test]
    fn a_wrapped_ring_is_an_overrun_and_not_observed() {
        let mut meter = Meter::default();
        meter.drain(&wave(2, 100, 100));
        let later: Vec<_> = wave(2, 100, 100).iter().map(|s| Sample { at_us: s.at_us + 10_000_000, ..*s }).collect();
        meter.drain(&later);
        // Of the ten seconds, what the ring held; its first sample stands behind the hole.
        assert_eq!((meter.power.overruns, meter.power.observed_us), (1, 99 * PERIOD));
    }

    #[test]
    fn ring_and_readings_never_cover_the_same_time() {
        let mut meter = meter();
        meter.drain(&wave(2, 100, 100));
        (2..=5).for_each(|second| meter.read(second * 1_000_000, 100_000));
        let held: Vec<_> = wave(6, 100, 100).split_off(200);
        meter.drain(&held);
        assert_eq!((meter.power.observed_us, meter.power.overruns), (5_000_000, 0), "the ring only finds its position");
        meter.drain(&wave(7, 100, 100).split_off(300));
        assert_eq!(meter.power.observed_us, 6_000_000);
    }

    #[test]
    fn readings_stand_for_the_second_before_them_and_for_no_more() {
        let mut meter = Meter::default();
        for (second, watts) in [(0, 700), (1, 100), (2, 300), (60, 700), (61, 200)] {
            meter.read(second * 1_000_000, watts * 1000);
        }
        assert_eq!((meter.power.observed_us, meter.power.joules()), (3_000_000, 600.0));
    }

    #[test]
    fn an_absurd_sample_is_not_observed() {
        let mut meter = meter();
        meter.drain(&[Sample { at_us: PERIOD, value: u32::MAX }, Sample { at_us: 2 * PERIOD, value: 1000 }]);
        assert_eq!((meter.power.observed_us, meter.power.joules()), (PERIOD, 0.02));
    }
}
