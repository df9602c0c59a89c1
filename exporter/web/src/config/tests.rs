//! Every mistake in the file, and everything that exporter-toolkit takes.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;

/// A pipe that no one writes to stands for a file on a server that hangs: reading it does not come back.
#[tokio::test]
async fn a_file_that_hangs_leaves_the_last_rules_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yml");
    std::fs::write(&path, "http_server_config: {headers: {X-Frame-Options: deny}}\n").unwrap();
    let web = WebConfig::load(Some(path.clone())).unwrap();
    std::fs::remove_file(&path).unwrap();
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    web.shared.state.lock().checked = Instant::now().checked_sub(CHECK_EVERY).unwrap();
    for _ in 0..3 {
        assert_eq!(web.rules().await.headers.len(), 1);
    }
    assert!(web.shared.state.lock().looking, "the look has not come back");
    web.reload().await;
    // Opening the pipe to write ends the wait.
    drop(std::fs::OpenOptions::new().write(true).open(path).unwrap());
}

/// A certificate for these names, its key, and the certificate of the authority that signed it.
fn certificate(names: &[&str]) -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    (CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem(), ca)
}

/// A folder with the certificates that the texts name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let (cert, key, ca) = certificate(&["localhost"]);
    for (name, text) in
        [("server.crt", &cert), ("server.key", &key), ("ca.crt", &ca), ("other.key", &certificate(&["x"]).1)]
    {
        write(name, text);
    }
    folder
}

fn load(folder: &Path, text: &str) -> Result<WebConfig, String> {
    let path = folder.join("web.yml");
    std::fs::write(&path, text).unwrap();
    WebConfig::load(Some(path))
}

const PAIR: &str = "cert_file: server.crt, key_file: server.key";

#[test]
fn a_mistake_names_the_key_and_the_line() {
    let folder = folder();
    let tls = |more: &str| format!("tls_server_config: {{{PAIR}, {more}}}\n");
    for (text, expected) in [
        ("basic_auth_user:\n  a: b\n".to_owned(), "line 1"),
        ("tls_server_config:\n  cert_file: server.crt\n  key_fil: x\n".to_owned(), "line 3"),
        ("rate_limit: {interval: 1s}\n".to_owned(), "rate_limit: burst: expected at least 1"),
        ("rate_limit: {interval: fast, burst: 1}\n".to_owned(), "rate_limit: interval: expected a duration"),
        ("tls_server_config: {key_file: server.key}\n".to_owned(), "expected cert_file or cert"),
        ("tls_server_config: {cert_file: server.crt}\n".to_owned(), "expected key_file or key"),
        ("tls_server_config: {cert_file: nosuch.crt, key_file: server.key}\n".to_owned(), "nosuch.crt: No such file"),
        (
            "tls_server_config: {cert_file: server.key, key_file: server.key}\n".to_owned(),
            "PEM certificates, found none",
        ),
        ("tls_server_config: {cert_file: server.crt, key_file: server.crt}\n".to_owned(), "key_file"),
        ("tls_server_config: {cert_file: server.crt, key_file: other.key}\n".to_owned(), "server.crt"),
        (tls("cert: x"), "found both"),
        (tls("min_version: TLS10"), "TLS10 is not secure; use TLS12 or TLS13"),
        (tls("max_version: TLS11"), "TLS11 is not secure; use TLS12 or TLS13"),
        (tls("min_version: SSL3"), "expected TLS12 or TLS13, found \"SSL3\""),
        (tls("min_version: TLS13, max_version: TLS12"), "max_version is below min_version"),
        (tls("client_ca_file: server.crt"), "client_ca needs a client_auth_type"),
        (tls("client_auth_type: RequestClientCert"), "use VerifyClientCertIfGiven"),
        (tls("client_auth_type: RequireAnyClientCert"), "use RequireAndVerifyClientCert"),
        (tls("client_auth_type: RequireClientCert"), "use RequireAndVerifyClientCert"),
        (tls("client_auth_type: Maybe"), "client_auth_type: expected NoClientCert"),
        (tls("client_auth_type: VerifyClientCertIfGiven"), "needs client_ca_file"),
        (tls("client_allowed_sans: [a]"), "client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert"),
        (
            tls("client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt, client_allowed_sans: ['a@b.c']"),
            "give the certificate a DNS name",
        ),
        (tls("cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]"), "use some of TLS_AES_"),
        (tls("curve_preferences: [CurveP521]"), "use some of X25519, CurveP256, CurveP384"),
        ("basic_auth_users: {alice: secret}\n".to_owned(), "alice: expected a bcrypt hash"),
        ("http_server_config: {headers: {Server: x}}\n".to_owned(), "found \"Server\""),
        ("http_server_config: {headers: {X-Content-Type-Options: sniff}}\n".to_owned(), "expected nosniff"),
        ("http_server_config: {headers: {X-Frame-Options: allow}}\n".to_owned(), "expected deny or sameorigin"),
        ("a: [\n".to_owned(), "line"),
    ] {
        let error = load(folder.path(), &text).err().unwrap_or_default();
        assert!(error.contains(expected) && error.contains("web.yml"), "{text}: {error}");
        assert!(!error.contains("alice: secret"), "a password in an error: {error}");
    }
}

/// Every key of exporter-toolkit's docs/web-configuration.md, with values that are safe.
#[tokio::test]
async fn what_exporter_toolkit_takes_is_taken() {
    let folder = folder();
    let hash = bcrypt::hash("x", 4).unwrap();
    let whole = format!(
        "tls_server_config:\n  {}\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n  \
         client_allowed_sans: [prometheus.example, 10.0.0.1]\n  min_version: TLS12\n  max_version: TLS13\n  \
         cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]\n  \
         prefer_server_cipher_suites: true\n  curve_preferences: [CurveP256, X25519]\n\
         http_server_config:\n  http2: true\n  headers:\n    X-Frame-Options: deny\n    \
         Strict-Transport-Security: max-age=31536000\n\
         rate_limit:\n  interval: 1s\n  burst: 20\nbasic_auth_users:\n  alice: {hash}\n",
        PAIR.replace(", ", "\n  ")
    );
    let rules = load(folder.path(), &whole).unwrap().rules().await;
    assert!(rules.tls.is_some() && rules.authenticate() && rules.rate.is_some());
    for more in [
        "",
        "client_auth_type: NoClientCert",
        "client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.crt",
        "cert: '', key: '', client_ca: '', client_ca_file: '', client_auth_type: ''",
        "cipher_suites: [], curve_preferences: []",
    ] {
        let rules = load(folder.path(), &format!("tls_server_config: {{{PAIR}, {more}}}\n")).unwrap().rules().await;
        assert!(rules.tls.is_some(), "{more}");
    }
    for empty in [
        "",
        "# nothing\n",
        "basic_auth_users: {}\n",
        "basic_auth_users:\nhttp_server_config:\nrate_limit:\ntls_server_config:\n",
        "http_server_config: {}\n",
        "tls_server_config: {}\n",
        "tls_server_config: {min_version: TLS12, client_auth_type: ''}\n",
        "rate_limit: {}\n",
        "rate_limit: {interval: 0, burst: 0}\n",
    ] {
        let rules = load(folder.path(), empty).unwrap().rules().await;
        assert!(!rules.authenticate() && rules.tls.is_none() && rules.rate.is_none(), "{empty:?}");
    }
}

#[test]
fn a_client_is_allowed_by_one_of_its_names() {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    let allowed = |sans: &str, names: &[&str]| {
        let text = format!(
            "tls_server_config: {{{PAIR}, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt, \
             client_allowed_sans: [{sans}]}}\n"
        );
        let folder = folder();
        let rules = Rules::parse(&text, folder.path(), &mut Files::default()).unwrap();
        let (pem, ..) = certificate(names);
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        rules.allowed_sans.unwrap().allow(Some(&[certificate])).is_ok()
    };
    assert!(allowed("a.example, Prometheus.Example", &["prometheus.example"]));
    assert!(allowed("10.0.0.1", &["x", "10.0.0.1"]));
    assert!(!allowed("a.example", &["b.example"]));
    assert!(!allowed("a.example", &["*.example"]), "as in exporter-toolkit, names are compared as they stand");
    assert!(!allowed("10.0.0.1", &["10.0.0.2"]));
}
