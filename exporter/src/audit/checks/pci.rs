//! How PCI devices reach memory and each other.

use super::*;
use crate::parse::{ParseError, bus_id, choice};
use crate::source::files;

pub(super) static IOMMU: Check = Check {
    id: "iommu",
    title: "Translation of memory accesses of GPUs and RDMA devices",
    reads: "/sys/bus/pci/devices/*/iommu_group/type of every GPU, /sys/class/infiniband/*/device/iommu_group/type, \
            /proc/sys/kernel/arch, nvmlDeviceGetVirtualizationMode",
    families: &[],
    expected: Expected::always("none, or identity (iommu=pt); machines with arm processors are not judged"),
    why: "When the IOMMU translates, messages between GPUs, and between a GPU and a NIC, go up to the processor and back \
          instead of through the PCIe switch below it: slower, and on some machines they hang.",
    fixes: &[
        Fix {
            command: "kernel parameter: iommu=pt",
            restarts: "the node",
            risk: "a faulty device can write to any memory; devices of virtual machines stay confined",
            ..Fix::USUAL
        },
        Fix {
            command: "switch VT-d or AMD-Vi off in the firmware",
            restarts: "the node",
            who: Who::Hardware,
            risk: "no devices for virtual machines; some processors need it for more than 255 CPUs",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor(
            "NCCL, Troubleshooting: PCI Access Control Services",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        ),
        kernel("ABI: /sys/kernel/iommu_groups/ID/type", "https://docs.kernel.org/admin-guide/abi-testing.html"),
        NOT_IN_A_GUEST,
        own("a warning: traffic over NVLink does not care; arm servers with NVIDIA's processors translate by design"),
    ],
    run: |context, _| {
        jobs::sees_the_bus(context, "IOMMU")?;
        let word = |text: &str| Ok::<_, ParseError>(text.trim().to_owned());
        let arch = files::parse_optional(&context.roots.proc.join("sys/kernel/arch"), word)?;
        Unread::unless(arch.is_none_or(|arch| arch != "aarch64"), "an arm processor")?;
        let mut types = Vec::new();
        for gpu in jobs::gpus(context)? {
            let Some(name) = bus_id::sysfs_name(&gpu.pci_bus_id) else { continue };
            let path = context.roots.sys.join("bus/pci/devices").join(name).join("iommu_group/type");
            types.extend(files::parse_optional(&path, word)?.map(|kind| (format!("GPU {}", gpu.index), kind)));
        }
        let class = context.roots.sys.join("class/infiniband");
        let mut devices = files::list(&class)?.unwrap_or_default();
        devices.sort_unstable();
        for device in devices {
            let path = class.join(&device).join("device/iommu_group/type");
            types.extend(files::parse_optional(&path, word)?.map(|kind| (device, kind)));
        }
        Ok(judge_iommu(&types))
    },
};

/// By GPU or RDMA device: how its accesses are treated; nothing of those without an IOMMU.
fn judge_iommu(types: &[(String, String)]) -> Verdict {
    let translated = types.iter().filter(|(_, kind)| kind.starts_with("DMA"));
    let read: Vec<String> = translated.map(|(device, kind)| format!("{device}: {kind}")).collect();
    match (types.is_empty(), read.is_empty()) {
        (true, _) => Verdict::new(Status::Pass, "no IOMMU"),
        (false, true) => Verdict::new(Status::Pass, "not translated"),
        (false, false) => Verdict::new(Status::Warn, list(&read)),
    }
}

pub(super) static ASPM: Check = Check {
    id: "pcie_power_saving",
    title: "Power saving of PCIe links",
    reads: "/sys/module/pcie_aspm/parameters/policy, nvmlDeviceGetVirtualizationMode",
    families: &[],
    expected: Expected::always("default or performance"),
    why: "A link that falls asleep between messages has to wake up for the next one. GPUs, NICs and NVMe drives all pay \
          for it, in microseconds each time.",
    fixes: &[Fix {
        command: "echo performance > /sys/module/pcie_aspm/parameters/policy",
        lasting: Some("kernel parameter pcie_aspm.policy=performance"),
        risk: "more power when idle",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "Red Hat, Power Management Guide: Active-State Power Management",
            "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/7/html/power_management_guide/aspm",
        ),
        NOT_IN_A_GUEST,
        own("a warning: how much it costs depends on the devices"),
    ],
    run: |context, _| {
        jobs::sees_the_bus(context, "power saving of PCIe links")?;
        let path = context.roots.sys.join("module/pcie_aspm/parameters/policy");
        Ok(judge_aspm(&files::parse(&path, |text| choice::active(text).map(str::to_owned))?))
    },
};

fn judge_aspm(policy: &str) -> Verdict {
    let saves = ["powersave", "powersupersave"].contains(&policy);
    Verdict::new(if saves { Status::Warn } else { Status::Pass }, policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn translation() {
        let types = |kinds: [&str; 2]| {
            ["GPU 0", "mlx5_0"].into_iter().map(str::to_owned).zip(kinds.map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(judge_iommu(&[]).read, "no IOMMU");
        assert_eq!(judge_iommu(&types(["identity", "identity"])).status, Pass);
        let verdict = judge_iommu(&types(["identity", "DMA-FQ"]));
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "mlx5_0: DMA-FQ"));
    }

    #[test]
    fn power_saving() {
        let status = |policy| judge_aspm(policy).status;
        assert_eq!(["default", "performance", "powersave", "powersupersave"].map(status), [Pass, Pass, Warn, Warn]);
    }
}
