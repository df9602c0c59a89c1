//! The real program: what it says to bad input, and that it starts, answers and stops.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::io::{BufRead, BufReader, Cursor, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Output, Stdio};

use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_store::{Ingest as _, Options, Store};

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_goodput-analyzer"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    program(args).output().unwrap()
}

/// What the program says when it refuses.
fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{args:?} is refused");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn five_mistakes_are_five_lines_and_nothing_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("goodput.yml");
    let text = "zone: Mars/Olympus\nscrape:\n- targets: [node1]\n  intervall: 5s\nthresholds: {idle_busy_ratio: 2}\n";
    std::fs::write(&file, text).unwrap();
    let data = dir.path().join("data");
    let (file, data_dir) = (file.to_str().unwrap(), data.to_str().unwrap());
    for command in ["serve", "check-config"] {
        let error = refused(&["--config.file", file, "--data.dir", data_dir, command]);
        assert_eq!(error.lines().count(), 5, "{error}");
        for line in error.lines() {
            assert!(line.contains("goodput.yml:"), "{line}");
        }
    }
    assert!(!data.try_exists().unwrap(), "no data directory was made");
}

#[test]
fn check_config_prints_what_holds() {
    let output = run(&["check-config"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("zone: UTC\nscrape: []\nstore:\n  head_bytes: 67108864\n"), "{text}");
    assert!(text.contains("  confidence_floor: 0.5\n"), "{text}");
    let quiet = run(&["check-config", "--quiet"]);
    assert!(quiet.status.success() && quiet.stdout.is_empty(), "{quiet:?}");
}

#[test]
fn a_wrong_week_and_a_missing_store_are_named() {
    assert_eq!(refused(&["report", "--week", "2027-W53"]), "goodput-analyzer: 2027-W53: 2027 has 52 ISO weeks\n");
    let error = refused(&["report", "--annex", "--format", "json"]);
    assert_eq!(error, "goodput-analyzer: --annex: expected only with --format html; the other forms have all of it\n");
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&["--data.dir", dir.path().to_str().unwrap(), "report", "--week", "2026-W47"]);
    assert!(error.contains("is this the --data.dir of serve?") && error.contains("goodput.db"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a report makes nothing");
}

#[test]
fn store_commands_look_on_beside_a_server_and_say_what_needs_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let [data, copy, back] = ["data", "copy", "back"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    let command = |dir: &str, words: &[&str]| run(&[&["--data.dir", dir, "store"], words].concat());
    let out = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let told = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();

    let none = command(&data, &["status"]);
    assert!(!none.status.success() && told(&none).contains("goodput.db"), "{none:?}");
    assert!(!command(&data, &["compact"]).status.success() && !std::fs::exists(&data).unwrap(), "nothing is made");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(filled(&data));
    assert!(out(&command(&data, &["status"])).contains("\nsegments                    2  "));
    let status: serde_json::Value = serde_json::from_str(&out(&command(&data, &["status", "--format=json"]))).unwrap();
    assert_eq!((&status["segments"]["samples"], &status["write_ahead"]["rows"]), (&2.into(), &1.into()));
    let good = "2 segments with 2 samples are good; 1 write-ahead rows were read\n";
    assert_eq!(out(&command(&data, &["verify"])), good);
    assert!(out(&command(&data, &["backup", &copy])).starts_with(&format!("{copy}: 2 segments, ")));
    let locked = command(&data, &["compact"]);
    assert!(!locked.status.success() && told(&locked).contains("in use by another goodput-analyzer"), "{locked:?}");
    assert!(told(&command(&data, &["restore", &copy])).contains("not empty"));
    runtime.block_on(store.close());

    assert!(out(&command(&data, &["compact"])).contains(" became 1 segments of "));
    assert_eq!(out(&command(&back, &["restore", &copy])), format!("{back}: 2 segments, 2 samples in them\n"));
    let bad = std::fs::read_dir(format!("{back}/segments")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&bad, b"torn").unwrap();
    let verified = command(&back, &["verify"]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(out(&verified).starts_with(&format!("{}: 4 bytes long, ", bad.display())), "{verified:?}");
    assert!(told(&verified).ends_with(": 1 bad\n"), "{verified:?}");
}

/// A store with two segments and a row in the write-ahead.
async fn filled(dir: &str) -> Store {
    let store = Store::open(Options { earliest: 0, ..Options::new(dir, |_| true) }).await.unwrap();
    for time_ms in 0..3 {
        let labels = Labels::new([("__name__", "kept")]);
        let series = Series { labels, samples: vec![Sample { time_ms, value: 0.5 }] };
        store.append([series].into_iter().collect()).await.unwrap();
        if time_ms < 2 {
            store.flush().await.unwrap();
        }
    }
    store
}

#[test]
fn why_says_what_is_wrong_with_a_target() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = refused(&["why", "--target", &nobody, "--for", "5s"]);
    assert!(error.contains(&nobody) && error.contains("Connection refused"), "{error}");

    let error = refused(&["why", "--target", &answering("<html>hello</html>\n"), "--for", "5s"]);
    assert!(error.contains("this is not a page of metrics") && error.contains("line 1"), "{error}");

    let error = refused(&["why", "--target", "node1", "--for", "5s"]);
    assert!(error.contains("HOST:PORT such as node1:9400"), "{error}");
}

/// As on a machine without the package ca-certificates.
fn without_authorities(args: &[&str]) -> Command {
    let mut command = program(args);
    command.env("SSL_CERT_FILE", "/dev/null").env_remove("SSL_CERT_DIR");
    command
}

#[test]
fn without_certificates_of_authorities_only_https_fails_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let told = |args: &[&str]| {
        let output = without_authorities(args).current_dir(&dir).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let page = answering("<html>hello</html>\n");
    let error = told(&["why", "--target", &page, "--for", "5s"]);
    assert!(error.contains("this is not a page of metrics"), "{error}");
    let backfill = |scheme: &str| {
        let url = format!("{scheme}://{page}");
        told(&["backfill", "--url", &url, "--start", "2026-11-16", "--end", "2026-11-17"])
    };
    let missing = "No CA certificates were loaded from the system; https needs certificates of authorities";
    assert!(backfill("http").contains("expected the answer of Prometheus' HTTP API"));
    assert!(backfill("https").contains(missing));

    let config = dir.path().join("goodput.yml");
    let text = "scrape:\n- {name: plain, targets: ['PAGE'], interval: 1s}\n\
                - {name: sealed, targets: ['PAGE'], interval: 1s, scheme: https}\n\
                report: {schedule: {weekday: monday, time: '06:00'}, webhook: {url: 'https://hooks.example/x'}}\n";
    std::fs::write(&config, text.replace("PAGE", &page)).unwrap();
    let mut server = Server::started(&mut without_authorities(&[
        "--data.dir",
        dir.path().join("data").to_str().unwrap(),
        "--config.file",
        config.to_str().unwrap(),
    ]));
    let mut failures = Vec::new();
    while failures.len() < 2 {
        let mut line = String::new();
        assert!(server.log.read_line(&mut line).unwrap() > 0, "the server ended: {failures:?}");
        failures.extend(line.contains("scrape failed").then_some(line));
    }
    failures.sort_by_key(|line| line.contains("https://"));
    assert!(failures[0].contains("http://") && !failures[0].contains("CA certificates"), "{failures:?}");
    assert!(failures[1].contains(&format!("https://{page}")) && failures[1].contains(missing), "{failures:?}");
}

/// A server that gives every request this body, until the test ends. Returns its address.
fn answering(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let request_head = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|l| !l.is_empty());
            assert!(request_head.count() > 0);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
        }
    });
    address
}

/// A running server, killed if the test fails.
struct Server {
    child: Child,
    /// From its first line on.
    log: Box<dyn BufRead>,
    address: String,
}

impl Server {
    fn started(command: &mut Command) -> Self {
        let args = ["--log.format", "json", "serve", "--web.listen-address", "127.0.0.1:0"];
        let mut child = command.args(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        // It scrapes before it listens.
        let mut early = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the server ended before it listened");
            early += &line;
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
            if let Some(address) = entry["fields"]["address"].as_str() {
                break address.to_owned();
            }
        };
        Self { child, log: Box::new(Cursor::new(early).chain(log)), address }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error says that it has ended, as it should.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serve_answers_refuses_a_second_one_and_stops_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let other = tempfile::tempdir().unwrap();
    let notified = other.path().join("notify");
    let systemd = UnixDatagram::bind(&notified).unwrap();
    let mut command = program(&["--data.dir", data_dir]);
    let mut server = Server::started(command.env("NOTIFY_SOCKET", &notified));
    let hears = |wanted: &str| {
        let mut buffer = [0; 4096];
        let length = systemd.recv(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..length]).contains(wanted));
    };
    hears("READY=1");
    assert!(server.get("/-/ready").starts_with("HTTP/1.1 200 "));
    assert!(server.get("/").contains("No samples have come in yet"));
    let report = server.get("/report");
    assert!(report.starts_with("HTTP/1.1 200 ") && report.contains("Nothing is stored yet"), "{report}");
    assert!(server.get("/report?week=2026-W47").starts_with("HTTP/1.1 404 "));

    let elsewhere = other.path().join("data");
    let taken = ["--data.dir", elsewhere.to_str().unwrap(), "serve", "--web.listen-address", &server.address];
    let error = refused(&taken);
    assert!(error.contains(&format!("cannot listen on {}", server.address)), "{error}");
    let error = refused(&["--data.dir", data_dir, "serve", "--web.listen-address", "127.0.0.1:0"]);
    assert!(error.contains("in use by another goodput-analyzer"), "{error}");
    let beside = run(&["--data.dir", data_dir, "report", "--week", "2026-W47"]);
    assert_eq!(beside.status.code(), Some(3), "a report can be asked for beside a running server");
    let error = String::from_utf8(beside.stderr).unwrap();
    assert!(error.contains("no data for 2026-W47. Nothing is judged yet"), "{error}");

    assert!(program_kill(server.child.id()).status.success());
    assert!(server.child.wait().unwrap().success());
    hears("STOPPING=1");
    let mut log = String::new();
    server.log.read_to_string(&mut log).unwrap();
    assert!(log.contains("stopped") && !log.contains("ERROR"), "{log}");
}

/// SIGTERM, as systemd sends it.
#[allow(clippy::disallowed_methods, reason = "the standard library cannot send a signal")]
fn program_kill(pid: u32) -> Output {
    Command::new("kill").args(["-TERM", &pid.to_string()]).output().unwrap()
}

/// Ten minutes of a GPU at work and of a free one, with this truth of them.
fn trace(dir: &std::path::Path, truth: &str) {
    let mut metrics = String::new();
    for (name, values) in [("GPU_UTIL", [100, 0]), ("FB_USED", [40_000, 0])] {
        for (gpu, value) in values.into_iter().enumerate() {
            let labels = format!("gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",hostname=\"n1\"");
            for second in (0..=600).step_by(30) {
                metrics += &format!("DCGM_FI_DEV_{name}{{{labels}}} {value} {}\n", 1_795_262_400 + second);
            }
        }
    }
    std::fs::write(dir.join("metrics.om"), metrics + "# EOF\n").unwrap();
    let header = "entity,start,end,class,charged_to,also,note\n";
    std::fs::write(dir.join("truth.csv"), format!("{header}{truth}")).unwrap();
}

const TIMES: &str = "2026-11-21T12:00:00Z,2026-11-21T12:10:00Z";

#[test]
fn evaluate_counts_what_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let (path, verdicts) = (dir.path().to_str().unwrap(), dir.path().join("verdicts.csv"));
    trace(dir.path(), &format!("n1/gpu0,{TIMES},productive,,,\nn1/gpu1,{TIMES},straggler,n1/gpu0,unallocated,\n"));
    let output = run(&["evaluate", "--format", "json", "--dump", verdicts.to_str().unwrap(), path]);
    assert!(output.status.success(), "{output:?}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["all"]["macro_f1"], &result["all"]["total_ms"]), (&1.0.into(), &1_200_000.into()), "{result}");
    assert_eq!(result["baseline"]["confusion"]["straggler"]["idle_held"], 600_000, "{result}");
    let culprits = &result["culprits"];
    assert_eq!((&culprits["told_ms"], &culprits["right_ms"]), (&0.into(), &0.into()), "{result}");
    let none_told = serde_json::json!({
        "told_ms": 0, "culprit_right_ms": 0, "cause_told_ms": null, "cause_right_ms": null
    });
    assert_eq!(culprits["classes"], serde_json::json!({ "straggler": none_told }), "{result}");
    let verdicts = std::fs::read_to_string(verdicts).unwrap();
    let first = format!("n1/gpu0,2026-11-21T12:00:00Z,2026-11-21T12:01:00Z,productive,1,{path},,0.5000,,");
    // The straggler is claimed at 0.75, the work at 0.5.
    let band = &result["all"]["calibration"]["bands"][1];
    assert_eq!((&band["from"], &band["claimed_ms"]), (&0.75.into(), &600_000.into()), "{result}");
    assert_eq!((&band["right_share"], &band["share_of_right"]), (&1.0.into(), &0.5.into()), "{result}");
    assert_eq!(
        verdicts.lines().take(2).collect::<Vec<_>>(),
        ["entity,start,end,class,weight,trace,charged_to,confidence,cause,which", &first]
    );
}

#[test]
fn evaluate_fails_below_the_floor_and_names_what_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert!(refused(&["evaluate", path]).contains("no trace in it"), "an empty folder");
    trace(dir.path(), &format!("n1/gpu0,{TIMES},productive,,,\nn1/gpu1,{TIMES},idle_held,,,\n"));
    assert!(run(&["evaluate", "--floor", "0.5", path]).status.success());
    let error = refused(&["evaluate", "--floor", "0.9", path]);
    assert_eq!(error, "goodput-analyzer: macro-F1 is 0.500, below the floor of 0.9\n");
    trace(dir.path(), &format!("n1/gpu0,{TIMES},productive,,,\nn1/gpu7,{TIMES},productive,,,\n"));
    let error = refused(&["evaluate", path]);
    let expected = "truth.csv:3: entity: n1/gpu7 joins no GPU of metrics.om; its series have n1/gpu0, n1/gpu1\n";
    assert!(error.ends_with(expected), "{error}");
    std::fs::write(dir.path().join("metrics.om"), "up 1\n# EOF\n").unwrap();
    assert!(
        refused(&["evaluate", path]).contains("metrics.om:1: expected a timestamp in seconds after the value of up")
    );
}
