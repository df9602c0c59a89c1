use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use goodput_exposition::Format;
use sqlx::Connection as _;

use crate::judge::tests::{START, idle_gpu, store};
use goodput_exposition::{Limits, parse};
use goodput_rules::classify::Thresholds;
use goodput_rules::signal;
use goodput_store::{Events, Ingest, Options, ReadVerdicts as _, Results as _, Store, Whose};
use goodput_verdict::event::{Event, Place, Status, What};
use goodput_verdict::{Class, Interval};

/// A node whose verdicts the database does not take.
const REFUSED: &str = "refused";

async fn refuse_verdicts(dir: &Path) {
    let mut database = database(dir).await;
    for sql in [
        "CREATE TABLE never (node TEXT CHECK (node IS NULL))",
        "CREATE TRIGGER refuse BEFORE INSERT ON intervals WHEN NEW.node = 'refused' AND NEW.class <> 'productive'
         BEGIN INSERT INTO never VALUES (NEW.node); END",
    ] {
        sqlx::query(sql).execute(&mut database).await.unwrap();
    }
}

async fn database(dir: &Path) -> sqlx::SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.join("goodput.db"));
    sqlx::SqliteConnection::connect_with(&options).await.unwrap()
}

/// The clock of the tests: 20 minutes into the fourth hour.
fn now() -> TimeMs {
    START + 3 * HOUR_MS + 20 * MINUTE_MS
}

async fn judging(dir: &Path) -> Judging<Store> {
    let store = store(dir).await;
    let judge = Judge::new(store.clone(), Thresholds::default());
    let intake = Intake::new(store.clone());
    let (progress, stop) = (watch::Sender::default(), watch::channel(false).1);
    Judging::begin(store, intake, judge, TimeZone::UTC, now, progress, stop).await
}

async fn total(judging: &Judging<Store>, class: Class) -> i64 {
    let intervals = judging.store.intervals(START..START + 24 * HOUR_MS).await.unwrap();
    intervals.iter().filter(|i| i.class == class).map(|i| i.ms).sum()
}

#[tokio::test]
async fn samples_that_a_round_has_taken_are_at_no_moment_said_to_be_judged() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    judging.intake.note_earliest(START);
    judging.progress.send_modify(|progress| progress.judged_until_ms = Some(START + HOUR_MS));
    let asked = || {
        let progress = judging.progress.borrow();
        judging.intake.account().earliest.into_iter().chain(progress.judged_until_ms).min()
    };
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            for _ in 0..5000 {
                judging.intake.note_earliest(START);
                judging.progress.send_modify(|progress| progress.judged_until_ms = Some(START + HOUR_MS));
                assert_eq!(judging.take_changed(), Some(START));
            }
        });
        while !rounds.is_finished() {
            assert_eq!(asked(), Some(START));
        }
    });
}

#[tokio::test]
async fn missed_hours_are_caught_up_once_and_the_open_hour_is_judged_until_now() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    idle_gpu(&judging.intake, "GPU-a", "n1", START..now()).await;
    for _ in 0..2 {
        judging.round(&mut reader).await.unwrap();
        assert_eq!(total(&judging, Class::IdleHeld).await, now() - SETTLE_MS - START);
    }
    let progress = judging.progress.borrow().clone();
    assert_eq!(progress.judged_until_ms, Some(now() - SETTLE_MS));
    assert_eq!(progress.final_until_ms, Some(START + 2 * HOUR_MS), "the third hour may still change");
    let sum = |intervals: &[Interval]| intervals.iter().map(|i| i.ms).sum::<i64>();
    assert_eq!((sum(&progress.last_hour), sum(&progress.last_minutes)), (HOUR_MS, LAST_MINUTES * MINUTE_MS));
}

#[tokio::test]
async fn after_a_restart_judging_goes_on_where_verdicts_end() {
    let dir = tempfile::tempdir().unwrap();
    let first = judging(dir.path()).await;
    idle_gpu(&first.intake, "GPU-a", "n1", START..now()).await;
    first.round(&mut first.judge.reader(0)).await.unwrap();
    let until = now() - SETTLE_MS;
    let second = Judging { progress: watch::Sender::default(), ..first };
    assert_eq!(second.resume(until).await.unwrap(), START + 2 * HOUR_MS - LOOK_AHEAD_MS);
    second.round(&mut second.judge.reader(0)).await.unwrap();
    assert_eq!(second.progress.borrow().final_until_ms, Some(START + 2 * HOUR_MS), "what was final is, without a wait");
}

/// Scrapes of the memory of a GPU that fills it in four hours.
async fn leaking_gpu(store: &impl Ingest, times: Range<TimeMs>) {
    let gpu = "{UUID=\"GPU-a\",Hostname=\"n1\",instance=\"n1:9400\"}";
    for time in times.step_by(60_000) {
        let used = 80_000 * (time - START) / (4 * HOUR_MS);
        let text = format!("DCGM_FI_DEV_FB_USED{gpu} {used}\nDCGM_FI_DEV_FB_FREE{gpu} {}\n", 80_000 - used);
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
    }
}

/// Scrapes of a GPU whose owner works and saves nothing, until an XID ends it at a moment.
async fn crashing_gpu(store: &impl Ingest, times: Range<TimeMs>, crash: TimeMs) {
    let gpu = "UUID=\"GPU-a\",Hostname=\"n1\",instance=\"n1:9400\"";
    for time in times.step_by(30_000) {
        let (busy, xid) = if time < crash { (0.8, 0) } else { (0.0, 31) };
        let mut text = format!(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} {busy}\nDCGM_FI_DEV_XID_ERRORS{{{gpu}}} {xid}\n\
             DCGM_FI_DEV_FB_USED{{{gpu}}} 0\n\
             goodput_disk_written_bytes_total{{device=\"d\",instance=\"n1:9400\"}} 0\n",
        );
        if time < crash {
            text += &format!("goodput_gpu_owner_info{{owner=\"ml/a\",{gpu}}} 1\n");
        }
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_crash_takes_the_work_of_hours_that_were_final() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    let crash = START + 3 * HOUR_MS + 10 * MINUTE_MS;
    crashing_gpu(&judging.intake, START..crash - 5 * MINUTE_MS, crash).await;
    judging.round(&mut reader).await.unwrap();
    assert_eq!(total(&judging, Class::LostWork).await, 0, "nothing happened yet");
    crashing_gpu(&judging.intake, crash - 5 * MINUTE_MS..now(), crash).await;
    for _ in 0..2 {
        judging.round(&mut reader).await.unwrap();
        let (lost, kept) = (total(&judging, Class::LostWork).await, total(&judging, Class::Productive).await);
        assert!(lost > 2 * HOUR_MS && kept < 15 * MINUTE_MS, "{lost} ms lost, {kept} ms kept");
    }
    assert_eq!(judging.restated.lock().len(), 1);
    let late = Class::LostWork;
    let before = total(&judging, late).await;
    judging.intake.note_earliest(START + HOUR_MS);
    judging.round(&mut reader).await.unwrap();
    assert_eq!(total(&judging, late).await, before, "hours that are opened again still know of the crash");
}

/// Scrapes of two nodes whose GPUs one owner takes at different moments, and works on from a third one on.
async fn waiting_gang(store: &impl Ingest, times: Range<TimeMs>, moments: [TimeMs; 3]) {
    gang_of_clusters(store, times, moments, ["", ""]).await;
}

/// The same with each node in a cluster.
async fn gang_of_clusters(
    store: &impl Ingest,
    times: Range<TimeMs>,
    [first, last, works]: [TimeMs; 3],
    [of_first, of_last]: [&str; 2],
) {
    for time in times.step_by(30_000) {
        let mut text = String::new();
        for (node, taken, cluster) in [("n1", first, of_first), ("n2", last, of_last)] {
            let target = format!("instance=\"{node}:9400\",cluster=\"{cluster}\"");
            let gpu = format!("UUID=\"GPU-{node}\",Hostname=\"{node}\",{target}");
            let busy = if time > works { 0.8 } else { 0.0 };
            text += &format!("DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} {busy}\nDCGM_FI_DEV_FB_USED{{{gpu}}} 0\n");
            let owner = format!("owner=\"ml/a\",nodename=\"{node}\",{target}");
            text += &format!("goodput_cgroup_cpu_usage_seconds_total{{{owner}}} {}\n", (time - START) / 10_000);
            text += &format!("goodput_node_info{{nodename=\"{node}\",{target}}} 1\n");
            if time >= taken {
                text += &format!("goodput_gpu_owner_info{{owner=\"ml/a\",{gpu}}} 1\n");
            }
        }
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_gang_that_is_complete_at_last_has_waited_in_hours_that_were_final() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    let last = START + 3 * HOUR_MS + 5 * MINUTE_MS;
    let moments = [START + 10 * MINUTE_MS, last, last + 4 * MINUTE_MS];
    waiting_gang(&judging.intake, START..last, moments).await;
    judging.round(&mut reader).await.unwrap();
    let (waited, idle) = (total(&judging, Class::GangWait).await, total(&judging, Class::IdleHeld).await);
    assert!(waited == 0 && idle > 2 * HOUR_MS, "{waited} ms waited, {idle} ms idle: nobody knows for whom yet");
    waiting_gang(&judging.intake, last..now(), moments).await;
    for _ in 0..2 {
        judging.round(&mut reader).await.unwrap();
        let (waited, idle) = (total(&judging, Class::GangWait).await, total(&judging, Class::IdleHeld).await);
        assert!(waited > 170 * MINUTE_MS && idle == 0, "{waited} ms waited, {idle} ms idle");
    }
}

#[tokio::test]
async fn jobs_of_one_name_in_two_clusters_do_not_wait_for_each_other() {
    let moments = [10, 18, 20].map(|minute| START + minute * MINUTE_MS);
    for (clusters, waits) in [(["east", "east"], true), (["east", "west"], false)] {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        gang_of_clusters(&judging.intake, START..now(), moments, clusters).await;
        judging.round(&mut judging.judge.reader(0)).await.unwrap();
        let waited = total(&judging, Class::GangWait).await;
        assert_eq!(waited > 5 * MINUTE_MS, waits, "{clusters:?}: {waited} ms");
        assert!(waits || waited == 0, "{clusters:?}: {waited} ms");
    }
}

/// Scrapes of a GPU that its owner takes after ten minutes and works on from then on; until then it keeps CPUs busy.
async fn loading_gpu(store: &impl Ingest, times: Range<TimeMs>, works: TimeMs) {
    for time in times.step_by(30_000) {
        let gpu = "UUID=\"GPU-a\",Hostname=\"n1\",instance=\"n1:9400\"";
        let busy = if time > works { 0.8 } else { 0.0 };
        let mut text = format!("DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} {busy}\nDCGM_FI_DEV_FB_USED{{{gpu}}} 0\n");
        text += "goodput_node_info{nodename=\"n1\",instance=\"n1:9400\"} 1\n";
        let used = (time - START) / 250;
        text += &format!("goodput_cgroup_cpu_usage_seconds_total{{owner=\"ml/a\",instance=\"n1:9400\"}} {used}\n");
        if time >= START + 10 * MINUTE_MS {
            text += &format!("goodput_gpu_owner_info{{owner=\"ml/a\",{gpu}}} 1\n");
        }
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_start_of_hours_is_the_doing_of_the_crash_that_was_told_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let minute = |minute: i64| START + minute * MINUTE_MS;
    loading_gpu(&judging.intake, START..now(), minute(185)).await;
    let again = Event { attempt: 1, ..event(minute(11), What::Start { submitted_ms: None }) };
    let crash = event(minute(2), What::End { status: Status::Failed });
    let begin = event(minute(1), What::Start { submitted_ms: None });
    judging.intake.add_events(&[begin, crash, again]).await.unwrap();
    judging.round(&mut judging.judge.reader(0)).await.unwrap();
    let (lost, started) = (total(&judging, Class::LostWork).await, total(&judging, Class::ColdStart).await);
    assert!(lost > 174 * MINUTE_MS && started == 0, "{lost} ms lost, {started} ms of a start");
}

#[tokio::test]
async fn memory_at_risk_is_known_now_and_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    leaking_gpu(&judging.intake, START..now()).await;
    let kept = async || judging.store.outlook(START..START + 24 * HOUR_MS).await.unwrap().risks;
    judging.round(&mut reader).await.unwrap();
    let risks = kept().await;
    let until = now() - SETTLE_MS;
    assert_eq!(risks.len(), 4, "one per window");
    assert!(risks.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms), "{risks:?}");
    assert_eq!(risks.last().unwrap().end_ms, until);
    let prospects = judging.progress.borrow().prospects.clone();
    let [prospect] = prospects.as_slice() else { panic!("{prospects:?}") };
    let left = (START + 4 * HOUR_MS - until) as f64 / 1000.0;
    let expected = prospect.at_risk().unwrap().likely_seconds;
    assert!((expected / left - 1.0).abs() < 0.02, "{expected} s, {left} s are left");
    judging.round(&mut reader).await.unwrap();
    assert_eq!(kept().await, risks);
}

#[tokio::test]
async fn a_final_hour_that_looked_ahead_to_late_samples_is_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    idle_gpu(&judging.intake, "GPU-a", "n1", START..START + HOUR_MS).await;
    judging.round(&mut judging.judge.reader(0)).await.unwrap();
    assert_eq!(judging.progress.borrow().final_until_ms, Some(START + 2 * HOUR_MS));
    let (due, late) = (now(), START + HOUR_MS);
    assert_eq!(judging.from(due, late), START - LOST_REACH_MS, "crashes are looked for further ahead");
    assert_eq!(judging.from(due, START + 3 * HOUR_MS), START + 3 * HOUR_MS, "no final hour looked so far");
}

#[tokio::test]
async fn samples_that_came_in_late_and_were_not_judged_are_after_a_restart() {
    for flush in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let first = judging(dir.path()).await;
        idle_gpu(&first.intake, "GPU-a", "n1", START + 2 * HOUR_MS..now()).await;
        for _ in 0..2 {
            first.round(&mut first.judge.reader(0)).await.unwrap();
        }
        first.store.close().await;
        let until = now() - SETTLE_MS;
        let second = judging(dir.path()).await;
        assert_eq!(second.resume(until).await.unwrap(), START + 2 * HOUR_MS - LOOK_AHEAD_MS, "all is judged");
        idle_gpu(&second.intake, "GPU-b", "n2", START + HOUR_MS..START + 2 * HOUR_MS).await;
        if flush {
            second.store.flush().await.unwrap();
        }
        second.store.close().await;
        let third = judging(dir.path()).await;
        assert_eq!(third.resume(until).await.unwrap(), START - LOOK_AHEAD_MS);
        third.round(&mut third.judge.reader(0)).await.unwrap();
        let intervals = third.store.intervals(START + HOUR_MS..START + 2 * HOUR_MS).await.unwrap();
        assert_eq!(intervals.iter().filter(|i| i.gpu == "GPU-b").map(|i| i.ms).sum::<i64>(), HOUR_MS);
    }
}

/// An event of an attempt on the node `n1`.
fn event(time_ms: TimeMs, what: What) -> Event {
    let place = Place { node: Some("n1".into()), ..Place::default() };
    Event { place, ..goodput_testing::event(time_ms, 0, what) }
}

#[tokio::test]
async fn events_that_come_late_are_judged_and_after_a_restart_too() {
    let dir = tempfile::tempdir().unwrap();
    let first = judging(dir.path()).await;
    idle_gpu(&first.intake, "GPU-a", "n1", START..now()).await;
    first.round(&mut first.judge.reader(0)).await.unwrap();
    let begin = event(START + 5 * MINUTE_MS, What::Start { submitted_ms: None });
    first.intake.add_events(&[begin]).await.unwrap();
    for _ in 0..2 {
        first.round(&mut first.judge.reader(0)).await.unwrap();
    }
    assert_eq!(total(&first, Class::LostWork).await, 0);
    let crash = |minute| event(START + minute * MINUTE_MS, What::End { status: Status::Failed });
    first.intake.add_events(&[crash(40)]).await.unwrap();
    first.round(&mut first.judge.reader(0)).await.unwrap();
    assert_eq!(total(&first, Class::LostWork).await, 30 * MINUTE_MS, "as long after a crash as is looked at");
    first.intake.add_events(&[crash(10)]).await.unwrap();
    first.store.close().await;
    let second = judging(dir.path()).await;
    second.round(&mut second.judge.reader(0)).await.unwrap();
    let lost: Vec<_> = second.store.intervals(START..START + HOUR_MS).await.unwrap();
    let first = lost.iter().filter(|i| i.class == Class::LostWork).map(|i| i.start_ms).min();
    assert_eq!(first, Some(START + 10 * MINUTE_MS), "the first of two ends is the crash");
}

/// A backlog comes in while the first round goes on, and no second one is left the time.
#[tokio::test]
async fn samples_beside_the_only_round_are_judged_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = judging(dir.path()).await;
    idle_gpu(&first.intake, "GPU-a", "n1", START..START + HOUR_MS / 2).await;
    first.round(&mut first.judge.reader(0)).await.unwrap();
    idle_gpu(&first.intake, "GPU-a", "n1", START + HOUR_MS / 2..now()).await;
    first.store.close().await;
    let second = judging(dir.path()).await;
    second.round(&mut second.judge.reader(0)).await.unwrap();
    assert_eq!(total(&second, Class::NoData).await, 0);
    assert_eq!(total(&second, Class::IdleHeld).await, now() - SETTLE_MS - START);
}

#[tokio::test]
async fn samples_that_come_in_late_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    idle_gpu(&judging.intake, "GPU-a", "n1", START + 2 * HOUR_MS..now()).await;
    judging.round(&mut reader).await.unwrap();
    let before = total(&judging, Class::IdleHeld).await;
    idle_gpu(&judging.intake, "GPU-b", "n2", START + HOUR_MS..START + 2 * HOUR_MS).await;
    judging.round(&mut reader).await.unwrap();
    assert_eq!(total(&judging, Class::IdleHeld).await, before + HOUR_MS);
    let progress = judging.progress.borrow().clone();
    assert_eq!((progress.reopened, progress.final_until_ms), (1, Some(START + 2 * HOUR_MS)), "final once more");
}

#[tokio::test]
async fn hours_whose_samples_were_removed_are_never_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = judging(dir.path()).await;
    idle_gpu(&first.intake, "GPU-a", "n1", START..START + HOUR_MS).await;
    first.store.flush().await.unwrap();
    first.round(&mut first.judge.reader(0)).await.unwrap();
    let before = total(&first, Class::IdleHeld).await;
    assert_eq!(before, HOUR_MS);
    idle_gpu(&first.intake, "GPU-a", "n1", START + 7 * HOUR_MS..START + 8 * HOUR_MS).await;
    first.store.flush().await.unwrap();
    first.store.close().await;

    // The first hour goes for its size; what is left looks as if the GPU had never been seen then.
    let now = || START + 12 * HOUR_MS;
    let options = Options { now, retention_bytes: Some(1), ..Options::new(dir.path(), signal::is_known) };
    let store = Store::open(options).await.unwrap();
    idle_gpu(&store, "GPU-b", "n2", START + 8 * HOUR_MS..START + 9 * HOUR_MS).await;
    store.flush().await.unwrap();
    while store.stats().raw_from.is_none() {
        tokio::task::yield_now().await;
    }
    let judge = Judge::new(store.clone(), Thresholds::default());
    let (progress, stop) = (watch::Sender::default(), watch::channel(false).1);
    let intake = Intake::new(store.clone());
    let second = Judging::begin(store, intake, judge, TimeZone::UTC, now, progress, stop).await;
    second.intake.note_earliest(START);
    second.round(&mut second.judge.reader(0)).await.unwrap();
    let first_hour = second.store.intervals(START..START + HOUR_MS).await.unwrap();
    assert_eq!(first_hour.iter().map(|i| (i.class, i.ms)).collect::<Vec<_>>(), [(Class::IdleHeld, HOUR_MS)]);
    let last = second.store.intervals(START + 8 * HOUR_MS..START + 9 * HOUR_MS).await.unwrap();
    assert!(last.iter().any(|i| i.gpu == "GPU-b" && i.class == Class::IdleHeld), "{last:?}");
}

#[test]
fn late_samples_open_final_hours_and_no_others() {
    let mut progress = Progress { final_until_ms: Some(START + 3 * HOUR_MS), ..Progress::default() };
    progress.take_back(START + 3 * HOUR_MS);
    assert_eq!((progress.reopened, progress.final_until_ms), (0, Some(START + 3 * HOUR_MS)));
    progress.take_back(START + HOUR_MS + 5);
    assert_eq!((progress.reopened, progress.final_until_ms), (1, Some(START + HOUR_MS)));
    let mut fresh = Progress::default();
    fresh.take_back(START);
    assert_eq!((fresh.reopened, fresh.final_until_ms), (0, None));
}

#[tokio::test]
async fn a_node_that_cannot_be_stored_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    refuse_verdicts(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    for (gpu, node) in [("GPU-a", "n1"), ("GPU-b", REFUSED), ("GPU-c", "n2")] {
        idle_gpu(&judging.intake, gpu, node, START..now()).await;
    }
    let kept = goodput_testing::interval(REFUSED, 0, Class::Productive);
    let kept = Interval { start_ms: START, end_ms: START + HOUR_MS, ..kept };
    judging.store.replace(REFUSED.into(), START..START + HOUR_MS, std::slice::from_ref(&kept)).await.unwrap();
    judging.round(&mut reader).await.unwrap();
    assert_eq!(total(&judging, Class::IdleHeld).await, 2 * (now() - SETTLE_MS - START));
    let progress = judging.progress.borrow().clone();
    assert_eq!(progress.final_until_ms, Some(START + 2 * HOUR_MS));
    let failed: Vec<_> = progress.failed_nodes.iter().collect();
    let [((_, node), reason)] = failed[..] else { panic!("{failed:?}") };
    assert!(node == REFUSED && reason.contains("CHECK"), "{reason}");
    let of_node = judging.store.intervals_of(START..now(), &Whose::node(REFUSED)).await.unwrap();
    assert_eq!(of_node, [kept], "it keeps what it had");
}

/// Scrapes of a job on a GPU that waits, with a CPU limit.
async fn limited_job(store: &impl Ingest, node: &str, limit: &str) {
    for time in (START..now()).step_by(30_000) {
        let gpu = format!("UUID=\"GPU-{node}\",Hostname=\"{node}\",instance=\"{node}:9400\"");
        let job = format!("owner=\"ml/a\",instance=\"{node}:9400\"");
        let cpu = (time - START) as f64 / 1000.0;
        let text = format!(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} 0.2\nDCGM_FI_DEV_FB_USED{{{gpu}}} 9000\n\
             goodput_gpu_owner_info{{{gpu},owner=\"ml/a\"}} 1\n\
             goodput_node_info{{nodename=\"{node}\",instance=\"{node}:9400\"}} 1\n\
             goodput_cgroup_cpu_usage_seconds_total{{{job}}} {cpu}\n\
             goodput_cgroup_cpu_limit_cores{{{job}}} {limit}\n",
        );
        store.append(parse(&text, Format::Text, Limits::NONE, time).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_limit_next_to_nothing_ends_no_round() {
    for limit in ["1e-305", "5e-324", "0", "1e300"] {
        let dir = tempfile::tempdir().unwrap();
        let judging = judging(dir.path()).await;
        limited_job(&judging.intake, "n1", limit).await;
        idle_gpu(&judging.intake, "GPU-a", "n2", START..now()).await;
        judging.round(&mut judging.judge.reader(0)).await.unwrap();
        let progress = judging.progress.borrow().clone();
        assert_eq!((progress.final_until_ms, progress.failed_nodes.len()), (Some(START + 2 * HOUR_MS), 0), "{limit}");
        let intervals = judging.store.intervals(START..START + 4 * HOUR_MS).await.unwrap();
        let sum = |node: &str| intervals.iter().filter(|i| i.node == node).map(|i| i.ms).sum::<i64>();
        assert_eq!([sum("n1"), sum("n2")], [now() - SETTLE_MS - START; 2], "{limit}");
    }
}

#[tokio::test]
async fn a_window_that_lost_a_row_is_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let judging = judging(dir.path()).await;
    let mut reader = judging.judge.reader(0);
    idle_gpu(&judging.intake, "GPU-a", "n1", START..now()).await;
    judging.round(&mut reader).await.unwrap();
    let hour = START..START + HOUR_MS;
    let before = judging.store.intervals(hour.clone()).await.unwrap();
    let mut connection = database(dir.path()).await;
    let sql = "UPDATE intervals SET evidence = '[{' WHERE start_ms = $1";
    sqlx::query(sql).bind(START).execute(&mut connection).await.unwrap();
    assert_eq!(judging.store.intervals(hour.clone()).await.unwrap(), [], "a page finds it");
    assert_eq!(judging.store.lost_windows(), std::slice::from_ref(&hour));
    judging.round(&mut reader).await.unwrap();
    assert_eq!(judging.store.intervals(hour).await.unwrap(), before);
    assert_eq!((judging.store.lost_windows(), judging.store.stats().bad_rows), (vec![], 1));
}

#[tokio::test]
async fn a_clock_that_was_ahead_is_not_judged_by_for_ever() {
    static WALL: AtomicI64 = AtomicI64::new(0);
    const DAYS_400: i64 = 400 * 24 * HOUR_MS;
    WALL.store(now(), Ordering::Relaxed);
    let wall = || WALL.load(Ordering::Relaxed);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { now: wall, ..Options::new(dir.path(), signal::is_known) }).await.unwrap();
    let judge = Judge::new(store.clone(), Thresholds::default());
    let (progress, stop) = (watch::Sender::default(), watch::channel(false).1);
    let intake = Intake::new(store.clone());
    let judging = Judging::begin(store, intake, judge, TimeZone::UTC, wall, progress, stop).await;
    let mut reader = judging.judge.reader(0);
    idle_gpu(&judging.intake, "GPU-a", "n1", START..now()).await;
    judging.round(&mut reader).await.unwrap();
    let until = Some(now() - SETTLE_MS);
    let judged = |judging: &Judging<Store>| judging.progress.borrow().judged_until_ms;
    assert_eq!(judged(&judging), until);

    WALL.store(now() + DAYS_400, Ordering::Relaxed);
    judging.round(&mut reader).await.unwrap();
    assert_eq!(judged(&judging), until, "the step is in doubt: time goes on as it did");
    let future = judging.store.intervals(now() + DAYS_400 / 2..now() + 2 * DAYS_400).await.unwrap();
    assert_eq!(future, []);

    // A clock that was ahead from the start on is not in doubt until it is right.
    judging.progress.send_modify(|progress| {
        progress.judged_until_ms = Some(now() + DAYS_400);
        progress.final_until_ms = Some(now() + DAYS_400);
    });
    WALL.store(now() + 5 * MINUTE_MS, Ordering::Relaxed);
    idle_gpu(&judging.intake, "GPU-a", "n1", now()..now() + 5 * MINUTE_MS).await;
    judging.round(&mut reader).await.unwrap();
    assert_eq!(judged(&judging), until.map(|until| until + 5 * MINUTE_MS));
    assert_eq!(total(&judging, Class::IdleHeld).await, now() + 5 * MINUTE_MS - SETTLE_MS - START);
}

#[tokio::test]
async fn a_sample_of_an_earlier_release_at_the_smallest_time_does_not_stop_judging() {
    let dir = tempfile::tempdir().unwrap();
    let clock = || START + 12 * HOUR_MS;
    let options = || Options { now: clock, earliest: TimeMs::MIN, ..Options::new(dir.path(), signal::is_known) };
    let store = Store::open(options()).await.unwrap();
    store.note_begun(store.mark()).await.unwrap();
    for time in [TimeMs::MIN, TimeMs::MIN + HOUR_MS, -1] {
        idle_gpu(&store, &format!("GPU-{time}"), "n2", time..time + 1).await;
    }
    store.flush().await.unwrap();
    idle_gpu(&store, "GPU-min", "n2", TimeMs::MIN..TimeMs::MIN + 1).await;
    store.close().await;
    let second = judging(dir.path()).await;
    assert_eq!(second.store.unjudged_from(), Some(TimeMs::MIN));
    for _ in 0..2 {
        idle_gpu(&second.intake, "GPU-a", "n1", START..now()).await;
        second.round(&mut second.judge.reader(0)).await.unwrap();
        assert_eq!(total(&second, Class::IdleHeld).await, now() - SETTLE_MS - START);
    }
}
