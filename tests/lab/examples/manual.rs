//! Writes man pages and completions of both programs into a folder: `manual FOLDER`. `deploy/package` packs them.

use std::path::PathBuf;

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("expected a folder")?);
    std::fs::create_dir_all(&folder)?;
    goodput_lab::manual::write(&folder).with_context(|| folder.display().to_string())
}
