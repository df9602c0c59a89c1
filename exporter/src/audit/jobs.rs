//! The processes on GPUs, as `/proc` shows them.

use std::collections::BTreeMap;

use super::{SEE_PROCESSES, Unread};
use crate::collect::Context;
use crate::parse::ParseError;
use crate::source::files;
use crate::source::nvml::{Driver, Gpu};

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

/// The GPUs, of which there is at least one.
pub(super) fn gpus(context: &Context) -> Result<&[Gpu], Unread> {
    match (context.gpus.gpus.as_slice(), &context.gpus.driver) {
        ([], Driver::Absent { .. }) => Err(Unread::Absent("no GPU driver".to_owned())),
        ([], _) => Err(Unread::Absent("no GPU".to_owned())),
        (gpus, _) => Ok(gpus),
    }
}
