//! How a target is reached: TLS and credentials, read from files that may change while the program runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, HOST, HeaderValue};
use reqwest::{Certificate, Client, ClientBuilder, Identity, RequestBuilder, Url};

use goodput_engine::http;

/// TLS and credentials of a job or a discovery. Secrets are in files alone, so that a configuration can be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// How the connection is secured.
    pub tls: Tls,
    /// Who asks.
    pub credentials: Option<Credentials>,
}

/// Prometheus' `tls_config`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Authorities that are believed instead of those of the system.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and key; both or none.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The DNS name that the server's certificate has to have, and that it is asked for.
    pub server_name: Option<String>,
    /// The server's certificate is not looked at.
    pub insecure_skip_verify: bool,
}

/// What is sent as `Authorization`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Credentials {
    /// Prometheus' `basic_auth`.
    Basic {
        /// The name.
        username: String,
        /// The file of the password.
        password_file: PathBuf,
    },
    /// Prometheus' `authorization`.
    Token {
        /// The scheme, such as `Bearer`.
        scheme: String,
        /// The file of what follows it.
        credentials_file: PathBuf,
    },
}

/// One client per way of access, rebuilt when one of its files has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Arc<Mutex<HashMap<Door, (Stamp, Client)>>>);

/// What a client is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Door {
    access: Arc<Access>,
    scheme: String,
    /// With a server name the host and port that are asked under this name.
    pinned: Option<(String, u16)>,
}

/// When the files of an access were last changed.
type Stamp = Vec<Option<SystemTime>>;

impl Clients {
    /// A request for this address; an error names the file or the address.
    pub(super) fn get(&self, access: &Arc<Access>, url: &str) -> Result<RequestBuilder, String> {
        let mut url: Url = url.parse().map_err(|error| format!("not a URL: {error}"))?;
        let (host, port) = (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default().unwrap_or(443));
        let mut pinned = None;
        if let Some(name) = access.tls.server_name.as_deref().filter(|_| url.scheme() == "https") {
            url.set_host(Some(name)).map_err(|error| format!("server_name {name:?}: {error}"))?;
            pinned = Some((host.clone(), port));
        }
        let renamed = pinned.is_some();
        let door = Door { access: Arc::clone(access), scheme: url.scheme().to_owned(), pinned };
        let request = self.client(door)?.get(url);
        let request = if renamed { request.header(HOST, format!("{host}:{port}")) } else { request };
        authorized(request, access.credentials.as_ref())
    }

    fn client(&self, door: Door) -> Result<Client, String> {
        let stamp = door.access.tls.stamp();
        let clients = &mut *self.0.lock();
        if let Some((_, client)) = clients.get(&door).filter(|(known, _)| *known == stamp) {
            return Ok(client.clone());
        }
        let client = build(&door)?;
        clients.insert(door, (stamp, client.clone()));
        Ok(client)
    }
}

impl Tls {
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let identity = self.identity.iter().flat_map(|(cert, key)| [cert, key]);
        self.ca_file.iter().chain(identity)
    }

    fn stamp(&self) -> Stamp {
        self.files().map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok()).collect()
    }

    fn authorities(&self) -> Result<Option<Vec<Certificate>>, String> {
        let Some(path) = &self.ca_file else { return Ok(None) };
        let authorities = Certificate::from_pem_bundle(&read(path)?).unwrap_or_default();
        if authorities.is_empty() {
            return Err(format!("ca_file {}: expected certificates in PEM", path.display()));
        }
        Ok(Some(authorities))
    }

    fn own(&self) -> Result<Option<Identity>, String> {
        let Some((cert, key)) = &self.identity else { return Ok(None) };
        let pem = [read(cert)?, b"\n".to_vec(), read(key)?].concat();
        let identity = Identity::from_pem(&pem).map_err(|error| {
            format!("cert_file {} and key_file {}: {}", cert.display(), key.display(), http::causes(&error))
        })?;
        Ok(Some(identity))
    }
}

/// Connections are kept between requests. Proxies of the environment are not used: targets are near.
fn build(Door { access, scheme, pinned }: &Door) -> Result<Client, String> {
    let (authorities, identity) = (access.tls.authorities()?, access.tls.own()?);
    http::client(scheme, || {
        // Connections whose target is gone are not kept for long.
        let builder = Client::builder().pool_idle_timeout(Duration::from_secs(90));
        let builder = builder.no_proxy().user_agent("goodput-analyzer");
        let builder = builder.tls_danger_accept_invalid_certs(access.tls.insecure_skip_verify);
        let builder = authorities.clone().into_iter().fold(builder, ClientBuilder::tls_certs_only);
        let builder = identity.clone().into_iter().fold(builder, ClientBuilder::identity);
        let pinned = pinned.clone().map(|(host, port)| Arc::new(Pinned { host, port }));
        pinned.into_iter().fold(builder, ClientBuilder::dns_resolver)
    })
}

fn authorized(request: RequestBuilder, credentials: Option<&Credentials>) -> Result<RequestBuilder, String> {
    Ok(match credentials {
        None => request,
        Some(Credentials::Basic { username, password_file }) => {
            request.basic_auth(username, Some(secret(password_file)?))
        }
        Some(Credentials::Token { scheme, credentials_file }) => {
            let path = credentials_file.display();
            let mut value = HeaderValue::from_str(&format!("{scheme} {}", secret(credentials_file)?))
                .map_err(|_| format!("{path}: expected what a header can hold"))?;
            value.set_sensitive(true);
            request.header(AUTHORIZATION, value)
        }
    })
}

/// A secret as editors leave it, with a line feed at the end.
fn secret(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(read(path)?).map_err(|_| format!("{}: expected UTF-8", path.display()))?;
    Ok(text.trim().to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Resolves every name to one host: the certificate's name need not be one that DNS knows.
struct Pinned {
    host: String,
    port: u16,
}

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        let host = self.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = self.port;
        Box::pin(async move {
            let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
