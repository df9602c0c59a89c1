//! `pressure`: time that tasks of the whole node waited for CPU, memory, I/O and interrupts.

use std::time::Duration;

use super::*;
use crate::parse::pressure;
use goodput_catalog::host::{PRESSURE_STALLED, PRESSURE_WAITING};

/// The files of `/proc/pressure`, and a cgroup's with `.pressure` behind.
pub(super) const RESOURCES: [&str; 4] = ["cpu", "memory", "io", "irq"];

/// The row of this collector.
pub(crate) const ENTRY: Entry =
    Entry::new::<Pressure>("pressure", "Time that the node's tasks waited for CPU, memory and I/O (PSI); 4 files.", 1);

/// Reads `/proc/pressure/*`.
#[derive(Default)]
pub struct Pressure;

impl Collector for Pressure {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let folder = context.roots.proc.join("pressure");
        let mut any = false;
        for resource in RESOURCES {
            let Some(total) = files::get(&folder.join(resource), pressure::parse) else { continue };
            out.push(&PRESSURE_WAITING, &[resource], total.some.map(|t| t.as_secs_f64()));
            out.push(
                &PRESSURE_STALLED,
                &[resource],
                total.full.filter(|t| defined(resource, *t)).map(|t| t.as_secs_f64()),
            );
            any = true;
        }
        if any { Ok(Done::Ok) } else { Ok(Done::NotApplicable(why_absent(&context.roots))) }
    }
}

/// All tasks of a whole node cannot lack CPU at once: kernels print a constant 0 there for compatibility
/// (accounting/psi.rst), which is no measurement. Some of 5.13 and later did count.
fn defined(resource: &str, full: Duration) -> bool {
    resource != "cpu" || !full.is_zero()
}

fn why_absent(roots: &Roots) -> String {
    let command_line = files::read(&roots.proc.join("cmdline")).unwrap_or_default();
    if command_line.split_ascii_whitespace().any(|word| word == "psi=0") {
        "psi=0 on the kernel command line turns pressure accounting off".to_owned()
    } else {
        "no /proc/pressure: kernel older than 4.20, built without CONFIG_PSI, or in need of psi=1 on its command line"
            .to_owned()
    }
}
