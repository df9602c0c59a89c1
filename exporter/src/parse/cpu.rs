//! `/proc/schedstat`, `/proc/loadavg` and the clock in `/proc/cpuinfo`.

use super::{ParseError, Parsed, each_line, trim};

/// Calls `each` with every CPU and the nanoseconds for which tasks were ready to run on it and waited
/// (scheduler/sched-stats.rst, field 8; the same in every version since 15).
pub fn run_delays(text: &str, mut each: impl FnMut(u32, u64)) -> Parsed<()> {
    each_line(text, |number, line| {
        // The domains between the CPUs are most of the file.
        let Some(rest) = line.strip_prefix("cpu") else { return Ok(()) };
        let mut words = rest.split_ascii_whitespace();
        let cpu = words.next().and_then(|cpu| cpu.parse().ok());
        let delay = words.nth(7).and_then(|delay| delay.parse().ok());
        let Some((cpu, delay)) = cpu.zip(delay) else {
            return Err(ParseError::new(number, "a CPU and at least 8 unsigned numbers", line));
        };
        each(cpu, delay);
        Ok(())
    })
}

/// Load averages over 1, 5 and 15 minutes.
pub fn loads(text: &str) -> Result<[f64; 3], ParseError> {
    let error = || ParseError::new(1, "three load averages", trim(text));
    let mut words = trim(text).split_ascii_whitespace();
    let mut loads = [0.0; 3];
    for load in &mut loads {
        *load = words.next().and_then(|word| word.parse().ok()).filter(|n: &f64| n.is_finite()).ok_or_else(error)?;
    }
    Ok(loads)
}

/// Calls `each` with every CPU and its clock in hertz; architectures other than x86 do not print it.
pub fn clocks(text: &str, mut each: impl FnMut(u32, f64)) -> Parsed<()> {
    let mut cpu = None;
    each_line(text, |number, line| {
        let Some((key, value)) = line.split_once(':') else { return Ok(()) };
        let error = |expected| ParseError::new(number, expected, line);
        match key.trim_end() {
            "processor" => {
                // The lines after a CPU without a number belong to no CPU.
                cpu = None;
                cpu = Some(value.trim().parse().map_err(|_| error("the number of a CPU"))?);
            }
            "cpu MHz" => {
                let megahertz: f64 = value.trim().parse().map_err(|_| error("megahertz"))?;
                if let Some(cpu) = cpu.filter(|_| megahertz.is_finite()) {
                    each(cpu, megahertz * 1e6);
                }
            }
            _ => {}
        }
        Ok(())
    })
}

/// CPU numbers behind each other, as in `affected_cpus`.
pub fn numbers(text: &str) -> Result<Vec<u32>, ParseError> {
    let cpus: Option<Vec<u32>> = trim(text).split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    cpus.ok_or_else(|| ParseError::new(1, "the numbers of CPUs", trim(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_by_cpu() {
        let text = "version 15\ntimestamp 1\ncpu0 1 0 3 4 5 6 7 800 9\ndomain0 3 1 2\ncpu3 1 0 3 4 5 6 7 80 9\n";
        let mut all = Vec::new();
        run_delays(text, |cpu, delay| all.push((cpu, delay)));
        assert_eq!(all, [(0, 800), (3, 80)]);
        assert_eq!(run_delays("version 15\ncpu0 1 2 3\n", |_, _| {}).left_out.first.unwrap().line, 2);
    }

    #[test]
    fn load_averages() {
        assert_eq!(loads("0.21 0.37 0.39 1/719 19737\n"), Ok([0.21, 0.37, 0.39]));
        assert!(loads("0.21 0.37\n").is_err() && loads("a b c").is_err());
    }

    #[test]
    fn clocks_by_cpu() {
        let text = "processor\t: 0\ncpu MHz\t\t: 800.5\n\nprocessor\t: 7\nflags\t\t: a:b\ncpu MHz\t\t: 3500\n";
        let mut all = Vec::new();
        clocks(text, |cpu, hertz| all.push((cpu, hertz)));
        assert_eq!(all, [(0, 800_500_000.0), (7, 3_500_000_000.0)]);
        assert_eq!(clocks("processor : 0\ncpu MHz : fast\n", |_, _| {}).left_out.first.unwrap().line, 2);
        assert_eq!(numbers("0 72\n"), Ok(vec![0, 72]));
        assert!(numbers("0-3\n").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(cpu[0-9]|processor:|cpu MHz:|[0-9.]{1,21}| |\n|\\PC)*") {
            let _ = (run_delays(&text, |_, _| {}), clocks(&text, |_, _| {}), loads(&text), numbers(&text));
        }
    }
}
