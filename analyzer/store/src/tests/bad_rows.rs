//! Rows of results and events that are not as they were written cost themselves alone, and are named.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::super::bad_rows::TABLES;
use super::super::{Replacement, Verdicts, Which, bad_rows, remove_bad_rows, status, verify};
use super::*;
use crate::{Directory, Events, Ownership as _, ReadOwnership as _, ReadVerdicts};
use goodput_testing::{START, event, saved};
use goodput_verdict::{
    Achieved, Class, Delivered, FindingAction, FindingEvent, FindingWeek, Message, MessageState, Outlook, RollUp,
    TeamTime, Unsubscribed,
};

const WEEK: &str = "2026-W47";

fn team_time(team: &str) -> TeamTime {
    let (week, currency) = (WEEK.to_owned(), Some("EUR".to_owned()));
    TeamTime { week, team: team.to_owned(), class: Class::IdleHeld, currency, ms: HOUR, micros: 7 }
}

fn delivered(destination: &str) -> Delivered {
    Delivered { version: 1, destination: destination.to_owned(), digest: 7, time_ms: Some(5) }
}

fn message(contact: &str) -> Message {
    Message {
        destination: "people".to_owned(),
        contact: contact.to_owned(),
        week: WEEK.to_owned(),
        version: 1,
        digest: 7,
        state: MessageState::Sent,
        attempts: 1,
        next_ms: 5,
        message_id: "a@b".to_owned(),
        time_ms: 5,
        findings: Vec::new(),
        reason: None,
    }
}

fn unsubscribed(contact: &str) -> Unsubscribed {
    Unsubscribed { destination: "people".to_owned(), contact: contact.to_owned(), time_ms: 5 }
}

fn said(id: &str) -> FindingEvent {
    crate::contract::ownership::said(id, FindingAction::Comment)
}

fn finding(id: &str) -> FindingWeek {
    crate::contract::ownership::week(WEEK, id)
}

fn achieved(subject: &str) -> Achieved {
    Achieved {
        cluster: None,
        metric: "steps_total".into(),
        unit: "steps".into(),
        start_ms: HOUR,
        end_ms: 2 * HOUR,
        owner: None,
        subject: subject.into(),
        amount: 1.5,
        covered_ms: 9,
        ideal: Some(-0.0),
        served: None,
        model: None,
    }
}

/// Two rows or more in every table.
async fn fill(dir: &Path) {
    let store = open(dir).await;
    for node in ["a", "b"] {
        let intervals: Vec<_> = Class::ALL.iter().map(|class| goodput_testing::interval(node, 1, *class)).collect();
        store.replace(node.into(), HOUR..2 * HOUR, &intervals).await.unwrap();
        let outlook = Outlook {
            risks: goodput_testing::outlook()
                .risks
                .into_iter()
                .map(|risk| goodput_testing::risk(node, 1, risk.last.kind))
                .collect(),
            advisories: vec![goodput_testing::advisory(node, 1)],
            standings: vec![goodput_testing::standing(node, 1)],
        };
        store.replace_outlook(crate::contract::east(node), HOUR..2 * HOUR, &outlook).await.unwrap();
    }
    // The day is over.
    store.replace("a".into(), 25 * HOUR..26 * HOUR, &[]).await.unwrap();
    store.roll_up_days().await.unwrap();
    store.replace_achieved(HOUR..2 * HOUR, &[achieved("x"), achieved("y")]).await.unwrap();
    store.note_delivery(WEEK, &delivered("directory")).await.unwrap();
    store.note_delivery(WEEK, &delivered("webhook")).await.unwrap();
    store.note_teams((WEEK, 0), r#"{"all":[]}"#, &[team_time("a"), team_time("b")]).await.unwrap();
    store.note_messages(&["a", "b"].map(message)).await.unwrap();
    for contact in ["a", "b"] {
        store.unsubscribe(&unsubscribed(contact)).await.unwrap();
    }
    for id in ["a", "b"] {
        store.say(None, &said(id)).await.unwrap();
    }
    store.note_finding_week(WEEK, &["a", "b"].map(finding)).await.unwrap();
    store.add_events(&[event(HOUR, 0, START), event(HOUR + 5, 0, saved(1)), event(HOUR + 9, 1, START)]).await.unwrap();
    store.close().await;
}

async fn edit(dir: &Path, sql: &str) -> u64 {
    let options = SqliteConnectOptions::new().filename(dir.join("goodput.db"));
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let done = sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    done.rows_affected()
}

/// Changes the last row of a table.
async fn damage(dir: &Path, table: &str, change: &str) {
    let key = TABLES.iter().find(|known| known.name == table).unwrap().key;
    let sql = format!("UPDATE {table} SET {change} WHERE {key} = (SELECT max({key}) FROM {table})");
    assert_eq!(edit(dir, &sql).await, 1, "{sql}");
}

type Read = (Verdicts, Sent, [Vec<RollUp>; 2], Owned);

type Owned = (Vec<FindingEvent>, Vec<FindingWeek>);

async fn owned(store: &impl ReadVerdicts) -> Owned {
    (store.finding_events().await.unwrap(), store.finding_weeks([WEEK, WEEK]).await.unwrap())
}

type Sent = (Vec<Delivered>, Vec<TeamTime>, Option<String>, Vec<Message>, Vec<Unsubscribed>);

/// What was delivered, its receivers, and which team each part of the time was charged to.
async fn sent(store: &impl ReadVerdicts, deliveries: Vec<Delivered>) -> Sent {
    let (times, teams) = (store.team_times([WEEK, WEEK]).await.unwrap(), store.teams_of(WEEK).await.unwrap());
    let messages = store.messages([WEEK, WEEK]).await.unwrap();
    (deliveries, times, teams, messages, store.unsubscribed().await.unwrap())
}

async fn read(store: &Store) -> Read {
    let verdicts = store.verdicts(0..3 * HOUR).await.unwrap();
    let hours = store.hours(0..3 * HOUR, None).await.unwrap();
    let sent = sent(store, store.deliveries(WEEK).await.unwrap()).await;
    (verdicts, sent, [hours, store.day(0).await.unwrap()], owned(store).await)
}

/// How many rows each table gives, in the order of [`TABLES`].
fn counts((verdicts, sent, [hours, days], (said, weeks)): &Read) -> [usize; 16] {
    let (deliveries, times, teams, messages, unsubscribed) = sent;
    let Verdicts { intervals, outlook: o, achieved, history: h } = verdicts;
    let outlook = [o.advisories.len(), o.risks.len(), o.standings.len()];
    let [advisories, risks, standings] = outlook;
    let (events, attempts) = (h.events.len(), h.progress.len());
    let rolled_up = [hours.len(), days.len(), usize::from(teams.is_some()), times.len()];
    let [hours, days, teams, times] = rolled_up;
    let [sent, messages, unsubscribed] = [deliveries.len(), messages.len(), unsubscribed.len()];
    let of_windows = [intervals.len(), advisories, risks, standings, achieved.len(), sent, events, attempts];
    let [a, b, c, d, e, f, g, h] = of_windows;
    [a, b, c, d, e, f, g, h, hours, days, teams, times, messages, unsubscribed, said.len(), weeks.len()]
}

/// A changed value that can still be read, and one that cannot, in every table.
const CHANGES: [(&str, &str, &str); 16] = [
    ("intervals", "ms = ms + 1", "evidence = '[{'"),
    ("advisories", "confidence = confidence / 2", "advice = 'sell'"),
    ("risks", "made_ms = made_ms + 256", "kind = 'mood'"),
    ("standings", "standing = replace(standing, '1.25', '1.35')", "standing = ''"),
    ("achieved", "amount = amount * 2", "metric = CAST(x'ff' AS TEXT)"),
    ("deliveries", "digest = digest + 1", "digest = -1"),
    ("events", "time_ms = time_ms + 1", "kind = 'nap'"),
    ("attempts", "last_ms = last_ms + 1", "last_ms = last_ms, attempt = -1"),
    (
        "hours",
        "sums = replace(sums, '3600000', '3600001')",
        "sums = replace(sums, '\"names\":[\"', '\"names\":[],\"_\":[\"')",
    ),
    (
        "days",
        "sums = replace(sums, '3600000', '3600001')",
        "sums = replace(sums, '\"names\":[\"', '\"names\":[],\"_\":[\"')",
    ),
    ("team_versions", "content = '{}'", "content = '{'"),
    ("report_teams", "ms = ms + 1", "class = 'leisure'"),
    ("outbox", "attempts = attempts + 1", "state = 'lost'"),
    ("unsubscribed", "time_ms = time_ms + 1", "contact = CAST(x'ff' AS TEXT)"),
    ("finding_events", "time_ms = time_ms + 1", "action = 'forget'"),
    ("finding_weeks", "lost_ms = lost_ms + 1", "class = 'leisure'"),
];

#[tokio::test]
async fn a_row_that_is_not_as_it_was_written_costs_itself_and_is_set_aside() {
    for (n, (table, changed, unreadable)) in CHANGES.into_iter().enumerate() {
        assert_eq!(TABLES[n].name, table);
        // A row of an earlier release has no checksum: there it must be unreadable to be noticed.
        for change in [changed.to_owned(), unreadable.to_owned(), format!("{unreadable}, checksum = NULL")] {
            let dir = tempfile::tempdir().unwrap();
            fill(dir.path()).await;
            assert_eq!(verify(dir.path(), &mut |_, _| {}).await.unwrap().bad_rows, []);
            let store = open(dir.path()).await;
            let sound = read(&store).await;
            store.close().await;
            damage(dir.path(), table, &change).await;

            let mut expected = counts(&sound);
            // A roll-up is made again of the intervals, or of the hours.
            expected[n] -= usize::from(!["hours", "days"].contains(&table));
            let directory = Directory::new(dir.path());
            let looked = directory.verdicts(0..3 * HOUR).await.unwrap();
            let hours = directory.hours(0..3 * HOUR, None).await.unwrap();
            let rolled_up = [hours, directory.day(0).await.unwrap()];
            let deliveries = if table == "deliveries" { 1 } else { 2 };
            let sent = sent(&directory, vec![delivered("x"); deliveries]).await;
            assert_eq!(counts(&(looked, sent, rolled_up, owned(&directory).await)), expected, "{table}: {change}");
            let found = verify(dir.path(), &mut |_, _| {}).await.unwrap();
            assert_eq!(found.bad_rows.len(), 1, "{table}: {change}: {found:?}");
            assert!(found.bad_rows[0].reason.contains(table), "{found:?}");
            assert_eq!(status(dir.path()).await.unwrap().bad_rows, [], "who looks changes nothing");

            let store = open(dir.path()).await;
            assert_eq!(store.stats().bad_rows, 0);
            for _ in 0..2 {
                let served = read(&store).await;
                assert_eq!(counts(&served), expected, "{table}: {change}");
                assert!(served.0.intervals.iter().all(|i| sound.0.intervals.contains(i)));
                assert_eq!(store.stats().bad_rows, 1, "{table}: {change}");
            }
            let has_window = TABLES[n].has_window;
            let window = HOUR..if table == "risks" { store.lost_windows()[0].end } else { 2 * HOUR };
            if has_window && table != "risks" {
                assert_eq!(store.lost_windows(), [window]);
            } else {
                assert_eq!(store.lost_windows().len(), usize::from(has_window));
            }
            store.close().await;
            let aside = status(dir.path()).await.unwrap().bad_rows;
            assert_eq!((aside.len(), aside[0].name.as_str()), (1, table));
            let found = verify(dir.path(), &mut |_, _| {}).await.unwrap();
            assert_eq!((found.problems.len(), found.bad_rows.len()), (0, 1), "it stays named: {found:?}");
            assert_eq!(open(dir.path()).await.stats().bad_rows, 1);
        }
    }
}

#[tokio::test]
async fn a_window_that_lost_a_row_is_known_until_it_was_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    edit(dir.path(), "UPDATE intervals SET ms = 1 WHERE rowid IN (1, 2)").await;
    let store = open(dir.path()).await;
    read(&store).await;
    store.close().await;
    let store = open(dir.path()).await;
    let window = HOUR..2 * HOUR;
    assert_eq!(store.lost_windows(), std::slice::from_ref(&window), "also after a restart");
    assert_eq!(store.stats().bad_rows, 2);
    let before = store.version(&(HOUR..2 * HOUR));
    store.note_rejudged(&(HOUR..2 * HOUR), true).await.unwrap();
    assert_eq!(store.lost_windows(), []);
    assert_eq!(store.version(&(HOUR..2 * HOUR)), before);
    store.close().await;
    let store = open(dir.path()).await;
    assert_eq!((store.stats().bad_rows, store.lost_windows()), (2, vec![]));
    store.close().await;
    assert!(status(dir.path()).await.unwrap().bad_rows.iter().all(|row| row.judged_ms.is_some()));
}

/// Judging the last hour again begins with the program, before any page reads the row.
#[tokio::test]
async fn a_bad_row_that_is_replaced_before_it_was_read_is_named() {
    for (table, _, unreadable) in
        CHANGES.iter().filter(|(table, ..)| ["intervals", "standings", "hours"].contains(table))
    {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path()).await;
        damage(dir.path(), table, unreadable).await;
        let store = open(dir.path()).await;
        let outlook = Outlook::default();
        let new = ["a", "b"].map(|node| Replacement {
            place: if *table == "standings" { crate::contract::east(node) } else { node.into() },
            intervals: Some(&[]),
            outlook: Some(&outlook),
        });
        assert_eq!(store.replace_window(HOUR..2 * HOUR, &new).await.unwrap().len(), 0);
        assert_eq!(store.stats().bad_rows, 1, "{table}");
        store.close().await;
        assert_eq!(bad_rows(dir.path()).await.unwrap()[0].name, *table);
    }
}

#[tokio::test]
async fn a_bad_event_is_set_aside_when_it_is_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    edit(dir.path(), "UPDATE events SET time_ms = 3 WHERE seq = 1").await;
    edit(dir.path(), "UPDATE attempts SET last_step = 99 WHERE attempt = 0").await;
    let store = open(dir.path()).await;
    // The same event again, and one more of an attempt whose row is bad.
    let taken = store.add_events(&[event(HOUR, 0, START), event(HOUR + 6, 0, saved(2))]).await.unwrap();
    assert_eq!((taken.stored, taken.duplicate, store.stats().bad_rows), (2, 0, 2));
    let history = store.history(0..3 * HOUR).await.unwrap();
    let times: Vec<_> = history.events.iter().map(|event| event.time_ms - HOUR).collect();
    assert_eq!(times, [0, 5, 6, 9]);
    let far: Vec<_> = history.progress.iter().map(|p| (p.first_ms - HOUR, p.last_ms - HOUR, p.last_step)).collect();
    assert_eq!(far, [(0, 6, Some(2)), (9, 9, None)], "summed up by its events");
}

/// Rows set aside end: by retention, as old as the rows that they were, or by the command, which leaves those whose
/// window is still to be judged.
#[tokio::test]
async fn rows_set_aside_go_by_retention_and_by_command() {
    for (table, has_window) in [("intervals", true), ("risks", true), ("deliveries", false), ("attempts", false)] {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path()).await;
        let unreadable = CHANGES.iter().find(|(name, ..)| *name == table).unwrap().2;
        damage(dir.path(), table, unreadable).await;
        // Found by the command itself: no server has read the row.
        let removed = remove_bad_rows(dir.path(), Which::Settled).await.unwrap();
        assert_eq!(removed, u64::from(!has_window), "{table}");
        let left = bad_rows(dir.path()).await.unwrap();
        assert_eq!(left.len(), usize::from(has_window), "{table}: {left:?}");
        assert!(left.iter().all(|row| row.start_ms == Some(HOUR) && row.content.contains("checksum")), "{left:?}");
        let found = verify(dir.path(), &mut |_, _| {}).await.unwrap();
        assert_eq!(found.bad_rows.len(), left.len(), "{table}: {found:?}");
        let store = open(dir.path()).await;
        assert_eq!(store.stats().bad_rows, left.len() as u64);
        for window in store.lost_windows() {
            store.note_rejudged(&window, true).await.unwrap();
        }
        store.close().await;
        assert_eq!(remove_bad_rows(dir.path(), Which::Settled).await.unwrap(), left.len() as u64, "{table}");
        assert_eq!(verify(dir.path(), &mut |_, _| {}).await.unwrap().bad_rows, [], "{table}");
    }
}

#[tokio::test]
async fn a_row_set_aside_lives_as_long_as_the_row_that_it_was() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    damage(dir.path(), "intervals", "ms = 1").await;
    damage(dir.path(), "deliveries", "digest = -1").await;
    let store = open(dir.path()).await;
    read(&store).await;
    assert_eq!(store.stats().bad_rows, 2);
    let database = &store.shared.database;
    for (until, left) in [(2 * HOUR - 1, 2), (2 * HOUR, 1), (NOW - 1, 1), (NOW, 0)] {
        database.forget_verdicts(until).await.unwrap();
        store.shared.count_bad_rows().await.unwrap();
        assert_eq!(store.stats().bad_rows, left, "until {until}: a delivery has no window, so its finding counts");
    }
}

/// No flipped bit shows a value that was not written, and each that takes a row away is named.
#[tokio::test]
async fn a_flipped_bit_of_the_file_changes_no_verdict_unseen() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let (original, sound) = {
        let store = open(dir.path()).await;
        let sound = read(&store).await;
        store.close().await;
        (fs::read(dir.path().join("goodput.db")).unwrap(), sound)
    };
    let (mut changed, mut named, mut seed) = (0, 0, 0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..300 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = original.clone();
        let place = (seed >> 20) as usize % bytes.len();
        bytes[place] ^= 1 << (seed >> 60 & 7);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("goodput.db"), bytes).unwrap();
        let bad = match verify(dir.path(), &mut |_, _| {}).await {
            Ok(found) => !found.problems.is_empty() || !found.bad_rows.is_empty(),
            Err(_) => true,
        };
        // What cannot be opened or read at all says so.
        let Ok(store) = Store::open(options(dir.path())).await else { continue };
        let (hours, day) = (store.hours(0..3 * HOUR, None).await, store.day(0).await);
        let teams = (store.team_times([WEEK, WEEK]).await, store.teams_of(WEEK).await);
        let outbox = (store.messages([WEEK, WEEK]).await, store.unsubscribed().await);
        let owned = (store.finding_events().await, store.finding_weeks([WEEK, WEEK]).await);
        let read = (store.verdicts(0..3 * HOUR).await, store.deliveries(WEEK).await, hours, day);
        if let (
            (Ok(verdicts), Ok(deliveries), Ok(hours), Ok(day)),
            (Ok(times), Ok(teams)),
            (Ok(messages), Ok(unsubscribed)),
            (Ok(said), Ok(weeks)),
        ) = (read, teams, outbox, owned)
        {
            assert!(hours.iter().all(|row| sound.2[0].contains(row)), "byte {place}");
            // Hours, where the day can no longer be read.
            assert!(day.iter().all(|row| sound.2.iter().any(|sound| sound.contains(row))), "byte {place}");
            let (o, s) = (&verdicts.outlook, &sound.0.outlook);
            assert!(verdicts.intervals.iter().all(|row| sound.0.intervals.contains(row)), "byte {place}");
            assert!(o.risks.iter().all(|row| s.risks.contains(row)), "byte {place}");
            assert!(o.advisories.iter().all(|row| s.advisories.contains(row)), "byte {place}");
            assert!(o.standings.iter().all(|row| s.standings.contains(row)), "byte {place}");
            assert!(verdicts.achieved.iter().all(|row| sound.0.achieved.contains(row)), "byte {place}");
            assert!(deliveries.iter().all(|row| sound.1.0.contains(row)), "byte {place}");
            assert!(times.iter().all(|row| sound.1.1.contains(row)), "byte {place}");
            assert!(teams.iter().all(|teams| sound.1.2.as_ref() == Some(teams)), "byte {place}");
            assert!(messages.iter().all(|row| sound.1.3.contains(row)), "byte {place}");
            assert!(unsubscribed.iter().all(|row| sound.1.4.contains(row)), "byte {place}");
            assert!(said.iter().all(|row| sound.3.0.contains(row)), "byte {place}");
            assert!(weeks.iter().all(|row| sound.3.1.contains(row)), "byte {place}");
            assert!(verdicts.history.events.iter().all(|row| sound.0.history.events.contains(row)), "byte {place}");
            assert!(verdicts.history.progress.iter().all(|row| sound.0.history.progress.contains(row)), "byte {place}");
            let sent = (deliveries, times, teams, messages, unsubscribed);
            if counts(&(verdicts, sent, [hours, day], (said, weeks))) != counts(&sound) {
                changed += 1;
                named += usize::from(bad);
            }
        }
        store.close().await;
    }
    assert_eq!(changed, named, "rows that are missing and that nothing names");
    // A roll-up that is hit is made again, so that nothing is missing.
    assert!(changed > 5, "{changed} flips hit a row");
}

/// Fills the first page of a table with ones.
pub(super) async fn break_table(dir: &Path, table: &str) {
    let path = dir.join("goodput.db");
    let options = SqliteConnectOptions::new().filename(&path);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let sql = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = $1";
    let (page, bytes): (i64, i64) = sqlx::query_as(sql).bind(table).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let mut file = fs::read(&path).unwrap();
    let start = ((page - 1) * bytes) as usize;
    file[start..start + bytes as usize].fill(0xff);
    fs::write(&path, file).unwrap();
}

#[tokio::test]
async fn damaged_notes_and_days_cost_themselves_alone() {
    for table in ["windows", "rolled_days", "days"] {
        let dir = tempfile::tempdir().unwrap();
        let (hour, node) = (HOUR..2 * HOUR, "a");
        let intervals = [goodput_testing::interval(node, 1, Class::IdleHeld)];
        let new = Replacement { place: node.into(), intervals: Some(&intervals), outlook: None };
        let store = open(dir.path()).await;
        store.store_judged(hour.clone(), 2 * HOUR, &[new]).await.unwrap();
        store.replace(node.into(), 25 * HOUR..26 * HOUR, &[]).await.unwrap();
        store.roll_up_days().await.unwrap();
        let judged = [(HOUR, 2 * HOUR)];
        assert_eq!(store.judged_windows(hour.clone()).await.unwrap().into_iter().collect::<Vec<_>>(), judged);
        store.close().await;
        break_table(dir.path(), table).await;

        let store = open(dir.path()).await;
        let judged = store.store_judged(hour.clone(), 2 * HOUR, &[new]).await;
        assert!(judged.as_ref().is_ok_and(Vec::is_empty), "{table}: {judged:?}");
        assert_eq!(store.intervals(hour.clone()).await.unwrap(), intervals, "{table}");
        assert_eq!(store.judged_windows(hour).await.unwrap().is_empty(), table == "windows");
        let hours = RollUp::fold(&intervals);
        assert_eq!(store.day(0).await.unwrap(), hours, "{table}");
        assert_eq!(Directory::new(dir.path()).day(0).await.unwrap(), hours, "{table}");
    }
}

#[tokio::test]
async fn a_day_with_a_bad_hour_is_read_by_its_hours() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let store = open(dir.path()).await;
    let [hours, _] = read(&store).await.2;
    store.close().await;
    edit(dir.path(), "UPDATE rolled_days SET state = 0 WHERE start_ms = 0").await;
    damage(dir.path(), "hours", CHANGES[8].1).await;
    let store = open(dir.path()).await;
    store.roll_up_days().await.unwrap();
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM days").fetch_one(&store.shared.database.read).await.unwrap();
    assert_eq!(rows, 0, "not rolled up");
    assert_eq!(store.day(0).await.unwrap(), hours);
    store.roll_up_days().await.unwrap();
    assert_eq!(store.day(0).await.unwrap().len(), 2, "rolled up once the row is made again");
}
