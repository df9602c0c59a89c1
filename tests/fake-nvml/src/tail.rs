//! Follows the event log.

use crate::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A log and how far it has been read.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: File,
    read_bytes: u64,
    lines: usize,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl Tail {
    pub(crate) fn open(path: PathBuf) -> Result<Self, String> {
        let file = File::open(&path).map_err(|error| format!("cannot open event log {}: {error}", path.display()))?;
        Ok(Tail { path, file, read_bytes: 0, lines: 0, partial: Vec::new() })
    }

    /// Notices the next lines.
    pub(crate) fn news(&self) -> std::io::Result<News> {
        News::of(&self.path)
    }

    /// One `fstat`: cheap enough for every call, so that a test sees its own line at once.
    pub(crate) fn has_grown(&self) -> bool {
        self.file.metadata().is_ok_and(|m| m.size() > self.read_bytes)
    }

    /// Hands over each new complete line, and whether it is the first of the log.
    pub(crate) fn read(&mut self, mut apply: impl FnMut(bool, Event) -> Result<(), String>) -> Result<(), String> {
        let path = self.path.display().to_string();
        self.fetch().map_err(|error| format!("cannot read event log {path}: {error}"))?;
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = self.partial.split_off(end + 1);
        for line in std::mem::replace(&mut self.partial, rest).split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            let event = serde_json::from_slice(line).map_err(|error| error.to_string());
            event
                .and_then(|event| apply(self.lines == 1, event))
                .map_err(|error| format!("{path}:{}: {error}", self.lines))?;
        }
        Ok(())
    }

    fn fetch(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; 1 << 16];
        loop {
            let n = self.file.read_at(&mut chunk, self.read_bytes)?;
            if n == 0 {
                return Ok(());
            }
            self.partial.extend_from_slice(&chunk[..n]);
            self.read_bytes += n as u64;
        }
    }
}

/// Tells a waiting call that the log was written to: like a driver, it costs its caller nothing until something happens.
#[derive(Debug)]
pub(crate) struct News(OwnedFd);

impl News {
    fn of(path: &Path) -> std::io::Result<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, path, inotify::WatchFlags::MODIFY)?;
        Ok(News(inotify))
    }

    /// Sleeps until a line is written, or this long; all notices until then count once.
    pub(crate) fn wait(&self, limit: Duration) {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        // An interrupted wait is one that ends early: the caller looks again.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit));
        let _ = rustix::io::read(&self.0, &mut [0; 1024]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_handed_over_once_whole_and_bad_ones_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = File::create(&path).unwrap();
        let mut tail = Tail::open(path.clone()).unwrap();
        let mut seen = Vec::new();
        let mut step = |tail: &mut Tail, text: &[u8]| {
            log.write_all(text).unwrap();
            let grown = tail.has_grown();
            let mut keep = |first, event: Event| {
                seen.push((first, format!("{event:?}")));
                Ok(())
            };
            tail.read(&mut keep).map(|()| (grown, seen.len()))
        };
        assert_eq!(step(&mut tail, b""), Ok((false, 0)));
        assert_eq!(step(&mut tail, b"{\"count\":{}}\n{\"lose\":"), Ok((true, 1)));
        assert_eq!(step(&mut tail, b"{\"gpu\":3}}\n"), Ok((true, 2)));
        let error = step(&mut tail, b"{\"lose\":{}}\n").unwrap_err();
        assert_eq!(error, format!("{}:3: missing field `gpu` at line 1 column 10", path.display()));
        assert_eq!(seen[1], (false, "Lose(Target { gpu: 3 })".to_owned()));
    }
}
