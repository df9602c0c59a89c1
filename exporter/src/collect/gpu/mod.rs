//! `gpu`: the newest snapshot of every GPU, under dcgm-exporter's names and our own.

mod dcgm;
mod health;
pub(crate) mod labels;
mod mig;
mod own;
mod policy;
#[cfg(test)]
mod tests;
mod window;
mod xid;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::parse::device_id::Part;
use crate::source::nvml::{Driver, Gpu};
use goodput_catalog::gpu as rows;

/// Readings older than this are not shown any more: ten cycles, and less than one usual scrape interval (15 s), so
/// that no scrape shows the values of the one before as new. State, age and XIDs stay.
const TOO_OLD: Duration = Duration::from_secs(10);

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<GpuCollector>(
    "gpu",
    "GPUs through NVML, from readings at most seconds old; makes no driver call itself",
    1,
);

/// Keeps what windows are counted from, by UUID.
#[derive(Default)]
struct GpuCollector {
    memory: BTreeMap<String, dcgm::Memory>,
}

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
                self.push_all(context, version, out);
                return Ok(Done::NotApplicable("the GPUs are released on request".to_owned()));
            }
        };
        out.push(&rows::DRIVER_UP, &[], 1.0);
        out.push(&rows::DRIVER_INFO, &[version], 1.0);
        self.push_all(context, version, out);
        Ok(Done::Ok)
    }
}

impl GpuCollector {
    fn push_all(&mut self, context: &Context, driver: &str, out: &mut Families) {
        let snapshot = &*context.gpus;
        out.push(&rows::NVML_CALLS, &[], snapshot.calls as f64);
        for (index, state) in &snapshot.unidentified {
            own::push_state(&index.to_string(), "", *state, out);
        }
        xid::push_channels(&snapshot.xids, out);
        let peers = health::Peers::of(&snapshot.gpus);
        for gpu in &snapshot.gpus {
            self.push(gpu, context, driver, &peers, out);
        }
    }

    /// Everything about one GPU: state, age and events always, readings while they are fresh.
    fn push(&mut self, gpu: &Gpu, context: &Context, driver: &str, peers: &health::Peers<'_>, out: &mut Families) {
        let at = context.gpus.at;
        let age = gpu.taken.map(|taken| at.saturating_duration_since(taken));
        let readings = age.filter(|age| *age <= TOO_OLD).map(|_| &*gpu.values);
        let (index, device) = (gpu.index.to_string(), device(gpu));
        own::push_identity(gpu, age, &index, &device, out);
        let xids = xid::push(gpu, &index, &context.gpus, out);
        if readings.is_some() {
            own::push_readings(gpu, &index, out);
            health::push(gpu, &index, peers, out);
            mig::push(gpu, &index, out);
        }
        let labels = [&*index, &gpu.uuid, &gpu.pci_bus_id, &device, &gpu.model, &context.hostname];
        let owner = context.owners.device_labels(&gpu.uuid, Part::Whole).values();
        let instances: Vec<_> = gpu.values.instances.iter().map(|instance| instance.id.to_string()).collect();
        let mut writer = dcgm::Writer::new(gpu, labels, driver, owner, &context.dcgm, out);
        let memory = self.memory.entry(gpu.uuid.clone()).or_default();
        writer.events(gpu, xids, at, memory);
        writer.health(readings, xids, at, memory);
        if let Some(values) = readings {
            writer.readings(values);
            mig::push_readings(gpu, &instances, &context.owners, &mut writer);
        }
    }
}

/// dcgm-exporter's `device` label; empty where NVML does not tell the minor number.
fn device(gpu: &Gpu) -> String {
    gpu.minor.map_or_else(|_| String::new(), |minor| format!("nvidia{minor}"))
}
