//! Where the programs under test are.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail};

/// Builds a program of this workspace, once per test process, and says where it is.
///
/// # Errors
/// When it does not build; cargo's messages are on standard error.
pub fn bin(name: &str) -> anyhow::Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    // A test that failed while it held the lock left the map as it was.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return Ok(path.clone());
    }
    let path = build(name)?;
    built.insert(name.to_owned(), path.clone());
    Ok(path)
}

#[allow(clippy::disallowed_methods, reason = "only cargo knows where it puts what it builds")]
fn build(name: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--message-format=json", "--package", name, "--bin", name]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).stderr(io::stderr()).output().context("run cargo")?;
    if !output.status.success() {
        bail!("cargo build --package {name}: {}", output.status);
    }
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<serde_json::Value>();
    let mut programs = messages.filter_map(|message| {
        let message = message.ok()?;
        let program = message["target"]["name"] == name && message["executable"].is_string();
        program.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    programs.next().with_context(|| format!("cargo built no program {name}"))
}
