//! `cpu_throttled`: the job's CPU quota is used up before the period ends, and its workers stand still.

use super::thresholds::confidence::COUNTED;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule {
    class: Class::CpuThrottled,
    explains: &[Class::DataloaderCpu, Class::FeedingUnsplit, Class::ServingHost],
    judge,
};

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let throttled = cell.mean(Signal::JobCpuThrottledPeriods);
    let (Some(periods), Some(throttled)) = (cell.mean(Signal::JobCpuPeriods), throttled) else {
        return Verdict::without(&[Signal::JobCpuPeriods, Signal::JobCpuThrottledPeriods]);
    };
    let ratio = if periods > 0.0 { throttled / periods } else { 0.0 };
    if ratio < t.throttled_periods_ratio {
        return Verdict::No;
    }
    // Both are upper bounds: a throttled period lost no more than itself, and the throttled time, which sums over the
    // job's CPUs, is no less than the time in which any stood still.
    let period = t.quota_period_seconds.min(1.0 / periods);
    let stood_still = cell.mean(Signal::JobCpuThrottled);
    let name = "job_cpu_throttled_periods / job_cpu_periods";
    let mut facts = vec![Fact { signal: name, unit: "ratio", value: ratio, threshold: t.throttled_periods_ratio }];
    facts.extend(stood_still.map(|seconds| Fact::of(Signal::JobCpuThrottled, seconds, 0.0)));
    let max_share = (throttled * period).min(stood_still.unwrap_or(1.0));
    Verdict::Claim { max_share, confidence: COUNTED, facts }
}
