//! Modes of the GPUs that an administrator sets: ECC, MIG, who may use them.

use super::gpu::value;
use super::*;
use crate::source::nvml::{ComputeMode, MigMode, fields};
use goodput_catalog::dcgm::Call;

const CLOCK_EVENT_REASONS: &str = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html";
const NVIDIA_SMI: &str = "https://manpages.ubuntu.com/manpages/plucky/man1/nvidia-smi.1.html";

pub(super) static ECC: Check = Check {
    id: "ecc_mode",
    title: "Error correction of GPU memory",
    reads: "NVML fields ECC_CURRENT, ECC_PENDING",
    families: &[],
    expected: Expected::always("on for every GPU, and nothing waiting to change"),
    why: "Without it a flipped bit is not seen: a training run learns from it, a service answers with it. A change waits \
          for the next reboot, and then comes unexpected.",
    fixes: &[Fix {
        command: "nvidia-smi -i INDEX --ecc-config=1, then drain the node and: systemctl reboot",
        lasting: Some("yes: the GPU keeps it"),
        restarts: "the node",
        risk: "boards without ECC of their own in memory give up some of it",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("nvidia-smi(1): ECC Mode, --ecc-config", NVIDIA_SMI),
        own("a warning: some graphics boards are bought to be run without"),
    ],
    run: |context, _| {
        let mut modes = Vec::new();
        for gpu in jobs::gpus(context)? {
            let (index, current) = value(gpu, "ECC mode", |v| v.field(fields::ECC_MODE))?;
            let (_, pending) = value(gpu, "pending ECC mode", |v| v.field(fields::ECC_MODE_PENDING))?;
            modes.push((index, current > 0.0, pending > 0.0));
        }
        Ok(judge_ecc(&modes))
    },
};

/// By GPU: is it on, and is it on from the next reboot on?
fn judge_ecc(modes: &[(u32, bool, bool)]) -> Verdict {
    let wrong = modes.iter().filter_map(|(gpu, current, pending)| match (current, pending) {
        (true, true) => None,
        (false, false) => Some(format!("GPU {gpu} off")),
        (true, false) => Some(format!("GPU {gpu} off from the next reboot on")),
        (false, true) => Some(format!("GPU {gpu} off until the next reboot")),
    });
    Verdict::listing(Status::Warn, wrong.collect(), format!("on for {}", count(modes.len(), "GPU")))
}

pub(super) static MIG: Check = Check {
    id: "mig_pending",
    title: "Changes of MIG that wait",
    reads: "nvmlDeviceGetMigMode",
    families: &[&catalog::mig::MODE],
    expected: Expected::always("no change waiting for a reset"),
    why: "The GPU changes from whole to cut up, or back, at its next reset, whatever causes that. Whoever planned with the \
          one finds the other.",
    fixes: &[Fix {
        command: "drain the node, then: nvidia-smi --gpu-reset -i INDEX, or take the change back: nvidia-smi -i INDEX --multi-instance-gpu=0",
        restarts: "the GPU; everything that uses it must end first",
        risk: "the scheduler's device plugin has to learn the new devices",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "NVIDIA Multi-Instance GPU User Guide: system considerations",
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/deployment-considerations.html",
        ),
        own("a warning: jobs run on until the reset"),
    ],
    run: |context, _| {
        let modes = jobs::gpus(context)?.iter().map(|gpu| value(gpu, "MIG mode", |v| v.mig_mode));
        Ok(judge_mig(&modes.collect::<Result<Vec<_>, _>>()?))
    },
};

fn judge_mig(modes: &[(u32, MigMode)]) -> Verdict {
    let waiting = modes.iter().filter(|(_, mode)| mode.current != mode.pending).map(|(gpu, mode)| {
        let to = if mode.pending { "on" } else { "off" };
        format!("GPU {gpu} {to} from its next reset on")
    });
    Verdict::listing(Status::Warn, waiting.collect(), format!("none on {}", count(modes.len(), "GPU")))
}

pub(super) static COMPUTE: Check = Check {
    id: "compute_mode",
    title: "Who may use each GPU",
    reads: "nvmlDeviceGetComputeMode",
    families: &[],
    expected: Expected::always("the same on every GPU, and not prohibited"),
    why: "On a prohibited GPU no CUDA program starts. On an exclusive one the second process fails, unless MPS is between \
          them; that is a fine rule for a whole node, and a riddle when one GPU has it and the next has not.",
    fixes: &[Fix {
        command: "nvidia-smi -i INDEX --compute-mode=0",
        lasting: Some("the same at boot, after nvidia-persistenced: a reload of the driver forgets it"),
        restarts: "nothing; programs that run are not touched",
        risk: "processes that the mode kept apart can share the GPU from then on",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("nvidia-smi(1): Compute Mode", NVIDIA_SMI),
        own("a mixture is a warning: it can be a decision, but not an unnoticed one"),
    ],
    run: |context, _| {
        let modes = jobs::gpus(context)?.iter().map(|gpu| value(gpu, "compute mode", |v| v.compute_mode));
        Ok(judge_compute(&modes.collect::<Result<Vec<_>, _>>()?))
    },
};

fn judge_compute(modes: &[(u32, ComputeMode)]) -> Verdict {
    let spell = |(gpu, mode): &(u32, ComputeMode)| format!("GPU {gpu} {}", name(mode));
    let prohibited: Vec<String> =
        modes.iter().filter(|(_, mode)| *mode == ComputeMode::Prohibited).map(spell).collect();
    if !prohibited.is_empty() {
        return Verdict::new(Status::Fail, list(&prohibited));
    }
    match modes.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        true => Verdict::new(Status::Pass, modes.first().map_or("", |(_, mode)| name(mode))),
        false => Verdict::new(Status::Warn, list(&modes.iter().map(spell).collect::<Vec<_>>())),
    }
}

pub(super) static CLOCKS: Check = Check {
    id: "clock_limit",
    title: "Clocks limited by a user",
    reads: "nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetVirtualizationMode",
    families: &[],
    expected: Expected::always("no GPU held below its highest clock by a setting"),
    why: "Clocks that were locked for a benchmark stay locked until the driver is loaded anew. One such GPU slows down every \
          GPU of a synchronous job, and nothing else about it looks wrong.",
    fixes: &[Fix {
        command: "nvidia-smi -i INDEX --reset-gpu-clocks, and --reset-applications-clocks where those were set",
        risk: "where the limit saves power on purpose, the GPU draws more again",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("NVML, nvmlClocksEventReasonApplicationsClocksSetting", CLOCK_EVENT_REASONS),
        vendor("nvidia-smi(1): --lock-gpu-clocks, --applications-clocks", NVIDIA_SMI),
        NOT_OF_A_VGPU,
        own("a warning: a limit can be a decision, but not an unnoticed one; an idle GPU does not tell of it"),
    ],
    run: |context, _| {
        let reasons = jobs::boards(context, "clock event reasons")?
            .into_iter()
            .map(|gpu| value(gpu, "clock event reasons", |v| v.call(Call::ClockEventReasons)));
        Ok(judge_clocks(&reasons.collect::<Result<Vec<_>, _>>()?))
    },
};

/// As nvml.h numbers it: the clocks that applications asked for, and those that are locked.
const CLOCKS_SETTING: u64 = 0x2;

fn judge_clocks(reasons: &[(u32, f64)]) -> Verdict {
    let limited = reasons.iter().filter(|(_, bits)| *bits as u64 & CLOCKS_SETTING != 0);
    match limited.map(|(gpu, _)| gpu.to_string()).collect::<Vec<_>>() {
        none if none.is_empty() => Verdict::new(Status::Pass, format!("none of {}", count(reasons.len(), "GPU"))),
        limited => {
            let commands = limited.iter().map(|gpu| format!("nvidia-smi -i {gpu} --reset-gpu-clocks")).collect();
            Verdict::new(Status::Warn, format!("a setting limits GPU {}", list(&limited))).with(commands)
        }
    }
}

/// As nvidia-smi says it.
fn name(mode: &ComputeMode) -> &'static str {
    match mode {
        ComputeMode::Default => "default",
        ComputeMode::ExclusiveThread => "exclusive thread",
        ComputeMode::Prohibited => "prohibited",
        ComputeMode::ExclusiveProcess => "exclusive process",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    fn said(verdict: &Verdict) -> (Status, &str) {
        (verdict.status, &verdict.read)
    }

    #[test]
    fn error_correction() {
        assert_eq!(said(&judge_ecc(&[(0, true, true), (1, true, true)])), (Pass, "on for 2 GPUs"));
        assert_eq!(said(&judge_ecc(&[(0, true, true), (1, false, false)])), (Warn, "GPU 1 off"));
        assert_eq!(said(&judge_ecc(&[(0, true, false)])), (Warn, "GPU 0 off from the next reboot on"));
        assert_eq!(said(&judge_ecc(&[(0, false, true)])), (Warn, "GPU 0 off until the next reboot"));
    }

    #[test]
    fn cutting_up() {
        let mode = |current, pending| MigMode { current, pending };
        assert_eq!(said(&judge_mig(&[(0, mode(true, true)), (1, mode(false, false))])), (Pass, "none on 2 GPUs"));
        assert_eq!(said(&judge_mig(&[(3, mode(true, false))])), (Warn, "GPU 3 off from its next reset on"));
        assert_eq!(said(&judge_mig(&[(3, mode(false, true))])), (Warn, "GPU 3 on from its next reset on"));
    }

    #[test]
    fn limited_clocks() {
        // 0x1 is idle, 0x4 the power limit.
        assert_eq!(said(&judge_clocks(&[(0, 1.0), (1, 4.0)])), (Pass, "none of 2 GPUs"));
        let verdict = judge_clocks(&[(0, 1.0), (3, 6.0)]);
        assert_eq!(said(&verdict), (Warn, "a setting limits GPU 3"));
        assert_eq!(verdict.commands, ["nvidia-smi -i 3 --reset-gpu-clocks"]);
    }

    #[test]
    fn who_may_use_them() {
        use ComputeMode::{Default, ExclusiveProcess, Prohibited};
        assert_eq!(said(&judge_compute(&[(0, Default), (1, Default)])), (Pass, "default"));
        assert_eq!(said(&judge_compute(&[(0, ExclusiveProcess)])), (Pass, "exclusive process"));
        let mixed = judge_compute(&[(0, Default), (1, ExclusiveProcess)]);
        assert_eq!(said(&mixed), (Warn, "GPU 0 default, GPU 1 exclusive process"));
        assert_eq!(said(&judge_compute(&[(0, Default), (1, Prohibited)])), (Fail, "GPU 1 prohibited"));
    }
}
