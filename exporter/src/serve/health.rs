//! When this exporter counts as ready and as healthy. Pure: clock and readings come from the caller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::source::nvml::{Driver, Snapshot};

/// GPU readings older than this are stale. Two of Prometheus' default scrape intervals: a user who looks at the metrics
/// has seen the gap by then.
pub(super) const STALE: Duration = Duration::from_secs(120);

/// A scrape that takes longer than this hangs: every source in it has a deadline of seconds.
pub(super) const WEDGED: Duration = Duration::from_secs(60);

/// What health is judged by.
pub(super) struct Signs {
    /// Now.
    pub(super) now: Instant,
    /// When the exporter started.
    pub(super) started: Instant,
    /// The newest reading of the GPUs.
    pub(super) gpus: Arc<Snapshot>,
    /// How long the scrape that is being made has taken so far.
    pub(super) collecting_for: Option<Duration>,
}

impl Signs {
    /// Is the scrape machinery alive? What the watchdog reports.
    pub(super) fn alive(&self) -> Result<(), String> {
        match self.collecting_for {
            Some(busy) if busy > WEDGED => Err(format!("a scrape has been hanging for {} s", busy.as_secs())),
            _ => Ok(()),
        }
    }

    /// Has a GPU been read? Where that is required, `/-/ready`.
    pub(super) fn has_gpu(&self) -> Result<(), String> {
        match &self.gpus.driver {
            _ if self.gpus.gpus.iter().any(|gpu| gpu.taken.is_some()) => Ok(()),
            Driver::Absent { reason } => Err(reason.clone()),
            Driver::Starting => Err("the GPU driver has not answered yet".to_owned()),
            Driver::Loaded { .. } => Err("the GPU driver is there, but no GPU has been read yet".to_owned()),
            Driver::Released { .. } => Err("the GPUs are released on request".to_owned()),
        }
    }

    /// Is everything that is served fresh? `/health`.
    ///
    /// One GPU that hangs or fell off the bus does not make the exporter unhealthy: its age is a metric, and a restart
    /// would only cost the others. No machine without a driver is unhealthy either,
    /// nor one whose GPUs are released on request.
    pub(super) fn fresh(&self) -> Result<(), String> {
        self.alive()?;
        let age = |taken: Option<Instant>| self.now.saturating_duration_since(taken.unwrap_or(self.started));
        match self.gpus.driver {
            Driver::Absent { .. } | Driver::Released { .. } => Ok(()),
            Driver::Starting => old(age(None), "the GPU driver has not answered"),
            Driver::Loaded { .. } => {
                let newest = self.gpus.gpus.iter().map(|gpu| age(gpu.taken)).min();
                old(newest.unwrap_or_default(), "no GPU has been read")
            }
        }
    }
}

fn old(age: Duration, what: &str) -> Result<(), String> {
    match age > STALE {
        true => Err(format!("{what} for {} s", age.as_secs())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::nvml::Gpu;

    fn fresh(driver: Driver, ages: &[Option<u64>], collecting_for: Option<Duration>) -> Result<(), String> {
        let started = Instant::now();
        let now = started + Duration::from_secs(1000);
        let gpus = ages
            .iter()
            .map(|age| age.map(|age| now - Duration::from_secs(age)))
            .map(|taken| Gpu { taken, ..Gpu::default() })
            .collect();
        Signs { now, started, gpus: Arc::new(Snapshot { driver, gpus, ..Snapshot::default() }), collecting_for }.fresh()
    }

    fn loaded() -> Driver {
        Driver::Loaded { version: "580.105.08".into() }
    }

    #[test]
    fn only_a_silent_driver_makes_gpu_data_stale() {
        assert_eq!(fresh(loaded(), &[Some(1), Some(999), None], None), Ok(()));
        assert_eq!(fresh(loaded(), &[Some(121), None], None), Err("no GPU has been read for 121 s".into()));
        assert_eq!(fresh(loaded(), &[], None), Ok(()));
        assert_eq!(fresh(Driver::Absent { reason: "none".into() }, &[], None), Ok(()));
        let released = Driver::Released { left: Duration::from_secs(9), version: String::new() };
        assert_eq!(fresh(released, &[Some(900)], None), Ok(()), "somebody has asked for that");
        assert_eq!(fresh(Driver::Starting, &[], None), Err("the GPU driver has not answered for 1000 s".into()));
    }

    #[test]
    fn where_a_gpu_is_required_the_driver_says_why_there_is_none() {
        let has_gpu = |driver: Driver, taken: Option<Instant>| {
            let gpus =
                Arc::new(Snapshot { driver, gpus: vec![Gpu { taken, ..Gpu::default() }], ..Snapshot::default() });
            Signs { now: Instant::now(), started: Instant::now(), gpus, collecting_for: None }.has_gpu()
        };
        assert_eq!(has_gpu(Driver::Absent { reason: "no library".into() }, None), Err("no library".into()));
        assert!(has_gpu(Driver::Starting, None).is_err() && has_gpu(loaded(), None).is_err());
        assert_eq!(has_gpu(loaded(), Some(Instant::now())), Ok(()));
    }

    #[test]
    fn a_hanging_scrape_is_unhealthy() {
        assert_eq!(fresh(loaded(), &[Some(1)], Some(WEDGED)), Ok(()));
        let hanging = Some(WEDGED + Duration::from_secs(1));
        assert_eq!(fresh(loaded(), &[Some(1)], hanging), Err("a scrape has been hanging for 61 s".into()));
    }
}
