//! What a report from another server's samples rests on, what they leave open, and what would show it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::gap::{advice, needs};
use super::{Amount, text};
use goodput_rules::classify::{Abstentions, Thresholds, too_coarse};
use goodput_rules::frame::Scraped;
use goodput_rules::signal::{self, Origin, Scope};
use goodput_verdict::Class;

/// Cells are no shorter, however often is scraped.
const SHORTEST_CELL_MS: i64 = 60_000;

/// The section that `try` adds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// Where the samples are from.
    pub server: String,
    /// How many they are.
    pub samples: u64,
    /// Answers of the server from which it left something out; null where there were none.
    pub partial: Option<PartialAnswers>,
    /// Who was scraped, and how often.
    pub scrapes: Vec<Scrape>,
    /// What to know of the figures, in sentences.
    pub notes: Vec<String>,
    /// Classes that could not be judged for lack of signals, those of the most time first.
    pub untold: Vec<Untold>,
    /// What gives the signals that these lacked, in order of name.
    pub added: Vec<Added>,
}

/// Answers that were not whole and were accepted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PartialAnswers {
    /// How many.
    pub answers: u64,
    /// Query with time range, and the server's words, of the first of them.
    pub first: Vec<(String, String)>,
}

/// One job of the server that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Scrape {
    /// The label `job` of its series; null where they have none.
    pub job: Option<String>,
    /// `GPUs`, `nodes` or `jobs`.
    pub of: &'static str,
    /// How many targets it has.
    pub targets: usize,
    /// Seconds from one sample to the next, in the median.
    pub interval_seconds: f64,
    /// Length of the cells by which its GPUs are judged; null where it has none.
    pub cell_seconds: Option<f64>,
}

/// A class whose rules lacked signals.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Untold {
    /// The class.
    pub class: Class,
    /// What it would say.
    pub meaning: &'static str,
    /// Time that its rules might have explained and could not judge; share of capacity.
    pub amount: Amount,
    /// The signals that they lacked; any one of them may be enough.
    pub missing: Vec<String>,
}

/// A signal that was not there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Added {
    /// The signal.
    pub signal: String,
    /// The metrics that give it, best first; any one is enough.
    pub origins: Vec<Origin>,
    /// What they need in addition to the exporter; null where nothing else is known to be needed.
    pub needs: Option<&'static str>,
}

impl Trial {
    /// How many samples were read, to be read.
    #[must_use]
    pub fn read(&self) -> String {
        text::quantity(self.samples as f64)
    }

    /// What was found out while judging, about so much capacity.
    #[must_use]
    pub fn of(abstentions: Abstentions, scraped: &[Scraped], capacity_ms: i64, t: &Thresholds) -> Self {
        let untold: Vec<Untold> = abstentions
            .by_time()
            .into_iter()
            .map(|(class, abstained)| Untold {
                class,
                meaning: class.info().meaning,
                amount: Amount::of(abstained.ms, capacity_ms),
                missing: abstained.missing.iter().map(|signal| signal.name().to_owned()).collect(),
            })
            .collect();
        let missing: BTreeSet<&String> = untold.iter().flat_map(|class| &class.missing).collect();
        let added = missing.into_iter().map(|signal| Added {
            signal: signal.clone(),
            origins: signal::origins(signal),
            needs: needs(signal),
        });
        Self {
            server: String::new(),
            samples: 0,
            partial: None,
            scrapes: scraped.iter().map(Scrape::of).collect(),
            notes: scraped.iter().filter_map(|scraped| consequence(scraped, t)).collect(),
            added: added.collect(),
            untold,
        }
    }
}

impl Scrape {
    fn of(scraped: &Scraped) -> Self {
        Self {
            job: Some(scraped.job.clone()).filter(|job| !job.is_empty()),
            of: match scraped.scope {
                Scope::Gpu => "GPUs",
                Scope::Node => "nodes",
                Scope::Job => "jobs",
            },
            targets: scraped.targets,
            interval_seconds: seconds(scraped.interval_ms),
            cell_seconds: (scraped.scope == Scope::Gpu).then(|| seconds(scraped.cell_ms())),
        }
    }
}

impl Scrape {
    /// The interval to be read.
    #[must_use]
    pub fn every(&self) -> String {
        format!("{} s", text::number(self.interval_seconds))
    }

    /// The length of cells to be read.
    #[must_use]
    pub fn cells(&self) -> String {
        self.cell_seconds.map_or_else(String::new, |cell| format!("{} s", text::number(cell)))
    }
}

/// What the interval between its scrapes means for verdicts, where it makes cells longer than they need to be.
fn consequence(scraped: &Scraped, t: &Thresholds) -> Option<String> {
    if scraped.scope != Scope::Gpu || scraped.cell_ms() <= SHORTEST_CELL_MS {
        return None;
    }
    let (interval, cell) = (seconds(scraped.interval_ms), seconds(scraped.cell_ms()));
    let off: Vec<&str> = too_coarse(scraped.cell_ms(), t).into_iter().map(Class::name).collect();
    let off = if off.is_empty() {
        "No class is out of reach for that.".to_owned()
    } else {
        format!("Too long to tell: {}.", off.join(", "))
    };
    let (interval, cell) = (text::number(interval), text::number(cell));
    Some(format!(
        "Samples of GPUs every {interval} s make cells of {cell} s: what is shorter than a cell is not told apart from what \
         is beside it, and utilisation and power are those at each scrape, about a second of {interval}. {off}"
    ))
}

impl Untold {
    /// The collectors of our exporter that give what is missing, to be read.
    #[must_use]
    pub fn collectors(&self) -> String {
        let all = self.missing.iter().flat_map(|signal| signal::origins(signal)).filter_map(|origin| origin.collector);
        let all: BTreeSet<&str> = all.collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    }
}

impl Added {
    /// Where it comes from, to be read.
    #[must_use]
    pub fn advice(&self) -> String {
        advice(&self.origins, self.needs)
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
