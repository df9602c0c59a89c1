//! `backfill` from a real Prometheus and a real VictoriaMetrics: what comes out is what went in, bit for bit.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use goodput_exposition::sample::{Labels, STALE_BITS, TimeMs};
use goodput_lab::remote_write::{TimeSeries, send};
use goodput_tests::backfill::{Bits, HOUR, METRICS, analyzer, bits, run, start, text_of};
use goodput_tests::prometheus::Prometheus;
use goodput_tests::victoria::VictoriaMetrics;

/// From one sample to the next; not a whole number of them is an hour.
const STEP: TimeMs = 14_993;

#[test]
fn a_prometheus_is_read_back_bit_for_bit() -> Result<()> {
    let dir = tempfile::tempdir()?;
    // Up to the last bit of a float, which Prometheus keeps.
    let value = |n: i64| (n as f64 + 0.1) / 3.0;
    let start = start();
    let text = dir.path().join("history.om");
    fs::write(&text, openmetrics(start, value)?)?;
    let blocks = dir.path().join("prometheus");
    run("promtool", &["tsdb", "create-blocks-from", "openmetrics", text_of(&text), text_of(&blocks)])?;
    let prometheus = Prometheus::start(dir.path(), &[], None)?;
    for (reader, used) in [("promql", "promql"), ("remote_read", "remote_read"), ("auto", "remote_read")] {
        let data = dir.path().join(reader);
        let said = same(&data, prometheus.address(), reader, start, value)?;
        ensure!(said.contains(&format!("reader=\"{used}\"")), "{reader}: {said}");
    }
    let refused = backfill(&dir.path().join("none"), prometheus.address(), "victoria", start);
    let refused = refused.err().context("a Prometheus has no export")?.to_string();
    ensure!(refused.contains("does not answer --reader victoria") && refused.contains("404"), "{refused}");
    // The same from the file: another way in, the same samples.
    let imported = dir.path().join("imported");
    analyzer(&imported, &["import", text_of(&text)])?;
    ensure!(bits(&imported)? == bits(&dir.path().join("auto"))?, "import and backfill differ");
    Ok(())
}

#[test]
fn a_victoriametrics_is_read_back_bit_for_bit() -> Result<()> {
    let dir = tempfile::tempdir()?;
    // It keeps decimals of about 15 digits; these are what exporters write.
    let value = |n: i64| n as f64 * 0.25 + 1000.0;
    let start = start();
    let victoria = VictoriaMetrics::start(dir.path())?;
    let mut text = String::new();
    for (metric, gpu, n, time) in points(start) {
        writeln!(text, "{metric}{{UUID=\"GPU-{gpu}\",gpu=\"{gpu}\"}} {:?} {time}", value(n))?;
    }
    victoria.import(&text)?;
    for (reader, used) in [("promql", "promql"), ("auto", "victoria")] {
        let said = same(&dir.path().join(reader), victoria.address, reader, start, value)?;
        ensure!(said.contains(&format!("reader=\"{used}\"")), "{reader}: {said}");
    }
    // The end of a series, which a range selector does not show.
    let samples = [(start, 1.0), (start + STEP, f64::from_bits(STALE_BITS))];
    send(victoria.address, vec![TimeSeries::new(&[("__name__", METRICS[0]), ("gpu", "9")], samples)])?;
    victoria.import("")?;
    for (reader, markers) in [("promql", 0), ("auto", 1)] {
        let data = dir.path().join(format!("{reader}-ended"));
        backfill(&data, victoria.address, reader, start)?;
        let found = bits(&data)?.into_iter().flat_map(|(_, samples)| samples).filter(|(_, bits)| *bits == STALE_BITS);
        ensure!(found.count() == markers, "{reader}");
    }
    Ok(())
}

/// Three hours from the start on, read this way.
fn backfill(data: &Path, address: SocketAddr, reader: &str, start: TimeMs) -> Result<String> {
    goodput_tests::backfill::backfill(data, &format!("http://{address}"), reader, start..start + 3 * HOUR)
}

/// Backfills and compares with what was written; what the program said.
fn same(data: &Path, address: SocketAddr, reader: &str, start: TimeMs, value: impl Fn(i64) -> f64) -> Result<String> {
    let said = backfill(data, address, reader, start)?;
    let mut wanted = Bits::new();
    for (metric, gpu, n, time) in points(start) {
        let (uuid, gpu) = (format!("GPU-{gpu}"), gpu.to_string());
        let labels = Labels::new([("__name__", metric), ("UUID", &uuid), ("gpu", &gpu)]);
        if wanted.last().is_none_or(|(last, _)| *last != labels) {
            wanted.push((labels, Vec::new()));
        }
        wanted.last_mut().into_iter().for_each(|(_, samples)| samples.push((time, value(n).to_bits())));
    }
    wanted.sort_by(|a, b| a.0.cmp(&b.0));
    let found = bits(data)?;
    let counts =
        |all: &Bits| all.iter().map(|(labels, samples)| format!("{labels:?}: {}", samples.len())).collect::<Vec<_>>();
    ensure!(found == wanted, "{said}found {:#?}\nwanted {:#?}", counts(&found), counts(&wanted));
    let total: usize = wanted.iter().map(|(_, samples)| samples.len()).sum();
    let again = backfill(data, address, reader, start)?;
    ensure!(again.contains(&format!("{total}  there already, with the same value")), "{again}");
    Ok(said)
}

/// Metric, GPU, number and time of every sample, one series after the other: three hours, with samples at both ends.
fn points(start: TimeMs) -> impl Iterator<Item = (&'static str, i64, i64, TimeMs)> {
    let times = move || (0..3 * HOUR / STEP + 1).map(move |n| (n, start + n * STEP));
    METRICS
        .into_iter()
        .flat_map(move |metric| (0..2).flat_map(move |gpu| times().map(move |(n, time)| (metric, gpu, n, time))))
}

fn openmetrics(start: TimeMs, value: impl Fn(i64) -> f64) -> Result<String> {
    let mut text = String::new();
    for (metric, gpu, n, time) in points(start) {
        let seconds = format!("{}.{:03}", time / 1000, time % 1000);
        writeln!(text, "{metric}{{UUID=\"GPU-{gpu}\",gpu=\"{gpu}\"}} {:?} {seconds}", value(n))?;
    }
    Ok(text + "# EOF\n")
}
