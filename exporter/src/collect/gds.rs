//! `gds`: GPUDirect Storage by NVIDIA's module nvidia-fs.

use super::*;
use crate::parse::gds;
use goodput_catalog::gds::*;

/// The row of this collector; off by default, as the module counts nothing by default either.
pub(crate) const ENTRY: Entry = Entry {
    default: false,
    ..Entry::new::<Gds>("gds", "Reads and writes of GPUDirect Storage by nvidia-fs; 1 small file.", 1)
};

/// Reads `/proc/driver/nvidia-fs/stats`.
#[derive(Default)]
pub struct Gds;

impl Collector for Gds {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let path = context.roots.proc.join("driver/nvidia-fs/stats");
        let Some(stats) = files::parse_optional(&path, gds::parse)? else {
            return Ok(Done::NotApplicable("no /proc/driver/nvidia-fs: the module is not loaded".to_owned()));
        };
        out.push(&GDS_PROCESSES, &[], stats.processes.map(|n| n as f64));
        for (direction, told) in [("read", stats.reads), ("write", stats.writes)] {
            out.push(&GDS_OPERATIONS, &[direction], told.operations.map(|n| n as f64));
            out.push(&GDS_BYTES, &[direction], told.bytes.map(|n| n as f64));
            out.push(&GDS_ERRORS, &[direction], told.errors.map(|n| n as f64));
        }
        Ok(Done::Ok)
    }
}
