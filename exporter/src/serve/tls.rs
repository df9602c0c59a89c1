//! The `tls_server_config` section: certificates to a TLS acceptor.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::web_config::Files;

/// The section, as in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsSection {
    cert: Option<String>,
    cert_file: Option<PathBuf>,
    key: Option<String>,
    key_file: Option<PathBuf>,
    client_ca: Option<String>,
    client_ca_file: Option<PathBuf>,
    #[serde(default)]
    client_auth_type: ClientAuth,
    #[serde(default)]
    min_version: Option<Version>,
    #[serde(default)]
    max_version: Option<Version>,
}

impl TlsSection {
    /// Does every client have to show a certificate that is checked?
    pub(super) fn requires_certificates(&self) -> bool {
        self.client_auth_type == ClientAuth::RequireAndVerifyClientCert
    }
}

/// What is asked of clients. Of Go's five ways those two that take a certificate without checking it are not offered.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

/// Versions that are safe; Go's older two are rejected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Version {
    Tls12,
    Tls13,
}

/// Makes the acceptor. Relative paths are below `folder`.
pub(super) fn acceptor(section: &TlsSection, folder: &Path, files: &mut Files) -> Result<TlsAcceptor, String> {
    let mut pem = |name, text: &Option<String>, file: &Option<PathBuf>| pem(name, text, file, folder, files);
    let (cert_from, cert) = pem("cert", &section.cert, &section.cert_file)?.ok_or("expected cert_file or cert")?;
    let (key_from, key) = pem("key", &section.key, &section.key_file)?.ok_or("expected key_file or key")?;
    let client_ca = pem("client_ca", &section.client_ca, &section.client_ca_file)?;

    let certs = certificates(&cert_from, &cert)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("{key_from}: {error}"))?;
    let provider = Arc::new(default_provider());
    let versions = versions(section)?;
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(text)?;
    let builder = match verifier(section.client_auth_type, client_ca)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config =
        builder.with_single_cert(certs, key).map_err(|error| format!("{cert_from}, {key_from}: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// PEM text given in one of two ways, with a name for errors about it.
fn pem(
    name: &str,
    inline: &Option<String>,
    file: &Option<PathBuf>,
    folder: &Path,
    files: &mut Files,
) -> Result<Option<(String, Vec<u8>)>, String> {
    match (inline, file) {
        (Some(_), Some(_)) => Err(format!("expected one of {name} and {name}_file, found both")),
        (Some(text), None) => Ok(Some((name.to_owned(), text.clone().into_bytes()))),
        (None, Some(file)) => {
            let path = folder.join(file);
            let from = format!("{name}_file {}", path.display());
            let bytes = files.read(&path).map_err(|error| format!("{from}: {error}"))?;
            Ok(Some((from, bytes)))
        }
        (None, None) => Ok(None),
    }
}

fn certificates(from: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certs: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| format!("{from}: {error}"))?;
    match certs.is_empty() {
        true => Err(format!("{from}: expected PEM certificates, found none")),
        false => Ok(certs),
    }
}

fn verifier(
    auth: ClientAuth,
    client_ca: Option<(String, Vec<u8>)>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let (from, pem) = match (auth, client_ca) {
        (ClientAuth::NoClientCert, None) => return Ok(None),
        (ClientAuth::NoClientCert, Some(_)) => {
            return Err("client_ca needs a client_auth_type that verifies".to_owned());
        }
        (_, None) => return Err("client_auth_type needs client_ca_file or client_ca".to_owned()),
        (_, Some(ca)) => ca,
    };
    let mut roots = RootCertStore::empty();
    for cert in certificates(&from, &pem)? {
        roots.add(cert).map_err(|error| format!("{from}: {error}"))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let builder = match auth {
        ClientAuth::VerifyClientCertIfGiven => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map(Some).map_err(text)
}

fn versions(section: &TlsSection) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let from = section.min_version.unwrap_or(Version::Tls12);
    let to = section.max_version.unwrap_or(Version::Tls13);
    let both = [(Version::Tls12, &TLS12), (Version::Tls13, &TLS13)];
    let versions: Vec<_> = both.into_iter().filter(|(v, _)| (from..=to).contains(v)).map(|(_, v)| v).collect();
    match versions.is_empty() {
        true => Err("max_version is below min_version".to_owned()),
        false => Ok(versions),
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
