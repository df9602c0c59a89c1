//! `driver`: NVIDIA's kernel modules, their parameters, firmware and daemons, from files alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::*;
use crate::parse::nvidia;
use crate::source::daemons;
use goodput_catalog::driver::*;

/// A node has thousands of processes, most of them the kernel's own.
const DAEMONS_EVERY: Duration = Duration::from_secs(60);

/// Most versions of firmware that are told apart; a node has one.
const MAX_FIRMWARES: usize = 8;

const MODULES: [&str; 5] = ["nvidia", "nvidia_uvm", "nvidia_peermem", "nvidia_fs", "gdrdrv"];

/// Parameters that change what jobs see: firmware, interrupts, PCIe ordering, NVLink, sleeping when idle.
const PARAMETERS: [&str; 5] =
    ["EnableGpuFirmware", "EnableMSI", "EnablePCIERelaxedOrderingMode", "NvLinkDisable", "DynamicPowerManagement"];

/// Persistence, NVSwitch, DCGM, MPS, and memory shared between nodes.
const DAEMONS: [&str; 5] =
    ["nvidia-persistenced", "nv-fabricmanager", "nv-hostengine", "nvidia-cuda-mps-control", "nvidia-imex"];

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Driver>(
    "driver",
    "NVIDIA's kernel modules, parameters, firmware and daemons; 3 small files and 1 per GPU, and every 60 s 1 per process.",
    2,
);

/// Reads `/proc/driver/nvidia`, `/proc/modules`, and now and then the names of all processes.
#[derive(Default)]
pub struct Driver {
    daemons: Option<(Instant, Option<BTreeMap<&'static str, u32>>)>,
}

impl Collector for Driver {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let folder = roots.proc.join("driver/nvidia");
        let Some(module) = files::get(&folder.join("version"), nvidia::module) else {
            return Ok(Done::NotApplicable("no /proc/driver/nvidia/version: NVIDIA's module is not loaded".to_owned()));
        };
        let kind = if module.open { "open" } else { "proprietary" };
        out.push(&DRIVER_INFO, &[&module.version, kind], 1.0);
        modules(roots, out);
        files::get(&folder.join("params"), |text| {
            nvidia::parameters(text, |name, value| {
                if PARAMETERS.contains(&name) {
                    out.push(&DRIVER_PARAMETER, &[name], value as f64);
                }
            })
        });
        gpus(roots, out);
        self.daemons(context, out);
        Ok(Done::Ok)
    }
}

fn modules(roots: &Roots, out: &mut Families) {
    files::get(&roots.proc.join("modules"), |text| {
        let loaded: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        for module in MODULES {
            out.push(&DRIVER_MODULE, &[module], f64::from(u8::from(loaded.contains(module))));
        }
        Ok(())
    });
}

fn gpus(roots: &Roots, out: &mut Families) {
    let folder = roots.proc.join("driver/nvidia/gpus");
    let mut firmwares: BTreeMap<String, u64> = BTreeMap::new();
    let mut excluded = None;
    for gpu in files::names(&folder).unwrap_or_default() {
        let path = folder.join(gpu).join("information");
        let Some(information) = files::get(&path, nvidia::information) else { continue };
        if let Some(firmware) = information.firmware {
            *firmwares.entry(firmware).or_default() += 1;
        }
        if let Some(yes) = information.excluded {
            *excluded.get_or_insert(0) += u64::from(yes);
        }
    }
    for (firmware, gpus) in firmwares.iter().take(MAX_FIRMWARES) {
        out.push(&DRIVER_FIRMWARE, &[firmware], *gpus as f64);
    }
    out.push(&DRIVER_EXCLUDED, &[], excluded.map(|n| n as f64));
}

impl Driver {
    fn daemons(&mut self, context: &Context, out: &mut Families) {
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let fresh = self.daemons.take().filter(|(then, _)| now.duration_since(*then) < DAEMONS_EVERY);
        let (then, running) = match fresh {
            Some(fresh) => fresh,
            None => (now, daemons::running(&context.roots, &DAEMONS)),
        };
        for daemon in DAEMONS.iter().filter(|_| running.is_some()) {
            let runs = running.as_ref().is_some_and(|running| running.contains_key(daemon));
            out.push(&DRIVER_DAEMON, &[daemon], f64::from(u8::from(runs)));
        }
        self.daemons = Some((then, running));
    }
}
