//! The server over real sockets on loopback.

mod doors;
mod release;

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::mpsc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::attribute::Owners;
use crate::collect::{CollectError, Collector, Done, Entry};
use crate::context::Context;
use crate::scrape::Setup;
use crate::source::nvml::{Driver, Search, Snapshot};
use goodput_exposition::Families;

/// A running server, stopped when the test drops it.
struct Running {
    address: SocketAddr,
    app: Arc<App>,
    web: Arc<WebConfig>,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
}

fn config(args: &[&str]) -> Config {
    let args = ["goodput-exporter", "--web.listen-address=127.0.0.1:0"].into_iter().chain(args.iter().copied());
    match Config::read(&[], args.map(Into::into), &|_| None) {
        Ok(config) => config,
        Err(error) => panic!("{error:?}"),
    }
}

fn absent() -> Gpus {
    let snapshot = Arc::new(Snapshot { driver: Driver::Absent { reason: "none".into() }, ..Snapshot::default() });
    Arc::new(move || snapshot.clone())
}

fn no_library() -> Arc<Nvml> {
    Arc::new(Nvml::start(Search::File("/nowhere/libnvidia-ml.so.1".into())))
}

fn scraper(config: &Config, collectors: Vec<&'static Entry>, gpus: &Gpus) -> Scraper {
    Scraper::start(Setup {
        collectors,
        roots: Arc::new(config.roots()),
        gpus: gpus.clone(),
        resolve: Arc::new(|_, _| Owners::default()),
        hostname: "node".into(),
        style: config.style(),
        dcgm: Arc::default(),
        nccl: Arc::default(),
        counters: config.counters.clone(),
        relay: config.relay_url.clone(),
        reuse: Duration::ZERO,
        refusals: Arc::default(),
    })
    .unwrap()
}

async fn start_with(args: &[&str], collectors: Vec<&'static Entry>, gpus: Gpus, limits: Limits) -> Running {
    let config = config(args);
    let scraper = scraper(&config, collectors, &gpus);
    let server = Server::bind(&config, scraper, gpus, no_library(), limits).await.unwrap();
    let address = server.server.places().next().unwrap().parse().unwrap();
    let (app, web) = (server.app.clone(), server.web.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async move {
        let _ = stopped.await;
    }));
    Running { address, app, web, stop: Some(stop), ended }
}

async fn start(args: &[&str]) -> Running {
    start_with(args, Vec::new(), absent(), Limits::exporter()).await
}

impl Running {
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        exchange(stream, &request("GET", path, headers)).await
    }

    async fn until_ready(&self) {
        eventually(async || self.get("/-/ready", &[]).await.status == 200).await;
    }

    /// A scrape that has begun and waits at the gate of a [`Held`] collector, with what opens the gate when it is dropped.
    async fn held_scrape(&self, gate: &Gate) -> (mpsc::Sender<()>, JoinHandle<Answer>) {
        self.until_ready().await;
        let (open, wait) = mpsc::channel();
        *gate.lock() = Some(wait);
        let address = self.address;
        let running = tokio::spawn(async move {
            exchange(TcpStream::connect(address).await.unwrap(), &request("GET", "/metrics", &[])).await
        });
        eventually(async || self.app.scraper.collecting_for().is_some()).await;
        (open, running)
    }

    async fn stop(mut self) {
        self.stop.take();
        self.ended.await.unwrap();
    }
}

/// Polls until something holds for which the test gets no signal.
async fn eventually(holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), waiting).await.unwrap();
}

/// A response, taken apart.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text + "\r\n"
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A TLS server may refuse a client instead of answering.
    let _ = stream.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = bytes[end..].to_vec();
    let body = if head.contains("transfer-encoding: chunked") { unchunk(&body) } else { body };
    Answer { status, head, body }
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let line = body.windows(2).position(|w| w == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return out;
        }
        out.extend_from_slice(&body[line + 2..line + 2 + size]);
        body = &body[line + 2 + size + 2..];
    }
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_asked_for() {
    let server = start(&[]).await;
    let text = server.get("/metrics", &[]).await;
    assert_eq!(text.status, 200);
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(text.header("vary").unwrap().contains("Accept"), "{}", text.head);
    assert!(text.text().contains("\n# TYPE process_cpu_seconds_total counter\n"));
    assert!(!text.text().contains("# EOF"));

    let open = server.get("/metrics", &[("Accept", "application/openmetrics-text;version=1.0.0")]).await;
    assert_eq!(open.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(open.text().ends_with("\n# EOF\n"));
    server.stop().await;
}

#[tokio::test]
async fn gzip_is_sent_to_those_who_take_it() {
    let server = start(&[]).await;
    let answer = server.get("/metrics", &[("Accept-Encoding", "gzip")]).await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let vary: Vec<_> = answer.head.lines().filter(|line| line.starts_with("vary")).collect();
    assert!(vary.concat().contains("Accept") && vary.concat().contains("accept-encoding"), "{}", answer.head);
    let mut text = String::new();
    flate2::read::GzDecoder::new(answer.body.as_slice()).read_to_string(&mut text).unwrap();
    assert!(text.contains("goodput_exporter_build_info{"));
    server.stop().await;
}

#[tokio::test]
async fn every_path_answers_and_head_has_no_body() {
    let server = start(&["--web.telemetry-path=/my/metrics"]).await;
    server.until_ready().await;
    for (path, status) in [
        ("/my/metrics", 200),
        ("/", 200),
        ("/health", 200),
        ("/-/healthy", 200),
        ("/-/ready", 200),
        ("/metrics", 404),
        ("/nosuch", 404),
    ] {
        let get = server.get(path, &[]).await;
        assert_eq!(get.status, status, "{path}");
        assert!(get.header("content-type").is_some() && !get.body.is_empty(), "{path}");
        let stream = TcpStream::connect(server.address).await.unwrap();
        let head = exchange(stream, &request("HEAD", path, &[])).await;
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
    }
    let stream = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(exchange(stream, &request("POST", "/my/metrics", &[])).await.status, 405);
    let landing = server.get("/", &[]).await;
    assert!(landing.text().contains("href=\"/my/metrics\"") && landing.text().contains(crate::scrape::VERSION));
    assert!(landing.header("content-security-policy").is_some());
    server.stop().await;
}

/// A GPU reader whose answer the test changes.
fn changing() -> (Arc<Mutex<Arc<Snapshot>>>, Gpus) {
    let state = Arc::new(Mutex::new(Arc::new(Snapshot::default())));
    let read = state.clone();
    (state, Arc::new(move || read.lock().clone()))
}

#[tokio::test]
async fn readiness_waits_for_the_driver_but_metrics_do_not() {
    let (state, gpus) = changing();
    let server = start_with(&[], Vec::new(), gpus, Limits::exporter()).await;
    assert_eq!(server.get("/-/ready", &[]).await.status, 503);
    assert_eq!(server.get("/-/healthy", &[]).await.status, 200);
    assert_eq!(server.get("/metrics", &[]).await.status, 200);
    *state.lock() = (absent())();
    server.until_ready().await;
    *state.lock() = Arc::new(Snapshot::default());
    assert_eq!(server.get("/-/ready", &[]).await.status, 200, "once ready, always ready");
    server.stop().await;
}

/// A collector that waits until its gate is dropped.
struct Held(&'static Gate);

type Gate = Mutex<Option<mpsc::Receiver<()>>>;

impl Collector for Held {
    fn collect(&mut self, _: &Context, _: &mut Families) -> Result<Done, CollectError> {
        if let Some(wait) = &*self.0.lock() {
            let _ = wait.recv();
        }
        Ok(Done::Ok)
    }
}

const fn held(new: fn() -> Box<dyn Collector>) -> Entry {
    Entry { name: "held", about: "Waits.", default: true, deadline: Duration::from_secs(60), new }
}

#[tokio::test]
async fn too_many_scrapes_are_refused_and_impatient_ones_end() {
    static GATE: Gate = Mutex::new(None);
    static HELD: Entry = held(|| Box::new(Held(&GATE)));
    let (open, wait) = mpsc::channel::<()>();
    *GATE.lock() = Some(wait);
    let server = start_with(&["--web.max-requests=1"], vec![&HELD], absent(), Limits::exporter()).await;
    // The first scrape, which the server makes by itself, is now held.
    eventually(async || server.app.scraper.collecting_for().is_some()).await;
    let impatient = server.get("/metrics", &[("X-Prometheus-Scrape-Timeout-Seconds", "0.02")]).await;
    assert_eq!(impatient.status, 503);
    assert!(impatient.text().contains("timeout"), "{impatient:?}");

    let address = server.address;
    let patient = tokio::spawn(async move {
        exchange(TcpStream::connect(address).await.unwrap(), &request("GET", "/metrics", &[])).await
    });
    eventually(async || server.app.requests.available_permits() == 0).await;
    let refused = server.get("/metrics", &[]).await;
    assert_eq!((refused.status, refused.text()), (503, "too many requests at the same time\n"));
    assert_eq!(server.get("/health", &[]).await.status, 200);
    drop(open);
    assert_eq!(patient.await.unwrap().status, 200);
    server.stop().await;
}

#[tokio::test]
async fn slow_and_oversized_requests_are_cut() {
    let limits = Limits { header: Duration::from_millis(50), ..Limits::exporter() };
    let server = start_with(&[], Vec::new(), absent(), limits).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    assert!(!String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 200"));

    let large = "x".repeat(20_000);
    assert_eq!(server.get("/metrics", &[("X-Large", &large)]).await.status, 431);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_closed() {
    let limits = Limits { age: Duration::from_millis(50), ..Limits::exporter() };
    let server = start_with(&[], Vec::new(), absent(), limits).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
    server.stop().await;
}

/// Does the server close the connection that was idle?
async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_))
}

async fn refused(server: &Running, reason: &str) -> u32 {
    let text = server.get("/metrics", &[]).await;
    let line = format!("goodput_exporter_http_refused_total{{reason=\"{reason}\"}} ");
    text.text().lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn idle_connections_of_one_address_never_keep_a_scrape_out() {
    let limits = Limits { connections: 20, of_peer: 10, ..Limits::exporter() };
    let server = start_with(&[], Vec::new(), absent(), limits).await;
    server.until_ready().await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    // From the same address as those, and they are not counted as refused before they are accepted.
    assert_eq!(server.get("/metrics", &[]).await.status, 200);
    for stream in &mut idle[..31] {
        assert!(is_closed(stream).await);
    }
    assert!(refused(&server, "peer_connections").await >= 31);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_with_a_request_in_work_is_not_closed_for_another() {
    static GATE: Gate = Mutex::new(None);
    static HELD: Entry = held(|| Box::new(Held(&GATE)));
    let limits = Limits { connections: 1, ..Limits::exporter() };
    let server = start_with(&[], vec![&HELD], absent(), limits).await;
    let (open, running) = server.held_scrape(&GATE).await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    assert!(is_closed(&mut second).await);
    drop(open);
    assert_eq!(running.await.unwrap().status, 200);
    server.stop().await;
}

#[tokio::test]
async fn stopping_lets_a_running_request_end() {
    static GATE: Gate = Mutex::new(None);
    static HELD: Entry = held(|| Box::new(Held(&GATE)));
    let server = start_with(&[], vec![&HELD], absent(), Limits::exporter()).await;
    let (open, running) = server.held_scrape(&GATE).await;
    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    eventually(async || TcpStream::connect(address).await.is_err()).await;
    drop(open);
    assert_eq!(running.await.unwrap().status, 200);
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let server = start(&[]).await;
    let config = config(&[&format!("--web.listen-address={}", server.address)]);
    let scraper = scraper(&config, Vec::new(), &absent());
    let error = Server::bind(&config, scraper, absent(), no_library(), Limits::exporter()).await.err().unwrap();
    let message = format!("{error:#}");
    assert!(message.contains(&format!("cannot listen on {}: ", server.address)), "{message}");
    assert!(message.contains("in use"), "{message}");
    server.stop().await;
}
