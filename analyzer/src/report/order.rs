//! In which order findings are read: by what they cost.

use std::borrow::Borrow;

use super::{Amount, Finding, FindingGroup};

/// What has a rank.
pub(super) trait Costs {
    /// The whole loss.
    fn lost(&self) -> &Amount;
    /// 0 to 1.
    fn confidence(&self) -> f64;
}

impl Costs for Finding {
    fn lost(&self) -> &Amount {
        &self.lost
    }

    fn confidence(&self) -> f64 {
        self.confidence
    }
}

impl Costs for FindingGroup {
    fn lost(&self) -> &Amount {
        &self.lost
    }

    fn confidence(&self) -> f64 {
        self.confidence
    }
}

/// By cost, the most first; what costs as much and is surer comes first. Cost is money where all of the loss has a price
/// in one currency, and GPU-time where it has not: sums in two currencies, or of a part of the loss, have no order.
pub(super) fn rank<T: Costs>(all: &mut [T]) {
    let by_money = has_one_price(all.iter().map(Costs::lost));
    let cost = |f: &T| f.lost().cost.first().filter(|_| by_money).map_or(f.lost().gpu_ms, |c| c.micros);
    all.sort_by(|a, b| {
        let by_cost = cost(b).cmp(&cost(a)).then(b.confidence().total_cmp(&a.confidence()));
        by_cost.then(b.lost().gpu_ms.cmp(&a.lost().gpu_ms))
    });
}

/// Has all of the time a price, in one currency? Sums of money have an order only then.
pub(crate) fn has_one_price<A: Borrow<Amount>>(all: impl IntoIterator<Item = A>) -> bool {
    let mut first = None;
    let mut has_first = |amount: &Amount| {
        let is_first = |currency: &String| *first.get_or_insert_with(|| currency.clone()) == *currency;
        amount.cost.iter().map(|cost| &cost.currency).all(is_first)
            && amount.cost.iter().map(|cost| cost.priced_ms).sum::<i64>() == amount.gpu_ms
    };
    all.into_iter().all(|amount| has_first(amount.borrow())) && first.is_some()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::super::{Period, Report, Site, Terms, build, html, markdown};
    use crate::config::Config;
    use goodput_testing::bare;
    use goodput_verdict::{Class, Interval};

    const HOUR: i64 = 3_600_000;

    fn loss(class: Class, owner: Option<&str>, gpu: usize, hours: f64) -> Interval {
        Interval {
            gpu: format!("GPU-{gpu}"),
            model: Some(["NVIDIA H100 80GB HBM3", "Tesla T4"][gpu % 2].into()),
            owner: owner.map(str::to_owned),
            ms: (hours * HOUR as f64) as i64,
            confidence: 0.75,
            ..bare(class, 0..100 * HOUR)
        }
    }

    fn report(week: &[Interval], prices: &str) -> Report {
        let period = Period::between("1970-01-01", "1970-01-08", &TimeZone::UTC).unwrap();
        build(week, &[], period, &Config::parse(prices).unwrap().prices)
    }

    /// A free GPU, one that idled, thirteen starts of seconds, and two hours without a cause.
    fn week() -> Vec<Interval> {
        let start = |n: usize| loss(Class::ColdStart, Some(&format!("job-{n}")), n, 0.0014 * (n + 1) as f64);
        let mut week: Vec<Interval> = (0..13).map(start).collect();
        week.push(loss(Class::IdleHeld, Some("notebook"), 20, 20.0));
        week.push(loss(Class::Unallocated, None, 22, 80.0));
        week.push(loss(Class::Unexplained, Some("notebook"), 24, 2.0));
        week
    }

    #[test]
    fn the_largest_losses_come_before_small_ones_that_have_a_gain() {
        let report = report(&week(), "");
        let first: Vec<Class> = report.first_groups().iter().map(|g| g.class).collect();
        assert_eq!(first, [Class::Unallocated, Class::IdleHeld], "starts of seconds are nothing to begin with");
        for page in [markdown::render(&report).unwrap(), html::render(&report, &Site::default()).unwrap()] {
            assert!(page.contains("2 smaller findings, 0.13 GPU-hours."), "{page}");
            assert!(page.contains("Not judged: 2.00 GPU-hours unexplained (2.0 % of capacity)"), "{page}");
        }
        assert_eq!(report.findings.len(), 15, "each start is a finding");
        let groups: Vec<(Class, usize)> = report.shown_groups().iter().map(|g| (g.class, g.findings.len())).collect();
        let cold = (Class::ColdStart, 7);
        assert_eq!(groups[..2], [(Class::Unallocated, 1), (Class::IdleHeld, 1)]);
        assert!(groups.contains(&cold), "those of one model are one: {groups:?}");
    }

    #[test]
    fn what_costs_enough_is_among_the_first_however_small_its_share() {
        let prices = "prices:\n- {model: '*', currency: EUR, per_gpu_hour: 100, valid_from: 1970-01-01}\n";
        let without = report(&week(), prices);
        assert_eq!(without.first_groups().len(), 2);
        let with = without.with_terms(&Terms { first_at_least: Some(6.0), ..Terms::default() });
        let first: Vec<Class> = with.first_groups().iter().map(|g| g.class).collect();
        assert_eq!(first, [Class::Unallocated, Class::IdleHeld, Class::ColdStart]);
        let costs: Vec<f64> = with.groups.iter().map(|g| g.lost.cost[0].amount).collect();
        assert!(costs.is_sorted_by(|a, b| a >= b) && costs[2] >= 6.0 && costs[3] < 6.0, "{costs:?}");
    }

    #[test]
    fn money_ranks_where_all_losses_have_a_price_and_gpu_time_elsewhere() {
        let week = [loss(Class::IdleHeld, Some("cheap"), 1, 30.0), loss(Class::IdleHeld, Some("dear"), 2, 10.0)];
        let owners =
            |prices: &str| report(&week, prices).findings.iter().filter_map(|f| f.owner.clone()).collect::<Vec<_>>();
        let price = |model: &str, currency: &str, per_hour: f64| {
            format!("- {{model: '{model}', currency: {currency}, per_gpu_hour: {per_hour}, valid_from: 1970-01-01}}\n")
        };
        let (h100, t4) = (price("NVIDIA H100*", "EUR", 4.0), price("Tesla T4", "EUR", 0.5));
        assert_eq!(owners(&format!("prices:\n{h100}{t4}")), ["dear", "cheap"]);
        assert_eq!(owners(&format!("prices:\n{h100}")), ["cheap", "dear"], "a price of one of them");
        let dollars = price("Tesla T4", "USD", 0.5);
        assert_eq!(owners(&format!("prices:\n{h100}{dollars}")), ["cheap", "dear"], "two currencies");
        assert_eq!(owners(""), ["cheap", "dear"]);
    }

    proptest! {
        #[test]
        fn no_finding_costs_more_than_the_one_before_it(
            rolls in prop::collection::vec((0..Class::ALL.len(), 0..6usize, 0..4usize, 0.001..60.0f64), 1..60)
        ) {
            let owners = ["a", "b", "c", "d"];
            let week: Vec<Interval> =
                rolls.iter().map(|(class, gpu, owner, hours)| loss(Class::ALL[*class], Some(owners[*owner]), *gpu, *hours)).collect();
            let report = report(&week, "");
            let lost: Vec<i64> = report.findings.iter().map(|f| f.lost.gpu_ms).collect();
            prop_assert!(lost.is_sorted_by(|a, b| a >= b), "{:?}", lost);
            let lost: Vec<i64> = report.groups.iter().map(|g| g.lost.gpu_ms).collect();
            prop_assert!(lost.is_sorted_by(|a, b| a >= b), "{:?}", lost);
            let first = report.first_groups().len();
            prop_assert!(report.groups[first..].iter().all(|g| first == 10 || g.lost.share.unwrap() < 0.005));
            // Each finding is in one group, which is the sum of its own.
            let mut members: Vec<usize> = report.groups.iter().flat_map(|g| g.findings.iter().copied()).collect();
            members.sort_unstable();
            prop_assert_eq!(members, (0..report.findings.len()).collect::<Vec<_>>());
            for group in &report.groups {
                let of = || group.findings.iter().map(|n| &report.findings[*n]);
                prop_assert_eq!(of().map(|f| f.lost.gpu_ms).sum::<i64>(), group.lost.gpu_ms);
                prop_assert!(of().all(|f| f.class == group.class));
                prop_assert!(group.findings.is_sorted(), "the largest first");
            }
            let ids: std::collections::BTreeSet<&str> = report.groups.iter().map(|g| g.id.as_str()).collect();
            prop_assert_eq!(ids.len(), report.groups.len());
        }
    }
}
