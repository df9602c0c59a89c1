//! The schedule of a simulated job: what it is like for some minutes, and what is the matter with it then.

use serde::Deserialize;

use super::collectives::Inspector;
use super::network::Network;
use super::serving::Server;
use super::storage::Storage;

/// Draw of the simulated H100 in watts: bare, with a context, at work; the first two as recorded of aicr's node.
pub(super) const WATTS: [f64; 3] = [68.0, 115.0, 520.0];
/// Draw while kernels spin until the other ranks are there: 150 to 156 W on recorded 8xH100 nodes.
const SPINNING_WATTS: f64 = 153.0;
/// Power limit of an H100 SXM as it is made, in watts.
pub const STOCK_LIMIT: f64 = 700.0;
/// Lanes of a link that nothing is wrong with.
pub const LANES: u32 = 16;
/// Bytes a second that a lane of PCIe 5 carries in copies: nine tenths of 3.938e9, for the rest is headers.
const LANE_RATE: f64 = 3.54e9;
/// Bytes a second of a copy from pageable memory (NVIDIA's bandwidthTest on PCIe 4: some 6 GB/s pageable, 25 pinned).
const COPY_RATE: f64 = 6e9;

/// Bytes of a batch where the schedule says nothing.
const BATCH_BYTES: f64 = 5e7;

/// Steps from one burst to the next.
const BURST_STEPS: usize = 10;

/// Slices that an H100 can be cut into.
pub(super) const MIG_SLICES: f64 = 7.0;

/// Who prepares batches.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Loader {
    /// Processes of their own, as PyTorch's workers are.
    #[default]
    Processes,
    /// Threads of the process that holds the GPU, as tf.data's and DALI's are.
    Threads,
    /// That process itself, while the GPU has nothing to do: PyTorch's without workers.
    Inline,
}

/// Some minutes of the schedule.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Phase {
    /// How long.
    pub minutes: usize,
    /// Who prepares batches.
    pub loader: Loader,
    /// Do the processes that hold GPUs spin while these work, as CUDA does where there are CPUs enough?
    pub spins: bool,
    /// Loader processes, or threads; 0 is a job that holds the GPU and has nothing for it.
    pub workers: usize,
    /// Seconds that the read of a batch waits for storage.
    pub read: f64,
    /// Seconds that each batch waits for pages of the job that were reclaimed and come back from storage.
    pub refault: f64,
    /// These pages were not among the active ones when they were dropped, so that the kernel counts the wait for them as
    /// I/O alone; the job's group is at its memory limit (tests/traces/live-memory_pressure).
    pub inactive: bool,
    /// Share of the time with a task waiting for such pages in which one is woken for a page, and waits for a CPU until it
    /// runs.
    pub woken: f64,
    /// Seconds that each batch waits until memory has been compacted for it.
    pub compact: f64,
    /// CPUs of the job that do nothing but serve interrupts.
    pub interrupted: usize,
    /// CPUs of others that do the same.
    pub others_interrupted: usize,
    /// Bytes of a batch, which are read, and come to the GPU while that computes on the batch before.
    pub batch_bytes: f64,
    /// Bytes a second that each GPU receives over NVLink, where that is told.
    pub linked: Option<f64>,
    /// CPUs that the process of each GPU keeps busy all the time, as a thread does that polls or computes for itself.
    pub polls: usize,
    /// CPU seconds that the preparation of a batch takes.
    pub prep: f64,
    /// Seconds that the GPU computes on a batch.
    pub compute: f64,
    /// CPU quota, in cores.
    pub quota: Option<f64>,
    /// CPUs in the job's cpuset.
    pub cpus: usize,
    /// Jobs that share the GPUs, all alike in what they ask of the CPUs.
    pub tenants: usize,
    /// Do they share them by MPS?
    pub mps: bool,
    /// Share of the multiprocessors that kernels have work for.
    pub depth: f64,
    /// Of the time in which these have work, the share of the warps that they could have.
    pub occupancy: f64,
    /// Of the same time, the share in which the tensor cores have work.
    pub tensor: f64,
    /// Of the same time, the share in which device memory sends or receives.
    pub dram: f64,
    /// Has Kubernetes been told to give the node no more pods?
    pub cordoned: bool,
    /// Is there a job at all?
    pub job: bool,
    /// The GPU of the job that differs from the others in what follows; the last one by default.
    pub odd: Option<usize>,
    /// The only node that has an odd GPU; each does by default.
    pub odd_on: Option<String>,
    /// Are all GPUs of that node odd?
    pub all_odd: bool,
    /// Is the process of the odd GPU, with its loader, bound to the other NUMA node?
    pub remote: bool,
    /// Does the job hold its odd GPU without ever giving it work?
    pub unused: bool,
    /// Seconds of every minute in which the job writes its state, and its GPUs wait for that.
    pub save: f64,
    /// Bytes that the job writes a second in addition to its work.
    pub writes: f64,
    /// Bytes that others write a second.
    pub others_writing: f64,
    /// Does goodput-exporter also tell how many workers there are, what they write, and when no task ran for want of reads?
    pub tells_processes: bool,
    /// Tasks of others that wait for storage all the time.
    pub others_reading: usize,
    /// Tasks of others that wait for memory all the time.
    pub others_refaulting: usize,
    /// CPUs that others keep busy.
    pub others_computing: usize,
    /// Tasks of others that wait for a CPU all the time, because theirs may run on few.
    pub others_crowded: usize,
    /// Share of the time of CPUs with something to run that the hypervisor gives to others.
    pub steal: f64,
    /// Are the exporters scraped?
    pub scraped: bool,
    /// Seconds that a batch takes to the GPU before it computes.
    pub copy: f64,
    /// Bytes a second of such a copy, as far as the link allows.
    pub copy_rate: f64,
    /// Lanes of the PCIe link of the odd GPU.
    pub lanes: u32,
    /// Bytes a second that come over PCIe while the GPU computes, for batches to come.
    pub overlap: f64,
    /// How far the work of the GPUs differs in depth, as they are on steps that have nothing to do with each other.
    pub mixed: f64,
    /// Threads of the processes that hold GPUs which compute all the time, and not for the GPU.
    pub thinking: usize,
    /// Do the ranks wait for ever once each has done its batch?
    pub hangs: bool,
    /// Do the GPUs of the run wait for each other after every batch?
    pub sync: bool,
    /// Seconds that they then exchange results.
    pub exchange: f64,
    /// The RDMA ports and the interface over which they do so, where exporters have them.
    pub network: Option<Network>,
    /// How NCCL's Inspector records the job's collectives, where it does.
    pub inspector: Option<Inspector>,
    /// Where batches come from and saves go to, where exporters tell of mounts and limits.
    pub storage: Option<Storage>,
    /// Share of the multiprocessors that kernels occupy while they spin until the other ranks are there.
    pub spin_depth: f64,
    /// What the GPU draws meanwhile, in watts.
    pub spin_watts: f64,
    /// How far the share that kernels have work for differs from minute to minute, to both sides.
    pub ripple: f64,
    /// How much more the odd GPU has to compute for each batch, as a share of what the others have.
    pub uneven: f64,
    /// How many times as much more that is in every tenth step.
    pub burst: f64,
    /// Have all GPUs of a node more to compute by turns, each in another step?
    pub turns: bool,
    /// Clock of the odd GPU, as a share of its full one, where heat holds it down.
    pub clock: f64,
    /// What its clock is fixed at, as a share of its full one.
    pub locked: f64,
    /// What a GPU draws at work at its full clock, in watts.
    pub full_watts: f64,
    /// Power limit of the odd GPU, in watts.
    pub power_limit: f64,
    /// Has the driver lost the odd GPU?
    pub lost: bool,
    /// Does the driver want the odd GPU reset?
    pub wants_reset: bool,
    /// The XID of the odd GPU, which came as the phase began; 0 is none.
    pub xid: u32,
    /// Does the machine restart as the phase begins?
    pub boots: bool,
    /// Seconds of every batch in which one thread launches kernels that are over before the next one is there.
    pub launching: f64,
    /// Are the gaps between these kernels so long that engine and utilisation are told without them? On an H200, 10
    /// microseconds are.
    pub gaps: bool,
    /// Requests a second that come in for each GPU of a server, which has no loader.
    pub requests: f64,
    /// Profiles of the MIG instances that the machine's only GPU is cut into; what is said of GPUs is then said of them.
    pub mig: Vec<String>,
    /// Does the server tell of its requests?
    pub tells_requests: bool,
    /// The job is this inference server, on all its GPUs at once; it has no loader, and reports its requests.
    pub server: Option<Server>,
    /// Seconds of every minute in which a job without loader runs a kernel that does next to nothing.
    pub poke: f64,
    /// Share of the device memory that the job takes at the start of the phase; what it took before, by default.
    pub memory: Option<f64>,
    /// What it takes more per hour, as a share of the device memory.
    pub leak: f64,
    /// Share of the node's disk in use at the start of the phase; what it was before, by default.
    pub disk: Option<f64>,
    /// What is used more per hour, as a share of the disk.
    pub fill: f64,
    /// The class that has the most of every minute but the first and the last: scrapes do not fall on the borders.
    pub expect: String,
    /// The class that has the most of what is lost of each of these minutes.
    pub lost_to: Option<String>,
    /// The GPU, as `host/gpuN`, that the time of `straggler` in these minutes is charged to, or the port, as
    /// `host/device/port`, that the time of `network_slow` is charged to; both, with a space between them, where each has a part.
    pub charged_to: Option<String>,
    /// The cause of what these minutes lose.
    pub cause: Option<String>,
    /// The mount or disk that has it, where it is no port.
    pub which: Option<String>,
    /// What is advised in every minute but the first and the last.
    pub advise: Vec<String>,
}

impl Default for Phase {
    fn default() -> Self {
        Phase {
            minutes: 0,
            loader: Loader::default(),
            spins: false,
            workers: 4,
            read: 0.0,
            refault: 0.0,
            inactive: false,
            woken: 0.0,
            compact: 0.0,
            interrupted: 0,
            others_interrupted: 0,
            batch_bytes: BATCH_BYTES,
            linked: None,
            polls: 0,
            prep: 0.05,
            compute: 0.2,
            quota: None,
            cpus: 16,
            tenants: 1,
            mps: false,
            depth: 1.0,
            occupancy: 0.5,
            tensor: 0.4,
            dram: 0.3,
            cordoned: false,
            job: true,
            odd: None,
            odd_on: None,
            all_odd: false,
            remote: false,
            unused: false,
            save: 0.0,
            writes: 0.0,
            others_writing: 0.0,
            tells_processes: false,
            others_reading: 0,
            others_refaulting: 0,
            others_computing: 0,
            others_crowded: 0,
            steal: 0.0,
            scraped: true,
            copy: 0.0,
            copy_rate: COPY_RATE,
            lanes: LANES,
            overlap: 0.0,
            mixed: 0.0,
            thinking: 0,
            hangs: false,
            sync: false,
            exchange: 0.0,
            network: None,
            inspector: None,
            storage: None,
            spin_depth: 0.0,
            spin_watts: SPINNING_WATTS,
            ripple: 0.0,
            uneven: 0.0,
            burst: 1.0,
            turns: false,
            clock: 1.0,
            locked: 1.0,
            full_watts: WATTS[2],
            power_limit: STOCK_LIMIT,
            lost: false,
            wants_reset: false,
            xid: 0,
            boots: false,
            launching: 0.0,
            gaps: false,
            requests: 0.0,
            mig: Vec::new(),
            tells_requests: false,
            server: None,
            poke: 0.0,
            memory: None,
            leak: 0.0,
            disk: None,
            fill: 0.0,
            expect: String::new(),
            lost_to: None,
            charged_to: None,
            cause: None,
            which: None,
            advise: Vec::new(),
        }
    }
}

/// XIDs that NVIDIA says the hardware is to blame for: the GPU is off the bus, and memory with an uncorrectable error
/// (XID Errors, GPU Deployment and Management).
const HARDWARE: [u32; 2] = [79, 94];

impl Phase {
    /// Is the odd GPU damaged?
    pub fn is_damaged(&self) -> bool {
        self.wants_reset || HARDWARE.contains(&self.xid)
    }

    /// Is this GPU the one that differs, in a job with `gpus` of them?
    #[must_use]
    pub fn is_odd(&self, gpu: usize, gpus: usize) -> bool {
        self.all_odd || self.odd.unwrap_or(gpus - 1) == gpu
    }

    /// What the phase is like on this node.
    #[must_use]
    pub fn on(&self, node: &str) -> Phase {
        let mut phase = self.clone();
        phase.network = self.network.as_ref().map(|network| network.on(node));
        if self.odd_on.as_ref().is_some_and(|odd| odd != node) {
            (phase.odd, phase.all_odd) = (Some(usize::MAX), false);
        }
        phase
    }

    /// How much more a GPU has to compute in this step, as a share of what the phase says.
    pub(super) fn more(&self, gpu: usize, gpus: usize, step: usize) -> f64 {
        let is_late = if self.turns { step % gpus == gpu } else { self.is_odd(gpu, gpus) };
        let times = if step.is_multiple_of(BURST_STEPS) { self.burst } else { 1.0 };
        if is_late { self.uneven * times } else { 0.0 }
    }

    /// Clock of the odd GPU at work, as a share of its full one. Within a power limit it falls with the third root of
    /// the allowed draw above the idle draw, as power grows with the frequency and the square of the voltage.
    #[must_use]
    pub fn odd_clock(&self) -> f64 {
        self.clock.min(self.within_limit()).min(self.locked)
    }

    /// Slices that the MIG instance in the place of this GPU has, as a share of the whole GPU; 1 where it is not cut up.
    #[must_use]
    pub fn slices(&self, gpu: usize) -> f64 {
        let of = |profile: &String| profile.split('g').next().and_then(|slices| slices.parse::<f64>().ok());
        if self.mig.is_empty() { 1.0 } else { self.mig.get(gpu).and_then(of).unwrap_or_default() / MIG_SLICES }
    }

    pub(super) fn within_limit(&self) -> f64 {
        let idle = WATTS[1];
        ((self.power_limit - idle) / (self.full_watts - idle)).max(0.0).cbrt()
    }

    /// Share of its rate at which a copy comes to the GPU.
    pub(super) fn copy_share(&self, odd: bool) -> f64 {
        let link = f64::from(if odd { self.lanes } else { LANES }) * LANE_RATE;
        (link / self.copy_rate).min(1.0)
    }
}
