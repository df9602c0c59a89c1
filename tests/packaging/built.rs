//! What the programs say of their build.

use std::path::Path;

use anyhow::{Result, ensure};
use goodput_tests::rules::root;

use crate::{command, run};

/// What the build script notes in this folder.
fn noted(script: &Path, folder: &Path, variables: &[(&str, &str)]) -> Result<Vec<String>> {
    let path = std::env::var("PATH")?;
    let variables = [("PATH", path.as_str()), ("TARGET", "a-target")].into_iter().chain(variables.iter().copied());
    let said = run(command(script).env_clear().envs(variables).current_dir(folder))?;
    Ok(said.lines().filter_map(|line| line.strip_prefix("cargo:rustc-env=GOODPUT_")).map(str::to_owned).collect())
}

#[test]
fn a_build_notes_commit_and_day_where_there_are_any() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (script, plain, repository) =
        (folder.path().join("script"), folder.path().join("plain"), folder.path().join("repository"));
    run(command("rustc").arg("--edition=2024").arg(root().join("exporter/web/build.rs")).arg("-o").arg(&script))?;
    std::fs::create_dir(&plain)?;
    let release = [("PROFILE", "release")];
    let unknown = ["REVISION=unknown", "DATE=unknown", "TARGET=a-target"];
    assert_eq!(noted(&script, &plain, &release)?, unknown);
    let dated = [("PROFILE", "release"), ("SOURCE_DATE_EPOCH", "1709164800")];
    assert_eq!(noted(&script, &plain, &dated)?[1], "DATE=2024-02-29");

    run(command("git").args(["init", "--quiet"]).arg(&repository))?;
    let author = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message=a"];
    run(command("git").args(author).env("GIT_COMMITTER_DATE", "2026-11-26T12:00:00Z").current_dir(&repository))?;
    let commit = run(command("git").args(["rev-parse", "--short", "HEAD"]).current_dir(&repository))?;
    let revision = format!("REVISION={}", commit.trim());
    assert_eq!(noted(&script, &repository, &release)?, [revision.as_str(), "DATE=2026-11-26", "TARGET=a-target"]);
    assert_eq!(noted(&script, &repository, &[("PROFILE", "debug")])?, unknown);
    Ok(())
}

#[test]
fn both_programs_say_version_commit_and_target() -> Result<()> {
    for program in ["goodput-exporter", "goodput-analyzer"] {
        let said = run(command(goodput_lab::bin(program)?).arg("--version"))?;
        let version = format!("{program} {} (commit ", env!("CARGO_PKG_VERSION"));
        ensure!(said.starts_with(&version) && said.contains("-linux-"), "{said}");
    }
    Ok(())
}
