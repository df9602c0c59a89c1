//! Several processes on one GPU.

use super::*;
use crate::source::nvml::Gpu;
use crate::source::process;

pub(super) static SHARING: Check = Check {
    id: "gpu_sharing",
    title: "Processes that share a GPU",
    reads: "nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses, nvmlDeviceGetMigMode, /proc/PID/comm",
    families: &[&catalog::gpu::PROCESSES, &catalog::mig::MODE],
    expected: Expected::always("one process per GPU, or an MPS server or MIG between them"),
    why: "Without MPS or MIG processes take turns: while one has the GPU the others wait, and the gaps of one are not filled \
          by the next. Ranks of one job that all open a context on GPU 0 also take hundreds of megabytes of its memory each.",
    fixes: &[
        Fix {
            command: "ranks of one job: give each its own GPU only, CUDA_VISIBLE_DEVICES=RANK, or torch.cuda.set_device first",
            restarts: "the job",
            who: Who::User,
            risk: "peers must be reached by NCCL then, not by device number",
            ..Fix::USUAL
        },
        Fix {
            command: "jobs that are too small for a GPU each: nvidia-cuda-mps-control -d",
            restarts: "the jobs",
            risk: "a fault of one client ends the others, and they share the memory",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor("NVIDIA, Multi-Process Service", "https://docs.nvidia.com/deploy/mps/"),
        own("a warning: on a development node sharing by turns can be what is wanted"),
    ],
    run: |context, _| {
        let mut all = Vec::new();
        for gpu in jobs::gpus(context)? {
            // The instances of a GPU that is cut up are apart by hardware.
            if gpu.values.mig_mode.is_ok_and(|mode| mode.current) {
                continue;
            }
            all.push(shared(gpu, |pid| process::is_mps_server(&context.roots, pid))?);
        }
        judge(&all)
    },
};

/// One GPU and the processes on it.
struct Shared {
    gpu: u32,
    pids: Vec<u32>,
    /// Is one of them an MPS server?
    mps: bool,
}

fn shared(gpu: &Gpu, is_server: impl Fn(u32) -> bool) -> Result<Shared, Unread> {
    let what = format!("processes of GPU {}", gpu.index);
    let processes = gpu.processes.as_ref().map_err(|why| Unread::nvml(&what, *why))?;
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    Ok(Shared { gpu: gpu.index, mps: pids.iter().any(|pid| is_server(*pid)), pids })
}

fn judge(all: &[Shared]) -> Result<Verdict, Unread> {
    Unread::unless(!all.is_empty(), "every GPU is cut up into MIG instances")?;
    let several = all.iter().filter(|shared| shared.pids.len() > 1 && !shared.mps).map(|shared| {
        let pids = shared.pids.iter().map(u32::to_string).collect::<Vec<_>>();
        format!("GPU {}: pids {}", shared.gpu, list(&pids))
    });
    match (several.collect::<Vec<_>>(), all.iter().any(|shared| shared.mps)) {
        (none, false) if none.is_empty() => Ok(Verdict::new(Status::Pass, "no GPU has two processes")),
        (none, true) if none.is_empty() => Ok(Verdict::new(Status::Pass, "MPS is between them")),
        (several, _) => Ok(Verdict::new(Status::Warn, list(&several))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::nvml::{Absent, Process};

    #[test]
    fn by_turns_or_not() {
        let on = |gpu, pids: &[u32], mps| Shared { gpu, pids: pids.to_vec(), mps };
        for (all, status, read) in [
            (vec![on(0, &[5], false), on(1, &[], false)], Status::Pass, "no GPU has two processes"),
            (vec![on(0, &[5, 6], true), on(1, &[7], false)], Status::Pass, "MPS is between them"),
            (vec![on(0, &[5, 6], false), on(1, &[6], false)], Status::Warn, "GPU 0: pids 5, 6"),
            (vec![on(0, &[5, 6], false), on(1, &[7, 8], true)], Status::Warn, "GPU 0: pids 5, 6"),
        ] {
            let verdict = judge(&all).unwrap();
            assert_eq!((verdict.status, &*verdict.read), (status, read));
        }
        assert!(matches!(judge(&[]), Err(Unread::Absent(_))), "MIG everywhere");
    }

    #[test]
    fn the_server_is_one_of_the_processes() {
        let of = |pid| Process { pid, ..Process::default() };
        let gpu = Gpu { index: 3, processes: Ok(vec![of(5), of(6)]), ..Gpu::default() };
        assert!(shared(&gpu, |pid| pid == 6).unwrap().mps);
        assert!(!shared(&gpu, |_| false).unwrap().mps);
        let gpu = Gpu { processes: Err(Absent::NotPermitted), ..gpu };
        assert!(matches!(shared(&gpu, |_| false), Err(Unread::Denied { .. })));
    }
}
