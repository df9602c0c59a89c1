//! One set of features.

use super::{folders, read, root};

/// A feature doubles what has to be built and tested: `fuzz`, outside the workspace, has the only one, and
/// `deploy/local/fuzz` builds without it.
#[test]
fn no_crate_has_features() {
    let folders = folders();
    assert!(folders.len() > 10 && folders.iter().all(|folder| root().join(folder).is_dir()), "{folders:?}");
    let with: Vec<_> =
        folders.iter().filter(|folder| read(&format!("{folder}/Cargo.toml")).contains("[features]")).collect();
    assert!(with.is_empty(), "{with:?} have features: let `make lint` check them with --no-default-features too");
}
