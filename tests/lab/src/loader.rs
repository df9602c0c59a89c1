//! What a training job's loader does to a real kernel: reads past or through the page cache, and CPU time spent.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Direct I/O wants memory, offsets and lengths aligned to the logical block; a page is enough everywhere.
pub const ALIGN: usize = 4096;

/// Memory that direct I/O takes.
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    /// This many bytes, all zero.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self { memory, start, bytes }
    }

    /// The bytes.
    pub fn get(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// Opens a file for reads past the page cache.
pub fn open_direct(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    file.with_context(|| format!("{}: expected a file system with direct I/O", path.display()))
}

/// Writes a file past the page cache, so that the first process to read it is charged for its pages. `bytes` are whole
/// MiB.
pub fn write_direct(path: &Path, bytes: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).custom_flags(libc::O_DIRECT).open(path);
    let mut file = file.with_context(|| format!("{}: expected a file system with direct I/O", path.display()))?;
    let mut block = Aligned::new(1 << 20);
    for n in 0..bytes >> 20 {
        block.get().fill(1 + (n % 255) as u8);
        file.write_all(block.get()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(file.sync_all()?)
}

/// Fills `batch` from the file, from `offset` on.
pub fn read_batch(file: &File, batch: &mut [u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < batch.len() {
        match file.read_at(&mut batch[done..], offset + done as u64)? {
            0 => bail!("the data file is shorter than one batch"),
            n => done += n,
        }
    }
    Ok(())
}

/// Spends this much CPU time, however long a quota or a neighbour makes that take.
pub fn spend_cpu(time: Duration) {
    let start = thread_cpu_time();
    let mut x = 0_u64;
    while thread_cpu_time() - start < time {
        for i in 0..10_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
        }
    }
}

#[allow(unsafe_code, reason = "the standard library has no thread CPU clock")]
fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
