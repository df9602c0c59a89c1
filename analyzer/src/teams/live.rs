//! The teams that hold now: those of the configuration, or of a file that is read again when it changes.

use std::sync::Arc;

use parking_lot::RwLock;

use super::Teams;

/// What was read last.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The last that could be read.
    pub teams: Arc<Teams>,
    /// Why what the file has now cannot be used; none where it can.
    pub error: Option<String>,
}

/// Shared by all that look at teams.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<RwLock<Loaded>>);

impl Live {
    /// These, until others are set.
    #[must_use]
    pub fn new(teams: Arc<Teams>) -> Self {
        Self(Arc::new(RwLock::new(Loaded { teams, error: None })))
    }

    /// The teams that hold now.
    #[must_use]
    pub fn teams(&self) -> Arc<Teams> {
        Arc::clone(&self.0.read().teams)
    }

    /// The same, and what is wrong with the file.
    #[must_use]
    pub fn loaded(&self) -> Loaded {
        self.0.read().clone()
    }

    /// Takes what a file has now. Where it cannot be used, the teams stay; true where that is said for the first time.
    pub fn set(&self, read: Result<Teams, String>) -> bool {
        let mut loaded = self.0.write();
        match read {
            Ok(teams) => {
                *loaded = Loaded { teams: Arc::new(teams), error: None };
                false
            }
            Err(error) => {
                let is_new = loaded.error.as_ref() != Some(&error);
                loaded.error = Some(error);
                is_new
            }
        }
    }
}
