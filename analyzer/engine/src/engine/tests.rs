//! Reading from an engine that answers by HTTP what real engines answered, and worse.

use std::sync::Arc;

use goodput_exposition::sample::is_stale;
use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Kind;
use crate::remote_read::CHUNKS_TYPE;
use crate::remote_read::messages::ReadRequest;

/// What real engines answered; see `tests/engines.rs`.
const CHUNKS: &[u8] = include_bytes!("../../tests/data/prometheus.chunks");
const SAMPLES: &[u8] = include_bytes!("../../tests/data/prometheus.samples");
const EXPORT: &[u8] = include_bytes!("../../tests/data/victoria.export");
const RANGE: Range<TimeMs> = 1_795_810_795_000..1_795_810_995_000;
const PROTOBUF: &str = "application/x-protobuf";
const LINES: &str = "application/stream+json; charset=utf-8";

/// An answer. Its body may end before `promised` bytes; `None` is a body in chunks whose end is missing.
#[derive(Clone)]
struct Reply {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
    promised: Option<usize>,
    /// Neither: the body ends with the connection.
    until_closed: bool,
}

impl Reply {
    fn of(status: u16, kind: &'static str, body: &[u8]) -> Self {
        Self { status, kind, body: body.to_vec(), promised: Some(body.len()), until_closed: false }
    }

    fn ok(kind: &'static str, body: &[u8]) -> Self {
        Self::of(200, kind, body)
    }

    fn none() -> Self {
        Self::of(404, "text/plain", b"404 page not found")
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, kind, body, promised, until_closed } = self;
        let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: {kind}\r\n");
        let framed = match promised {
            _ if *until_closed => [&b"\r\n"[..], body].concat(),
            Some(length) => [format!("content-length: {length}\r\n\r\n").as_bytes(), body].concat(),
            None => {
                [format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat()
            }
        };
        [head.into_bytes(), framed].concat()
    }
}

/// Requests that came: their heads in lower case, and their bodies.
type Asked = Mutex<Vec<(String, Vec<u8>)>>;

/// An engine, and the requests that it got.
struct Fake {
    engine: Engine,
    replies: Arc<Mutex<Vec<(&'static str, Reply)>>>,
    asked: Arc<Asked>,
}

impl Fake {
    /// Answers paths that contain these texts, the first that fits, and 404 to all others.
    async fn answering(replies: &[(&'static str, Reply)]) -> Self {
        Self::with_headers(replies, HeaderMap::new(), false).await
    }

    async fn with_headers(replies: &[(&'static str, Reply)], headers: HeaderMap, allow_partial: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let replies = Arc::new(Mutex::new(replies.to_vec()));
        let asked = Arc::<Asked>::default();
        let (of_server, noted) = (Arc::clone(&replies), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (replies, noted) = (Arc::clone(&of_server), Arc::clone(&noted));
                // A client that leaves early is no fault of the server.
                tokio::spawn(async move { serve(stream, &replies, &noted).await.ok() });
            }
        });
        let client = crate::http::client("http", Client::builder).unwrap();
        Self { engine: Engine::new(client, &base, headers, allow_partial), replies, asked }
    }

    fn set(&self, path: &'static str, reply: Reply) {
        *self.replies.lock() = vec![(path, reply)];
    }

    async fn read(&self, reader: Reader) -> Result<Vec<Series>, ReadError> {
        self.engine.part(reader, "kept", &[], &RANGE).await
    }

    async fn chosen(self) -> Reader {
        self.engine.by(None, &[]).await.unwrap().reader()
    }
}

async fn serve(
    mut stream: TcpStream,
    replies: &Mutex<Vec<(&'static str, Reply)>>,
    asked: &Asked,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (head, body_at) = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase(), end + 4);
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < body_at + length {
        stream.read_buf(&mut bytes).await?;
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let reply = replies.lock().iter().find(|(text, _)| path.contains(text)).map(|(_, reply)| reply.clone());
    asked.lock().push((head, bytes[body_at..].to_vec()));
    stream.write_all(&reply.unwrap_or_else(Reply::none).bytes()).await
}

fn count(series: &[Series]) -> (usize, usize) {
    let samples = || series.iter().flat_map(|series| &series.samples);
    (samples().count(), samples().filter(|sample| is_stale(sample.value)).count())
}

#[tokio::test]
async fn the_cheapest_way_that_answers_is_used() {
    let (chunks, samples) = (("/read", Reply::ok(CHUNKS_TYPE, b"")), ("/read", Reply::ok(PROTOBUF, SAMPLES)));
    let export = ("/export", Reply::ok(LINES, b""));
    let forbidden = ("/read", Reply::of(403, "text/plain", b"only queries"));
    let away = ("/export", Reply::of(400, "text/plain", b"cannot fetch data from vmstorage nodes: cannot dial"));
    let unsupported = ("/read", Reply::of(400, "text/plain", b"unsupported path requested"));
    // A proxy's page for every path is no answer of an engine.
    let page = ("/", Reply::ok("text/html", b"<html>Log in</html>\n"));
    for (replies, wanted) in [
        (vec![chunks.clone(), export.clone()], Reader::RemoteRead),
        (vec![samples], Reader::RemoteRead),
        (vec![unsupported.clone(), export.clone()], Reader::Victoria),
        (vec![unsupported, away], Reader::Victoria),
        (vec![forbidden], Reader::Promql),
        (vec![page], Reader::Promql),
        (vec![], Reader::Promql),
    ] {
        assert_eq!(Fake::answering(&replies).await.chosen().await, wanted);
    }
    let busy = Fake::answering(&[("/read", Reply::of(503, "text/plain", b"starting"))]).await;
    assert_eq!(busy.engine.probe(Reader::RemoteRead, &[]).await.unwrap_err().kind(), Kind::Passing);
    assert_eq!(busy.asked.lock().len(), 6, "asked again, and no other way is taken");
    let nowhere = Engine::new(
        crate::http::client("http", Client::builder).unwrap(),
        "http://127.0.0.1:9",
        HeaderMap::new(),
        false,
    );
    assert_eq!(nowhere.by(None, &[]).await.unwrap_err().kind(), Kind::Passing);
    let both = [chunks, export];
    let partial = Fake::with_headers(&both, HeaderMap::new(), true).await;
    assert_eq!(partial.chosen().await, Reader::Promql, "only PromQL says what was left out");
    // What VictoriaMetrics allows in a selector, and remote read does not know.
    let fake = Fake::answering(&both).await;
    let engine = fake.engine.by(None, &["a=\"b\" or c=\"d\"".to_owned()]).await.unwrap();
    assert_eq!(engine.reader(), Reader::Victoria);
    let asked = fake.asked.lock();
    assert!(asked[0].0.contains("export?match%5b%5d=goodput%5fprobe%7ba%3d%22b%22%20or%20c%3d%22d%22%7d"), "{asked:?}");
}

#[tokio::test]
async fn a_server_that_starts_is_asked_again_before_a_way_is_chosen() {
    let fake = Fake::answering(&[("/", Reply::of(503, "text/plain", b"Service Unavailable"))]).await;
    let (replies, asked) = (Arc::clone(&fake.replies), Arc::clone(&fake.asked));
    let started = async {
        while asked.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        *replies.lock() = vec![("/read", Reply::ok(CHUNKS_TYPE, b""))];
    };
    let (chosen, ()) = tokio::join!(fake.chosen(), started);
    assert_eq!(chosen, Reader::RemoteRead);
}

#[tokio::test]
async fn a_way_that_is_asked_for_and_does_not_answer_is_an_error() {
    for reader in [Reader::RemoteRead, Reader::Victoria] {
        let fake = Fake::answering(&[]).await;
        let refused = fake.engine.by(Some(reader), &[]).await.unwrap_err().to_string();
        assert!(refused.contains("404"), "{refused}");
    }
}

#[tokio::test]
async fn chunks_samples_and_lines_are_read_with_their_markers() {
    let headers = HeaderMap::from_iter([("x-scope-orgid".parse().unwrap(), HeaderValue::from_static("ml"))]);
    let fake = Fake::with_headers(&[("/api/v1/read", Reply::ok(CHUNKS_TYPE, CHUNKS))], headers, false).await;
    let whole = fake.read(Reader::RemoteRead).await.unwrap();
    fake.set("/api/v1/read", Reply::ok(PROTOBUF, SAMPLES));
    assert_eq!(count(&fake.read(Reader::RemoteRead).await.unwrap()), count(&whole));
    assert!(count(&whole).0 > 500 && count(&whole).1 == 40, "{:?}", count(&whole));
    fake.set("/api/v1/export?", Reply::ok(LINES, EXPORT));
    assert_eq!(count(&fake.read(Reader::Victoria).await.unwrap()).1, 11);
    let asked = fake.asked.lock();
    for (head, body) in &asked[..2] {
        for header in ["x-scope-orgid: ml", "content-encoding: snappy", "x-prometheus-remote-read-version: 0.1.0"] {
            assert!(head.contains(header), "{head}");
        }
        let request = snap::raw::Decoder::new().decompress_vec(body).unwrap();
        let request = <ReadRequest as prost::Message>::decode(&*request).unwrap();
        assert_eq!((request.accepted_response_types, request.queries[0].end_timestamp_ms), (vec![1, 0], RANGE.end - 1));
    }
    assert!(asked[2].0.contains("start=1795810795.000&end=1795810994.999"), "{}", asked[2].0);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let cut = |kind, body: &[u8], end: usize, promised| Reply { promised, ..Reply::ok(kind, &body[..end]) };
    for (reader, path, kind, body) in [
        (Reader::RemoteRead, "/read", CHUNKS_TYPE, CHUNKS),
        (Reader::RemoteRead, "/read", PROTOBUF, SAMPLES),
        (Reader::Victoria, "/export", LINES, EXPORT),
    ] {
        let fake = Fake::answering(&[]).await;
        for end in (1..body.len()).step_by(97) {
            for promised in [Some(body.len()), None] {
                fake.set(path, cut(kind, body, end, promised));
                let error = fake.read(reader).await.unwrap_err();
                assert!(matches!(error, ReadError::BrokenOff { .. }), "{kind} {end}: {error}");
                assert_eq!(error.kind(), Kind::Incomplete);
            }
        }
        fake.set(path, cut(kind, body, body.len(), Some(body.len())));
        assert!(fake.read(reader).await.is_ok());
    }
}

/// As behind a proxy that speaks HTTP/1.0: a part that ends with a frame or a line looks whole.
#[tokio::test]
async fn an_answer_that_does_not_say_where_it_ends_is_none() {
    for (reader, path, kind, body) in
        [(Reader::RemoteRead, "/read", CHUNKS_TYPE, CHUNKS), (Reader::Victoria, "/export", LINES, EXPORT)]
    {
        let fake = Fake::answering(&[]).await;
        fake.set(path, Reply { until_closed: true, ..Reply::ok(kind, body) });
        let error = fake.read(reader).await.unwrap_err();
        assert!(error.to_string().contains("does not say where it ends"), "{error}");
    }
}

#[tokio::test]
async fn a_flipped_bit_or_another_type_is_malformed() {
    let fake = Fake::answering(&[]).await;
    for at in (0..CHUNKS.len()).step_by(61) {
        let mut body = CHUNKS.to_vec();
        body[at] ^= 4;
        fake.set("/read", Reply::ok(CHUNKS_TYPE, &body));
        let error = fake.read(Reader::RemoteRead).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::Malformed | Kind::Incomplete | Kind::TooMuch), "{at}: {error}");
    }
    fake.set("/read", Reply::ok("text/html", b"<html>"));
    let error = fake.read(Reader::RemoteRead).await.unwrap_err();
    assert!(error.to_string().contains("remote read answers with \"text/html\""), "{error}");
    fake.set("/export", Reply::ok("text/html", b"<html>\n"));
    let error = fake.read(Reader::Victoria).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed, "{error}");
}

/// Chunks of an encoding of a later release.
#[tokio::test]
async fn samples_are_asked_for_where_chunks_cannot_be_read() {
    let frame = crate::remote_read::messages::ChunkedReadResponse {
        chunked_series: vec![crate::remote_read::messages::ChunkedSeries {
            chunks: vec![crate::remote_read::messages::Chunk { encoding: 4, ..Default::default() }],
            ..Default::default()
        }],
        query_index: 0,
    };
    let message = prost::Message::encode_to_vec(&frame);
    let mut body = vec![message.len() as u8];
    body.extend(crc32c::crc32c(&message).to_be_bytes());
    body.extend(message);
    let fake = Fake::answering(&[("/read", Reply::ok(CHUNKS_TYPE, &body))]).await;
    let error = fake.read(Reader::RemoteRead).await.unwrap_err();
    assert!(error.to_string().contains("where samples were asked for"), "{error}");
    let accepted: Vec<Vec<i32>> = fake.asked.lock().iter().map(|(_, body)| accepted(body)).collect();
    assert_eq!(accepted, [vec![1, 0], vec![0]]);
}

fn accepted(body: &[u8]) -> Vec<i32> {
    let request = snap::raw::Decoder::new().decompress_vec(body).unwrap();
    <ReadRequest as prost::Message>::decode(&*request).unwrap().accepted_response_types
}

#[tokio::test]
async fn what_an_engine_says_is_told_apart_by_what_helps() {
    let fake = Fake::answering(&[]).await;
    for (status, body, kind) in [
        (400, "exceeded sample limit (50000000)", Kind::TooMuch),
        (400, "unsupported path requested", Kind::Malformed),
        (401, "no org id", Kind::Refused),
        (403, "not yours", Kind::Refused),
        (404, "404 page not found", Kind::Malformed),
        (413, "too large", Kind::TooMuch),
        (
            422,
            "cannot fetch query results from vmstorage nodes: dial tcp4 10.0.0.7:8401: connection refused",
            Kind::Passing,
        ),
        (429, "too many outstanding requests", Kind::Passing),
        (500, "internal", Kind::Passing),
        (501, "Unsupported method ('POST')", Kind::Malformed),
        (503, "starting", Kind::Passing),
        (204, "", Kind::Malformed),
    ] {
        for (reader, path) in [(Reader::RemoteRead, "/read"), (Reader::Victoria, "/export")] {
            fake.set(path, Reply::of(status, "text/plain", body.as_bytes()));
            let error = fake.read(reader).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{status} {body}: {error}");
        }
    }
}

/// A range that is too much is read in halves, down to a minute.
#[tokio::test]
async fn too_much_is_read_in_parts() {
    let fake = Fake::answering(&[("/export", Reply::of(413, "text/plain", b"too large"))]).await;
    let engine = Engine { reader: Reader::Victoria, ..fake.engine };
    let range = 0..4 * SHORTEST_MS;
    let error = engine.samples("kept", &[], range.clone()).await.unwrap_err();
    assert_eq!((error.kind(), fake.asked.lock().len()), (Kind::TooMuch, 3), "{error}");
    *fake.replies.lock() = vec![
        ("start=0.000&end=239.999", Reply::of(413, "text/plain", b"too large")),
        ("/export", Reply::ok(LINES, b"")),
    ];
    assert!(engine.samples("kept", &[], range).await.unwrap().is_empty());
    let asked = fake.asked.lock();
    let starts = |text: &str| asked.iter().filter(|(head, _)| head.contains(text)).count();
    assert_eq!((starts("start=0.000&end=119.999"), starts("start=120.000&end=239.999")), (2, 1));
}
