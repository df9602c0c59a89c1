//! `try` and `backfill` against servers that leave something out of their answers: a missing part is an error, or with
//! `--allow-partial` a banner; pieces that were partial are asked for again.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Mon 2026-03-02 00:00 UTC, in seconds.
const MARCH: i64 = 1_772_409_600;
const HOUR: i64 = 3600;
const STEP: i64 = 15;

/// What a server does to an answer.
#[derive(Clone, Copy)]
enum Fault {
    /// Adds these fields to it.
    Says(&'static str),
    /// Answers this instead.
    Answers(u16, &'static str),
    /// Gives a status to the whole answer.
    Status(u16),
    /// Ends the JSON early; the HTTP answer is whole.
    CutJson,
    /// Promises more bytes than come.
    CutBody,
}

/// Which answers a fault is for: the end of their paths, the earliest end of a query, and how many still.
type Concerned = (&'static str, i64, usize);

#[derive(Default)]
struct Behaviour {
    fault: Option<(Concerned, Fault)>,
    /// Paths with parameters, as they came.
    asked: Vec<String>,
}

/// A server with one GPU's samples of six hours; its thread ends with the test's process.
struct Server {
    url: String,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let behaviour = Arc::<Mutex<Behaviour>>::default();
        let shared = Arc::clone(&behaviour);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that ends early is no fault of the server.
                thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        Self { url, behaviour }
    }

    fn set(&self, concerned: Concerned, fault: Fault) {
        *self.behaviour.lock().unwrap() = Behaviour { fault: Some((concerned, fault)), ..Behaviour::default() };
    }

    fn heal(&self) {
        *self.behaviour.lock().unwrap() = Behaviour::default();
    }

    fn asked(&self) -> Vec<String> {
        self.behaviour.lock().unwrap().asked.clone()
    }
}

fn serve(mut stream: TcpStream, behaviour: &Mutex<Behaviour>) -> std::io::Result<()> {
    let (mut reader, mut head) = (BufReader::new(stream.try_clone()?), String::new());
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    std::io::copy(&mut reader.take(length.unwrap_or(0)), &mut std::io::sink())?;
    let request = head.lines().next().unwrap_or_default();
    let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let (path, parameters) = target.split_once('?').unwrap_or((&target, ""));
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let query: HashMap<String, String> =
        parameters.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), decode(v))).collect();
    let fault = behaviour.lock().unwrap().next(path, &query, &target);
    // Read by PromQL alone, as Thanos is.
    if path.ends_with("/read") || path.ends_with("/export") {
        return write!(stream, "HTTP/1.1 404 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    let mut whole = json!({"status": "success", "data": data(path, &query)});
    if let Some(Fault::Says(fields)) = fault {
        let fields: Value = serde_json::from_str(fields).unwrap();
        fields.as_object().unwrap().iter().for_each(|(name, value)| whole[name] = value.clone());
    }
    let whole = whole.to_string();
    let (status, body, promised) = match fault {
        Some(Fault::Answers(status, body)) => (status, body, body.len()),
        Some(Fault::Status(status)) => (status, whole.as_str(), whole.len()),
        Some(Fault::CutJson) => (200, &whole[..whole.len() * 2 / 3], whole.len() * 2 / 3),
        Some(Fault::CutBody) => (200, &whole[..whole.len() / 2], whole.len()),
        Some(Fault::Says(_)) | None => (200, whole.as_str(), whole.len()),
    };
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {promised}\r\nconnection: close\r\n\r\n{body}")
}

impl Behaviour {
    fn next(&mut self, path: &str, query: &HashMap<String, String>, target: &str) -> Option<Fault> {
        self.asked.push(target.to_owned());
        let time = query.get("time").map_or(i64::MAX, |time| time.parse::<f64>().unwrap() as i64);
        let is_greeting = query.get("query").is_some_and(|query| query == "1");
        let ((end, from, left), fault) = self.fault.as_mut()?;
        let concerned = path.ends_with(*end) && !is_greeting && time >= *from && *left > 0;
        concerned.then(|| {
            *left -= 1;
            *fault
        })
    }
}

fn data(path: &str, query: &HashMap<String, String>) -> Value {
    if path.ends_with("/values") {
        return if path.contains("__name__") { json!(["DCGM_FI_DEV_GPU_UTIL"]) } else { json!(["dcgm"]) };
    }
    let seconds = |name: &str| query[name].parse::<f64>().unwrap().round() as i64;
    let there =
        |from: i64, to: i64| (MARCH..MARCH + 6 * HOUR).step_by(STEP as usize).filter(move |t| (from..to).contains(t));
    if path.ends_with("/query_range") {
        let times = (seconds("start")..=seconds("end")).step_by(seconds("step").max(1) as usize);
        let counts: Vec<_> = times.map(|time| json!([time, there(time - 600, time).count().to_string()])).collect();
        return json!({"resultType": "matrix", "result": [{"metric": {}, "values": counts}]});
    }
    if query["query"] == "1" {
        return json!({"resultType": "scalar", "result": [0, "1"]});
    }
    let range: i64 = query["query"].strip_suffix("ms]").unwrap().rsplit_once('[').unwrap().1.parse().unwrap();
    let end = seconds("time");
    let values: Vec<_> = there(end - range / 1000, end).map(|time| json!([time, "90"])).collect();
    let labels = json!({"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-a", "Hostname": "n1", "instance": "n1:9400",
        "job": "dcgm", "gpu": "0", "exported_pod": "train"});
    json!({"resultType": "matrix", "result": [{"metric": labels, "values": values}]})
}

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn run(args: &[&str]) -> (bool, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_goodput-analyzer")).args(args).output().unwrap();
    (status.success(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const SINCE: &str = "2026-03-02T01:00:00Z";
const UNTIL: &str = "2026-03-02T02:00:00Z";

fn tried(server: &Server, more: &[&str]) -> (bool, String, String) {
    run(&[&["try", "--prometheus", &server.url, "--since", SINCE, "--until", UNTIL], more].concat())
}

fn backfilled(server: &Server, data: &Path, more: &[&str]) -> (bool, String) {
    let data = data.to_str().unwrap();
    let fixed = ["--data.dir", data, "backfill", "--url", &server.url, "--start", "2026-03-02T00:00:00Z"];
    let (succeeded, out, err) = run(&[&fixed[..], &["--end", "2026-03-02T03:00:00Z"], more].concat());
    (succeeded, out + &err)
}

const ALWAYS: usize = usize::MAX;

#[test]
fn a_missing_part_is_an_error_that_names_what_the_server_said() {
    let server = Server::start();
    let warned = Fault::Says(r#"{"warnings":["a store did not answer in time"]}"#);
    let partial = Fault::Says(r#"{"isPartial":true}"#);
    let dead = Fault::Answers(
        422,
        r#"{"status":"error","errorType":"422","error":"dial tcp 10.0.0.7:8401: connection refused"}"#,
    );
    let failed = Fault::Answers(200, r#"{"status":"error","errorType":"internal","error":"the index is gone"}"#);
    for (path, fault, wanted) in [
        ("/query", warned, &["partial answer", "a store did not answer in time", "GPU_UTIL", "from 2026-03-02T"][..]),
        ("/query_range", warned, &["partial answer", "a store did not answer in time", "count_over_time"]),
        ("/__name__/values", warned, &["partial answer", "values of the label __name__", "from 2026-03-02T"]),
        ("/query", partial, &["partial answer", "isPartial", "--allow-partial"]),
        ("/query", Fault::Status(206), &["partial answer", "206"]),
        ("/query", failed, &["the index is gone"]),
        ("/query_range", failed, &["the index is gone"]),
        ("/__name__/values", failed, &["the index is gone"]),
        ("/query", Fault::Answers(200, r#"{"data":[]}"#), &["expected success or error"]),
        ("/query", Fault::Answers(200, r#"{"status":"success","data":null}"#), &["there is no data in it"]),
        ("/query", Fault::Answers(204, ""), &["204", "expected 200"]),
    ] {
        server.set((path, 0, ALWAYS), fault);
        let (succeeded, out, err) = tried(&server, &[]);
        assert!(!succeeded && out.is_empty(), "{path}, {wanted:?}: {out}");
        wanted.iter().for_each(|text| assert!(err.contains(text), "{path}: no {text:?} in {err}"));
    }
    // What a retry may heal is worth one, and is told from a limit.
    for (fault, wanted) in [
        (dead, "cannot read all of its storage"),
        (Fault::CutJson, "broke off"),
        (Fault::CutBody, "broke off"),
        (warned, "partial answer"),
    ] {
        server.set(("/query", 0, 2), fault);
        let (succeeded, out, err) = tried(&server, &[]);
        assert!(succeeded && !out.contains("Incomplete"), "{wanted}: {err}");
        assert!(err.contains(wanted) && !err.contains("limit"), "{wanted}: {err}");
    }
}

#[test]
fn remarks_are_no_missing_part_and_whole_answers_are_asked_for() {
    let server = Server::start();
    let remarks = r#"{"warnings":["PromQL info: metric might not be a counter"],"infos":["x"],"isPartial":false}"#;
    server.set(("", 0, ALWAYS), Fault::Says(remarks));
    let (succeeded, out, err) = tried(&server, &[]);
    assert!(succeeded && !out.contains("Incomplete") && !err.contains("partial"), "{out}{err}");
    let asked: Vec<_> = server.asked().into_iter().filter(|path| path.contains("partial_response")).collect();
    let is_strict = |path: &String| path.contains("partial_response=false") && path.contains("deny_partial_response=1");
    assert!(asked.len() > 3 && asked.iter().all(is_strict), "{asked:?}");
}

#[test]
fn a_part_that_is_allowed_to_be_missing_is_said_in_every_form_of_the_report() {
    let server = Server::start();
    for fault in [Fault::Says(r#"{"warnings":["store <b> is down"]}"#), Fault::Status(206)] {
        server.set(("/query", 0, ALWAYS), fault);
        let said = |form: &str| {
            let (succeeded, out, err) = tried(&server, &["--allow-partial", "--format", form]);
            assert!(succeeded && err.contains("partial: the server left something out of"), "{form}: {err}");
            out
        };
        assert!(said("markdown").contains("> **Incomplete.** The report rests on partial answers"));
        let page = said("html");
        assert!(page.contains("role=\"alert\"") && page.contains("partial answers") && !page.contains("store <b>"));
        let report: Value = serde_json::from_str(&said("json")).unwrap();
        let partial = &report["trial"]["partial"];
        assert!(
            partial["answers"].as_u64() >= Some(1) && partial["first"][0][0].as_str().unwrap().contains("GPU_UTIL")
        );
        assert!(report["warnings"][0].as_str().unwrap().contains("partial answers"));
        assert!(said("csv-intervals").contains("GPU-a"));
        assert!(server.asked().iter().all(|path| !path.contains("deny_partial_response")));
    }
}

#[test]
fn partial_pieces_are_asked_for_again() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let warned = Fault::Says(r#"{"warnings":["a store did not answer in time"]}"#);
    // The second hour is partial in every attempt.
    server.set(("/query", MARCH + HOUR, ALWAYS), warned);
    let (succeeded, said) = backfilled(&server, dir.path(), &[]);
    assert!(!succeeded && said.contains(" 240  stored\n") && said.contains("partial answer"), "{said}");
    assert!(said.contains("from 2026-03-02T01:00:00Z to 2026-03-02T02:00:00Z"), "{said}");

    server.set(("/query", MARCH + HOUR, 1), warned);
    let (succeeded, said) = backfilled(&server, dir.path(), &["--allow-partial"]);
    assert!(succeeded && said.contains(" 480  stored\n"), "{said}");
    assert!(said.contains("1 pieces are not marked as done") && said.contains("a store did not answer"), "{said}");

    server.heal();
    let (succeeded, said) = backfilled(&server, dir.path(), &[]);
    assert!(succeeded && said.contains(" 240  there already") && !said.contains("partial"), "{said}");
    let hours: Vec<_> = server.asked().into_iter().filter(|path| path.contains("/query?query=DCGM")).collect();
    assert!(hours.len() == 1 && hours[0].contains(&format!("time={}.999", MARCH + 2 * HOUR - 1)), "{hours:?}");
    assert!(!dir.path().join("backfill.json").try_exists().unwrap());

    // Without all names of metrics, no piece is known to be whole.
    let other = tempfile::tempdir().unwrap();
    server.set(("/__name__/values", 0, ALWAYS), warned);
    let (succeeded, said) = backfilled(&server, other.path(), &["--allow-partial"]);
    assert!(succeeded && said.contains("3 pieces are not marked as done"), "{said}");
}
