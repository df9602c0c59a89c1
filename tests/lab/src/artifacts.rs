//! The programs under test and the fake library, as cargo has built them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The path of a program of this workspace.
///
/// # Errors
/// When the workspace does not build; cargo's messages are on standard error.
pub fn bin(name: &str) -> Result<PathBuf> {
    artifact(name)
}

/// The path of a program or shared library by its target's name.
pub fn artifact(name: &str) -> Result<PathBuf> {
    static BUILT: OnceLock<Result<BTreeMap<String, PathBuf>, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    let built = built.as_ref().map_err(|error| anyhow::anyhow!("cannot build the workspace: {error}"))?;
    built.get(name).cloned().with_context(|| format!("cargo built no {name}"))
}

/// Builds everything at once: a package built alone gets its dependencies with other features, and rebuilds polars.
#[allow(clippy::disallowed_methods, reason = "only cargo knows where it puts what it builds")]
fn build() -> Result<BTreeMap<String, PathBuf>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--workspace", "--all-targets", "--message-format=json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // The variables in which cargo describes this test's package make ring's build script and all that depends on it
    // run again.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("cargo build ended with {}", output.status);
    }
    let messages = output.stdout.split(|byte| *byte == b'\n');
    Ok(messages.filter_map(|line| serde_json::from_slice(line).ok()).filter_map(|m: Value| built(&m)).collect())
}

/// Name and path, if the message is about a program or a shared library.
fn built(message: &Value) -> Option<(String, PathBuf)> {
    // The test harness of a target has the target's name and is not it.
    let ours = message["reason"] == "compiler-artifact" && message["profile"]["test"] == false;
    let target = &message["target"];
    let mut files = message["filenames"].as_array().filter(|_| ours)?.iter().filter_map(Value::as_str);
    let path = match target["kind"][0].as_str()? {
        "bin" => message["executable"].as_str()?,
        "cdylib" => files.find(|file| file.ends_with(".so"))?,
        _ => return None,
    };
    Some((target["name"].as_str()?.to_owned(), path.into()))
}
