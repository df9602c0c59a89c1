//! The live lab's processes (`goodput_lab::live`): a training job that takes orders, and its noisy neighbours.
//! All end when their standard input closes.
//!
//! The job's workers read, decode and queue batches; its trainer takes one after another and keeps the fake GPU busy
//! with each. Reading, decoding and saving are real. What the trainer did, and from when, it writes down itself.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use clap::Parser;
use goodput_lab::gpu::{FakeNode, now_us};
use goodput_lab::live::orders::{Doing, Edge, Order, Regime, Source};
use goodput_lab::loader::{self, ALIGN, Aligned};

/// Batches that are ready at most.
const QUEUE: usize = 4;
/// Most workers that a regime may have.
const WORKERS: usize = 8;
/// How often the trainer looks for orders while it waits for something else.
const LOOK: Duration = Duration::from_millis(100);
const MIB: u64 = 1 << 20;

/// A process of the live lab; ends when its standard input closes.
#[derive(Parser)]
enum Args {
    /// Takes orders, a JSON line each, from standard input
    Train {
        /// The fake GPUs' event log
        gpus: PathBuf,
        /// The GPU to use
        gpu: usize,
        /// The file to read from
        data: PathBuf,
        /// What was done, and from when
        edges: PathBuf,
    },
    /// Computes all the time
    Spin,
    /// Reads the file all the time, past the page cache
    Read {
        /// The file
        data: PathBuf,
    },
}

fn main() -> Result<()> {
    match Args::parse() {
        Args::Train { gpus, gpu, data, edges } => train(&gpus, gpu, &data, &edges),
        Args::Spin => beside_input(|| {
            loop {
                loader::spend_cpu(Duration::from_secs(1));
            }
        }),
        Args::Read { data } => {
            let mut disk = Disk { file: loader::open_direct(&data)?, chance: 7 };
            let bytes = disk.file.metadata()?.len();
            beside_input(move || {
                let mut batch = Aligned::new(MIB as usize);
                while disk.read(batch.get(), MIB as usize, bytes).is_ok() {}
            })
        }
    }
}

/// Works on a thread until standard input closes.
fn beside_input(work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::spawn(work);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// What was ordered last.
#[derive(Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    /// None before the first.
    doing: Option<Order>,
    save: Option<u64>,
}

impl Desk {
    fn look(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The regime in which this worker has work, waiting for one if need be.
    fn regime_of(&self, worker: usize) -> Regime {
        let mut orders = self.look();
        loop {
            match orders.doing {
                Some(Order::Work(regime)) if worker < regime.workers => return regime,
                _ => orders = self.changed.wait(orders).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn train(gpus: &Path, gpu: usize, data: &Path, edges: &Path) -> Result<()> {
    let node = Arc::new(FakeNode::open(gpus)?);
    let desk = Arc::new(Desk::default());
    let (batches, ready) = sync_channel(QUEUE);
    for worker in 0..WORKERS {
        let (desk, data, batches) = (Arc::clone(&desk), data.to_owned(), batches.clone());
        thread::spawn(move || ended("a worker", make_batches(&desk, worker, &data, &batches)));
    }
    let trainer = Trainer {
        desk: Arc::clone(&desk),
        node: Arc::clone(&node),
        gpu,
        data: data.to_owned(),
        edges: OpenOptions::new().create(true).append(true).open(edges)?,
    };
    thread::spawn(move || ended("the trainer", trainer.run(&ready)));
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let order: Order = serde_json::from_str(&line).with_context(|| format!("expected an order, found {line:?}"))?;
        match order {
            Order::Hold { used_bytes } => node.process(gpu, std::process::id(), used_bytes)?,
            Order::Save { bytes } => desk.look().save = Some(bytes),
            Order::Warm => warm(data)?,
            other => desk.look().doing = Some(other),
        }
        desk.changed.notify_all();
    }
    Ok(())
}

/// Reads the file from end to end, through the page cache.
fn warm(data: &Path) -> Result<()> {
    let mut file = File::open(data).with_context(|| format!("cannot read {}", data.display()))?;
    let mut block = vec![0; MIB as usize];
    while file.read(&mut block)? > 0 {}
    Ok(())
}

/// A job that lacks a part of itself must not go on as if it did not.
fn ended(who: &str, how: Result<()>) {
    if let Err(error) = how {
        let _ = writeln!(std::io::stderr(), "{who}: {error:#}");
        std::process::exit(1);
    }
}

/// Reads at offsets by chance.
struct Disk {
    file: File,
    chance: u64,
}

impl Disk {
    /// Fills the batch from the first `data_bytes` of the file, piece by piece.
    fn read(&mut self, batch: &mut [u8], piece_bytes: usize, data_bytes: u64) -> Result<()> {
        for piece in batch.chunks_mut(piece_bytes) {
            let offset = next(&mut self.chance) % (data_bytes / piece_bytes as u64) * piece_bytes as u64;
            loader::read_batch(&self.file, piece, offset)?;
        }
        Ok(())
    }
}

/// The next of a row of numbers that looks like chance (xorshift); never 0.
fn next(chance: &mut u64) -> u64 {
    *chance ^= *chance << 13;
    *chance ^= *chance >> 7;
    *chance ^= *chance << 17;
    *chance
}

fn make_batches(desk: &Desk, worker: usize, data: &Path, batches: &SyncSender<()>) -> Result<()> {
    let seed = worker as u64 + 1;
    let mut direct = Disk { file: loader::open_direct(data)?, chance: seed };
    let mut cached = Disk { file: File::open(data)?, chance: seed };
    let (mut memory, mut batch) = (Vec::new(), Aligned::new(0));
    loop {
        let regime = desk.regime_of(worker);
        if batch.get().len() != regime.batch_bytes {
            batch = Aligned::new(regime.batch_bytes);
        }
        match regime.source {
            Source::Direct => direct.read(batch.get(), regime.piece_bytes, regime.data_bytes)?,
            Source::Cached => cached.read(batch.get(), regime.piece_bytes, regime.data_bytes)?,
            Source::Memory => touch(&mut memory, &regime, &mut direct.chance),
        }
        loader::spend_cpu(Duration::from_millis(regime.decode_ms));
        if batches.send(()).is_err() {
            return Ok(());
        }
    }
}

/// Looks at as many pages as a batch has, by chance, and writes to every second of them.
fn touch(memory: &mut Vec<u8>, regime: &Regime, chance: &mut u64) {
    let pages = regime.data_bytes as usize / ALIGN;
    if memory.len() != pages * ALIGN {
        *memory = vec![1; pages * ALIGN];
    }
    for n in 0..regime.batch_bytes / ALIGN {
        let at = next(chance) as usize % pages * ALIGN;
        let seen = std::hint::black_box(memory[at]);
        if n % 2 == 0 {
            memory[at] = seen.wrapping_add(1);
        }
    }
}

struct Trainer {
    desk: Arc<Desk>,
    node: Arc<FakeNode>,
    gpu: usize,
    data: PathBuf,
    edges: File,
}

impl Trainer {
    fn run(mut self, ready: &Receiver<()>) -> Result<()> {
        let mut doing = None;
        loop {
            let (order, save) = self.orders();
            if let Some(bytes) = save {
                self.begin(&mut doing, Doing::Save)?;
                self.save(bytes)?;
            }
            match order {
                Order::Work(regime) => {
                    self.begin(&mut doing, Doing::Wait)?;
                    match ready.recv_timeout(LOOK) {
                        Ok(()) => self.compute(Duration::from_millis(regime.train_ms))?,
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    }
                }
                Order::Prepare => {
                    self.begin(&mut doing, Doing::Prepare)?;
                    loader::spend_cpu(LOOK / 5);
                    thread::sleep(LOOK - LOOK / 5);
                }
                Order::Rest | Order::Hold { .. } | Order::Save { .. } | Order::Warm => {
                    self.begin(&mut doing, Doing::Rest)?;
                    thread::sleep(LOOK);
                }
            }
        }
    }

    /// What to go on with, waiting for the first order if need be, and what to save before.
    fn orders(&self) -> (Order, Option<u64>) {
        let mut orders = self.desk.look();
        loop {
            match orders.doing {
                Some(order) => return (order, orders.save.take()),
                None => orders = self.desk.changed.wait(orders).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn begin(&mut self, doing: &mut Option<Doing>, now: Doing) -> Result<()> {
        if *doing != Some(now) {
            *doing = Some(now);
            self.note(Edge { at_us: now_us(), doing: now })?;
        }
        Ok(())
    }

    fn note(&mut self, edge: Edge) -> Result<()> {
        Ok(self.edges.write_all(edge.line().as_bytes())?)
    }

    /// The GPU works for so long; that this thread may wake up later is waiting too.
    fn compute(&mut self, time: Duration) -> Result<()> {
        let (from, begun) = (SystemTime::now(), Instant::now());
        let from_us = from.duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as u64;
        self.node.busy(self.gpu, from, time, Some(std::process::id()))?;
        self.note(Edge { at_us: from_us, doing: Doing::Compute })?;
        thread::sleep(time.saturating_sub(begun.elapsed()));
        self.note(Edge { at_us: from_us + time.as_micros() as u64, doing: Doing::Wait })
    }

    /// Writes to a file next to the data, waits until it is on the disk, and removes it.
    fn save(&self, bytes: u64) -> Result<()> {
        let path = self.data.with_extension("checkpoint");
        let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let block = vec![7; MIB as usize];
        for _ in 0..bytes / MIB {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        Ok(std::fs::remove_file(&path)?)
    }
}
