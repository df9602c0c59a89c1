//! Segments that were away at a start: a volume that was mounted late, or a copy under way. Once they are back they stay
//! as they are for an hour, so that the operator can compare them with a copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tracing::warn;

/// How long nothing is merged after a start that found segments away: long enough for a person to look. Segments that are
/// flushed meanwhile are merged afterwards.
const UNTOUCHED: Duration = Duration::from_hours(1);

fn path(dir: &Path) -> PathBuf {
    dir.join("segments.away")
}

/// Notes that segments of this data directory are away now.
pub(super) fn note(dir: &Path) {
    let path = path(dir);
    if let Err(error) = fs::write(&path, "segments were absent at a start; nothing is merged for an hour\n") {
        warn!(path = %path.display(), %error, "cannot note that segments are absent");
    }
}

/// Until when nothing is merged in this data directory. A note that is older than that is removed.
pub(super) fn until(dir: &Path, now: SystemTime) -> Option<SystemTime> {
    let path = path(dir);
    let noted = fs::metadata(&path).and_then(|note| note.modified()).ok()?;
    // A clock that stepped back must not hold merges up for longer.
    let until = noted.checked_add(UNTOUCHED).filter(|until| noted <= now && now < *until);
    if until.is_none()
        && let Err(error) = fs::remove_file(&path)
    {
        warn!(path = %path.display(), %error, "cannot remove the note that segments were absent");
    }
    until
}

/// Until when nothing is merged in this data directory, because segments were away at a start.
#[must_use]
pub fn untouched_until(dir: &Path) -> Option<SystemTime> {
    until(dir, SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_an_hour_and_goes_then() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(until(dir.path(), SystemTime::now()), None);
        for (later, holds) in [(Duration::ZERO, true), (UNTOUCHED, false)] {
            note(dir.path());
            let now = SystemTime::now() + later;
            assert_eq!(until(dir.path(), now).is_some(), holds, "{later:?}");
            assert_eq!(path(dir.path()).try_exists().unwrap(), holds);
        }
        note(dir.path());
        assert_eq!(until(dir.path(), SystemTime::UNIX_EPOCH), None, "a clock that stepped back");
    }
}
