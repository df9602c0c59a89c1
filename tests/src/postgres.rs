//! A real PostgreSQL.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use goodput_lab::process::{Running, until};

/// `nobody` and `nogroup` of every Linux: the server refuses to run as root.
const NOBODY: u32 = 65_534;

/// A server with an empty database, on a socket in a directory of its own. Stopped and removed on drop.
pub struct Postgres {
    /// Until it is dropped.
    running: Option<Running>,
    programs: PathBuf,
    dir: tempfile::TempDir,
}

impl Postgres {
    /// Starts one.
    pub fn start() -> Result<Self> {
        let programs =
            programs().context("this test needs Debian's postgresql package (deploy/local/packages test)")?;
        let dir = tempfile::tempdir()?;
        let root = fs::metadata(dir.path())?.uid() == 0;
        if root {
            chown(dir.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let data = dir.path().join("data");
        let mut initdb = plainly(&programs.join("initdb"), root);
        initdb.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        // Not the order of bytes, so that a column that is to have it says so itself.
        let made = initdb.args(["--locale-provider=icu", "--icu-locale=en", "--locale=C.UTF-8"]).output()?;
        if !made.status.success() {
            bail!("initdb: {}", String::from_utf8_lossy(&made.stderr));
        }
        let mut server = plainly(&programs.join("postgres"), root);
        server.arg("-D").arg(&data).arg("-k").arg(dir.path()).args(["-F", "-c", "listen_addresses="]);
        let mut running = Running::start(&mut server, &dir.path().join("log"))?;
        let ready = || {
            running.goes_on()?;
            let asked = command(&programs.join("pg_isready")).arg("-q").arg("-h").arg(dir.path()).status()?;
            Ok(asked.success().then_some(()))
        };
        until("PostgreSQL to accept connections", Duration::from_secs(90), ready)?;
        Ok(Self { running: Some(running), programs, dir })
    }

    /// Runs statements, up to the first that fails, which is an error with what the server said. Returns what they
    /// select: a line for a row, columns with `|` between them.
    pub fn psql(&self, sql: &str) -> Result<String> {
        let mut psql = command(&self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"]);
        psql.arg(self.dir.path()).args(["-f", "-"]);
        let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that has ended at an error reads no further; its exit status tells.
            let _ = stdin.write_all(sql.as_bytes());
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Killed, it would leave its shared memory behind.
impl Drop for Postgres {
    fn drop(&mut self) {
        // One that has ended by itself is as good.
        let _ = self.running.take().map(Running::terminate);
    }
}

/// Where Debian keeps the server's programs, of the newest version that is there.
fn programs() -> Result<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql");
    let entries = fs::read_dir(versions).with_context(|| versions.display().to_string())?;
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin"))).filter(|(_, bin)| bin.join("initdb").is_file())
        })
        .collect();
    found.sort();
    let (_, newest) = found.pop().with_context(|| format!("no initdb below {}", versions.display()))?;
    Ok(newest)
}

/// A program that runs without root's rights, even if root runs the test.
fn plainly(program: &Path, root: bool) -> Command {
    if !root {
        return command(program);
    }
    let mut command = command(Path::new("setpriv"));
    let id = NOBODY.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
    // Where the test runs may be no place for others.
    command.current_dir("/");
    command
}

#[allow(clippy::disallowed_methods, reason = "starts the real PostgreSQL")]
fn command(program: &Path) -> Command {
    Command::new(program)
}
