//! `gpu`: the newest snapshot of every GPU, under dcgm-exporter's names and our own.

mod dcgm;
mod health;
pub(crate) mod labels;
mod mig;
mod own;
#[cfg(test)]
mod tests;
mod xid;

use std::time::Duration;

use super::{CollectError, Collector, Context, Done, Entry};
use crate::catalog::gpu as rows;
use crate::family::Families;
use crate::parse::device_id::Part;
use crate::source::nvml::{Driver, Gpu};

/// Readings older than this are not shown any more: ten cycles, and less than one usual scrape interval (15 s), so
/// that no scrape shows the values of the one before as new. State, age and XIDs stay.
const TOO_OLD: Duration = Duration::from_secs(10);

/// The row of this collector.
pub(super) const ENTRY: Entry = Entry {
    name: "gpu",
    about: "GPUs through NVML, from readings at most seconds old; makes no driver call itself",
    default: true,
    deadline: Duration::from_secs(1),
    new: || Box::new(GpuCollector),
};

struct GpuCollector;

impl Collector for GpuCollector {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let snapshot = &*context.gpus;
        let version = match &snapshot.driver {
            Driver::Loaded { version } => version,
            Driver::Starting => return Ok(Done::NotApplicable("the nvidia driver has not answered yet".to_owned())),
            Driver::Absent { reason } => {
                out.push(&rows::DRIVER_UP, &[], 0.0);
                return Ok(Done::NotApplicable(reason.clone()));
            }
            Driver::Released { left, version } => {
                out.push(&rows::RELEASE_REMAINING, &[], left.as_secs_f64());
                push_all(context, version, out);
                return Ok(Done::NotApplicable("the GPUs are released on request".to_owned()));
            }
        };
        out.push(&rows::DRIVER_UP, &[], 1.0);
        out.push(&rows::DRIVER_INFO, &[version], 1.0);
        push_all(context, version, out);
        Ok(Done::Ok)
    }
}

fn push_all(context: &Context, driver: &str, out: &mut Families) {
    let snapshot = &*context.gpus;
    out.push(&rows::NVML_CALLS, &[], snapshot.calls as f64);
    for (index, state) in &snapshot.unidentified {
        own::push_state(&index.to_string(), "", *state, out);
    }
    xid::push_channels(&snapshot.xids, out);
    let peers = health::Peers::of(&snapshot.gpus);
    for gpu in &snapshot.gpus {
        // State, age and events always, readings while they are fresh.
        let age = gpu.taken.map(|taken| snapshot.at.saturating_duration_since(taken));
        let (index, device) = (gpu.index.to_string(), device(gpu));
        let labels = [&index, &gpu.uuid, &gpu.pci_bus_id, &device, &gpu.model, &*context.hostname, driver];
        let owner = context.owners.device_labels(&gpu.uuid, Part::Whole).values();
        own::push_identity(gpu, age, &index, &device, out);
        xid::push(gpu, snapshot, &labels, &owner, out);
        if age.is_some_and(|age| age <= TOO_OLD) {
            own::push_readings(gpu, &index, out);
            health::push(gpu, &index, driver, &peers, out);
            dcgm::push(&gpu.values, &labels, &owner, out);
            mig::push(gpu, &context.owners, &labels, out);
            dcgm::push_clock_events(gpu, &labels, &owner, out);
        }
    }
}

/// dcgm-exporter's `device` label; empty where NVML does not tell the minor number.
fn device(gpu: &Gpu) -> String {
    gpu.minor.map_or_else(|_| String::new(), |minor| format!("nvidia{minor}"))
}
