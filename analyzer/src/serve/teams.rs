//! Follows the file of teams: what it has is taken within seconds; while it cannot be used, the teams of before hold on.

use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::config::teams_of_text;
use crate::teams::{Live, Spread, Teams};

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(10);

/// The file, and who is told.
pub(super) struct Follow {
    path: PathBuf,
    zone: TimeZone,
    spread: Spread,
    live: Live,
    /// What it had when it was last looked at; none before that, and where it could not be read.
    last: Option<String>,
}

impl Follow {
    /// None where the configuration itself has the teams.
    pub(super) fn new(path: Option<PathBuf>, zone: &TimeZone, spread: Spread, live: &Live) -> Option<Self> {
        Some(Self { path: path?, zone: zone.clone(), spread, live: live.clone(), last: None })
    }

    /// Runs until `stop` is true.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self = match tokio::task::spawn_blocking(move || self.looked()).await {
                Ok(follow) => follow,
                Err(error) => return tracing::error!(%error, "the file of teams is not followed any more"),
            };
            tokio::select! {
                () = sleep(EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Takes what the file has now, where that is not what it had before.
    fn looked(mut self) -> Self {
        let read = std::fs::read_to_string(&self.path);
        if read.as_ref().is_ok_and(|text| self.last.as_ref() == Some(text)) {
            return self;
        }
        let teams = match &read {
            Ok(text) => teams_of_text(&self.path, text, &self.zone).map_err(|error| error.to_string()),
            Err(error) => Err(format!("{}: {error}", self.path.display())),
        };
        self.last = read.ok();
        let teams = teams.map(|all| Teams { all, spread: self.spread });
        let (file, told) = (self.path.display(), teams.as_ref().map(|teams| teams.all.len()).map_err(String::clone));
        let is_other = teams.as_ref().is_ok_and(|teams| *teams != *self.live.teams());
        let is_new = self.live.set(teams);
        match told {
            Ok(teams) if is_other => tracing::info!(%file, teams, "the teams of the file hold now"),
            Err(error) if is_new => tracing::error!(error, "the file of teams cannot be used; those of before hold on"),
            _ => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_mistakes_changes_nothing_and_says_so_until_it_is_right() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("teams.yml");
        let live = Live::default();
        let new = || Follow::new(Some(path.clone()), &TimeZone::UTC, Spread::ByAllocation, &live).unwrap();
        let mut last = None;
        let mut look = |text: Option<&str>| {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            last = Follow { last: last.take(), ..new() }.looked().last;
            let loaded = live.loaded();
            (loaded.teams.all.iter().map(|team| team.name.clone()).collect::<Vec<_>>().join(" "), loaded.error)
        };
        assert_eq!(look(Some("- {name: a}\n")), ("a".to_owned(), None));
        let (names, error) = look(Some("- {name: a}\n- {nam: b}\n"));
        assert_eq!(names, "a");
        let error = error.unwrap();
        assert!(error.contains("teams.yml:2: teams[1].nam: unknown key (did you mean name?)"), "{error}");
        assert_eq!(look(Some("- {name: a}\n- {name: b}\n")), ("a b".to_owned(), None));
        let (names, error) = look(None);
        assert!(names == "a b" && error.is_some_and(|error| error.contains("teams.yml: No such file")));
        assert_eq!(look(Some("- {name: a}\n- {name: b}\n")), ("a b".to_owned(), None), "as it was");
        assert_eq!(live.teams().spread, Spread::ByAllocation);
        // It is said once.
        assert!(live.set(Err("x".into())) && !live.set(Err("x".into())) && live.set(Err("y".into())));
    }
}
