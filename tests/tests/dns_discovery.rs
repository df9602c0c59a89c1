//! The analyzer finds exporters by name: a small DNS server plays that of a cluster with a headless Service.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use goodput_lab::bin;
use goodput_lab::process::{Running, free_address, until};
use goodput_tests::programs::Analyzer;
use goodput_tests::scrape::serve_at;

const PATIENCE: Duration = Duration::from_secs(60);

/// Where the server listens. Resolvers know one port.
const SERVER: &str = "127.0.53.53:53";

/// The only name that it knows. Others do not exist.
const NAME: &str = "exporter.gpu.svc.cluster.test";

/// Record types (RFC 1035, RFC 2782).
const A: u8 = 1;
const SRV: u8 = 33;

/// What the server answers.
#[derive(Clone)]
enum Answer {
    /// These addresses, for an A record.
    Addresses(Vec<Ipv4Addr>),
    /// Services of `localhost` on these ports, for an SRV record.
    Services(Vec<u16>),
    /// A code alone: 2 is SERVFAIL, 3 is NXDOMAIN.
    Code(u8),
}

/// Serves until the test ends.
fn serve_names() -> Arc<Mutex<Answer>> {
    let answer = Arc::new(Mutex::new(Answer::Code(3)));
    let (socket, current) = (UdpSocket::bind(SERVER).unwrap(), Arc::clone(&answer));
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let response = respond(&query[..length], current.lock().unwrap().clone());
            let _ = socket.send_to(&response, client);
        }
    });
    answer
}

fn respond(query: &[u8], answer: Answer) -> Vec<u8> {
    // After the header of 12 bytes come labels with their lengths, a zero, type and class.
    let (mut at, mut name) = (12, Vec::new());
    while query[at] > 0 {
        let end = at + 1 + usize::from(query[at]);
        name.push(String::from_utf8_lossy(&query[at + 1..end]).into_owned());
        at = end;
    }
    let (question, kind) = (&query[12..at + 5], query[at + 2]);
    let (code, records): (u8, Vec<Vec<u8>>) = match answer {
        _ if name.join(".") != NAME => (3, Vec::new()),
        Answer::Addresses(addresses) if kind == A => (0, addresses.iter().map(|a| a.octets().to_vec()).collect()),
        Answer::Services(ports) if kind == SRV => (0, ports.into_iter().map(service).collect()),
        Answer::Addresses(_) | Answer::Services(_) => (0, Vec::new()),
        Answer::Code(code) => (code, Vec::new()),
    };
    let count = u8::try_from(records.len()).unwrap();
    let mut response = [&query[..2], &[0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
    for record in records {
        // The name of the question, the type, IN, 1 s, the length.
        response.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 1, 0, u8::try_from(record.len()).unwrap()]);
        response.extend(record);
    }
    response
}

/// Priority and weight 0, the port, and the host `localhost.`.
fn service(port: u16) -> Vec<u8> {
    [&[0; 4][..], &port.to_be_bytes(), &[9], b"localhost", &[0]].concat()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
fn the_analyzer_scrapes_what_dns_names() {
    let dir = tempfile::tempdir().unwrap();
    let pods = [Ipv4Addr::new(127, 0, 53, 1), Ipv4Addr::new(127, 0, 53, 2)];
    let port = serve_at((pods[0], 0).into(), "kept 1\n").unwrap().port();
    serve_at((pods[1], port).into(), "kept 1\n").unwrap();
    let service_port = serve_at((Ipv4Addr::LOCALHOST, 0).into(), "kept 1\n").unwrap().port();
    let names = serve_names();

    let [resolv, config, data] = ["resolv.conf", "analyzer.yml", "data"].map(|name| dir.path().join(name));
    let address = free_address().unwrap();
    let server = SERVER.trim_end_matches(":53");
    let search = "search gpu.svc.cluster.test svc.cluster.test cluster.test";
    fs::write(&resolv, format!("nameserver {server}\n{search}\noptions ndots:5 timeout:1 attempts:1\n")).unwrap();
    let found = format!("{{names: [exporter.gpu.svc], type: A, port: {port}, refresh_interval: 1s}}");
    let services = "{names: [exporter.gpu.svc], refresh_interval: 1s}";
    let job = format!("{{name: gpus, interval: 1s, dns_sd_configs: [{found}, {services}]}}");
    fs::write(&config, format!("scrape:\n- {job}\n")).unwrap();
    // In a mount namespace of its own the resolver reads another file.
    let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&resolv).arg(bin("goodput-analyzer").unwrap()).arg("serve");
    command.arg(format!("--config.file={}", config.display())).arg(format!("--web.listen-address={address}"));
    command.arg(format!("--data.dir={}", data.display()));
    let mut running = Running::start(&mut command, &dir.path().join("log")).unwrap();
    running.until_listens(address).unwrap();

    let analyzer = Analyzer { address, running, data };
    let metric = |series: &str| anyhow::Ok(analyzer.metric(series)?.unwrap_or(0.0));
    let targets = |wanted: f64| {
        let are = || Ok((metric("goodput_analyzer_scrape_targets{job=\"gpus\"}")? == wanted).then_some(()));
        until(&format!("{wanted} targets"), PATIENCE, are).unwrap();
    };
    let say = |answer: Answer| *names.lock().unwrap() = answer;
    let failures = || metric("goodput_analyzer_discovery_failures_total{job=\"gpus\",way=\"dns\"}");

    say(Answer::Addresses(pods[..1].to_vec()));
    targets(1.0);
    say(Answer::Addresses(pods.to_vec()));
    targets(2.0);
    let scrapes = || metric("goodput_analyzer_scrapes_total{job=\"gpus\",outcome=\"taken\"}");
    let taken = || Ok((scrapes()? > 3.0).then_some(()));
    until("scrapes", PATIENCE, taken).unwrap();
    assert_eq!(failures().unwrap(), 0.0, "{}", analyzer.running.log_text());
    say(Answer::Code(2));
    until("a failed look-up", PATIENCE, || Ok((failures()? > 0.0).then_some(()))).unwrap();
    targets(2.0);
    // A headless Service without pods.
    say(Answer::Code(3));
    targets(0.0);
    say(Answer::Services(vec![service_port]));
    targets(1.0);
    let failed = failures().unwrap();
    say(Answer::Code(2));
    until("failed look-ups", PATIENCE, || Ok((failures()? > failed + 3.0).then_some(()))).unwrap();
    targets(1.0);
    let before = scrapes().unwrap();
    let taken = || Ok((scrapes()? > before).then_some(()));
    until("scrapes of a service", PATIENCE, taken).unwrap();
}
