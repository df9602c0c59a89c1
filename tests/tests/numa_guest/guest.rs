//! Boots the guest once, has it run `story.sh`, and brings back what that left.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use goodput_exposition::sample::TimeMs;
use goodput_lab::bin;
use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
use serde_json::{Value, json};

/// How long each phase lasts. Its first minute may hold what was before; the other is its own.
const PHASE_MINUTES: u64 = 2;

/// A minute for boot, interrupts and limits, three phases, and as much again for a busy machine; a guest that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(2 * (1 + 3 * PHASE_MINUTES) * 60);

const MINUTE_MS: i64 = 60_000;

/// What happened in the guest.
pub(crate) struct Story {
    /// Every scrape of the phases, in order of time.
    pub(crate) scrapes: Vec<(TimeMs, String)>,
    phases: Vec<(String, Range<TimeMs>)>,
    /// Scrapes before the interrupts were steered away, after that, and after they were at home again, with traffic
    /// between each two.
    pub(crate) irq_scrapes: [String; 3],
    /// What the kernel counted meanwhile.
    pub(crate) irq_truth: Value,
    /// A scrape after a quota and a memory limit had been met.
    pub(crate) limits: String,
    /// What the kernel counted at the quota, and at the memory limit.
    pub(crate) limits_truth: [Value; 2],
}

impl Story {
    /// The story, told once however many tests want it.
    pub(crate) fn get() -> Result<&'static Self> {
        static STORY: OnceLock<Result<Story, String>> = OnceLock::new();
        let story = STORY.get_or_init(|| tell().map_err(|error| format!("{error:#}")));
        story.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// The whole minutes of a phase, without the first.
    pub(crate) fn minutes(&self, phase: &str) -> Result<Range<TimeMs>> {
        let (_, time) =
            self.phases.iter().find(|(name, _)| name == phase).with_context(|| format!("no phase {phase}"))?;
        let minute = |time: TimeMs| time.div_euclid(MINUTE_MS) * MINUTE_MS;
        Ok(minute(time.start) + MINUTE_MS..minute(time.end))
    }

    /// The last scrape within.
    pub(crate) fn last_scrape(&self, time: &Range<TimeMs>) -> Result<&str> {
        let (_, text) = self.scrapes.iter().rfind(|(at, _)| time.contains(at)).context("no scrape")?;
        Ok(text)
    }
}

fn tell() -> Result<Story> {
    let dir = tempfile::tempdir()?;
    let (share, run) = (dir.path().join("share"), dir.path().join("run"));
    fs::create_dir(&run)?;
    let begin = begin();
    equip(&share, begin)?;
    let mut guest = tool("run.sh")?;
    guest.args(["--mem", "2G", "--timeout", &LIMIT.as_secs().to_string(), "--share"]).arg(&share);
    guest.args(["--", "env", &format!("BEGIN={begin}"), &format!("MINUTES={PHASE_MINUTES}"), "sh", "./story.sh"]);
    finish(guest.env("TMPDIR", &run))?;
    read(&share.join("out"))
}

/// The full hour before the last, in seconds since 1970: no phase lies on both sides of a full hour, and all of it is
/// over when the analyzer gets to see it.
fn begin() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    (now / 3600 - 2) * 3600
}

/// What the guest gets: the programs, the fake GPUs at the addresses of its two nodes, the script.
fn equip(share: &Path, begin: u64) -> Result<()> {
    fs::create_dir(share)?;
    fs::copy(bin("goodput-exporter")?, share.join("goodput-exporter"))?;
    fs::copy(env!("CARGO_BIN_EXE_gpu-job"), share.join("gpu-job"))?;
    fs::copy(FakeNvml::build()?.path(), share.join("libfake_nvml.so"))?;
    fs::write(share.join("story.sh"), include_str!("story.sh"))?;
    let gpus = json!([{ "pci": "0000:22:00.0", "numa": 0 }, { "pci": "0000:42:00.0", "numa": 1 }]);
    let spec = NodeSpec::h100(2).with("gpus", gpus).with("cpus", json!(["0-1", "2-3"]));
    FakeNode::new(share, &spec.with("loaded_us", (begin - 3600) * 1_000_000))?;
    Ok(())
}

/// A script of the guest, which is prepared if need be: a kernel is downloaded and unpacked into the target folder.
fn tool(script: &str) -> Result<Command> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/tools/numa-guest");
    if !tool.join("run.sh").try_exists()? {
        bail!("this test boots a two-node guest with {}/run.sh, which is not there", tool.display());
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numa-guest");
    let command = |script: &str| program(tool.join(script), &cache);
    // The last file that preparing writes.
    if !cache.join("kernel.version").try_exists()? {
        // One of its pipelines ends by SIGPIPE (status 141) now and then, when the reader has what it looks for first.
        // What was downloaded stays.
        let prepare = || finish(&mut command("prepare.sh"));
        prepare()
            .or_else(|_| prepare())
            .or_else(|_| prepare())
            .context("the packages that it needs are installed by deploy/local/packages test")?;
    }
    Ok(command(script))
}

#[allow(clippy::disallowed_methods, reason = "starts the guest")]
fn program(path: PathBuf, cache: &Path) -> Command {
    let mut command = Command::new(path);
    command.arg("--cache").arg(cache);
    command
}

fn finish(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        bail!("{command:?} ended with {}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
    }
    Ok(())
}

fn read(out: &Path) -> Result<Story> {
    let text = |name: &str| fs::read_to_string(out.join(name)).with_context(|| format!("the guest left no {name}"));
    let irq = |when: &str| text(&format!("irq-affinity.{when}.prom"));
    let truth = |scenario: &str| -> Result<Value> { Ok(serde_json::from_str(&text(&format!("{scenario}.json"))?)?) };
    let mut scrapes = Vec::new();
    for entry in fs::read_dir(out)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(at) = name.strip_suffix(".prom").and_then(|time| time.parse().ok()) {
            scrapes.push((at, text(&name)?));
        }
    }
    scrapes.sort();
    Ok(Story {
        scrapes,
        phases: text("phases")?.lines().map(phase).collect::<Result<_>>()?,
        irq_scrapes: [irq("before")?, irq("after")?, irq("home")?],
        irq_truth: truth("irq-affinity")?,
        limits: text("limits.prom")?,
        limits_truth: [truth("cpu-throttle")?, truth("memory-oom")?],
    })
}

/// Name, first and last millisecond.
fn phase(line: &str) -> Result<(String, Range<TimeMs>)> {
    let mut words = line.split(' ');
    let mut word = || words.next().with_context(|| format!("expected NAME FROM TO, found {line:?}"));
    Ok((word()?.to_owned(), word()?.parse()?..word()?.parse()?))
}
