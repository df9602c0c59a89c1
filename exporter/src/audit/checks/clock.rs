//! What the time costs, and whether anybody keeps it.

use super::*;
use crate::context::Context;
use crate::parse::number;
use crate::source::files;

pub(super) static SOURCE: Check = Check {
    id: "clocksource",
    title: "Clock source",
    reads: "/sys/devices/system/clocksource/clocksource0/{current,available}_clocksource",
    families: &[],
    expected: Expected::always("one that programs read without a system call, such as tsc"),
    why: "Frameworks, NCCL and the CUDA runtime ask for the time all along. When the kernel has given up the TSC, each \
          question is a system call and a slow device read instead of some nanoseconds.",
    fixes: &[Fix {
        command: "look for \"Marking clocksource 'tsc' as unstable\" in the kernel log; update firmware and microcode",
        restarts: "the node",
        who: Who::Hardware,
        risk: "tsc=reliable hides a TSC that really drifts: only when the vendor says that it does not",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Clock sources", "https://docs.kernel.org/timers/timekeeping.html"),
        own(
            "which sources the kernel lets programs read by themselves (vDSO) is from its sources, not its documentation",
        ),
    ],
    run: |context, _| {
        let folder = context.roots.sys.join("devices/system/clocksource/clocksource0");
        let current = files::read(&folder.join("current_clocksource"))?;
        let available = files::read(&folder.join("available_clocksource"))?;
        Ok(judge_source(current.trim(), available.trim()))
    },
};

fn judge_source(current: &str, available: &str) -> Verdict {
    let status = match current {
        "tsc" | "arch_sys_counter" | "timebase" | "kvm-clock" | "hyperv_clocksource_tsc_page" => Status::Pass,
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit" => Status::Fail,
        _ => Status::Warn,
    };
    Verdict::new(status, format!("{current}, of {available}"))
}

pub(super) static SYNC: Check = Check {
    id: "time_sync",
    title: "Time synchronisation",
    reads: "/run/systemd/timesync/synchronized, pid files of chronyd, ntpd and ntpd-rs in /run, /proc/PID/comm",
    families: &[],
    expected: Expected::always("a running time daemon"),
    why: "Logs, traces and metrics of one job on many nodes are only comparable on one clock, certificates and tickets \
          expire by it, and back-ends refuse samples from the future.",
    fixes: &[Fix {
        command: "systemctl enable --now chronyd || systemctl enable --now systemd-timesyncd",
        risk: "a clock that is far off is stepped once",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "systemd-timesyncd.service(8)",
            "https://www.freedesktop.org/software/systemd/man/latest/systemd-timesyncd.service.html",
        ),
        own("only that a daemon runs can be read from files; whether it is in sync says `chronyc tracking`. A time \
             daemon without a pid file, such as ptp4l, is not seen: therefore a warning, never a failure"),
    ],
    run: |context, _| Ok(judge_sync(timesyncd(context)?, &daemons(context, &PID_FILES)?)),
};

/// Where daemons write their pid, and what their process is called.
const PID_FILES: [(&str, &str); 5] = [
    ("run/chrony/chronyd.pid", "chronyd"),
    ("run/chronyd.pid", "chronyd"),
    ("run/ntpd.pid", "ntpd"),
    ("run/ntp/ntpd.pid", "ntpd"),
    ("run/ntpd-rs/ntpd.pid", "ntp-daemon"),
];

/// systemd-timesyncd touches the file at every synchronisation; /run is empty at boot.
fn timesyncd(context: &Context) -> Result<bool, Unread> {
    let folder = context.roots.root.join("run/systemd/timesync");
    Ok(files::list(&folder)?.unwrap_or_default().iter().any(|name| name == "synchronized"))
}

/// The daemons whose pid file, below the host's root, names a process of theirs.
pub(super) fn daemons(context: &Context, pid_files: &[(&str, &str)]) -> Result<Vec<String>, Unread> {
    let mut running = Vec::new();
    for (path, name) in pid_files {
        let Some(pid) = files::parse_optional(&context.roots.root.join(path), number::<u32>)? else { continue };
        let path = context.roots.proc.join(pid.to_string()).join("comm");
        let comm = files::parse_optional(&path, |text| Ok(text.trim().to_owned()))?;
        running.extend(comm.filter(|comm| comm == name));
    }
    Ok(running)
}

fn judge_sync(timesyncd: bool, daemons: &[String]) -> Verdict {
    match (daemons, timesyncd) {
        ([], false) => Verdict::new(Status::Warn, "no sign of a time daemon"),
        ([], true) => Verdict::new(Status::Pass, "systemd-timesyncd has synchronised since boot"),
        (daemons, _) => Verdict::new(Status::Pass, format!("{} runs", list(daemons))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    #[test]
    fn sources() {
        for (current, status) in [
            ("tsc", Pass),
            ("kvm-clock", Pass),
            ("arch_sys_counter", Pass),
            ("xen", Warn),
            ("hpet", Fail),
            ("acpi_pm", Fail),
        ] {
            assert_eq!(judge_source(current, "tsc hpet acpi_pm").status, status, "{current}");
        }
    }

    #[test]
    fn synchronisation() {
        let chronyd = ["chronyd".to_owned()];
        assert_eq!(judge_sync(false, &[]).status, Warn);
        assert_eq!(judge_sync(true, &[]).status, Pass);
        assert_eq!(judge_sync(false, &chronyd).read, "chronyd runs");
    }
}
