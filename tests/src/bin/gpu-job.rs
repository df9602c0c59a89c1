//! A training job in small: a loader thread reads and decodes batches into a queue, the main thread trains on them.
//!
//! Reading and decoding are real (direct I/O on a real file, CPU spent), so that a limit on the process's cgroup slows
//! them down. Training is a wait during which the fake GPU is told it works. Ends when its standard input closes.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use goodput_lab::gpu::FakeNode;
use goodput_lab::loader::{self, Aligned};

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
    let file = loader::open_direct(data)?;
    let size = file.metadata()?.len();
    let mut batch = Aligned::new(bytes);
    let mut offset = 0;
    loop {
        loader::read_batch(&file, batch.get(), offset)?;
        offset = if offset + 2 * bytes as u64 > size { 0 } else { offset + bytes as u64 };
        loader::spend_cpu(decode);
        if batches.send(()).is_err() {
            return Ok(());
        }
    }
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
