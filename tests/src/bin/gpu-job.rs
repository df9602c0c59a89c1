//! A training job in small: a loader thread reads and decodes batches into a queue, the main thread trains on them.
//!
//! Reading and decoding are real (direct I/O on a real file, CPU spent), so that a limit on the process's cgroup slows
//! them down. Training is a wait during which the fake GPU is told it works. Ends when its standard input closes.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use goodput_tests::gpu::FakeNode;

/// Direct I/O wants memory, offsets and lengths aligned to the logical block; a page is enough everywhere.
const ALIGN: usize = 4096;

struct Job {
    events: PathBuf,
    gpu: usize,
    data: PathBuf,
    batch_bytes: usize,
    decode: Duration,
    train: Duration,
}

fn main() -> Result<()> {
    let job = Job::from_args(std::env::args().skip(1))?;
    let node = FakeNode::open(&job.events)?;
    node.process(job.gpu, std::process::id(), 40 << 30)?;

    // Two batches ahead, as PyTorch's DataLoader with one worker keeps.
    let (batches, ready) = sync_channel(2);
    let (data, bytes, decode) = (job.data.clone(), job.batch_bytes, job.decode);
    thread::spawn(move || load(&data, bytes, decode, &batches));
    let (gpu, train) = (job.gpu, job.train);
    thread::spawn(move || train_on(&ready, &node, gpu, train));

    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

impl Job {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut next = |what: &'static str| args.next().with_context(|| format!("missing argument: {what}"));
        Ok(Self {
            events: next("event log")?.into(),
            gpu: next("gpu index")?.parse()?,
            data: next("data file")?.into(),
            batch_bytes: next("bytes per batch")?.parse()?,
            decode: Duration::from_millis(next("milliseconds of CPU per batch")?.parse()?),
            train: Duration::from_millis(next("milliseconds of GPU per batch")?.parse()?),
        })
    }
}

/// Reads the file round and round and spends CPU on each batch.
fn load(data: &Path, bytes: usize, decode: Duration, batches: &SyncSender<()>) -> Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(data)?;
    let size = file.metadata()?.len();
    let mut memory = vec![0_u8; bytes + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let batch = &mut memory[start..start + bytes];
    let mut offset = 0;
    loop {
        read_batch(&file, batch, offset)?;
        offset = if offset + 2 * bytes as u64 > size { 0 } else { offset + bytes as u64 };
        spend_cpu(decode);
        if batches.send(()).is_err() {
            return Ok(());
        }
    }
}

fn read_batch(file: &File, batch: &mut [u8], offset: u64) -> Result<()> {
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
fn spend_cpu(time: Duration) {
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

/// Takes batch after batch; each keeps the GPU busy for `train`.
fn train_on(ready: &Receiver<()>, node: &FakeNode, gpu: usize, train: Duration) -> Result<()> {
    while ready.recv().is_ok() {
        let until = Instant::now() + train;
        node.busy(gpu, SystemTime::now(), train, Some(std::process::id()))?;
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
