//! `relay`: the families that a dcgm-exporter on this node has and this exporter has not, such as those of NVSwitches
//! and, before Hopper, the profiling ones. Runs only with `--dcgm.relay-url`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{CollectError, Collector, Context, Done};
use crate::catalog::Unit;
use crate::family::{Families, Head};
use crate::parse::ParseError;
use crate::parse::exposition::{Line, Sample, line};

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

/// Where it is asked: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayUrl {
    host: String,
    port: u16,
    path: String,
}

impl FromStr for RelayUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected http://HOST[:PORT][/PATH], such as http://localhost:9401/metrics".to_owned();
        let rest = text.strip_prefix("http://").ok_or_else(expected)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| expected())?),
            _ => (authority, 80),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let plain = |text: &str, others: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
        let good = match bare {
            Some(address) => plain(address, ":."),
            None => plain(host, "-._"),
        };
        if host.is_empty() || !good || !plain(path, "/-._~%?=&") {
            return Err(expected());
        }
        let path = if path.is_empty() { "/metrics" } else { path };
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port, path: path.to_owned() })
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "http://[{}]:{}{}", self.host, self.port, self.path),
            false => write!(f, "http://{}:{}{}", self.host, self.port, self.path),
        }
    }
}

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

    fn answer(&mut self) -> Result<String, String> {
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
        let text = self.answer().map_err(|error| failed(&self.url, &error))?;
        relay(&text, &context.hostname, out).map_err(|error| failed(&self.url, &error))?;
        Ok(Done::Ok)
    }
}

async fn fetch(url: &RelayUrl) -> Result<String, String> {
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

async fn read(mut body: Incoming) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| explained(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BYTES {
            return Err(format!("expected at most {MAX_BYTES} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// hyper's errors keep their cause to themselves.
fn explained(error: &hyper::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Adds what another exporter wrote, all of it or nothing.
fn relay(text: &str, hostname: &str, out: &mut Families) -> Result<(), ParseError> {
    let lines: Vec<Line<'_>> =
        text.lines().zip(1..).map(|(text, number)| line(number, text)).collect::<Result<_, _>>()?;
    let (mut kinds, mut helps) = (BTreeMap::new(), BTreeMap::new());
    for line in &lines {
        match line {
            Line::Type(name, kind) => drop(kinds.insert(*name, *kind)),
            Line::Help(name, help) => drop(helps.insert(*name, help.as_ref())),
            Line::Sample(_) | Line::Nothing => {}
        }
    }
    let mut seen = HashSet::new();
    let samples = lines.iter().filter_map(|line| match line {
        Line::Sample(sample) => Some(sample),
        _ => None,
    });
    for sample in samples.filter(|sample| sample.name.starts_with(RELAYED) && !is_blank(sample.value)) {
        if !seen.insert(sample.series) {
            continue;
        }
        let head = Head {
            name: sample.name.to_owned().into(),
            kind: kinds.get(sample.name).copied().flatten(),
            unit: Unit::None,
            help: helps.get(sample.name).copied().unwrap_or_default().to_owned().into(),
        };
        let labels = labels(sample, out.host_label(), hostname);
        out.push_foreign(head, &labels, sample.value);
    }
    Ok(())
}

/// The labels as they are, but for the host's, which is written as in our own series.
fn labels<'a>(sample: &'a Sample<'_>, host_label: Option<&'a str>, hostname: &'a str) -> Vec<(&'a str, &'a str)> {
    let is_host = |name: &str| HOST_LABELS.contains(&name);
    let host = sample.labels.iter().position(|(name, _)| is_host(name));
    let label = |(position, (name, value)): (usize, &'a (&str, Cow<'_, str>))| match is_host(name) {
        true => host_label.filter(|_| host == Some(position)).map(|name| (name, hostname)),
        false => Some((*name, value.as_ref())),
    };
    sample.labels.iter().enumerate().filter_map(label).collect()
}

fn is_blank(value: f64) -> bool {
    BLANK.iter().any(|blank| (*blank..=*blank + 3.0).contains(&value))
}

#[cfg(test)]
mod tests;
