//! What is counted once: files that are cut, missing for a while or older than the exporter, and ids that are given again.

use super::*;

#[test]
fn a_file_that_is_cut_counts_nothing_twice() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let lines: String = (1..=3).map(|sequence| record(7, sequence)).collect();
    node.log(100, "a/node-pid7.log", &lines);
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 3.0);
    node.log(100, "a/node-pid7.log", &record(7, 2));
    let cut = node.later(15, |scrape| lost(scrape, "a", "rejected") > 0.0);
    assert_eq!((sum(&cut, COLLECTIVES), lost(&cut, "a", "rejected")), (3.0, 1.0));
    node.log(100, "a/node-pid7.log", &(record(7, 2) + &record(7, 4)));
    assert_eq!(sum(&node.later(30, |scrape| sum(scrape, COLLECTIVES) > 3.0), COLLECTIVES), 4.0);
}

/// Communicators beyond those that are followed have no numbers to be known by; the time of their records is.
#[test]
fn what_is_summed_only_is_not_counted_twice_when_the_file_is_cut() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let later = |seconds| SystemTime::now() + Duration::from_secs(seconds);
    let of = |comm: u64, at| written(&record(7, 1).replace("0xab", &format!("{comm:#x}")), at);
    let first = later(60);
    let text: String = (1..=20).map(|comm| of(comm, first)).collect();
    node.log(100, "a/node-pid7.log", &text);
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 20.0);
    // Cut to its last lines, which are of such communicators, and one more.
    let cut: String = (18..=20).map(|comm| of(comm, first)).collect();
    node.log(100, "a/node-pid7.log", &(cut + &of(21, later(120))));
    let again = node.later(15, |scrape| sum(scrape, COLLECTIVES) > 20.0);
    assert_eq!((sum(&again, COLLECTIVES), lost(&again, "a", "rejected")), (21.0, 3.0));
}

#[test]
fn what_was_written_before_the_exporter_began_is_not_counted() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    let hour = Duration::from_secs(3600);
    let lines = [written(&record(7, 5), SystemTime::now() - hour), written(&record(7, 16), SystemTime::now() - hour)];
    node.log(100, "a/node-pid7.log", &lines.concat());
    let scrape = node.scrape();
    let [sequence, sampled] =
        ["sequence", "sampled_sequence"].map(|name| sum(&scrape, &format!("goodput_nccl_{name}")));
    assert_eq!((sum(&scrape, COLLECTIVES), sequence, sampled), (0.0, 16.0, 16.0), "it is known how far they were");
    assert_eq!(lost(&scrape, "a", "gap"), 0.0, "nor is what is missing");
    let more = written(&record(7, 18), SystemTime::now() + hour);
    node.log(100, "a/node-pid7.log", &(lines.concat() + &more));
    let scrape = node.later(15, |scrape| sum(scrape, COLLECTIVES) > 0.0);
    assert_eq!((sum(&scrape, COLLECTIVES), sum(&scrape, SECONDS), lost(&scrape, "a", "gap")), (1.0, 0.001, 1.0));
}

#[test]
fn a_file_that_is_missing_for_a_round_is_not_counted_again() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &(record(7, 1) + &record(7, 2)));
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 2.0);
    let [path, away] = ["run/nccl/a/node-pid7.log", "elsewhere"].map(|name| node.machine.path(name));
    fs::rename(&path, &away).unwrap();
    let without = node.later(15, |scrape| files(scrape, "read") == 0.0);
    assert_eq!(sum(&without, COLLECTIVES), 2.0);
    fs::rename(&away, &path).unwrap();
    node.log(100, "a/node-pid7.log", &[1, 2, 3].map(|sequence| record(7, sequence)).concat());
    let again = node.later(30, |scrape| files(scrape, "read") == 1.0 && sum(scrape, COLLECTIVES) > 2.0);
    assert_eq!((sum(&again, COLLECTIVES), lost(&again, "a", "rejected")), (3.0, 0.0));
    // Its process has ended.
    fs::remove_file(&path).unwrap();
    fs::remove_file(node.machine.path("proc/100/stat")).unwrap();
    assert_eq!(
        node.later(45, |scrape| files(scrape, "read") == 0.0 && scrape.count(COLLECTIVES) == 0).count(COLLECTIVES),
        0
    );
}

#[test]
fn a_pid_that_is_given_again_is_another_process() {
    let mut node = Node::new();
    node.process(100, 7, "a");
    node.log(100, "a/node-pid7.log", &record(7, 1));
    assert_eq!(sum(&node.scrape(), COLLECTIVES), 1.0);
    fs::remove_file(node.machine.path("proc/100/fd/7")).unwrap();
    node.log(100, "a/node-pid7.log", &(record(7, 1) + &record(7, 2)));
    fs::remove_file(node.machine.path("proc/100/fd/7")).unwrap();
    // The same process, though it has closed the file.
    node.later(15, |scrape| sum(scrape, COLLECTIVES) == 2.0);
    // Another one began 10 s ago, after the file was written last.
    node.began(100, 4990);
    let written = SystemTime::now() - Duration::from_secs(60);
    File::options()
        .write(true)
        .open(node.machine.path("run/nccl/a/node-pid7.log"))
        .unwrap()
        .set_modified(written)
        .unwrap();
    let reused = node.later(30, |scrape| files(scrape, "unowned") == 1.0);
    assert_eq!(reused.count(COLLECTIVES), 0);
}

#[test]
fn two_containers_may_have_a_process_1_each() {
    let mut node = Node::new();
    for (pid, pod) in [(100, "a"), (101, "b")] {
        node.process(pid, 1, pod);
        let lines: String = (0..u64::from(pid - 99)).map(|sequence| record(1, sequence)).collect();
        node.log(pid, &format!("{pod}/node-pid1.log"), &lines);
    }
    let scrape = node.scrape();
    let of = |gpu: u32, owner: &str| {
        let labels =
            format!("gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",owner=\"/{owner}\",comm=\"0xab\",operation=\"AllReduce\"");
        scrape.value(&format!("{COLLECTIVES}{{{labels}}}"))
    };
    assert_eq!((of(0, "a"), of(1, "b")), (1.0, 2.0));
    // By the id alone they cannot be told apart.
    let mut blind = Node::new();
    for (pid, pod) in [(100, "a"), (101, "b")] {
        blind.process(pid, 1, pod);
        blind.machine.write(&format!("run/nccl/{pod}/node-pid1.log"), &record(1, 1));
    }
    let scrape = blind.scrape();
    assert_eq!((files(&scrape, "unowned"), scrape.count(COLLECTIVES)), (2.0, 0));
}
