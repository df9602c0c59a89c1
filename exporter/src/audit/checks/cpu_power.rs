//! What keeps CPUs from their full speed.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::context::Context;
use crate::parse::{ParseError, cpus, number};
use crate::source::files;
use crate::source::nodes::{Nodes, Ranges};

const CPUFREQ: &str = "https://docs.kernel.org/admin-guide/pm/cpufreq.html";
const INTEL_PSTATE: &str = "https://docs.kernel.org/admin-guide/pm/intel_pstate.html";

pub(super) static TURBO: Check = Check {
    id: "cpu_turbo",
    title: "Turbo frequencies",
    reads: "/sys/devices/system/cpu/{intel_pstate/no_turbo,cpufreq/boost}",
    families: &[],
    expected: Expected::always("allowed"),
    why: "One thread launches the kernels of a GPU, and runs alone on its core: it is what turbo is made for. Without it \
          that thread runs at the base frequency.",
    fixes: &[Fix {
        command: "echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 1 > /sys/devices/system/cpu/cpufreq/boost",
        lasting: Some("a unit that runs the command at boot; look for the switch in the firmware as well"),
        risk: "more power and heat, and speeds that vary with both",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("intel_pstate: no_turbo", INTEL_PSTATE),
        kernel("CPU Performance Scaling: frequency boost support", CPUFREQ),
        own("a warning: some switch it off for runs that repeat to the percent"),
    ],
    run: |context, _| {
        let folder = context.roots.sys.join("devices/system/cpu");
        let off = files::parse_optional(&folder.join("intel_pstate/no_turbo"), number::<u32>)?.map(|off| off == 0);
        let on = files::parse_optional(&folder.join("cpufreq/boost"), number::<u32>)?.map(|on| on == 1);
        match off.or(on) {
            Some(true) => Ok(Verdict::new(Status::Pass, "allowed")),
            Some(false) => Ok(Verdict::new(Status::Warn, "switched off")),
            None => Err(Unread::Absent("no such switch here: the firmware or the hypervisor decides".to_owned())),
        }
    },
};

pub(super) static OFFLINE: Check = Check {
    id: "offline_cpus",
    title: "CPUs that are switched off",
    reads: "/sys/devices/system/cpu/{present,online,smt/control}",
    families: &[],
    expected: Expected::always("every CPU that is present is online, unless SMT is switched off as a whole"),
    why: "A CPU that was taken offline for a test, or by the firmware after errors, is missing from every cpuset, and its \
          share of the machine's power and cache goes unused.",
    fixes: &[Fix {
        command: "chcpu --enable CPUS",
        risk: "a CPU that was taken offline for its errors comes back with them: look at the kernel log",
        ..Fix::USUAL
    }],
    sources: &[kernel("CPU hotplug", "https://docs.kernel.org/core-api/cpu_hotplug.html"), own("a warning")],
    run: |context, _| {
        let folder = context.roots.sys.join("devices/system/cpu");
        let word = |text: &str| Ok::<_, ParseError>(text.trim().to_owned());
        let smt = files::parse_optional(&folder.join("smt/control"), word)?.unwrap_or_default();
        let list = |file: &str| files::parse(&folder.join(file), cpus::ranges);
        Ok(judge_offline(&list("present")?, &list("online")?, &smt))
    },
};

fn judge_offline(present: &Ranges, online: &Ranges, smt: &str) -> Verdict {
    let is_online = |cpu: &u32| cpus::count_common(&[(*cpu, *cpu)], online) == 1;
    let all = present.iter().flat_map(|(first, last)| *first..=*last);
    let off = cpus::union(all.filter(|cpu| !is_online(cpu)).map(|cpu| (cpu, cpu)).collect());
    match (cpus::count(&off), ["off", "forceoff"].contains(&smt)) {
        (0, _) => Verdict::new(Status::Pass, format!("all {} online", cpus::count(present))),
        (n, true) => Verdict::new(Status::Pass, format!("{n} of {}, SMT is switched off", cpus::count(present))),
        (_, false) => Verdict::new(Status::Warn, format!("CPUs {} are off", ranges(&off)))
            .with(vec![format!("chcpu --enable {}", ranges(&off))]),
    }
}

pub(super) static FREQUENCY: Check = Check {
    id: "cpu_frequency_limit",
    title: "Limits of the CPU frequency",
    reads: "/sys/devices/system/cpu/cpufreq/policy*/{scaling_max_freq,cpuinfo_max_freq,scaling_driver,\
            scaling_available_frequencies}",
    families: &[&catalog::cpu::CPU_MAX_FREQUENCY],
    expected: Expected::always("the highest frequency that the CPU has"),
    why: "A limit that a power-saving profile or a thermal daemon set stays until somebody raises it. The threads that \
          launch kernels run at that speed, whatever the governor.",
    fixes: &[Fix {
        command: "cpupower frequency-set --max FREQUENCY",
        lasting: Some("find who set it: TuneD, thermald, power-profiles-daemon, the BMC"),
        risk: "more power and heat",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("CPU Performance Scaling: policy interface", CPUFREQ),
        own(
            "a warning; under acpi-cpufreq the limit is held to the highest frequency that can be asked for: the boost above \
             it, which the maximum of the hardware includes, is the firmware's",
        ),
    ],
    run: |context, _| {
        let folder = context.roots.sys.join("devices/system/cpu/cpufreq");
        let mut limits = BTreeMap::new();
        for name in files::list(&folder)?.unwrap_or_default().iter().filter(|name| name.starts_with("policy")) {
            let read = |file: &str| files::parse_optional(&folder.join(name).join(file), number::<u64>);
            let Some((limit, most)) = read("scaling_max_freq")?.zip(read("cpuinfo_max_freq")?) else { continue };
            let most = asked_for(&folder.join(name), limit)?.map_or(most, |highest| highest.min(most));
            *limits.entry((limit, most)).or_default() += 1;
        }
        Unread::unless(!limits.is_empty(), "no frequency scaling here: the firmware or the hypervisor decides")?;
        Ok(judge_frequency(&limits))
    },
};

/// The highest frequency that can be asked for under `acpi-cpufreq`, kHz; the limit itself where the driver has no list.
fn asked_for(policy: &Path, limit: u64) -> Result<Option<u64>, Unread> {
    let driver = files::parse_optional(&policy.join("scaling_driver"), |text| Ok(text.trim().to_owned()))?;
    if driver.as_deref() != Some("acpi-cpufreq") {
        return Ok(None);
    }
    let list = |text: &str| Ok(text.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok()).max());
    let highest = files::parse_optional(&policy.join("scaling_available_frequencies"), list)?.flatten();
    Ok(Some(highest.unwrap_or(limit)))
}

/// By limit and hardware maximum, kHz: how many policies have them.
fn judge_frequency(limits: &BTreeMap<(u64, u64), usize>) -> Verdict {
    let low: Vec<_> = limits.iter().filter(|((limit, most), _)| limit < most).collect();
    let Some(((_, most), _)) = low.first() else {
        return Verdict::new(Status::Pass, "none");
    };
    let mhz = |khz: u64| khz / 1000;
    let spell = |((limit, most), n): &(&(u64, u64), &usize)| {
        format!("{} MHz of {} MHz on {n} of {} policies", mhz(*limit), mhz(*most), limits.values().sum::<usize>())
    };
    Verdict::new(Status::Warn, list(&low.iter().map(spell).collect::<Vec<_>>()))
        .with(vec![format!("cpupower frequency-set --max {}MHz", mhz(*most))])
}

pub(super) static PLATFORM: Check = Check {
    id: "platform_profile",
    title: "Power profile of the firmware",
    reads: "/sys/firmware/acpi/platform_profile",
    families: &[],
    expected: Expected::always("performance"),
    why: "The firmware shares out power by it. In any other profile it saves power first, whatever the operating system \
          asks for.",
    fixes: &[Fix {
        command: "echo performance > /sys/firmware/acpi/platform_profile",
        lasting: Some("tuned-adm profile accelerator-performance"),
        risk: "more power and noise",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Platform Profile Selection", "https://docs.kernel.org/userspace-api/sysfs-platform_profile.html"),
        TUNED_ACCELERATOR,
    ],
    run: |context, _| {
        let path = context.roots.sys.join("firmware/acpi/platform_profile");
        let profile = files::read(&path)?.trim().to_owned();
        let right = profile.ends_with("performance") && !profile.starts_with("balanced");
        Ok(Verdict::new(if right { Status::Pass } else { Status::Warn }, profile))
    },
};

pub(super) static BIAS: Check = Check {
    id: "energy_perf_bias",
    title: "What the CPU prefers, energy or performance",
    reads: "/sys/devices/system/cpu/cpu*/power/energy_perf_bias of the first CPU of every NUMA node",
    families: &[],
    expected: Expected::always("0, performance"),
    why: "Intel's processors weigh their own power saving by it: when they raise frequencies, how deep the uncore sleeps, \
          how long links stay awake.",
    fixes: &[Fix {
        command: "cpupower set --perf-bias 0",
        lasting: Some("tuned-adm profile accelerator-performance"),
        risk: "more power when idle; some firmware sets it back",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Intel Performance and Energy Bias Hint", "https://docs.kernel.org/admin-guide/pm/intel_epb.html"),
        TUNED_ACCELERATOR,
        own("a warning"),
    ],
    run: |context, _| {
        let mut biases = Vec::new();
        for cpu in first_cpus(context)? {
            let path = context.roots.sys.join(format!("devices/system/cpu/cpu{cpu}/power/energy_perf_bias"));
            biases.extend(files::parse_optional(&path, number::<u32>)?.map(|bias| (cpu, bias)));
        }
        Unread::unless(!biases.is_empty(), "these CPUs have none")?;
        Ok(judge_bias(&biases))
    },
};

/// One CPU of every NUMA node, so that none of the sockets is left out.
fn first_cpus(context: &Context) -> Result<Vec<u32>, Unread> {
    let nodes = Nodes::read(&context.roots);
    let firsts: Vec<u32> = nodes.iter().filter_map(|(_, cpus)| Some(cpus.first()?.0)).collect();
    Ok(if firsts.is_empty() { vec![0] } else { firsts })
}

fn judge_bias(biases: &[(u32, u32)]) -> Verdict {
    let saves = biases.iter().filter(|(_, bias)| *bias > 0);
    let saves = saves.map(|(cpu, bias)| format!("{bias} on CPU {cpu}"));
    Verdict::listing(Status::Warn, saves.collect(), "performance")
}

pub(super) static THERMAL: Check = Check {
    id: "cpu_thermal_throttle",
    title: "CPUs that were slowed down by heat",
    reads: "/sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count of the first CPU of every NUMA node",
    families: &[],
    expected: Expected::always("never since boot"),
    why: "A processor that gets too hot lowers its clock. It shares its air with the GPUs: what slows the one down is about \
          to slow down the others.",
    fixes: &[Fix {
        command: "look at inlet temperature, fans, dust, heat sink and the firmware's fan profile",
        who: Who::Hardware,
        ..Fix::USUAL
    }],
    sources: &[
        kernel(
            "ABI: /sys/devices/system/cpu/cpuX/thermal_throttle",
            "https://docs.kernel.org/admin-guide/abi-testing.html",
        ),
        own("a warning: the count is since boot, and may be old"),
    ],
    run: |context, _| {
        let mut counts = Vec::new();
        for cpu in first_cpus(context)? {
            let folder = context.roots.sys.join(format!("devices/system/cpu/cpu{cpu}/thermal_throttle"));
            let times = files::parse_optional(&folder.join("package_throttle_count"), number::<u64>)?;
            counts.extend(times.map(|times| (cpu, times)));
        }
        Unread::unless(!counts.is_empty(), "these CPUs do not count it")?;
        Ok(judge_thermal(&counts))
    },
};

fn judge_thermal(counts: &[(u32, u64)]) -> Verdict {
    let hot = counts.iter().filter(|(_, times)| *times > 0);
    let hot = hot.map(|(cpu, times)| format!("{times} times, by CPU {cpu}"));
    Verdict::listing(Status::Warn, hot.collect(), format!("none of {}", count(counts.len(), "package")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn cpus_that_are_off() {
        let judge = |online: &[(u32, u32)], smt| judge_offline(&vec![(0, 7)], &online.to_vec(), smt);
        assert_eq!(judge(&[(0, 7)], "on").read, "all 8 online");
        assert_eq!(judge(&[(0, 3)], "off").status, Pass);
        let verdict = judge(&[(0, 2), (4, 6)], "on");
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "CPUs 3,7 are off"));
        assert_eq!(verdict.commands, ["chcpu --enable 3,7"]);
    }

    #[test]
    fn frequencies() {
        assert_eq!(judge_frequency(&[((3_500_000, 3_500_000), 64)].into()).status, Pass);
        let verdict = judge_frequency(&[((3_500_000, 3_500_000), 60), ((2_000_000, 3_500_000), 4)].into());
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "2000 MHz of 3500 MHz on 4 of 64 policies"));
        assert_eq!(verdict.commands, ["cpupower frequency-set --max 3500MHz"]);
    }

    #[test]
    fn biases_and_heat() {
        assert_eq!(judge_bias(&[(0, 0), (32, 0)]).status, Pass);
        assert_eq!(judge_bias(&[(0, 0), (32, 6)]).read, "6 on CPU 32");
        assert_eq!(judge_thermal(&[(0, 0), (32, 0)]).read, "none of 2 packages");
        assert_eq!(judge_thermal(&[(0, 0), (32, 9)]).read, "9 times, by CPU 32");
        assert_eq!(judge_thermal(&[(0, 9)]).status, Warn);
    }
}
