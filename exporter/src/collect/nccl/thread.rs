//! The thread that reads the files, with all that it keeps of them: at most 80 files of 12 communicators, 40 matched pairs of
//! 512 collectives and one piece of a file, which is less than 4 MiB. A text is read whole, up to 4 MiB more for that moment.

mod files;
mod log;
mod shown;
mod text;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::rows::Row;
use crate::context::Nccl;
use crate::source::files::Roots;
use crate::source::inspector::whose::Holder;
use crate::source::left_out::{self, LeftOut};
use files::Files;

/// Stack of the thread: JSON is parsed to a depth that serde bounds, and what is read is on the heap.
const STACK_BYTES: usize = 512 * 1024;

/// Asks for the files to be read.
pub(super) struct Question {
    /// When, by the asker's clock.
    pub(super) at: Instant,
    /// Who may write files.
    pub(super) holders: Vec<Holder>,
}

/// What is known after a reading.
pub(super) struct Round {
    /// When it was asked for.
    pub(super) at: Instant,
    pub(super) rows: Vec<Row>,
    pub(super) left_out: LeftOut,
}

/// The thread; it ends when this is dropped.
pub(super) struct Reader {
    questions: Sender<Question>,
    rounds: Receiver<Round>,
}

impl Reader {
    /// Starts it.
    ///
    /// # Errors
    /// When the kernel gives no more threads.
    pub(super) fn start(roots: Arc<Roots>, settings: Arc<Nccl>) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel::<Question>();
        let (answers, rounds) = mpsc::channel();
        let run = move || {
            let mut files = Files::new(roots, settings);
            for question in asked {
                let at = question.at;
                let rows = files.read(question);
                if answers.send(Round { at, rows, left_out: left_out::take() }).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("nccl".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Self { questions, rounds })
    }

    /// Has the files read.
    pub(super) fn ask(&self, question: Question) {
        // A thread that is gone never answers, which the asker sees.
        let _ = self.questions.send(question);
    }

    /// The next answer, if it comes within `limit`.
    ///
    /// # Errors
    /// When it does not, or never will because the thread is gone.
    pub(super) fn round(&self, limit: Duration) -> Result<Round, RecvTimeoutError> {
        self.rounds.recv_timeout(limit)
    }

    /// One whose thread is gone.
    #[cfg(test)]
    pub(super) fn ended() -> Self {
        Self { questions: mpsc::channel().0, rounds: mpsc::channel().1 }
    }
}
