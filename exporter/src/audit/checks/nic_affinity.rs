//! Which GPUs have a NIC near them.

use super::*;
use crate::collect::pci::nearest;
use crate::context::Context;
use crate::source::pci_path::PciPath;

pub(super) static AFFINITY: Check = Check {
    id: "gpu_nic_affinity",
    title: "NICs near each GPU",
    reads: "/sys/bus/pci/devices/* of every GPU, /sys/class/{infiniband,net}/*/device, their numa_node, \
            nvmlDeviceGetVirtualizationMode",
    families: &[&catalog::gpu::NEAREST_NIC],
    expected: Expected::always("for every GPU a NIC on its NUMA node, an RDMA device where the node has any"),
    why: "What a GPU sends over a NIC of the other socket crosses the interconnect between the sockets, which is slower \
          than the NIC and shared, and goes through host memory: NCCL uses GPUDirect RDMA for near NICs only. A ring is as \
          fast as its slowest GPU.",
    fixes: &[Fix {
        command: "move a NIC to a slot of that socket, best below the GPU's PCIe switch; check with nvidia-smi topo -m",
        restarts: "the node",
        who: Who::Hardware,
        risk: "downtime; until then give jobs of one or two GPUs those that have a NIC",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "NCCL, Environment Variables: NCCL_NET_GDR_LEVEL, path types",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        ),
        NOT_IN_A_GUEST,
        own("a warning: jobs within one node do not care"),
    ],
    run: |context, _| {
        jobs::gpus(context)?;
        jobs::sees_the_bus(context, "NICs near the GPUs")?;
        numa::multiple(context)?;
        judge(&paths(context)?)
    },
};

/// The way to the nearest NIC by GPU; `None` where it is not known.
fn paths(context: &Context) -> Result<Vec<(u32, Option<PciPath>)>, Unread> {
    let nics = nearest::nics(context);
    Unread::unless(!nics.is_empty(), "no NIC on a PCI bus")?;
    let way = |gpu| nearest::slot(context, gpu).and_then(|slot| nearest::nearest(&slot, &nics)).map(|(path, _)| path);
    Ok(jobs::gpus(context)?.iter().map(|gpu| (gpu.index, way(gpu))).collect())
}

fn judge(gpus: &[(u32, Option<PciPath>)]) -> Result<Verdict, Unread> {
    let far = gpus.iter().filter(|(_, path)| *path == Some(PciPath::Sys));
    let far: Vec<String> = far.map(|(gpu, _)| format!("GPU {gpu} has none on its NUMA node")).collect();
    // One whose way is not known is as little a pass as a finding.
    let unknown: Vec<String> =
        gpus.iter().filter(|(_, path)| path.is_none()).map(|(gpu, _)| format!("GPU {gpu}")).collect();
    let why = format!("not known which NIC is near {}", list(&unknown));
    Unread::unless(unknown.is_empty() || !far.is_empty(), &why)?;
    Ok(Verdict::listing(Status::Warn, far, format!("near each of {}", count(gpus.len(), "GPU"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn gpus_and_their_nics() {
        let judge = |paths: &[Option<PciPath>]| judge(&(0..).zip(paths.iter().copied()).collect::<Vec<_>>());
        let said = |paths: &[Option<PciPath>]| judge(paths).map(|verdict| (verdict.status, verdict.read)).unwrap();
        let (near, node, far) = (Some(PciPath::Pix), Some(PciPath::Node), Some(PciPath::Sys));
        assert_eq!(said(&[near, node]), (Pass, "near each of 2 GPUs".to_owned()));
        assert_eq!(said(&[near, far]), (Warn, "GPU 1 has none on its NUMA node".to_owned()));
        assert_eq!(said(&[None, far]).0, Warn, "what is known is said");
        assert!(judge(&[near, None]).is_err(), "not judged, and no pass");
    }
}
