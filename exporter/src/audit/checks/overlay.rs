//! Writable layers of containers.

use super::*;
use crate::collect::overlay;
use crate::context::Context;
use crate::parse::number;
use crate::source::files;

pub(super) static LAYER: Check = Check {
    id: "overlay_layer",
    title: "Disk under containers' writable layers",
    reads: "/proc/PID/mountinfo upperdir, /proc/1/mountinfo, /sys/dev/block/*/queue/rotational",
    families: &[&catalog::overlay::OVERLAY_INFO],
    expected: Expected::always("a local disk without moving parts"),
    why: "What a job writes outside its volumes, such as checkpoints, caches and compiled kernels, goes to the writable \
          layer, and a file of the image is copied there whole at the first write. On a slow disk the job waits.",
    fixes: &[Fix {
        command: "mount a volume on a local NVMe drive where the job writes, or move the runtime's folder there (root in \
                  /etc/containerd/config.toml, data-root in /etc/docker/daemon.json)",
        restarts: "the container; with the runtime's folder every container of the node",
        who: Who::ClusterAdmin,
        risk: "images have to be pulled again to the new folder",
        ..Fix::USUAL
    }],
    sources: &[
        kernel(
            "Overlay Filesystem: upper and lower, non-directories",
            "https://docs.kernel.org/filesystems/overlayfs.html",
        ),
        own("a warning: a job that writes to its volumes alone does not care"),
    ],
    run: |context, _| {
        let mut layers = Vec::new();
        for owner in jobs::owners(context)? {
            let Some(folder) = overlay::upper_folder(&context.roots, owner) else { continue };
            layers.push((owner.id.clone(), ground(context, &folder)?));
        }
        Unread::unless(!layers.is_empty(), "no GPU process has an overlay as its root")?;
        Ok(judge(&layers))
    },
};

/// What a writable layer lies on.
enum Ground {
    Fast,
    Rotating(String),
    /// A file system that is on no disk of this node, such as NFS or tmpfs.
    NoDisk(String),
    /// The node's first process does not see the folder.
    Unknown,
}

fn ground(context: &Context, folder: &str) -> Result<Ground, Unread> {
    Ok(match overlay::place(&context.roots, folder) {
        None => Ground::Unknown,
        Some((kind, device)) if device.is_empty() => Ground::NoDisk(kind),
        Some((_, device)) => {
            let disk = context.roots.sys.join("dev/block").join(&device);
            let name = overlay::disk_name(&context.roots, &device).unwrap_or(device);
            match files::parse_optional(&disk.join("queue/rotational"), number::<u8>)? {
                Some(0) => Ground::Fast,
                Some(_) => Ground::Rotating(name),
                None => Ground::Unknown,
            }
        }
    })
}

fn judge(layers: &[(String, Ground)]) -> Verdict {
    let slow = layers.iter().filter_map(|(owner, ground)| match ground {
        Ground::Fast | Ground::Unknown => None,
        Ground::Rotating(disk) => Some(format!("{owner} on {disk}, which rotates")),
        Ground::NoDisk(kind) => Some(format!("{owner} on {kind}")),
    });
    let unknown = layers.iter().filter(|(_, ground)| matches!(ground, Ground::Unknown)).count();
    if unknown == layers.len() {
        return Verdict::new(
            Status::NotApplicable,
            "where the layers are is not visible from the node's first process",
        );
    }
    let right = format!("right for {}", count(layers.len() - unknown, "container"));
    Verdict::listing(Status::Warn, slow.collect(), right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{NotApplicable, Pass, Warn};

    #[test]
    fn grounds() {
        let judge =
            |grounds: Vec<Ground>| judge(&grounds.into_iter().map(|g| ("job".to_owned(), g)).collect::<Vec<_>>());
        assert_eq!(judge(vec![Ground::Fast, Ground::Unknown]).read, "right for 1 container");
        assert_eq!(judge(vec![Ground::Fast]).status, Pass);
        assert_eq!(judge(vec![Ground::Unknown]).status, NotApplicable);
        let verdict = judge(vec![Ground::Fast, Ground::Rotating("sda".into()), Ground::NoDisk("nfs4".into())]);
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "job on sda, which rotates, job on nfs4"));
    }
}
