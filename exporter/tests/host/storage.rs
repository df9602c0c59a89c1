use goodput_exporter::collect::Done;
use goodput_exporter::source::files::FileError;

use crate::support::{Machine, facts, oracle, shared};

/// node_exporter's proc tree, with its disks in `/sys/block`, and the NFS mounts of the process that has any.
fn machine() -> Machine {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    for disk in ["sda", "nvme0n1", "mmcblk0", "vda", "sdb", "loop0", "ram1", "dm-0", "dm-1", "sr0"] {
        std::fs::create_dir_all(machine.path(&format!("sys/block/{disk}"))).unwrap();
    }
    machine.write("sys/block/dm-0/dm/name", "vg-data\n");
    std::fs::copy(machine.path("proc/10/mountstats"), machine.path("proc/1/mountstats")).unwrap();
    machine
}

#[test]
fn queues_agree_with_node_exporter() {
    let collected = machine().collect("storage").ok();
    let expected = oracle();
    for disk in ["sda", "nvme0n1", "mmcblk0", "vda", "sdb"] {
        for (ours, theirs) in
            [("queue_seconds_total", "io_time_weighted_seconds_total"), ("requests_in_flight", "io_now")]
        {
            let ours = collected.value(&format!("goodput_disk_{ours}{{device=\"{disk}\"}}"));
            let theirs = expected[&format!("node_disk_{theirs}{{device=\"{disk}\"}}")];
            assert!((ours - theirs).abs() < 1e-6, "{disk}: {ours} {theirs}");
        }
    }
    assert_eq!(collected.count("goodput_disk_queue_seconds_total"), 5, "whole disks alone");
    collected.golden("storage/node-exporter-e2e");
}

#[test]
fn devices_made_of_disks() {
    let collected = machine().collect("storage").ok();
    let expected = oracle();
    assert_eq!(collected.value("goodput_disk_stacked_devices"), 2.0);
    for metric in ["read_bytes_total", "written_bytes_total", "read_time_seconds_total", "write_time_seconds_total"] {
        for (device, labels) in [("dm-0", "device=\"dm-0\",name=\"vg-data\""), ("dm-1", "device=\"dm-1\"")] {
            let ours = collected.value(&format!("goodput_disk_stacked_{metric}{{{labels}}}"));
            let theirs = expected[&format!("node_disk_{metric}{{device=\"{device}\"}}")];
            assert!((ours - theirs).abs() < 1e-6, "{device} {metric}: {ours} {theirs}");
        }
    }
}

#[test]
fn nfs_by_mount() {
    let machine = machine();
    // The fixture's process has two mounts at one place: the later one covers the other.
    let collected = machine.collect("storage").ok();
    assert_eq!(collected.value("goodput_nfs_mounts"), 2.0);
    let mount = "mount=\"/mnt/nfs/test\"";
    for (series, expected) in [
        (format!("read_bytes_total{{{mount},export=\"192.168.1.1:/srv/test\"}}"), 1_210_214_218.0),
        (format!("written_bytes_total{{{mount},export=\"192.168.1.1:/srv/test\"}}"), 0.0),
        (format!("requests_total{{{mount},operation=\"read\"}}"), 1298.0),
        (format!("retransmissions_total{{{mount},operation=\"read\"}}"), 0.0),
        (format!("round_trip_seconds_total{{{mount},operation=\"read\"}}"), 79.386),
        (format!("execution_seconds_total{{{mount},operation=\"read\"}}"), 79.407),
        ("retransmissions_total{mount=\"/mnt/nfs/test-dupe\",operation=\"other\"}".to_owned(), 0.0),
        ("requests_total{mount=\"/mnt/nfs/test-dupe\",operation=\"other\"}".to_owned(), 2_927_395_007.0),
    ] {
        assert_eq!(collected.value(&format!("goodput_nfs_{series}")), expected, "{series}");
    }
    std::fs::remove_file(machine.path("proc/self")).unwrap();
    machine.write("proc/self/mountstats", "device s:/x mounted on /own with fstype nfs\nbytes: 1 2 3 4 5 6\n");
    machine.deny("proc/1/mountstats");
    let denied = machine.collect("storage").ok();
    assert!(matches!(denied.left_out.errors[..], [FileError::Denied { .. }]), "{:?}", denied.left_out);
    assert_eq!(denied.count("goodput_nfs_mounts"), 0, "a container's own mounts are not the node's");
    assert_eq!(denied.count("goodput_disk_queue_seconds_total"), 5, "disks are told all the same");
    std::fs::remove_file(machine.path("proc/1/mountstats")).unwrap();
    let own = machine.collect("storage").ok();
    assert_eq!(own.value("goodput_nfs_read_bytes_total{mount=\"/own\",export=\"s:/x\"}"), 5.0);
}

#[test]
fn without_nfs_nothing_is_said_of_it() {
    let machine = machine();
    machine.write("proc/1/mountstats", "device proc mounted on /proc with fstype proc\n");
    let collected = machine.collect("storage").ok();
    assert_eq!(collected.count("goodput_nfs_mounts"), 0);
    assert_eq!(collected.count("goodput_disk_queue_seconds_total"), 5);
    assert!(matches!(Machine::empty().collect("storage").result, Ok(Done::NotApplicable(_))));
}

/// As an independent reader found them; a mount that a later one covers has no series.
#[test]
fn recorded_mounts_and_how_they_were_made() {
    for (fixture, version, mounts) in [("net-nfs42-slot-wait", "4.2", 1), ("net-nfs-rdma-nconnect8", "3", 7)] {
        let machine = Machine::empty();
        let text = std::fs::read_to_string(shared(&format!("{fixture}/proc/1/mountstats"))).unwrap();
        machine.write("proc/1/mountstats", &text);
        let collected = machine.collect("storage").ok();
        assert_eq!((collected.left(), collected.count("goodput_nfs_mount_info")), (String::new(), mounts), "{fixture}");
        for fact in facts(fixture).as_array().unwrap() {
            if fact["covered_by_a_later_mount"].as_bool().unwrap() {
                continue;
            }
            let [mount, export, proto] = ["mount", "export", "proto"].map(|key| fact[key].as_str().unwrap());
            let (nconnect, hard) = (fact["nconnect"].as_str().unwrap_or("1"), fact["hard"].as_bool().unwrap());
            let seconds = fact["timeo_deciseconds"].as_str().unwrap().parse::<f64>().unwrap() / 10.0;
            let series = format!(
                "goodput_nfs_mount_info{{mount=\"{mount}\",export=\"{export}\",version=\"{version}\",proto=\"{proto}\",nconnect=\"{nconnect}\",timeo_seconds=\"{seconds}\",hard=\"{hard}\"}}"
            );
            assert_eq!(collected.value(&series), 1.0);
        }
    }
}
