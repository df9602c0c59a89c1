//! One reading of all files: which there are, whose they are, and what is new in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::super::account::Reading;
use super::super::board::Board;
use super::super::ranks::Ranks;
use super::super::rows::{Place, Row};
use super::Question;
use super::log::Log;
use super::text::Text;
use crate::collect::nccl::account::{Losses, Lost};
use crate::context::Nccl;
use crate::source::files::{FileError, Roots};
use crate::source::inspector::folder::{self, Candidate, Found, Key, Kind};
use crate::source::inspector::tail::Piece;
use crate::source::inspector::whose::{self, Process};
use crate::source::left_out;

/// What a line counts at least, in bytes: own choice, half of the plug-in's shortest. Millions of empty lines take time too.
const LINE_BYTES: u64 = 100;
/// Files of records that are kept, those included that are not found for now.
const KEPT: usize = folder::FILES + 16;
/// Unknown forms that are named: own choice.
const FORMS: usize = 16;

/// Everything that is kept from one reading to the next.
pub(super) struct Files {
    roots: Arc<Roots>,
    pub(super) settings: Arc<Nccl>,
    before: Option<Instant>,
    /// When reading began, in microseconds since 1970.
    since_us: u64,
    pub(super) logs: BTreeMap<Key, Log>,
    pub(super) texts: BTreeMap<Key, Text>,
    pub(super) boards: BTreeMap<Place, Board>,
    pub(super) ranks: Ranks,
    pub(super) lost: BTreeMap<String, Losses>,
    forms: BTreeSet<String>,
}

/// A reading that is under way.
struct Pass<'a> {
    at: Instant,
    processes: &'a [Process],
    /// Which process has which file open; looked up when the first file needs it.
    open: Option<BTreeMap<Key, Vec<usize>>>,
    /// Files of records, opened, with their sizes.
    opened: Vec<(Key, u64, File)>,
    /// Files without a process.
    unowned: u64,
}

impl Files {
    pub(super) fn new(roots: Arc<Roots>, settings: Arc<Nccl>) -> Self {
        Self {
            roots,
            settings,
            before: None,
            since_us: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as u64,
            logs: BTreeMap::new(),
            texts: BTreeMap::new(),
            boards: BTreeMap::new(),
            ranks: Ranks::default(),
            lost: BTreeMap::new(),
            forms: BTreeSet::new(),
        }
    }

    /// Reads what is new.
    pub(super) fn read(&mut self, question: Question) -> Vec<Row> {
        let at = question.at;
        let processes = whose::processes(&self.roots, question.holders);
        let mut found = folder::find(&self.settings.folders, &whose::users(&processes));
        let mut pass = Pass { at, processes: &processes, open: None, opened: Vec::new(), unowned: 0 };
        self.open(&mut pass, &mut found);
        found.strangers += pass.unowned;
        let elapsed = self.before.replace(at).map(|before| at.saturating_duration_since(before));
        self.logs.values_mut().for_each(|log| log.allow(elapsed));
        let read = pass.opened.len() + self.texts.len();
        self.read_records(pass.opened, at);
        self.book(at);
        self.name_forms();
        std::mem::take(&mut found.errors).into_iter().for_each(|error| left_out::note(error, 1));
        self.rows(&found, read, at)
    }

    /// Opens the files that belong to a process, and forgets those that are gone.
    fn open(&mut self, pass: &mut Pass<'_>, found: &mut Found) {
        let (mut logs, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for candidate in &found.files {
            let opened = match &candidate.kind {
                Kind::Records => self.open_records(pass, candidate).map(|log| logs.extend(log)),
                Kind::Means(uuid) => self.read_means(pass, candidate, uuid).map(|text| texts.extend(text)),
            };
            if let Err(error) = opened {
                found.refused += 1;
                found.errors.push(FileError::Io { path: candidate.path.clone(), error });
            }
        }
        // A file may be missing for a round, as where there are too many. What was counted of it stays counted.
        let mut missing = std::mem::take(&mut self.logs);
        while let Some((key, log)) = missing.pop_first().filter(|_| logs.len() < KEPT) {
            logs.extend(log.still(pass.processes).map(|log| (key, log)));
        }
        (self.logs, self.texts) = (logs, texts);
        let owners: BTreeSet<&str> = self.places().map(|place| place.owner.as_str()).collect();
        let gone: Vec<String> = self.lost.keys().filter(|owner| !owners.contains(owner.as_str())).cloned().collect();
        for owner in gone {
            self.lost.remove(&owner);
        }
    }

    /// Where files that are read are from.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.logs.values().map(|log| &log.place).chain(self.texts.values().map(|text| &text.place))
    }

    fn open_records(&mut self, pass: &mut Pass<'_>, candidate: &Candidate) -> io::Result<Option<(Key, Log)>> {
        let known = self.logs.remove(&candidate.key);
        let log = match known.and_then(|log| log.still_of(pass.processes, candidate.uid)) {
            Some(log) => log,
            None => {
                let open = pass.open.get_or_insert_with(|| whose::open_files(&self.roots, pass.processes));
                let first = || super::log::first_pid(candidate);
                let Some(process) = whose::of_records(pass.processes, open, candidate, first) else {
                    pass.unowned += 1;
                    return Ok(None);
                };
                Log::new(process)
            }
        };
        pass.opened.push((candidate.key, candidate.size, candidate.open()?));
        Ok(Some((candidate.key, log)))
    }

    fn read_means(
        &mut self,
        pass: &mut Pass<'_>,
        candidate: &Candidate,
        uuid: &str,
    ) -> io::Result<Option<(Key, Text)>> {
        let Some((process, gpu)) = whose::of_means(pass.processes, candidate, uuid) else {
            pass.unowned += 1;
            return Ok(None);
        };
        let place = Place { owner: process.holder.owner.clone(), gpu: Some(gpu) };
        let before = self.texts.remove(&candidate.key).filter(|text| text.place == place);
        let (text, rejected) = Text::read(before, place, candidate, pass.at)?;
        let lost = &mut self.lost.entry(text.place.owner.clone()).or_default()[Lost::Rejected as usize];
        *lost = lost.saturating_add(rejected);
        Ok(Some((candidate.key, text)))
    }

    /// Reads the files by turns, a piece of each: so what ranks write of one collective is met within little memory.
    fn read_records(&mut self, mut opened: Vec<(Key, u64, File)>, at: Instant) {
        for (key, size, _) in &opened {
            if let Some(log) = self.logs.get_mut(key) {
                log.begin(*size);
            }
        }
        let mut buffer = Vec::new();
        while !opened.is_empty() {
            opened.retain(|(key, _, file)| {
                let Some(log) = self.logs.get_mut(key) else { return false };
                let Log { tail, account, place, .. } = log;
                let (owner, age, since_us) = (&place.owner, log.age, self.since_us);
                let mut reading = Reading { owner, age, since_us, at, ranks: &mut self.ranks };
                let (before, mut lines) = (tail.offset(), 0);
                let read = tail.piece(file, &mut buffer, |part| {
                    lines += 1;
                    account.take(part, &mut reading);
                });
                let bytes = tail.offset().saturating_sub(before);
                log.allowance -= bytes.max(lines * LINE_BYTES) as f64;
                // A file whose read fails is read again in the next round.
                matches!(read, Ok(Piece::More)) && log.allowance > 0.0
            });
            self.ranks.settle();
        }
    }

    /// Names each form that is not known here, once.
    fn name_forms(&mut self) {
        for form in self.logs.values_mut().filter_map(|log| log.account.unknown.take()) {
            if self.forms.len() < FORMS && self.forms.insert(form.clone()) {
                tracing::warn!(
                    "files of NCCL's Inspector: expected version v4.0 to v4.4, found {form:?}: its records are left out"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::source::inspector::whose::Holder;

    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn line(version: &str) -> String {
        format!(
            "{{\"header\":{{\"id\":\"0x1\",\"rank\":0,\"n_ranks\":1,\"nnodes\":1}},\"metadata\":{{\"inspector_output_format_version\":\"{version}\",\"pid\":7}},\"dump_stats\":{{}}}}\n"
        )
    }

    #[test]
    fn an_unknown_version_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("proc/100/fd")).unwrap();
        std::fs::write(path("proc/uptime"), "5000.00 1.00\n").unwrap();
        std::fs::write(path("proc/100/stat"), "100 (x) S 1 1 1 0 -1 0 1 1 1 1 1 1 1 1 20 0 1 0 1 1 1\n").unwrap();
        std::fs::write(path("proc/100/status"), "NSpid:\t100\t7\n").unwrap();
        std::fs::create_dir(path("nccl")).unwrap();
        let roots =
            Roots { proc: path("proc"), sys: path("sys"), cgroup: path("cgroup"), root: path(""), programs: None };
        let settings = Nccl { folders: vec![path("nccl").display().to_string()], has_names: false };
        let mut files = Files::new(Arc::new(roots), Arc::new(settings));
        let said = Said::default();
        let writer = said.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            for text in [line("v4.0") + &line("v8.1"), line("v4.0") + &line("v8.1") + &line("v8.1")] {
                std::fs::write(path("nccl/x-pid7.log"), text).unwrap();
                let holder = Holder { pid: 100, owner: "a".into(), gpus: Vec::new() };
                drop(files.read(Question { at: Instant::now(), holders: vec![holder] }));
            }
        });
        assert_eq!(files.lost["a"][Lost::Rejected as usize], 2);
        let said = String::from_utf8(said.0.lock().clone()).unwrap();
        assert_eq!(said.matches("expected version v4.0 to v4.4, found \"v8.1\"").count(), 1, "{said}");
    }
}
