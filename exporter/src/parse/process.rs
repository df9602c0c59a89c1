//! Files of `/proc/PID` that are one line of numbers (proc_pid_stat(5), scheduler/sched-stats.rst).

use super::{ParseError, trim};

/// The parts of `/proc/PID/stat` that are kept. All but the state count every thread, ended ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What the first thread does: `R`, `S`, `D`, `Z` and so on.
    pub state: char,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that had to wait for storage.
    pub major_faults: u64,
    /// CPU time in user mode, in ticks of [`super::stat::TICKS_PER_SECOND`].
    pub user_ticks: u64,
    /// CPU time in the kernel, in the same ticks.
    pub system_ticks: u64,
    /// Threads alive.
    pub threads: u64,
    /// When the process began, in the same ticks since boot.
    pub start_ticks: u64,
}

/// Parses `/proc/PID/stat`. The name in parentheses may hold spaces, parentheses and line breaks, so the fields are
/// counted from the last parenthesis.
pub fn stat(text: &str) -> Result<Stat, ParseError> {
    fields(text).ok_or_else(|| ParseError::new(1, "a name in parentheses, a state and at least 19 numbers", trim(text)))
}

fn fields(text: &str) -> Option<Stat> {
    let (_, behind) = text.rsplit_once(')')?;
    let words: Vec<&str> = behind.split_ascii_whitespace().take(20).collect();
    // Field N of the manual page is word N - 3: two stand before the parenthesis's end, and words count from 0.
    let number = |field: usize| words.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: words.first()?.chars().next()?,
        minor_faults: number(10)?,
        major_faults: number(12)?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        threads: number(20)?,
        start_ticks: number(22)?,
    })
}

/// The parts of `/proc/PID/task/TID/stat` that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's own CPU time in user mode and in the kernel, in ticks.
    pub ticks: u64,
    /// When the thread began, in ticks since boot.
    pub start_ticks: u64,
    /// The CPU that it runs on, or ran on last.
    pub cpu: u32,
}

/// Parses the `stat` of a thread.
pub fn thread(text: &str) -> Result<Thread, ParseError> {
    let parse = || {
        let (_, behind) = text.rsplit_once(')')?;
        let words: Vec<&str> = behind.split_ascii_whitespace().take(37).collect();
        let number = |field: usize| words.get(field - 3)?.parse::<u64>().ok();
        let ticks = number(14)?.saturating_add(number(15)?);
        Some(Thread { ticks, start_ticks: number(22)?, cpu: number(39)?.try_into().ok()? })
    };
    parse().ok_or_else(|| ParseError::new(1, "a name in parentheses, a state and at least 36 numbers", trim(text)))
}

/// Nanoseconds that the thread of a `schedstat` file was runnable and waited for a CPU. `None` when the kernel does not
/// count: it then prints three zeros, which no thread that has ever run has.
pub fn run_delay(text: &str) -> Result<Option<u64>, ParseError> {
    let numbers: Option<Vec<u64>> = trim(text).split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some([0, 0, 0]) => Ok(None),
        Some([_, delay, _]) => Ok(Some(*delay)),
        _ => Err(ParseError::new(1, "three unsigned numbers", trim(text))),
    }
}

/// The process ids of a `children` file.
pub fn pids(text: &str) -> Result<Vec<u32>, ParseError> {
    let pids: Option<Vec<u32>> = trim(text).split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    pids.ok_or_else(|| ParseError::new(1, "process ids", trim(text)))
}

/// Seconds since boot, the first number of `/proc/uptime`.
pub fn uptime(text: &str) -> Result<f64, ParseError> {
    let first = trim(text).split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let seconds = first.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| ParseError::new(1, "seconds since boot", trim(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let text = "7 (a) S 1 (b\n) D 2 7 7 0 -1 4194304 10 11 12 13 14 15 16 17 20 0 5 0 900 1 1";
        let expected = Stat {
            state: 'D',
            minor_faults: 10,
            major_faults: 12,
            user_ticks: 14,
            system_ticks: 15,
            threads: 5,
            start_ticks: 900,
        };
        assert_eq!(stat(text), Ok(expected));
        assert_eq!(stat("7 (a) S 1 2\n").unwrap_err().found, "7 (a) S 1 2");
    }

    #[test]
    fn where_a_thread_ran() {
        let text =
            "9 (a) b) S 1 7 7 0 -1 4194304 10 0 12 0 14 15 0 0 20 0 5 0 900 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 71 0 0";
        assert_eq!(thread(text), Ok(Thread { ticks: 29, start_ticks: 900, cpu: 71 }));
        let (short, _) = text.split_once(" 71").unwrap();
        assert_eq!(thread(short).unwrap_err().line, 1);
    }

    #[test]
    fn waiting_for_a_cpu() {
        assert_eq!(run_delay("100 25 3\n"), Ok(Some(25)));
        assert_eq!(run_delay("100 0 3\n"), Ok(Some(0)), "counted, and never waited");
        assert_eq!(run_delay("0 0 0\n"), Ok(None), "not counted");
        assert!(run_delay("100 25\n").is_err());
    }

    #[test]
    fn lists_and_uptime() {
        assert_eq!(pids("12 13 \n"), Ok(vec![12, 13]));
        assert_eq!(pids(""), Ok(vec![]));
        assert!(pids("12 x").is_err());
        assert_eq!(uptime("350735.47 234388.90\n"), Ok(350_735.47));
        assert!(uptime("inf 1").is_err() && uptime("").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\(|\\)|[0-9]{1,21}| |\n|\\PC)*") {
            let _ = (stat(&text), thread(&text), run_delay(&text), pids(&text), uptime(&text));
        }
    }
}
