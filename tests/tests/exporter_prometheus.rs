//! A real Prometheus scrapes the real exporter, in both text formats.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends where its world is broken")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// A program that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[allow(clippy::disallowed_methods, reason = "the programs under test")]
fn program(path: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The exporter on a free port, and its address.
fn exporter() -> (Running, String) {
    let mut child = program(goodput_tests::bin("goodput-exporter").unwrap())
        .args(["--web.listen-address=127.0.0.1:0", "--nvml.library=/no/such/libnvidia-ml.so"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = child.stderr.take().unwrap();
    let running = Running(child);
    let mut lines = BufReader::new(log).lines();
    let address = lines.find_map(|line| {
        let address = line.unwrap().split_once("listening on http://")?.1.split('/').next()?.to_owned();
        Some(address)
    });
    // The pipe is read on, so that the exporter can go on writing.
    thread::spawn(move || lines.for_each(drop));
    (running, address.expect("the exporter says where it listens"))
}

/// A relay that asks `upstream` for plain text, whatever the client wanted: Prometheus before 2.49 cannot be told to.
fn plain_text_relay(upstream: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut request = String::new();
            for line in BufReader::new(&client).lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
                if !["accept", "connection"].contains(&name.as_str()) {
                    request += &format!("{line}\r\n");
                }
            }
            request += "Accept: text/plain;version=0.0.4\r\nConnection: close\r\n\r\n";
            let mut server = TcpStream::connect(&upstream).unwrap();
            server.write_all(request.as_bytes()).unwrap();
            let _ = std::io::copy(&mut server, &mut client);
        }
    });
    address
}

/// A Prometheus API call; `None` while it does not answer.
fn api(address: &str, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    // HTTP/1.0, so that the body comes in one piece.
    write!(stream, "GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    (body["status"] == "success").then(|| body["data"].clone())
}

/// Asks until the answer is as wanted; panics with the last answer after a minute.
fn until<T>(ask: impl Fn() -> Option<Value>, wanted: impl Fn(&Value) -> Option<T>) -> T {
    let mut last = None;
    for _ in 0..600 {
        last = ask();
        if let Some(found) = last.as_ref().and_then(&wanted) {
            return found;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("not within a minute; the last answer was {last:#?}");
}

/// The value of an instant query with one series per job, once both jobs have one.
fn both(prometheus: &str, query: &str) -> Vec<(String, String)> {
    until(
        || api(prometheus, &format!("query?query={query}")),
        |data| {
            let series = data["result"].as_array().filter(|series| series.len() == 2)?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            series.iter().map(|s| Some((text(&s["metric"]["job"])?, text(&s["value"][1])?))).collect()
        },
    )
}

#[test]
fn prometheus_takes_both_formats() {
    let (_exporter, address) = exporter();
    let relay = plain_text_relay(address.clone());
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs:\n\
         - {{job_name: openmetrics, static_configs: [{{targets: ['{address}']}}]}}\n\
         - {{job_name: text, static_configs: [{{targets: ['{relay}']}}]}}\n"
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let prometheus = program("prometheus")
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={free}"))
        .spawn();
    let _prometheus = Running(prometheus.expect("this test needs prometheus (Debian: prometheus)"));

    let up = until(
        || api(&free, "targets"),
        |data| {
            let targets = data["activeTargets"].as_array()?;
            let scraped = targets.iter().all(|target| target["health"] != "unknown") && targets.len() == 2;
            scraped.then(|| targets.iter().map(|t| (t["health"].clone(), t["lastError"].clone())).collect::<Vec<_>>())
        },
    );
    assert!(up.iter().all(|target| *target == ("up".into(), "".into())), "{up:?}");
    for query in ["up", "goodput_exporter_build_info", "sum%20by%20(job)(process_cpu_seconds_total%3E%3D0)^0"] {
        let values = both(&free, query);
        assert!(values.iter().all(|(_, value)| value == "1"), "{query}: {values:?}");
    }

    // What each job was served: OpenMetrics names a counter's family without _total and tells its unit.
    for (job, family, unit) in
        [("openmetrics", "process_cpu_seconds", "seconds"), ("text", "process_cpu_seconds_total", "")]
    {
        let path = format!("targets/metadata?match_target=%7Bjob%3D%22{job}%22%7D&metric={family}");
        let found = until(|| api(&free, &path), |data| data.as_array()?.first().cloned());
        assert_eq!((&found["type"], &found["unit"]), (&"counter".into(), &unit.into()), "{job}");
    }
}
