//! Which clients may have the GPUs released, and how. There are no GPUs here: other tests cover what a release frees.

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::super::release::routes;
use super::*;

const ENABLED: &str = "--nvml.enable-release";

impl Running {
    async fn post(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        exchange(stream, &request("POST", path, headers)).await
    }
}

#[tokio::test]
async fn without_the_flag_there_is_no_such_path() {
    let server = start(&[]).await;
    for path in ["/-/release", "/-/acquire"] {
        assert_eq!(server.post(path, &[]).await.status, 404, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn from_loopback_it_is_released_and_acquired() {
    let server = start(&[ENABLED]).await;
    let released = server.post("/-/release?seconds=7", &[]).await;
    assert_eq!(
        (released.status, released.text()),
        (200, "released the GPUs for 7 s: no device file of the driver is open\n")
    );
    assert_eq!(server.post("/-/acquire", &[]).await.status, 200);
    assert_eq!(server.get("/-/release", &[]).await.status, 405, "looking at a path must change nothing");
    let wrong = server.post("/-/release?seconds=soon", &[]).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("found \"seconds=soon\""), "{}", wrong.text());
    server.stop().await;
}

/// What a browser sends for a page of another site, and for one whose name was pointed at this machine.
#[tokio::test]
async fn a_page_of_another_site_releases_nothing() {
    let server = start(&[ENABLED]).await;
    for headers in [
        [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")].as_slice(),
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "same-site")],
    ] {
        assert_eq!(server.post("/-/release", headers).await.status, 403, "{headers:?}");
    }
    let rebound = "POST /-/release HTTP/1.1\r\nHost: evil.example:9400\r\nOrigin: http://evil.example:9400\r\n\
                   Sec-Fetch-Site: same-origin\r\nConnection: close\r\n\r\n";
    let refused = exchange(TcpStream::connect(server.address).await.unwrap(), rebound).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("Host \"evil.example:9400\" is not a name of this server"), "{refused:?}");
    assert_eq!(server.post("/-/release", &[("Origin", "http://localhost")]).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn users_have_to_say_who_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yml");
    std::fs::write(&file, format!("basic_auth_users: {{alice: {}}}", bcrypt::hash("secret", 4).unwrap())).unwrap();
    let server = start(&[ENABLED, &format!("--web.config.file={}", file.display())]).await;
    assert_eq!(server.post("/-/release", &[]).await.status, 401);
    // alice:secret
    assert_eq!(server.post("/-/release", &[("Authorization", "Basic YWxpY2U6c2VjcmV0")]).await.status, 200);
    server.stop().await;
}

/// A request that comes from elsewhere, as far as the routes can tell.
async fn from_elsewhere(rules: &str) -> StatusCode {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yml");
    std::fs::write(&file, rules).unwrap();
    let web = Arc::new(WebConfig::load(Some(file)).unwrap());
    let mut request = Request::post("/-/acquire").body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo("192.0.2.7:4711".parse::<SocketAddr>().unwrap()));
    TowerToHyperService::new(routes(Lever { nvml: no_library(), web })).call(request).await.unwrap().status()
}

#[tokio::test]
async fn from_elsewhere_it_takes_rules_that_authenticate() {
    assert_eq!(from_elsewhere("").await, 403);
    let hash = bcrypt::hash("secret", 4).unwrap();
    assert_eq!(from_elsewhere(&format!("basic_auth_users: {{alice: {hash}}}")).await, 200, "the guard has asked");
}
