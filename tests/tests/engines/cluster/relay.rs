//! Stands between one program and another, and ends the other in the middle of an answer.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use goodput_lab::process::Running;

/// Passes connections on.
pub(crate) struct Relay {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
}

/// What came back, over all connections.
#[derive(Default)]
struct Answers {
    passed: usize,
    /// The program that ends once this number of bytes has passed.
    cut: Option<(usize, Running)>,
}

impl Relay {
    /// Passes on to this address whatever comes.
    pub(crate) fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, answers) = (listener.local_addr()?, Arc::<Mutex<Answers>>::default());
        let shared = Arc::clone(&answers);
        // It ends with the test's process: nothing else can tell a listener to stop accepting.
        thread::spawn(move || {
            for here in listener.incoming().flatten() {
                // The program is away: the one that asks sees its connection end.
                if let Ok(there) = TcpStream::connect(to) {
                    let _ = pass(&here, &there, &shared);
                }
            }
        });
        Ok(Self { address, answers })
    }

    /// Bytes that came back so far.
    pub(crate) fn passed(&self) -> usize {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).passed
    }

    /// Ends the program when this number of further bytes has come back. The last of them is passed on.
    pub(crate) fn cut_after(&self, bytes: usize, program: Running) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.cut = Some((answers.passed + bytes, program));
    }

    /// Was the program ended?
    pub(crate) fn has_cut(&self) -> bool {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).cut.is_none()
    }
}

/// Two threads, one for each direction; both end with the connection.
fn pass(here: &TcpStream, there: &TcpStream, answers: &Arc<Mutex<Answers>>) -> io::Result<()> {
    let (mut asks, mut asked) = (here.try_clone()?, there.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut asks, &mut asked);
        let _ = asked.shutdown(Shutdown::Both);
    });
    let (mut here, mut there, answers) = (here.try_clone()?, there.try_clone()?, Arc::clone(answers));
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length) = there.read(&mut bytes) {
            if length == 0 || here.write_all(answers_part(&answers, &bytes[..length])).is_err() {
                break;
            }
        }
        let _ = here.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Counts the bytes; those up to the end of the program, when that is among them.
fn answers_part<'a>(answers: &Mutex<Answers>, bytes: &'a [u8]) -> &'a [u8] {
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let left = answers.cut.as_ref().map_or(usize::MAX, |(at, _)| at - answers.passed);
    answers.passed += bytes.len();
    if bytes.len() < left {
        return bytes;
    }
    // Killed and reaped before what it said last arrives.
    drop(answers.cut.take());
    &bytes[..left]
}
