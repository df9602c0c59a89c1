//! A container that sees its host below another root finds the driver there, and is not ready before.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
use goodput_lab::process::until;
use goodput_tests::programs::Exporter;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn an_exporter_that_needs_a_gpu_is_ready_once_the_driver_is_found_below_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("etc")).unwrap();
    let root = format!("--path.rootfs={}", host.display());
    let arguments = [root, "--nvml.library=auto".to_owned(), "--nvml.require".to_owned()];
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(1)).unwrap();
    let exporter = Exporter::start_with(dir.path(), &node, &arguments).unwrap();
    let answers = |status: u16, part: &str| {
        until(&format!("{status} {part}"), PATIENCE, || {
            let url = format!("http://{}/-/ready", exporter.address);
            let mut answer = ureq::get(url).config().http_status_as_error(false).build().call()?;
            let text = answer.body_mut().read_to_string()?;
            Ok((answer.status().as_u16() == status && text.contains(part)).then_some(()))
        })
        .unwrap();
    };
    answers(503, &format!("a search below {} in usr/lib/", host.display()));
    let folder = host.join("usr/local/nvidia/lib64");
    fs::create_dir_all(&folder).unwrap();
    symlink(FakeNvml::build().unwrap().path(), folder.join("libnvidia-ml.so.1")).unwrap();
    answers(200, "ready");
    let log = exporter.running.log_text();
    assert!(log.contains(&format!("library={}/libnvidia-ml.so.1", folder.display())), "{log}");
}
