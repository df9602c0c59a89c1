//! The names of containers, from the links to their logs on the host.

use std::collections::BTreeMap;

use super::files::{self, FileError, Roots};
use crate::parse::container_log::{self, ContainerName};

/// Names by container id. Lists one folder and reads no file; empty where there is no kubelet.
pub fn names(roots: &Roots) -> Result<BTreeMap<String, ContainerName>, FileError> {
    let files = files::list(&roots.root.join("var/log/containers"))?.unwrap_or_default();
    Ok(files.iter().filter_map(|file| container_log::parse(file)).map(|(id, name)| (id.to_owned(), name)).collect())
}
