//! Programs under test: started on ports of their own, stopped and reaped whatever the test does.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixName, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A running program; killed on drop.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it with standard output and error in `log`. Its standard input stays open until it is stopped.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let output = File::create(log)?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it accepts connections; an early end is an error with the program's last words.
    pub fn until_listens(&mut self, address: SocketAddr) -> Result<()> {
        until("the port to open", Duration::from_secs(90), || {
            self.goes_on()?;
            Ok(TcpStream::connect(address).is_ok().then_some(()))
        })
    }

    /// Writes a line to its standard input.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("the program has no standard input")?;
        let told = writeln!(input, "{line}");
        told.with_context(|| format!("it takes no orders: {}", self.log_text()))
    }

    /// An error with its last words when it has ended.
    pub fn goes_on(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("ended with {status}: {}", self.log_text()),
            None => Ok(()),
        }
    }

    /// What it has written so far.
    #[must_use]
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it to end (SIGTERM) and waits for that.
    pub fn terminate(mut self) -> Result<std::process::ExitStatus> {
        self.signal(libc::SIGTERM);
        Ok(self.child.wait()?)
    }

    /// Ctrl-C: interrupts the process group that it leads (SIGINT), and waits for it to end.
    pub fn interrupt(&mut self) -> Result<std::process::ExitStatus> {
        signal_group(self.child.id(), libc::SIGINT);
        Ok(self.child.wait()?)
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends it a signal.
    #[allow(unsafe_code, reason = "the standard library sends no signal but SIGKILL")]
    pub fn signal(&self, signal: i32) {
        let Ok(pid) = i32::try_from(self.child.id()) else { return };
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is still its own.
        unsafe { libc::kill(pid, signal) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended is fine: `kill` and `wait` then return an error or the old status.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to every process of the group that this one leads or led; false when there is none.
#[allow(unsafe_code, reason = "the standard library sends no signal but SIGKILL")]
pub fn signal_group(leader: u32, signal: i32) -> bool {
    let Ok(group) = i32::try_from(leader) else { return false };
    // SAFETY: kill has no memory effects. A group keeps its number from new processes while it has members.
    unsafe { libc::kill(-group, signal) == 0 }
}

/// Polls until the condition gives a value; fails after `limit` with what it waited for.
pub fn until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = condition()? {
            return Ok(value);
        }
        if start.elapsed() > limit {
            bail!("waited {limit:?} for {what}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Where the kernel says which ports it gives to connections and to listeners that leave the choice to it
/// (`ip_local_port_range` in the kernel's `ip-sysctl.rst`).
const GIVEN_BY_THE_KERNEL: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Below the kernel's own default, 32768 to 60999. Some sandboxes give ports from 16000 on.
const PORTS: Range<u16> = 20_000..32_000;

/// The ports of this process, held until it ends.
static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A loopback address whose port is free, and is given to no other test as long as this process lives. Which one is chance.
pub fn free_address() -> Result<SocketAddr> {
    let given = std::fs::read_to_string(GIVEN_BY_THE_KERNEL).unwrap_or_default();
    let range = ports_outside(&given);
    let chance = RandomState::new().hash_one(std::process::id()) as usize;
    let mut ports = (0..range.len()).map(|n| range.start + ((chance % range.len() + n) % range.len()) as u16);
    ports.find_map(hold).with_context(|| format!("no port of {range:?} is free"))
}

/// Ports that the kernel gives to no connection: one that is free stays free until the program listens.
fn ports_outside(given: &str) -> Range<u16> {
    let mut bounds = given.split_whitespace().map_while(|bound| bound.parse().ok());
    let (Some(first), Some(last)): (Option<u16>, Option<u16>) = (bounds.next(), bounds.next()) else { return PORTS };
    let (below, above) = (10_000..first.min(PORTS.end), last.saturating_add(1)..u16::MAX);
    [below, above].into_iter().find(|range| range.len() >= 1000).unwrap_or(PORTS)
}

/// Its address where the port is free and no other test has it. A name in the abstract namespace of Unix sockets says whose
/// a port is: it goes with the process, and leaves no file.
fn hold(port: u16) -> Option<SocketAddr> {
    let name = UnixName::from_abstract_name(format!("goodput-test-port-{port}")).ok()?;
    let held = UnixListener::bind_addr(&name).ok()?;
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?.local_addr().ok()?;
    HELD.lock().ok()?.push(held);
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_outside_of_what_the_kernel_gives() {
        assert_eq!(ports_outside("32768\t60999\n"), 10_000..32_000);
        assert_eq!(ports_outside("16000 65535"), 10_000..16_000);
        assert_eq!(ports_outside("1024 60999"), 61_000..u16::MAX);
        assert_eq!(ports_outside("1024 65535"), PORTS, "there are no others");
        assert_eq!(ports_outside(""), PORTS);
    }

    #[test]
    fn a_port_is_given_once() {
        let address = free_address().unwrap();
        assert_eq!(hold(address.port()), None);
    }
}
