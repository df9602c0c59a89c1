//! Judges written in Python, from the package index.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The programs of the virtual environment `folder`, installed on first use and kept there: `pip install` with each
/// of `installs` in turn. Another `wanted`, which names all that is installed, makes it again. Tests that ask at the
/// same time, of this process or of another, wait for the first.
pub fn programs(folder: &Path, wanted: &str, installs: &[&[&str]]) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let bin = folder.join("venv/bin");
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).ok().as_deref() != Some(wanted) {
        run(command("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        for install in installs {
            run(command(bin.join("python")).args(pip).args(*install))?;
        }
        fs::write(complete, wanted)?;
    }
    Ok(bin)
}

#[allow(clippy::disallowed_methods, reason = "the judges are programs")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = || String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned();
    ensure!(output.status.success(), "{command:?}: {}", said());
    Ok(())
}
