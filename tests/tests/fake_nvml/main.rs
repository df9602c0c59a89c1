//! The fake NVML as programs meet it: loaded, and read while the test changes the node.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy spares tests, but not the helpers beside them")]

mod raw;
mod wrapped;

use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec, counts_env};
use nvml_wrapper::Nvml;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIBRARY: &str = "GOODPUT_TEST_LIBRARY";
/// Long enough for a machine under load, never waited for when things work.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the body of a test, given the node and the library's path, in a child process that sees the node: the library finds
/// it through the environment, which all threads of a process share.
#[allow(clippy::disallowed_methods, reason = "a process of its own for each test")]
fn isolated<F: FnOnce(&FakeNode, &Path)>(spec: NodeSpec, body: F) {
    if let (Some(library), Some(log)) = (std::env::var_os(LIBRARY), std::env::var_os("FAKE_NVML")) {
        return body(&FakeNode::open(Path::new(&log)).unwrap(), &PathBuf::from(library));
    }
    // The body is a closure in the test: its type carries the test's name.
    let body = std::any::type_name::<F>();
    let test = body.strip_prefix("fake_nvml::").and_then(|name| name.strip_suffix("::{{closure}}")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let node = FakeNode::new(dir.path(), &spec).unwrap();
    let calls = dir.path().join("calls.json");
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs([node.env(), (LIBRARY, FakeNvml::build().unwrap().path()), counts_env(&calls)])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn load(library: &Path) -> Nvml {
    Nvml::builder().lib_path(library.as_os_str()).init().unwrap()
}

/// Waits for what the clock has to bring.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come to be");
        std::thread::sleep(Duration::from_millis(10));
    }
}
