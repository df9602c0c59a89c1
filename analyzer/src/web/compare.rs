//! `/compare`: two periods of the fleet or of one node, or two nodes over one period, the greatest change first.

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::chosen::{Chosen, PeriodQuery};
use super::clock::rfc3339;
use super::kept::{Kept, given};
use super::link;
use super::page::{Frame, Link, Page, Problem, show};
use super::picker::Picker;
use super::share::Shares;
use super::sorted::Key;
use super::view::{Fields, Of, View};
use crate::app::App;
use crate::report::{Amount, Comparison, Item, Ledger, items_of, recall_in, text};
use goodput_store::Results;
use goodput_verdict::Class;

/// What is compared: the period with another one, of the fleet or of a node, or the node with another one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    node: Option<String>,
    cluster: Option<String>,
    /// The other node.
    with: Option<String>,
    with_cluster: Option<String>,
    /// The other period, as `period` has it.
    against: Option<String>,
    against_start: Option<String>,
    against_end: Option<String>,
}

#[derive(Template)]
#[template(path = "web/compare.html")]
struct Compare {
    frame: Frame,
    picker: Picker,
    /// The two, A and B.
    sides: [Side; 2],
    /// How the changes are to be read, or why there are none.
    note: String,
    has_changes: bool,
    sums: Vec<Line>,
    classes: Vec<Line>,
    classes_view: View,
    /// Other periods to compare with.
    periods: Vec<Link>,
    /// The hidden fields of the forms: the period, and whose it is.
    time: Vec<(String, String)>,
    whose: Kept,
    /// What the form for nodes begins with: name, cluster.
    nodes: [[String; 2]; 2],
    /// Is a cluster asked for?
    has_clusters: bool,
}

/// A or B.
struct Side {
    letter: char,
    /// Its page over this time.
    page: Link,
    /// From when until when, with the zone.
    time: String,
    shares: Shares,
    api: String,
}

/// A line of a table: a sum in A and B, and its change.
struct Line {
    name: &'static str,
    /// Of a class: what people read before its name.
    title: &'static str,
    values: [Value; 2],
    /// Empty where the two cannot be compared.
    change: String,
}

/// A figure, and its share of capacity or what it is of.
struct Value {
    figure: String,
    share: String,
}

/// A node; without a cluster, all nodes of its name.
#[derive(Clone)]
struct Node {
    name: String,
    cluster: Option<String>,
}

/// A time, of a node or of the fleet, and what is stored of it.
struct Found<'a> {
    node: Option<Node>,
    time: Chosen,
    items: Vec<Item<'a>>,
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(asked): Query<Asked>,
    Query(fields): Query<Fields>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let (node, with) = asked.nodes()?;
    let against = asked.against(&app, &chosen)?;
    let is_named = with.is_some() || against.is_some();
    let reach = app.store.extent().await?.map(|extent| extent.end);
    let [a, b] = chosen.compared(with.is_some(), against.as_ref(), reach);
    let mut one = Found::read(&app, node.clone(), a).await?;
    let mut other = Found::read(&app, with.or(node), b).await?;
    recall_in([&mut one.items, &mut other.items]);
    one.keep_cluster();
    other.keep_cluster();
    // Where the time before has no data, the page says so: no query named it.
    match [one.items.is_empty(), other.items.is_empty() && is_named] {
        [true, _] => Err(one.missing(&app).await?),
        [_, true] => Err(other.missing(&app).await?),
        _ => show(&compare(&chosen, &one, &other, &asked, &fields)?),
    }
}

impl Asked {
    /// The node, and the one that it is compared with.
    fn nodes(&self) -> Result<(Option<Node>, Option<Node>), Problem> {
        let node = |name: &Option<String>, cluster: &Option<String>| {
            given(name).map(|name| Node { name: name.to_owned(), cluster: given(cluster).map(str::to_owned) })
        };
        let (one, other) = (node(&self.node, &self.cluster), node(&self.with, &self.with_cluster));
        match (&one, &other) {
            (None, Some(_)) => Err(Problem::bad("node: missing, while there is with; expected the name of a node")),
            (_, Some(_)) if self.has_against() => {
                Err(Problem::bad("with: given together with another period; expected one or the other"))
            }
            _ => Ok((one, other)),
        }
    }

    fn has_against(&self) -> bool {
        [&self.against, &self.against_start, &self.against_end].into_iter().any(|field| given(field).is_some())
    }

    /// The other period, where one is named.
    fn against<S>(&self, app: &App<S>, chosen: &Chosen) -> Result<Option<Chosen>, Problem> {
        if !self.has_against() {
            return Ok(None);
        }
        let query = PeriodQuery::of([&self.against, &self.against_start, &self.against_end]);
        let against = Chosen::of(&query, (app.now)(), &chosen.clock.zone);
        against.map(Some).map_err(|problem| Problem { what: format!("compared with: {}", problem.what), ..problem })
    }

    /// What stays while another period is chosen.
    fn kept(&self) -> Kept {
        Kept::of([
            ("node", &self.node),
            ("cluster", &self.cluster),
            ("with", &self.with),
            ("with_cluster", &self.with_cluster),
        ])
    }
}

impl<'a> Found<'a> {
    async fn read<S: Results>(app: &'a App<S>, node: Option<Node>, time: Chosen) -> Result<Self, Problem> {
        let name = node.as_ref().map(|node| node.name.as_str());
        let items = items_of(&app.store, &time.range(), name, &app.terms.prices).await?;
        Ok(Self { node, time, items })
    }

    /// Leaves out nodes of the same name in other clusters.
    fn keep_cluster(&mut self) {
        let cluster = self.node.as_ref().and_then(|node| node.cluster.as_ref());
        self.items.retain(|item| cluster.is_none() || item.cluster.as_ref() == cluster);
    }

    /// That there is nothing of it, and when there is something.
    async fn missing<S: Results>(&self, app: &App<S>) -> Result<Problem, Problem> {
        let of = self.node.as_ref().map_or_else(String::new, |node| match &node.cluster {
            Some(cluster) => format!(" for node {} of cluster {cluster}", node.name),
            None => format!(" for node {}", node.name),
        });
        let reaching = app.store.extent().await?.map(|extent| format!("{}. ", self.time.period().reaching(&extent)));
        let advice = "Choose another period, or find the node in the list of the fleet.";
        let what = format!("No verdict is stored{of} from {}", self.time.show());
        Ok(Problem::missing(what, format!("{}{advice}", reaching.unwrap_or_default()), self.time.choices("/compare")))
    }

    fn side(&self, letter: char, ledger: &Ledger<'_>) -> Side {
        let (path, text) = match &self.node {
            Some(Node { name, cluster }) => (link::node(cluster.as_deref(), name), format!("Node {name}")),
            None => ("/".to_owned(), "Fleet".to_owned()),
        };
        let (node, cluster) = match &self.node {
            Some(node) => (Some(node.name.clone()), node.cluster.clone()),
            None => (None, None),
        };
        let whose = Kept::of([("node", &node), ("cluster", &cluster)]);
        Side {
            letter,
            page: Link::new(format!("{path}?{}", self.time.query), text),
            time: self.time.show(),
            shares: Shares::of(ledger),
            api: format!("by=class{}&{}", whose.query(), self.time.hours_query()),
        }
    }
}

fn compare(
    chosen: &Chosen,
    one: &Found<'_>,
    other: &Found<'_>,
    asked: &Asked,
    fields: &Fields,
) -> Result<Compare, Problem> {
    let labelled = |found: &Found<'_>| {
        let (time, node) = (found.time.name(), found.node.as_ref().filter(|_| given(&asked.with).is_some()));
        let label = node.map_or_else(|| time.clone(), |node| format!("{time} on {}", node.name));
        found.time.period().named(label)
    };
    let (comparison, comparable) = Comparison::of(&labelled(one), &one.items, labelled(other), &other.items);
    let (ledgers, has_changes) = ([Ledger::of(&one.items), Ledger::of(&other.items)], comparable.is_some());
    let of = Of { path: "/compare", fields, id: "classes" };
    let (classes, classes_view) = classes(&ledgers, &comparison, has_changes, of)?;
    let kept = asked.kept().and(fields.kept());
    Ok(Compare {
        frame: Frame::new("Compare", vec![chosen.fleet()], chosen.is_open()),
        periods: periods(chosen, asked),
        time: chosen.fields(),
        whose: Kept::of([("node", &asked.node), ("cluster", &asked.cluster)]),
        nodes: [[&asked.node, &asked.cluster], [&asked.with, &asked.with_cluster]]
            .map(|node| node.map(|field| field.clone().unwrap_or_default())),
        has_clusters: given(&asked.cluster).or(given(&asked.with_cluster)).is_some(),
        picker: Picker::of(chosen, "/compare").keeping(kept),
        note: note(&comparison),
        sums: sums(&ledgers, &comparison, has_changes),
        classes,
        classes_view,
        sides: [one.side('A', &ledgers[0]), other.side('B', &ledgers[1])],
        has_changes,
    })
}

/// Other periods to compare with: the one before, and the same hours of weeks ago.
fn periods(chosen: &Chosen, asked: &Asked) -> Vec<Link> {
    let path = |more: String| {
        let whose = Kept::of([("node", &asked.node), ("cluster", &asked.cluster)]);
        format!("/compare?{}{}{more}", chosen.query, whose.query())
    };
    let ago = |weeks: i64| {
        let [start, end] = [chosen.start_ms, chosen.end_ms].map(|time| chosen.clock.weeks_before(time, weeks));
        path(match chosen.week() {
            Some(_) => format!("&against={}", chosen.week_of(start)),
            None => format!("&against_start={}&against_end={}", rfc3339(start), rfc3339(end)),
        })
    };
    let mut links = vec![Link::new(path(String::new()), "the time before")];
    if chosen.week().is_none() {
        links.push(Link::new(ago(1), "a week earlier"));
    }
    links.push(Link::new(ago(4), "four weeks earlier"));
    links
}

/// How the changes are to be read, or why there are none.
fn note(comparison: &Comparison) -> String {
    match &comparison.hindrance {
        Some(hindrance) => format!("No changes are shown: {hindrance}."),
        None if comparison.has_same_capacity => "Changes are A less B, in GPU-hours; of goodput, in points.".to_owned(),
        None => "Changes are A less B, in points of capacity, because capacity differs by more than 2 %.".to_owned(),
    }
}

/// Capacity and what became of it.
fn sums(ledgers: &[Ledger<'_>; 2], comparison: &Comparison, has_changes: bool) -> Vec<Line> {
    let amounts = |of: fn(&Ledger<'_>) -> Amount| ledgers.each_ref().map(of);
    let capacity = amounts(|ledger| ledger.capacity().amount(ledger.capacity().ms));
    let lost = amounts(|ledger| ledger.lost());
    let no_data = amounts(|ledger| ledger.get(Class::NoData).amount(ledger.capacity().ms));
    let hours = |name, [one, other]: &[Amount; 2], change: String| Line {
        name,
        title: "",
        values: [one, other].map(|amount| Value { figure: amount.hours(), share: amount.percent() }),
        change,
    };
    let change = |[one, other]: &[Amount; 2]| comparison.change(one, other);
    let goodput = ledgers.each_ref().map(Ledger::headline);
    let of_known = |is_of_known| if is_of_known { "of the time with data" } else { "" };
    let mut lines = vec![
        hours("capacity, GPU-hours", &capacity, capacity[0].hours_change(&capacity[1])),
        Line {
            name: "goodput",
            title: "",
            values: goodput.each_ref().map(|headline| Value {
                figure: text::percent(headline.goodput),
                share: of_known(headline.is_of_known).to_owned(),
            }),
            change: text::points(goodput[0].goodput.zip(goodput[1].goodput).map(|(one, other)| one - other)),
        },
        hours("lost, GPU-hours", &lost, change(&lost)),
        hours("without data, GPU-hours", &no_data, change(&no_data)),
    ];
    if lost.iter().any(|amount| !amount.cost.is_empty()) {
        // Money of another capacity is no saving.
        let is_same = comparison.has_same_capacity;
        lines.push(Line {
            name: "cost of the loss",
            title: "",
            values: lost.each_ref().map(|amount| Value { figure: amount.money(), share: String::new() }),
            change: if is_same { lost[0].money_change(&lost[1]) } else { "capacity differs".to_owned() },
        });
    }
    if !has_changes {
        lines.iter_mut().for_each(|line| line.change.clear());
    }
    lines
}

/// Each class that has time, the greatest change first, without changes the greatest of A, unless another order is asked for.
fn classes(
    ledgers: &[Ledger<'_>; 2],
    comparison: &Comparison,
    has_changes: bool,
    of: Of<'_>,
) -> Result<(Vec<Line>, View), Problem> {
    let amounts = |class: Class| ledgers.each_ref().map(|ledger| ledger.get(class).amount(ledger.capacity().ms));
    let mut all: Vec<(Class, [Amount; 2])> = Class::ALL.iter().map(|class| (*class, amounts(*class))).collect();
    all.retain(|(_, amounts)| amounts.iter().any(|amount| amount.gpu_ms > 0));
    let size = |[one, other]: &[Amount; 2]| match (has_changes, comparison.has_same_capacity) {
        (false, _) => one.gpu_ms as f64,
        (true, true) => (one.gpu_ms - other.gpu_ms).abs() as f64,
        (true, false) => (one.share.unwrap_or_default() - other.share.unwrap_or_default()).abs(),
    };
    all.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
    let columns: &[_] = if has_changes { &["change", "class", "a", "b"] } else { &["a", "class", "b"] };
    let key = |(class, amounts): &(Class, [Amount; 2]), column: &str| match column {
        "class" => Key::Text(class.title().to_owned()),
        "a" => Key::number(amounts[0].gpu_ms),
        "b" => Key::number(amounts[1].gpu_ms),
        _ => Key::ratio(Some(size(amounts))),
    };
    let text = |(class, _): &(Class, [Amount; 2])| format!("{} {}", class.title(), class.name());
    let view = of.view(&mut all, columns, key, text)?;
    let line = |(class, amounts): (Class, [Amount; 2])| Line {
        name: class.name(),
        title: class.title(),
        change: if has_changes { comparison.change(&amounts[0], &amounts[1]) } else { String::new() },
        values: amounts.each_ref().map(|amount| Value { figure: amount.hours(), share: amount.percent() }),
    };
    Ok((all.into_iter().map(line).collect(), view))
}

#[cfg(test)]
mod tests {
    use super::super::clock::HOUR_MS;
    use super::*;
    use crate::config::Config;
    use crate::report::{Period, Summed};
    use goodput_testing::bare;
    use goodput_verdict::Interval;
    use jiff::tz::TimeZone;

    #[test]
    fn with_prices_the_cost_is_compared_where_capacity_is_the_same() {
        let prices = "prices:\n- {model: H100, currency: EUR, per_gpu_hour: 4, valid_from: 1970-01-01}\n";
        let prices = Config::parse(prices).unwrap().prices;
        let idle = |hours: i64, gpus: usize| -> Vec<Interval> {
            let of =
                |class, span, n| Interval { model: Some("H100".into()), gpu: format!("GPU-{n}"), ..bare(class, span) };
            let time = |n| {
                [of(Class::IdleHeld, 0..hours * HOUR_MS, n), of(Class::Productive, hours * HOUR_MS..4 * HOUR_MS, n)]
            };
            (0..gpus).flat_map(time).filter(|i| i.ms > 0).collect()
        };
        let costs = |one: &[Interval], other: &[Interval]| {
            let period = Period::hours(&(0..4 * HOUR_MS), &TimeZone::UTC);
            let items = [one, other].map(|all| Summed::of(all, &prices));
            let (comparison, _) = Comparison::of(&period, &items[0], period.clone(), &items[1]);
            let line = sums(&items.each_ref().map(Ledger::of), &comparison, true).pop().unwrap();
            (line.name, line.values.map(|value| value.figure), line.change)
        };
        let figures = |one: &str, other: &str| [format!("EUR\u{a0}{one}"), format!("EUR\u{a0}{other}")];
        let same = costs(&idle(3, 1), &idle(1, 1));
        assert_eq!(same, ("cost of the loss", figures("12.00", "4.00"), "+EUR\u{a0}8.00".to_owned()));
        assert_eq!(costs(&idle(3, 2), &idle(1, 1)).2, "capacity differs");
    }
}
