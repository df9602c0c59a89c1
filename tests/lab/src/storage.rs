//! Where batches come from and saves go to: network file systems, and a disk with a limit on it. How long a batch waits is
//! said by the phase.

use serde::Deserialize;

/// What storage is like for some minutes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// What a batch waits for.
    pub waits: Waits,
    /// Reads of `/home` a second, of a millisecond each.
    pub home: f64,
    /// Do saves go to `/ckpt`, which no disk of the node sees?
    pub saves: bool,
    /// The most that the job may read from the disk, in bytes a second.
    pub limit: Option<f64>,
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
    /// Lookups in `/data`, which the kernel does not count as waiting for I/O.
    Lookups,
}

impl Default for Storage {
    fn default() -> Self {
        Storage { waits: Waits::Disk, home: 100.0, saves: false, limit: None }
    }
}

/// Requests of a batch, of the kind that it waits for; of the other kind a tenth as many.
const REQUESTS: f64 = 100.0;
/// Seconds of a read of `/home`, and of a request that no batch waits for.
const QUICK: f64 = 0.001;

/// Requests to a mount since the start, and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Requests.
    pub count: f64,
    /// Seconds.
    pub time: f64,
}

/// What is counted of the mounts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mounted {
    /// Reads of `/data`.
    pub data: Asked,
    /// Lookups in it.
    pub lookups: Asked,
    /// Reads of `/home`.
    pub home: Asked,
    /// Bytes that came from `/data`.
    pub read: f64,
    /// Bytes written to `/ckpt`.
    pub saved: f64,
    /// Tasks that wait for a request at this moment.
    pub asleep: usize,
}

impl Mounted {
    /// A batch has arrived from `/data`.
    pub fn batch(&mut self, waits: Waits, bytes: f64) {
        let (many, few) = match waits {
            Waits::Disk => return,
            Waits::Reads => (&mut self.data, &mut self.lookups),
            Waits::Lookups => (&mut self.lookups, &mut self.data),
        };
        many.count += REQUESTS;
        few.count += REQUESTS / 10.0;
        few.time += REQUESTS / 10.0 * QUICK;
        self.read += bytes;
    }

    /// Some seconds later; this number of tasks waited meanwhile for what batches wait for.
    pub fn pass(&mut self, storage: &Storage, waiting: usize, seconds: f64) {
        match storage.waits {
            Waits::Disk => {}
            Waits::Reads => self.data.time += waiting as f64 * seconds,
            Waits::Lookups => self.lookups.time += waiting as f64 * seconds,
        }
        self.asleep = if storage.waits == Waits::Disk { 0 } else { waiting };
        self.home.count += storage.home * seconds;
        self.home.time += storage.home * seconds * QUICK;
    }
}
