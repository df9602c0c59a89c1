//! The report of a period, out of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use goodput_exposition::sample::{Labels, TimeMs};
use goodput_store::{ReadVerdicts, StoreError, Verdicts, Whose};
use goodput_verdict::{Achieved, DAY_MS, Group, HOUR_MS, Interval};

use super::build::summed;
use super::comparison::reach;
use super::finding::Proving;
use super::recall::{known_clusters, recall, recall_clusters};
use super::serving::Servers;
use super::summed::{Item, Summed};
use super::{Finding, Names, Period, Price, Report, runs, throughput};
use crate::judge::{hour_of, reaches_over, shown, spans};

/// The report of a period. Sums are those of roll-ups; intervals are read for the evidence of the findings that are shown.
pub async fn stored(verdicts: &impl ReadVerdicts, period: Period, prices: &[Price]) -> Result<Report, StoreError> {
    let range = period.start_ms..period.end_ms;
    let (achieved, mut servers) = counted(verdicts, &range, prices).await?;
    let mut held = throughput::Held::of(&achieved);
    let mut items = read(verdicts, &range, None, prices, (!achieved.is_empty()).then_some(&mut held)).await?;
    let before = period.compared(reach(&items));
    let mut previous = read(verdicts, &(before.start_ms..before.end_ms), None, prices, None).await?;
    let known = known_clusters(items.iter().chain(&previous).map(|item| item.interval()));
    recall(&known, items.iter_mut().chain(&mut previous).map(|item| item.interval_mut()));
    let mut report = summed(&items, &previous, period, prices);
    let of_servers = servers.nodes(&items);
    drop((items, previous));
    for node in report.timeline.nodes() {
        verdicts.hours(range.clone(), Some(&node)).await?.iter().for_each(|hour| report.timeline.add(hour));
    }
    add_hours(verdicts, &range, &of_servers, &mut servers).await?;
    report.serving = servers.section();
    let axis = report.timeline.axis.clone();
    for finding in report.proven_mut() {
        prove(verdicts, finding, &axis, &range, &known).await?;
    }
    let history = verdicts.history(range.clone()).await?;
    let whose: Vec<Whose> = match runs::nodes(&history) {
        Some(nodes) => nodes.iter().map(|node| Whose::node(node)).collect(),
        None => vec![Whose::default()],
    };
    let mut of_runs = Vec::new();
    for whose in whose {
        let intervals = verdicts.intervals_of(range.clone(), &whose).await?;
        of_runs.extend(intervals.into_iter().filter(|i| i.class.group() != Group::Capacity));
    }
    recall(&known, of_runs.iter_mut());
    let series = verdicts.series_of(&Names::metrics()).await?;
    Ok(Report {
        names: names(&series, &report),
        throughput: throughput::build(&achieved, &held),
        runs: runs::build(&history, &of_runs, &range),
        warnings: warnings(verdicts, &before, &report.period).await?,
        ..report.with_outlook(&verdicts.outlook(range).await?)
    })
}

/// What jobs and servers counted, day by day: a week of a large fleet has more rows than are worth holding.
async fn counted<'p>(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    prices: &'p [Price],
) -> Result<(Vec<Achieved>, Servers<'p>), StoreError> {
    let (mut achieved, mut servers) = (Vec::new(), Servers::new(prices));
    for day in days(range) {
        let rows = verdicts.achieved(day).await?;
        servers.report(&rows);
        achieved.extend(rows.into_iter().filter(|row| row.served.is_none()));
    }
    Ok((achieved, servers))
}

/// The hours of more nodes than these are read all at once.
const MAX_NODES_ALONE: usize = 50;

/// Gives servers the hours of the nodes on which they hold GPUs.
async fn add_hours(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    nodes: &BTreeSet<String>,
    servers: &mut Servers<'_>,
) -> Result<(), StoreError> {
    for day in days(range) {
        if nodes.len() > MAX_NODES_ALONE {
            verdicts.hours(day, None).await?.into_iter().for_each(|hour| servers.add(hour));
            continue;
        }
        for node in nodes {
            verdicts.hours(day.clone(), Some(node)).await?.into_iter().for_each(|hour| servers.add(hour));
        }
    }
    Ok(())
}

/// The names of the report's GPUs.
fn names(series: &[Labels], report: &Report) -> Names {
    let mut names = Names::of(series);
    names.keep(&report.gpus.iter().filter_map(|row| row.name.as_deref()).collect());
    names
}

/// What is summed of a range, of all nodes or of those of one name. Who held GPUs while counters grew is told hour by hour.
async fn read<'p>(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    node: Option<&str>,
    prices: &'p [Price],
    mut held: Option<&mut throughput::Held<'_>>,
) -> Result<Vec<Item<'p>>, StoreError> {
    let mut summed = Summed::new(prices);
    for day in days(range) {
        let has_one_price =
            !prices.iter().any(|price| day.start < price.valid_from_ms && price.valid_from_ms < day.end);
        let is_whole = day.end - day.start == DAY_MS && has_one_price && node.is_none();
        let read =
            if is_whole && held.is_none() { verdicts.day(day.start).await? } else { verdicts.hours(day, node).await? };
        for one in read {
            if let Some(held) = &mut held {
                held.add(&one);
            }
            summed.add(one);
        }
    }
    Ok(summed.items())
}

/// What is summed of a range.
pub(crate) async fn items<'p>(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    prices: &'p [Price],
) -> Result<Vec<Item<'p>>, StoreError> {
    let mut items = items_of(verdicts, range, None, prices).await?;
    recall_in([&mut items]);
    Ok(items)
}

/// What is summed of a range, of all nodes or of those of one name, with the clusters that are stored: see [`recall_in`].
pub(crate) async fn items_of<'p>(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    node: Option<&str>,
    prices: &'p [Price],
) -> Result<Vec<Item<'p>>, StoreError> {
    read(verdicts, range, node, prices, None).await
}

/// Gives nodes the cluster that they have elsewhere in these items.
pub(crate) fn recall_in<const N: usize>(mut all: [&mut Vec<Item<'_>>; N]) {
    let known = known_clusters(all.iter().flat_map(|items| items.iter()).map(Item::interval));
    recall(&known, all.iter_mut().flat_map(|items| items.iter_mut()).map(Item::interval_mut));
}

/// The intervals that a report of the period rests on, for its CSV form.
pub async fn intervals(verdicts: &impl ReadVerdicts, period: &Period) -> Result<Vec<Interval>, StoreError> {
    let mut intervals = verdicts.intervals(period.start_ms..period.end_ms).await?;
    recall_clusters(&mut intervals);
    Ok(intervals)
}

/// The range by day of UTC: what is read of a week of a large fleet would not fit into memory at once. Verdicts never reach
/// over a full hour of UTC.
fn days(range: &Range<TimeMs>) -> impl Iterator<Item = Range<TimeMs>> {
    let end = range.end;
    let next = move |start: TimeMs| (start.div_euclid(DAY_MS) * DAY_MS + DAY_MS).min(end);
    let starts = std::iter::successors(Some(range.start), move |start| Some(next(*start)));
    starts.take_while(move |start| *start < end).map(move |start| start..next(start))
}

/// Gives a finding the evidence of its intervals.
async fn prove(
    verdicts: &impl ReadVerdicts,
    finding: &mut Finding,
    axis: &Period,
    range: &Range<TimeMs>,
    known: &BTreeMap<String, String>,
) -> Result<(), StoreError> {
    let class = Some(finding.class);
    let whose = match (&finding.owner, &finding.node) {
        // Verdicts of releases that did not tell the run have it as their owner.
        (Some(holder), _) => vec![
            Whose { class, run: Some(holder.clone()), ..Whose::default() },
            Whose { class, owner: Some(holder.clone()), ..Whose::default() },
        ],
        (None, node) => vec![Whose { class, node: node.clone(), ..Whose::default() }],
    };
    let mut proving = Proving::of(finding, axis);
    for day in days(range) {
        for (n, whose) in whose.iter().enumerate() {
            let mut intervals = verdicts.intervals_of(day.clone(), whose).await?;
            intervals.retain(|i| n == 0 || i.run.is_none());
            recall(known, intervals.iter_mut());
            intervals.iter().filter(|i| finding.has(i)).for_each(|i| proving.add(i));
        }
    }
    finding.prove(proving);
    Ok(())
}

/// What the report lacks, in sentences.
async fn warnings(verdicts: &impl ReadVerdicts, before: &Period, period: &Period) -> Result<Vec<String>, StoreError> {
    let mut around = Vec::new();
    // Verdicts never reach over a full hour of UTC.
    for edge in [before.start_ms, period.start_ms, period.end_ms].into_iter().filter(|edge| edge % HOUR_MS != 0) {
        around.push((edge, verdicts.verdicts(hour_of(&(edge..edge))).await?));
    }
    Ok(lacking(period, &around))
}

/// What a report lacks where the verdicts around its ends, each with the hour before and after it, were cut for another zone.
fn lacking(period: &Period, around: &[(TimeMs, Verdicts)]) -> Vec<String> {
    let lacks = around.iter().filter(|(edge, stored)| spans(stored).any(|span| reaches_over(&span, *edge)));
    lacks
        .map(|(edge, _)| {
            let hour = hour_of(&(*edge..*edge + 1));
            format!(
                "Verdicts from {} to {} were cut for another time zone and reach over {}, so they are not counted here: \
                 goodput-analyzer classify --start {} --end {} cuts them again, with serve stopped.",
                period.show(hour.start),
                period.show(hour.end),
                period.show(*edge),
                shown(edge - HOUR_MS),
                shown(edge + HOUR_MS),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use goodput_store::Results as _;
    use goodput_verdict::{Class, Culprit, Energy, Evidence, Outlook};
    use jiff::tz::TimeZone;

    use super::*;
    use crate::config::Config;
    use crate::judge::tests::{START, store};
    use crate::report::build;
    use goodput_testing::bare;

    const HOURS: i64 = 60;
    const PRICES: &str = "prices:\n\
        - {model: '*', currency: EUR, per_gpu_hour: 1.234567, per_kwh: 0.31, pue: 1.3, valid_from: 1970-01-01}\n\
        - {model: H100, node: n1, currency: EUR, per_gpu_hour: 3.7, valid_from: 2026-11-17}\n";

    /// Numbers below `n`, by a linear congruential generator.
    struct Rolls(u64);

    impl Rolls {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        fn one<T: Copy>(&mut self, of: &[T]) -> T {
            of[self.below(of.len() as u64) as usize]
        }

        fn interval(&mut self, node: &str, gpu: u64, hour: i64) -> Interval {
            let start = START + hour * HOUR_MS + self.one(&[0, 10, 15, 30]) * 60_000;
            let end = START + (hour + 1) * HOUR_MS - self.one(&[0, 5, 15]) * 60_000;
            let owner = self.one(&[None, Some("a/x-0"), Some("a/x-1"), Some("b/y")]).map(str::to_owned);
            // With more time without data, nothing would be compared.
            let held = self.one(&[Class::Productive, Class::IdleHeld, Class::ColdStart, Class::Straggler]);
            let class = if self.below(20) == 0 { Class::NoData } else { held };
            let proof =
                |signal: &str, value| Evidence { signal: signal.into(), value, unit: "ratio".into(), threshold: 0.3 };
            Interval {
                node: node.into(),
                gpu: format!("GPU-{node}-{gpu}"),
                model: self.one(&[Some("H100"), Some("T4"), None]).map(str::to_owned),
                run: owner.as_ref().filter(|owner| owner.starts_with('a')).map(|_| "a/x".to_owned()),
                account: owner.as_ref().map(|owner| owner[..1].to_owned()),
                owner,
                class,
                charged_to: (class == Class::Straggler)
                    .then(|| Culprit { node: "n1".into(), gpu: Some("GPU-n1-0".into()) }),
                ms: 1 + self.below(1_000_000) as i64,
                confidence: 0.1 * (1 + self.below(9)) as f64,
                busy_signal: self.one(&[None, Some("gpu_busy")]).map(str::to_owned),
                evidence: vec![
                    proof("gpu_busy", self.below(100) as f64),
                    proof(self.one(&["gpu_power", "gpu_power contradicts"]), 1.0),
                ],
                missing: self.one(&[&[][..], &["gr_engine_active"]]).iter().map(|name| (*name).to_owned()).collect(),
                energy: self.one(&[None, Some(Energy { mj: 77_777_777, ms: 9, counted_ms: 5 })]),
                variance_ms2: Some(self.below(1_000_000) as i64),
                ..bare(class, start..end)
            }
        }
    }

    /// What several hours of several GPUs went into.
    fn verdicts(hours: Range<i64>) -> Vec<Interval> {
        let mut rolls = Rolls(hours.start as u64);
        let mut all = Vec::new();
        for node in ["n1", "n2"] {
            for (gpu, hour) in (0..3).flat_map(|gpu| hours.clone().map(move |hour| (gpu, hour))) {
                all.extend((0..=rolls.below(3)).map(|_| rolls.interval(node, gpu, hour)));
            }
        }
        all
    }

    /// Without what floats change that were written and read, or are summed in another order.
    fn exact(report: &Report) -> serde_json::Value {
        let bare = |finding: &Finding| {
            let confidence = (finding.confidence * 1e9).round() / 1e9;
            Finding { evidence: Vec::new(), confidence, ..finding.clone() }
        };
        let findings = report.findings.iter().map(bare).collect();
        let unjudged = report.unjudged.iter().map(bare).collect();
        serde_json::to_value(Report { findings, unjudged, ..report.clone() }).unwrap()
    }

    #[tokio::test]
    async fn a_stored_report_is_that_of_its_intervals_to_the_millisecond_and_the_micro_unit() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let (now, before) = (verdicts(0..HOURS), verdicts(-HOURS..0));
        for hour in -HOURS..HOURS {
            let window = START + hour * HOUR_MS..START + (hour + 1) * HOUR_MS;
            for node in ["n1", "n2"] {
                let of_node = now.iter().chain(&before).filter(|i| i.node == node && window.contains(&i.start_ms));
                store.replace(node.into(), window.clone(), &of_node.cloned().collect::<Vec<_>>()).await.unwrap();
            }
        }
        let [from, to] = [START, START + HOURS * HOUR_MS].map(shown);
        let period = Period::between(&from, &to, &TimeZone::UTC).unwrap();
        let prices = Config::parse(PRICES).unwrap().prices;
        let expected = build(&now, &before, period.clone(), &prices).with_outlook(&Outlook::default());
        let found = stored(&store, period.clone(), &prices).await.unwrap();
        let day = period.start_ms.div_euclid(DAY_MS) * DAY_MS + DAY_MS;
        store.roll_up_days().await.unwrap();
        assert_eq!(store.day(day).await.unwrap().len(), 2);
        let by_day = serde_json::to_value(stored(&store, period, &prices).await.unwrap()).unwrap();
        assert_eq!(by_day, serde_json::to_value(&found).unwrap(), "rolled up or not");
        assert!(expected.findings.len() > 4 && expected.previous.is_some() && expected.contradictions.len() == 1);
        for (one, other) in found.findings.iter().zip(&expected.findings) {
            let proofs = |f: &Finding| f.evidence.iter().map(|p| (p.signal.clone(), p.min, p.max)).collect::<Vec<_>>();
            let sorted = |mut all: Vec<(String, f64, f64)>| {
                all.sort_by(|a, b| a.0.cmp(&b.0));
                all
            };
            assert_eq!(sorted(proofs(one)), sorted(proofs(other)));
            assert!(!one.evidence.is_empty() && one.curves.len() == other.curves.len());
        }
        let lanes = |report: &Report| report.timeline.lanes.iter().map(|l| l.gpu.clone()).collect::<Vec<_>>();
        assert_eq!(lanes(&found), lanes(&expected));
        let (found, expected) = (exact(&found), exact(&expected));
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(found[field], *value, "{field}");
        }
    }

    #[test]
    fn days_leave_nothing_out_and_take_nothing_twice() {
        for start in [0, HOUR_MS / 2, 5 * HOUR_MS] {
            let range = start..start + 49 * HOUR_MS;
            let days: Vec<_> = days(&range).collect();
            assert!(days.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % DAY_MS == 0));
            assert_eq!((days[0].start, days[days.len() - 1].end), (range.start, range.end));
        }
        assert_eq!(days(&(5..5)).count(), 0);
    }
}
