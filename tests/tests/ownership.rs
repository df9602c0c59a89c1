//! What people say about findings to the real analyzer: nothing that it took is lost by `kill -9`, and the commands say it
//! as the pages do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use goodput_lab::bin;
use goodput_store::{Directory, Options, Ownership as _, ReadOwnership as _, Results as _, Store};
use goodput_testing::bare;
use goodput_tests::programs::Analyzer;
use goodput_verdict::{Class, FindingEvent, FindingWeek, HOUR_MS, Interval};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A finding that a week has had.
const KNOWN: &str = "abcdefghijkl";
/// Monday 2026-11-16, 2026-W47.
const MONDAY: i64 = 1_794_787_200_000;
/// People who say something at once.
const PEOPLE: usize = 8;

/// 10, unless `GOODPUT_OWNERSHIP_KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("GOODPUT_OWNERSHIP_KILLS").map_or(10, |kills| kills.parse().unwrap())
}

/// A data directory with a GPU that idled for an hour, and a week that was noted.
fn seed(dir: &Path) {
    let idle = Interval {
        node: "n1".to_owned(),
        gpu: "GPU-a".to_owned(),
        model: Some("NVIDIA A100".to_owned()),
        owner: Some("jupyter-7".to_owned()),
        ms: HOUR_MS,
        ..bare(Class::IdleHeld, MONDAY..MONDAY + HOUR_MS)
    };
    let week = FindingWeek {
        week: "2026-W46".to_owned(),
        id: KNOWN.to_owned(),
        start_ms: MONDAY - 168 * HOUR_MS,
        end_ms: MONDAY,
        cluster: None,
        class: Class::IdleHeld,
        subject: "jupyter-*".to_owned(),
        team: None,
        lost_ms: HOUR_MS,
        ran_ms: HOUR_MS,
        currency: None,
        lost_micro: None,
        is_first: true,
    };
    Runtime::new().unwrap().block_on(async {
        let store = Store::open(Options::new(dir.join("analyzer"), |_| true)).await.unwrap();
        store.replace("n1".into(), MONDAY..MONDAY + HOUR_MS, &[idle]).await.unwrap();
        store.note_finding_week("2026-W46", &[week]).await.unwrap();
        store.close().await;
    });
}

fn events(data: &Path) -> Vec<FindingEvent> {
    Runtime::new().unwrap().block_on(Directory::new(data).finding_events()).unwrap()
}

/// Says one thing after another until the analyzer is gone; tells what it took.
fn talk(address: std::net::SocketAddr, who: usize, took: &Sender<(i64, String)>) {
    for n in 0.. {
        let comment = format!("{who}-{n}");
        let body = json!({ "action": "comment", "comment": comment, "actor": "ann" }).to_string();
        let url = format!("http://{address}/api/v1/findings/{KNOWN}/events");
        let sent = ureq::post(url).header("if-match", "*").content_type("application/json").send(&body);
        let Ok(mut answer) = sent else { return };
        let Ok(text) = answer.body_mut().read_to_string() else { return };
        let Ok(said) = serde_json::from_str::<Value>(&text) else { return };
        if took.send((said["seq"].as_i64().unwrap(), comment)).is_err() {
            return;
        }
    }
}

#[test]
fn nothing_that_was_said_is_lost_by_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    seed(dir.path());
    let mut taken: BTreeMap<i64, String> = BTreeMap::new();
    for kill in 0..kills() {
        let analyzer = Analyzer::start(dir.path()).unwrap();
        let (address, data) = (analyzer.address, analyzer.data.clone());
        let (told, took) = channel();
        thread::scope(|scope| {
            for who in 0..PEOPLE {
                let told = told.clone();
                scope.spawn(move || talk(address, kill * PEOPLE + who, &told));
            }
            drop(told);
            // Another number each time, so that the kill comes at another moment.
            taken.extend((0..20 + kill % 7).map(|_| took.recv().unwrap()));
            analyzer.running.kill().unwrap();
            taken.extend(took.iter());
        });
        let stored = events(&data);
        assert!(stored.is_sorted_by(|a, b| a.seq < b.seq), "a number is given twice");
        let by_seq: BTreeMap<i64, &str> =
            stored.iter().map(|event| (event.seq, event.comment.as_deref().unwrap())).collect();
        for (seq, comment) in &taken {
            assert_eq!(by_seq.get(seq), Some(&comment.as_str()), "kill {kill}: {seq} was taken, and is not there");
        }
        let mut comments: Vec<&str> = by_seq.values().copied().collect();
        comments.sort_unstable();
        comments.dedup();
        assert_eq!(comments.len(), stored.len(), "kill {kill}: something is there twice");
    }
    assert!(taken.len() >= kills() * 20, "{}", taken.len());
}

#[allow(clippy::disallowed_methods, reason = "starts the program under test")]
fn findings(args: &[&str]) -> Output {
    Command::new(bin("goodput-analyzer").unwrap()).arg("findings").args(args).env("USER", "ann").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

#[test]
fn commands_list_findings_and_say_things_to_the_server() {
    let dir = tempfile::tempdir().unwrap();
    seed(dir.path());
    let data = dir.path().join("analyzer");
    let data = ["--data.dir", data.to_str().unwrap()];
    let list = |more: &[&str]| {
        let output = findings(&[&["list", "--week", "2026-W47", "--format", "json"], &data[..], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        let groups: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        groups.iter().map(|group| group["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // A golden id of `report/identity.rs`: the same in every release.
    assert_eq!(list(&[]), ["f6krkcdqcyow"]);
    assert_eq!(list(&["--state", "open"]), ["f6krkcdqcyow"]);
    assert!(list(&["--state", "acknowledged"]).is_empty());
    let mut analyzer = Analyzer::start(dir.path()).unwrap();
    let server = format!("http://{}", analyzer.address);
    let say = |server: &str, args: &[&str]| findings(&[args, &["--server", server]].concat());
    let output = say(&server, &["ack", KNOWN, "--comment", "looking at it"]);
    assert!(output.status.success() && said(&output).contains(": acknowledged"), "{}", said(&output));
    for (args, expected) in [
        (&["assign", KNOWN, "--to", "bob"][..], "acknowledged"),
        (&["snooze", KNOWN, "--until", "2000-01-01"], "until: expected a time to come"),
        (&["accept", KNOWN], "comment: expected the reason"),
        (&["claim", KNOWN, "--url", "ftp://a"], "url: expected an address"),
        (&["ack", "aaaaaaaaaaaa"], "404"),
        (&["comment", KNOWN, "--comment", "a\tb", "--as", "eve"], "acknowledged"),
        (&["claim", KNOWN], "fix_claimed"),
    ] {
        let output = say(&server, args);
        assert!(said(&output).contains(expected), "{args:?}: {}", said(&output));
    }
    let shown = findings(&[&["show", KNOWN], &data[..]].concat());
    for part in ["fix claimed by ann", "assigned to bob", "ann: acknowledge", "eve: comment", "looking at it"] {
        assert!(said(&shown).contains(part), "{part} is not in {}", said(&shown));
    }
    // States are the same after a restart.
    analyzer.running.terminate().unwrap();
    analyzer = Analyzer::start(dir.path()).unwrap();
    let detail: Value = serde_json::from_str(&analyzer.get(&format!("/api/v1/findings/{KNOWN}")).unwrap()).unwrap();
    assert_eq!(detail["ownership"]["state"], "fix_claimed", "{detail}");
}

#[test]
fn only_who_may_is_heard_and_is_named_by_the_front_door() {
    let dir = tempfile::tempdir().unwrap();
    seed(dir.path());
    let token = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("{name}-0123456789abcdef")).unwrap();
        path.display().to_string()
    };
    let (ops, readers) = (token("ops"), token("readers"));
    let access = format!(
        "  access:\n  - {{token_file: {ops}, scopes: [admin]}}\n  - {{token_file: {readers}, scopes: ['read:all']}}\n"
    );
    let ack = |analyzer: &Analyzer, token: &str| {
        let server = format!("http://{}", analyzer.address);
        findings(&["ack", KNOWN, "--server", &server, "--bearer-token-file", token])
    };
    let off = Analyzer::start_with(dir.path(), &format!("web:\n  findings_write: false\n{access}")).unwrap();
    let refused = said(&ack(&off, &ops));
    assert!(refused.contains("403") && refused.contains("web.findings_write: true"), "{refused}");
    off.running.kill().unwrap();
    let on = Analyzer::start_with(dir.path(), &format!("web:\n  findings_write: true\n{access}")).unwrap();
    let refused = said(&ack(&on, &readers));
    assert!(refused.contains("403") && refused.contains("scope admin"), "{refused}");
    assert!(events(&on.data).is_empty());
    let output = ack(&on, &ops);
    assert!(output.status.success(), "{}", said(&output));
    let actors: Vec<String> = events(&on.data).into_iter().map(|event| event.actor).collect();
    assert_eq!(actors, ["token ops"]);
    let server = format!("http://{}", on.address);
    let nobody = said(&findings(&["ack", KNOWN, "--server", &server]));
    assert!(nobody.contains("401"), "{nobody}");
}
