//! Programs of the system that print what the kernel answers to an ioctl or a netlink message alone. Nothing else of the
//! exporter starts a process: only what was asked for by a flag or by `audit` does, and never on the scrape path.
//!
//! A program is one file of one folder, without a shell and without the exporter's environment. It has a deadline, after
//! which it is killed, and what it prints is bounded. One that waits for firmware in the kernel does not end when it is
//! killed: a thread waits for it, and its caller does not.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Most bytes that a program may print: `ethtool -S` of a NIC with 256 queues prints a quarter of that.
const MOST: usize = 1 << 20;

/// Most bytes that are read of its errors, which are a line.
const MOST_OF_ERRORS: usize = 4096;

/// Longest error that is repeated, in characters.
const LONGEST_ERROR: usize = 200;

/// Pause between looks at a child that has closed its output or was killed, and is about to end.
const BEFORE_END: Duration = Duration::from_millis(1);

/// How long a child that was killed is waited for: own choice, a hundred times what one takes that is not in the kernel.
const AFTER_KILL: Duration = Duration::from_millis(100);

/// Most children that may be left over before no more are started: own choice.
const MOST_LEFT_OVER: usize = 8;

/// Stack of the thread that waits for one of them.
const STACK_BYTES: usize = 64 * 1024;

/// Children that were killed and have not ended yet.
static LEFT_OVER: AtomicUsize = AtomicUsize::new(0);

/// A program that may be started.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// The package that has it, in Debian and Fedora.
    package: &'static str,
}

/// Statistics of network drivers.
pub const ETHTOOL: Program = Program { name: "ethtool", package: "ethtool" };

/// Data center bridging of network interfaces.
pub const DCB: Program = Program { name: "dcb", package: "iproute2 (iproute)" };

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no such file.
    #[error("{}: not there: install the package {package}, or name the folder with --path.programs", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The package that has it.
        package: &'static str,
    },
    /// This process may not start it.
    #[error("{}: permission denied", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// It was killed.
    #[error("{command}: killed, as it had not ended after {} ms", limit.as_millis())]
    TimedOut {
        /// The program with its arguments.
        command: String,
        /// How long it had.
        limit: Duration,
    },
    /// It was killed.
    #[error("{command}: killed, as it printed more than {MOST} bytes")]
    TooLong {
        /// The program with its arguments.
        command: String,
    },
    /// It was not started.
    #[error("{command}: not started: {MOST_LEFT_OVER} programs that were killed wait for a driver and have not ended")]
    LeftOver {
        /// The program with its arguments.
        command: String,
    },
    /// It ended with an error of its own.
    #[error("{command}: {status}: {said}")]
    Failed {
        /// The program with its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The first line of its errors.
        said: String,
    },
    /// The kernel refused something else.
    #[error("{command}: {error}")]
    Io {
        /// The program with its arguments.
        command: String,
        /// What the kernel said.
        error: io::Error,
    },
}

impl Program {
    /// Runs the program of this folder, for this long and [`AFTER_KILL`] at most, and gives what it printed.
    ///
    /// # Errors
    /// When it cannot be started, takes longer, prints too much, or ends with an error.
    pub fn run(self, folder: &Path, arguments: &[&str], limit: Duration) -> Result<String, ProgramError> {
        let path = folder.join(self.name);
        let command = std::iter::once(self.name).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" ");
        if LEFT_OVER.load(Ordering::Relaxed) >= MOST_LEFT_OVER {
            return Err(ProgramError::LeftOver { command });
        }
        let mut child = match start(&path, arguments) {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProgramError::Missing { path, package: self.package });
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(ProgramError::Denied { path }),
            Err(error) => return Err(ProgramError::Io { command, error }),
        };
        let ended = finish(&mut child, Instant::now() + limit);
        end(child, &LEFT_OVER);
        match ended {
            Ok(Ended { status, printed, .. }) if status.success() => Ok(printed),
            Ok(Ended { status, said, .. }) => Err(ProgramError::Failed { command, status, said }),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(ProgramError::TimedOut { command, limit }),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(ProgramError::TooLong { command }),
            Err(error) => Err(ProgramError::Io { command, error }),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that starts programs, when it was asked for")]
fn start(path: &Path, arguments: &[&str]) -> io::Result<Child> {
    Command::new(path)
        .args(arguments)
        // Messages in English, and nothing of what the exporter was told.
        .env_clear()
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// A child that has ended.
struct Ended {
    status: ExitStatus,
    printed: String,
    /// The first line of its errors.
    said: String,
}

fn finish(child: &mut Child, deadline: Instant) -> io::Result<Ended> {
    let printed = child.stdout.as_mut().map(|pipe| read(pipe, MOST, deadline)).transpose()?.unwrap_or_default();
    let status = wait(child, deadline)?;
    let errors = child.stderr.as_mut().map(|pipe| read(pipe, MOST_OF_ERRORS, deadline)).transpose()?;
    let errors = String::from_utf8_lossy(&errors.unwrap_or_default()).into_owned();
    let said = errors.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message");
    let said = said.chars().take(LONGEST_ERROR).collect();
    Ok(Ended { status, printed: String::from_utf8_lossy(&printed).into_owned(), said })
}

/// How it ended. It has closed its output or was killed, so that takes a moment.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(BEFORE_END);
    }
}

/// Kills the child, unless it has ended. A thread waits for one that does not end.
fn end(mut child: Child, left_over: &'static AtomicUsize) {
    // Both leave a child alone that was waited for.
    let _ = child.kill();
    if wait(&mut child, Instant::now() + AFTER_KILL).is_err() {
        hand_over(child, left_over);
    }
}

fn hand_over(mut child: Child, left_over: &'static AtomicUsize) {
    left_over.fetch_add(1, Ordering::Relaxed);
    let reap = move || {
        let _ = child.wait();
        left_over.fetch_sub(1, Ordering::Relaxed);
    };
    // Without a thread the child counts until the exporter ends, as it is never waited for.
    let _ = thread::Builder::new().name("reaper".to_owned()).stack_size(STACK_BYTES).spawn(reap);
}

/// All that comes out of a pipe until it is closed.
fn read(pipe: &mut (impl Read + AsFd), most: usize, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        await_bytes(pipe, deadline)?;
        let count = match pipe.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if all.len() + count > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        all.extend_from_slice(&piece[..count]);
    }
}

/// Returns when a read would not wait.
fn await_bytes(pipe: &impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);
    const SHELL: Program = Program { name: "sh", package: "dash" };

    fn shell(script: &str, limit: Duration) -> Result<String, ProgramError> {
        SHELL.run(Path::new("/bin"), &["-c", script], limit)
    }

    fn error(script: &str, limit: Duration) -> String {
        shell(script, limit).unwrap_err().to_string()
    }

    #[test]
    fn what_it_prints_comes_back_without_the_exporters_environment() {
        assert_eq!(shell("echo $HOME $LC_ALL; pwd; exec >&-", LONG).unwrap(), "C\n/\n");
        assert_eq!(shell("printf 'a\\377b'", LONG).unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn arguments_are_not_interpreted() {
        let echo = Program { name: "echo", package: "coreutils" };
        assert_eq!(echo.run(Path::new("/bin"), &["$HOME; id", "*"], LONG).unwrap(), "$HOME; id *\n");
    }

    #[test]
    fn an_error_has_its_first_line() {
        let said = error("echo >&2; echo first >&2; echo second >&2; exit 3", LONG);
        assert!(said.ends_with("exit status: 3: first"), "{said}");
        assert!(error("exit 3", LONG).ends_with("exit status: 3: no message"));
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        for script in ["exec sleep 1000", "exec sleep 1000 >&-", "sleep 1000 & exec sleep 1000"] {
            let said = error(&format!("echo $$ > {}; {script}", pid.display()), SHORT);
            assert!(said.ends_with("killed, as it had not ended after 50 ms"), "{said}");
            let pid = std::fs::read_to_string(&pid).unwrap();
            assert!(!Path::new("/proc").join(pid.trim()).try_exists().unwrap(), "{script}: it still runs");
        }
    }

    /// Until the kernel is done with it, a child that was killed counts, and its caller does not wait.
    #[test]
    fn one_that_is_left_over_counts_until_it_ends() {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        let mut child = start(Path::new("/bin/cat"), &["/dev/zero"]).unwrap();
        let (pid, pipe) = (child.id(), child.stdout.take());
        hand_over(child, &LEFT);
        assert_eq!(LEFT.load(Ordering::Relaxed), 1);
        // It ends when it writes to a pipe without a reader.
        drop(pipe);
        while LEFT.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert!(!Path::new("/proc").join(pid.to_string()).try_exists().unwrap(), "it is waited for");
    }

    #[test]
    fn one_that_prints_without_end_is_killed() {
        let said = error("exec cat /dev/zero", LONG);
        assert!(said.ends_with("killed, as it printed more than 1048576 bytes"), "{said}");
        // Its errors fill their pipe, which is not read before it ends.
        assert!(error("exec cat /dev/zero >&2", SHORT).contains("killed"), "errors");
        assert_eq!(shell(&format!("exec head -c {MOST} /dev/zero"), LONG).unwrap().len(), MOST);
    }

    #[test]
    fn one_that_is_not_there_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let run = || ETHTOOL.run(folder.path(), &["-S", "eth0"], LONG).unwrap_err();
        let said = run().to_string();
        assert!(
            said.ends_with("ethtool: not there: install the package ethtool, or name the folder with --path.programs"),
            "{said}"
        );
        std::fs::write(folder.path().join("ethtool"), "").unwrap();
        assert!(matches!(run(), ProgramError::Denied { .. }), "a file that is no program");
    }
}
