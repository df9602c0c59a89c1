//! The web configuration over real sockets: basic auth, certificates, rotation, and every mistake in the file.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;

/// A folder with a web configuration, its flag, and the certificates for it.
struct Folder {
    folder: tempfile::TempDir,
    flag: String,
}

impl Folder {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flag = format!("--web.config.file={}", folder.path().join("web.yml").display());
        let this = Self { folder, flag };
        this.write("web.yml", text);
        this
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }
}

#[tokio::test]
async fn basic_auth_guards_every_path() {
    let hash = bcrypt::hash("secret", 4).unwrap();
    let folder = Folder::new(&format!(
        "basic_auth_users:\n  alice: {hash}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n"
    ));
    let server = start(&[&folder.flag]).await;
    for path in ["/metrics", "/", "/-/healthy", "/nosuch"] {
        let refused = server.get(path, &[]).await;
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Basic")), "{path}");
        assert_eq!(refused.header("x-frame-options"), Some("deny"));
        assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    }
    // alice:secret
    assert_eq!(server.get("/metrics", &[("Authorization", "Basic YWxpY2U6c2VjcmV0")]).await.status, 200);
    // alice:wrong
    assert_eq!(server.get("/metrics", &[("Authorization", "Basic YWxpY2U6d3Jvbmc=")]).await.status, 401);

    folder.write("web.yml", "");
    server.web.reload().await;
    assert_eq!(server.get("/metrics", &[]).await.status, 200, "an empty file opens the door");
    folder.write("web.yml", "basic_auth_users: {alice: plain}");
    server.web.reload().await;
    assert_eq!(server.get("/metrics", &[]).await.status, 200, "a wrong file changes nothing");
    server.stop().await;
}

/// A certificate authority and what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key for `localhost`.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A client that trusts this authority and may show a certificate.
    fn client(&self, identity: Option<&(String, String)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let cert = CertificateDer::from_pem_slice(cert.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(vec![cert], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                    .unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

async fn get_tls(server: &Running, client: &TlsConnector) -> Result<Answer, std::io::Error> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let stream = client.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    Ok(exchange(stream, &request("GET", "/-/healthy", &[])).await)
}

/// The status of what is answered on a connection that stays open.
async fn ask_again(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> u16 {
    stream.write_all(b"HEAD /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

#[tokio::test]
async fn tls_certificates_rotate_without_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = Folder::new(TLS);
    let install = |authority: &Authority| {
        let (cert, key) = authority.sign();
        folder.write("server.crt", &cert);
        folder.write("server.key", &key);
    };
    install(&old);
    let server = start(&[&folder.flag]).await;
    assert_eq!(get_tls(&server, &old.client(None)).await.unwrap().status, 200);
    assert!(get_tls(&server, &new.client(None)).await.is_err());
    let open = TcpStream::connect(server.address).await.unwrap();
    let mut open = old.client(None).connect(ServerName::try_from("localhost").unwrap(), open).await.unwrap();
    assert_eq!(ask_again(&mut open).await, 200);
    let plain = TcpStream::connect(server.address).await.unwrap();
    assert_ne!(exchange(plain, &request("GET", "/-/healthy", &[])).await.status, 200, "no plain HTTP beside TLS");

    install(&new);
    // Noticed by the files' times, within about a second.
    eventually(async || get_tls(&server, &new.client(None)).await.is_ok()).await;
    folder.write("server.crt", "not a certificate");
    server.web.reload().await;
    assert_eq!(get_tls(&server, &new.client(None)).await.unwrap().status, 200, "the last good one stays in use");

    assert_eq!(ask_again(&mut open).await, 200, "an open connection goes on");
    install(&new);
    let hash = bcrypt::hash("secret", 4).unwrap();
    folder.write("web.yml", &format!("{TLS}basic_auth_users: {{alice: {hash}}}\n"));
    server.web.reload().await;
    assert_eq!(ask_again(&mut open).await, 401, "and is held to the new users");
    drop(open);
    server.stop().await;
}

#[tokio::test]
async fn client_certificates_are_required_when_asked_for() {
    let (ours, other) = (Authority::new(), Authority::new());
    let folder = Folder::new(&format!(
        "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n  min_version: TLS13\n"
    ));
    let (cert, key) = ours.sign();
    folder.write("server.crt", &cert);
    folder.write("server.key", &key);
    folder.write("ca.crt", &ours.pem);
    let server = start(&[&folder.flag]).await;
    assert_eq!(get_tls(&server, &ours.client(Some(&ours.sign()))).await.unwrap().status, 200);
    // With TLS 1.3 a client learns of its refusal after its own handshake.
    for identity in [None, Some(other.sign())] {
        let refused = get_tls(&server, &ours.client(identity.as_ref())).await;
        assert!(!refused.is_ok_and(|answer| answer.status == 200));
    }
    server.stop().await;
}
