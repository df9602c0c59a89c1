//! The kernel log, followed by a thread of its own.
//!
//! What the ring holds when it is opened is history: it was written before anybody counted, and how much of it is left
//! depends on what else the kernel said. It is told (when each code came last) and not counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::xid::{ChannelState, Journal};
use crate::parse::oom::Kill;
use crate::parse::xid::{Log, Record};

/// How long one wait for the kernel takes. A record ends it at once; the thread notices a stop after it, and no caller
/// waits for that.
const WAIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Pause at the end of something that is no kernel log, such as a pipe without a writer.
const AT_END: Duration = Duration::from_millis(500);

/// Pause before a log that cannot be read is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// Longer than the longest record (`PRINTK_MESSAGE_MAX` is 2048, and every byte may be written as four); a shorter buffer
/// is an error to the kernel.
const RECORD: usize = 16 * 1024;

/// Ends the thread.
#[derive(Debug, Default)]
pub struct Stop {
    stopping: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Tells the thread to end. It holds nothing that others wait for, so no caller waits for it.
    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.changed.notify_all();
    }

    fn stopping(&self) -> bool {
        *self.stopping.lock()
    }

    fn pause(&self, limit: Duration) {
        let mut stopping = self.stopping.lock();
        if !*stopping {
            self.changed.wait_for(&mut stopping, limit);
        }
    }
}

/// Follows the log at `path` until told to stop. One that cannot be had is a state, and is tried again.
pub fn follow(path: &Path, journal: &Mutex<Journal>, stop: &Stop) {
    while !stop.stopping() {
        let read = Follower::open(path, journal).and_then(|mut follower| follower.run(stop));
        let Err(error) = read else { return };
        let state = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ChannelState::Unsupported,
            io::ErrorKind::PermissionDenied => ChannelState::Denied,
            _ => ChannelState::Failing,
        };
        if std::mem::replace(&mut journal.lock().kmsg, state) != state {
            tracing::info!(path = %path.display(), %error, "the kernel log is not followed: XIDs come from NVML alone");
        }
        stop.pause(RETRY);
    }
}

struct Follower<'a> {
    file: File,
    journal: &'a Mutex<Journal>,
    log: Log,
    /// The beginning of a line whose end was not read yet.
    partial: Vec<u8>,
    live: bool,
}

/// What a read brought.
enum Got {
    Text,
    /// Nothing now; more will come.
    Nothing,
    /// The end: this is no kernel log.
    End,
}

impl<'a> Follower<'a> {
    fn open(path: &Path, journal: &'a Mutex<Journal>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { file, journal, log: Log::default(), partial: Vec::new(), live: false })
    }

    fn run(&mut self, stop: &Stop) -> io::Result<()> {
        let mut buffer = vec![0; RECORD];
        while !stop.stopping() {
            match self.read(&mut buffer)? {
                Got::Text => {}
                Got::Nothing => {
                    self.go_live();
                    wait(&self.file)?;
                }
                Got::End => {
                    self.go_live();
                    stop.pause(AT_END);
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Got> {
        match self.file.read(buffer) {
            Ok(0) => Ok(Got::End),
            Ok(n) => {
                self.take(&buffer[..n]);
                Ok(Got::Text)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Got::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Got::Text),
            // The ring went round; the next read goes on with the oldest record there is.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.journal.lock().overruns += u64::from(self.live);
                Ok(Got::Text)
            }
            Err(error) => Err(error),
        }
    }

    /// All that was there before is read: from here on events are counted.
    fn go_live(&mut self) {
        if !std::mem::replace(&mut self.live, true) {
            self.journal.lock().kmsg = ChannelState::Ok;
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            self.partial.truncate(RECORD);
            return;
        };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&lines).lines().filter_map(Record::parse).for_each(|record| self.say(record));
    }

    fn say(&mut self, record: Record<'_>) {
        if let Some(kill) = Kill::parse(record.text).filter(|_| self.live) {
            self.journal.lock().ooms.hear(&kill);
        }
        for event in self.log.events(record) {
            let mut journal = self.journal.lock();
            match self.live {
                true => journal.hear_kmsg(event, SystemTime::now()),
                false => journal.remember(&event, when(record.at_us)),
            }
        }
    }
}

/// When a record of this boot was written. The kernel's stamps and its monotonic clock part by seconds over weeks.
fn when(at_us: u64) -> SystemTime {
    let now = clock_gettime(ClockId::Monotonic);
    let since_boot = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
    let age = since_boot.saturating_sub(Duration::from_micros(at_us));
    SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn wait(file: &File) -> io::Result<()> {
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&WAIT)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::parse::bus_id::Address;
    use crate::source::xid::Channel;

    /// A follower of the file that ends with the test.
    struct Following {
        journal: Arc<Mutex<Journal>>,
        stop: Arc<Stop>,
        thread: Option<std::thread::JoinHandle<()>>,
    }

    impl Following {
        fn start(path: &Path) -> Self {
            let (journal, stop) = (Arc::<Mutex<Journal>>::default(), Arc::<Stop>::default());
            let (of_thread, path) = ((journal.clone(), stop.clone()), path.to_owned());
            let thread = std::thread::spawn(move || follow(&path, &of_thread.0, &of_thread.1));
            Self { journal, stop, thread: Some(thread) }
        }

        #[track_caller]
        fn until(&self, what: &str, holds: impl Fn(&Journal) -> bool) {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !holds(&self.journal.lock()) {
                assert!(Instant::now() < deadline, "never: {what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    impl Drop for Following {
        fn drop(&mut self) {
            self.stop.stop();
            self.thread.take().unwrap().join().unwrap();
        }
    }

    fn line(xid: u64, at_us: u64) -> String {
        format!("4,7,{at_us},-;NVRM: Xid (PCI:0000:9b:00): {xid}, text\n SUBSYSTEM=pci\n")
    }

    fn counted(journal: &Journal, xid: u64) -> Option<u64> {
        let xids = journal.of(Address::parse("0000:9b:00.0")?)?;
        xids.by_channel.get(&(Channel::Kmsg, xid)).copied()
    }

    #[test]
    fn a_log_is_history_up_to_its_end_and_counted_from_there() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "6,1,2,-;Linux\n{}", line(79, 3)).unwrap();
        let following = Following::start(file.path());
        following.until("it follows", |j| j.kmsg == ChannelState::Ok);
        let seen = |j: &Journal| j.of(Address::parse("0000:9b:00.0").unwrap()).map(|x| x.seen.len());
        let journal = following.journal.lock().clone();
        assert_eq!((counted(&journal, 79), seen(&journal)), (None, Some(1)));
        let text = line(48, 5_000_000);
        let (begin, end) = text.split_at(20);
        write!(file, "{begin}").unwrap();
        file.flush().unwrap();
        write!(file, "{end}{}", line(31, 5_000_001)).unwrap();
        following.until("both are counted", |j| counted(j, 48) == Some(1) && counted(j, 31) == Some(1));
    }

    #[test]
    fn victims_of_the_oom_killer_are_counted_from_the_start_on() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let line = |at_us: u64| {
            format!(
                "6,9,{at_us},-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
                 oom_memcg=/slurm/uid_0/job_5,task_memcg=/slurm/uid_0/job_5/step_0,task=python,pid=7,uid=0\n"
            )
        };
        write!(file, "{}", line(1)).unwrap();
        let following = Following::start(file.path());
        following.until("it follows", |j| j.kmsg == ChannelState::Ok);
        assert!(following.journal.lock().ooms.counts.is_empty(), "history");
        write!(file, "{}{}", line(5_000_000), line(5_000_001)).unwrap();
        following.until("both are counted", |j| j.ooms.counts.values().eq([&2]));
    }

    #[test]
    fn a_pipe_is_followed_while_it_is_written_and_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        let following = Following::start(&path);
        following.until("it follows", |j| j.kmsg == ChannelState::Ok);
        for n in 1..=2 {
            let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
            pipe.write_all(line(48, n * 2_000_000).as_bytes()).unwrap();
            following.until("it is counted", |j| counted(j, 48) == Some(n));
        }
    }

    #[test]
    fn a_log_that_is_not_there_is_a_state() {
        let following = Following::start(Path::new("/nowhere/dev/kmsg"));
        following.until("it is said", |j| j.kmsg == ChannelState::Unsupported);
    }

    /// Whatever the machine that runs the tests lets its user do, it is a state. Where the ring can be read and written, a
    /// line about a made-up GPU goes through the kernel.
    #[test]
    #[allow(clippy::print_stderr, reason = "says why it did nothing")]
    fn the_kernel_log_of_this_machine() {
        let following = Following::start(Path::new("/dev/kmsg"));
        following.until("there is a state", |j| j.kmsg != ChannelState::Off);
        let state = following.journal.lock().kmsg;
        let pipe = OpenOptions::new().write(true).open("/dev/kmsg");
        let (ChannelState::Ok, Ok(mut ring)) = (state, pipe) else {
            eprintln!("skipped for lack of permission: /dev/kmsg is {state:?}");
            return;
        };
        ring.write_all(b"NVRM: Xid (PCI:fffe:fe:1e): 999, written by a test of goodput-exporter\n").unwrap();
        let made_up = Address::parse("fffe:fe:1e.0").unwrap();
        following.until("the line comes back", |j| j.of(made_up).is_some_and(|x| x.last == Some(999)));
    }
}
