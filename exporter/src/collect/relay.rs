//! `relay`: the families that a dcgm-exporter on this node has and this exporter has not, such as those of NVSwitches
//! and, before Hopper, the profiling ones. Runs only with `--dcgm.relay-url`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::*;
use crate::parse::counters::is_name;
use crate::parse::relay_url::RelayUrl;
use crate::parse::{LeftOut, ParseError};
use crate::source::left_out;
use goodput_catalog::Unit;
use goodput_exposition::{About, Families, Format, Head, Limits, Point, PointLabels, Points, Reason, TextError, about};

/// The collector's name.
pub const NAME: &str = "relay";

/// How long a scrape waits for it: what is served without it must not come late.
pub const DEADLINE: Duration = Duration::from_millis(1500);

/// How long one answer may take. While one is waited for, no other is asked for, and no scrape waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest answer in bytes: ten times that of eight GPUs with seven instances each.
const MAX_BYTES: usize = 4 << 20;

/// The names that are relayed: those of the program it asks are not about GPUs.
const RELAYED: &str = "DCGM_";

/// The labels that dcgm-exporter's generations give the host's name.
const HOST_LABELS: [&str; 2] = ["Hostname", "hostname"];

/// DCGM's numbers for "none", "not found", "not supported" and "no permission", as 32 and 64 bit integers and as
/// floating point (dcgm_fields.h). They are no values.
const BLANK: [f64; 3] = [0x7fff_fff0_u32 as f64, 0x7fff_ffff_ffff_fff0_u64 as f64, 140_737_488_355_328.0];

/// Asks one dcgm-exporter.
pub struct Relay {
    url: RelayUrl,
    runtime: Option<Runtime>,
}

impl Relay {
    /// Asks this one.
    #[must_use]
    pub fn new(url: RelayUrl) -> Self {
        Self { url, runtime: None }
    }

    fn answer(&mut self) -> Result<Vec<u8>, String> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?,
        };
        let answer = runtime.block_on(async {
            let late = |_| format!("no answer in {} s", PATIENCE.as_secs());
            timeout(PATIENCE, fetch(&self.url)).await.map_err(late)?
        });
        self.runtime = Some(runtime);
        answer
    }
}

impl Collector for Relay {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let failed = |url: &RelayUrl, error: &dyn fmt::Display| CollectError::Other(format!("{url}: {error}"));
        let body = self.answer().map_err(|error| failed(&self.url, &error))?;
        let left = relay(&body, &context.hostname, out).map_err(|error| failed(&self.url, &error))?;
        if let Some(error) = left.first {
            left_out::note(FileError::Malformed { path: self.url.to_string().into(), error }, left.count);
        }
        Ok(Done::Ok)
    }
}

async fn fetch(url: &RelayUrl) -> Result<Vec<u8>, String> {
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| explained(&error))?;
    let request = Request::get(&url.path)
        .header(HOST, format!("{}:{}", url.host, url.port))
        .header(ACCEPT, "text/plain;version=0.0.4")
        .body(String::new())
        .map_err(|error| error.to_string())?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|error| explained(&error))?;
        match response.status() {
            StatusCode::OK => read(response.into_body()).await,
            status => Err(format!("expected status 200, found {status}")),
        }
    };
    // The connection ends with the exchange, which owns its other end.
    let (answer, _) = tokio::join!(exchange, connection);
    answer
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| explained(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BYTES {
            return Err(format!("expected at most {MAX_BYTES} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// hyper's errors keep their cause to themselves.
fn explained(error: &hyper::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Adds what another exporter wrote. A line that makes no sense costs itself.
///
/// # Errors
/// The first such line, where no sample could be read.
fn relay(body: &[u8], hostname: &str, out: &mut Families) -> Result<LeftOut, ParseError> {
    let lines = || body.split(|byte| *byte == b'\n');
    let (mut kinds, mut helps) = (BTreeMap::new(), BTreeMap::new());
    for line in lines().filter_map(|line| str::from_utf8(line).ok()) {
        match about(line) {
            Some(About::Type(name, kind)) => drop(kinds.insert(name, kind)),
            Some(About::Help(name, help)) => drop(helps.insert(name, help)),
            None => {}
        }
    }
    let (mut read, mut count, mut first) = (0, 0, None);
    let mut points = Points::new(body, Format::Text, Limits::NONE);
    while let Some(point) = points.next() {
        read += u64::from(point.is_ok());
        match relayed(point) {
            Ok(None) => {}
            Ok(Some(Point { name, labels, value, .. })) => {
                let head = Head {
                    name: name.to_string().into(),
                    kind: kinds.get(&*name).copied().flatten(),
                    unit: Unit::None,
                    help: helps.get(&*name).map(|help| help.to_string()).unwrap_or_default().into(),
                };
                let labels = self::labels(&labels, out.host_label(), hostname);
                out.push_foreign(head, &labels, value);
            }
            Err(expected) => {
                first.get_or_insert((points.line(), expected));
                count += 1;
            }
        }
    }
    let text = |line| String::from_utf8_lossy(lines().nth(line - 1).unwrap_or_default());
    match first.map(|(line, expected)| ParseError::new(line, expected, text(line).trim())) {
        Some(error) if read == 0 => Err(error),
        first => Ok(LeftOut { first, count }),
    }
}

/// A sample that is relayed, and can be written again; `None` for one that is not about GPUs, or is no value.
///
/// # Errors
/// What was expected.
fn relayed(point: Result<Point<'_>, TextError>) -> Result<Option<Point<'_>>, &'static str> {
    let point = point.map_err(|_| "a sample of the text format")?;
    if !point.name.starts_with(RELAYED) || is_blank(point.value) {
        return Ok(None);
    }
    // Names of other characters stand in quotes, which text 0.0.4 does not have.
    match &point.fault {
        _ if !is_name(&point.name) => Err("the name of a metric"),
        Some(fault) if fault.reason == Reason::DuplicateLabel => Err("every label once"),
        None if point.labels.iter().all(|(name, _)| is_name(name)) => Ok(Some(point)),
        _ => Err("the name of a label"),
    }
}

/// The labels as they are, but for the host's, which is written as in our own series.
fn labels<'a>(labels: &'a PointLabels<'_>, host_label: Option<&'a str>, hostname: &'a str) -> Vec<(&'a str, &'a str)> {
    let is_host = |name: &str| HOST_LABELS.contains(&name);
    let host = labels.iter().position(|(name, _)| is_host(name));
    let label = |(position, (name, value)): (usize, &'a (Cow<'_, str>, Cow<'_, str>))| match is_host(name) {
        true => host_label.filter(|_| host == Some(position)).map(|name| (name, hostname)),
        false => Some((name.as_ref(), value.as_ref())),
    };
    labels.iter().enumerate().filter_map(label).collect()
}

fn is_blank(value: f64) -> bool {
    BLANK.iter().any(|blank| (*blank..=*blank + 3.0).contains(&value))
}

#[cfg(test)]
mod tests;
