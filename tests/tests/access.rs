//! Who may do what: the set-ups of docs/use/access.md as they stand there, and every route of both programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goodput_lab::bin;
use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::{Running, until};
use goodput_tests::programs::{Analyzer, Exporter};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

const PAGE: &str = include_str!("../../docs/use/access.md");

/// bcrypt of `secret`, of the least cost.
const HASH: &str = "$2b$04$ewdVXfOPC4Xqcm9pD68GFOxc2k.eEumN4D.i00AmtxOxfpPuZG3Te";

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The code blocks of one section of the page.
fn blocks(section: &str) -> Vec<&'static str> {
    let text = PAGE.split("\n### ").find(|text| text.starts_with(section)).unwrap();
    let text = text.split("\n## ").next().unwrap();
    text.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap().1).collect()
}

/// The arguments that a command of the page gives to `goodput-analyzer serve`, but for where to listen and the files.
fn arguments(command: &str) -> Vec<String> {
    let command = command.replace("\\\n", " ");
    let line = command.lines().find(|line| line.starts_with("goodput-analyzer serve")).unwrap();
    let own = ["--web.listen-address", "--config.file", "--web.config.file"];
    let words = line.split_whitespace().skip(2).filter(|word| !own.iter().any(|flag| word.starts_with(flag)));
    words.map(str::to_owned).collect()
}

fn basic(user: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:secret")))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// The status of what is answered to this request.
fn status(stream: &mut (impl Read + Write), request: &str) -> u16 {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{request}\n{answer}"))
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> u16 {
    let host = if headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    status(&mut TcpStream::connect(address).unwrap(), &request(method, path, &format!("{host}{headers}")))
}

/// A request whose body is an empty message of remote write: snappy's length of nothing.
fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: 1\r\nConnection: close\r\n\r\n\0")
}

#[test]
fn on_this_machine_alone_pages_have_its_own_names() {
    let dir = tempfile::tempdir().unwrap();
    let commands = blocks("On this machine alone")[0];
    let analyzer = Analyzer::start_with_arguments(dir.path(), "", &arguments(commands)).unwrap();
    let ask = |method, path, headers: &str| ask(analyzer.address, method, path, headers);
    for host in ["localhost", "127.0.0.1:9401", "[::1]"] {
        assert_eq!(ask("GET", "/", &format!("Host: {host}\r\n")), 200, "{host}");
    }
    let foreign = "Host: evil.example:9401\r\n";
    for (path, expected) in
        [("/", 403), ("/api/v1/gpus", 403), ("/metrics", 200), ("/-/healthy", 200), ("/-/ready", 200)]
    {
        assert_eq!(ask("GET", path, foreign), expected, "{path}");
    }
    assert_eq!(ask("POST", "/api/v1/write", foreign), 204, "senders have names of their own for this machine");
    for headers in ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        for path in ["/api/v1/write", "/api/v1/events"] {
            assert_eq!(ask("POST", path, headers), 403, "{path} {headers}");
        }
    }
}

/// Certificate authority, certificate and key of `localhost`.
fn certificates(dir: &Path) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = KeyPair::generate().unwrap();
    let ca = params.self_signed(&authority).unwrap().pem();
    let (issuer, key) = (Issuer::new(params, authority), KeyPair::generate().unwrap());
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    fs::write(dir.join("server.crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    fs::write(dir.join("server.key"), key.serialize_pem()).unwrap();
    CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()
}

#[test]
fn with_tls_and_passwords_everyone_has_the_scopes_that_are_granted() {
    let dir = tempfile::tempdir().unwrap();
    let ca = certificates(dir.path());
    let blocks = blocks("Prometheus with TLS and a password");
    let web = dir.path().join("web.yml");
    fs::write(&web, blocks[0].replace("$2y$10$...  ", &format!("{HASH}  ")).replace("$2y$10$...", HASH)).unwrap();
    let token = dir.path().join("grafana.token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let config = blocks[2].replace("/etc/goodput/grafana.token", &token.display().to_string());
    let arguments = [arguments(blocks[1]), vec![format!("--web.config.file={}", web.display())]].concat();
    let analyzer = Analyzer::start_with_arguments(dir.path(), &config, &arguments).unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(ca).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let ask = |method: &str, path: &str, headers: &str| {
        let mut connection =
            ClientConnection::new(Arc::clone(&client), ServerName::try_from("localhost").unwrap()).unwrap();
        let mut socket = TcpStream::connect(analyzer.address).unwrap();
        let request = request(method, path, &format!("Host: localhost\r\n{headers}"));
        status(&mut Stream::new(&mut connection, &mut socket), &request)
    };
    for (who, write, read) in [
        (String::new(), 401, 401),
        (basic("prometheus"), 204, 200),
        (basic("alice"), 403, 200),
        (basic("bob"), 401, 401),
        (bearer(TOKEN), 403, 200),
        (bearer("0123456789abcdef0123456789abcdeF"), 401, 401),
    ] {
        assert_eq!(ask("POST", "/api/v1/write", &who), write, "{who}");
        assert_eq!(ask("GET", "/api/v1/gpus", &who), read, "{who}");
        assert_eq!(ask("GET", "/metrics", &who), read, "{who}");
        assert_eq!(ask("GET", "/-/ready", &who), 200, "{who}");
    }
}

#[test]
fn behind_a_proxy_its_word_counts_from_its_address_alone() {
    let dir = tempfile::tempdir().unwrap();
    let command = blocks("Behind a proxy that knows people by name")[0];
    let analyzer = Analyzer::start_with_arguments(dir.path(), "", &arguments(command)).unwrap();
    let host = "Host: goodput.example.com\r\n";
    let alice = format!("{host}X-Forwarded-User: alice\r\n");
    assert_eq!(ask(analyzer.address, "GET", "/", &alice), 200);
    assert_eq!(ask(analyzer.address, "GET", "/", host), 401);
    assert_eq!(ask(analyzer.address, "GET", "/", "Host: evil.example\r\nX-Forwarded-User: alice\r\n"), 403);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let from_elsewhere = runtime.block_on(async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::from([127, 0, 0, 9]), 0)).unwrap();
        let mut stream = socket.connect(analyzer.address).await.unwrap();
        stream.write_all(format!("GET / HTTP/1.1\r\n{alice}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    assert!(from_elsewhere.starts_with("HTTP/1.1 401"), "{from_elsewhere}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
fn a_proxy_at_a_unix_socket_is_trusted_and_its_socket_is_left_for_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("web.sock");
    let command = blocks("Behind a proxy that knows people by name")[1];
    for _ in 0..2 {
        let mut serve = Command::new(bin("goodput-analyzer").unwrap());
        serve.arg("serve").arg(format!("--data.dir={}", dir.path().join("data").display()));
        serve.arg(format!("--web.listen-address=unix:{}", socket.display())).args(arguments(command));
        let mut analyzer = Running::start(&mut serve, &dir.path().join("log")).unwrap();
        let ask = |headers: &str| {
            let mut stream = UnixStream::connect(&socket).ok()?;
            Some(status(&mut stream, &request("GET", "/api/v1/gpus", &format!("Host: goodput\r\n{headers}"))))
        };
        let named = "X-Forwarded-User: alice\r\n";
        let first = until("an answer at the Unix socket", Duration::from_secs(60), || {
            analyzer.goes_on()?;
            Ok(ask(named))
        });
        assert_eq!(first.unwrap(), 200);
        assert_eq!(ask(""), Some(401));
        assert!(analyzer.log_text().contains(&format!("unix:{}", socket.display())), "{}", analyzer.log_text());
        // What it leaves behind does not keep the next start from listening.
        analyzer.kill().unwrap();
        assert!(socket.exists());
    }
}

#[test]
fn below_a_path_every_link_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let external = ["--web.external-url=https://ops.example.com/tools/goodput/".to_owned()];
    let analyzer = Analyzer::start_with_arguments(dir.path(), "", &external).unwrap();
    for path in ["", "/", "/state", "/nodes/none", "/nosuch"] {
        let url = format!("http://{}/tools/goodput{path}", analyzer.address);
        let agent = ureq::Agent::new_with_config(ureq::config::Config::builder().http_status_as_error(false).build());
        let page = agent.get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        let links = page.split("href=\"/").skip(1).map(|rest| rest.split('"').next().unwrap());
        let links: Vec<_> = links.collect();
        assert!(links.len() > 4 && links.iter().all(|link| link.starts_with("tools/goodput/")), "{url}: {links:?}");
        for link in links.iter().filter(|link| link.contains("/assets/")) {
            assert_eq!(ask(analyzer.address, "GET", &format!("/{link}"), ""), 200, "{link}");
        }
    }
    assert_eq!(ask(analyzer.address, "POST", "/tools/goodput/api/v1/write", ""), 204);
    assert_eq!(ask(analyzer.address, "GET", "/tools/goodput/", "Host: evil.example\r\n"), 403);
    assert_eq!(ask(analyzer.address, "GET", "/tools/goodput/", "Host: ops.example.com\r\n"), 200);
}

#[test]
fn a_proxy_without_addresses_and_a_token_that_is_none_do_not_start() {
    for (config, arguments, expected) in [
        ("", vec!["--web.auth.proxy-header=X-Forwarded-User".to_owned()], "--web.auth.trusted-proxies"),
        ("", vec!["--web.external-url=https://x.example/good put".to_owned()], "a path of letters"),
        ("", vec!["--web.external-url=https://x.example/a/../b".to_owned()], "a path of letters"),
        ("web: {access: [{token_file: /nonexistent/token, scopes: [ingest]}]}\n", vec![], "/nonexistent/token"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = Analyzer::start_with_arguments(dir.path(), config, &arguments).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// The paths that a source file routes, with something in place of their parameters.
fn routed(source: &str, prefix: &str) -> Vec<String> {
    let quoted = source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    quoted.map(|path| format!("{prefix}{}", path.replace(['{', '}'], ""))).collect()
}

/// The paths that OpenAPI describes: they are made of the table of routes.
fn described(openapi: &str, prefix: &str) -> Vec<String> {
    let openapi: serde_json::Value = serde_json::from_str(openapi).unwrap();
    openapi["paths"].as_object().unwrap().keys().map(|path| format!("{prefix}{path}")).collect()
}

#[test]
fn no_route_of_the_analyzer_answers_without_its_scope() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = [("ingest", "ingest"), ("read", "'read:all'")].map(|(name, scope)| {
        let (path, token) = (dir.path().join(name), format!("{name}-{TOKEN}"));
        fs::write(&path, &token).unwrap();
        (format!("{{token_file: {}, scopes: [{scope}]}}", path.display()), bearer(&token))
    });
    let config = format!("web: {{access: [{}, {}]}}\n", tokens[0].0, tokens[1].0);
    let external = ["--web.external-url=http://localhost/below".to_owned()];
    let analyzer = Analyzer::start_with_arguments(dir.path(), &config, &external).unwrap();
    let [(_, ingest), (_, read)] = tokens;
    let routes = [
        routed(include_str!("../../analyzer/src/web/mod.rs"), ""),
        described(include_str!("../../analyzer/tests/fixtures/openapi.json"), "/api/v1"),
        routed(include_str!("../../analyzer/src/serve.rs"), ""),
        routed(include_str!("../../analyzer/src/ingest/events.rs"), ""),
        routed(include_str!("../../analyzer/src/ingest/remote_write.rs"), ""),
        vec!["/nosuch".to_owned()],
    ]
    .concat();
    assert!(routes.len() > 25, "{routes:?}");
    for (path, prefix) in routes.iter().flat_map(|path| [(path, ""), (path, "/below")]) {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            let status = |who: &str| ask(analyzer.address, method, &format!("{prefix}{path}"), who);
            if path.starts_with("/-/") {
                assert_ne!(status(""), 401, "{method} {path}");
                continue;
            }
            assert_eq!(status(""), 401, "{method} {path}");
            let is_way_in = ["/api/v1/write", "/api/v1/events"].contains(&path.as_str());
            let is_read = ["GET", "HEAD"].contains(&method) || path == "/metrics";
            assert_eq!(status(&ingest) == 403, !is_way_in, "{method} {path}");
            assert_eq!(status(&read) == 403, is_way_in || !is_read, "{method} {path}");
        }
    }
}

#[test]
fn no_route_of_the_exporter_answers_without_a_user() {
    let dir = tempfile::tempdir().unwrap();
    let web = dir.path().join("web.yml");
    fs::write(&web, format!("basic_auth_users: {{alice: '{HASH}'}}\n")).unwrap();
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let arguments = [format!("--web.config.file={}", web.display()), "--nvml.enable-release".to_owned()];
    let exporter = Exporter::start_with(dir.path(), &node, &arguments).unwrap();
    let routes = [
        routed(include_str!("../../exporter/src/serve/routes.rs"), ""),
        routed(include_str!("../../exporter/src/serve/release.rs"), ""),
        vec!["/metrics".to_owned(), "/nosuch".to_owned()],
    ]
    .concat();
    assert!(routes.len() >= 8, "{routes:?}");
    for path in &routes {
        for method in ["GET", "HEAD", "POST"] {
            assert_eq!(ask(exporter.address, method, path, ""), 401, "{method} {path}");
            assert_ne!(ask(exporter.address, method, path, &basic("alice")), 401, "{method} {path}");
        }
    }
}
