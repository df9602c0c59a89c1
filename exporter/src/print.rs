//! `print`: one scrape to standard output, what is missing to standard error.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::config::TextFormat;
use crate::scrape::{Gpus, Outcome, Scrape, Scraper, wait_for_gpus};
use crate::source::nvml::Driver;
use goodput_exposition::Format;

/// How long to wait for the GPUs' first reading, and then for the scrape.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes one scrape to `out`, and to `notes` a line about an absent driver and about every source that failed.
///
/// # Errors
/// When `out` cannot be written.
pub fn print(
    scraper: &Scraper,
    gpus: &Gpus,
    format: TextFormat,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> anyhow::Result<()> {
    wait_for_gpus(gpus, Instant::now() + PATIENCE);
    let scrape = scraper.request(Instant::now() + PATIENCE).blocking_recv().context("the scraper has stopped")?;
    let format = match format {
        TextFormat::Text => Format::Text,
        TextFormat::Openmetrics => Format::OpenMetrics,
    };
    // Notes are for people; where they cannot be written, the scrape still can.
    let _ = note(&scrape, notes);
    write(&scrape.text(format), out)
}

/// Writes all of `text`; a reader that has enough, as in `| head`, is no error.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(text: &[u8], out: &mut impl Write) -> anyhow::Result<()> {
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

fn note(scrape: &Scrape, notes: &mut impl Write) -> io::Result<()> {
    match &scrape.gpus.driver {
        Driver::Loaded { .. } | Driver::Released { .. } => {}
        Driver::Absent { reason } => writeln!(notes, "no GPU driver: {reason}")?,
        Driver::Starting => writeln!(notes, "no GPU driver yet: it has not answered for {} s", PATIENCE.as_secs())?,
    }
    for report in &scrape.reports {
        match &report.outcome {
            Outcome::Ok | Outcome::NotApplicable(_) => {}
            Outcome::Denied(reason) => writeln!(notes, "collector {} may not read all: {reason}", report.name)?,
            Outcome::Failed(reason) => writeln!(notes, "collector {} failed: {reason}", report.name)?,
            Outcome::TimedOut => writeln!(notes, "collector {} gave no answer in time", report.name)?,
        }
    }
    Ok(())
}
