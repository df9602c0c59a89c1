//! The `tls_server_config` section: certificates to a TLS acceptor.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::{CryptoProvider, SupportedKxGroup};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    CipherSuite, NamedGroup, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};
use webpki::EndEntityCert;

use super::Files;

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
    client_allowed_sans: Option<Vec<String>>,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    #[serde(rename = "prefer_server_cipher_suites")]
    _prefer_server_cipher_suites: Option<IgnoredAny>,
}

impl TlsSection {
    /// Does it ask for TLS? Without a certificate, a key and anything about clients it does not, as in exporter-toolkit.
    pub(super) fn is_enabled(&self) -> bool {
        let texts = [&self.cert, &self.key, &self.client_ca].map(|text| given(text).is_some());
        let files = [&self.cert_file, &self.key_file, &self.client_ca_file].map(|file| named(file).is_some());
        texts.contains(&true) || files.contains(&true) || self.client_auth_type != ClientAuth::Unset
    }

    /// Does every client have to show a certificate that is checked?
    pub(super) fn requires_certificates(&self) -> bool {
        self.client_auth_type == ClientAuth::RequireAndVerifyClientCert
    }

    /// Which names a client's certificate has to have.
    pub(super) fn allowed_sans(&self) -> Result<Option<AllowedSans>, String> {
        let Some(names) = &self.client_allowed_sans else { return Ok(None) };
        if !self.requires_certificates() {
            return Err("client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert".to_owned());
        }
        AllowedSans::new(names).map(Some)
    }
}

/// What is asked of clients. Of Go's five ways those two that take a certificate without checking it are not offered.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum ClientAuth {
    #[default]
    Unset,
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

impl TryFrom<String> for ClientAuth {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "" => Ok(Self::Unset),
            "NoClientCert" => Ok(Self::NoClientCert),
            "VerifyClientCertIfGiven" => Ok(Self::VerifyClientCertIfGiven),
            "RequireAndVerifyClientCert" => Ok(Self::RequireAndVerifyClientCert),
            "RequestClientCert" => {
                Err("client_auth_type: RequestClientCert takes any certificate without checking it; \
                                        use VerifyClientCertIfGiven"
                    .to_owned())
            }
            "RequireAnyClientCert" | "RequireClientCert" => Err(format!(
                "client_auth_type: {text} takes any certificate without checking it; use RequireAndVerifyClientCert"
            )),
            _ => Err(format!(
                "client_auth_type: expected NoClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert, found \
                 {text:?}"
            )),
        }
    }
}

/// Versions that are safe; Go's older two are refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
enum Version {
    Tls12,
    Tls13,
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "TLS12" => Ok(Self::Tls12),
            "TLS13" => Ok(Self::Tls13),
            // RFC 8996 forbids both.
            "TLS10" | "TLS11" => Err(format!("{text} is not secure; use TLS12 or TLS13")),
            _ => Err(format!("expected TLS12 or TLS13, found {text:?}")),
        }
    }
}

/// A client's certificate must have one of these names (`client_allowed_sans`).
#[derive(Debug)]
pub(crate) struct AllowedSans {
    names: Vec<String>,
    addresses: Vec<ServerName<'static>>,
}

impl AllowedSans {
    fn new(list: &[String]) -> Result<Self, String> {
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        for entry in list {
            if let Ok(address) = entry.parse::<IpAddr>() {
                addresses.push(ServerName::IpAddress(address.into()));
            } else if entry.is_empty() || entry.contains(['@', '/', ':', ' ']) {
                return Err(format!(
                    "client_allowed_sans: {entry:?}: only DNS names and IP addresses are compared; give the certificate a \
                     DNS name"
                ));
            } else {
                names.push(entry.to_ascii_lowercase());
            }
        }
        Ok(Self { names, addresses })
    }

    /// Has the first of these certificates one of the names?
    pub(crate) fn allow(&self, certificates: Option<&[CertificateDer<'_>]>) -> Result<(), String> {
        let refused = || "the client's certificate has none of client_allowed_sans".to_owned();
        let certificate = certificates.and_then(<[_]>::first).ok_or_else(refused)?;
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|error| format!("a client's certificate: {error}"))?;
        let named = certificate.valid_dns_names().any(|name| self.names.iter().any(|n| n.eq_ignore_ascii_case(name)));
        let mut addresses = self.addresses.iter();
        let allowed = named || addresses.any(|address| certificate.verify_is_valid_for_subject_name(address).is_ok());
        if allowed { Ok(()) } else { Err(refused()) }
    }
}

/// Makes the acceptor. Relative paths are below `folder`.
pub(super) fn acceptor(section: &TlsSection, folder: &Path, files: &mut Files) -> Result<TlsAcceptor, String> {
    let mut pem = |name, text: &Option<String>, file: &Option<PathBuf>| pem(name, text, file, folder, files);
    let (cert_from, cert) = pem("cert", &section.cert, &section.cert_file)?.ok_or("expected cert_file or cert")?;
    let (key_from, key) = pem("key", &section.key, &section.key_file)?.ok_or("expected key_file or key")?;
    let client_ca = pem("client_ca", &section.client_ca, &section.client_ca_file)?;

    let certs = certificates(&cert_from, &cert)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("{key_from}: {error}"))?;
    let provider = Arc::new(provider(section)?);
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

/// What TLS is made of, in the order and with the names of the file, where it names them.
fn provider(section: &TlsSection) -> Result<CryptoProvider, String> {
    let mut provider = default_provider();
    if let Some(names) = section.cipher_suites.as_ref().filter(|names| !names.is_empty()) {
        let known = |suite: &SupportedCipherSuite| go_name(suite.suite());
        let mut suites = chosen("cipher_suites", names, &provider.cipher_suites, known)?;
        // As in Go, the list is of TLS 1.2: suites of TLS 1.3 are not chosen.
        let named: Vec<_> = suites.iter().map(SupportedCipherSuite::suite).collect();
        let newer = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some());
        suites.splice(0..0, newer.filter(|suite| !named.contains(&suite.suite())).copied());
        provider.cipher_suites = suites;
    }
    if let Some(names) = section.curve_preferences.as_ref().filter(|names| !names.is_empty()) {
        let known = |group: &&'static dyn SupportedKxGroup| match group.name() {
            NamedGroup::X25519 => "X25519".to_owned(),
            NamedGroup::secp256r1 => "CurveP256".to_owned(),
            NamedGroup::secp384r1 => "CurveP384".to_owned(),
            other => format!("{other:?}"),
        };
        provider.kx_groups = chosen("curve_preferences", names, &provider.kx_groups, known)?;
    }
    Ok(provider)
}

/// What the names choose of all that there is.
fn chosen<T: Copy>(key: &str, names: &[String], all: &[T], known: impl Fn(&T) -> String) -> Result<Vec<T>, String> {
    let find = |name: &String| {
        let unknown = || {
            let offered: Vec<_> = all.iter().map(&known).collect();
            format!("{key}: {name:?} is not offered; use some of {}", offered.join(", "))
        };
        all.iter().find(|one| known(one) == *name).copied().ok_or_else(unknown)
    };
    names.iter().map(find).collect()
}

/// The name of a suite in Go: that of its RFC.
fn go_name(suite: CipherSuite) -> String {
    format!("{suite:?}").replace("TLS13_", "TLS_")
}

/// An empty text counts as none.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

fn named(file: &Option<PathBuf>) -> Option<&Path> {
    file.as_deref().filter(|file| !file.as_os_str().is_empty())
}

/// PEM text given in one of two ways, with a name for errors about it.
fn pem(
    name: &str,
    inline: &Option<String>,
    file: &Option<PathBuf>,
    folder: &Path,
    files: &mut Files,
) -> Result<Option<(String, Vec<u8>)>, String> {
    match (given(inline), named(file)) {
        (Some(_), Some(_)) => Err(format!("expected one of {name} and {name}_file, found both")),
        (Some(text), None) => Ok(Some((name.to_owned(), text.to_owned().into_bytes()))),
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
        (ClientAuth::Unset | ClientAuth::NoClientCert, None) => return Ok(None),
        (ClientAuth::Unset | ClientAuth::NoClientCert, Some(_)) => {
            return Err("client_ca needs a client_auth_type that verifies".to_owned());
        }
        (_, None) => {
            let text = "client_auth_type needs client_ca_file or client_ca: the system's authorities are not taken";
            return Err(text.to_owned());
        }
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
