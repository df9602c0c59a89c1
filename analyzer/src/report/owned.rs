//! Findings with what people said about them, and the findings of a week as they are noted.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt as _};
use jiff::tz::TimeZone;

use super::identity::finding_id;
use super::losses::Losses;
use super::scope::{Scope, Scopes};
use super::stored::{items, teams_in};
use super::sum::Sum;
use super::summed::Item;
use super::{FindingGroup, LEAST_COVERAGE, Period, Report, Terms, text};
use crate::ownership::Book;
use crate::teams::{Line, Mapper, Mapping, PLATFORM, Teams, UNASSIGNED, Who};
use goodput_exposition::sample::TimeMs;
use goodput_store::{ReadVerdicts, StoreError};
use goodput_verdict::{Class, FindingWeek};

/// Findings of a week that are noted, of the greatest loss; what was said something about is noted however small it is.
const MAX_NOTED: usize = 200;

/// Cluster and scope.
type Work<'a> = (Option<&'a str>, &'a Scope);

impl Report {
    /// The same with what is known by now of each finding beyond its figures.
    #[must_use]
    pub fn with_ownership(mut self, book: &Book, now: TimeMs) -> Self {
        let (start_ms, zone) = (self.period.start_ms, self.period.zone().clone());
        own(&mut self.groups, book, start_ms, (now, &zone));
        self
    }
}

impl Losses {
    /// As [`Report::with_ownership`], of a period that begins at `start_ms`.
    pub(crate) fn with_ownership(mut self, book: &Book, start_ms: TimeMs, at: (TimeMs, &TimeZone)) -> Self {
        own(&mut self.groups, book, start_ms, at);
        self
    }
}

fn own(groups: &mut [FindingGroup], book: &Book, start_ms: TimeMs, at: (TimeMs, &TimeZone)) {
    for group in groups {
        group.ownership = (!book.is_empty()).then(|| book.ownership(&group.id, start_ms, at));
    }
}

impl FindingGroup {
    /// Is it large enough to be acted on: half a percent of capacity, or what is set?
    pub(super) fn is_first(&self, first_at_least: Option<f64>) -> bool {
        let least = first_at_least.unwrap_or(f64::INFINITY);
        let costs = matches!(self.lost.cost.as_slice(), [cost] if cost.amount >= least);
        costs || self.lost.share.is_some_and(|share| share >= text::FIRST_SHARE)
    }

    /// What is known of it beyond its figures, to be read; nothing where nothing is.
    #[must_use]
    pub fn words(&self) -> &[String] {
        self.ownership.as_ref().map_or(&[], |ownership| &ownership.words)
    }
}

/// The findings of a week that is over. Of those of `book` that it does not have, it is said whether the same work or GPUs were
/// there.
pub(crate) async fn finding_weeks(
    verdicts: &impl ReadVerdicts,
    week: &Period,
    terms: &Terms,
    book: &Book,
) -> Result<Vec<FindingWeek>, StoreError> {
    let items = items(verdicts, &(week.start_ms..week.end_ms), &terms.prices).await?;
    let teams = teams_in(verdicts, week, terms).await?;
    Ok(of(&items, week, (&teams, terms.first_at_least), book))
}

fn of(items: &[Item<'_>], week: &Period, (teams, least): (&Teams, Option<f64>), book: &Book) -> Vec<FindingWeek> {
    let (losses, scopes) = (Losses::of(items, None, Sum::of(items).ms), Scopes::of(items));
    let (ran, teams) = (ran(items, &scopes), teams_of(items, &scopes, (teams, week.start_ms)));
    let bare = |id: &str, (cluster, scope): Work<'_>, class: Class| FindingWeek {
        week: week.label.clone(),
        id: id.to_owned(),
        start_ms: week.start_ms,
        end_ms: week.end_ms,
        cluster: cluster.map(str::to_owned),
        class,
        subject: scope.subject(),
        team: None,
        lost_ms: 0,
        ran_ms: ran.get(&(cluster, scope)).copied().unwrap_or_default(),
        currency: None,
        lost_micro: None,
        is_first: false,
    };
    let noted = |(n, group): (usize, &FindingGroup)| {
        let work = (group.cluster.as_deref(), &group.scope);
        let cost = match group.lost.cost.as_slice() {
            [cost] if cost.priced_ms == group.lost.gpu_ms => Some((cost.currency.clone(), cost.micros)),
            _ => None,
        };
        (n < MAX_NOTED || !book.events(&group.id).is_empty()).then(|| FindingWeek {
            team: teams.get(&(group.class, work)).cloned(),
            lost_ms: group.lost.gpu_ms,
            currency: cost.as_ref().map(|(currency, _)| currency.clone()),
            lost_micro: cost.map(|(_, micros)| micros),
            is_first: group.is_first(least),
            ..bare(&group.id, work, group.class)
        })
    };
    let mut all: Vec<FindingWeek> = losses.groups.iter().enumerate().filter_map(noted).collect();
    let there: BTreeSet<&str> = losses.groups.iter().map(|group| group.id.as_str()).collect();
    let missed: BTreeSet<&str> = book.ids().filter(|id| !there.contains(id)).collect();
    if !missed.is_empty() {
        for (work, class) in ran.keys().flat_map(|work| Class::ALL.iter().map(move |class| (*work, *class))) {
            let id = finding_id(work.0, class, work.1.kind(), &work.1.key());
            all.extend(missed.contains(id.as_str()).then(|| bare(&id, work, class)));
        }
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// The time of each work that has data; 0 where that is too little of it to say that something was not there.
fn ran<'a>(items: &'a [Item<'_>], scopes: &'a Scopes<'_>) -> HashMap<Work<'a>, i64> {
    let mut times: HashMap<Work<'a>, [i64; 2]> = HashMap::new();
    for (item, work) in items.iter().filter_map(|item| Some((item, work(item, scopes)?))) {
        let [known, whole] = times.entry(work).or_default();
        *whole += item.ms;
        *known += if item.class == Class::NoData { 0 } else { item.ms };
    }
    let enough = |[known, whole]: [i64; 2]| if known as f64 >= LEAST_COVERAGE * whole as f64 { known } else { 0 };
    times.into_iter().map(|(work, times)| (work, enough(times))).collect()
}

fn work<'a>(item: &'a Item<'_>, scopes: &'a Scopes<'_>) -> Option<Work<'a>> {
    let interval = item.interval();
    let cluster = interval.cluster.as_deref();
    Some((cluster, scopes.get(cluster, interval.holder(), Some(&interval.node))?))
}

/// Of each class and work, the team that had the most of it; of none, where no teams are configured.
fn teams_of<'a>(
    items: &'a [Item<'_>],
    scopes: &'a Scopes<'_>,
    (teams, start): (&Teams, TimeMs),
) -> HashMap<(Class, Work<'a>), String> {
    if teams.is_empty() {
        return HashMap::new();
    }
    let mapping = Mapping::at(teams, start);
    let mut mapper = Mapper::new(&mapping);
    let mut times: HashMap<(Class, Work<'a>), HashMap<Line, i64>> = HashMap::new();
    for (item, work) in items.iter().filter_map(|item| Some((item, work(item, scopes)?))) {
        let line = mapper.line(item.class, Who::of(item.interval()));
        *times.entry((item.class, work)).or_default().entry(line).or_default() += item.ms;
    }
    let name = |line: Line| match line {
        Line::Team(place) => mapping.teams()[place].name.clone(),
        Line::Unassigned => UNASSIGNED.to_owned(),
        Line::Platform => PLATFORM.to_owned(),
    };
    let most =
        |lines: HashMap<Line, i64>| lines.into_iter().max_by_key(|(line, ms)| (*ms, *line)).map(|(line, _)| line);
    times.into_iter().filter_map(|(key, lines)| Some((key, name(most(lines)?)))).collect()
}
