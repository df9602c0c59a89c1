//! A small file system of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

/// A directory on a tmpfs of its own; unmounted and removed on drop. Needs root.
pub struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// Mounts one of this many bytes.
    pub fn new(bytes: u64) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"], dir.path())?;
        Ok(Self(dir))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: processes that a failed test has left there may still end.
        let _ = run("umount", &["-l"], self.0.path());
    }
}

#[allow(clippy::disallowed_methods, reason = "mounts what a test needs")]
fn run(program: &str, arguments: &[&str], dir: &Path) -> Result<()> {
    let output = Command::new(program).args(arguments).arg(dir).output()?;
    ensure!(output.status.success(), "{program}, which needs root: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
