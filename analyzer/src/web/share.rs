//! A ledger as pages show it: tiles, and a bar and table of classes.

use std::collections::BTreeMap;

use super::clock::{Clock, HOUR_MS, rfc3339};
use super::page::Problem;
use super::sorted::Key;
use super::view::{Of, View};
use crate::report::{Amount, Ledger, Span, Sum, other_rules, text};
use goodput_verdict::{Class, Interval};

/// A number with its name and what it is of.
pub(super) struct Tile {
    pub(super) value: String,
    pub(super) name: &'static str,
    pub(super) note: String,
}

/// One class of a ledger that has time.
#[derive(Clone)]
pub(super) struct Share {
    ms: i64,
    pub(super) class: &'static str,
    pub(super) meaning: &'static str,
    pub(super) hours: String,
    /// The 90 % interval of it, where its ends do not read alike.
    pub(super) between: String,
    pub(super) percent: String,
    /// Left edge and width in the bar, in percent of it.
    pub(super) x: String,
    pub(super) width: String,
    /// The sign that stands for the class, and where it is written: in the middle of what is wide enough.
    pub(super) key: &'static str,
    pub(super) middle: Option<String>,
}

/// The classes that have time, as a table.
pub(super) struct Legend {
    pub(super) classes: Vec<Share>,
    pub(super) has_intervals: bool,
    pub(super) view: View,
}

/// Percent of a bar: on a telephone and in a table as wide as a letter.
pub(super) const LEAST_LABELLED: f64 = 3.0;

/// The classes that have time.
pub(super) struct Shares {
    pub(super) classes: Vec<Share>,
    /// The bar in words.
    pub(super) label: String,
}

impl Shares {
    pub(super) fn of(ledger: &Ledger) -> Self {
        let whole = ledger.capacity().ms;
        let sum = |class| (ledger.get(class).ms, text::spread(ledger.get(class).bounds(whole)).unwrap_or_default());
        Self::of_sums(whole, sum)
    }

    /// Of milliseconds by class, whose intervals are not known.
    pub(super) fn of_classes(times: &BTreeMap<Class, i64>) -> Self {
        let sum = |class| (times.get(&class).copied().unwrap_or_default(), String::new());
        Self::of_sums(times.values().sum(), sum)
    }

    /// Of milliseconds and their 90 % interval, to be read; empty where none is shown.
    fn of_sums(whole: i64, sum: impl Fn(Class) -> (i64, String)) -> Self {
        let scale = |ms: i64| if whole > 0 { ms as f64 / whole as f64 * 100.0 } else { 0.0 };
        let (mut classes, mut before) = (Vec::new(), 0);
        for class in Class::ALL {
            let (ms, between) = sum(*class);
            if ms > 0 {
                let amount = Amount::of(ms, whole);
                let (x, width) = (scale(before), scale(ms));
                let middle = (width >= LEAST_LABELLED).then(|| text::fixed(x + width / 2.0));
                let (x, width, key) = (text::fixed(x), text::fixed(width), class.info().key);
                let (hours, percent) = (amount.hours(), amount.percent());
                let meaning = class.info().meaning;
                classes.push(Share {
                    ms,
                    class: class.name(),
                    meaning,
                    hours,
                    between,
                    percent,
                    x,
                    width,
                    key,
                    middle,
                });
                before += ms;
            }
        }
        let words: Vec<String> = classes.iter().map(|c| format!("{} {}", c.class, c.percent)).collect();
        Self { label: words.join(", "), classes }
    }

    /// The table, in the order of classes unless another one is asked for.
    pub(super) fn legend(&self, of: Of<'_>) -> Result<Legend, Problem> {
        let mut classes = self.classes.clone();
        let place = |share: &Share| Class::ALL.iter().position(|class| class.name() == share.class).unwrap_or_default();
        let key = |share: &Share, column: &str| match column {
            "class" => Key::Text(format!("{:03}", place(share))),
            _ => Key::number(share.ms),
        };
        let text = |share: &Share| format!("{} {}", share.class, share.meaning);
        let view = of.view(&mut classes, &["class", "hours", "share"], key, text)?;
        Ok(Legend { has_intervals: classes.iter().any(|share| !share.between.is_empty()), classes, view })
    }
}

/// What of these intervals rules of other releases judged, and how to judge it again; to be read.
pub(super) fn judged_otherwise<'a>(intervals: impl IntoIterator<Item = &'a Interval>, clock: &Clock) -> Option<String> {
    let Span { start_ms, end_ms, gpu_ms } = other_rules(intervals)?;
    let (start_ms, end_ms) = (start_ms - start_ms.rem_euclid(HOUR_MS), end_ms + (-end_ms).rem_euclid(HOUR_MS));
    let shown = [clock.show(start_ms), clock.show(end_ms)];
    let shown = shown.each_ref().map(String::as_str);
    Some(text::judged_otherwise(gpu_ms, shown, &rfc3339(start_ms), &rfc3339(end_ms)))
}

/// The ledger in four numbers.
pub(super) fn tiles(ledger: &Ledger<'_>) -> Vec<Tile> {
    let capacity = ledger.capacity().ms;
    let of = |sum: Sum<'_>| sum.amount(capacity);
    let (lost, allocated) = (ledger.lost(), of(ledger.allocated()));
    let (known, no_data) = (of(ledger.with_data()), of(ledger.get(Class::NoData)));
    let headline = ledger.headline();
    let tile = |value, name, note| Tile { value, name, note };
    let money = if lost.cost.is_empty() { String::new() } else { format!("{} · ", lost.money()) };
    vec![
        tile(
            text::percent(headline.goodput),
            if headline.is_of_known { "goodput of the time with data" } else { "goodput" },
            format!("{} of capacity has data", known.percent()),
        ),
        tile(
            lost.hours(),
            "GPU-hours lost",
            format!("{money}{} of {} GPU-hours", lost.percent(), text::hours(capacity)),
        ),
        tile(allocated.percent(), "allocated", format!("{} GPU-hours held by someone", allocated.hours())),
        tile(
            no_data.hours(),
            "GPU-hours without data",
            format!("{} of capacity; not counted as lost", no_data.percent()),
        ),
    ]
}

/// The time that a run held, in four numbers.
pub(super) fn held_tiles(ledger: &Ledger<'_>, gpus: usize) -> Vec<Tile> {
    let held = ledger.capacity().amount(ledger.capacity().ms);
    let (lost, unexplained) = (ledger.lost(), ledger.get(Class::Unexplained).amount(held.gpu_ms));
    let cost = |amount: &Amount| if amount.cost.is_empty() { String::new() } else { amount.money() };
    let tile = |value, name, note| Tile { value, name, note };
    vec![
        tile(held.hours(), "GPU-hours held", cost(&held)),
        tile(text::percent(ledger.goodput()), "productive", format!("GPUs in this period: {gpus}")),
        tile(lost.hours(), "GPU-hours lost", format!("{} {}", lost.percent(), cost(&lost))),
        tile(unexplained.hours(), "GPU-hours not explained", format!("{} of the time held", unexplained.percent())),
    ]
}

/// The greatest loss, in words.
pub(super) fn greatest_loss(ledger: &Ledger) -> Option<(&'static str, String)> {
    let loss = ledger.losses().into_iter().next()?;
    Some((loss.class.name(), format!("{} GPU-hours, {}", loss.amount.hours(), loss.amount.percent())))
}
