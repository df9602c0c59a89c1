//! Recorded answers of dcgm-exporter over HTTP on loopback, and everything that can be wrong with an answer.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use super::*;
use crate::attribute::Owners;
use crate::collect::gpu;
use crate::parse::counters::csv;
use crate::registry::REGISTRY;
use crate::scrape::{Outcome, Scrape, Scraper, Setup};
use crate::source::files::Roots;
use crate::source::nvml::{Driver, Gpu, Snapshot, Values};
use goodput_exposition::{Counters, Format, Style, encode};

const RECORDED: [&str; 5] =
    ["dcgm-8xh100-aicr", "dcgm-a100-mig-3-instances", "dcgm-a100-mig-disabled", "dcgm-l4-kops", "dcgm-t4-ericsson"];

fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures").join(name).join("metrics.prom");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; the fixtures are missing", path.display()))
}

/// A server that treats each connection so, once its request is in.
fn server(mut treat: impl FnMut(TcpStream) + Send + 'static) -> RelayUrl {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            assert!(request.starts_with(b"GET /metrics HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&request));
            treat(stream);
        }
    });
    url.parse().unwrap()
}

/// A server that gives this answer.
fn answering(status: &'static str, body: impl Into<Vec<u8>>) -> RelayUrl {
    let body = body.into();
    server(move |mut stream| {
        // The client may have had enough of it.
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(&body);
    })
}

/// What is served of an answer, and what is left out of it.
fn served(body: &[u8], style: Style) -> Result<(String, LeftOut), ParseError> {
    let mut families = Families::styled(Arc::new(style));
    let left_out = relay(body, "node-1", &mut families)?;
    Ok((encode(&families, Format::Text), left_out))
}

/// What is served of an answer that is in order.
fn whole(text: &str, style: Style) -> String {
    let (written, left_out) = served(text.as_bytes(), style).unwrap();
    assert_eq!(left_out, LeftOut::default());
    written
}

fn hosted(host_label: Option<&'static str>) -> Style {
    Style { host_label, ..Style::default() }
}

/// Every sample: its name and labels, with the host's label as it should become, and its value.
fn samples(text: &str, host: Option<(&'static str, &str)>) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for point in Points::new(text, Format::Text, Limits::NONE).map(Result::unwrap) {
        let labels = point.labels.iter().map(|(name, value)| match (HOST_LABELS.contains(&&**name), host) {
            (true, Some((name, value))) => (name, value),
            _ => (&**name, &**value),
        });
        all.insert(format!("{} {:?}", point.name, labels.collect::<Vec<_>>()), point.value);
    }
    all
}

/// A node with a dcgm-exporter and one GPU; only the power of the GPU is known.
fn scraper(url: RelayUrl) -> Scraper {
    let gpus = Arc::new(|| {
        let at = Instant::now();
        let mut values = Values::default();
        values.set(goodput_catalog::dcgm::POWER_USAGE.read, Ok(7500.0));
        let values = Arc::new(values);
        let gpu = Gpu { uuid: "GPU-1".to_owned(), taken: Some(at), values, ..Gpu::default() };
        let driver = Driver::Loaded { version: "580.105.08".to_owned() };
        Arc::new(Snapshot { at, driver, gpus: vec![gpu], ..Snapshot::default() })
    });
    let anywhere = || "/nowhere".into();
    Scraper::start(Setup {
        collectors: REGISTRY.iter().filter(|entry| entry.name == gpu::ENTRY.name).collect(),
        roots: Arc::new(Roots {
            proc: anywhere(),
            sys: anywhere(),
            cgroup: anywhere(),
            root: anywhere(),
            programs: None,
        }),
        gpus,
        resolve: Arc::new(|_, _| Owners::default()),
        hostname: "node-1".into(),
        style: hosted(Some("hostname")),
        dcgm: Arc::default(),
        nccl: Arc::default(),
        counters: None,
        relay: Some(url),
        reuse: Duration::ZERO,
        refusals: Arc::default(),
    })
    .unwrap()
}

fn scrape(scraper: &Scraper) -> (Outcome, String) {
    let scrape: Arc<Scrape> = scraper.request(Instant::now() + Duration::from_secs(60)).blocking_recv().unwrap();
    let report = scrape.reports.iter().find(|report| report.name == NAME).unwrap();
    (report.outcome.clone(), encode(&scrape.families, Format::Text))
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

const OWN: &str = "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",pci_bus_id=\"\",device=\"\",modelName=\"\",\
                   hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"580.105.08\"} 7.5";

#[test]
fn recorded_families_come_through_with_labels_and_values() {
    for name in RECORDED {
        let text = recorded(name);
        for label in HOST_LABELS {
            let written = whole(&text, hosted(Some(label)));
            assert_eq!(samples(&written, None), samples(&text, Some((label, "node-1"))), "{name}");
            for declared in text.lines().filter(|line| line.starts_with("# TYPE") || line.starts_with("# HELP")) {
                assert!(has(&written, declared), "{name}: {declared}");
            }
        }
        let without = whole(&text, hosted(None));
        assert!(!without.contains("ostname="), "{name}");
    }
}

#[test]
fn only_missing_families_are_added_to_our_own() {
    let (outcome, text) = scrape(&scraper(answering("200 OK", recorded("dcgm-a100-mig-disabled"))));
    assert_eq!(outcome, Outcome::Ok);
    assert!(has(&text, "goodput_exporter_collector_state{collector=\"relay\",state=\"ok\"} 1"));
    assert!(has(&text, OWN));
    assert_eq!(text.lines().filter(|line| line.starts_with("DCGM_FI_DEV_POWER_USAGE{")).count(), 1, "{text}");
    assert_eq!(text.matches("# TYPE DCGM_FI_DEV_POWER_USAGE ").count(), 1);
    let profiling = text.lines().find(|line| line.starts_with("DCGM_FI_PROF_GR_ENGINE_ACTIVE{")).unwrap();
    assert!(profiling.contains("hostname=\"node-1\"") && profiling.contains("NVIDIA A100"), "{profiling}");
}

#[test]
fn a_field_of_our_own_is_not_relayed_in_another_spelling() {
    let current = "# TYPE DCGM_FI_DEV_BOARD_POWER_WATTS gauge\nDCGM_FI_DEV_BOARD_POWER_WATTS{gpu=\"0\"} 8\n\
                   DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 8\nDCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu=\"0\"} 40\n\
                   DCGM_FI_PROF_SM_UTIL_RATIO{gpu=\"0\"} 0.5\nDCGM_FI_DEV_NVSWITCH_POWER{nvswitch=\"0\"} 7\n";
    let (outcome, text) = scrape(&scraper(answering("200 OK", current)));
    assert_eq!(outcome, Outcome::Ok);
    assert!(has(&text, OWN) && !text.contains("BOARD_POWER_WATTS"), "{text}");
    assert_eq!(text.matches("DCGM_FI_DEV_POWER_USAGE{").count(), 1);
    for line in [
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu=\"0\"} 40",
        "DCGM_FI_PROF_SM_UTIL_RATIO{gpu=\"0\"} 0.5",
        "DCGM_FI_DEV_NVSWITCH_POWER{nvswitch=\"0\"} 7",
    ] {
        assert!(has(&text, line), "known, but not had here: {line}\n{text}");
    }
}

#[test]
fn what_is_no_value_of_dcgm_is_left_out() {
    let text = "# TYPE DCGM_A gauge\n\
                DCGM_A{gpu=\"0\"} 2147483632\nDCGM_A{gpu=\"1\"} 2147483635\nDCGM_A{gpu=\"2\"} 2147483636\n\
                DCGM_A{gpu=\"3\"} 9223372036854775794\nDCGM_A{gpu=\"4\"} 140737488355330\nDCGM_A{gpu=\"2\"} 5\n\
                # TYPE DCGM_B histogram\nDCGM_B_sum 1\n# TYPE DCGM_C summary\nDCGM_C 1 1700000000000\n\
                DCGM_D{Hostname=\"a\",hostname=\"b\"} 1\ngo_goroutines 7\nprocess_cpu_seconds_total 1\n";
    let expected = "# HELP DCGM_A \n# TYPE DCGM_A gauge\nDCGM_A{gpu=\"2\"} 2147483636\n\
                    # HELP DCGM_B_sum \n# TYPE DCGM_B_sum untyped\nDCGM_B_sum 1\n\
                    # HELP DCGM_C \n# TYPE DCGM_C untyped\nDCGM_C 1\n\
                    # HELP DCGM_D \n# TYPE DCGM_D untyped\nDCGM_D{hostname=\"node-1\"} 1\n";
    assert_eq!(whole(text, hosted(Some("hostname"))), expected);
}

#[test]
fn a_line_that_makes_no_sense_costs_itself() {
    let good = "DCGM_A{x=\"1\"} 1\n";
    for (bad, expected) in [
        ("<html>", "a sample of the text format"),
        ("DCGM_B{x=\"1\"} ERROR - FAILED TO CONVERT", "a sample of the text format"),
        ("DCGM_B{x=\"1\"} 1 soon", "a sample of the text format"),
        ("DCGM_B{x=\"1\",x=\"2\"} 1", "every label once"),
        ("DCGM_B{\"\"=\"1\"} 1", "the name of a label"),
        ("DCGM_B{\"my.label\"=\"1\"} 1", "the name of a label"),
        ("{\"DCGM_B.c\"} 1", "the name of a metric"),
    ] {
        let body = format!("# TYPE DCGM_A gauge\r\n{bad}\r\n{bad}\n{good}");
        let (written, left_out) = served(body.as_bytes(), hosted(None)).unwrap();
        assert_eq!(written, format!("# HELP DCGM_A \n# TYPE DCGM_A gauge\n{good}"));
        assert_eq!(left_out, LeftOut { first: Some(ParseError::new(2, expected, bad)), count: 2 });
    }
    let (written, left_out) =
        served(b"go_info{x=\"1\",x=\"2\"} 1\nDCGM_A{x=\"\xff\"} 2\nDCGM_A inf\n", hosted(None)).unwrap();
    assert_eq!((written.lines().last(), left_out.count), (Some("DCGM_A +Inf"), 1));
    assert_eq!(left_out.first.unwrap().line, 2);
}

#[test]
fn settings_select_relayed_families_too() {
    let text = "DCGM_A{gpu=\"0\"} 1\nDCGM_A{gpu=\"1\"} 2\nDCGM_A{nvswitch=\"3\"} 3\nDCGM_B 4\n";
    let counters = Counters::from(csv("DCGM_A, gauge, x\n").unwrap());
    let style = Style { devices: "g:1".parse().unwrap(), counters: Some(Arc::new(counters)), ..Style::default() };
    let written = whole(text, style);
    assert_eq!(written, "# HELP DCGM_A \n# TYPE DCGM_A untyped\nDCGM_A{gpu=\"1\"} 2\nDCGM_A{nvswitch=\"3\"} 3\n");
}

#[test]
fn a_bad_answer_costs_the_relayed_families_only() {
    let large = format!("DCGM_A {}\n", "1".repeat(MAX_BYTES));
    let cut =
        server(|mut stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nDCGM_A 1\n").unwrap());
    let closed = server(drop);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused: RelayUrl = format!("http://{}", nobody.local_addr().unwrap()).parse().unwrap();
    drop(nobody);
    for (url, part) in [
        (answering("500 Internal Server Error", "DCGM_A 1\n"), "expected status 200, found 500"),
        (answering("302 Found", ""), "expected status 200, found 302"),
        (answering("200 OK", "<html>\n"), "line 1: expected a sample of the text format, found \"<html>\""),
        (answering("200 OK", "DCGM_A{x=\"\"\"} 1\n"), "line 1: expected a sample of the text format, found \"DCGM_A{"),
        (answering("200 OK", vec![b'#', 0xff]), "line 1: expected a sample of the text format, found \"#\u{fffd}\""),
        (answering("200 OK", large), "expected at most 4194304 bytes"),
        (cut, "end of file"),
        (closed, "connection closed"),
        (refused, "refused"),
    ] {
        let (outcome, text) = scrape(&scraper(url.clone()));
        let Outcome::Failed(reason) = &outcome else { panic!("{part}: {outcome:?}") };
        assert!(reason.starts_with(&format!("{url}: ")) && reason.contains(part), "{part}: {reason}");
        assert!(has(&text, "goodput_exporter_collector_state{collector=\"relay\",state=\"failed\"} 1"), "{part}");
        assert!(has(&text, OWN) && !text.contains("DCGM_A"), "{part}");
    }
}

#[test]
fn a_hanging_answer_holds_up_one_scrape_and_heals() {
    let (asked, requests) = channel();
    let url = hanging_once(asked);
    let scraper = scraper(url);
    let (outcome, text) = scrape(&scraper);
    assert_eq!(outcome, Outcome::TimedOut);
    assert!(has(&text, OWN));
    let (outcome, _) = scrape(&scraper);
    assert_eq!(outcome, Outcome::TimedOut);
    let stream = requests.recv().unwrap();
    assert!(requests.try_recv().is_err(), "it was not asked again while it hangs");
    drop(stream);
    let healed = (0..).map(|_| scrape(&scraper)).find(|(outcome, _)| *outcome != Outcome::TimedOut);
    let (outcome, text) = healed.unwrap();
    assert_eq!(outcome, Outcome::Ok);
    assert!(has(&text, "DCGM_A 1"), "{text}");
}

/// Never answers the first request, which it hands out, and answers the others.
fn hanging_once(asked: Sender<TcpStream>) -> RelayUrl {
    let mut first = true;
    server(move |mut stream| {
        if first {
            first = false;
            asked.send(stream).unwrap();
            return;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nDCGM_A 1\n").unwrap();
    })
}
