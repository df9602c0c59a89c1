//! `/proc/PID/status` (proc_pid_status(5)).

use super::{ParseError, Parsed, cpus, each_line, lines};

/// The CPUs that the process's first thread may run on, as ranges: its affinity within its cpuset. `None` when the
/// kernel does not say.
pub fn cpus_allowed(text: &str) -> Result<Option<Vec<(u32, u32)>>, ParseError> {
    allowed(text, "Cpus_allowed_list:")
}

/// The NUMA nodes whose memory the process's first thread may use. `None` when the kernel does not say.
pub fn mems_allowed(text: &str) -> Result<Option<Vec<(u32, u32)>>, ParseError> {
    allowed(text, "Mems_allowed_list:")
}

fn allowed(text: &str, key: &str) -> Result<Option<Vec<(u32, u32)>>, ParseError> {
    let mut fields = lines(text).filter_map(|(number, line)| Some((number, line.strip_prefix(key)?)));
    let ranges = fields.next().map(|(number, list)| cpus::ranges(list).map_err(|e| ParseError { line: number, ..e }));
    ranges.transpose()
}

/// Bytes of the process that are swapped out. `None` when the kernel does not say, as of a process without memory.
pub fn swapped(text: &str) -> Result<Option<u64>, ParseError> {
    let mut fields = lines(text).filter_map(|(number, line)| Some((number, line, line.strip_prefix("VmSwap:")?)));
    let Some((number, line, value)) = fields.next() else { return Ok(None) };
    let bytes = value.trim().strip_suffix(" kB").and_then(|n| n.parse::<u64>().ok()).and_then(|n| n.checked_mul(1024));
    bytes.map(Some).ok_or_else(|| ParseError::new(number, "a size in kB", line))
}

/// The process's id in the innermost of its pid namespaces, which is what it sees itself. `None` when the kernel does not say.
pub fn innermost_pid(text: &str) -> Result<Option<u32>, ParseError> {
    let mut fields = lines(text).filter_map(|(number, line)| Some((number, line, line.strip_prefix("NSpid:")?)));
    let Some((number, line, pids)) = fields.next() else { return Ok(None) };
    let pid = pids.split_whitespace().next_back().and_then(|pid| pid.parse().ok());
    pid.map(Some).ok_or_else(|| ParseError::new(number, "process ids", line))
}

/// The process's effective user, the second of the four that the kernel tells. `None` when it does not say.
pub fn effective_user(text: &str) -> Result<Option<u32>, ParseError> {
    let mut fields = lines(text).filter_map(|(number, line)| Some((number, line, line.strip_prefix("Uid:")?)));
    let Some((number, line, users)) = fields.next() else { return Ok(None) };
    let user = users.split_whitespace().nth(1).and_then(|user| user.parse().ok());
    user.map(Some).ok_or_else(|| ParseError::new(number, "four user ids", line))
}

/// Times that the process's first thread left its CPU because it had to wait, and because another was to run. `None`
/// when the kernel does not say.
pub fn context_switches(text: &str) -> Parsed<[Option<u64>; 2]> {
    let mut counts = [None; 2];
    let parsed = each_line(text, |number, line| {
        for (key, count) in ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].iter().zip(&mut counts) {
            if let Some(value) = line.strip_prefix(key) {
                *count = Some(value.trim().parse().map_err(|_| ParseError::new(number, "an unsigned number", line))?);
            }
        }
        Ok(())
    });
    parsed.map(|()| counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn affinity() {
        let text = "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0\n";
        assert_eq!(cpus_allowed(text), Ok(Some(vec![(0, 3), (8, 8)])));
        assert_eq!(mems_allowed(text), Ok(Some(vec![(0, 0)])));
        assert_eq!(cpus_allowed("Name:\tpython\n"), Ok(None));
        assert_eq!(cpus_allowed("Name: x\nCpus_allowed_list:\tall\n").unwrap_err().line, 2);
    }

    #[test]
    fn swapped_memory() {
        assert_eq!(swapped("Name:\tpython\nVmSwap:\t     12 kB\n"), Ok(Some(12 << 10)));
        assert_eq!(swapped("Name:\tkthreadd\n"), Ok(None));
        assert_eq!(swapped("Name:\tpython\nVmSwap:\tmuch\n").unwrap_err().line, 2);
    }

    #[test]
    fn process_ids_of_namespaces() {
        assert_eq!(innermost_pid("Name:\tpython\nNSpid:\t4711\t12\t1\n"), Ok(Some(1)));
        assert_eq!(innermost_pid("NSpid:\t4711\n"), Ok(Some(4711)));
        assert_eq!(innermost_pid("Name:\tpython\n"), Ok(None));
        assert_eq!(innermost_pid("Name:\tpython\nNSpid:\t4711 x\n").unwrap_err().line, 2);
    }

    #[test]
    fn effective_users() {
        assert_eq!(effective_user("Name:\tpython\nUid:\t1000\t1001\t1000\t1000\n"), Ok(Some(1001)));
        assert_eq!(effective_user("Name:\tpython\n"), Ok(None));
        assert_eq!(effective_user("Name:\tpython\nUid:\t1000\n").unwrap_err().line, 2);
    }

    #[test]
    fn switches_of_both_kinds() {
        let text = "Name:\tpython\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(context_switches(text).value, [Some(150), Some(545)]);
        assert_eq!(context_switches("Name:\tpython\n").value, [None; 2]);
        let bad = context_switches("voluntary_ctxt_switches:\tmany\nnonvoluntary_ctxt_switches:\t545\n");
        assert_eq!((bad.value, bad.left_out.first.unwrap().line), ([None, Some(545)], 1));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(Cpus_allowed_list:|VmSwap:|NSpid:|Uid:|(non)?voluntary_ctxt_switches:| kB|[0-9]{1,11}|-|,|\n|\\PC)*") {
            let _ = (cpus_allowed(&text), mems_allowed(&text), swapped(&text), context_switches(&text));
            let _ = (innermost_pid(&text), effective_user(&text));
        }
    }
}
