//! Targets behind TLS and credentials, and lists of targets from files and a server, over real connections.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::Limits;
use super::access::{Access, Credentials, Tls};
use super::job::{Discovery, Job};
use super::scrape::{Scraper, Target};
use super::tally::Tally;
use goodput_exposition::sample::is_stale;
use goodput_store::{Options, Samples, Selection, Store};

/// A certificate authority.
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

    /// Certificate and key for this name.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server of the name `gpu.example` that asks for a client's certificate and answers with one sample.
async fn serve_tls(authority: &Authority) -> SocketAddr {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (cert, key) = authority.sign("gpu.example");
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(der(&authority.pem)).unwrap();
    let clients = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(clients);
    let config = config.with_single_cert(vec![der(&cert)], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok(mut stream) = acceptor.accept(listener.accept().await.unwrap().0).await else { continue };
            // One request of a test is one segment.
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nkept 1\n";
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

fn scraper(tally: &Arc<Tally>) -> Scraper {
    Scraper::new(Limits::default(), Arc::clone(tally))
}

async fn scrape(target: &Target) -> Result<usize, String> {
    let scraped = scraper(&Arc::default()).scrape_once(target).await;
    scraped.map(|batch| batch.len()).map_err(|error| error.to_string())
}

fn write(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
    std::fs::write(dir.join(name), text).unwrap();
    dir.join(name)
}

#[tokio::test]
async fn a_target_behind_tls_is_reached_with_the_right_files_and_refused_by_name_without() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new(), Authority::new());
    let address = serve_tls(&ours).await;
    let file = |name: &str, text: &str| write(dir.path(), name, text);
    let (cert, key) = ours.sign("analyzer");
    let (ca, wrong_ca) = (file("ca.pem", &ours.pem), file("other.pem", &other.pem));
    let identity = Some((file("me.pem", &cert), file("me.key", &key)));
    let server_name = Some("gpu.example".to_owned());
    let right = Tls { ca_file: Some(ca.clone()), identity, server_name, insecure_skip_verify: false };
    let target = |tls: Tls| {
        let access = Arc::new(Access { tls, credentials: None });
        Job { scheme: "https".to_owned(), access, ..Job::new("gpu") }.target(&address.to_string(), &[]).unwrap()
    };
    assert_eq!(scrape(&target(right.clone())).await, Ok(2));
    let careless = Tls { ca_file: None, server_name: None, insecure_skip_verify: true, ..right.clone() };
    assert_eq!(scrape(&target(careless)).await, Ok(2));

    let missing = dir.path().join("missing.pem");
    let cases = [
        (Tls { server_name: None, ..right.clone() }, "certificate"),
        (Tls { ca_file: Some(wrong_ca), ..right.clone() }, "certificate"),
        (Tls { ca_file: Some(missing.clone()), ..right.clone() }, "missing.pem: No such file"),
        (Tls { ca_file: Some(file("empty.pem", "")), ..right.clone() }, "empty.pem: expected certificates in PEM"),
        (Tls { identity: Some((ca.clone(), missing)), ..right.clone() }, "missing.pem: No such file"),
        (Tls { identity: Some((ca.clone(), ca)), ..right.clone() }, "cert_file "),
        (Tls { identity: None, ..right }, ""),
    ];
    for (tls, reason) in cases {
        let error = scrape(&target(tls.clone())).await.expect_err(reason);
        assert!(
            error.starts_with(&format!("https://{address}/metrics: ")) && error.contains(reason),
            "{tls:?}: {error}"
        );
    }
}

#[tokio::test]
async fn credentials_come_from_files_that_may_change() {
    let dir = tempfile::tempdir().unwrap();
    let answer = async |headers: HeaderMap| {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        // scraper:new
        let known = ["Basic c2NyYXBlcjpuZXc=", "Bearer new"].contains(&given.as_str());
        if known { (StatusCode::OK, "kept 1\n") } else { (StatusCode::UNAUTHORIZED, "") }
    };
    let address = serve(Router::new().route("/metrics", get(answer))).await;
    let secret = write(dir.path(), "secret", "old\n");
    let basic = Credentials::Basic { username: "scraper".to_owned(), password_file: secret.clone() };
    let token = Credentials::Token { scheme: "Bearer".to_owned(), credentials_file: secret.clone() };
    let target = |credentials: &Credentials| Target {
        access: Arc::new(Access { tls: Tls::default(), credentials: Some(credentials.clone()) }),
        ..Target::new("gpu", &address.to_string())
    };
    for credentials in [&basic, &token] {
        write(dir.path(), "secret", "old\n");
        let error = scrape(&target(credentials)).await.unwrap_err();
        assert!(error.ends_with(": status 401, expected 200"), "{error}");
        write(dir.path(), "secret", "new\n");
        assert_eq!(scrape(&target(credentials)).await, Ok(2));
    }
    std::fs::remove_file(&secret).unwrap();
    let error = scrape(&target(&basic)).await.unwrap_err();
    assert!(error.contains("secret: No such file"), "{error}");
}

/// The newest value of `up` by instance; none for one that has ended.
async fn up(store: &Store) -> Vec<(String, Option<f64>)> {
    let all = Selection { metrics: vec!["up".to_owned()], labels: Vec::new(), range: i64::MIN..i64::MAX };
    let mut up: Vec<_> = store
        .select(&all)
        .await
        .unwrap()
        .iter()
        .map(|series| {
            let instance = series.labels.get("instance").unwrap_or_default().to_owned();
            (instance, series.samples.last().map(|s| s.value).filter(|value| !is_stale(*value)))
        })
        .collect();
    up.sort_by(|a, b| a.0.cmp(&b.0));
    up
}

#[tokio::test]
async fn targets_come_and_go_with_lists_and_stay_when_a_list_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Options::new(dir.path().join("data"), |_| true)).await.unwrap());
    let listed = Arc::new(Mutex::new((StatusCode::OK, r#"[{"targets": []}]"#.to_owned())));
    let list = {
        let listed = Arc::clone(&listed);
        async move || {
            let (status, text) = listed.lock().clone();
            (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], text)
        }
    };
    let exporter = Router::new().route("/metrics", get("kept 1\n")).route("/targets", get(list));
    let address = serve(exporter).await;
    let files = vec![dir.path().join("*.json"), dir.path().join("*.yml")];
    let refresh = Duration::from_millis(5);
    let url = format!("http://{address}/targets");
    let job = Job {
        interval: refresh,
        timeout: Duration::from_secs(5),
        discoveries: vec![
            Discovery::Files { patterns: files, refresh },
            Discovery::Http { url, access: Arc::default(), refresh },
        ],
        ..Job::new("gpu")
    };
    let tally = Arc::<Tally>::default();
    let running = scraper(&tally).run(vec![job], &store);
    let until = async |wanted: &[(&str, Option<f64>)]| {
        let wanted: Vec<_> = wanted.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        while up(&store).await != wanted {
            tokio::time::sleep(refresh).await;
        }
    };
    // Failures that were counted beyond those before.
    let failures = async |way: &'static str| {
        let now = || tally.counts().failed_discoveries.get(&("gpu".to_owned(), way)).copied().unwrap_or_default();
        let before = now();
        while now() < before + 2 {
            tokio::time::sleep(refresh).await;
        }
    };
    let group =
        |name: &str| format!(r#"[{{"targets": ["{address}"], "labels": {{"instance": "{name}", "__meta_x": "y"}}}}]"#);
    write(dir.path(), "a.json", &group("a"));
    until(&[("a", Some(1.0))]).await;
    write(dir.path(), "b.yml", &format!("# racks\n- targets: ['{address}']\n  labels:\n    instance: b\n"));
    until(&[("a", Some(1.0)), ("b", Some(1.0))]).await;
    listed.lock().1 = group("c");
    until(&[("a", Some(1.0)), ("b", Some(1.0)), ("c", Some(1.0))]).await;
    assert_eq!(tally.counts().targets.get("gpu"), Some(&3));

    // Broken lists change nothing.
    write(dir.path(), "a.json", "[{");
    failures("file").await;
    for (status, text) in [(StatusCode::OK, r#"[{"targets": ["n1"]}]"#), (StatusCode::BAD_GATEWAY, "")] {
        *listed.lock() = (status, text.to_owned());
        failures("http").await;
    }
    until(&[("a", Some(1.0)), ("b", Some(1.0)), ("c", Some(1.0))]).await;
    assert_eq!(tally.counts().targets.get("gpu"), Some(&3));

    // A file that is gone has no targets any more: their series end.
    std::fs::remove_file(dir.path().join("a.json")).unwrap();
    *listed.lock() = (StatusCode::OK, "[]".to_owned());
    until(&[("a", None), ("b", Some(1.0)), ("c", None)]).await;
    drop(running);
}
