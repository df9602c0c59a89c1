//! Starts the small training job (`src/bin/gpu-job.rs`).

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use goodput_lab::gpu::FakeNode;
use goodput_lab::process::Running;

/// Batches of 4 MiB that cost 60 ms of CPU and 200 ms of GPU: unlimited, the GPU is nearly always busy; at 4 MiB/s a
/// batch takes a second to read, at a tenth of a CPU 600 ms to decode.
const BATCH_BYTES: usize = 4 << 20;
const DECODE_MS: u32 = 60;
const TRAIN_MS: u32 = 200;

/// A running job.
pub struct Job {
    /// The file it reads.
    pub data: PathBuf,
    running: Running,
}

impl Job {
    /// Writes its data and starts it on a GPU. `program` is the test's `env!("CARGO_BIN_EXE_gpu-job")`.
    #[allow(clippy::disallowed_methods, reason = "starts the job")]
    pub fn start(program: &str, dir: &Path, node: &FakeNode, gpu: usize) -> Result<Self> {
        let data = dir.join("batches");
        let mut file = File::create(&data)?;
        for n in 0..16_u8 {
            file.write_all(&vec![n; BATCH_BYTES])?;
        }
        file.sync_all()?;
        let mut command = Command::new(program);
        command.arg(node.env().1).arg(gpu.to_string()).arg(&data);
        command.args([BATCH_BYTES.to_string(), DECODE_MS.to_string(), TRAIN_MS.to_string()]);
        let running = Running::start(&mut command, &dir.join("job.log"))?;
        Ok(Self { data, running })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }
}
