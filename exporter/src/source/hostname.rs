//! The name of the host.

use std::path::{Path, PathBuf};

use super::files::{self, Roots};

/// The host's name. The kernel gives a container its own, so below another root than `/` the host's `/etc/hostname`
/// comes first; `None` where no source has a name.
#[must_use]
pub fn read(roots: &Roots) -> Option<String> {
    let name = |path: PathBuf| files::get(&path, |text| Ok(text.trim().to_owned())).filter(|name| !name.is_empty());
    if roots.root != Path::new("/")
        && let Some(name) = name(roots.root.join("etc/hostname"))
    {
        return Some(name);
    }
    name(roots.proc.join("sys/kernel/hostname"))
}
