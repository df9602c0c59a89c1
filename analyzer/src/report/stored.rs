//! The report of a period, out of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use goodput_exposition::sample::{Labels, TimeMs};
use goodput_store::{History, ReadVerdicts, StoreError, Verdicts, Whose};
use goodput_verdict::{Achieved, DAY_MS, Group, HOUR_MS, Interval};

use super::build::summed;
use super::comparison::reach;
use super::finding::Proving;
use super::only::{Only, Owners, chosen, has, of_owners, part_of};
use super::recall::{known_clusters, recall, recall_clusters};
use super::serving::Servers;
use super::summed::{Item, Summed};
use super::{Finding, Names, Period, Price, Report, Terms, runs, throughput};
use crate::judge::{hour_of, reaches_over, shown, spans};
use crate::teams::Teams;

/// What a report is made with.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// What GPU time and energy cost.
    pub prices: &'w [Price],
    /// Whose time is whose.
    pub teams: &'w Teams,
    /// A report of what this team and those that are part of it held; of all, where none is named.
    pub team: Option<&'w str>,
}

/// The teams that a period is reported with: those that its week was delivered with, else those that hold now.
pub async fn teams_in(verdicts: &impl ReadVerdicts, period: &Period, terms: &Terms) -> Result<Arc<Teams>, StoreError> {
    let delivered = match period.is_week() {
        true => verdicts.teams_of(&period.label).await?,
        false => None,
    };
    let Some(content) = delivered else { return Ok(terms.teams.teams()) };
    match Teams::of_content(&content) {
        Ok(teams) => Ok(Arc::new(teams)),
        Err(error) => {
            tracing::warn!(%error, week = period.label, "the teams that the week was delivered with cannot be read");
            Ok(terms.teams.teams())
        }
    }
}

/// The report of a period, without teams.
pub async fn stored(verdicts: &impl ReadVerdicts, period: Period, prices: &[Price]) -> Result<Report, StoreError> {
    stored_by_team(verdicts, period, Wanted { prices, teams: &Teams::default(), team: None }).await
}

/// The report of a period. Sums are those of roll-ups; intervals are read for the evidence of the findings that are shown.
pub async fn stored_by_team(
    verdicts: &impl ReadVerdicts,
    period: Period,
    wanted: Wanted<'_>,
) -> Result<Report, StoreError> {
    let (range, prices) = (period.start_ms..period.end_ms, wanted.prices);
    let only = wanted.team.and_then(|name| Only::of(wanted.teams, name, period.start_ms));
    let is_counted = owners_of(verdicts, &range, only.as_ref()).await?;
    let (achieved, mut servers) = counted(verdicts, &range, prices, &is_counted).await?;
    let mut held = throughput::Held::of(&achieved);
    let mut items = read(verdicts, &range, None, prices, (!achieved.is_empty()).then_some(&mut held)).await?;
    let before = period.compared(reach(&items));
    let mut previous = read(verdicts, &(before.start_ms..before.end_ms), None, prices, None).await?;
    let known = known_clusters(items.iter().chain(&previous).map(|item| item.interval()));
    recall(&known, items.iter_mut().chain(&mut previous).map(|item| item.interval_mut()));
    if let Some(only) = &only {
        (items, previous) = (chosen(items, only), chosen(previous, only));
    }
    let mut report = summed(&items, &previous, period, (prices, wanted.teams));
    let of_servers = servers.nodes(&items);
    drop((items, previous));
    for node in report.timeline.nodes() {
        let hours = verdicts.hours(range.clone(), Some(&node)).await?;
        hours.into_iter().map(|hour| part_of(hour, only.as_ref())).for_each(|hour| report.timeline.add(&hour));
    }
    add_hours(verdicts, &range, &of_servers, &mut servers).await?;
    report.serving = servers.section();
    let axis = report.timeline.axis.clone();
    for finding in report.proven_mut() {
        prove(verdicts, finding, &axis, &range, &known).await?;
    }
    let (history, mut of_runs) = of_runs(verdicts, &range).await?;
    recall(&known, of_runs.iter_mut());
    let runs = match &only {
        None => runs::build(&history, &of_runs, &range),
        Some(only) => runs::of(&history, &chosen(of_runs, only), &range),
    };
    let series = verdicts.series_of(&Names::metrics()).await?;
    let mut outlook = verdicts.outlook(range).await?;
    if wanted.team.is_some() {
        of_owners(&mut outlook, &is_counted);
    }
    Ok(Report {
        names: names(&series, &report),
        throughput: throughput::build(&achieved, &held),
        runs,
        warnings: warnings(verdicts, &before, &report.period).await?,
        ..report.with_outlook(&outlook)
    })
}

/// The owners of a team's time.
async fn owners_of(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    only: Option<&Only<'_>>,
) -> Result<Owners, StoreError> {
    let Some(only) = only else { return Ok(None) };
    let items = chosen(read(verdicts, range, None, &[], None).await?, only);
    Ok(Some(items.iter().flat_map(|item| item.owner.iter().chain(&item.run)).cloned().collect()))
}

/// What jobs reported, and what the runs among them held.
async fn of_runs(verdicts: &impl ReadVerdicts, range: &Range<TimeMs>) -> Result<(History, Vec<Interval>), StoreError> {
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
    Ok((history, of_runs))
}

/// What jobs and servers counted, day by day: a week of a large fleet has more rows than are worth holding.
async fn counted<'p>(
    verdicts: &impl ReadVerdicts,
    range: &Range<TimeMs>,
    prices: &'p [Price],
    owners: &Owners,
) -> Result<(Vec<Achieved>, Servers<'p>), StoreError> {
    let (mut achieved, mut servers) = (Vec::new(), Servers::new(prices));
    for day in days(range) {
        let mut rows = verdicts.achieved(day).await?;
        rows.retain(|row| has(owners, row.owner.as_deref()));
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
mod tests;
