use crate::support::{Collected, Machine};

/// A container whose writable layer is on the second partition of an NVMe disk.
fn machine(upper: &str) -> Machine {
    let mut machine = Machine::empty();
    machine.gpu("00000000:1A:00.0", &[7]);
    machine.write("proc/7/cgroup", "0::/pod/box\n");
    let root = format!("lowerdir=/l/2:/l/1,upperdir={upper},workdir=/w");
    machine.write(
        "proc/7/mountinfo",
        &format!("90 80 0:55 / / rw - overlay overlay rw,{root}\n91 90 0:5 / /proc rw - proc proc rw\n"),
    );
    machine.write(
        "proc/1/mountinfo",
        "24 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n25 24 259:2 / /var/lib rw shared:1 - xfs /dev/nvme0n1p2 rw\n\
         26 24 0:31 / /shared rw - nfs4 nas:/a rw\n",
    );
    machine.write("sys/devices/nvme0n1/dev", "259:0\n");
    machine.write("sys/devices/nvme0n1/uevent", "MAJOR=259\nMINOR=0\nDEVNAME=nvme0n1\nDEVTYPE=disk\n");
    machine.write("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n");
    std::fs::create_dir_all(machine.path("sys/dev/block")).unwrap();
    for (number, target) in [("259:0", "nvme0n1"), ("259:2", "nvme0n1/nvme0n1p2")] {
        let target = machine.path("sys/devices").join(target);
        std::os::unix::fs::symlink(target, machine.path("sys/dev/block").join(number)).unwrap();
    }
    machine.write("sys/fs/cgroup/cgroup.controllers", "io\n");
    machine.write(
        "sys/fs/cgroup/pod/box/io.stat",
        "8:0 rbytes=9 wbytes=9 rios=1 wios=1\n259:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
    );
    machine
}

fn written(collected: &Collected) -> f64 {
    collected.value("goodput_overlay_device_written_bytes_total{owner=\"/pod/box\",device=\"nvme0n1\"}")
}

#[test]
fn the_disk_under_a_writable_layer() {
    let machine = machine("/var/lib/containerd/7/fs");
    let collected = machine.collect("overlay").ok();
    let info = "goodput_overlay_info{owner=\"/pod/box\",filesystem=\"xfs\",device=\"nvme0n1\"}";
    assert_eq!((collected.value(info), written(&collected)), (1.0, 8192.0), "cgroups count disks, not partitions");
    machine.write("sys/fs/cgroup/pod/box/io.stat", "8:0 rbytes=9 wbytes=9 rios=1 wios=1\n");
    assert_eq!(written(&machine.collect("overlay").ok()), 0.0, "nothing was written yet");
}

#[test]
fn a_layer_on_no_disk() {
    for (upper, labels) in [("/shared/7/fs", ",filesystem=\"nfs4\""), ("7/diff", "")] {
        let collected = machine(upper).collect("overlay").ok();
        assert_eq!(collected.value(&format!("goodput_overlay_info{{owner=\"/pod/box\"{labels}}}")), 1.0, "{upper}");
        assert_eq!(collected.families.samples(), 1);
    }
}

#[test]
fn a_job_without_a_writable_layer() {
    let machine = machine("/var/lib/x");
    machine.write("proc/7/mountinfo", "24 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n");
    assert_eq!(machine.collect("overlay").ok().families.samples(), 0);
    machine.write("proc/7/mountinfo", "24 1 259:1 /\n");
    let error = machine.collect("overlay").ok().left();
    assert!(error.contains("7/mountinfo: line 1"), "{error}");
}
