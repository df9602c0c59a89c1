//! The name of the host.

use std::path::{Path, PathBuf};

use super::files::{self, FileError, Roots};

/// The host's name. The kernel tells a container its own, so below another root than `/` the host's `/etc/hostname` comes
/// first; `None` where nobody says.
pub fn read(roots: &Roots) -> Result<Option<String>, FileError> {
    let name = |path: PathBuf| {
        let line = files::parse_optional(&path, |text| Ok(text.trim().to_owned()));
        line.map(|name| name.filter(|name| !name.is_empty()))
    };
    if roots.root != Path::new("/")
        && let Some(name) = name(roots.root.join("etc/hostname"))?
    {
        return Ok(Some(name));
    }
    name(roots.proc.join("sys/kernel/hostname"))
}
