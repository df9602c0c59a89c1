//! The allocator of host memory in GPU processes.

use super::*;
use crate::parse::maps;

pub(super) static ALLOCATOR: Check = Check {
    id: "allocator",
    title: "Allocator of host memory",
    reads: "/proc/PID/maps of every GPU process",
    families: &[],
    expected: Expected {
        training: "any",
        inference: "jemalloc, TCMalloc or mimalloc, where many threads serve requests",
        mixed: "any",
    },
    why: "glibc's allocator gives threads arenas of their own, up to eight per CPU, and hands little of what they freed back: a \
          server with many threads grows for days, and its slowest answers wait for locks and for pages.",
    fixes: &[Fix {
        command: "in the service's environment: LD_PRELOAD=libjemalloc.so.2",
        lasting: Some("yes: it is part of the service"),
        restarts: "the service",
        who: Who::User,
        risk: "libraries that bring an allocator of their own can clash: measure before and after; MALLOC_ARENA_MAX=4 is less",
        gain: None,
    }],
    sources: &[
        practice(
            "PyTorch, Performance Tuning Guide: switch memory allocator",
            "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        ),
        vendor("mallopt(3): M_ARENA_MAX", "https://man7.org/linux/man-pages/man3/mallopt.3.html"),
        own("a warning, and for services only; an allocator that was linked in is not seen"),
    ],
    run: |context, profile| {
        let found = jobs::read(context, "maps", |text| maps::allocator(text).map(Some))?;
        Ok(judge(profile, &found.iter().map(|process| (process.pid, process.value)).collect::<Vec<_>>()))
    },
};

/// By process: the library's name, or none where it is the C library's.
fn judge(profile: Profile, processes: &[(u32, Option<&'static str>)]) -> Verdict {
    let plain: Vec<String> =
        processes.iter().filter(|(_, name)| name.is_none()).map(|(pid, _)| pid.to_string()).collect();
    if plain.is_empty() {
        let mut names: Vec<String> = processes.iter().filter_map(|(_, name)| Some((*name)?.to_owned())).collect();
        names.sort_unstable();
        names.dedup();
        return Verdict::new(Status::Pass, list(&names));
    }
    let status = if profile == Profile::Inference { Status::Warn } else { Status::Pass };
    Verdict::new(status, format!("the C library's for pid {}", list(&plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_alone_are_judged() {
        let said = |profile, processes: &[_]| {
            let verdict = judge(profile, processes);
            (verdict.status, verdict.read)
        };
        let mixture = [(5, Some("jemalloc")), (6, None)];
        for (profile, status) in
            [(Profile::Inference, Status::Warn), (Profile::Training, Status::Pass), (Profile::Mixed, Status::Pass)]
        {
            assert_eq!(said(profile, &mixture), (status, "the C library's for pid 6".to_owned()));
        }
        let all = [(5, Some("jemalloc")), (6, Some("jemalloc")), (7, Some("TCMalloc"))];
        assert_eq!(said(Profile::Inference, &all), (Status::Pass, "TCMalloc, jemalloc".to_owned()));
    }
}
