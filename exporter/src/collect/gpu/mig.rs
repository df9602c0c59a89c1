//! MIG: what is a GPU instance's own.
//!
//! dcgm-exporter shows a GPU that is cut up by its instances alone and repeats what is the board's (power, temperature,
//! clocks, XIDs, ECC) with each of them. Here the GPU keeps its series, and an instance has those that it can be read of.

use super::dcgm;
use crate::attribute::Owners;
use crate::parse::device_id::Part;
use crate::source::nvml::{Gpu, Instance};
use goodput_catalog::mig as rows;
use goodput_exposition::Families;

/// Writes whether the GPU is cut up, and what its instances are.
pub(super) fn push(gpu: &Gpu, index: &str, out: &mut Families) {
    if let Ok(mode) = gpu.values.mig_mode {
        for (name, enabled) in [("current", mode.current), ("pending", mode.pending)] {
            out.push(&rows::MODE, &[index, &gpu.uuid, name], f64::from(u8::from(enabled)));
        }
    }
    out.push(&rows::CAPACITY, &[index, &gpu.uuid], gpu.values.mig_slices.map(f64::from));
    for instance in &gpu.values.instances {
        let (id, profile) = (instance.id.to_string(), instance.profile.as_deref().unwrap_or_default());
        for device in &instance.devices {
            let labels = [index, &gpu.uuid, &id, &device.uuid, &device.compute_instance.to_string()];
            out.push_with(&rows::MIG_INFO, &labels, &[profile], 1.0);
        }
        push_use(gpu, instance, &[index, &gpu.uuid, &id], &[profile], out);
    }
}

/// Writes what each instance can be read of, under dcgm-exporter's names; `ids` are those of the instances.
pub(super) fn push_readings<'a>(gpu: &'a Gpu, ids: &'a [String], owners: &'a Owners, writer: &mut dcgm::Writer<'a>) {
    for (instance, id) in gpu.values.instances.iter().zip(ids) {
        let owner = owners.device_labels(&gpu.uuid, Part::Instance(instance.id)).values();
        writer.of_instance(owner, instance.profile.as_deref().unwrap_or_default(), id);
        writer.readings(&instance.values);
    }
}

fn push_use(gpu: &Gpu, instance: &Instance, labels: &[&str], profile: &[&str], out: &mut Families) {
    out.push_with(&rows::SLICES, labels, profile, instance.slices.map(f64::from));
    // Without GPM there is no busy time; that is not a busy time of zero.
    let busy = gpu.totals.instances.get(&(instance.id, instance.profile.clone()));
    out.push_with(&rows::MIG_BUSY, labels, profile, busy.map(|busy| busy.busy_seconds()));
    out.push_with(&rows::MIG_OBSERVED, labels, profile, busy.map(|busy| busy.observed_seconds()));
    if let Ok(processes) = &gpu.processes {
        let here = processes.iter().filter(|process| process.instance == Some(instance.id)).count();
        out.push_with(&rows::MIG_PROCESSES, labels, profile, here as f64);
    }
}
