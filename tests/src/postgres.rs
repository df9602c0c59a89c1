//! A real PostgreSQL.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use goodput_lab::process::{Running, free_address, until};

/// `nobody` and `nogroup` of every Linux: the server refuses to run as root.
const NOBODY: u32 = 65_534;

/// Ends PostgreSQL and its connections (signal(7)).
const SIGINT: i32 = 2;

/// A server with an empty database, on a socket in a directory of its own. Stopped and removed on drop.
pub struct Postgres {
    /// Until it is dropped.
    running: Option<Running>,
    programs: PathBuf,
    dir: tempfile::TempDir,
    /// Where it listens too, if it has a certificate.
    pub address: Option<SocketAddr>,
}

/// A certificate and its key, PEM.
pub struct Identity<'a> {
    /// The certificate.
    pub certificate: &'a str,
    /// Its key.
    pub key: &'a str,
}

impl Postgres {
    /// Starts one. Who reaches its socket is whom they say they are.
    pub fn start() -> Result<Self> {
        Self::start_with(&[], None)
    }

    /// Starts one that listens on loopback too, where it asks for passwords over TLS.
    pub fn start_secured(identity: &Identity<'_>) -> Result<Self> {
        Self::start_with(&[], Some(identity))
    }

    /// Starts one with these settings.
    pub fn start_with(settings: &[&str], identity: Option<&Identity<'_>>) -> Result<Self> {
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
        server.arg("-D").arg(&data).arg("-k").arg(dir.path()).arg("-F");
        let address = identity.map(|identity| secure(&data, identity, root)).transpose()?;
        match address {
            None => server.args(["-c", "listen_addresses="]),
            // Its socket has the port's name too.
            Some(address) => {
                server.args(["-c", "listen_addresses=127.0.0.1", "-c", "ssl=on", "-p", &port(Some(address))])
            }
        };
        for setting in settings {
            server.args(["-c", setting]);
        }
        let mut running = Running::start(&mut server, &dir.path().join("log"))?;
        let ready = || {
            running.goes_on()?;
            let mut asked = command(&programs.join("pg_isready"));
            asked.arg("-q").arg("-h").arg(dir.path()).args(["-p", &port(address)]);
            Ok(asked.status()?.success().then_some(()))
        };
        until("PostgreSQL to accept connections", Duration::from_secs(90), ready)?;
        Ok(Self { running: Some(running), programs, dir, address })
    }

    /// The address of a database for a role, by the socket.
    #[must_use]
    pub fn url(&self, role: &str, database: &str) -> String {
        let socket = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{socket}/{database}?port={}", port(self.address))
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.as_ref().map(Running::log_text).unwrap_or_default()
    }

    /// Runs statements, up to the first that fails, which is an error with what the server said. Returns what they
    /// select: a line for a row, columns with `|` between them.
    pub fn psql(&self, sql: &str) -> Result<String> {
        let mut psql = command(&self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"]);
        psql.arg(self.dir.path()).args(["-p", &port(self.address), "-f", "-"]);
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

/// The port of its socket.
fn port(address: Option<SocketAddr>) -> String {
    address.map_or(5432, |address| address.port()).to_string()
}

/// Has a server show a certificate and ask for passwords on loopback. Returns where it will listen.
fn secure(data: &Path, identity: &Identity<'_>, root: bool) -> Result<SocketAddr> {
    for (name, text) in [("server.crt", identity.certificate), ("server.key", identity.key)] {
        let path = data.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        if root {
            chown(&path, Some(NOBODY), Some(NOBODY))?;
        }
    }
    fs::write(data.join("pg_hba.conf"), "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")?;
    free_address()
}

/// Killed, it would leave its shared memory behind.
impl Drop for Postgres {
    fn drop(&mut self) {
        // A test that fails leaves connections open, which SIGTERM alone would wait for.
        self.running.iter().for_each(|running| running.signal(SIGINT));
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
