//! The analyzer scrapes the exporter behind its web configuration: TLS by an authority of its own, and basic auth.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::fs;
use std::time::Duration;

use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_tests::programs::{Analyzer, Exporter};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// bcrypt of `secret`, of the least cost.
const HASH: &str = "$2b$04$ewdVXfOPC4Xqcm9pD68GFOxc2k.eEumN4D.i00AmtxOxfpPuZG3Te";

const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn the_analyzer_scrapes_the_exporter_over_tls_and_with_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = write("ca.pem", &params.self_signed(&authority).unwrap().pem());
    let (issuer, key) = (Issuer::new(params, authority), KeyPair::generate().unwrap());
    let params = CertificateParams::new(vec!["gpu-node-1".to_owned()]).unwrap();
    let cert = write("cert.pem", &params.signed_by(&key, &issuer).unwrap().pem());
    let key = write("key.pem", &key.serialize_pem());
    let web =
        format!("tls_server_config: {{cert_file: {cert}, key_file: {key}}}\nbasic_auth_users: {{scraper: '{HASH}'}}\n");
    let web = format!("--web.config.file={}", write("web.yml", &web));

    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let exporter = Exporter::start_with(dir.path(), &node, &[web]).unwrap();
    let password = write("password", "secret\n");
    let job = |name: &str, ca: &str, server: &str| {
        format!(
            "- {{name: {name}, targets: ['{}'], scheme: https, interval: 5s, timeout: 5s,\n  \
             tls_config: {{{ca}server_name: {server}}},\n  \
             basic_auth: {{username: scraper, password_file: {password}}}}}\n",
            exporter.address
        )
    };
    let trusted = format!("ca_file: {ca}, ");
    let config = [
        "scrape:\n".to_owned(),
        job("right", &trusted, "gpu-node-1"),
        job("other_name", &trusted, "gpu-node-2"),
        job("untrusted", "", "gpu-node-1"),
    ];
    let analyzer = Analyzer::start_with(dir.path(), &config.concat()).unwrap();
    let scrapes = |job: &str, outcome: &str| {
        let series = format!("goodput_analyzer_scrapes_total{{job=\"{job}\",outcome=\"{outcome}\"}}");
        analyzer.metric(&series).map(|value| value.unwrap_or(0.0))
    };
    let more = |job: &str, outcome: &str| {
        let before = scrapes(job, outcome).unwrap();
        let grown = || Ok((scrapes(job, outcome)? > before).then_some(()));
        until(&format!("{job} to be {outcome}"), PATIENCE, grown).unwrap();
    };
    more("right", "taken");
    let kept = || Ok(analyzer.metric("goodput_analyzer_store_series")?.filter(|series| *series > 20.0));
    until("the exporter's series to be stored", PATIENCE, kept).unwrap();
    for job in ["other_name", "untrusted"] {
        more(job, "http");
        assert_eq!(scrapes(job, "taken").unwrap(), 0.0, "{job}");
    }
    // The password is read for every scrape.
    write("password", "wrong");
    more("right", "status");
    write("password", "secret");
    more("right", "taken");
}
