//! dcgm-exporter's job mapping, which a workload manager's prolog and epilog write: one file per GPU, named by its
//! index, or `INDEX.INSTANCE` for a MIG instance; one job id per line.

/// GPU index and MIG instance that a file is about; `None` for any other file.
#[must_use]
pub fn file_name(name: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    match name.split_once('.') {
        Some((gpu, instance)) => Some((number(gpu)?, Some(number(instance)?))),
        None => Some((number(name)?, None)),
    }
}

/// The job ids of a file, in order, each once.
#[must_use]
pub fn jobs(text: &str) -> Vec<&str> {
    let mut jobs: Vec<&str> = Vec::new();
    for job in text.lines().map(str::trim).filter(|job| !job.is_empty()) {
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_gpu_and_instance() {
        for (name, about) in [
            ("0", Some((0, None))),
            ("15", Some((15, None))),
            ("3.11", Some((3, Some(11)))),
            ("0.", None),
            (".1", None),
            ("+1", None),
            ("job.txt", None),
            ("", None),
        ] {
            assert_eq!(file_name(name), about, "{name:?}");
        }
    }

    #[test]
    fn one_job_a_line() {
        assert_eq!(jobs("42\n 43 \n\n42\n"), ["42", "43"]);
        assert_eq!(jobs(""), [""; 0]);
    }
}
