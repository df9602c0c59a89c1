//! The exporter of this machine, started for as long as `why` looks at it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::Client;
use tokio::time::{Instant, sleep, timeout};

use goodput_engine::http;

const PROGRAM: &str = "goodput-exporter";

/// How long it may take to listen, and then to read a GPU. A driver that starts cold takes seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running exporter. It ends with this value, and by its own doing when this program is killed.
pub(super) struct Exporter {
    child: Child,
    pub(super) address: String,
}

impl Exporter {
    /// Starts the one next to this program, else that of `PATH`, and waits until it has read a GPU. The exporter ends with
    /// the thread that started it: call this on the main thread.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let program = program();
        let mut child = command(&program).spawn().with_context(|| {
            format!("{} cannot be started; without --target, {PROGRAM} is needed here or in PATH", program.display())
        })?;
        let stderr = child.stderr.take();
        let mut exporter = Self { child, address: String::new() };
        let listening = tokio::task::spawn_blocking(move || stderr.map(address));
        let said = timeout(PATIENCE, listening).await.with_context(|| format!("{PROGRAM} does not listen"))??;
        exporter.address = said.unwrap_or_else(|| Err(String::new())).map_err(anyhow::Error::msg).context(PROGRAM)?;
        exporter.until_it_has_a_gpu().await?;
        Ok(exporter)
    }

    async fn until_it_has_a_gpu(&self) -> anyhow::Result<()> {
        let client = http::client("http", || Client::builder().no_proxy()).map_err(anyhow::Error::msg)?;
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = client.get(format!("http://{}/-/ready", self.address)).send().await.context(PROGRAM)?;
            if answer.status().is_success() {
                return Ok(());
            }
            let reason = answer.text().await.unwrap_or_default();
            if Instant::now() > end {
                bail!("no GPU to look at: {}", reason.trim_end());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // An error says that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM)).ok();
    beside.filter(|path| path.try_exists().unwrap_or(false)).unwrap_or_else(|| PROGRAM.into())
}

#[allow(clippy::disallowed_methods, reason = "the one program that is started, at the user's wish")]
fn command(program: &PathBuf) -> Command {
    let mut command = Command::new(program);
    command.args([
        "serve",
        "--web.listen-address=127.0.0.1:0",
        "--nvml.require",
        "--log.level=info",
        "--log.format=text",
    ]);
    command.arg(format!("--exit-with-parent={}", std::process::id()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Where it says that it listens; an error with its last words where it ends instead.
fn address(stderr: ChildStderr) -> Result<String, String> {
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut last = "it ended without a word".to_owned();
    for line in lines.by_ref() {
        if let Some((_, url)) = line.split_once("listening on http://") {
            let address = url.split('/').next().unwrap_or_default().to_owned();
            // It must be able to log on.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(address);
        }
        last = line;
    }
    Err(last)
}
