//! Remote write and scrapes over real connections.

mod scrapes;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header;
use reqwest::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::replicas::{self, Replicas};
use super::tally::Tally;
use super::{Limits, Work, remote_write};
use goodput_exposition::sample::{Batch, Series, TimeMs};
use goodput_store::{Appended, Ingest, Options, Samples, Selection, Store, StoreError};

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

fn writes<S: Ingest + 'static>(store: S, limits: Limits) -> Router {
    remote_write::router(
        store,
        Arc::new(Work::new(limits, Arc::default())),
        Replicas::new(replicas::Options::default()),
    )
}

fn work(tally: &Arc<Tally>) -> Arc<Work> {
    Arc::new(Work::new(Limits::default(), Arc::clone(tally)))
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn compress(message: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(message).unwrap()
}

/// A request for the series `kept` with value 2 at time 7, as bytes on the wire.
fn good() -> Vec<u8> {
    let label = b"\x0a\x08__name__\x12\x04kept";
    let sample = [b"\x09".as_slice(), &2.0_f64.to_le_bytes(), b"\x10\x07"].concat();
    let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    compress(&field(1, &[field(1, label), field(2, &sample)].concat()))
}

const PROTOBUF: &str = "application/x-protobuf";

async fn write(address: SocketAddr, content_type: &str, encoding: &str, body: Vec<u8>) -> Response {
    let request = client().post(format!("http://{address}/api/v1/write")).body(body);
    let request = request.header(header::CONTENT_TYPE, content_type).header(header::CONTENT_ENCODING, encoding);
    request.send().await.unwrap()
}

async fn kept(store: &Store, metric: &str) -> Vec<Series> {
    let range: Range<TimeMs> = TimeMs::MIN..TimeMs::MAX;
    store.select(&Selection { metrics: vec![metric.to_owned()], labels: Vec::new(), range }).await.unwrap()
}

#[tokio::test]
async fn remote_write_stores_what_is_good_and_says_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { earliest: 0, ..Options::new(dir.path(), |metric| metric == "kept") };
    let store = Store::open(options).await.unwrap();
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    let address = serve(writes(store.clone(), limits)).await;

    let refused = [
        (PROTOBUF, "snappy", b"garbage".to_vec(), 400, "body is not snappy"),
        (PROTOBUF, "snappy", compress(b"garbage"), 400, "body is not a prometheus.WriteRequest"),
        (PROTOBUF, "snappy", vec![0; 101], 413, "compressed body of more than the limit of 100 bytes"),
        (PROTOBUF, "gzip", good(), 415, "content encoding \"gzip\", expected snappy"),
        ("text/plain", "snappy", good(), 415, "content type \"text/plain\", expected application/x-protobuf"),
        ("application/x-protobuf;proto=io.prometheus.write.v3.Request", "snappy", good(), 415, "content type"),
        (PROTOBUF_2, "snappy", good(), 415, "body is not a io.prometheus.write.v2.Request"),
        (PROTOBUF, "snappy", good_2(&[("__name__", "kept")], &[7], 2.0), 415, "body is not a prometheus.WriteRequest"),
    ];
    for (content_type, encoding, body, status, reason) in refused {
        let response = write(address, content_type, encoding, body).await;
        assert_eq!(response.status().as_u16(), status, "{reason}");
        let text = response.text().await.unwrap();
        assert!(text.starts_with(reason), "{text:?}, expected {reason:?}");
    }
    assert_eq!(kept(&store, "kept").await, []);

    for (content_type, encoding) in [
        (PROTOBUF, "snappy"),
        ("application/x-protobuf; proto=prometheus.WriteRequest", "snappy"),
        ("application/x-protobuf; charset=utf-8", "snappy"),
        ("Application/X-Protobuf;charset=\"utf-8\" ; Proto=\"prometheus.WriteRequest\"", "Snappy"),
        ("", ""),
    ] {
        assert_eq!(write(address, content_type, encoding, good()).await.status(), 204, "{content_type:?}");
    }
    // As a client of 1.0 that sets no header at all.
    let bare = client().post(format!("http://{address}/api/v1/write")).body(good()).send().await.unwrap();
    assert_eq!(bare.status(), 204);
    let stored = kept(&store, "kept").await;
    assert_eq!((stored[0].samples[0].time_ms, stored[0].samples[0].value), (7, 2.0));
    assert_eq!(store.stats().appended, Appended { stored: 1, duplicate: 5, ..Appended::default() });

    store.close().await;
    let response = write(address, PROTOBUF, "snappy", good()).await;
    assert_eq!((response.status().as_u16(), &response.headers()[header::RETRY_AFTER]), (503, &"1".parse().unwrap()));
    assert_eq!(response.text().await.unwrap(), "the store is closed\n");
}

/// Takes nothing, for this reason.
struct Full(fn() -> StoreError);

impl Ingest for Full {
    async fn append(&self, _: Batch) -> Result<Appended, StoreError> {
        Err(self.0())
    }
}

#[tokio::test]
async fn a_full_disk_and_a_clock_in_doubt_put_senders_off_for_longer() {
    let full = || StoreError::NoSpace { path: "data".into(), free: 1, minimum: 2 };
    let in_doubt = || StoreError::ClockInDoubt;
    let reasons = [
        (full as fn() -> StoreError, "no_space", "data: 1 bytes are free"),
        (in_doubt, "clock_in_doubt", "the clock of this machine is in doubt"),
    ];
    for (reason, outcome, text) in reasons {
        let (tally, replicas) = (Arc::<Tally>::default(), Replicas::new(replicas::Options::default()));
        let address = serve(remote_write::router(Full(reason), work(&tally), replicas)).await;
        let refused = write(address, PROTOBUF, "snappy", good()).await;
        assert_eq!((refused.status().as_u16(), &refused.headers()[header::RETRY_AFTER]), (503, &"10".parse().unwrap()));
        assert!(refused.text().await.unwrap().starts_with(text));
        assert_eq!(tally.counts().requests[&("1.0", outcome)], 1);
    }
}

#[tokio::test]
async fn version_1_says_what_was_refused_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options::new(dir.path(), |_| true)).await.unwrap();
    let address = serve(writes(store.clone(), Limits::default())).await;
    let refused = write(address, PROTOBUF, "snappy", good()).await;
    assert_eq!(refused.status(), 400);
    let text = refused.text().await.unwrap();
    assert!(text.starts_with("0 samples written; not written: 1 too old or too new"), "{text}");
}

/// Takes a batch when it is told to.
#[derive(Clone, Default)]
struct Slow {
    senders: Arc<parking_lot::Mutex<Vec<Arc<str>>>>,
    entered: Arc<Gate>,
    proceed: Arc<Gate>,
}

/// Counts how often it was opened.
struct Gate(Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Gate {
    fn open(&self) {
        self.0.add_permits(1);
    }

    async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

impl Ingest for Slow {
    async fn append(&self, batch: Batch) -> Result<Appended, StoreError> {
        self.senders.lock().push(Arc::clone(batch.sender()));
        self.entered.open();
        self.proceed.pass().await;
        Ok(Appended::default())
    }
}

#[tokio::test]
async fn a_request_too_many_is_put_off() {
    let store = Slow::default();
    let address = serve(writes(store.clone(), Limits { requests: 1, ..Limits::default() })).await;
    let first = tokio::spawn(write(address, PROTOBUF, "snappy", good()));
    store.entered.pass().await;
    let second = write(address, PROTOBUF, "snappy", good()).await;
    assert_eq!((second.status().as_u16(), &second.headers()[header::RETRY_AFTER]), (503, &"1".parse().unwrap()));
    assert_eq!(second.text().await.unwrap(), "1 requests are in work\n");
    store.proceed.open();
    assert_eq!(first.await.unwrap().status(), 204);
}

/// A request of version 2 with one series: these labels, and a sample of this value at each time.
fn good_2(labels: &[(&str, &str)], times: &[TimeMs], value: f64) -> Vec<u8> {
    let field = |key: u8, content: &[u8]| [&[key, content.len() as u8], content].concat();
    let mut message = field(0x22, b"");
    for text in labels.iter().flat_map(|(name, value)| [name, value]) {
        message.extend(field(0x22, text.as_bytes()));
    }
    let mut series = field(0x0a, &(1..=2 * labels.len() as u8).collect::<Vec<_>>());
    for time in times {
        let mut sample = [b"\x09".as_slice(), &value.to_le_bytes(), b"\x10"].concat();
        prost::encoding::encode_varint(*time as u64, &mut sample);
        series.extend(field(0x12, &sample));
    }
    message.extend(field(0x2a, &series));
    compress(&message)
}

const PROTOBUF_2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// Status, the three counts of what was written, and the text.
async fn write_2(address: SocketAddr, body: Vec<u8>) -> (u16, Vec<String>, String) {
    let response = write(address, PROTOBUF_2, "snappy", body).await;
    let of = |what: &str| {
        response.headers()[format!("x-prometheus-remote-write-{what}-written")].to_str().unwrap().to_owned()
    };
    let written = ["samples", "histograms", "exemplars"].map(of).to_vec();
    (response.status().as_u16(), written, response.text().await.unwrap())
}

#[tokio::test]
async fn version_2_says_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { now: || 1_000_000, earliest: 0, ..Options::new(dir.path(), |metric| metric == "kept") };
    let store = Store::open(options).await.unwrap();
    let address = serve(writes(store.clone(), Limits::default())).await;
    let none = |samples: &str| [samples, "0", "0"].map(str::to_owned).to_vec();
    let kept_1 = [("__name__", "kept"), ("gpu", "1")];
    assert_eq!(write_2(address, good_2(&kept_1, &[1, 2], 1.0)).await, (204, none("2"), String::new()));
    // Sent again, because the answer was lost: all of it is there.
    assert_eq!(write_2(address, good_2(&kept_1, &[1, 2], 1.0)).await, (204, none("2"), String::new()));
    // Not wanted, so not missed either.
    assert_eq!(write_2(address, good_2(&[("__name__", "other")], &[1], 1.0)).await, (204, none("1"), String::new()));
    let (status, written, reason) = write_2(address, good_2(&kept_1, &[3, 2_000_000], 1.0)).await;
    assert_eq!((status, written), (400, none("1")));
    assert_eq!(reason, "1 samples written; not written: 1 too old or too new\n");
    let (status, written, reason) = write_2(address, compress(b"garbage")).await;
    assert_eq!((status, written), (400, none("0")));
    assert!(reason.starts_with("body is not a io.prometheus.write.v2.Request: "), "{reason}");
    let times: Vec<_> = kept(&store, "kept").await[0].samples.iter().map(|s| s.time_ms).collect();
    assert_eq!(times, [1, 2, 3]);
    store.close().await;
    assert_eq!(
        write_2(address, good_2(&kept_1, &[9], 1.0)).await,
        (503, none("0"), "the store is closed\n".to_owned())
    );
}

/// A series of version 1 with one sample.
fn series_1(labels: &[(&str, &str)], time: TimeMs) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut field);
        field.extend(content);
        field
    };
    let label =
        |(name, value): &(&str, &str)| field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
    let mut sample = [b"\x09".as_slice(), &1.0_f64.to_le_bytes(), b"\x10"].concat();
    prost::encoding::encode_varint(time as u64, &mut sample);
    field(1, &[labels.iter().map(label).collect::<Vec<_>>().concat(), field(2, &sample)].concat())
}

#[tokio::test]
async fn a_series_beyond_a_limit_costs_itself_and_the_answer_counts_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { now: || 1_000_000, earliest: 0, ..Options::new(dir.path(), |metric| metric == "kept") };
    let store = Store::open(options).await.unwrap();
    let tally = Arc::<Tally>::default();
    let router = remote_write::router(store.clone(), work(&tally), Replicas::new(replicas::Options::default()));
    let address = serve(router).await;
    let long = "x".repeat(6000);
    let good: Vec<_> = (0..8).map(|n| series_1(&[("__name__", "kept"), ("gpu", &n.to_string())], 7)).collect();
    let foreign = series_1(&[("__name__", "foreign"), ("a", &long)], 7);
    let answer = write(address, PROTOBUF, "snappy", compress(&[good.concat(), foreign].concat())).await;
    assert_eq!(answer.status(), 204, "a series of a metric that is not kept is no failure");
    assert_eq!(store.stats().appended, Appended { stored: 8, unknown: 1, ..Appended::default() });
    assert_eq!(tally.counts().skipped, std::collections::BTreeMap::new());

    let ours = series_1(&[("__name__", "kept"), ("a", &long)], 7);
    let late = series_1(&[("__name__", "kept")], 2_000_000);
    let answer =
        write(address, PROTOBUF, "snappy", compress(&[good.concat(), ours.clone(), late, ours].concat())).await;
    assert_eq!(answer.status(), 400);
    let expected = "8 samples written; not written: 1 too old or too new, 2 of series that break a limit or the data model \
                    (2 series by label_bytes); the first: \"kept\": label \"a\" of 6001 bytes, more than 5120\n";
    assert_eq!(answer.text().await.unwrap(), expected);
    assert_eq!(tally.counts().skipped, std::collections::BTreeMap::from([("label_bytes", 2)]));
    assert_eq!(tally.counts().requests[&("1.0", "partly")], 1);
}

#[tokio::test]
async fn two_replicas_are_one_source() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        Store::open(Options { now: || 1_000_000, earliest: 0, ..Options::new(dir.path(), |_| true) }).await.unwrap();
    let (tally, replicas) = (Arc::<Tally>::default(), Replicas::new(replicas::Options::default()));
    let router = remote_write::router(store.clone(), work(&tally), replicas);
    let address = serve(router).await;
    let send = async |metric: &str, replica: &str, times: &[TimeMs], value: f64| {
        let labels = [("__name__", metric), ("instance", "n1"), ("job", "gpu"), ("prometheus_replica", replica)];
        let (status, written, reason) = write_2(address, good_2(&labels, times, value)).await;
        assert_eq!((status, &written[0]), (204, &times.len().to_string()), "{replica} {times:?} {reason}");
    };
    for start in [15_000, 30_000, 45_000] {
        send("kept", "a", &[start], 1.0).await;
        send("kept", "b", &[start + 7_000], 1.0).await;
    }
    // The first can no longer reach the target; the second takes over where it stopped.
    send("up", "a", &[60_000], 0.0).await;
    send("kept", "b", &[52_000, 67_000], 1.0).await;
    send("kept", "b", &[82_000], 1.0).await;
    // The first is back, with what it had not sent before.
    send("kept", "a", &[60_000, 75_000], 1.0).await;
    let series = kept(&store, "kept").await;
    assert_eq!(series.len(), 1, "{series:?}");
    assert_eq!(series[0].labels.get("prometheus_replica"), None);
    assert_eq!(
        series[0].samples.iter().map(|s| s.time_ms).collect::<Vec<_>>(),
        [15_000, 30_000, 45_000, 52_000, 67_000, 82_000]
    );
    assert_eq!(tally.counts().replicated, 3 + 2);
}

#[tokio::test]
async fn a_flood_from_one_sender_leaves_room_for_others() {
    let store = Slow::default();
    let limits = Limits { requests: 3, sender_requests: 2, ..Limits::default() };
    let router = writes(store.clone(), limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).into_future());
    let from = |host: u8| {
        let client = reqwest::Client::builder().no_proxy().local_address(std::net::IpAddr::from([127, 0, 0, host]));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let request = client.build().unwrap().post(format!("http://{address}/api/v1/write")).body(good());
        let request = request.header(header::CONTENT_TYPE, PROTOBUF).header(header::CONTENT_ENCODING, "snappy");
        tokio::spawn(async move { request.send().await.unwrap() })
    };
    let flood = [from(2), from(2)];
    for _ in &flood {
        store.entered.pass().await;
    }
    let refused = from(2).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.text().await.unwrap(), "2 requests of 127.0.0.2 are in work\n");
    let other = from(3);
    store.entered.pass().await;
    (0..3).for_each(|_| store.proceed.open());
    assert_eq!(other.await.unwrap().status(), 204);
    for first in flood {
        assert_eq!(first.await.unwrap().status(), 204);
    }
    assert_eq!(**store.senders.lock(), ["127.0.0.2".into(), "127.0.0.2".into(), "127.0.0.3".into()]);
}

#[tokio::test]
async fn requests_that_take_all_memory_put_others_off() {
    let store = Slow::default();
    let address = serve(writes(store.clone(), Limits { work_bytes: 2048, ..Limits::default() })).await;
    let first = tokio::spawn(write(address, PROTOBUF, "snappy", good()));
    store.entered.pass().await;
    let second = write(address, PROTOBUF, "snappy", good()).await;
    assert_eq!(second.status(), 503);
    assert_eq!(second.text().await.unwrap(), "requests in work take all of the 2048 bytes that they may\n");
    store.proceed.open();
    assert_eq!(first.await.unwrap().status(), 204);
}

#[tokio::test]
async fn a_sender_that_stops_in_the_middle_is_cut_and_frees_its_place() {
    let store = Slow::default();
    let limits = Limits { requests: 1, read: Duration::from_millis(50), ..Limits::default() };
    let address = serve(writes(store.clone(), limits)).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = "POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
        Content-Encoding: snappy\r\nContent-Length: 50\r\nConnection: close\r\n\r\nabc";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("body not sent within "), "{answer}");
    store.proceed.open();
    assert_eq!(write(address, PROTOBUF, "snappy", good()).await.status(), 204);
}

/// Announces a whole body, and sends so much of it.
async fn announce(address: SocketAddr, length: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![0; sent]).await.unwrap();
    stream
}

#[tokio::test]
async fn senders_that_announce_much_and_send_nothing_take_no_place_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { earliest: 0, ..Options::new(dir.path(), |_| true) }).await.unwrap();
    let limits = Limits { requests: 4, sender_requests: 2, ..Limits::default() };
    let work = Arc::new(Work::new(limits, Arc::default()));
    let router = remote_write::router(store, Arc::clone(&work), Replicas::new(replicas::Options::default()));
    let address = serve(router).await;
    let mut liars = Vec::new();
    for _ in 0..64 {
        liars.push(announce(address, limits.body_bytes, 0).await);
    }
    for _ in 0..8 {
        assert_eq!(write(address, PROTOBUF, "snappy", good()).await.status(), 204);
    }
    assert_eq!(work.arriving(), 0, "nothing has arrived");
}

#[tokio::test]
async fn what_has_arrived_of_bodies_counts_and_one_sender_has_a_part_of_it() {
    let limits = Limits { work_bytes: 400 << 10, ..Limits::default() };
    let work = Arc::new(Work::new(limits, Arc::default()));
    let router = remote_write::router(Slow::default(), Arc::clone(&work), Replicas::new(replicas::Options::default()));
    let address = serve(router).await;
    let first = announce(address, 200 << 10, 60 << 10).await;
    while work.arriving() < 60 << 10 {
        tokio::task::yield_now().await;
    }
    let mut second = announce(address, 200 << 10, 60 << 10).await;
    let mut answer = [0; 12];
    second.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503", "a quarter of all is what one sender's bodies may hold");
    drop(first);
    while work.arriving() > 0 {
        tokio::task::yield_now().await;
    }
}
