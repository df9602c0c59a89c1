//! Statistics of network drivers, which only `ethtool` can be asked for, in a thread of its own: firmware answers in
//! milliseconds, and in seconds when it is in trouble.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::program::{ETHTOOL, ProgramError};
use crate::parse::Parsed;
use crate::parse::ethtool::{self, Statistic};

/// How long one interface may take: own choice, a hundred times the usual.
pub const LIMIT: Duration = Duration::from_secs(2);

/// Stack of the thread: what it reads is on the heap.
const STACK_BYTES: usize = 128 * 1024;

/// What the driver of one interface says.
pub type Answer = Result<Parsed<BTreeMap<Statistic, u64>>, ProgramError>;

/// Asks one interface.
///
/// # Errors
/// When the program gives no answer. A driver without statistics is none of that.
pub fn read(folder: &Path, device: &str) -> Answer {
    match ETHTOOL.run(folder, &["-S", device], LIMIT) {
        Ok(text) => Ok(ethtool::statistics(&text)),
        Err(ProgramError::Failed { said, .. }) if said == "no stats available" => Ok(ethtool::statistics("")),
        Err(error) => Err(error),
    }
}

/// Can the name stand on a command line? Interfaces may be called anything, such as an option.
#[must_use]
pub fn is_plain(device: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !device.starts_with('-') && !device.is_empty() && device.bytes().all(is_plain)
}

/// One question, and what came of it.
pub struct Round {
    /// When it was asked, by the asker's clock.
    pub at: Instant,
    /// By interface.
    pub answers: Vec<(String, Answer)>,
}

/// A thread that asks the interfaces one after another whenever it is told to; it ends when this is dropped.
pub struct Reader {
    questions: Sender<(Instant, Vec<String>)>,
    rounds: Receiver<Round>,
}

impl Reader {
    /// Starts the thread, which runs the program of this folder.
    ///
    /// # Errors
    /// When the kernel gives no more threads.
    pub fn start(folder: PathBuf) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel::<(Instant, Vec<String>)>();
        let (told, rounds) = mpsc::channel();
        let round = move |(at, devices): (Instant, Vec<String>)| {
            let answer = |device: String| {
                let answer = read(&folder, &device);
                (device, answer)
            };
            Round { at, answers: devices.into_iter().map(answer).collect() }
        };
        let run = move || asked.iter().map(round).try_for_each(|round| told.send(round).ok());
        thread::Builder::new().name("ethtool".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Self { questions, rounds })
    }

    /// Asks these interfaces; `at` is now, by the asker's clock.
    pub fn ask(&self, at: Instant, devices: Vec<String>) {
        // A thread that is gone never answers, which the asker sees.
        let _ = self.questions.send((at, devices));
    }

    /// The next round, if it comes within `limit`.
    ///
    /// # Errors
    /// When it does not, or never will because the thread is gone.
    pub fn round(&self, limit: Duration) -> Result<Round, RecvTimeoutError> {
        self.rounds.recv_timeout(limit)
    }

    /// One whose thread is gone.
    #[cfg(test)]
    pub(crate) fn ended() -> Self {
        Self { questions: mpsc::channel().0, rounds: mpsc::channel().1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_stand_on_a_command_line() {
        for (device, expected) in
            [("eth0", true), ("enp65s0f0np0.7", true), ("-S", false), ("a b", false), ("$(id)", false), ("", false)]
        {
            assert_eq!(is_plain(device), expected, "{device:?}");
        }
    }
}
