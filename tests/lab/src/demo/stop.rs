//! SIGINT and SIGTERM as a question that long work asks now and then, so that whatever it started is stopped in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// How often waiting looks up.
const LOOK: Duration = Duration::from_millis(100);

/// Has anybody asked this program to stop?
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Starts to listen for the signals.
    ///
    /// # Errors
    /// When the kernel gives no thread or no signals.
    pub fn watch() -> Result<Self> {
        let stop = Self::default();
        let asked = Arc::clone(&stop.0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listen = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let wait = move || {
            runtime.block_on(async move {
                let (mut interrupt, mut terminate) = listen;
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                asked.store(true, Ordering::Relaxed);
            });
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot watch for signals")?;
        Ok(stop)
    }

    /// Yes or no.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once it was asked, for work that then ends.
    ///
    /// # Errors
    /// When the program was asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.asked() { bail!("stopped before it was done") } else { Ok(()) }
    }

    /// Asks until there is an answer.
    ///
    /// # Errors
    /// When the limit is over or the program was asked to stop; what the question comes to.
    pub fn until<T>(&self, what: &str, limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            self.check()?;
            if begun.elapsed() > limit {
                bail!("waited {} s for {what}", limit.as_secs());
            }
            std::thread::sleep(LOOK);
        }
    }
}
