//! How fast CPUs run, wake up, and which of them take part.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::context::Context;
use crate::parse::{ParseError, cpus, number, status};
use crate::source::files;
use crate::source::nodes::Ranges;

pub(super) static GOVERNOR: Check = Check {
    id: "cpu_governor",
    title: "CPU frequency governor",
    reads: "/sys/devices/system/cpu/cpufreq/policy*/{scaling_governor,scaling_driver,energy_performance_preference}",
    families: &[&catalog::cpu::CPU_GOVERNOR],
    expected: Expected::always("performance, or energy_performance_preference performance where the CPU scales itself"),
    why: "The threads that feed a GPU work in short bursts. A governor that raises the frequency after it has seen load \
          lets every burst begin slowly; `powersave` of a driver without its own scaling never raises it.",
    fixes: &[Fix {
        command: "cpupower frequency-set -g performance",
        lasting: Some("tuned-adm profile accelerator-performance, or a unit that runs the command at boot"),
        risk: "more power and heat when idle; a hypervisor or the firmware may own the frequency instead",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("CPU Performance Scaling", "https://docs.kernel.org/admin-guide/pm/cpufreq.html"),
        kernel("intel_pstate: active mode", "https://docs.kernel.org/admin-guide/pm/intel_pstate.html"),
        vendor(
            "NVIDIA Grace CPU Benchmarking Guide, platform configuration",
            "https://nvidia.github.io/grace-cpu-benchmarking-guide/platform/index.html",
        ),
        TUNED_ACCELERATOR,
        book("AI Systems Performance Engineering (early release), chapter 3"),
    ],
    run: |context, _| Ok(judge_governors(&policies(context)?)),
};

/// How the CPUs of one policy are clocked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Policy {
    governor: String,
    driver: String,
    preference: Option<String>,
}

/// The distinct policies, and how many there are of each.
fn policies(context: &Context) -> Result<BTreeMap<Policy, usize>, Unread> {
    let folder = context.roots.sys.join("devices/system/cpu/cpufreq");
    let word = |text: &str| Ok::<_, ParseError>(text.trim().to_owned());
    let mut policies = BTreeMap::new();
    for name in files::list(&folder)?.unwrap_or_default().iter().filter(|name| name.starts_with("policy")) {
        let read = |file: &str| files::parse_optional(&folder.join(name).join(file), word);
        let Some(governor) = read("scaling_governor")? else { continue };
        let driver = read("scaling_driver")?.unwrap_or_default();
        let policy = Policy { governor, driver, preference: read("energy_performance_preference")? };
        *policies.entry(policy).or_default() += 1;
    }
    Unread::unless(!policies.is_empty(), "no frequency scaling here: the firmware or the hypervisor decides")?;
    Ok(policies)
}

fn judge_governors(policies: &BTreeMap<Policy, usize>) -> Verdict {
    let all: usize = policies.values().sum();
    let describe = |(policy, count): (&Policy, &usize)| {
        let preference = policy.preference.as_ref().map(|p| format!(", preference {p}")).unwrap_or_default();
        format!("{} ({}{preference}) on {count} of {all} policies", policy.governor, policy.driver)
    };
    let worst = policies.keys().map(governor_status).min().unwrap_or(Status::NotApplicable);
    let shown = policies.iter().filter(|(policy, _)| governor_status(policy) == worst);
    Verdict::new(worst, list(&shown.map(describe).collect::<Vec<_>>()))
}

fn governor_status(policy: &Policy) -> Status {
    // In their active mode these drivers have two governors of their own, and both follow the load.
    let scales_itself = ["intel_pstate", "amd-pstate-epp"].contains(&policy.driver.as_str());
    match (policy.governor.as_str(), policy.preference.as_deref()) {
        ("performance", _) => Status::Pass,
        ("powersave", Some("performance")) if scales_itself => Status::Pass,
        ("powersave", _) if !scales_itself => Status::Fail,
        _ => Status::Warn,
    }
}

pub(super) static IDLE_STATES: Check = Check {
    id: "cpu_idle_states",
    title: "Deep idle states",
    reads: "/sys/devices/system/cpu/cpu*/cpuidle/state*/{name,latency,disable}",
    families: &[],
    expected: Expected {
        training: "no enabled state that takes more than 99 us to leave",
        inference: "no enabled state beyond the first that takes more than 3 us to leave",
        mixed: "no enabled state that takes more than 99 us to leave",
    },
    why: "A CPU that waits for the GPU falls asleep, and the next kernel launch waits until it is awake. One exit is \
          short; a loop of small kernels or requests pays it every time.",
    fixes: &[Fix {
        command: "cpupower idle-set --disable-by-latency 100",
        lasting: Some("tuned-adm profile accelerator-performance, or latency-performance for services"),
        risk: "more power and heat when idle, and less turbo for the busy cores. A program that holds \
               /dev/cpu_dma_latency, as TuneD does, keeps CPUs awake without these files showing it: then there is \
               nothing to mend",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("CPU Idle Time Management", "https://docs.kernel.org/admin-guide/pm/cpuidle.html"),
        TUNED_ACCELERATOR,
        practice(
            "TuneD, profile latency-performance",
            "https://github.com/redhat-performance/tuned/blob/master/profiles/latency-performance/tuned.conf",
        ),
        book("AI Systems Performance Engineering (early release), chapter 3"),
    ],
    run: |context, profile| Ok(judge_idle(&idle_states(context)?, profile)),
};

/// A state that at least one CPU may enter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct IdleState {
    /// The number of its folder; 0 polls on most machines.
    index: u32,
    name: String,
    exit_us: u32,
}

/// The distinct states that are enabled, and on how many CPUs. What a state is called and takes is read of the first CPU
/// that has it enabled: with hundreds of CPUs, three files for every state of each would be thousands.
fn idle_states(context: &Context) -> Result<BTreeMap<IdleState, usize>, Unread> {
    let folder = context.roots.sys.join("devices/system/cpu");
    let mut states: BTreeMap<u32, (IdleState, usize)> = BTreeMap::new();
    let mut any = false;
    for cpu in files::list(&folder)?.unwrap_or_default().iter().filter(|name| numbered(name, "cpu").is_some()) {
        let folder = folder.join(cpu).join("cpuidle");
        for name in files::list(&folder)?.unwrap_or_default() {
            let Some(index) = numbered(&name, "state") else { continue };
            any = true;
            let folder = folder.join(&name);
            if files::parse(&folder.join("disable"), number::<u64>)? != 0 {
                continue;
            }
            match states.get_mut(&index) {
                Some((_, cpus)) => *cpus += 1,
                None => drop(states.insert(index, (idle_state(&folder, index)?, 1))),
            }
        }
    }
    match any {
        true => Ok(states.into_values().collect()),
        false => Err(Unread::Absent("no idle states here: the hypervisor decides".to_owned())),
    }
}

fn idle_state(folder: &Path, index: u32) -> Result<IdleState, Unread> {
    let name = files::parse(&folder.join("name"), |text| Ok(text.trim().to_owned()))?;
    Ok(IdleState { index, name, exit_us: files::parse(&folder.join("latency"), number)? })
}

fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

fn judge_idle(states: &BTreeMap<IdleState, usize>, profile: Profile) -> Verdict {
    // TuneD's accelerator-performance forces at most 99 us; its latency-performance the first state, or 3 us.
    let first = states.keys().filter(|state| state.index <= 1).map(|state| state.exit_us).max().unwrap_or_default();
    let limit = first.max(if profile == Profile::Inference { 3 } else { 99 });
    let deep: Vec<_> = states.iter().filter(|(state, _)| state.exit_us > limit).collect();
    if deep.is_empty() {
        let longest = states.keys().map(|state| state.exit_us).max().unwrap_or_default();
        return Verdict::new(Status::Pass, format!("at most {longest} us"));
    }
    let spell = |(state, cpus): &(&IdleState, &usize)| {
        format!("{} {} us on {}", state.name, state.exit_us, count(**cpus, "CPU"))
    };
    // It disables what takes as long as it is told, and longer.
    let command = format!("cpupower idle-set --disable-by-latency {}", limit.saturating_add(1));
    Verdict::new(Status::Warn, list(&deep.iter().map(spell).collect::<Vec<_>>())).with(vec![command])
}

pub(super) static ISOLATED: Check = Check {
    id: "isolated_cpus",
    title: "Isolated CPUs",
    reads: "/sys/devices/system/cpu/{isolated,nohz_full}, /proc/PID/status Cpus_allowed_list of every GPU process",
    families: &[&catalog::cpu::CPU_ISOLATED, &catalog::cpu::CPU_TICKLESS],
    expected: Expected::always("no GPU process on isolated CPUs, unless it pins each of its threads itself"),
    why: "The scheduler does not balance isolated CPUs (isolcpus=): threads stay on the one that they start on. A job \
          that is given only such CPUs runs all its loaders on one of them.",
    fixes: &[Fix {
        command: "remove isolcpus= from the kernel parameters and give the job CPUs through its cpuset",
        restarts: "the node",
        risk: "programs that were meant for the isolated CPUs, such as DPDK, share them",
        ..Fix::USUAL
    }],
    sources: &[kernel(
        "Kernel parameters: isolcpus, deprecated in favour of cpusets",
        "https://docs.kernel.org/admin-guide/kernel-parameters.html",
    )],
    run: |context, _| {
        let isolated =
            cpu_list(context, "isolated")?.ok_or_else(|| Unread::Absent("the kernel does not say".to_owned()))?;
        let tickless = cpu_list(context, "nohz_full")?.unwrap_or_default();
        if isolated.is_empty() {
            return Ok(judge_isolated(&isolated, &tickless, &[]));
        }
        let processes = jobs::read(context, "status", status::cpus_allowed)?;
        let allowed: Vec<(u32, Ranges)> = processes.into_iter().map(|process| (process.pid, process.value)).collect();
        Ok(judge_isolated(&isolated, &tickless, &allowed))
    },
};

/// A list of CPUs of that file; `None` where the kernel has none such.
pub(super) fn cpu_list(context: &Context, file: &str) -> Result<Option<Ranges>, Unread> {
    // Some kernels print the empty list of nohz_full as the null pointer that it is.
    let parse = |text: &str| cpus::ranges(text.replace("(null)", "").as_str());
    Ok(files::parse_optional(&context.roots.sys.join("devices/system/cpu").join(file), parse)?)
}

fn judge_isolated(isolated: &Ranges, tickless: &Ranges, jobs: &[(u32, Ranges)]) -> Verdict {
    if isolated.is_empty() {
        let tickless = if tickless.is_empty() { String::new() } else { format!(", tickless {}", ranges(tickless)) };
        return Verdict::new(Status::Pass, format!("none{tickless}"));
    }
    let spell = |(pid, allowed): &&(u32, Ranges)| format!("pid {pid} on CPUs {}", ranges(allowed));
    let on = |(_, allowed): &&(u32, Ranges)| cpus::count_common(allowed, isolated);
    let wholly = jobs.iter().filter(|job| cpus::count(&job.1) > 1 && on(job) == cpus::count(&job.1));
    let partly = jobs.iter().filter(|job| (1..cpus::count(&job.1)).contains(&on(job)));
    let (status, some): (_, Vec<String>) = match (wholly.clone().count(), partly.clone().count()) {
        (0, 0) => return Verdict::new(Status::Pass, format!("{}, no GPU process spread over them", ranges(isolated))),
        (0, _) => (Status::Warn, partly.map(|job| spell(&job)).collect()),
        _ => (Status::Fail, wholly.map(|job| spell(&job)).collect()),
    };
    Verdict::new(status, format!("isolated {}: {}", ranges(isolated), list(&some)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    fn policy(governor: &str, driver: &str, preference: Option<&str>) -> Policy {
        Policy { governor: governor.to_owned(), driver: driver.to_owned(), preference: preference.map(str::to_owned) }
    }

    #[test]
    fn governors() {
        for (governor, driver, preference, status) in [
            ("performance", "acpi-cpufreq", None, Pass),
            ("performance", "intel_pstate", Some("performance"), Pass),
            ("powersave", "intel_pstate", Some("performance"), Pass),
            ("powersave", "intel_pstate", Some("balance_performance"), Warn),
            ("powersave", "amd-pstate-epp", None, Warn),
            ("powersave", "intel_cpufreq", None, Fail),
            ("powersave", "acpi-cpufreq", None, Fail),
            ("schedutil", "acpi-cpufreq", None, Warn),
            ("ondemand", "acpi-cpufreq", None, Warn),
        ] {
            assert_eq!(governor_status(&policy(governor, driver, preference)), status, "{governor} {driver}");
        }
    }

    #[test]
    fn the_worst_policy_counts() {
        let mixed = [(policy("performance", "acpi-cpufreq", None), 60), (policy("schedutil", "acpi-cpufreq", None), 4)];
        let verdict = judge_governors(&mixed.into());
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "schedutil (acpi-cpufreq) on 4 of 64 policies"));
    }

    #[test]
    fn idle_states_by_exit_latency() {
        let state = |index, name: &str, exit_us| (IdleState { index, name: name.to_owned(), exit_us }, 8);
        let deep = [state(0, "POLL", 0), state(1, "C1", 1), state(2, "C1E", 4), state(3, "C6", 170)];
        let verdict = judge_idle(&deep.clone().into(), Profile::Training);
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "C6 170 us on 8 CPUs"));
        let verdict = judge_idle(&deep.into(), Profile::Inference);
        assert_eq!(verdict.read, "C1E 4 us on 8 CPUs, C6 170 us on 8 CPUs");
        assert_eq!(verdict.commands, ["cpupower idle-set --disable-by-latency 4"]);
        for profile in [Profile::Training, Profile::Inference, Profile::Mixed] {
            assert_eq!(judge_idle(&[state(0, "POLL", 0), state(1, "WFI", 5)].into(), profile).status, Pass);
            assert_eq!(judge_idle(&BTreeMap::new(), profile).status, Pass, "all disabled");
        }
        assert_eq!(judge_idle(&[state(2, "C2", 99)].into(), Profile::Mixed).status, Pass);
        assert_eq!(judge_idle(&[state(2, "C2", 100)].into(), Profile::Mixed).status, Warn);
    }

    #[test]
    fn isolation() {
        let isolated = vec![(8, 15)];
        for (allowed, status) in
            [(vec![(0, 7)], Pass), (vec![(0, 15)], Warn), (vec![(8, 11)], Fail), (vec![(8, 8)], Pass)]
        {
            assert_eq!(judge_isolated(&isolated, &vec![], &[(7, allowed.clone())]).status, status, "{allowed:?}");
        }
        assert_eq!(judge_isolated(&vec![], &vec![(1, 3)], &[]).read, "none, tickless 1-3");
    }
}
