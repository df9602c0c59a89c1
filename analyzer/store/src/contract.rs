//! What every implementation of [`Samples`], [`Ingest`] and [`Results`] must do; each runs this suite over its own, empty, store.
//! `tests/tests/fleet_store` has this file too, for PostgreSQL.

#[path = "contract/ownership.rs"]
pub(crate) mod ownership;

use goodput_testing::{advisory, interval, risk, standing};
use goodput_verdict::{
    Class, Culprit, Energy, Forecast, Instance, Interval, Kind, Memory, Message, MessageState, Outlook, RollUp,
    Standing, TeamTime, Unsubscribed,
};

use super::{Appended, Ingest, Place, Replacement, Results, Samples, Selection, StoreError, Whose};
use goodput_exposition::sample::{Batch, Labels, STALE_BITS, Sample, Series, TimeMs, is_stale};

pub(super) const HOUR: TimeMs = 3_600_000;

/// The clock of the stores under test.
pub(super) const NOW: TimeMs = 1_700_000_000_000;

/// A series of this metric name and host.
pub(super) fn series(metric: &str, host: &str, samples: &[(TimeMs, f64)]) -> Series {
    let labels = Labels::new([("__name__", metric), ("host", host)]);
    let samples = samples.iter().map(|(time_ms, value)| Sample { time_ms: *time_ms, value: *value }).collect();
    Series { labels, samples }
}

pub(super) fn batch(series: impl IntoIterator<Item = Series>) -> Batch {
    series.into_iter().collect()
}

/// Everything of a metric.
pub(super) fn all(metric: &str) -> Selection {
    Selection { metrics: vec![metric.to_owned()], labels: Vec::new(), range: TimeMs::MIN..TimeMs::MAX }
}

/// The suite for samples. The store keeps metrics whose name begins with `kept`, and its clock says [`NOW`].
pub(super) async fn samples(store: &(impl Samples + Ingest)) {
    reads_what_was_written(store).await;
    selects_by_name_label_and_time(store).await;
    counts_every_sample_once(store).await;
    keeps_markers_bit_for_bit(store).await;
    takes_a_series_twice_and_samples_in_any_order(store).await;
}

async fn reads_what_was_written(store: &(impl Samples + Ingest)) {
    let written = series("kept_a", "x", &[(1000, 1.0), (2000, f64::INFINITY), (3000, -0.0)]);
    let appended = store.append(batch([written.clone()])).await.unwrap();
    assert_eq!(appended, Appended { stored: 3, ..Appended::default() });
    assert_eq!(store.select(&all("kept_a")).await.unwrap(), [written]);
}

async fn selects_by_name_label_and_time(store: &(impl Samples + Ingest)) {
    let (x, y) = (series("kept_b", "x", &[(1, 1.0), (2, 2.0), (3, 3.0)]), series("kept_b", "y", &[(2, 4.0)]));
    let other = series("kept_c", "x", &[(2, 5.0)]);
    store.append(batch([x, y.clone(), other])).await.unwrap();
    let host = |host: &str| vec![("host".to_owned(), host.to_owned())];
    let select = async |metrics: &[&str], labels, range| {
        let metrics = metrics.iter().map(|&name| name.to_owned()).collect();
        store.select(&Selection { metrics, labels, range }).await.unwrap()
    };
    assert_eq!(select(&["kept_b"], host("x"), 2..3).await, [series("kept_b", "x", &[(2, 2.0)])]);
    assert_eq!(select(&["kept_b"], host("y"), 0..10).await, [y]);
    assert_eq!(select(&["kept_b", "kept_c", "kept_b"], host("x"), 2..4).await.len(), 2);
    assert_eq!(select(&[], host("x"), 2..3).await.len(), 2);
    assert_eq!(select(&["kept_b"], vec![("absent".to_owned(), String::new())], 0..10).await.len(), 2);
    assert_eq!(select(&["kept_b"], host("z"), 0..10).await, []);
    assert_eq!(select(&["kept_b"], Vec::new(), 3..3).await, []);
    assert_eq!(select(&["unheard_of"], Vec::new(), 0..10).await, []);
    let known = |labels| store.known(&Selection { metrics: vec!["kept_b".to_owned()], labels, range: 0..0 });
    assert_eq!(known(host("y")), [series("kept_b", "y", &[]).labels]);
    assert_eq!((known(Vec::new()).len(), known(host("z")).len()), (2, 0), "of any time");
}

async fn counts_every_sample_once(store: &(impl Samples + Ingest)) {
    let first = batch([series("kept_d", "x", &[(NOW, 1.0)])]);
    store.append(first.clone()).await.unwrap();
    let again = store.append(first).await.unwrap();
    assert_eq!(again, Appended { duplicate: 1, ..Appended::default() });
    let mixed = batch([
        series("kept_d", "x", &[(NOW - 100 * HOUR, 0.0), (NOW - HOUR, 0.5), (NOW, 2.0), (NOW + HOUR, 3.0)]),
        series("dropped", "x", &[(NOW, 1.0), (NOW + 1, 1.0)]),
    ]);
    let appended = store.append(mixed).await.unwrap();
    let expected = Appended { stored: 1, conflicting: 1, out_of_bounds: 2, unknown: 2, ..Appended::default() };
    assert_eq!(appended, expected);
    let stored = store.select(&all("kept_d")).await.unwrap();
    assert_eq!(stored, [series("kept_d", "x", &[(NOW - HOUR, 0.5), (NOW, 1.0)])]);
    assert_eq!(store.select(&all("dropped")).await.unwrap(), []);
}

async fn keeps_markers_bit_for_bit(store: &(impl Samples + Ingest)) {
    let nan = f64::from_bits(0x7ff8_0000_0000_0001);
    store.append(batch([series("kept_e", "x", &[(1, nan), (2, f64::from_bits(STALE_BITS))])])).await.unwrap();
    let read = store.select(&all("kept_e")).await.unwrap();
    assert_eq!(read[0].samples[0].value.to_bits(), nan.to_bits());
    assert!(is_stale(read[0].samples[1].value) && !is_stale(read[0].samples[0].value));
}

async fn takes_a_series_twice_and_samples_in_any_order(store: &(impl Samples + Ingest)) {
    let twice = batch([series("kept_f", "x", &[(3, 3.0), (1, 1.0)]), series("kept_f", "x", &[(2, 2.0), (3, 3.0)])]);
    let appended = store.append(twice).await.unwrap();
    assert_eq!(appended, Appended { stored: 3, duplicate: 1, ..Appended::default() });
    let read = store.select(&all("kept_f")).await.unwrap();
    assert_eq!(read, [series("kept_f", "x", &[(1, 1.0), (2, 2.0), (3, 3.0)])]);
}

/// The suite for results.
pub(super) async fn results(store: &impl Results) {
    let first: Vec<_> = Class::ALL.iter().map(|class| interval("a", 1, *class)).collect();
    store.replace("a".into(), HOUR..2 * HOUR, &first).await.unwrap();
    store.replace("b".into(), HOUR..2 * HOUR, &[interval("b", 1, Class::IdleHeld)]).await.unwrap();
    store.replace("a".into(), 2 * HOUR..3 * HOUR, &[interval("a", 2, Class::NoData)]).await.unwrap();
    assert_eq!(store.intervals(HOUR..3 * HOUR).await.unwrap().len(), Class::ALL.len() + 2);

    // Absent energy stays absent, and zero is zero; so does who caused it.
    let drawn = Energy { mj: 0, ms: HOUR, counted_ms: HOUR / 2 };
    let told = interval("a", 1, Class::Productive);
    let second = Interval { energy: Some(drawn), variance_ms2: None, version: None, ..told };
    for _ in 0..2 {
        store.replace("a".into(), HOUR..2 * HOUR, std::slice::from_ref(&second)).await.unwrap();
        let read = store.intervals(HOUR..2 * HOUR).await.unwrap();
        assert_eq!(read, [second.clone(), interval("b", 1, Class::IdleHeld)]);
    }
    assert_eq!(store.intervals(0..HOUR).await.unwrap(), []);

    for wrong in [interval("a", 2, Class::Productive), interval("b", 1, Class::Productive)] {
        let refused = store.replace("a".into(), HOUR..2 * HOUR, &[wrong]).await;
        assert!(matches!(refused, Err(StoreError::OutsideWindow { .. })), "{refused:?}");
    }
    let mut unreadable = interval("a", 1, Class::Productive);
    unreadable.evidence[0].value = f64::NAN;
    store.replace("a".into(), HOUR..2 * HOUR, &[unreadable]).await.unwrap_err();
    assert_eq!(store.intervals(HOUR..2 * HOUR).await.unwrap().len(), 2, "a refused replacement changed something");
    a_node_that_cannot_be_stored_costs_itself(store).await;
    a_node_of_another_cluster_is_another(store).await;
    hours_are_the_roll_up_of_intervals(store).await;
    finds_whose_intervals(store).await;
    finds_what_a_gpu_caused(store).await;
    finds_what_a_run_held(store).await;
}

/// What a store of results holds of teams, where nothing was delivered before: a week keeps the teams that it was delivered with.
pub(crate) async fn teams(store: &impl Results) {
    let time = |week: &str, team: &str, currency: Option<&str>, ms| TeamTime {
        week: week.to_owned(),
        team: team.to_owned(),
        class: Class::IdleHeld,
        currency: currency.map(str::to_owned),
        ms,
        micros: 7 * ms,
    };
    let of =
        |week: &str| vec![time(week, "ml", None, 1), time(week, "ml", Some("EUR"), 2), time(week, "vision", None, 3)];
    let (one, other) = (r#"{"all":[]}"#, r#"{"all":[1]}"#);
    assert_eq!(store.teams_of("2026-W46").await.unwrap(), None);
    store.note_teams(("2026-W46", 0), one, &of("2026-W46")).await.unwrap();
    store.note_teams(("2026-W47", HOUR), other, &of("2026-W47")).await.unwrap();
    store.note_teams(("2026-W48", 2 * HOUR), one, &of("2026-W48")).await.unwrap();
    let restated = vec![time("2026-W46", "ml", None, 9)];
    store.note_teams(("2026-W46", 0), other, &restated).await.unwrap();
    for (week, content) in [("2026-W46", one), ("2026-W47", other), ("2026-W48", one)] {
        assert_eq!(store.teams_of(week).await.unwrap().as_deref(), Some(content), "{week}");
    }
    let found = store.team_times(["2026-W46", "2026-W47"]).await.unwrap();
    assert_eq!(found, [restated, of("2026-W47")].concat());
    assert_eq!(store.team_times(["2026-W49", "2027-W10"]).await.unwrap(), []);
}

/// What a store of results holds of messages, where there were none before: one for each destination, contact and week.
pub(crate) async fn outbox(store: &impl Results) {
    let message = |contact: &str, week: &str| Message {
        destination: "people".to_owned(),
        contact: contact.to_owned(),
        week: week.to_owned(),
        version: 1,
        digest: u32::MAX,
        state: MessageState::Pending,
        attempts: 0,
        next_ms: 5,
        message_id: format!("{contact}-{week}@example.org"),
        time_ms: 4,
        findings: vec!["a".to_owned(), "b\"c".to_owned()],
        reason: None,
    };
    let [one, other] = ["a@example.org", "b@example.org"].map(|contact| message(contact, "2026-W47"));
    let before = message("b@example.org", "2026-W46");
    assert_eq!(store.messages(["2026-W01", "2027-W01"]).await.unwrap(), []);
    store.note_messages(&[other.clone(), one.clone(), before.clone()]).await.unwrap();
    assert_eq!(store.messages(["2026-W47", "2026-W47"]).await.unwrap(), [one.clone(), other.clone()]);
    let (reason, state) = (Some("550 no such user".to_owned()), MessageState::Refused);
    let refused = Message { state, attempts: 1, next_ms: 7, time_ms: 6, findings: Vec::new(), reason, ..one };
    store.note_messages(std::slice::from_ref(&refused)).await.unwrap();
    store.note_messages(std::slice::from_ref(&refused)).await.unwrap();
    assert_eq!(store.messages(["2026-W46", "2026-W47"]).await.unwrap(), [refused, before, other]);

    let (destination, contact) = ("people".to_owned(), "b@example.org".to_owned());
    let who = Unsubscribed { destination, contact, time_ms: 9 };
    assert_eq!(store.unsubscribed().await.unwrap(), []);
    store.unsubscribe(&who).await.unwrap();
    store.unsubscribe(&Unsubscribed { time_ms: 10, ..who.clone() }).await.unwrap();
    assert_eq!(store.unsubscribed().await.unwrap(), [who], "the first time stays");
}

async fn a_node_of_another_cluster_is_another(store: &impl Results) {
    let window = 30 * HOUR..31 * HOUR;
    let of = |cluster: &str| Interval { cluster: Some(cluster.to_owned()), ..interval("a", 30, Class::Productive) };
    let place = |cluster| Place { cluster: Some(cluster), node: "a" };
    for cluster in ["east", "west"] {
        store.replace(place(cluster), window.clone(), &[of(cluster)]).await.unwrap();
        let standing = Standing { cluster: Some(cluster.to_owned()), ..standing("a", 30) };
        let outlook = Outlook { standings: vec![standing], ..Outlook::default() };
        store.replace_outlook(place(cluster), window.clone(), &outlook).await.unwrap();
    }
    store.replace("a".into(), window.clone(), &[interval("a", 30, Class::IdleHeld)]).await.unwrap();
    store.replace(place("west"), window.clone(), &[]).await.unwrap();
    store.replace_outlook(place("west"), window.clone(), &Outlook::default()).await.unwrap();
    let intervals = store.intervals(window.clone()).await.unwrap();
    let mut clusters: Vec<_> = intervals.into_iter().map(|i| (i.cluster, i.class)).collect();
    clusters.sort();
    assert_eq!(clusters, [(None, Class::IdleHeld), (Some("east".to_owned()), Class::Productive)]);
    let hours = store.hours(window.clone(), Some("a")).await.unwrap();
    let mut clusters: Vec<_> = hours.into_iter().map(|hour| hour.cluster).collect();
    clusters.sort();
    assert_eq!(clusters, [None, Some("east".to_owned())]);
    let standings = store.outlook(window.clone()).await.unwrap().standings;
    assert_eq!(standings.iter().map(|s| s.cluster.as_deref()).collect::<Vec<_>>(), [Some("east")]);
    let wrong = store.replace(place("west"), window.clone(), &[of("east")]).await;
    assert!(matches!(wrong, Err(StoreError::OutsideWindow { .. })), "{wrong:?}");
    for place in [place("east"), "a".into()] {
        store.replace(place, window.clone(), &[]).await.unwrap();
    }
    store.replace_outlook(place("east"), window, &Outlook::default()).await.unwrap();
}

/// After all that was replaced before, and after hours that were replaced in halves.
async fn hours_are_the_roll_up_of_intervals(store: &impl Results) {
    const HALF: i64 = HOUR / 2;
    let half = |start_ms: i64| Interval { start_ms, end_ms: start_ms + HALF, ..interval("a", 9, Class::IdleHeld) };
    let whole = interval("a", 9, Class::Productive);
    store.replace("a".into(), 9 * HOUR..10 * HOUR, &[whole]).await.unwrap();
    for start in [9 * HOUR, 9 * HOUR + HALF] {
        store.replace("a".into(), 9 * HOUR..10 * HOUR, &[half(9 * HOUR), half(9 * HOUR + HALF)]).await.unwrap();
        store.replace("a".into(), start..start + HALF, &[half(start)]).await.unwrap();
        let hours = store.hours(start..start + HALF, None).await.unwrap();
        assert_eq!(hours, RollUp::fold(&[half(start)]));
    }
    for node in [None, Some("a"), Some("b"), Some("c")] {
        let whose = Whose { node: node.map(str::to_owned), ..Whose::default() };
        let intervals = store.intervals_of(0..40 * HOUR, &whose).await.unwrap();
        let mut hours = store.hours(0..40 * HOUR, node).await.unwrap();
        hours.sort_by_key(|hour| (hour.cluster.clone(), hour.node.clone(), hour.start_ms));
        assert_eq!(hours, RollUp::fold(&intervals), "{node:?}");
    }
}

async fn a_node_that_cannot_be_stored_costs_itself(store: &impl Results) {
    let window = 20 * HOUR..21 * HOUR;
    let [a, mut b, c] = ["a", "b", "c"].map(|node| interval(node, 20, Class::Productive));
    store.replace("b".into(), window.clone(), std::slice::from_ref(&b)).await.unwrap();
    let before = b.clone();
    b.evidence[0].value = f64::INFINITY;
    let elsewhere = interval("c", 21, Class::Productive);
    let new = |node: &'static str, interval| Replacement {
        place: node.into(),
        intervals: Some(std::slice::from_ref(interval)),
        outlook: None,
    };
    let refused = store.replace_window(window.clone(), &[new("a", &a), new("b", &b), new("c", &elsewhere)]).await;
    let refused: Vec<String> = refused.unwrap().into_iter().map(|(place, error)| format!("{place}: {error}")).collect();
    assert!(refused[0].contains("is not a finite number") && refused[1].starts_with("2: interval of "), "{refused:?}");
    assert_eq!(
        store.intervals(window.clone()).await.unwrap(),
        [a.clone(), before],
        "in one transaction, but for these"
    );
    let version = store.version(&window);
    store.replace_window(window.clone(), &[new("b", &a), new("c", &c)]).await.unwrap();
    assert!(store.version(&window) > version);
    for node in ["a", "b", "c"] {
        store.replace(node.into(), window.clone(), &[]).await.unwrap();
    }
}

async fn finds_what_a_run_held(store: &impl Results) {
    let of = |gpu: &str, owner: &str, account: Option<&str>| Interval {
        gpu: gpu.to_owned(),
        owner: Some(owner.to_owned()),
        run: Some("ml/MPIJob/llm".to_owned()),
        account: account.map(str::to_owned),
        cluster: account.map(|_| "east".to_owned()),
        ..interval("a", 7, Class::Productive)
    };
    let all = [of("GPU-1", "ml/llm-0", Some("ml")), of("GPU-2", "ml/llm-1", Some("ml")), of("GPU-3", "pod-4f1c", None)];
    store.replace(east("a"), 7 * HOUR..8 * HOUR, &all[..2]).await.unwrap();
    store.replace("a".into(), 7 * HOUR..8 * HOUR, &all[2..]).await.unwrap();
    let found = async |whose: Whose| store.intervals_of(7 * HOUR..8 * HOUR, &whose).await.unwrap();
    let whose = |run: Option<&str>, account: Option<&str>| Whose {
        run: run.map(str::to_owned),
        account: account.map(str::to_owned),
        ..Whose::default()
    };
    assert_eq!(found(whose(Some("ml/MPIJob/llm"), None)).await, all);
    assert_eq!(found(whose(None, Some("ml"))).await, all[..2]);
    assert_eq!(found(whose(Some("ml/llm-0"), None)).await, []);
    let of_cluster = |name: &str| Whose { cluster: Some(name.to_owned()), ..Whose::default() };
    assert_eq!(found(of_cluster("east")).await, all[..2]);
    assert_eq!(found(of_cluster("")).await, []);
}

async fn finds_what_a_gpu_caused(store: &impl Results) {
    let by = |gpu: &str| {
        let culprit = Culprit { node: "b".to_owned(), gpu: Some(gpu.to_owned()) };
        Interval { charged_to: Some(culprit), ..interval("a", 5, Class::Straggler) }
    };
    let instance = |id, profile: Option<&str>| {
        let gpu_instance = Some(Instance { id, profile: profile.map(str::to_owned) });
        Interval { gpu_instance, ..interval("a", 5, Class::Productive) }
    };
    let parts = [interval("a", 5, Class::Productive), instance(7, None), instance(13, Some("1g.10gb"))];
    let all: Vec<Interval> = parts.into_iter().chain([by("GPU-2"), by("GPU-3")]).collect();
    store.replace("a".into(), 5 * HOUR..6 * HOUR, &all).await.unwrap();
    assert_eq!(store.intervals(5 * HOUR..6 * HOUR).await.unwrap(), all);
    let whose = Whose { charged_to: Some("GPU-3".to_owned()), ..Whose::default() };
    assert_eq!(store.intervals_of(5 * HOUR..6 * HOUR, &whose).await.unwrap(), all[4..]);
}

/// Every condition and page of what is stored is the same as choosing from all of it.
async fn finds_whose_intervals(store: &impl Results) {
    let all = store.intervals(0..10 * HOUR).await.unwrap();
    assert!(all.len() > 2);
    let found = async |whose: Whose| store.intervals_of(0..10 * HOUR, &whose).await.unwrap();
    let chosen = |keep: &dyn Fn(&&Interval) -> bool| all.iter().filter(keep).cloned().collect::<Vec<_>>();
    let Interval { node, gpu, owner, class, .. } = all[0].clone();
    assert_eq!(found(Whose::node(&node)).await, chosen(&|i| i.node == node));
    assert_eq!(found(Whose::gpu(&gpu)).await, chosen(&|i| i.gpu == gpu));
    assert_eq!(found(Whose::gpu("another")).await, []);
    let of_class = Whose { class: Some(class), ..Whose::node(&node) };
    assert_eq!(found(of_class).await, chosen(&|i| i.node == node && i.class == class));
    if owner.is_some() {
        let of_owner = Whose { owner: owner.clone(), ..Whose::default() };
        assert_eq!(found(of_owner).await, chosen(&|i| i.owner == owner));
    }
    assert_eq!(found(Whose { skip: 1, limit: Some(1), ..Whose::default() }).await, all[1..2]);
    assert_eq!(found(Whose { skip: 1, ..Whose::default() }).await, all[1..]);
}

/// Where risks, advisories and standings of the tests are.
pub(super) fn east(node: &str) -> Place<'_> {
    Place { cluster: Some("east"), node }
}

/// The suite for risks, advisories and standings.
pub(super) async fn outlook(store: &impl Results) {
    let mut kinds: Vec<_> = Kind::all().map(|kind| risk("a", 1, kind)).collect();
    kinds.sort_by_key(|r| (r.last.kind.sort().name(), r.last.kind.which()));
    let first = Outlook { risks: kinds, advisories: vec![advisory("a", 1)], standings: vec![standing("a", 1)] };
    let later = Outlook { risks: vec![risk("a", 2, Kind::Memory(Memory::Host))], ..Outlook::default() };
    let other = Outlook { advisories: vec![advisory("b", 1)], standings: vec![standing("b", 1)], ..Outlook::default() };
    store.replace_outlook(east("a"), HOUR..2 * HOUR, &first).await.unwrap();
    assert_eq!(store.outlook(HOUR..2 * HOUR).await.unwrap(), first);
    store.replace_outlook(east("a"), 2 * HOUR..3 * HOUR, &later).await.unwrap();
    store.replace_outlook(east("b"), HOUR..2 * HOUR, &other).await.unwrap();

    let second = Outlook { risks: vec![risk("a", 1, Kind::Memory(Memory::Gpu))], ..Outlook::default() };
    for _ in 0..2 {
        store.replace_outlook(east("a"), HOUR..2 * HOUR, &second).await.unwrap();
        let expected = Outlook { risks: second.risks.clone(), ..other.clone() };
        assert_eq!(store.outlook(HOUR..2 * HOUR).await.unwrap(), expected);
    }
    assert_eq!(store.outlook(2 * HOUR..3 * HOUR).await.unwrap(), later);
    assert_eq!(store.outlook(0..HOUR).await.unwrap(), Outlook::default());

    let none = Outlook::default();
    for wrong in [
        Outlook { risks: vec![risk("a", 2, Kind::Memory(Memory::Gpu))], ..none.clone() },
        Outlook { risks: vec![risk("b", 1, Kind::Memory(Memory::Gpu))], ..none.clone() },
        Outlook { advisories: vec![advisory("b", 1)], ..none.clone() },
        Outlook { standings: vec![standing("b", 1)], ..none },
    ] {
        let refused = store.replace_outlook(east("a"), HOUR..2 * HOUR, &wrong).await;
        assert!(matches!(refused, Err(StoreError::OutsideWindow { .. })), "{refused:?}");
    }
    let mut unreadable = risk("a", 1, Kind::Memory(Memory::Gpu));
    let Forecast::Exhaustion(exhaustion) = &mut unreadable.last.forecast else { panic!("{unreadable:?}") };
    exhaustion.at_risk = None;
    let (mixed, window) = (Outlook { risks: vec![unreadable], ..Outlook::default() }, HOUR..2 * HOUR);
    store.replace_outlook(east("a"), window.clone(), &mixed).await.unwrap_err();
    assert_eq!(store.outlook(window).await.unwrap().risks, second.risks, "a refused replacement changed something");
}
