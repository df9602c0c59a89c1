//! `/proc/stat`: only what is bounded on a machine of any size.

use super::{ParseError, Parsed, each_line};

/// The columns of a `cpu` line in order (filesystems/proc.rst). The two after `steal`, guest times, are already in
/// user and nice.
pub const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Unit of the columns: `USER_HZ`, which is 100 on every architecture that carries a GPU, whatever the kernel's `HZ`.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// The parts of the file that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Ticks per mode in the order of [`MODES`], summed over CPUs; shorter on a kernel with fewer columns.
    pub ticks: Vec<u64>,
    /// Online CPUs.
    pub cpus: u64,
    /// Start of the kernel, seconds since the epoch.
    pub boot_time: Option<u64>,
}

/// Parses the file.
pub fn parse(text: &str) -> Parsed<Stat> {
    let mut stat = Stat::default();
    let mut parsed = each_line(text, |number, line| {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let error = || ParseError::new(number, "unsigned numbers", line);
        match key {
            "cpu" => stat.ticks = columns(rest).ok_or_else(error)?,
            "btime" => stat.boot_time = Some(rest.parse().map_err(|_| error())?),
            _ if key.starts_with("cpu") => stat.cpus += 1,
            _ => {}
        }
        Ok(())
    });
    if stat.ticks.is_empty() {
        parsed.left_out.add(ParseError::new(1, "a cpu line", ""));
    }
    parsed.map(|()| stat)
}

/// The columns of a `cpu` line; `None` without any, and where one is no number.
fn columns(rest: &str) -> Option<Vec<u64>> {
    let columns = rest.split_ascii_whitespace().take(MODES.len());
    columns.map(|column| column.parse().ok()).collect::<Option<Vec<u64>>>().filter(|columns| !columns.is_empty())
}

/// What the whole node does, behind the lines of CPUs; what the kernel does not print is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// `ctxt`: context switches since boot.
    pub context_switches: Option<u64>,
    /// `processes`: processes and threads made since boot.
    pub forks: Option<u64>,
    /// `procs_running`: threads that run or wait for a CPU at this moment.
    pub running: Option<u64>,
    /// `procs_blocked`: threads that wait for I/O at this moment.
    pub blocked: Option<u64>,
}

/// Calls `each` with the number and the ticks, in the order of [`MODES`], of every online CPU.
pub fn per_cpu(text: &str, mut each: impl FnMut(u32, &[u64])) -> Parsed<Activity> {
    let mut activity = Activity::default();
    let mut ticks = Vec::with_capacity(MODES.len());
    let parsed = each_line(text, |number, line| {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let error = || ParseError::new(number, "unsigned numbers", line);
        let field = match key {
            "ctxt" => &mut activity.context_switches,
            "processes" => &mut activity.forks,
            "procs_running" => &mut activity.running,
            "procs_blocked" => &mut activity.blocked,
            _ => {
                let Some(cpu) = key.strip_prefix("cpu").filter(|cpu| !cpu.is_empty()) else { return Ok(()) };
                ticks.clear();
                for column in rest.split_ascii_whitespace().take(MODES.len()) {
                    ticks.push(column.parse().map_err(|_| error())?);
                }
                each(cpu.parse().map_err(|_| error())?, &ticks);
                return Ok(());
            }
        };
        *field = Some(rest.parse().map_err(|_| error())?);
        Ok(())
    });
    parsed.map(|()| activity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_sum_and_counts_cpus() {
        let text =
            "cpu  10 1 5 100 2 0 3 4 9 9\ncpu0 5 1 2 50 1 0 3 4 9 9\ncpu1 5 0 3 50 1 0 0 0 0 0\nintr 5 1 2\nbtime 77\n";
        let expected = Stat { ticks: vec![10, 1, 5, 100, 2, 0, 3, 4], cpus: 2, boot_time: Some(77) };
        assert_eq!(parse(text).value, expected);
    }

    #[test]
    fn malformed_lines_are_named_and_cost_themselves() {
        let first = |text: &str| parse(text).left_out.first.unwrap();
        assert_eq!(first("btime 7").expected, "a cpu line");
        assert_eq!(first("cpu 1 2 x").line, 1);
        assert_eq!(first("cpu 1 2\nbtime soon").line, 2);
        let read = parse("cpu -1 2\ncpu0 1 2\nbtime 7\nprocesses -5\n");
        assert_eq!(read.value, Stat { ticks: vec![], cpus: 1, boot_time: Some(7) });
    }

    #[test]
    fn one_cpu_after_the_other() {
        let text = "cpu  9 9\ncpu0 5 1 2 50 1 0 3 4 9 9\ncpu12 5 0\nintr 5 1\nctxt 7\nprocesses 8\nprocs_running 3\n";
        let mut cpus = Vec::new();
        let activity = per_cpu(text, |cpu, ticks| cpus.push((cpu, ticks.to_vec()))).value;
        assert_eq!(cpus, [(0, vec![5, 1, 2, 50, 1, 0, 3, 4]), (12, vec![5, 0])]);
        let expected = Activity { context_switches: Some(7), forks: Some(8), running: Some(3), blocked: None };
        assert_eq!(activity, expected);
        let first = |text: &str| per_cpu(text, |_, _| {}).left_out.first.unwrap().line;
        assert_eq!((first("cpu0 1\ncpux 1\n"), first("ctxt many\n")), (2, 1));
        let read = per_cpu("cpu0 1\nctxt 7\nprocesses -2049041839\nprocs_running 3\n", |_, _| {});
        assert_eq!((read.value.forks, read.value.running, read.left_out.count), (None, Some(3), 1));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(cpu |cpu[0-9]|btime |ctxt |\\PC)*") {
            let _ = (parse(&text), per_cpu(&text, |_, _| {}));
        }
    }
}
