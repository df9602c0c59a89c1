//! Files that a user makes to do harm.

use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A file system in memory that is mounted until this is dropped.
struct Mounted(PathBuf);

#[allow(clippy::disallowed_methods, reason = "mounts as an administrator does")]
impl Mounted {
    /// `None` where it may not be mounted.
    fn at(path: PathBuf) -> Option<Self> {
        let status = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&path).status().unwrap();
        status.success().then_some(Self(path))
    }
}

#[allow(clippy::disallowed_methods, reason = "as above")]
impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn links_and_pipes_are_refused() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    let path = |name: &str| node.machine.path(&format!("run/nccl/a/{name}"));
    let secret = node.machine.path("secret");
    fs::write(&secret, record(7, 2)).unwrap();
    symlink(&secret, path("link-pid7.log")).unwrap();
    fs::hard_link(&secret, path("hard-pid7.log")).unwrap();
    mknodat(CWD, path("pipe-pid7.log"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::create_dir(path("folder-pid7.log")).unwrap();
    symlink(node.machine.path(""), path("out")).unwrap();
    symlink(node.machine.path(""), node.machine.path("run/nccl/out")).unwrap();
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "refused"), files(&scrape, "read")), (4.0, 1.0));
    assert_eq!(sum(&scrape, COLLECTIVES), 1.0);
    assert!(scrape.left().contains("pid7.log: expected a plain file with one name"), "{}", scrape.left());
}

/// Needs root, which alone gives files away.
#[test]
fn another_users_file_is_not_read() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.process(101, 8, "b");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    chown(node.machine.path("run/nccl/a/node-pid7.log"), Some(1000), None).unwrap();
    node.machine.write("run/nccl/a/nccl_inspector_metrics_1.prom", &recorded("v5.1.prom"));
    chown(node.machine.path("run/nccl/a/nccl_inspector_metrics_1.prom"), Some(1000), None).unwrap();
    let strangers = node.scrape();
    assert_eq!((files(&strangers, "unowned"), strangers.count(COLLECTIVES)), (2.0, 0));
    // The user has a process on a GPU now: the file is still not that of the one that has it open.
    chown(node.machine.path("proc/101"), Some(1000), None).unwrap();
    let other = node.later(15, |scrape| files(scrape, "read") > 0.0);
    assert_eq!((files(&other, "read"), files(&other, "unowned"), other.count(COLLECTIVES)), (1.0, 1.0, 0));
    assert_eq!(other.count("goodput_nccl_mean_seconds"), 2, "the means are of its own GPU");
}

/// As a million would: no more than these are looked at.
#[test]
fn many_files_cost_their_folder() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    fs::create_dir_all(node.machine.path("run/nccl/many")).unwrap();
    for at in 0..ENTRIES + 10 {
        fs::write(node.machine.path(&format!("run/nccl/many/x{at}")), "").unwrap();
    }
    node.log(100, "z/node-pid7.log", &record(7, 1));
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "beyond"), files(&scrape, "read")), (1.0, 1.0));
    for at in 0..FILES + 6 {
        node.machine.write(&format!("run/nccl/b/node{at}-pid9.log"), "");
    }
    let full = node.later(15, |scrape| files(scrape, "beyond") > 1.0);
    assert_eq!(files(&full, "beyond"), 1.0 + 7.0);
}

#[test]
fn a_line_of_ten_gigabytes_is_passed_over() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", "");
    let path = node.machine.path("run/nccl/a/node-pid7.log");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(10_000_000_000).unwrap();
    let mut text = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut text, format!("\n{}", record(7, 3)).as_bytes()).unwrap();
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 1.0);
    // It grows by more than may be read in 15 s: what is passed over is counted by the numbers that are missing.
    file.set_len(10_020_000_000).unwrap();
    std::io::Write::write_all(&mut text, format!("\n{}", record(7, 13)).as_bytes()).unwrap();
    let behind = node.later(15, |scrape| sum(scrape, COLLECTIVES) == 2.0);
    assert_eq!((lost(&behind, "a", "behind"), lost(&behind, "a", "gap")), (9.0, 0.0));
}

#[test]
fn short_lines_are_bounded_as_long_ones_are() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &(record(7, 1) + &"x\n".repeat(2_000_000)));
    let scrape = node.later(0, |scrape| files(scrape, "read") == 1.0);
    let rejected = lost(&scrape, "a", "rejected");
    assert!((1.0..500_000.0).contains(&rejected), "{rejected}");
}

#[test]
fn a_time_of_a_file_that_no_clock_reaches_costs_nothing() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.machine.write("run/nccl/a/node-pid7.log", &record(7, 1));
    let file = File::options().write(true).open(node.machine.path("run/nccl/a/node-pid7.log")).unwrap();
    // What a file system cannot keep it refuses, or makes less.
    let _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX as u64));
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 1.0);
}

/// Needs root, which alone gives folders away.
#[test]
fn a_user_with_many_folders_hides_no_other_users_files() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.process(101, 8, "b");
    chown(node.machine.path("proc/101"), Some(1000), None).unwrap();
    for folder in 0..200 {
        let path = node.machine.path(&format!("run/nccl/a{folder}"));
        fs::create_dir_all(&path).unwrap();
        chown(path, Some(1000), None).unwrap();
    }
    node.log(100, "z/node-pid7.log", &record(7, 1));
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "read"), sum(&scrape, COLLECTIVES)), (1.0, 1.0));
    assert!(files(&scrape, "beyond") > 0.0, "of the other user");
}

/// Needs root, which alone mounts.
#[test]
fn another_file_system_is_entered_only_where_it_is_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut node = Node::new();
    node.process(100, 7, "a");
    let inner = node.machine.path("run/nccl/a/inner");
    fs::create_dir_all(&inner).unwrap();
    let Some(mounted) = Mounted::at(inner) else { return };
    node.log(100, "a/inner/node-pid7.log", &record(7, 1));
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "read"), scrape.count(COLLECTIVES)), (0.0, 0));
    assert!(scrape.left().contains("another file system, which --nccl.inspector-dir has to name"), "{}", scrape.left());
    drop(mounted);
}

#[test]
fn forged_numbers_are_refused_record_by_record() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let good = record(7, 1);
    let forged = [
        // Longer than the process lives, and faster than any bus.
        good.replace("_us\":1000", "_us\":4002000000").replace("sn\":1", "sn\":2"),
        good.replace("bytes\":8192", "bytes\":8192000000000").replace("sn\":1", "sn\":3"),
        good.replace("\"n_ranks\":2", "\"n_ranks\":4000000000").replace("AllReduce", "AllGather"),
        // A number again, an operation and a version that do not exist.
        good.clone(),
        good.replace("AllReduce", "Everything"),
        good.replace("v4.0", "v7.0"),
    ];
    node.log(100, "a/node-pid7.log", &(good + &forged.concat() + &record(7, 4)));
    let scrape = node.scrape();
    assert_eq!((sum(&scrape, COLLECTIVES), sum(&scrape, SECONDS)), (2.0, 0.002));
    assert_eq!((lost(&scrape, "a", "implausible"), lost(&scrape, "a", "rejected")), (3.0, 3.0));
    assert_eq!(lost(&scrape, "a", "gap"), 0.0, "2 and 3 were written");
}

/// Each record could be, but all together are longer than the process lives.
#[test]
fn a_communicator_has_no_more_seconds_than_its_process() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let line = |sequence| record(7, sequence).replace("_us\":1000", "_us\":1000000000");
    node.log(100, "a/node-pid7.log", &(1..=9).map(line).collect::<String>());
    let scrape = node.scrape();
    assert_eq!((sum(&scrape, SECONDS), lost(&scrape, "a", "implausible")), (4000.0, 5.0));
}

#[test]
fn a_forged_id_is_not_matched_with_another_owners() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.process(101, 8, "b");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    let forged = record(8, 1).replace("\"rank\":0", "\"rank\":1").replace("_us\":1000", "_us\":1");
    node.log(101, "b/node-pid8.log", &forged.replace("bytes\":8192", "bytes\":1"));
    let scrape = node.scrape();
    let transfer = |owner| {
        scrape.value(&format!(
            "goodput_nccl_transfer_seconds_total{{owner=\"/{owner}\",comm=\"0xab\",operation=\"AllReduce\"}}"
        ))
    };
    assert_eq!((transfer("a"), transfer("b")), (0.001, 1e-6));
    assert_eq!(sum(&scrape, "goodput_nccl_last_total"), 0.0);
}

#[test]
fn a_forged_uuid_leads_to_no_gpu() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    for uuid in ["9", "", "GPU-0", "..%2f0"] {
        node.machine.write(&format!("run/nccl/a/nccl_inspector_metrics_{uuid}.prom"), &recorded("v5.1.prom"));
    }
    let scrape = node.scrape();
    assert_eq!((files(&scrape, "unowned"), scrape.count("goodput_nccl_mean_seconds")), (4.0, 0));
}
