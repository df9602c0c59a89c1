//! What a scrape cannot see: the driver's rings of samples, drained before they wrap, and GPM's pairs.
//!
//! An idle GPU is sampled rarely, where that loses nothing: GPM's pairs grow long, and its power, which barely moves,
//! is taken from the readings that are made anyway.

use std::time::{Duration, Instant};

use nvml_wrapper::Device;

use super::super::absent::{Absent, Reading};
use super::super::activity;
use super::super::raw::{self, Gpm, Samples};
use super::super::readers::CYCLE;
use super::super::ring::Ring;
use super::{Due, RAREST_CYCLES, Reader, SLOW_CYCLES};
use goodput_catalog::dcgm::Call;

/// The least time between two samples of a pair (nvmlGpmMetricsGet).
const GPM_FLOOR: Duration = Duration::from_millis(100);

impl Reader<'_> {
    /// Samples what is due in this cycle.
    pub(super) fn sample(&mut self, due: &Due, now: Instant) {
        let can = self.values.samples != Err(Absent::NotSupported);
        if due.every(if can { cycles(&self.integrator.ring) } else { RAREST_CYCLES }) {
            self.drain_utilization();
        }
        let idle = self.values.samples.is_ok() && self.integrator.is_idle();
        self.meter_power(due, now, idle);
        if due.every(if idle { RAREST_CYCLES } else { SLOW_CYCLES }) {
            self.read_gpm();
        }
    }

    fn drain_utilization(&mut self) {
        let last_seen = self.integrator.ring.last_seen();
        let samples = self.ask(|d| raw::samples(d, Samples::Utilization, last_seen));
        if let Ok(samples) = &samples {
            self.integrator.drain(samples);
        }
        self.values.samples = samples.map(|_| ());
    }

    /// From the ring of power samples; from single readings while the GPU is idle, and where nothing comes out of a ring.
    fn meter_power(&mut self, due: &Due, now: Instant, idle: bool) {
        let ring = &self.power.ring;
        let dry = ring.is_dry();
        if !idle && due.every(if dry { RAREST_CYCLES } else { cycles(ring) }) {
            let last_seen = ring.last_seen();
            match self.ask(|d| raw::samples(d, Samples::Power, last_seen)) {
                Ok(samples) if !samples.is_empty() => return self.power.drain(&samples),
                Err(Absent::NotSupported) => self.power.ring.set_dry(),
                _ => self.power.ring.missed(),
            }
        }
        let readings = idle || self.power.ring.is_dry();
        if let Some(milliwatts) = self.values.call(Call::Power).ok().filter(|_| readings) {
            let since = now.duration_since(self.opened);
            self.power.read(since.as_micros() as u64, milliwatts as u32);
        }
    }

    fn read_gpm(&mut self) {
        let Ok(profiler) = &mut self.gpm else { return };
        let now = self.shared.time.now();
        let (shared, slot) = (&self.shared, &self.slot);
        let pair = match profiler.since(now) {
            Some(since) if since < GPM_FLOOR => return,
            since => shared.ask(slot, || profiler.take(&self.device, now)).map(|()| since),
        };
        let answers = match pair {
            Ok(None) => return,
            Ok(Some(since)) => {
                if !profiler.probed {
                    _ = shared.ask(slot, || profiler.probe());
                }
                let answers = shared.ask(slot, || profiler.gpm.metrics(&profiler.wanted));
                if let Ok(answers) = &answers {
                    let told =
                        profiler.wanted.iter().zip(answers).filter_map(|(id, answer)| Some((*id, (*answer).ok()?)));
                    let told = told.collect();
                    self.totals.activity.add(since.as_secs_f64(), &told);
                    self.totals.activity.count(since.as_secs_f64(), &told);
                }
                answers
            }
            Err(why) => Err(why),
        };
        self.values.set_gpm(&profiler.wanted, answers);
    }
}

fn cycles(ring: &Ring) -> u64 {
    ring.interval().as_secs() / CYCLE.as_secs()
}

/// GPM of one GPU, with what its driver can tell of a pair.
pub(super) struct Profiler<'nvml> {
    gpm: Gpm<'nvml>,
    taken: Option<Instant>,
    /// Metrics by id.
    wanted: Vec<u32>,
    probed: bool,
}

impl<'nvml> Profiler<'nvml> {
    pub(super) fn open(device: &Device<'nvml>) -> Reading<Self> {
        Ok(Self { gpm: Gpm::open(device)?, taken: None, wanted: Vec::new(), probed: false })
    }

    /// Asks for these metrics from now on.
    pub(super) fn want(&mut self, metrics: &[u32]) {
        (self.wanted, self.probed) = (metrics.to_vec(), false);
    }

    /// How long ago the last sample was taken, if it can be the first of a pair.
    fn since(&self, now: Instant) -> Option<Duration> {
        self.taken.map(|taken| now.saturating_duration_since(taken))
    }

    fn take(&mut self, device: &Device<'nvml>, now: Instant) -> Reading<()> {
        self.taken = None;
        self.gpm.sample(device)?;
        self.taken = Some(now);
        Ok(())
    }

    /// Asks once, and apart from what every driver knows, for the counters that only newer ones have.
    fn probe(&mut self) -> Reading<()> {
        let counters: Vec<_> = activity::cumulative().filter(|id| !self.wanted.contains(id)).collect();
        let told = match self.gpm.metrics(&counters) {
            Err(Absent::NotSupported) => Vec::new(),
            told => told?,
        };
        // A failure that may pass is no answer: it is asked again with the next pair.
        self.probed = true;
        if told.iter().any(Result::is_ok) {
            self.wanted.extend(counters);
        }
        Ok(())
    }
}
