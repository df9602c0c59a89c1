//! What a period is compared with, and whether the two can be compared.

use schemars::JsonSchema;
use serde::Serialize;

use super::build::Ledger;
use super::sum::Amount;
use super::summed::Item;
use super::{LEAST_COVERAGE, MS_PER_HOUR, Period, text};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Class, Stretch};

/// Capacities that differ by more than this share are compared by shares alone.
const SAME_CAPACITY: f64 = 0.02;

/// The time that a period is compared with: the period before, or as much of it as this one has had.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// `2026-W46`, or `Mon to Wed 11:00 of 2026-W46`.
    pub label: String,
    /// Unix milliseconds.
    pub start_ms: TimeMs,
    /// Unix milliseconds; the end is exclusive.
    pub end_ms: TimeMs,
    /// Why there are no changes; null where there are.
    pub hindrance: Option<String>,
    /// Do the two have the same capacity, within 2 %? Else only shares are compared.
    pub has_same_capacity: bool,
}

/// A time and what is known of it.
struct Side<'a, 'p> {
    label: &'a str,
    start_ms: TimeMs,
    end_ms: TimeMs,
    items: &'a [Item<'p>],
}

/// Until when the verdicts of a period reach.
pub(super) fn reach(items: &[Item<'_>]) -> Option<TimeMs> {
    items.iter().map(|item| item.interval().end_ms).max()
}

/// What the items of a period are compared with, and the items that are: none where they cannot be.
pub(super) fn comparison<'a, 'p>(
    period: &Period,
    items: &[Item<'_>],
    before: &'a [Item<'p>],
) -> (Comparison, Option<&'a [Item<'p>]>) {
    Comparison::of(period, items, period.compared(reach(items)), before)
}

impl Comparison {
    /// Of the items of a period with those of another, and the latter: none where the two cannot be compared.
    pub(crate) fn of<'a, 'p>(
        period: &Period,
        items: &[Item<'_>],
        other: Period,
        before: &'a [Item<'p>],
    ) -> (Self, Option<&'a [Item<'p>]>) {
        let (capacity, capacity_before) = (Ledger::of(items).capacity().ms, Ledger::of(before).capacity().ms);
        let differs = (capacity - capacity_before).abs() as f64;
        let end_ms = period.end_so_far(reach(items));
        let now = Side { label: &period.label, start_ms: period.start_ms, end_ms, items };
        let then = Side { label: &other.label, start_ms: other.start_ms, end_ms: other.end_ms, items: before };
        let hindrance = match before {
            [] => Some(format!("no verdicts are stored for {}", other.label)),
            _ => now.lack().or_else(|| then.lack()).map(|lack| format!("not comparable: {lack}")),
        };
        let comparable = hindrance.is_none().then_some(before);
        let comparison = Self {
            hindrance,
            has_same_capacity: differs <= SAME_CAPACITY * capacity_before as f64,
            start_ms: other.start_ms,
            end_ms: other.end_ms,
            label: other.label,
        };
        (comparison, comparable)
    }

    /// The difference of two times to be read: in GPU-hours, or in points of their shares where capacity is another.
    pub(crate) fn change(&self, now: &Amount, before: &Amount) -> String {
        if self.has_same_capacity {
            return now.hours_change(before);
        }
        text::points(now.share.zip(before.share).map(|(now, before)| now - before))
    }
}

impl Side<'_, '_> {
    /// What is missing, in words; none where there is enough.
    fn lack(&self) -> Option<String> {
        let hour = |ms: i64| (ms as f64 / MS_PER_HOUR).round();
        let (known, all) = (self.known_ms(), self.end_ms - self.start_ms);
        if (known as f64) < LEAST_COVERAGE * all as f64 {
            return Some(format!("{} of {} h of data in {}", hour(known), hour(all), self.label));
        }
        let ledger = Ledger::of(self.items);
        let (with_data, capacity) = (ledger.with_data().amount(ledger.capacity().ms), ledger.capacity().ms);
        let is_little = (with_data.gpu_ms as f64) < LEAST_COVERAGE * capacity as f64;
        is_little.then(|| format!("data for {} of the GPU time in {}", with_data.percent(), self.label))
    }

    /// The time for which any GPU has data.
    fn known_ms(&self) -> i64 {
        let known = self.items.iter().filter(|item| item.class != Class::NoData);
        let mut stretches: Vec<Stretch> = known.flat_map(|item| item.stretches.iter().copied()).collect();
        stretches.sort_unstable_by_key(|stretch| stretch.start_ms);
        let inside = |s: &Stretch| (s.end_ms.min(self.end_ms) - s.start_ms.max(self.start_ms)).max(0);
        Stretch::join(stretches).iter().map(inside).sum()
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::{Report, Site, build, html, markdown};
    use super::*;
    use goodput_testing::bare;
    use goodput_verdict::Interval;

    const HOUR: i64 = 3_600_000;

    /// One GPU, hour by hour: of the week's hours these, three of four productive.
    fn hours(week: &Period, hours: std::ops::Range<i64>, gpus: usize) -> Vec<Interval> {
        let class = |hour: i64| if hour % 4 == 0 { Class::IdleHeld } else { Class::Productive };
        let one = |hour: i64, gpu: usize| Interval {
            gpu: format!("GPU-{gpu}"),
            owner: Some(format!("ml/train-{gpu}")),
            ms: HOUR,
            ..bare(class(hour), week.start_ms + hour * HOUR..week.start_ms + (hour + 1) * HOUR)
        };
        hours.flat_map(|hour| (0..gpus).map(move |gpu| one(hour, gpu))).collect()
    }

    fn week() -> Period {
        Period::iso_week("2026-W48", &TimeZone::UTC).unwrap()
    }

    fn told(report: &Report) -> String {
        assert!(report.previous.is_none() && report.classes.iter().all(|row| row.previous.is_none()));
        assert!(
            report.findings.iter().all(|f| f.previous.is_none()) && report.groups.iter().all(|g| g.previous.is_none())
        );
        assert!(report.owners.iter().chain(&report.gpus).all(|row| row.lost_before.is_none()));
        let pages = [markdown::render(report).unwrap(), html::render(report, &Site::default()).unwrap()];
        assert!(pages.iter().all(|page| !page.contains(" points") && page.contains(&report.against())), "{pages:?}");
        report.against()
    }

    #[test]
    fn a_week_with_little_data_of_either_has_no_change() {
        let (week, before) = (week(), week().previous());
        let now = hours(&week, 0..168, 1);
        let whole = |previous: &[Interval]| build(&now, previous, week.clone(), &[]);
        assert_eq!(
            told(&whole(&hours(&before, 58..168, 1))),
            "Change: not comparable: 110 of 168 h of data in 2026-W47."
        );
        assert_eq!(told(&whole(&[])), "Change: no verdicts are stored for 2026-W47.");
        let mut silent = hours(&before, 0..168, 2);
        silent.iter_mut().filter(|i| i.gpu == "GPU-1").for_each(|i| i.class = Class::NoData);
        let expected = "Change: not comparable: data for 50.0 % of the GPU time in 2026-W47.";
        assert_eq!(told(&whole(&silent)), expected);
        let short = build(&hours(&week, 0..59, 1), &hours(&before, 0..168, 1), week.clone(), &[]);
        assert_eq!(told(&short), "Change: not comparable: 59 of 168 h of data in 2026-W48.", "over, and it ends early");
    }

    #[test]
    fn a_week_that_goes_on_is_compared_with_as_much_of_the_one_before() {
        let before = week().previous();
        let running = week().as_of(week().start_ms + 59 * HOUR);
        let report = build(&hours(&running, 0..59, 1), &hours(&before, 0..168, 1), running.clone(), &[]);
        let then = report.previous.as_ref().unwrap();
        assert_eq!((then.label.as_str(), then.capacity.gpu_ms), ("Mon to Wed 11:00 of 2026-W47", 59 * HOUR));
        assert_eq!(then.goodput_change, Some(0.0));
        assert!(report.comparison.has_same_capacity && markdown::render(&report).unwrap().contains("2026-W48, so far"));
        let young = build(&hours(&running, 0..59, 1), &hours(&before, 58..168, 1), running, &[]);
        let expected = "Change: not comparable: 1 of 59 h of data in Mon to Wed 11:00 of 2026-W47.";
        assert_eq!(told(&young), expected);
    }

    #[test]
    fn another_capacity_is_compared_by_shares() {
        let (week, before) = (week(), week().previous());
        let report = build(&hours(&week, 0..168, 2), &hours(&before, 0..168, 1), week, &[]);
        assert!(!report.comparison.has_same_capacity && !report.has_changes());
        let finding = &report.groups[0];
        assert_eq!(report.change(&finding.lost, finding.previous.as_ref().unwrap()), "+0.0 points");
        assert!(report.against().ends_with("lost: +0.0 points of capacity."), "{}", report.against());
    }
}
