//! The driver's lists of processes: which of its calls is made, and how long a record is that it writes.
//!
//! | call | bytes a record | drivers |
//! |---|---|---|
//! | `_v3` | 24 | from 510 on, without 535.43 to 535.98 |
//! | `_v3` | 32 | 535.43 to 535.86 |
//! | `_v2` | 24 | from 470 on |
//! | without a number | 16, without the instance | all |
//!
//! The table of functions gives the first of them one type, so the buffer is a row of bytes with room for the longest record
//! in every place, whichever is written.

use super::super::Process;
use super::*;

/// Processes asked for at first; more are asked for when the driver says that there are more.
const ROOM: usize = 64;

/// Most processes that are asked for. More is no answer: each has a context of some hundred MiB on the GPU.
const MOST: usize = 65_536;

/// How often a list is asked for that has grown in the meantime.
const TURNS: usize = 8;

/// The longest record that any driver writes, in bytes and in 8 of them.
const LONGEST: usize = 32;
const LONGEST_WORDS: usize = LONGEST / size_of::<u64>();

/// Drivers whose `_v3` calls write records of 32 bytes, from the first on, before the second.
const LONG_RECORDS: std::ops::Range<(u32, u32)> = (535, 43)..(535, 98);

/// More bytes than a GPU has are no answer.
const MOST_BYTES: u64 = 1 << 48;

/// Which of the driver's process lists.
#[derive(Clone, Copy)]
pub(in super::super) enum Contexts {
    Compute,
    Graphics,
    Mps,
}

/// How the loaded driver lists processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Layout {
    /// Does the `_v3` call write long records?
    long: bool,
}

impl Layout {
    /// By the driver's major and minor number.
    pub(in super::super) fn of(driver: (u32, u32)) -> Self {
        Self { long: LONG_RECORDS.contains(&driver) }
    }
}

/// A call that fills a buffer with records, and how it does.
struct List {
    call: unsafe extern "C" fn(sys::nvmlDevice_t, *mut u32, *mut sys::nvmlProcessInfo_t) -> sys::nvmlReturn_t,
    /// Bytes a record.
    stride: usize,
}

/// The first of the driver's calls that it has. Where the newest writes long records, the one before is taken.
fn list(device: &Device<'_>, contexts: Contexts, layout: Layout) -> Reading<List> {
    let lib = device.nvml().lib();
    let (third, second) = match contexts {
        Contexts::Compute => {
            (&lib.nvmlDeviceGetComputeRunningProcesses_v3, &lib.nvmlDeviceGetComputeRunningProcesses_v2)
        }
        Contexts::Graphics => {
            (&lib.nvmlDeviceGetGraphicsRunningProcesses_v3, &lib.nvmlDeviceGetGraphicsRunningProcesses_v2)
        }
        Contexts::Mps => {
            (&lib.nvmlDeviceGetMPSComputeRunningProcesses_v3, &lib.nvmlDeviceGetMPSComputeRunningProcesses_v2)
        }
    };
    let third = symbol(third).map(|call| List { call, stride: if layout.long { LONGEST } else { 24 } });
    let second = symbol(second).map(|call| List { call, stride: 24 });
    let newest = if layout.long { second.or(third) } else { third.or(second) };
    newest.or_else(|_| first(lib, contexts))
}

/// The call of the oldest drivers.
fn first(lib: &sys::NvmlLib, contexts: Contexts) -> Reading<List> {
    let call = symbol(match contexts {
        Contexts::Compute => &lib.nvmlDeviceGetComputeRunningProcesses,
        Contexts::Graphics => &lib.nvmlDeviceGetGraphicsRunningProcesses,
        Contexts::Mps => &lib.nvmlDeviceGetMPSComputeRunningProcesses,
    })?;
    // SAFETY: the types differ in the record that the pointer is to; the buffer has room for the longer one, and is read
    // with the stride of the one that is written.
    let call = unsafe {
        std::mem::transmute::<
            unsafe extern "C" fn(sys::nvmlDevice_t, *mut u32, *mut sys::nvmlProcessInfo_v1_t) -> sys::nvmlReturn_t,
            unsafe extern "C" fn(sys::nvmlDevice_t, *mut u32, *mut sys::nvmlProcessInfo_t) -> sys::nvmlReturn_t,
        >(call)
    };
    Ok(List { call, stride: 16 })
}

/// The processes of one list.
pub(in super::super) fn processes(device: &Device<'_>, contexts: Contexts, layout: Layout) -> Reading<Vec<Process>> {
    let List { call, stride } = list(device, contexts, layout)?;
    let mut room = ROOM;
    for _ in 0..TURNS {
        // One record more than the call tells the driver.
        let mut buffer = vec![[0u64; LONGEST_WORDS]; room + 1];
        let told = u32::try_from(room).map_err(|_| Absent::UNKNOWN)?;
        let mut count = told;
        // SAFETY: `buffer` has room for `count` of the longest records that any driver writes, aligned as they are.
        let code = unsafe { call(handle(device), &raw mut count, buffer.as_mut_ptr().cast()) };
        let count = count as usize;
        if code == sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE && count > room && count <= MOST {
            room = count + ROOM;
            continue;
        }
        Absent::check(code)?;
        let words: Vec<u64> = buffer.into_iter().flatten().collect();
        let records = words.chunks_exact(stride / size_of::<u64>()).take(count.min(room));
        return Ok(records.map(process).collect());
    }
    Err(Absent::UNKNOWN)
}

/// A record of process id, memory and, where it has them, instances. All ones, `NVML_VALUE_NOT_AVAILABLE`, stand for no
/// answer, and of an instance for none.
fn process(record: &[u64]) -> Process {
    let half = |word: u64, at: usize| {
        let bytes = word.to_ne_bytes();
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let word = |at: usize| record.get(at).copied();
    Process {
        pid: half(word(0).unwrap_or(0), 0),
        used_bytes: word(1).filter(|bytes| *bytes <= MOST_BYTES),
        instance: word(2).map(|instances| half(instances, 0)).filter(|id| *id != u32::MAX),
        ..Process::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_are_those_of_some_drivers() {
        for (driver, long) in [
            ((535, 42), false),
            ((535, 43), true),
            ((535, 54), true),
            ((535, 86), true),
            ((535, 98), false),
            ((535, 104), false),
            ((530, 60), false),
            ((580, 95), false),
        ] {
            assert_eq!(Layout::of(driver), Layout { long }, "{driver:?}");
        }
    }

    #[test]
    fn records_of_every_length() {
        let pid = u64::from_ne_bytes([1, 2, 0, 0, 9, 9, 9, 9]);
        let instances = u64::from_ne_bytes([7, 0, 0, 0, 1, 0, 0, 0]);
        let expected =
            |used_bytes, instance| Process { pid: u32::from_ne_bytes([1, 2, 0, 0]), used_bytes, instance, mps: false };
        assert_eq!(process(&[pid, 5]), expected(Some(5), None));
        assert_eq!(process(&[pid, 5, instances]), expected(Some(5), Some(7)));
        assert_eq!(process(&[pid, u64::MAX, u64::MAX, u64::MAX]), expected(None, None));
        assert_eq!(process(&[pid, 1 << 60, instances]), expected(None, Some(7)));
    }
}
