//! The NVIDIA kernel modules.

use std::collections::BTreeSet;

use super::*;
use crate::collect::irq::device::{self, Class};
use crate::context::Context;
use crate::parse::hexadecimal;
use crate::parse::nvidia::{self, Module};
use crate::source::nvml::Driver;
use crate::source::{daemons, files};

const GPU_OPERATOR_RDMA: &str =
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html";

pub(super) static MODULES: Check = Check {
    id: "driver_modules",
    title: "Kernel modules of the driver",
    reads: "/proc/modules, /sys/bus/pci/devices/*/{class,vendor,uevent}",
    families: &[&catalog::driver::DRIVER_MODULE, &catalog::gpu::PCI_DEVICES],
    expected: Expected::always("nvidia and nvidia_uvm loaded"),
    why: "Without nvidia nothing works, without nvidia_uvm CUDA does not start. Modules that are only loaded by the \
          first job make it wait, and in a container it may not be able to load them at all.",
    fixes: &[Fix {
        command: "modprobe -a nvidia nvidia_uvm",
        lasting: Some("printf 'nvidia\\nnvidia_uvm\\n' > /etc/modules-load.d/nvidia.conf"),
        ..Fix::USUAL
    }],
    sources: &[vendor(
        "NVIDIA, CUDA Installation Guide for Linux: device node verification",
        "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
    )],
    run: |context, _| {
        let loaded = modules(context)?;
        Ok(judge_modules(&loaded, gpus_for_the_driver(context)?))
    },
};

fn judge_modules(loaded: &BTreeSet<String>, gpus: usize) -> Verdict {
    let missing: Vec<String> =
        ["nvidia", "nvidia_uvm"].map(str::to_owned).into_iter().filter(|name| !loaded.contains(name)).collect();
    match (gpus, missing.is_empty()) {
        (0, _) => Verdict::new(Status::NotApplicable, "no NVIDIA GPU for this driver"),
        (_, true) => Verdict::new(Status::Pass, "nvidia and nvidia_uvm"),
        (_, false) => {
            Verdict::new(Status::Fail, format!("not loaded: {}, with {}", list(&missing), count(gpus, "GPU")))
        }
    }
}

fn modules(context: &Context) -> Result<BTreeSet<String>, Unread> {
    let names = |text: &str| Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect());
    Ok(files::parse(&context.roots.proc.join("modules"), names)?)
}

/// NVIDIA GPUs on the PCI bus that are not handed to a virtual machine.
pub(super) fn gpus_for_the_driver(context: &Context) -> Result<usize, Unread> {
    let folder = context.roots.sys.join("bus/pci/devices");
    let mut count = 0;
    for name in files::list(&folder)?.unwrap_or_default() {
        let device = folder.join(&name);
        if device::class(&device) == Some(Some(Class::Gpu)) {
            let passed_through = |text: &str| Ok(text.lines().any(|line| line == "DRIVER=vfio-pci"));
            count += usize::from(!files::parse_optional(&device.join("uevent"), passed_through)?.unwrap_or(false));
        }
    }
    Ok(count)
}

pub(super) static NOUVEAU: Check = Check {
    id: "nouveau",
    title: "Another driver for the GPUs",
    reads: "/proc/modules",
    families: &[],
    expected: Expected::always("nouveau is not loaded"),
    why: "The kernel's own driver for NVIDIA GPUs takes them before the vendor's can. Which one wins is decided again at every boot, and after an update of the kernel.",
    fixes: &[Fix {
        command: "printf 'blacklist nouveau\noptions nouveau modeset=0\n' > /etc/modprobe.d/nouveau.conf, then make the \
                  initramfs anew",
        restarts: "the node",
        risk: "no picture on a screen at the GPU before the vendor's driver is loaded",
        ..Fix::USUAL
    }],
    sources: &[vendor(
        "NVIDIA, CUDA Installation Guide for Linux: disabling Nouveau",
        "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
    )],
    run: |context, _| Ok(judge_nouveau(&modules(context)?)),
};

fn judge_nouveau(loaded: &BTreeSet<String>) -> Verdict {
    match loaded.contains("nouveau") {
        true => Verdict::new(Status::Fail, "loaded"),
        false => Verdict::new(Status::Pass, "not loaded"),
    }
}

pub(super) static FABRIC: Check = Check {
    id: "fabric_manager",
    title: "Fabric manager",
    reads: "/sys/bus/pci/devices/*/{class,vendor}, /proc/*/comm, pid files of nv-fabricmanager in /run",
    families: &[&catalog::driver::DRIVER_DAEMON],
    expected: Expected::always("it runs where there are NVSwitches"),
    why: "It sets up the NVSwitches. Without it CUDA does not start on such a machine (\"system not yet initialized\"), and \
          when it has stopped, errors of the links are handled by nobody.",
    fixes: &[Fix {
        command: "systemctl enable --now nvidia-fabricmanager",
        restarts: "nothing that runs; it has to be of exactly the driver's version",
        risk: "restart it on a drained node only: on some generations it ends the jobs that run",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "NVIDIA Fabric Manager User Guide",
            "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
        ),
        own(
            "where only the exporter's own container's processes are seen a warning: one in another container, whose files \
             are not below the host's /run, is not seen. Switches that are not on the node's PCI bus, as of the fourth \
             generation, are not seen either",
        ),
    ],
    run: |context, _| {
        let switches = switches(context)?;
        Unread::unless(switches > 0, "no NVSwitch on the PCI bus")?;
        Ok(judge_fabric(switches, &fabric_manager(context)?))
    },
};

/// What is known of the fabric manager.
enum Daemon {
    Runs,
    /// It is not among the node's processes.
    Missing,
    /// The node's processes cannot be seen, and no pid file names it.
    NoSign,
}

fn fabric_manager(context: &Context) -> Result<Daemon, Unread> {
    if let Some(running) = daemons::running(&context.roots, &["nv-fabricmanager"]) {
        return Ok(if running.contains_key("nv-fabricmanager") { Daemon::Runs } else { Daemon::Missing });
    }
    let found = clock::daemons(context, &FABRIC_MANAGERS)?;
    Ok(if found.is_empty() { Daemon::NoSign } else { Daemon::Runs })
}

/// On the host, and in the driver container of the GPU operator. The kernel cuts names of processes to 15 characters.
const FABRIC_MANAGERS: [(&str, &str); 2] = [
    ("run/nvidia-fabricmanager/nv-fabricmanager.pid", "nv-fabricmanage"),
    ("run/nvidia/driver/run/nvidia-fabricmanager/nv-fabricmanager.pid", "nv-fabricmanage"),
];

/// NVSwitches: NVIDIA's bridges of the class that fits no other kind.
fn switches(context: &Context) -> Result<usize, Unread> {
    const NVIDIA: u32 = 0x10de;
    const OTHER_BRIDGE: u32 = 0x0680;
    let folder = context.roots.sys.join("bus/pci/devices");
    let mut count = 0;
    for name in files::list(&folder)?.unwrap_or_default() {
        let read = |file: &str| files::parse_optional(&folder.join(&name).join(file), hexadecimal);
        if read("class")?.is_some_and(|class| class >> 8 == OTHER_BRIDGE) {
            count += usize::from(read("vendor")? == Some(NVIDIA));
        }
    }
    Ok(count)
}

fn judge_fabric(switches: usize, daemon: &Daemon) -> Verdict {
    let switches = format!("{switches} NVSwitches");
    match daemon {
        Daemon::Runs => Verdict::new(Status::Pass, format!("runs, for {switches}")),
        Daemon::Missing => Verdict::new(Status::Fail, format!("does not run, with {switches}")),
        Daemon::NoSign => Verdict::new(Status::Warn, format!("no sign of it, with {switches}")),
    }
}

pub(super) static VERSION: Check = Check {
    id: "driver_version",
    title: "Driver and library of one version",
    reads: "/proc/driver/nvidia/version, nvmlSystemGetDriverVersion",
    families: &[&catalog::driver::DRIVER_INFO, &catalog::gpu::DRIVER_INFO],
    expected: Expected::always("the loaded kernel module and the installed library agree"),
    why: "After an upgrade of the packages the old module stays loaded. Running jobs go on, new ones and nvidia-smi fail \
          with a version mismatch.",
    fixes: &[Fix {
        command: "drain the node, then: systemctl reboot",
        restarts: "the node; unloading and loading the modules is enough when nothing holds a GPU any more",
        risk: "jobs that are not drained are lost",
        ..Fix::USUAL
    }],
    sources: &[vendor(
        "NVML, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
    )],
    run: |context, _| judge_version(&module(context)?, &context.gpus.driver),
};

fn module(context: &Context) -> Result<Module, Unread> {
    Ok(files::parse(&context.roots.proc.join("driver/nvidia/version"), nvidia::module)?)
}

fn judge_version(module: &Module, library: &Driver) -> Result<Verdict, Unread> {
    let module = &module.version;
    match library {
        Driver::Loaded { version } if version == module => Ok(Verdict::new(Status::Pass, format!("both {module}"))),
        Driver::Loaded { version } => Ok(Verdict::new(Status::Fail, format!("module {module}, library {version}"))),
        // The library refuses to start with a module of another version.
        Driver::Absent { reason } => Ok(Verdict::new(Status::Fail, format!("module {module}, but {reason}"))),
        Driver::Starting => Err(Unread::Failed("the driver has not answered yet".to_owned())),
        Driver::Released { .. } => Err(Unread::Failed("the GPUs are released on request".to_owned())),
    }
}

pub(super) static CUDA: Check = Check {
    id: "cuda_driver",
    title: "CUDA that the driver runs",
    reads: "/proc/driver/nvidia/version",
    families: &[&catalog::driver::DRIVER_INFO],
    expected: Expected::always("525 or later, which runs CUDA 12; 580 or later also CUDA 13"),
    why: "A program that was built with a newer CUDA than the driver knows ends with \"driver version is insufficient\", and \
          frameworks are no longer built for the older ones. NVIDIA's compatibility package helps on data-centre GPUs only.",
    fixes: &[Fix {
        command: "upgrade the driver to a branch that NVIDIA still maintains",
        restarts: "the node",
        risk: "the newest branches leave out the oldest GPUs: read their list first",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "CUDA Compatibility: minimum driver versions",
            "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
        ),
        own("a warning below CUDA 12: old jobs go on"),
    ],
    run: |context, _| judge_cuda(&module(context)?.version),
};

/// Branches of the driver from which on a generation of CUDA runs, newest first.
const CUDA_DRIVERS: [(u32, &str); 3] = [(580, "CUDA 13"), (525, "CUDA 12"), (450, "CUDA 11")];

/// What frameworks are still built with.
const OLDEST_CUDA: u32 = 525;

fn judge_cuda(version: &str) -> Result<Verdict, Unread> {
    let branch = version.split('.').next().and_then(|branch| branch.parse::<u32>().ok());
    let branch =
        branch.ok_or_else(|| Unread::Failed(format!("driver version {version:?} does not begin with a number")))?;
    let newest = CUDA_DRIVERS.iter().find(|(since, _)| branch >= *since).map_or("CUDA 10 or older", |(_, cuda)| cuda);
    let status = if branch >= OLDEST_CUDA { Status::Pass } else { Status::Warn };
    Ok(Verdict::new(status, format!("{version} runs {newest}")))
}

pub(super) static RDMA: Check = Check {
    id: "gpudirect_rdma",
    title: "GPUDirect RDMA",
    reads: "/sys/class/infiniband, /proc/modules, /proc/driver/nvidia/version",
    families: &[&catalog::network::RDMA_PORTS, &catalog::driver::DRIVER_MODULE],
    expected: Expected::always("nvidia_peermem loaded or the open kernel modules, where there are RDMA devices"),
    why: "Without either the NIC cannot reach GPU memory: every message between nodes is copied through host memory.",
    fixes: &[
        Fix {
            command: "modprobe nvidia_peermem",
            lasting: Some("echo nvidia_peermem > /etc/modules-load.d/nvidia-peermem.conf"),
            restarts: "jobs, to make use of it",
            risk: "it must have been built against the RDMA stack in use",
            ..Fix::USUAL
        },
        Fix {
            command: "install the open kernel modules of the driver (Turing and later): DMA-BUF needs no extra module",
            restarts: "the node",
            risk: "as of any driver change; kernel 5.12 or later",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor("NVIDIA GPU Operator, GPUDirect RDMA: DMA-BUF recommended, nvidia-peermem legacy", GPU_OPERATOR_RDMA),
        own("a warning: jobs that stay on one node do not care"),
    ],
    run: |context, _| {
        let devices = files::list(&context.roots.sys.join("class/infiniband"))?.unwrap_or_default().len();
        Unread::unless(devices > 0, "no RDMA device")?;
        Ok(judge_rdma(&module(context)?, modules(context)?.contains("nvidia_peermem"), devices))
    },
};

fn judge_rdma(module: &Module, peermem: bool, devices: usize) -> Verdict {
    match (peermem, module.open) {
        (true, _) => Verdict::new(Status::Pass, "nvidia_peermem loaded"),
        (false, true) => Verdict::new(Status::Pass, "open kernel modules"),
        (false, false) => Verdict::new(
            Status::Warn,
            format!("neither, with {} and the proprietary modules", count(devices, "RDMA device")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, NotApplicable, Pass, Warn};

    #[test]
    fn loaded_modules() {
        for (loaded, gpus, status) in
            [(&["nvidia", "nvidia_uvm"][..], 8, Pass), (&["nvidia"], 8, Fail), (&[], 1, Fail), (&[], 0, NotApplicable)]
        {
            let loaded = loaded.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(judge_modules(&loaded, gpus).status, status, "{loaded:?} {gpus}");
        }
    }

    #[test]
    fn other_modules_and_daemons() {
        let status = |name: &str| judge_nouveau(&[name.to_owned()].into()).status;
        assert_eq!([status("nvidia"), status("nouveau")], [Pass, Fail]);
        assert_eq!(judge_fabric(4, &Daemon::Runs).read, "runs, for 4 NVSwitches");
        assert_eq!([Daemon::Missing, Daemon::NoSign].map(|d| judge_fabric(4, &d).status), [Fail, Warn]);
    }

    #[test]
    fn versions() {
        let module = Module { version: "580.65.06".to_owned(), open: false };
        let loaded = |version: &str| Driver::Loaded { version: version.to_owned() };
        assert_eq!(judge_version(&module, &loaded("580.65.06")).unwrap().status, Pass);
        let verdict = judge_version(&module, &loaded("580.105.08")).unwrap();
        assert_eq!((verdict.status, verdict.read.as_str()), (Fail, "module 580.65.06, library 580.105.08"));
        let absent = Driver::Absent { reason: "version mismatch".to_owned() };
        assert_eq!(judge_version(&module, &absent).unwrap().read, "module 580.65.06, but version mismatch");
        assert!(judge_version(&module, &Driver::Starting).is_err());
    }

    #[test]
    fn generations_of_cuda() {
        for (version, status, read) in [
            ("590.48.01", Pass, "590.48.01 runs CUDA 13"),
            ("580.65.06", Pass, "580.65.06 runs CUDA 13"),
            ("535.104.05", Pass, "535.104.05 runs CUDA 12"),
            ("520.56.06", Warn, "520.56.06 runs CUDA 11"),
            ("418.39", Warn, "418.39 runs CUDA 10 or older"),
        ] {
            let verdict = judge_cuda(version).unwrap();
            assert_eq!((verdict.status, &*verdict.read), (status, read));
        }
        assert!(judge_cuda("r580").is_err());
    }

    #[test]
    fn rdma() {
        for (peermem, open, status) in [(true, false, Pass), (false, true, Pass), (false, false, Warn)] {
            let module = Module { version: "580.65.06".to_owned(), open };
            assert_eq!(judge_rdma(&module, peermem, 4).status, status);
        }
    }
}
