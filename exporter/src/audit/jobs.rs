//! The processes on GPUs, as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::{SEE_PROCESSES, Unread};
use crate::attribute::{Owner, Place};
use crate::context::Context;
use crate::parse::ParseError;
use crate::source::nvml::{Driver, Gpu, Virtualization};
use crate::source::{cgroupfs, files};

/// One process and what was read of it.
pub(super) struct GpuProcess<'a, T> {
    pub(super) pid: u32,
    pub(super) gpus: Vec<&'a Gpu>,
    pub(super) value: T,
}

/// Parses `/proc/PID/FILE` of every process that holds a GPU. A process that has ended meanwhile is left out; when not
/// one of them can be seen, their pids mean nothing here.
pub(super) fn read<'a, T>(
    context: &'a Context,
    file: &str,
    parse: impl Fn(&str) -> Result<Option<T>, ParseError>,
) -> Result<Vec<GpuProcess<'a, T>>, Unread> {
    let holders = holders(context)?;
    let (count, mut seen) = (holders.len(), Vec::with_capacity(holders.len()));
    for (pid, gpus) in holders {
        let path = context.roots.proc.join(pid.to_string()).join(file);
        if let Some(value) = files::parse_optional(&path, &parse)?.flatten() {
            seen.push(GpuProcess { pid, gpus, value });
        }
    }
    if seen.is_empty() {
        let what = format!("none of the {count} processes on GPUs is visible in {}", context.roots.proc.display());
        return Err(Unread::Denied { what, permit: SEE_PROCESSES });
    }
    Ok(seen)
}

fn holders(context: &Context) -> Result<BTreeMap<u32, Vec<&Gpu>>, Unread> {
    let mut holders: BTreeMap<u32, Vec<&Gpu>> = BTreeMap::new();
    for gpu in &context.gpus.gpus {
        for process in gpu.processes.iter().flatten() {
            holders.entry(process.pid).or_default().push(gpu);
        }
    }
    gpus(context)?;
    Unread::unless(!holders.is_empty(), "no process holds a GPU")?;
    Ok(holders)
}

/// The GPUs; there is at least one.
pub(super) fn gpus(context: &Context) -> Result<&[Gpu], Unread> {
    match (context.gpus.gpus.as_slice(), &context.gpus.driver) {
        ([], Driver::Absent { .. }) => Err(Unread::Absent("no GPU driver".to_owned())),
        ([], _) => Err(Unread::Absent("no GPU".to_owned())),
        (gpus, _) => Ok(gpus),
    }
}

/// The GPUs whose board this machine sees. A vGPU is a share of one: what is asked about is the hypervisor's to set, and the
/// guest's driver either does not say or says what holds for the share alone.
pub(super) fn boards<'a>(context: &'a Context, what: &str) -> Result<Vec<&'a Gpu>, Unread> {
    let is_share = |gpu: &&Gpu| gpu.virtualization == Ok(Virtualization::Vgpu);
    let boards: Vec<&Gpu> = gpus(context)?.iter().filter(|gpu| !is_share(gpu)).collect();
    Unread::unless(!boards.is_empty(), &format!("{what}: the GPUs are vGPUs: the hypervisor decides it"))?;
    Ok(boards)
}

/// An error where every GPU is lent by a hypervisor: a guest does not see what lies between them and its memory.
pub(super) fn sees_the_bus(context: &Context, what: &str) -> Result<(), Unread> {
    let all = &context.gpus.gpus;
    let is_lent = |gpu: &Gpu| gpu.virtualization.is_ok_and(Virtualization::is_guest);
    let absent = format!("{what}: the GPUs are a hypervisor's, and so is the bus that they are on");
    Unread::unless(all.is_empty() || !all.iter().all(is_lent), &absent)
}

/// Owners whose processes hold a GPU and that have a cgroup of their own. An owner without one is not limited by one.
pub(super) fn owners(context: &Context) -> Result<Vec<&Arc<Owner>>, Unread> {
    gpus(context)?;
    let owners = context.owners.all().iter().filter(|owner| !owner.pids.is_empty() && !owner.places.is_empty());
    let owners: Vec<_> = owners.collect();
    Unread::unless(!owners.is_empty(), "no job with a cgroup of its own holds a GPU")?;
    Ok(owners)
}

/// A cgroup and those above it, from below; the hierarchy's root, which has no limits, is left out.
pub(super) fn with_parents(place: &Place) -> impl Iterator<Item = Place> {
    let controllers = place.controllers.clone();
    cgroupfs::upwards(&place.path).map(move |path| Place { controllers: controllers.clone(), path })
}

/// The cgroups of those who hold a GPU, and those above them, once each: their path, and their folder in the hierarchy
/// of this controller; without a controller, in that of version 2.
pub(super) fn folders(context: &Context, controller: &str) -> Result<BTreeSet<(String, PathBuf)>, Unread> {
    let places = owners(context)?.into_iter().flat_map(|owner| &owner.places).flat_map(with_parents);
    Ok(places.filter_map(|place| Some((place.path.clone(), folder(context, &place, controller)?))).collect())
}

/// A group's folder in the hierarchy of this controller; without a controller, in that of version 2.
pub(super) fn folder(context: &Context, place: &Place, controller: &str) -> Option<PathBuf> {
    let Place { controllers, path } = place;
    if controllers.is_empty() {
        return Some(cgroupfs::group(&cgroupfs::v2_root(&context.roots), path));
    }
    let here = controllers.split(',').any(|name| name == controller);
    here.then(|| cgroupfs::v1_group(&context.roots, controllers, controller, path)).flatten()
}
