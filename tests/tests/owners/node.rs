//! A node of fake GPUs with a `/proc` and a root of its own, and the exporter on it.

use std::path::PathBuf;
use std::time::Duration;

use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_tests::kubelet;
use goodput_tests::programs::Exporter;
use goodput_tests::scrape::Scrape;
use serde_json::json;
use tempfile::TempDir;

/// How long a condition may take to come true on a busy machine; the kubelet is asked every 10 s.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Node {
    folder: TempDir,
    pub(crate) gpus: FakeNode,
}

impl Node {
    pub(crate) fn new(gpus: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let uuids: Vec<_> = (0..gpus).map(|gpu| json!({"uuid": uuid(gpu)})).collect();
        let spec = NodeSpec::h100(gpus).with("gpus", uuids);
        let gpus = FakeNode::new(folder.path(), &spec).unwrap();
        let node = Self { folder, gpus };
        node.write("proc/sys/kernel/hostname", "gpu-node-1\n");
        node
    }

    /// The UUID of a GPU.
    pub(crate) fn uuid(&self, gpu: usize) -> String {
        uuid(gpu)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Where the kubelet's socket is looked for.
    pub(crate) fn socket(&self) -> PathBuf {
        kubelet::socket(self.folder.path()).unwrap()
    }

    /// Puts a process into a container of a pod; the container's id.
    pub(crate) fn container(&self, pid: u32, pod_uid: &str, number: u32) -> String {
        let id = format!("{number:012x}{:052x}", 7);
        let path = format!("0::/kubepods/burstable/pod{pod_uid}/{id}\n");
        self.write(&format!("proc/{pid}/cgroup"), &path);
        id
    }

    /// Starts the exporter with the GPU and owner collectors, and these arguments.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let root = self.folder.path().display();
        let own = [
            format!("--path.rootfs={root}"),
            format!("--path.procfs={root}/proc"),
            "--collector.disable-defaults".to_owned(),
            "--collector.gpu".to_owned(),
            "--collector.owner".to_owned(),
        ];
        let arguments: Vec<_> = own.into_iter().chain(arguments.iter().map(|a| (*a).to_owned())).collect();
        Running(Exporter::start_with(self.folder.path(), &self.gpus, &arguments).unwrap())
    }
}

fn uuid(gpu: usize) -> String {
    format!("GPU-c4529c8d-69c4-b61d-e0bc-{gpu:012x}")
}

pub(crate) struct Running(Exporter);

impl Running {
    pub(crate) fn log(&self) -> String {
        self.0.running.log_text()
    }

    /// Scrapes until the condition holds.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
        let mut last = String::new();
        let found = until(what, PATIENCE, || {
            self.0.running.goes_on()?;
            let url = format!("http://{}/metrics", self.0.address);
            let scrape = Scrape(ureq::get(url).call()?.body_mut().read_to_string()?);
            last.clone_from(&scrape.0);
            Ok(Some(scrape).filter(|scrape| holds(scrape)))
        });
        found.unwrap_or_else(|error| panic!("{error:#}\n{last}\n{}", self.log()))
    }
}
