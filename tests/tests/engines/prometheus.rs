//! Prometheus 3.

use std::path::Path;

use anyhow::{Result, ensure};
use goodput_tests::backfill::start;
use goodput_tests::prometheus::Prometheus;

use super::known::{exact, series, stored, write};
use super::{built, same, without_markers};

/// External labels. One tells replicas apart.
pub(crate) const CONFIG: &str = "global: {external_labels: {cluster: a, prometheus_replica: r1}}\n";
/// What of them is stored.
pub(crate) const EXTERNAL: [(&str, &str); 1] = [("cluster", "a")];

/// Starts one that takes samples in by remote write.
pub(crate) fn receiver(program: &Path, dir: &Path, config: &str) -> Result<Prometheus> {
    Prometheus::of(program, dir, config, &["--web.enable-remote-write-receiver"])
}

#[test]
fn prometheus_3_is_read_back_bit_for_bit() -> Result<()> {
    let Some(program) = built("prometheus")? else { return Ok(()) };
    let (start, dir) = (start(), tempfile::tempdir()?);
    let written = series(start, 2, exact);
    // The reader does not know the second encoding of chunks, so it asks for samples then.
    for encoding in ["xor", "xor2"] {
        let dir = dir.path().join(encoding);
        std::fs::create_dir(&dir)?;
        let config = format!("{CONFIG}storage: {{tsdb: {{chunk_encoding: {{floats: {encoding}}}}}}}\n");
        let prometheus = receiver(&program, &dir, &config)?;
        let url = format!("http://{}", prometheus.address());
        write(&format!("{url}/api/v1/write"), &written)?;
        let wanted = stored(&written, &EXTERNAL);
        same(&dir.join("auto"), &url, ("auto", "remote_read"), start, &wanted)?;
        let wanted = without_markers(&stored(&written, &[]));
        same(&dir.join("promql"), &url, ("promql", "promql"), start, &wanted)?;
        ensure!(!prometheus.log_text().contains("level=ERROR"), "{}", prometheus.log_text());
    }
    Ok(())
}
