//! The processes on GPUs, as `/proc` shows them.

use std::collections::BTreeMap;
use std::iter::successors;
use std::sync::Arc;

use super::{SEE_PROCESSES, Unread};
use crate::attribute::{Owner, Place};
use crate::collect::Context;
use crate::parse::ParseError;
use crate::source::files;
use crate::source::nvml::{Driver, Gpu, Virtualization};

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
    match seen.is_empty() {
        false => Ok(seen),
        true => {
            let what = format!("none of the {count} processes on GPUs is visible in {}", context.roots.proc.display());
            Err(Unread::Denied { what, permit: SEE_PROCESSES })
        }
    }
}

fn holders(context: &Context) -> Result<BTreeMap<u32, Vec<&Gpu>>, Unread> {
    let mut holders: BTreeMap<u32, Vec<&Gpu>> = BTreeMap::new();
    for gpu in &context.gpus.gpus {
        for process in gpu.processes.iter().flatten() {
            holders.entry(process.pid).or_default().push(gpu);
        }
    }
    match (holders.is_empty(), gpus(context)) {
        (false, _) => Ok(holders),
        (true, Err(absent)) => Err(absent),
        (true, Ok(_)) => Err(Unread::Absent("no process holds a GPU".to_owned())),
    }
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
    match boards.is_empty() {
        true => Err(Unread::Absent(format!("{what}: the GPUs are vGPUs: the hypervisor decides it"))),
        false => Ok(boards),
    }
}

/// An error where every GPU is lent by a hypervisor: a guest does not see what lies between them and its memory.
pub(super) fn sees_the_bus(context: &Context, what: &str) -> Result<(), Unread> {
    let all = &context.gpus.gpus;
    let is_lent = |gpu: &Gpu| gpu.virtualization.is_ok_and(Virtualization::is_guest);
    match !all.is_empty() && all.iter().all(is_lent) {
        true => Err(Unread::Absent(format!("{what}: the GPUs are a hypervisor's, and so is the bus that they are on"))),
        false => Ok(()),
    }
}

/// Owners whose processes hold a GPU and that have a cgroup of their own. An owner without one is not limited by one.
pub(super) fn owners(context: &Context) -> Result<Vec<&Arc<Owner>>, Unread> {
    gpus(context)?;
    let owners = context.owners.all().iter().filter(|owner| !owner.pids.is_empty() && !owner.places.is_empty());
    match owners.collect::<Vec<_>>() {
        none if none.is_empty() => Err(Unread::Absent("no job with a cgroup of its own holds a GPU".to_owned())),
        owners => Ok(owners),
    }
}

/// A cgroup and those above it, from below; the hierarchy's root, which has no limits, is left out.
pub(super) fn with_parents(place: &Place) -> impl Iterator<Item = Place> {
    let paths = successors(Some(place.path.clone()), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent.to_owned()).filter(|parent| !parent.is_empty())
    });
    let controllers = place.controllers.clone();
    paths.map(move |path| Place { controllers: controllers.clone(), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_and_those_above_it() {
        let paths = |path: &str| {
            let place = Place { controllers: String::new(), path: path.to_owned() };
            with_parents(&place).map(|place| place.path).collect::<Vec<_>>()
        };
        assert_eq!(paths("/a.slice/b.scope/c"), ["/a.slice/b.scope/c", "/a.slice/b.scope", "/a.slice"]);
        assert_eq!(paths("/a"), ["/a"]);
    }
}
