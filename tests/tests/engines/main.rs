//! `backfill` from current releases of the engines, which `tests/engines/build` builds, and from a cluster of VictoriaMetrics.
//! Where an engine is not there, its test says so in one line and passes; `GOODPUT_ENGINES` makes that an error.

#![allow(clippy::print_stderr, reason = "a test that skips says so")]

mod cluster;
mod known;
mod prometheus;
mod thanos;
mod victoria;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use goodput_exposition::sample::{STALE_BITS, TimeMs};
use goodput_tests::backfill::{Bits, HOUR, backfill, bits};

/// A program that was built from source; none where it was not, unless all must be there.
fn built(name: &str) -> Result<Option<PathBuf>> {
    let path = engines().join(name);
    if path.is_file() {
        return Ok(Some(path));
    }
    ensure!(std::env::var_os("GOODPUT_ENGINES").is_none(), "{} was not built", path.display());
    eprintln!("skipped: {name} is not built; make test-long PART=engines builds it where Go is installed");
    Ok(None)
}

fn engines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/engines")
}

/// Backfills three hours from the start on and compares with what was written.
fn same(data: &Path, url: &str, (reader, used): (&str, &str), start: TimeMs, wanted: &Bits) -> Result<()> {
    let said = backfill(data, url, reader, start..start + 3 * HOUR)?;
    ensure!(said.contains(&format!("reader=\"{used}\"")), "{reader}: {said}");
    is(data, wanted).map_err(|error| error.context(format!("{reader}: {said}")))
}

/// Is this, and nothing else, stored?
fn is(data: &Path, wanted: &Bits) -> Result<()> {
    let found = bits(data)?;
    let labels = |all: &Bits| all.iter().map(|(labels, samples)| format!("{labels:?}: {}", samples.len())).collect();
    let [found_labels, wanted_labels]: [Vec<String>; 2] = [labels(&found), labels(wanted)];
    ensure!(found_labels == wanted_labels, "found {found_labels:#?}\nwanted {wanted_labels:#?}");
    for ((labels, found), (_, wanted)) in found.iter().zip(wanted) {
        let differs = found.iter().zip(wanted).find(|(found, wanted)| found != wanted);
        ensure!(differs.is_none(), "{labels:?}: found and wanted {differs:?}");
    }
    Ok(())
}

/// The backfill fails and nothing is stored; what the program said.
fn fails(data: &Path, url: &str, reader: &str, start: TimeMs) -> Result<String> {
    let Err(error) = backfill(data, url, reader, start..start + 3 * HOUR) else {
        bail!("{reader}: succeeded, and stored {:?}", bits(data)?.len());
    };
    // Where no reader answers, not even a store is made.
    let is_store = data.join("goodput.db").is_file();
    ensure!(!is_store || bits(data)?.is_empty(), "{reader}: samples are stored: {error}");
    Ok(error.to_string())
}

/// The same with NaNs in place of staleness markers, which VictoriaMetrics answers with in PromQL.
fn with_nans(all: &Bits) -> Bits {
    let shown = |bits: u64| if bits == STALE_BITS { f64::NAN.to_bits() } else { bits };
    let shown = |samples: &Vec<(TimeMs, u64)>| samples.iter().map(|(time, bits)| (*time, shown(*bits))).collect();
    all.iter().map(|(labels, samples)| (labels.clone(), shown(samples))).collect()
}

/// The same without staleness markers, as readers see it that do not get them.
fn without_markers(all: &Bits) -> Bits {
    let kept = |samples: &Vec<(TimeMs, u64)>| samples.iter().filter(|(_, bits)| *bits != STALE_BITS).copied().collect();
    all.iter().map(|(labels, samples)| (labels.clone(), kept(samples))).collect()
}
