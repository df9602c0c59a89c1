//! What the verdicts say of GPUs, their owners and the fleet, and what the GPUs cost.

use std::collections::BTreeMap;

use goodput_catalog::analyzer::verdicts as rows;
use goodput_store::Place;
use goodput_verdict::{Class, Interval};

use crate::app::page::Page;
use crate::app::progress::Progress;
use crate::report::Terms;

/// All of them.
pub(super) fn push(page: &mut Page, progress: &Progress, terms: &Terms) {
    let windows = [("hour", &progress.last_hour), ("5m", &progress.last_minutes)];
    for (window, intervals) in windows {
        gpu_ratios(page, window, intervals);
    }
    owner_ratios(page, &progress.last_hour);
    hourly_costs(page, &progress.last_hour, terms);
    free_gpus(page, &progress.last_minutes);
    for demand in &progress.demand {
        let cluster = demand.cluster.as_deref().unwrap_or_default();
        page.push_with(&rows::DEMAND, &[cluster], &[&demand.model, demand.state.name()], demand.gpus);
    }
    for (window, intervals) in windows {
        if let Some(goodput) = goodput(intervals) {
            page.push(&rows::FLEET, &[window], goodput);
        }
    }
}

fn gpu_ratios(page: &mut Page, window: &str, intervals: &[Interval]) {
    let mut gpus: BTreeMap<(&str, &str, &str), BTreeMap<Class, i64>> = BTreeMap::new();
    for i in intervals {
        let cluster = i.cluster.as_deref().unwrap_or_default();
        *gpus.entry((cluster, &i.node, &i.gpu)).or_default().entry(i.class).or_default() += i.ms;
    }
    for ((cluster, node, gpu), mut classes) in gpus {
        let whole: i64 = classes.values().sum();
        classes.entry(Class::Productive).or_default();
        for (class, ms) in classes {
            let ratio = ms as f64 / whole as f64;
            page.push_with(&rows::GPU_CLASS, &[cluster], &[node, gpu, class.name(), window], ratio);
        }
    }
}

fn owner_ratios(page: &mut Page, intervals: &[Interval]) {
    let (mut whole, mut parts) = (BTreeMap::<_, i64>::new(), BTreeMap::<_, i64>::new());
    for i in intervals {
        let gpu = (i.cluster.as_deref().unwrap_or_default(), i.node.as_str(), i.gpu.as_str());
        *whole.entry(gpu).or_default() += i.ms;
        if let Some(owner) = &i.owner {
            *parts.entry((gpu, owner, i.account.as_deref().unwrap_or_default(), i.class)).or_default() += i.ms;
        }
    }
    for ((gpu, owner, account, class), ms) in parts {
        let ((cluster, node, uuid), ratio) = (gpu, ms as f64 / whole[&gpu] as f64);
        page.push_with(&rows::GPU_OWNER_CLASS, &[cluster, account], &[node, uuid, owner, class.name()], ratio);
    }
}

/// GPUs that are free, in the mean of the last minutes, by why they are.
fn free_gpus(page: &mut Page, intervals: &[Interval]) {
    let start = intervals.iter().map(|i| i.start_ms).min();
    let Some((start, end)) = start.zip(intervals.iter().map(|i| i.end_ms).max()) else { return };
    let mut reasons: BTreeMap<&str, i64> = BTreeMap::new();
    for i in intervals.iter().filter(|i| i.class == Class::Unallocated) {
        *reasons.entry(i.cause.as_ref().map_or("unknown", |cause| cause.kind.name())).or_default() += i.ms;
    }
    for (reason, ms) in reasons {
        page.push(&rows::FREE_GPUS, &[reason], ms as f64 / (end - start) as f64);
    }
}

/// One price per GPU: that of its last interval, one that knows the model before one that does not. Joins want one series.
fn hourly_costs(page: &mut Page, intervals: &[Interval], terms: &Terms) {
    let mut last: BTreeMap<(Place<'_>, &str), &Interval> = BTreeMap::new();
    for i in intervals {
        let known = last.entry((Place::new(&i.cluster, &i.node), &i.gpu)).or_insert(i);
        if (i.model.is_some(), i.start_ms) > (known.model.is_some(), known.start_ms) {
            *known = i;
        }
    }
    for ((place, gpu), i) in last {
        if let Some(price) = terms.of(i.model.as_deref(), place, i.start_ms) {
            let labels = [place.node, gpu, price.currency.as_str()];
            page.push_with(&rows::GPU_HOURLY_COST, &[place.cluster.unwrap_or_default()], &labels, price.per_gpu_hour());
        }
    }
}

fn goodput(intervals: &[Interval]) -> Option<f64> {
    let sum = |wanted: &dyn Fn(Class) -> bool| intervals.iter().filter(|i| wanted(i.class)).map(|i| i.ms).sum::<i64>();
    let seen = sum(&|class| class != Class::NoData);
    (seen > 0).then(|| sum(&|class| class == Class::Productive) as f64 / sum(&|_| true) as f64)
}
