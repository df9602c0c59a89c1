//! Hours that were cut for another time zone.
//!
//! Windows are cut where the report's zone has full hours. After a change of the zone, stored verdicts may reach over
//! such a cut: no day of the new zone holds them whole, and verdicts on the new windows would count their time twice.
//! Judging a part of such an hour judges the rest of the hour too and removes what reaches over the cut. Where the rest
//! cannot be judged, the hour stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::windows::into_hour;
use super::{HOUR_MS, Judge, JudgeError, Reader};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::Judged;
use goodput_store::{Place, Results, Samples, StoreError, Verdicts};
use goodput_verdict::{Interval, Outlook};

/// Zones have been whole quarters of an hour from UTC since long before there were GPUs.
const CUTS_MS: [i64; 3] = [HOUR_MS / 4, HOUR_MS / 2, HOUR_MS * 3 / 4];

impl<S: Samples, R: Results> Judge<S, R> {
    /// Judges a window, and the rest of its UTC hour where verdicts on that hour were cut for another zone.
    pub async fn judge_recut(
        &self,
        reader: &mut Reader<'_, S>,
        window: &Range<TimeMs>,
        until: TimeMs,
    ) -> Result<Judged, JudgeError> {
        let Some(rest) = self.rest_of_hour(window).await? else { return self.judge(reader, window, until).await };
        if let Err(reason) = self.judgeable(&rest) {
            tracing::warn!(%reason, "an hour that was cut for another time zone stays as it is");
            return self.verdicts(reader, window, until).await;
        }
        for part in [&rest, window] {
            if let Err(reason) = self.check_holes(part).await {
                return self.keep_verdicts(reason);
            }
        }
        // New verdicts first: after a crash in between, the old ones are still found to reach over the cut.
        if rest.start < until {
            self.judge(&mut self.reader(rest.end), &rest, until).await?;
        }
        let judged = self.judge(reader, window, until).await?;
        // The reading may have found a hole, and then the window has no new verdicts.
        if self.check_holes(window).await.is_ok() {
            self.remove_across(window).await?;
        }
        Ok(judged)
    }

    /// The other part of the window's UTC hour, if something stored reaches over the cut between them.
    async fn rest_of_hour(&self, window: &Range<TimeMs>) -> Result<Option<Range<TimeMs>>, StoreError> {
        let hour = hour_of(window);
        let (rest, cut) = match *window {
            Range { start, end } if start == hour.start && end == hour.end => return Ok(None),
            Range { start, end } if start == hour.start => (end..hour.end, end),
            Range { start, .. } => (hour.start..start, start),
        };
        let stored = self.results.verdicts(hour).await?;
        Ok(spans(&stored).any(|span| reaches_over(&span, cut)).then_some(rest))
    }

    /// Removes the verdicts that reach over the ends of the window within its hour; all others stay.
    async fn remove_across(&self, window: &Range<TimeMs>) -> Result<(), StoreError> {
        let hour = hour_of(window);
        let cut = if window.start == hour.start { window.end } else { window.start };
        let fits = |start_ms, end_ms| !reaches_over(&(start_ms..end_ms), cut);
        let Verdicts { intervals, outlook, achieved, .. } = self.results.verdicts(hour.clone()).await?;
        let mut of_node: BTreeMap<Place<'_>, Vec<Interval>> = BTreeMap::new();
        for i in &intervals {
            let kept = of_node.entry(Place::new(&i.cluster, &i.node)).or_default();
            kept.extend(fits(i.start_ms, i.end_ms).then(|| i.clone()));
        }
        for (place, intervals) in of_node {
            self.results.replace(place, hour.clone(), &intervals).await?;
        }
        let mut of_node: BTreeMap<Place<'_>, Outlook> = BTreeMap::new();
        for risk in &outlook.risks {
            let kept = of_node.entry(Place::new(&risk.last.cluster, &risk.last.node)).or_default();
            kept.risks.extend(fits(risk.start_ms, risk.end_ms).then(|| risk.clone()));
        }
        for advisory in &outlook.advisories {
            let kept = of_node.entry(Place::new(&advisory.cluster, &advisory.node)).or_default();
            kept.advisories.extend(fits(advisory.start_ms, advisory.end_ms).then(|| advisory.clone()));
        }
        for standing in &outlook.standings {
            let kept = of_node.entry(Place::new(&standing.cluster, &standing.node)).or_default();
            kept.standings.extend(fits(standing.start_ms, standing.end_ms).then(|| standing.clone()));
        }
        for (place, outlook) in of_node {
            self.results.replace_outlook(place, hour.clone(), &outlook).await?;
        }
        let kept: Vec<_> = achieved.into_iter().filter(|a| fits(a.start_ms, a.end_ms)).collect();
        self.results.replace_achieved(hour, &kept).await
    }
}

/// The UTC hours whose stored verdicts reach over a full hour of the zone, in order; neighbours are one range.
pub async fn cut_otherwise(store: &impl Results, zone: &TimeZone) -> Result<Vec<Range<TimeMs>>, StoreError> {
    let mut hours = BTreeSet::new();
    for cut in CUTS_MS {
        if !is_ever_cut(zone, cut) {
            continue;
        }
        let found = store.hours_across(cut).await?;
        hours.extend(found.into_iter().filter(|hour| into_hour(*hour, zone) == cut));
    }
    let mut ranges: Vec<Range<TimeMs>> = Vec::new();
    for hour in hours {
        match ranges.last_mut() {
            Some(last) if last.end == hour => last.end += HOUR_MS,
            _ => ranges.push(hour..hour + HOUR_MS),
        }
    }
    Ok(ranges)
}

/// Has the zone full hours so long after those of UTC, in these years?
fn is_ever_cut(zone: &TimeZone, cut: i64) -> bool {
    let now = Timestamp::now().as_millisecond();
    (0..120).any(|month| into_hour(now - month * 30 * 24 * HOUR_MS, zone) == cut)
}

/// The UTC hour that the window is in.
pub(crate) fn hour_of(window: &Range<TimeMs>) -> Range<TimeMs> {
    let start = window.start.div_euclid(HOUR_MS) * HOUR_MS;
    start..start + HOUR_MS
}

pub(crate) fn reaches_over(span: &Range<TimeMs>, cut: TimeMs) -> bool {
    span.start < cut && cut < span.end
}

/// The time of each row.
pub(crate) fn spans(stored: &Verdicts) -> impl Iterator<Item = Range<TimeMs>> {
    let Verdicts { intervals, outlook, achieved, .. } = stored;
    let intervals = intervals.iter().map(|i| i.start_ms..i.end_ms);
    let risks = outlook.risks.iter().map(|r| r.start_ms..r.end_ms);
    let advisories = outlook.advisories.iter().map(|a| a.start_ms..a.end_ms);
    let standings = outlook.standings.iter().map(|s| s.start_ms..s.end_ms);
    intervals.chain(risks).chain(advisories).chain(standings).chain(achieved.iter().map(|a| a.start_ms..a.end_ms))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{START, idle_gpu, store};
    use super::super::windows;
    use super::*;
    use crate::report::{Period, stored};
    use goodput_rules::classify::Thresholds;
    use goodput_store::{ReadVerdicts as _, Store};

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    /// Judges the windows of the zone in the hours from START on.
    async fn judged(judge: &Judge<Store>, hours: Range<i64>, zone: &TimeZone) {
        let until = START + 6 * HOUR_MS;
        let range = START + hours.start * HOUR_MS..START + hours.end * HOUR_MS;
        for window in windows(range, zone) {
            judge.judge_recut(&mut judge.reader(until), &window, until).await.unwrap();
        }
    }

    async fn sum(store: &Store, range: Range<TimeMs>) -> i64 {
        store.intervals(range).await.unwrap().iter().map(|interval| interval.ms).sum()
    }

    #[tokio::test]
    async fn a_changed_zone_counts_no_time_twice_and_loses_none() {
        for (before, after, cut) in [
            ("UTC", "Asia/Kolkata", HOUR_MS / 2),
            ("UTC", "Asia/Kathmandu", HOUR_MS / 4),
            ("Asia/Kathmandu", "Asia/Kolkata", HOUR_MS / 2),
            ("Asia/Kolkata", "Europe/Berlin", 0),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let store = store(dir.path()).await;
            idle_gpu(&store, "GPU-a", "n1", START..START + 4 * HOUR_MS).await;
            let judge = Judge::new(store.clone(), Thresholds::default());
            judged(&judge, 0..4, &zone(before)).await;
            let all = START..START + 4 * HOUR_MS;
            assert_eq!(sum(&store, all.clone()).await, 4 * HOUR_MS);
            let otherwise = cut_otherwise(&store, &zone(after)).await.unwrap();
            assert_eq!(otherwise, if cut == 0 { vec![] } else { vec![all.clone()] }, "{before} to {after}");
            // A report that begins within such an hour says what it lacks.
            let range = START + cut..START + 2 * HOUR_MS + cut;
            let shown = [range.start, range.end].map(|time| Timestamp::from_millisecond(time).unwrap().to_string());
            let period = Period::between(&shown[0], &shown[1], &zone(after)).unwrap();
            let warnings = async || stored(&store, period.clone(), &[]).await.unwrap().warnings;
            assert_eq!(warnings().await.len(), if cut == 0 { 0 } else { 2 }, "{before} to {after}");

            judged(&judge, 0..4, &zone(after)).await;
            assert_eq!(sum(&store, all).await, 4 * HOUR_MS, "{before} to {after}: once");
            assert_eq!(sum(&store, range).await, 2 * HOUR_MS, "{before} to {after}: whole hours of the zone");
            assert_eq!(cut_otherwise(&store, &zone(after)).await.unwrap(), []);
            assert_eq!(warnings().await, Vec::<String>::new());
        }
    }

    #[tokio::test]
    async fn a_part_of_an_hour_has_the_rest_judged_too() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        idle_gpu(&store, "GPU-a", "n1", START..START + 2 * HOUR_MS).await;
        let judge = Judge::new(store.clone(), Thresholds::default());
        judged(&judge, 0..2, &TimeZone::UTC).await;
        let until = START + 6 * HOUR_MS;
        let part = START + HOUR_MS / 2..START + HOUR_MS;
        judge.judge_recut(&mut judge.reader(until), &part, until).await.unwrap();
        let mut spans = BTreeMap::new();
        for i in store.intervals(START..START + 2 * HOUR_MS).await.unwrap() {
            *spans.entry((i.start_ms - START, i.end_ms - START)).or_insert(0) += i.ms;
        }
        let halves = [(0, HOUR_MS / 2), (HOUR_MS / 2, HOUR_MS), (HOUR_MS, 2 * HOUR_MS)];
        assert_eq!(spans.into_keys().collect::<Vec<_>>(), halves);
    }
}
