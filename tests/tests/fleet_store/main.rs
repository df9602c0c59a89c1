//! Results in a real PostgreSQL: the contract of stores, what `migrate` makes and copies, what roles may do, what errors say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]
#![allow(clippy::print_stdout, reason = "figures for people")]

/// The suite of the store, which its own tests run over SQLite. The part about samples is not for PostgreSQL.
#[allow(dead_code)]
#[path = "../../../analyzer/store/src/contract.rs"]
mod contract;
mod copied;
mod errors;
mod killed;
mod rights;
mod stored;
mod verdicts;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use goodput_lab::bin;
use goodput_store::postgres::{Address, Roles, migrate};
use goodput_store::{Appended, Ingest, Place, Replacement, Results, Said, Samples, Selection, StoreError, Whose};
use goodput_tests::postgres::Postgres as Server;

/// A server with the database `fleet`, its owner and the two roles; no tables.
fn empty() -> Server {
    prepared(Server::start().unwrap())
}

/// Makes the database `fleet` and the roles.
fn prepared(server: Server) -> Server {
    let roles = "CREATE ROLE goodput_owner LOGIN; CREATE ROLE goodput_worker LOGIN; CREATE ROLE goodput_reader LOGIN;";
    server.psql(roles).unwrap();
    server.psql("CREATE DATABASE fleet OWNER goodput_owner;").unwrap();
    server
}

fn roles() -> Roles {
    Roles { worker: "goodput_worker".into(), reader: "goodput_reader".into() }
}

/// The address of `fleet` for a role.
fn address(server: &Server, role: &str) -> Address {
    Address::parse(&server.url(role, "fleet"), None).unwrap()
}

/// A server whose database `fleet` was migrated.
async fn migrated() -> Server {
    let server = empty();
    migrate(&address(&server, "goodput_owner"), &roles()).await.unwrap();
    server
}

/// What statements select in `fleet`, as the role.
fn psql(server: &Server, role: &str, sql: &str) -> anyhow::Result<String> {
    server.psql(&format!("\\c fleet\nSET ROLE {role};\n{sql}"))
}

/// The program of `GOODPUT_ANALYZER`, else that of this build.
#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
fn program() -> Command {
    let named = std::env::var_os("GOODPUT_ANALYZER").map(PathBuf::from);
    Command::new(named.unwrap_or_else(|| bin("goodput-analyzer").unwrap()))
}

/// Runs the analyzer with a URL of the database.
fn analyzer(url: &str, arguments: &[&str]) -> Output {
    program().args(arguments).args(["--database.url", url]).env_remove("PGPASSWORD").output().unwrap()
}

/// Its last words.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `migrate --from`.
fn copy(server: &Server, from: &Path) -> Output {
    analyzer(&server.url("goodput_owner", "fleet"), &["migrate", "--from", from.to_str().unwrap()])
}
