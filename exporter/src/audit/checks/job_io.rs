//! Limits on the block I/O of jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::collect::cgroup::io_limits::{self, Group};
use crate::context::Context;
use crate::parse::io_limits::{Kind, Limit};

pub(super) static LIMITS: Check = Check {
    id: "job_io_limits",
    title: "Limits on the I/O of the jobs on GPUs",
    reads: "io.max, io.weight and io.latency of every v2 cgroup with GPU processes and of those above it, \
            blkio.throttle.*_device of those of v1, /sys/dev/block/*/uevent",
    families: &[
        &catalog::host::CGROUP_IO_LIMIT_BYTES,
        &catalog::host::CGROUP_IO_LIMIT_OPERATIONS,
        &catalog::host::CGROUP_IO_WEIGHT,
        &catalog::host::CGROUP_IO_LATENCY_TARGET,
    ],
    expected: Expected::always("none"),
    why: "At such a limit the kernel holds back reads of the data set and writes of the checkpoint, however fast the disk \
          is. Disk metrics then show an idle disk, and the GPU waits. With a weight below 100, or a target for latency \
          above another cgroup's, it holds them back while others use the disk.",
    fixes: &[
        Fix {
            command: "systemctl set-property --runtime UNIT IOReadBandwidthMax= IOWriteBandwidthMax= IOReadIOPSMax= \
                      IOWriteIOPSMax= IOWeight= IODeviceLatencyTargetSec=",
            lasting: Some("the same without --runtime"),
            risk: "the job may take the disk from its neighbours: the one who set the limit knows why",
            ..Fix::USUAL
        },
        Fix {
            command: "pod: change the policy that sets the limit (NRI plug-in, annotation of the runtime)",
            restarts: "the pod",
            who: Who::ClusterAdmin,
            risk: "as above",
            ..Fix::USUAL
        },
    ],
    sources: &[
        kernel("Control Group v2: io.max, io.weight, io.latency", CGROUP_V2),
        kernel(
            "Block IO Controller: throttling; limits of a v1 cgroup do not hold for those below it",
            "https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html",
        ),
        own("a warning: a limit that is never reached costs nothing"),
    ],
    run: |context, _| judge(&limited(context)?),
};

/// What the files of the groups say, by path; nothing of a group without a file.
fn limited(context: &Context) -> Result<BTreeMap<String, Vec<String>>, Unread> {
    let mut found = BTreeMap::new();
    for owner in jobs::owners(context)? {
        for group in io_limits::groups(&context.roots, owner) {
            let Some(limits) = group.limits() else { continue };
            let limits = limits.into_iter().map(|(file, limit)| spell(context, &group, file, &limit));
            let weight = group.weight().filter(|weight| *weight < io_limits::DEFAULT_WEIGHT);
            let weight = weight.map(|weight| format!("weight {weight} by io.weight of {}", group.path));
            let targets = group.targets().into_iter().map(|(device, target)| aim(context, &group, &device, target));
            found.insert(group.path.clone(), limits.chain(weight).chain(targets).collect());
        }
    }
    Ok(found)
}

fn spell(context: &Context, group: &Group, file: &str, Limit { device, kind, most }: &Limit) -> String {
    let device = io_limits::name(&context.roots, device);
    let most = match kind {
        Kind::ReadBytes => format!("reads {}/s", bytes(*most)),
        Kind::WrittenBytes => format!("writes {}/s", bytes(*most)),
        Kind::Reads => count(usize::try_from(*most).unwrap_or(usize::MAX), "read") + "/s",
        Kind::Writes => count(usize::try_from(*most).unwrap_or(usize::MAX), "write") + "/s",
    };
    format!("{device} {most} by {file} of {}", group.path)
}

fn aim(context: &Context, group: &Group, device: &str, target: Duration) -> String {
    format!("{} target {target:?} by io.latency of {}", io_limits::name(&context.roots, device), group.path)
}

fn judge(groups: &BTreeMap<String, Vec<String>>) -> Result<Verdict, Unread> {
    Unread::unless(!groups.is_empty(), "no cgroup of a job has the io controller")?;
    let limits: Vec<String> = groups.values().flatten().cloned().collect();
    Ok(Verdict::listing(Status::Warn, limits, format!("none in {}", count(groups.len(), "cgroup"))))
}
