//! Where batches come from and saves go to: network file systems, and a disk with a limit on it. How long a batch waits is
//! said by the phase.

use serde::Deserialize;

/// What storage is like for some minutes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// What a batch waits for.
    pub waits: Waits,
    /// Reads of `/home` a second, of a millisecond each.
    pub home: f64,
    /// Reads of `/archive` a second, of eight milliseconds each; there is no such mount where it is 0.
    pub archive: f64,
    /// Share of the reads of a batch that are of `/scratch`, and take as long as those of `/data`; there is no such mount where
    /// it is 0.
    pub scratch: f64,
    /// Seconds of every minute in which the server of `/data` answers nothing.
    pub silent: f64,
    /// Do saves go to `/ckpt`, which no disk of the node sees?
    pub saves: bool,
    /// Bytes a second that others write to `/ckpt`.
    pub others_saving: f64,
    /// Does goodput-exporter tell how many reads the disk does, and how long they take?
    pub tells_disk: bool,
    /// The most that the job may read from the disk, in bytes a second.
    pub limit: Option<f64>,
    /// How many times as long the first of the eight storage targets of the Lustre file system takes for a request as each of
    /// the others.
    pub slow_target: f64,
    /// How many times as many requests it gets as each of the others.
    pub busy_target: f64,
    /// Where the job has GPUDirect Storage open: reads that go this way, a second.
    pub direct: Option<f64>,
}

/// What a batch waits for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// The node's disk.
    #[default]
    Disk,
    /// Reads of `/data`.
    Reads,
    /// Reads of the Lustre file system `scratch`, whose files are striped over its storage targets.
    Lustre,
    /// Lookups in `/data`, which the kernel does not count as waiting for I/O.
    Lookups,
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            waits: Waits::Disk,
            home: 100.0,
            archive: 0.0,
            scratch: 0.0,
            silent: 0.0,
            saves: false,
            others_saving: 0.0,
            tells_disk: false,
            limit: None,
            slow_target: 1.0,
            busy_target: 1.0,
            direct: None,
        }
    }
}

impl Storage {
    /// Does the server of `/data` answer nothing, this long after the start?
    #[must_use]
    pub fn is_silent(&self, seconds: f64) -> bool {
        matches!(self.waits, Waits::Reads | Waits::Lookups) && seconds % 60.0 < self.silent
    }
}

/// Requests of a batch, of the kind that it waits for; of the other kind a tenth as many.
const REQUESTS: f64 = 100.0;
/// Seconds of a read of `/home`, and of a request that no batch waits for.
const QUICK: f64 = 0.001;
/// Bytes of a read of `/home`.
const SMALL: f64 = 4096.0;
/// Seconds of a read of `/archive`.
const LONG: f64 = 0.008;
/// Bytes of a read of `/archive`.
const LARGE: f64 = 1e6;
/// `timeo` of the mounts, in seconds: a request is sent again once it has waited so long, then after twice and three times as
/// long (nfs(5): over TCP each time-out is longer than the last by `timeo`).
pub const TIMEOUT: f64 = 10.0;
/// When a request that waits is sent again, in seconds of its waiting.
const AGAIN: [f64; 3] = [TIMEOUT, 3.0 * TIMEOUT, 6.0 * TIMEOUT];

/// Storage targets of the Lustre file system.
pub const TARGETS: usize = 8;

/// Requests to a mount or a disk since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Requests.
    pub count: f64,
    /// Seconds that they took.
    pub time: f64,
    /// Bytes read.
    pub read: f64,
    /// How many were sent again.
    pub again: f64,
}

impl Asked {
    fn take(&mut self, count: f64, bytes: f64) {
        self.count += count;
        self.read += bytes;
    }

    /// Requests of others that all take the same.
    fn others(&mut self, count: f64, seconds: f64, bytes: f64) {
        self.take(count, count * bytes);
        self.time += count * seconds;
    }
}

/// What is counted of the mounts and of the disk since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mounted {
    /// Reads of `/data`.
    pub data: Asked,
    /// Lookups in it.
    pub lookups: Asked,
    /// Reads of `/home`.
    pub home: Asked,
    /// Reads of `/archive`.
    pub archive: Asked,
    /// Reads of `/scratch`.
    pub scratch: Asked,
    /// Reads of the Lustre file system.
    pub lustre: Asked,
    /// Requests to its storage targets.
    pub targets: [Asked; TARGETS],
    /// Reads from storage to the memory of GPUs.
    pub direct: f64,
    /// Reads of the disk.
    pub disk: Asked,
    /// Bytes that the job wrote to `/ckpt`.
    pub saved: f64,
    /// Bytes that others wrote to it.
    pub others_saved: f64,
    /// Tasks that wait for a request at this moment.
    pub asleep: usize,
    /// What has no answer yet, which the kernel counts when it has.
    held: Asked,
    /// For how long the server has answered nothing, in seconds.
    silence: f64,
}

impl Mounted {
    /// Bytes that the job read from mounts.
    #[must_use]
    pub fn read(&self) -> f64 {
        self.data.read + self.scratch.read + self.lustre.read
    }

    /// A batch has arrived.
    pub fn batch(&mut self, storage: &Storage, bytes: f64) {
        let few = REQUESTS / 10.0;
        match storage.waits {
            Waits::Disk => self.disk.take(REQUESTS, bytes),
            Waits::Reads => {
                self.data.take(REQUESTS * (1.0 - storage.scratch), bytes * (1.0 - storage.scratch));
                self.scratch.take(REQUESTS * storage.scratch, bytes * storage.scratch);
                self.lookups.others(few, QUICK, 0.0);
            }
            Waits::Lustre => {
                self.lustre.take(REQUESTS, bytes);
                for (target, share) in self.targets.iter_mut().zip(shares(storage.busy_target)) {
                    target.take(REQUESTS * share, bytes * share);
                }
            }
            Waits::Lookups => {
                self.lookups.take(REQUESTS, 0.0);
                self.data.others(few, QUICK, bytes / few);
            }
        }
    }

    /// Some seconds later; this number of tasks waited meanwhile for what batches wait for.
    pub fn pass(&mut self, storage: &Storage, is_silent: bool, waiting: usize, seconds: f64) {
        let waited = waiting as f64 * seconds;
        if is_silent {
            self.hold(waiting, seconds);
        } else {
            self.answer(storage.waits);
            match storage.waits {
                Waits::Disk => self.disk.time += waited,
                Waits::Reads => {
                    self.data.time += waited * (1.0 - storage.scratch);
                    self.scratch.time += waited * storage.scratch;
                }
                Waits::Lustre => {
                    self.lustre.time += waited;
                    let shares = shares(storage.busy_target * storage.slow_target);
                    self.targets.iter_mut().zip(shares).for_each(|(target, share)| target.time += waited * share);
                }
                Waits::Lookups => self.lookups.time += waited,
            }
        }
        self.asleep = if storage.waits == Waits::Disk { 0 } else { waiting };
        self.home.others(storage.home * seconds, QUICK, SMALL);
        self.archive.others(storage.archive * seconds, LONG, LARGE);
        self.direct += storage.direct.unwrap_or(0.0) * seconds;
        self.others_saved += storage.others_saving * seconds;
    }

    fn hold(&mut self, waiting: usize, seconds: f64) {
        let before = self.silence;
        self.silence += seconds;
        self.held.time += waiting as f64 * seconds;
        if AGAIN.iter().any(|at| before < *at && *at <= self.silence) {
            self.held.again += waiting as f64;
        }
    }

    fn answer(&mut self, waits: Waits) {
        let asked = if waits == Waits::Lookups { &mut self.lookups } else { &mut self.data };
        asked.time += self.held.time;
        asked.again += self.held.again;
        (self.held, self.silence) = (Asked::default(), 0.0);
    }
}

/// Shares of the storage targets, where the first has this many times as much as each of the others.
fn shares(first: f64) -> [f64; TARGETS] {
    let whole = first + (TARGETS - 1) as f64;
    std::array::from_fn(|n| if n == 0 { first } else { 1.0 } / whole)
}
