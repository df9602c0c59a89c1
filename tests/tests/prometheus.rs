//! A real Prometheus scrapes the real exporter.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use goodput_lab::gpu::{Calls, FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_tests::programs::Exporter;
use goodput_tests::prometheus::Prometheus;

const PATIENCE: Duration = Duration::from_secs(60);

/// How long the driver hangs in the test of it.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn prometheus_takes_both_formats() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let exporter = Exporter::start(dir.path(), &FakeNode::new(dir.path(), &NodeSpec::h100(1))?)?;
    let relay = plain_text_relay(exporter.address)?;
    let prometheus = Prometheus::start(dir.path(), &[("openmetrics", exporter.address), ("text", relay)], None)?;

    for query in ["up", "goodput_exporter_build_info", "DCGM_FI_DEV_GPU_TEMP > bool 0"] {
        let both = until(query, PATIENCE, || {
            let series = prometheus.query(query)?;
            Ok((series.len() == 2).then_some(series))
        })?;
        assert!(both.iter().all(|series| series["value"][1] == "1"), "{query}: {both:?}");
    }

    // What each job was served: OpenMetrics names a counter's family without _total and tells its unit.
    for (job, family, unit) in
        [("openmetrics", "process_cpu_seconds", "seconds"), ("text", "process_cpu_seconds_total", "")]
    {
        let found = until(family, PATIENCE, || prometheus.metadata(job, family))?;
        assert_eq!((&found["type"], &found["unit"]), (&"counter".into(), &unit.into()), "{job}");
    }
    Ok(())
}

#[test]
fn a_hanging_gpu_costs_its_own_families_and_says_so() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(8))?;
    let exporter = Exporter::start(dir.path(), &node)?;
    let prometheus = Prometheus::start(dir.path(), &[("goodput", exporter.address)], None)?;
    let reaches = |query: &str, wanted: f64| {
        until(&format!("{query} to be {wanted}"), PATIENCE, || {
            Ok((prometheus.value(query)? == Some(wanted)).then_some(()))
        })
    };
    reaches("count(DCGM_FI_DEV_GPU_TEMP)", 8.0)?;

    let calls = Calls::all().on(3);
    node.hang(&calls, None)?;
    reaches("goodput_gpu_state{gpu=\"3\",state=\"stale\"}", 1.0)?;
    reaches("count(DCGM_FI_DEV_GPU_TEMP)", 7.0)?;
    // The promise is about a hang of a minute.
    thread::sleep(HANG);
    let value = |query: &str| prometheus.value(query)?.with_context(|| format!("{query} gives nothing"));
    assert_eq!(value("min_over_time(up[60s])")?, 1.0);
    assert_eq!(value("min_over_time(count(DCGM_FI_DEV_GPU_TEMP{gpu!=\"3\"})[60s:1s])")?, 7.0);
    assert_eq!(value("max_over_time(count(DCGM_FI_DEV_GPU_TEMP{gpu=\"3\"})[50s:1s]) or vector(0)")?, 0.0);
    assert!(value("max(max_over_time(goodput_gpu_reading_age_seconds{gpu!=\"3\"}[60s]))")? < 10.0);
    assert!(value("goodput_gpu_reading_age_seconds{gpu=\"3\"}")? > HANG.as_secs_f64());
    let scrapes = value("count_over_time(up[60s])")?;
    assert!(value("count_over_time(goodput_node_cpu_seconds_total{mode=\"user\"}[60s])")? >= scrapes - 1.0);

    node.clear(&calls)?;
    reaches("count(DCGM_FI_DEV_GPU_TEMP)", 8.0)?;
    reaches("goodput_gpu_state{gpu=\"3\",state=\"ok\"}", 1.0)
}

/// A relay that asks `upstream` for plain text, whatever the client wanted: Prometheus before 2.49 cannot be told to.
fn plain_text_relay(upstream: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // A client that gives up early is the client's affair.
            let _ = relay(client, upstream);
        }
    });
    Ok(address)
}

fn relay(mut client: TcpStream, upstream: SocketAddr) -> Result<()> {
    let mut request = String::new();
    for line in BufReader::new(&client).lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !["accept", "connection"].contains(&name.as_str()) {
            request += &format!("{line}\r\n");
        }
    }
    request += "Accept: text/plain;version=0.0.4\r\nConnection: close\r\n\r\n";
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(request.as_bytes())?;
    std::io::copy(&mut server, &mut client)?;
    Ok(())
}
