//! The web configuration file, in Prometheus' format: TLS, client certificates, basic auth, response headers.
//!
//! <https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md>. A value that cannot be acted
//! on is an error that names the alternative, not ignored: each of them is about security. `http2` and
//! `prefer_server_cipher_suites` are accepted and change nothing: HTTP/1.1 always remains possible, and Go ignores the
//! other since 1.18.

mod rate;
mod tls;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, fs, io, thread};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::auth::Users;
pub(crate) use rate::Rate;
use rate::RateSection;
pub(crate) use tls::AllowedSans;
use tls::TlsSection;

/// Between two looks at the files' times.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How long a request waits for a look at the files; on a local disk it takes microseconds.
const PATIENCE: Duration = Duration::from_millis(250);

/// Stack of the thread that reads them, which parses YAML and certificates.
const STACK_BYTES: usize = 512 * 1024;

/// Response headers that the file may set, and their values where only some make sense.
const HEADERS: [(&str, &[&str]); 5] = [
    ("content-security-policy", &[]),
    ("strict-transport-security", &[]),
    ("x-content-type-options", &["nosniff"]),
    ("x-frame-options", &["deny", "sameorigin"]),
    ("x-xss-protection", &[]),
];

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tls_server_config: Option<TlsSection>,
    #[serde(default)]
    http_server_config: HttpSection,
    #[serde(default)]
    basic_auth_users: Users,
    rate_limit: Option<RateSection>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpSection {
    #[serde(rename = "http2")]
    _http2: Option<IgnoredAny>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// A web configuration in use.
#[derive(Default)]
pub struct Rules {
    /// `None` for plain HTTP.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Does every client have to show a certificate?
    pub(crate) client_certificates: bool,
    /// A client's certificate must have one of these names; `None`: any name will do.
    pub(crate) allowed_sans: Option<AllowedSans>,
    /// Empty when everyone is welcome.
    pub(crate) users: Users,
    /// Added to every response.
    pub(crate) headers: HeaderMap,
    /// How many requests are let through.
    pub(crate) rate: Option<Rate>,
}

impl Rules {
    /// Does everyone who gets through have to be known?
    #[must_use]
    pub fn authenticate(&self) -> bool {
        !self.users.is_empty() || self.client_certificates
    }

    /// Reads the file and those it names.
    fn read(path: &Path, files: &mut Files) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let bytes = files.read(path).map_err(|error| named(&error))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| named(&error))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(text, folder, files).map_err(|error| named(&error))
    }

    fn parse(text: &str, folder: &Path, files: &mut Files) -> Result<Self, String> {
        let options = serde_saphyr::options! { with_snippet: false };
        // A file of nothing but comments is the null document.
        let file: Option<File> = serde_saphyr::from_str_with_options(text, options).map_err(|e| e.to_string())?;
        let file = file.unwrap_or_default();
        let tls_server_config = file.tls_server_config.filter(TlsSection::is_enabled);
        let client_certificates = tls_server_config.as_ref().is_some_and(TlsSection::requires_certificates);
        let allowed_sans = tls_server_config.as_ref().map(TlsSection::allowed_sans).transpose();
        let tls = tls_server_config.map(|section| tls::acceptor(&section, folder, files)).transpose();
        let in_tls = |error: String| format!("tls_server_config: {error}");
        for (user, hash) in &file.basic_auth_users {
            bcrypt::HashParts::from_str(hash)
                .map_err(|_| format!("basic_auth_users: {user}: expected a bcrypt hash such as $2y$10$…"))?;
        }
        let rate = file.rate_limit.map(Rate::new).transpose();
        Ok(Self {
            tls: tls.map_err(in_tls)?,
            client_certificates,
            allowed_sans: allowed_sans.map_err(in_tls)?.flatten(),
            rate: rate.map_err(|error| format!("rate_limit: {error}"))?.flatten(),
            users: file.basic_auth_users,
            headers: file.http_server_config.headers.iter().map(header).collect::<Result<_, _>>()?,
        })
    }
}

/// Would this web configuration be taken? The files that it names lie in the folder, unless their paths are absolute.
///
/// # Errors
/// What is wrong with it.
pub fn check(text: &str, folder: &Path) -> Result<(), String> {
    Rules::parse(text, folder, &mut Files::default()).map(drop)
}

fn header((name, value): (&String, &String)) -> Result<(HeaderName, HeaderValue), String> {
    let lower = name.to_ascii_lowercase();
    let Some((_, values)) = HEADERS.iter().find(|(known, _)| *known == lower) else {
        let known = HEADERS.map(|(known, _)| known).join(", ");
        return Err(format!("http_server_config: headers: expected one of {known}, found {name:?}"));
    };
    if !values.is_empty() && !values.iter().any(|known| known.eq_ignore_ascii_case(value)) {
        let known = values.join(" or ");
        return Err(format!("http_server_config: headers: {name}: expected {known}, found {value:?}"));
    }
    let invalid = |what: &str| format!("http_server_config: headers: {name}: {what} is not valid in HTTP");
    let name = HeaderName::from_str(&lower).map_err(|_| invalid("name"))?;
    Ok((name, HeaderValue::from_str(value).map_err(|_| invalid("value"))?))
}

/// The files that were read, and what they looked like just before: a change in between is then seen later.
#[derive(Default)]
pub(crate) struct Files(Vec<(PathBuf, Stamp)>);

/// Enough to notice that a file was written or replaced: time, size, inode. `None` when it is not there.
type Stamp = Option<(SystemTime, u64, u64)>;

impl Files {
    pub(crate) fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.push((path.to_owned(), stamp(path)));
        fs::read(path)
    }

    fn changed(&self) -> bool {
        self.0.iter().any(|(path, then)| stamp(path) != *then)
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

/// The web configuration over time: read again when a file of it changes, so that certificates rotate.
///
/// A thread of its own looks at the files: on a file server that hangs, the last rules stay in force and no request waits for
/// longer than [`PATIENCE`], health included.
pub struct WebConfig {
    shared: Arc<Shared>,
    /// `None` without a file.
    orders: Option<SyncSender<Order>>,
}

struct Shared {
    state: Mutex<State>,
}

/// Locked for moments only: no file is touched meanwhile.
struct State {
    rules: Arc<Rules>,
    /// When a look was last asked for.
    checked: Instant,
    /// Has the thread not come back from it?
    looking: bool,
}

/// What the thread is asked to do.
enum Order {
    /// Read the files if they have changed, then answer.
    Look(oneshot::Sender<()>),
    /// Read the files, then answer.
    Read(oneshot::Sender<()>),
}

impl WebConfig {
    /// Reads the file; without one everything is open and plain.
    ///
    /// # Errors
    /// What is wrong with it, naming file and line or key.
    pub fn load(path: Option<PathBuf>) -> Result<Self, String> {
        let mut files = Files::default();
        let rules = path.as_deref().map_or(Ok(Rules::default()), |path| Rules::read(path, &mut files))?;
        let state = State { rules: Arc::new(rules), checked: Instant::now(), looking: false };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let orders = path.map(|path| watch(path, files, shared.clone())).transpose();
        Ok(Self { shared, orders: orders.map_err(|error| format!("cannot start a thread that reads it: {error}"))? })
    }

    /// The rules for a connection or request. Has the files looked at now and then, and waits a moment for what comes of it.
    pub async fn rules(&self) -> Arc<Rules> {
        if let Some(looked) = self.look() {
            // Without an answer the last rules are in force.
            let _ = timeout(PATIENCE, looked).await;
        }
        self.shared.state.lock().rules.clone()
    }

    /// Asks for a look at the files if it is time for one.
    fn look(&self) -> Option<oneshot::Receiver<()>> {
        let orders = self.orders.as_ref()?;
        let mut state = self.shared.state.lock();
        if state.looking || state.checked.elapsed() < CHECK_EVERY {
            return None;
        }
        let (done, looked) = oneshot::channel();
        state.checked = Instant::now();
        state.looking = orders.try_send(Order::Look(done)).is_ok();
        state.looking.then_some(looked)
    }

    /// Has the files read, and waits a moment for it.
    pub async fn reload(&self) {
        let (done, read) = oneshot::channel();
        // A full queue holds an order to read already, or the thread hangs.
        let sent = self.orders.as_ref().is_some_and(|orders| orders.try_send(Order::Read(done)).is_ok());
        if sent {
            let _ = timeout(PATIENCE, read).await;
        }
    }
}

/// Starts the thread, which ends with the configuration.
fn watch(path: PathBuf, mut files: Files, shared: Arc<Shared>) -> io::Result<SyncSender<Order>> {
    let (orders, inbox) = sync_channel::<Order>(4);
    let run = move || {
        for order in inbox {
            match order {
                Order::Look(done) => {
                    if files.changed() {
                        read_again(&path, &mut files, &shared);
                    }
                    shared.state.lock().looking = false;
                    let _ = done.send(());
                }
                Order::Read(done) => {
                    read_again(&path, &mut files, &shared);
                    let _ = done.send(());
                }
            }
        }
    };
    thread::Builder::new().name("web-config".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
    Ok(orders)
}

/// A file that became wrong leaves the last good rules in force: locked doors stay locked.
fn read_again(path: &Path, files: &mut Files, shared: &Shared) {
    let mut read = Files::default();
    match Rules::read(path, &mut read) {
        Ok(rules) => {
            shared.state.lock().rules = Arc::new(rules);
            tracing::info!("read the web configuration {} again", path.display());
        }
        Err(error) => tracing::error!("kept the web configuration as it was: {error}"),
    }
    *files = read;
}

#[cfg(test)]
mod tests;
