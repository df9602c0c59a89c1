//! `/proc/PID/environ`: what a process was started with, each variable as `NAME=VALUE` with a NUL behind it
//! (proc_pid_environ(5)).

use std::collections::{BTreeMap, BTreeSet};

use super::cpus;

/// What Slurm tells a job of the account that it is charged to (sbatch(1), output environment variables).
const SLURM_ACCOUNT: &[u8] = b"SLURM_JOB_ACCOUNT=";

/// Longest account in bytes; a longer one counts as none. Accounts are short names, and the user who starts a process
/// may write anything into its environment.
const LONGEST_ACCOUNT: usize = 128;

/// What Slurm tells a job of its id, which the names of cgroups do not from 26.05 on.
const SLURM_JOB: &[u8] = b"SLURM_JOB_ID=";

/// The Slurm account; `None` without one, and where the value is empty, too long or no plain text.
#[must_use]
pub fn slurm_account(environ: &[u8]) -> Option<&str> {
    let text = variable(environ, SLURM_ACCOUNT)?;
    let is_plain = (1..=LONGEST_ACCOUNT).contains(&text.len()) && !text.chars().any(char::is_control);
    is_plain.then_some(text)
}

/// The Slurm job id; `None` without one, and where the value is no number.
#[must_use]
pub fn slurm_job(environ: &[u8]) -> Option<&str> {
    let text = variable(environ, SLURM_JOB)?;
    (text.parse::<u32>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())).then_some(text)
}

/// What Slurm tells the batch step of the GPUs of its job on this node, and any other step of its own (sbatch(1), srun(1)): the
/// numbers are the node's, whatever the job's cgroup lets it see.
const SLURM_JOB_GPUS: &[u8] = b"SLURM_JOB_GPUS=";
const SLURM_STEP_GPUS: &[u8] = b"SLURM_STEP_GPUS=";

/// More GPUs than any node has; a list of more is none.
const MOST_GPUS: u64 = 256;

/// The numbers of the job's GPUs; `None` without them, and where the value is no list.
#[must_use]
pub fn slurm_job_gpus(environ: &[u8]) -> Option<BTreeSet<u32>> {
    gpus(variable(environ, SLURM_JOB_GPUS)?)
}

/// The numbers of the step's GPUs; `None` as above.
#[must_use]
pub fn slurm_step_gpus(environ: &[u8]) -> Option<BTreeSet<u32>> {
    gpus(variable(environ, SLURM_STEP_GPUS)?)
}

/// A list such as `0,2-3`.
fn gpus(list: &str) -> Option<BTreeSet<u32>> {
    let ranges = cpus::ranges(list).ok()?;
    let numbers = || ranges.iter().flat_map(|(first, last)| *first..=*last).collect();
    (1..=MOST_GPUS).contains(&cpus::count(&ranges)).then(numbers)
}

/// The share of a GPU's threads that an MPS client is limited to, in percent (NVIDIA, Multi-Process Service: environment
/// variables).
const MPS_THREADS: &[u8] = b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=";

/// The memory that it is limited to, such as `0=1G,1=512M`, by number of the device.
const MPS_MEMORY: &[u8] = b"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=";

/// The client's share of a GPU's threads; `None` without one, and where the value is no share.
#[must_use]
pub fn mps_threads(environ: &[u8]) -> Option<f64> {
    let percent: f64 = variable(environ, MPS_THREADS)?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent / 100.0)
}

/// Bytes by number of the device; of a list with a part that makes no sense nothing, because the driver may reject it all.
#[must_use]
pub fn mps_memory(environ: &[u8]) -> BTreeMap<u32, u64> {
    let limit = |part: &str| {
        let (device, size) = part.trim().split_once('=')?;
        let device: u32 = device.trim().parse().ok().filter(|device| u64::from(*device) < MOST_GPUS)?;
        let size = size.trim().to_ascii_uppercase();
        let (number, unit) =
            size.strip_suffix('G').map(|n| (n, 1 << 30)).or(size.strip_suffix('M').map(|n| (n, 1 << 20)))?;
        Some((device, number.trim().parse::<u64>().ok()?.checked_mul(unit)?))
    };
    let list = variable(environ, MPS_MEMORY).unwrap_or_default();
    list.split(',').map(limit).collect::<Option<_>>().unwrap_or_default()
}

/// Only variables with their NUL count, so that one that was cut with the file is not taken for a shorter one; of several
/// of the name the first does, as for getenv(3).
fn variable<'a>(environ: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let end = environ.iter().rposition(|byte| *byte == 0)?;
    let mut variables = environ[..end].split(|byte| *byte == 0);
    std::str::from_utf8(variables.find_map(|variable| variable.strip_prefix(name))?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_account_among_other_variables() {
        for (environ, account) in [
            (&b"HOME=/root\0SLURM_JOB_ACCOUNT=physics\0SLURM_JOB_ID=42\0"[..], Some("physics")),
            (b"SLURM_JOB_ACCOUNT=a=b c\0", Some("a=b c")),
            (b"SLURM_JOB_ACCOUNT=\xc3\xa9cole\0", Some("\u{e9}cole")),
            (b"SLURM_JOB_ACCOUNT=first\0SLURM_JOB_ACCOUNT=second\0", Some("first")),
            (b"MY_SLURM_JOB_ACCOUNT=x\0SLURM_JOB_ACCOUNTS=x\0NOTE=SLURM_JOB_ACCOUNT=x\0", None),
            (b"SLURM_JOB_ACCOUNT\0", None),
            (b"HOME=/root\0", None),
            (b"\0\0", None),
            (b"", None),
        ] {
            assert_eq!(slurm_account(environ), account, "{:?}", String::from_utf8_lossy(environ));
        }
    }

    #[test]
    fn what_is_no_plain_short_name_is_unknown() {
        let of = |value: &[u8]| {
            let environ = [SLURM_ACCOUNT, value, b"\0"].concat();
            slurm_account(&environ).map(str::len)
        };
        assert_eq!(of(&[b'a'; LONGEST_ACCOUNT]), Some(LONGEST_ACCOUNT));
        assert_eq!(of(&[b'a'; LONGEST_ACCOUNT + 1]), None);
        for value in [&b""[..], b"a\nb", b"a\x1b[0m", b"a\x7f", b"a\xc2\x85", b"a\xff"] {
            assert_eq!(of(value), None, "{value:?}");
        }
    }

    #[test]
    fn job_ids_are_numbers() {
        for (environ, job) in [
            (&b"HOME=/root\0SLURM_JOB_ID=42\0SLURM_JOBID=7\0"[..], Some("42")),
            (b"SLURM_JOB_ID=+42\0", None),
            (b"SLURM_JOB_ID=42;x\0", None),
            (b"SLURM_JOB_ID=\0", None),
            (b"SLURM_JOB_ID=99999999999\0", None),
            (b"SLURM_JOB_ID=42", None),
        ] {
            assert_eq!(slurm_job(environ), job, "{:?}", String::from_utf8_lossy(environ));
        }
    }

    #[test]
    fn gpus_are_lists_of_numbers() {
        for (value, numbers) in [
            (&b"0,1,3"[..], Some(vec![0, 1, 3])),
            (b"2-4", Some(vec![2, 3, 4])),
            (b"0,2-3", Some(vec![0, 2, 3])),
            (b"", None),
            (b"gpu:2", None),
            (b"-1", None),
            (b"0-4294967295", None),
            (b"GPU-4f", None),
        ] {
            let job = [SLURM_JOB_GPUS, value, b"\0"].concat();
            assert_eq!(slurm_job_gpus(&job).map(Vec::from_iter), numbers, "{}", String::from_utf8_lossy(value));
            assert_eq!(slurm_step_gpus(&job), None);
            let step = [SLURM_STEP_GPUS, value, b"\0"].concat();
            assert_eq!(slurm_step_gpus(&step).map(Vec::from_iter), numbers);
        }
    }

    #[test]
    fn limits_of_mps_clients() {
        for (value, share) in [
            ("25", Some(0.25)),
            ("12.5", Some(0.125)),
            ("100", Some(1.0)),
            ("0", None),
            ("101", None),
            ("NaN", None),
            ("", None),
        ] {
            let environ = [MPS_THREADS, value.as_bytes(), b"\0"].concat();
            assert_eq!(mps_threads(&environ), share, "{value}");
        }
        for (value, limits) in [
            ("0=1G", vec![(0, 1 << 30)]),
            ("0=512M, 1=2g", vec![(0, 512 << 20), (1, 2 << 30)]),
            ("0=1G,1=all", vec![]),
            ("0=1", vec![]),
            ("0=99999999999999999999G", vec![]),
            ("0=18446744073709551615G", vec![]),
            ("4096=1G", vec![]),
            ("", vec![]),
        ] {
            let environ = [MPS_MEMORY, value.as_bytes(), b"\0"].concat();
            assert_eq!(mps_memory(&environ).into_iter().collect::<Vec<_>>(), limits, "{value}");
        }
    }

    #[test]
    fn a_variable_that_was_cut_is_none() {
        assert_eq!(slurm_account(b"A=1\0SLURM_JOB_ACCOUNT=phys"), None);
        assert_eq!(slurm_account(b"SLURM_JOB_ACCOUNT=physics\0HOME=/ro"), Some("physics"));
    }

    proptest! {
        #[test]
        fn never_panics_on_bytes(environ in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (slurm_account(&environ), slurm_job(&environ));
            let _ = (slurm_job_gpus(&environ), slurm_step_gpus(&environ));
            let _ = (mps_threads(&environ), mps_memory(&environ));
        }

        #[test]
        fn never_panics_and_gives_short_plain_text_alone(
            before in "([A-Z]{1,3}=\\PC{0,9}\0)*",
            value in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let environ = [before.as_bytes(), SLURM_ACCOUNT, &value, b"\0"].concat();
            if let Some(account) = slurm_account(&environ) {
                prop_assert!(!account.is_empty() && account.len() <= LONGEST_ACCOUNT);
                prop_assert!(!account.chars().any(char::is_control));
                prop_assert!(value.starts_with(account.as_bytes()));
            }
        }
    }
}
