//! GPUs that are held back, damaged, or missing.

use std::collections::BTreeMap;

use super::gpu::value;
use super::*;
use crate::context::Context;
use crate::source::nvml::{Driver, Reading, State, Values, fields};
use goodput_catalog::dcgm::Call;

const DEVICE_QUERIES: &str = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html";
const RECOVERY_FLAGS: &str =
    "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html";

/// Ends what uses the GPU, and resets it.
const RESET: Fix = Fix {
    command: "drain the node, then: nvidia-smi --gpu-reset -i INDEX",
    restarts: "the GPU, and on machines with NVSwitch all GPUs that are joined to it; everything that uses them must end \
               first",
    risk: "a GPU that does not come back needs a reboot",
    ..Fix::USUAL
};

/// One reading of every GPU.
fn readings(context: &Context, what: &str, read: fn(&Values) -> Reading<f64>) -> Result<Vec<(u32, f64)>, Unread> {
    jobs::gpus(context)?.iter().map(|gpu| value(gpu, what, read)).collect()
}

/// As [`readings`], of what a vGPU does not have.
fn of_boards(context: &Context, what: &str, read: fn(&Values) -> Reading<f64>) -> Result<Vec<(u32, f64)>, Unread> {
    jobs::boards(context, what)?.into_iter().map(|gpu| value(gpu, what, read)).collect()
}

/// The GPUs whose reading says so.
fn those(readings: &[(u32, f64)], is: impl Fn(f64) -> bool) -> Vec<String> {
    readings.iter().filter(|(_, value)| is(*value)).map(|(gpu, _)| gpu.to_string()).collect()
}

pub(super) static POWER_LIMIT: Check = Check {
    id: "power_limit",
    title: "Power limit of each GPU",
    reads: "NVML fields POWER_ENFORCED_LIMIT, POWER_DEFAULT_LIMIT, nvmlDeviceGetVirtualizationMode",
    families: &[],
    expected: Expected::always("at least the limit that the board starts with"),
    why: "A lowered limit lowers the clocks as soon as a kernel needs the power, and one such GPU slows down every GPU of \
          a synchronous job. Where somebody saves power on purpose, this is what it is paid with.",
    fixes: &[Fix {
        command: "nvidia-smi -i INDEX --power-limit=WATTS",
        lasting: Some("the same at boot, after nvidia-persistenced: a reload of the driver forgets it"),
        risk: "the rack's power and cooling may have been the reason for the lower limit",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("NVML, power limits", DEVICE_QUERIES),
        NOT_OF_A_VGPU,
        own("a warning: a limit can be a decision, but not an unnoticed one"),
    ],
    run: |context, _| {
        let enforced = of_boards(context, "enforced power limit", |v| v.field(fields::POWER_LIMIT_ENFORCED))?;
        let default = of_boards(context, "default power limit", |v| v.field(fields::POWER_LIMIT_DEFAULT))?;
        let limits = enforced.iter().zip(&default).map(|((gpu, is), (_, was))| (*gpu, is / 1000.0, was / 1000.0));
        Ok(judge_power(&limits.collect::<Vec<_>>()))
    },
};

/// By GPU: the limit in force and the board's own, watts.
fn judge_power(limits: &[(u32, f64, f64)]) -> Verdict {
    let low: Vec<_> = limits.iter().filter(|(_, is, default)| is < default).collect();
    if low.is_empty() {
        return Verdict::new(Status::Pass, format!("not lowered on {}", count(limits.len(), "GPU")));
    }
    let read: Vec<String> = low.iter().map(|(gpu, is, own)| format!("GPU {gpu} {is:.0} W of {own:.0} W")).collect();
    let commands = low.iter().map(|(gpu, _, own)| format!("nvidia-smi -i {gpu} --power-limit={own:.0}")).collect();
    Verdict::new(Status::Warn, list(&read)).with(commands)
}

pub(super) static ROW_REMAP: Check = Check {
    id: "row_remap",
    title: "Remapped memory rows",
    reads: "NVML fields REMAPPED_PENDING, REMAPPED_FAILURE (Ampere and later)",
    families: &[],
    expected: Expected::always("none pending, none failed"),
    why: "A row of memory that went bad is replaced at the next reset of the GPU; until then the driver works around it. \
          When no spare row is left, remapping fails, and the next error in that bank ends a job.",
    fixes: &[
        RESET,
        Fix {
            command: "remapping failed: have the GPU replaced",
            restarts: "the node",
            who: Who::Hardware,
            risk: "downtime",
            ..Fix::USUAL
        },
    ],
    sources: &[vendor("NVIDIA GPU Memory Error Management: error recovery and response flags", RECOVERY_FLAGS)],
    run: |context, _| {
        let pending = readings(context, "pending row remapping", |v| v.field(fields::REMAP_PENDING))?;
        let failed = readings(context, "failed row remapping", |v| v.field(fields::REMAP_FAILURE))?;
        Ok(judge_remap(&pending, &failed))
    },
};

fn judge_remap(pending: &[(u32, f64)], failed: &[(u32, f64)]) -> Verdict {
    let (waiting, failed) = (those(pending, |n| n > 0.0), those(failed, |n| n > 0.0));
    match (failed.is_empty(), waiting.is_empty()) {
        (false, _) => Verdict::new(Status::Fail, format!("failed on GPU {}", list(&failed))),
        (true, false) => {
            Verdict::new(Status::Warn, format!("waits for a reset on GPU {}", list(&waiting))).with(resets(&waiting))
        }
        (true, true) => Verdict::new(Status::Pass, format!("nothing pending on {}", count(pending.len(), "GPU"))),
    }
}

fn resets(gpus: &[String]) -> Vec<String> {
    gpus.iter().map(|gpu| format!("nvidia-smi --gpu-reset -i {gpu}   # after draining the node")).collect()
}

pub(super) static PAGE_RETIREMENT: Check = Check {
    id: "page_retirement",
    title: "Retired memory pages",
    reads: "NVML field RETIRED_PENDING (before Ampere)",
    families: &[&catalog::health::RETIRED_PENDING],
    expected: Expected::always("none pending"),
    why: "A page of GPU memory that went bad is only taken out of use when the driver attaches to the GPU anew. Until \
          then a job may be given it.",
    fixes: &[RESET],
    sources: &[vendor("NVIDIA, Dynamic Page Retirement", "https://docs.nvidia.com/deploy/dynamic-page-retirement/")],
    run: |context, _| {
        Ok(judge_retirement(&readings(context, "pending page retirement", |v| v.field(fields::RETIRED_PENDING))?))
    },
};

fn judge_retirement(pending: &[(u32, f64)]) -> Verdict {
    match those(pending, |n| n > 0.0) {
        none if none.is_empty() => Verdict::new(Status::Pass, format!("none on {}", count(pending.len(), "GPU"))),
        gpus => Verdict::new(Status::Warn, format!("waits for a reset on GPU {}", list(&gpus))).with(resets(&gpus)),
    }
}

pub(super) static RECOVERY: Check = Check {
    id: "recovery_action",
    title: "What the driver wants done with each GPU",
    reads: "NVML field GET_GPU_RECOVERY_ACTION",
    families: &[&catalog::gpu::RECOVERY_ACTION],
    expected: Expected::always("nothing"),
    why: "After some errors the driver cannot go on by itself: new jobs on such a GPU fail, or fail sooner or later, until \
          somebody does what it asks for.",
    fixes: &[
        RESET,
        Fix {
            command: "when the driver asks for a reboot: drain the node, then: systemctl reboot",
            restarts: "the node",
            risk: "jobs that are not drained are lost",
            ..Fix::USUAL
        },
    ],
    sources: &[vendor("NVIDIA GPU Memory Error Management: recovery action flag", RECOVERY_FLAGS)],
    run: |context, _| Ok(judge_recovery(&readings(context, "recovery action", |v| v.field(fields::RECOVERY_ACTION))?)),
};

fn judge_recovery(actions: &[(u32, f64)]) -> Verdict {
    // Values of nvmlDeviceGpuRecoveryAction_t.
    let wanted = |action: f64| match action as u32 {
        0 => None,
        1 => Some("reset"),
        2 => Some("reboot of the node"),
        3 => Some("drain of peer-to-peer work"),
        4 => Some("drain and reset"),
        _ => Some("an action that this version does not know"),
    };
    let read = actions.iter().filter_map(|(gpu, action)| Some(format!("GPU {gpu}: {}", wanted(*action)?)));
    Verdict::listing(Status::Fail, read.collect(), format!("nothing, of {}", count(actions.len(), "GPU")))
}

pub(super) static ECC_ERRORS: Check = Check {
    id: "gpu_ecc_errors",
    title: "Uncorrectable memory errors of each GPU",
    reads: "NVML field ECC_DBE_VOL_TOTAL",
    families: &[],
    expected: Expected::always("none since the driver was loaded"),
    why: "Each of them ended a process, or spoiled its results. A GPU that had one is more likely to have the next: whoever \
          places jobs should know.",
    fixes: &[Fix {
        command: "drain the node, then: dcgmi diag -r 3; replace the GPU when it fails, else reset it",
        restarts: "whatever uses the GPUs",
        risk: "the diagnosis needs the GPUs for itself",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("NVIDIA GPU Memory Error Management", "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/"),
        own("a warning: what is to be done about it now is in recovery_action and row_remap"),
    ],
    run: |context, _| Ok(judge_ecc(&readings(context, "ECC errors", |v| v.field(fields::ECC_DBE_VOLATILE))?)),
};

fn judge_ecc(errors: &[(u32, f64)]) -> Verdict {
    let some = errors.iter().filter(|(_, n)| *n > 0.0).map(|(gpu, n)| format!("{n} on GPU {gpu}"));
    Verdict::listing(Status::Warn, some.collect(), format!("none on {}", count(errors.len(), "GPU")))
}

pub(super) static THROTTLE: Check = Check {
    id: "gpu_throttle",
    title: "GPUs that are slowed down to protect them",
    reads: "nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetVirtualizationMode",
    families: &[&catalog::health::CLOCK_EVENT],
    expected: Expected::always("no slowdown by heat, power brake or hardware at this moment"),
    why: "A slowdown by the hardware halves the clocks or worse, and a synchronous job runs as fast as its slowest GPU. It \
          comes from cooling, from the power supply, or from a defect: no setting mends it.",
    fixes: &[Fix {
        command: "look at inlet temperature, fans, dust and power supplies of the machine; nvidia-smi -q -d PERFORMANCE,TEMPERATURE",
        who: Who::Hardware,
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "NVML, nvmlClocksEventReasons",
            "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
        ),
        NOT_OF_A_VGPU,
        own("the driver's own thermal slowdown is a warning, those of the hardware are failures"),
    ],
    run: |context, _| {
        Ok(judge_throttle(&of_boards(context, "clock event reasons", |v| v.call(Call::ClockEventReasons))?))
    },
};

/// Clock event reasons that no user asked for, as nvml.h numbers them, worst first.
const SLOWDOWNS: [(u64, &str, Status); 4] = [
    (0x80, "power brake", Status::Fail),
    (0x40, "hardware thermal slowdown", Status::Fail),
    (0x8, "hardware slowdown", Status::Fail),
    (0x20, "software thermal slowdown", Status::Warn),
];

fn judge_throttle(reasons: &[(u32, f64)]) -> Verdict {
    // The driver sets the hardware slowdown bit together with the bit of its kind: the first match says most.
    let of = |bits: f64| SLOWDOWNS.iter().find(|(bit, ..)| bits as u64 & bit != 0);
    let slow: Vec<_> = reasons.iter().filter_map(|(gpu, bits)| Some((gpu, of(*bits)?))).collect();
    let spell = |(gpu, (_, name, _)): &(&u32, &(u64, &str, Status))| format!("GPU {gpu}: {name}");
    match slow.iter().map(|(_, (.., status))| *status).min() {
        None => Verdict::new(Status::Pass, format!("none of {}", count(reasons.len(), "GPU"))),
        Some(status) => Verdict::new(status, list(&slow.iter().map(spell).collect::<Vec<_>>())),
    }
}

pub(super) static MODELS: Check = Check {
    id: "gpu_models",
    title: "One model of GPU",
    reads: "nvmlDeviceGetName",
    families: &[&catalog::gpu::INFO],
    expected: Expected::always("the same model everywhere in the node"),
    why: "A synchronous job runs as fast as its slowest GPU and holds as much as its smallest. Schedulers that count GPUs \
          do not tell them apart unless they are told to.",
    fixes: &[Fix {
        command: "tell the scheduler: a gres type per model in Slurm, node labels and resource names in Kubernetes",
        restarts: "slurmd, or the device plugin",
        who: Who::ClusterAdmin,
        risk: "jobs that do not name a model wait for whichever is the default",
        ..Fix::USUAL
    }],
    sources: &[vendor("Slurm, gres.conf: Type", "https://slurm.schedmd.com/gres.conf.html"), own("a warning")],
    run: |context, _| Ok(judge_models(jobs::gpus(context)?.iter().map(|gpu| gpu.model.as_str()))),
};

fn judge_models<'a>(models: impl Iterator<Item = &'a str>) -> Verdict {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    models.for_each(|model| *counts.entry(model).or_default() += 1);
    let spelled: Vec<String> = counts.iter().map(|(model, n)| format!("{n} {model}")).collect();
    Verdict::new(if counts.len() > 1 { Status::Warn } else { Status::Pass }, list(&spelled).trim())
}

pub(super) static COUNT: Check = Check {
    id: "gpu_count",
    title: "GPUs on the bus and in the driver",
    reads: "/sys/bus/pci/devices/*/{class,vendor,uevent}, nvmlDeviceGetCount",
    families: &[&catalog::gpu::PCI_DEVICES, &catalog::gpu::INFO],
    expected: Expected::always("the driver sees every NVIDIA GPU of the PCI bus that no virtual machine has"),
    why: "A GPU whose initialisation failed is missing from nvidia-smi, from the scheduler and from every dashboard that \
          counts what is there: nobody misses it.",
    fixes: &[Fix {
        command: "look for NVRM and Xid in the kernel log, then drain the node and power it off and on",
        restarts: "the node",
        who: Who::Hardware,
        risk: "downtime",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("NVIDIA, XID Errors", "https://docs.nvidia.com/deploy/xid-errors/"),
        own("in a container that is only given some of the GPUs this fails rightly: the exporter should see all"),
        own("7 or 15 GPUs on the bus are a warning: boards have 8 or 16, and one that left the bus is on no list"),
    ],
    run: |context, _| match &context.gpus.driver {
        Driver::Loaded { .. } => {
            let seen = context.gpus.gpus.iter().filter(|gpu| gpu.state != State::Lost).count();
            Ok(judge_count(driver::gpus_for_the_driver(context)?, seen))
        }
        Driver::Released { .. } => Err(Unread::Absent("the GPUs are released on request".to_owned())),
        Driver::Starting | Driver::Absent { .. } => Err(Unread::Absent("no GPU driver".to_owned())),
    },
};

fn judge_count(bus: usize, driver: usize) -> Verdict {
    match bus {
        0 => Verdict::new(Status::NotApplicable, "no NVIDIA GPU on the PCI bus"),
        _ if driver < bus => Verdict::new(Status::Fail, format!("{driver} of {}", count(bus, "GPU"))),
        _ if ONE_SHORT.contains(&bus) => {
            Verdict::new(Status::Warn, format!("all of {} on the bus, one less than the board has", count(bus, "GPU")))
        }
        _ => Verdict::new(Status::Pass, format!("all of {}", count(bus, "GPU"))),
    }
}

/// Boards have 8 or 16 GPUs; one that left the bus is on no list at all.
const ONE_SHORT: [usize; 2] = [7, 15];

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, NotApplicable, Pass, Warn};

    fn said(verdict: &Verdict) -> (Status, &str) {
        (verdict.status, &verdict.read)
    }

    #[test]
    fn power() {
        let verdict = judge_power(&[(0, 700.0, 700.0), (3, 500.0, 700.0)]);
        assert_eq!(said(&verdict), (Warn, "GPU 3 500 W of 700 W"));
        assert_eq!(verdict.commands, ["nvidia-smi -i 3 --power-limit=700"]);
        assert_eq!(said(&judge_power(&[(0, 750.0, 700.0)])), (Pass, "not lowered on 1 GPU"));
    }

    #[test]
    fn memory_that_went_bad() {
        let (none, second) = ([(0, 0.0), (1, 0.0)], [(0, 0.0), (1, 1.0)]);
        assert_eq!(said(&judge_remap(&none, &none)), (Pass, "nothing pending on 2 GPUs"));
        assert_eq!(said(&judge_remap(&second, &none)), (Warn, "waits for a reset on GPU 1"));
        assert_eq!(judge_remap(&second, &none).commands, ["nvidia-smi --gpu-reset -i 1   # after draining the node"]);
        assert_eq!(said(&judge_remap(&second, &second)), (Fail, "failed on GPU 1"));
        assert_eq!(judge_retirement(&none).status, Pass);
        assert_eq!(said(&judge_retirement(&second)), (Warn, "waits for a reset on GPU 1"));
        assert_eq!(said(&judge_ecc(&[(0, 2.0)])), (Warn, "2 on GPU 0"));
        assert_eq!(judge_ecc(&none).status, Pass);
    }

    #[test]
    fn actions_by_name() {
        for (action, read) in
            [(1.0, "GPU 5: reset"), (2.0, "GPU 5: reboot of the node"), (4.0, "GPU 5: drain and reset")]
        {
            assert_eq!(said(&judge_recovery(&[(4, 0.0), (5, action)])), (Fail, read));
        }
        assert_eq!(judge_recovery(&[(0, 0.0)]).status, Pass);
    }

    #[test]
    fn slowdowns() {
        for (bits, status, read) in [
            (0x0, Pass, "none of 1 GPU"),
            (0x4, Pass, "none of 1 GPU"),
            (0x20, Warn, "GPU 0: software thermal slowdown"),
            (0x48, Fail, "GPU 0: hardware thermal slowdown"),
            (0x88, Fail, "GPU 0: power brake"),
            (0x8, Fail, "GPU 0: hardware slowdown"),
        ] {
            assert_eq!(said(&judge_throttle(&[(0, f64::from(bits))])), (status, read), "{bits:#x}");
        }
    }

    #[test]
    fn models_and_numbers() {
        assert_eq!(said(&judge_models(["H100", "H100"].into_iter())), (Pass, "2 H100"));
        assert_eq!(said(&judge_models(["H100", "A100"].into_iter())), (Warn, "1 A100, 1 H100"));
        assert_eq!(said(&judge_count(8, 7)), (Fail, "7 of 8 GPUs"));
        assert_eq!(judge_count(8, 8).status, Pass);
        assert_eq!(said(&judge_count(7, 7)), (Warn, "all of 7 GPUs on the bus, one less than the board has"));
        assert_eq!([1, 2, 4, 6, 10, 16].map(|gpus| judge_count(gpus, gpus).status), [Pass; 6]);
        assert_eq!(judge_count(0, 0).status, NotApplicable);
    }
}
