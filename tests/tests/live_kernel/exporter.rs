//! The exporter's program, started in many ways, and what it serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use goodput_lab::bin;
use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
use goodput_lab::process::{Running, free_address, until};
use goodput_tests::scrape::Scrape;
use tempfile::TempDir;

/// How long a condition may take to come true on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A folder that every user may read, with the program, the fake driver and its node of one GPU.
pub(crate) struct Folder {
    folder: TempDir,
    pub(crate) gpus: FakeNode,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        everybody_may_read(path);
        std::fs::copy(bin("goodput-exporter").unwrap(), path.join("goodput-exporter")).unwrap();
        std::fs::copy(FakeNvml::build().unwrap().path(), path.join("nvml.so")).unwrap();
        let gpus = FakeNode::new(path, &NodeSpec::h100(1)).unwrap();
        Self { folder, gpus }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the exporter by way of a program that is given as its command line begins, such as `setpriv`.
    pub(crate) fn start(&self, before: &[String], arguments: &[String]) -> Exporter {
        let address = free_address().unwrap();
        let serve = [
            self.path("goodput-exporter").display().to_string(),
            "serve".to_owned(),
            format!("--web.listen-address={address}"),
            format!("--nvml.library={}", self.path("nvml.so").display()),
        ];
        let line: Vec<&String> = before.iter().chain(&serve).chain(arguments).collect();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).envs([self.gpus.env()]);
        let mut running = Running::start(&mut command, &self.path("exporter.log")).unwrap();
        running.until_listens(address).unwrap();
        Exporter { address, running, last: String::new() }
    }
}

/// Temporary folders are their maker's alone.
pub(crate) fn everybody_may_read(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A running exporter.
pub(crate) struct Exporter {
    address: SocketAddr,
    running: Running,
    last: String,
}

impl Exporter {
    /// What it reads from now on: an answer that is an earlier reading's is not taken.
    pub(crate) fn scrape(&mut self) -> Scrape {
        self.read_between(|| ()).1
    }

    /// What it reads, between two looks at the kernel's own files. A reading may begin before it is asked for, where a
    /// request is expected, but not before the request before that was answered, with an earlier one.
    pub(crate) fn read_between<T>(&mut self, look: impl Fn() -> T) -> (T, Scrape, T) {
        let url = format!("http://{}/metrics", self.address);
        let mut earlier = None;
        let fresh = until("a new reading", PATIENCE, || {
            self.running.goes_on()?;
            let looked = look();
            let answer = ureq::get(&url).config().http_status_as_error(false).build().call();
            let mut answer = answer?;
            assert_eq!(answer.status(), 200);
            let text = answer.body_mut().read_to_string()?;
            let before = earlier.replace(looked);
            if text == self.last {
                return Ok(None);
            }
            self.last.clone_from(&text);
            Ok(before.map(|before| (before, Scrape(text), look())))
        });
        fresh.unwrap()
    }

    /// Scrapes until the condition holds.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
        let found = until(what, PATIENCE, || Ok(Some(self.scrape()).filter(&holds)));
        found.unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", self.last, self.log()))
    }

    pub(crate) fn log(&self) -> String {
        self.running.log_text()
    }
}
