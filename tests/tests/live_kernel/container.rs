//! The exporter in a root, mounts, pids, network and host name of its own, with the host's file systems below `/host`:
//! it reports the host.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use goodput_tests::scrape::Scrape;

use crate::exporter::Folder;
use crate::kernel;

/// What a runtime does, in short: `$1` is the folder that becomes the root, `$2` the user.
const RUNTIME: &str = r#"
set -e
mount --make-rprivate /
mkdir "$1/root"
mount -t tmpfs none "$1/root"
cd "$1/root"
mkdir host proc sys tmp
cp ../goodput-exporter ../nvml.so ../gpus.jsonl .
chmod a+r gpus.jsonl
mount --rbind / host
mount -t proc none proc
mount -t sysfs none sys
for library in lib lib64 usr; do
  if [ -d "/$library" ]; then mkdir "$library"; mount --bind "/$library" "$library"; fi
done
echo inside > /proc/sys/kernel/hostname
exec env FAKE_NVML=/gpus.jsonl chroot --userspec="$2" . /goodput-exporter print --nvml.library=/nvml.so \
  --path.procfs=/host/proc --path.sysfs=/host/sys --path.cgroup=/host/sys/fs/cgroup --path.rootfs=/host
"#;

fn inside(folder: &Folder, user: &str) -> (Scrape, String) {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "sh", "-c", RUNTIME, "sh"]);
    let Output { status, stdout, stderr } = command.arg(folder.path("")).arg(user).output().unwrap();
    let notes = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{status}: {notes}");
    fs::remove_dir(folder.path("root")).unwrap();
    (Scrape(String::from_utf8(stdout).unwrap()), notes)
}

/// TCP segments that the host has sent.
fn sent() -> f64 {
    let text = fs::read_to_string("/proc/1/net/snmp").unwrap();
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: ")).map(|line| line.split(' '));
    let (names, mut values) = (rows.next().unwrap(), rows.next().unwrap());
    let at = names.into_iter().position(|name| name == "OutSegs").unwrap();
    values.nth(at).unwrap().parse().unwrap()
}

/// Interfaces of the host that are devices.
fn interfaces() -> usize {
    let all = fs::read_dir("/sys/class/net").unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.join("device").exists() && !path.join("device/physfn").exists()).count()
}

#[track_caller]
fn is_of_the_host(scrape: &Scrape, notes: &str) {
    // The kernel tells a container its own name, whichever procfs it looks at.
    let name =
        fs::read_to_string("/etc/hostname").map(|text| text.trim().to_owned()).unwrap_or_else(|_| "inside".into());
    assert_eq!(scrape.count("goodput_node_info", &[("nodename", &name), ("hostname", &name)]), 1, "{notes}");
    assert_eq!(scrape.get("goodput_gpu_processes_unattributed", &[]), Some(0.0), "the process is the host's");
    assert_eq!(scrape.count("goodput_process_count", &[]), 1, "{notes}");
    let owner = scrape.0.lines().find(|line| line.starts_with("goodput_owner_info{")).unwrap();
    let cgroup = owner.split("cgroup=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(fs::read_to_string("/proc/self/cgroup").unwrap().contains(cgroup), "{owner}");
    let files = [format!("memory{cgroup}/memory.usage_in_bytes"), format!("{cgroup}/memory.current")];
    let is_group = cgroup != "/" && files.iter().any(|file| Path::new(&format!("/sys/fs/cgroup/{file}")).exists());
    assert_eq!(scrape.count("goodput_cgroup_memory_current_bytes", &[]) == 1, is_group, "{owner}");
    let total = 1024.0 * kernel::number(Path::new("/proc/meminfo"), "MemTotal").unwrap();
    assert_eq!(scrape.get("goodput_node_memory_total_bytes", &[]), Some(total));
    assert_eq!(scrape.get("goodput_network_interfaces", &[]), Some(interfaces() as f64));
    assert_eq!(scrape.collectors("failed"), Vec::<String>::new(), "{notes}");
    assert_eq!(scrape.collectors("timed_out"), Vec::<String>::new(), "{notes}");
}

#[test]
fn a_container_tells_of_its_host() {
    let folder = Folder::new();
    // A process of the host that holds the GPU: its number means nothing inside.
    folder.gpus.process(0, std::process::id(), 1 << 20).unwrap();
    let before = sent();
    let (root, notes) = inside(&folder, "0:0");
    let after = sent();
    is_of_the_host(&root, &notes);
    assert_eq!(root.collectors("denied"), Vec::<String>::new(), "{notes}");
    let segments = root.get("goodput_tcp_sent_segments_total", &[]).unwrap();
    assert!(before <= segments && segments <= after, "{before} <= {segments} <= {after}: the host's network");

    let (nobody, notes) = inside(&folder, "65534:65534");
    is_of_the_host(&nobody, &notes);
    assert_eq!(
        nobody.collectors("denied"),
        ["storage"],
        "the host's mounts are root's, and its own are not the host's"
    );
    assert!(notes.contains("/host/proc/1/mountstats: permission denied"), "{notes}");
    let segments = nobody.get("goodput_tcp_sent_segments_total", &[]).unwrap();
    assert!(segments >= after, "the host's network, for everybody");
}
