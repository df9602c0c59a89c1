//! What is said when a database cannot be used.

use std::fs;

use goodput_tests::postgres::{Identity, Postgres as Server};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{address, analyzer, empty, prepared, psql, roles, said};

#[test]
fn a_wrong_address_is_named_without_its_secrets() {
    for (url, expected) in [
        ("db.example/fleet", "expected postgres://USER@HOST/DATABASE"),
        ("mysql://u:s3cret@h/d", "expected postgres://USER@HOST/DATABASE"),
        ("postgres://u:s3cret@h/d", "--database.password-file"),
        ("postgres://u@h/d?password=s3cret", "--database.password-file"),
        ("postgres://u@h/d?pasword=s3cret", "a parameter \"pasword\" that is not known"),
        ("postgres://u@h/d?sslmode=always", "--database.url: unknown value \"always\" for `ssl_mode`"),
        ("postgres://u@127.0.0.1:1/d", "Connection refused"),
    ] {
        for command in [&["migrate"] as &[&str], &["report"]] {
            let output = analyzer(url, command);
            let said = said(&output);
            assert!(output.status.code() == Some(1) && said.lines().count() == 1, "{said}");
            assert!(said.contains(expected) && !said.contains("s3cret"), "{url}: {said}");
        }
    }
}

#[tokio::test]
async fn a_schema_that_is_not_there_or_newer_is_named() {
    let server = empty();
    let url = server.url("goodput_reader", "fleet");
    let nothing = said(&analyzer(&url, &["report"]));
    assert!(
        nothing.contains("no tables of goodput-analyzer") && nothing.contains("migrate --database.url"),
        "{nothing}"
    );
    let denied = said(&analyzer(&server.url("goodput_worker", "fleet"), &["migrate"]));
    assert!(denied.contains("permission denied for schema public"), "{denied}");
    goodput_store::postgres::migrate(&address(&server, "goodput_owner"), &roles()).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations VALUES (999, 'x', now(), TRUE, '', 0);";
    psql(&server, "goodput_owner", newer).unwrap();
    for (role, command) in [("goodput_reader", "report"), ("goodput_owner", "migrate")] {
        let said = said(&analyzer(&server.url(role, "fleet"), &[command]));
        assert!(said.contains("its schema is 999") && said.contains("upgrade goodput-analyzer"), "{said}");
    }
    psql(
        &server,
        "goodput_owner",
        "DELETE FROM _sqlx_migrations WHERE version > 1; UPDATE _sqlx_migrations SET version = 0;",
    )
    .unwrap();
    let older = said(&analyzer(&url, &["report"]));
    assert!(older.contains("its schema is 0") && older.contains("as the owner of the tables"), "{older}");
}

#[test]
fn a_role_that_is_not_there_is_named_with_the_command_that_makes_it() {
    let server = Server::start().unwrap();
    server.psql("CREATE ROLE goodput_owner LOGIN; CREATE ROLE goodput_worker;").unwrap();
    server.psql("CREATE DATABASE fleet OWNER goodput_owner;").unwrap();
    let url = server.url("goodput_owner", "fleet");
    let missing = said(&analyzer(&url, &["migrate"]));
    assert!(missing.contains("CREATE ROLE goodput_reader LOGIN PASSWORD"), "{missing}");
    assert_eq!(psql(&server, "goodput_owner", "SELECT to_regclass('intervals') IS NULL;").unwrap().trim(), "t");
    server.psql("CREATE ROLE \"watch \"\"er\";").unwrap();
    let named = analyzer(&url, &["migrate", "--database.reader-role", "watch \"er"]);
    assert!(named.status.success(), "{}", said(&named));
    assert_eq!(String::from_utf8_lossy(&named.stdout), "the schema is that of this release\n");
}

/// The certificate of an authority, and that of a server with its key.
fn certificates() -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = KeyPair::generate().unwrap();
    let ca = params.self_signed(&authority).unwrap().pem();
    let (issuer, key) = (Issuer::new(params, authority), KeyPair::generate().unwrap());
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (ca, params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn over_tls_the_server_shows_whom_it_is_and_the_user_has_a_password() {
    let (ca, certificate, key) = certificates();
    let identity = Identity { certificate: &certificate, key: &key };
    let server = prepared(Server::start_secured(&identity).unwrap());
    goodput_store::postgres::migrate(&address(&server, "goodput_owner"), &roles()).await.unwrap();
    server.psql("ALTER ROLE goodput_reader PASSWORD 'r1ght';").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (ca, right, wrong) = (file("ca.pem", &ca), file("right", "r1ght\n"), file("wrong", "wr0ng\n"));
    let port = server.address.unwrap().port();
    let url = |host: &str, rest: &str| format!("postgres://goodput_reader@{host}:{port}/fleet?{rest}");
    let trusting = format!("sslmode=verify-full&sslrootcert={ca}");
    let report = |url: &str, password: &str| {
        let output = analyzer(url, &["report", "--database.password-file", password]);
        (output.status.code(), said(&output))
    };
    let (code, text) = report(&url("localhost", &trusting), &right);
    assert!(code == Some(3) && text.contains("Nothing is judged yet"), "{text}");
    for (url, password, expected) in [
        (url("localhost", &trusting), &wrong, "password authentication failed for user \"goodput_reader\""),
        (url("127.0.0.1", &trusting), &right, "certificate not valid for name \"127.0.0.1\""),
        (url("localhost", "sslmode=verify-full"), &right, "UnknownIssuer"),
        (url("localhost", "sslmode=disable"), &right, "no pg_hba.conf entry"),
    ] {
        let (code, text) = report(&url, password);
        assert!(code == Some(1) && text.contains(expected), "{expected}: {text}");
        assert!(!text.contains("wr0ng") && !text.contains("r1ght"), "{text}");
    }
    let absent = report(&url("localhost", &trusting), "/absent").1;
    assert!(absent.contains("cannot read /absent: No such file"), "{absent}");
}
