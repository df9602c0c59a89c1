//! Both programs while others try to silence them: idle connections, half requests, senders that announce much and send
//! nothing, and guessers of passwords, all at once. Honest clients are served all the while.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::remote_write::{TimeSeries, WriteRequest};
use goodput_tests::programs::{Analyzer, Exporter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// bcrypt of `secret`, of the least cost.
const HASH: &str = "$2b$04$ewdVXfOPC4Xqcm9pD68GFOxc2k.eEumN4D.i00AmtxOxfpPuZG3Te";

/// How often each honest client asks while the others are at it.
const ASKED: usize = 20;

const PATIENCE: Duration = Duration::from_secs(120);

/// A connection from this address of the loopback network.
async fn connect(from: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::from([127, 0, 0, from]), 0))?;
    socket.connect(to).await
}

fn basic(password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("alice:{password}")))
}

/// Status and body of what is answered to one request on a connection of its own.
async fn exchange(from: u8, to: SocketAddr, head: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
    let mut stream = connect(from, to).await?;
    let head = format!("{head}Host: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.unwrap_or(0), answer))
}

async fn get(from: u8, to: SocketAddr, path: &str, password: &str) -> std::io::Result<(u16, String)> {
    exchange(from, to, &format!("GET {path} HTTP/1.1\r\n{}", basic(password)), b"").await
}

/// Those who would silence the server. They end with it.
struct Siege {
    _idle: Vec<TcpStream>,
    guessers: JoinSet<()>,
    guessed: Arc<AtomicUsize>,
}

async fn besiege(server: SocketAddr) -> Siege {
    let mut idle = Vec::new();
    for n in 0..1024 {
        let mut stream = connect(1, server).await.unwrap();
        // Every second one is in the middle of a head. The server may have closed it already, to make room.
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ").await;
        }
        idle.push(stream);
    }
    for _ in 0..140 {
        idle.push(connect(2, server).await.unwrap());
    }
    for n in 0..16 {
        let mut liar = connect(3 + n % 2, server).await.unwrap();
        let head =
            format!("POST /api/v1/write HTTP/1.1\r\nHost: x\r\n{}Content-Length: 16777216\r\n\r\n", basic("secret"));
        let _ = liar.write_all(head.as_bytes()).await;
        idle.push(liar);
    }
    let (mut guessers, guessed) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for n in 0..100 {
        let guessed = Arc::clone(&guessed);
        guessers.spawn(async move {
            for guess in 0.. {
                // Those who wait for longer than a moment for their answer try another password.
                let answer = timeout(Duration::from_secs(1), get(5, server, "/metrics", &format!("{n}-{guess}"))).await;
                assert!(!matches!(answer, Ok(Ok((200, _)))), "a wrong password was right");
                guessed.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    Siege { _idle: idle, guessers, guessed }
}

impl Siege {
    async fn until_guessed(&self, count: usize) {
        while self.guessed.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    }

    async fn end(mut self) {
        self.guessers.shutdown().await;
    }
}

/// The reasons that hold in [`besiege`], and for which peer.
const HELD: [(&str, &str); 2] = [("peer_connections", "127.0.0.1"), ("unauthenticated", "127.0.0.5")];

/// A page of metrics that counts each of the reasons more than once. The exporter's page is that of its last collection,
/// which may be older than what is counted: it is asked for until a newer one is there.
async fn page_that_counts(server: SocketAddr, metric: &str) -> String {
    let counts = |page: &str, reason: &str| {
        let line = format!("{metric}{{reason=\"{reason}\"}} ");
        page.lines()
            .find_map(|found| found.strip_prefix(&line))
            .is_some_and(|count| count.parse::<f64>().unwrap() > 1.0)
    };
    let counted = async {
        loop {
            let (status, page) = get(6, server, "/metrics", "secret").await.unwrap();
            assert_eq!(status, 200, "{page}");
            if HELD.iter().all(|(reason, _)| counts(&page, reason)) {
                return page;
            }
        }
    };
    timeout(PATIENCE, counted).await.unwrap_or_else(|_| panic!("{metric} does not count each of {HELD:?}"))
}

/// Every reason that holds is named for its peer once.
fn each_is_named_once(log: &str) {
    for (reason, peer) in HELD {
        let peer = format!("peer={peer}");
        let is_it = |line: &&str| line.contains(reason) && line.split(' ').any(|word| word == peer);
        let named: Vec<_> = log.lines().filter(is_it).collect();
        assert_eq!(named.len(), 1, "{reason} of {peer}: {named:?}\n{log}");
    }
}

fn web_config(dir: &Path) -> String {
    let path = dir.join("web.yml");
    fs::write(&path, format!("basic_auth_users: {{alice: '{HASH}'}}\n")).unwrap();
    format!("--web.config.file={}", path.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exporter_is_scraped_throughout() {
    goodput_web::raise_descriptor_limit();
    let dir = tempfile::tempdir().unwrap();
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let exporter = Exporter::start_with(dir.path(), &node, &[web_config(dir.path())]).unwrap();
    let siege = besiege(exporter.address).await;
    siege.until_guessed(100).await;
    // From an address of its own, and from that of the guessers.
    for from in [6, 5] {
        for _ in 0..ASKED {
            let answer = timeout(PATIENCE, get(from, exporter.address, "/metrics", "secret")).await.unwrap().unwrap();
            assert_eq!(answer.0, 200, "{}", exporter.running.log_text());
        }
    }
    siege.end().await;
    let page = page_that_counts(exporter.address, "goodput_exporter_http_refused_total").await;
    assert!(page.contains("DCGM_FI_DEV_GPU_TEMP{"), "{page}");
    each_is_named_once(&exporter.running.log_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_analyzer_takes_samples_and_shows_pages_throughout() {
    goodput_web::raise_descriptor_limit();
    let dir = tempfile::tempdir().unwrap();
    let analyzer = Analyzer::start_with_arguments(dir.path(), "", &[web_config(dir.path())]).unwrap();
    let siege = besiege(analyzer.address).await;
    siege.until_guessed(100).await;
    let now = goodput_store::wall_clock();
    for from in [6, 5] {
        for n in 0..ASKED {
            let head = format!("POST /api/v1/write HTTP/1.1\r\n{}", basic("secret"));
            let labels = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", "GPU-a"), ("Hostname", "n1")];
            let time = now - 60_000 + (i64::from(from) * 100 + n as i64) * 10;
            let sent = WriteRequest { timeseries: vec![TimeSeries::new(&labels, [(time, 50.0)])] }.body().unwrap();
            let answer = timeout(PATIENCE, exchange(from, analyzer.address, &head, &sent)).await.unwrap().unwrap();
            assert_eq!(answer.0, 204, "{answer:?}");
            for path in ["/metrics", "/", "/-/ready"] {
                let answer = timeout(PATIENCE, get(from, analyzer.address, path, "secret")).await.unwrap().unwrap();
                assert_eq!(answer.0, 200, "{path}: {answer:?}");
            }
        }
    }
    siege.end().await;
    let page = page_that_counts(analyzer.address, "goodput_analyzer_http_refused_total").await;
    assert!(page.contains("goodput_analyzer_received_samples_total{outcome=\"stored\"} "), "{page}");
    each_is_named_once(&analyzer.running.log_text());
}
