//! What is to be expected now: what runs out within a day, and which GPUs and links may fail.

use super::chosen::Chosen;
use super::link;
use super::page::{Link, Problem};
use super::sorted::Key;
use super::view::{Of, View};
use crate::app::Progress;
use crate::report::{Names, risk_outlook, risk_signs, risk_title};
use goodput_verdict::{Class, Level, Prospect};

/// Seconds: what runs out later is in the report.
const SOON: f64 = 24.0 * 3600.0;
/// Lines of each table; the API has the others.
const MAX_LINES: usize = 10;

/// What is at risk.
pub(super) struct Outlook {
    /// Is some memory or disk watched? Else nothing is known of what runs out.
    pub(super) has_forecasts: bool,
    /// Has some GPU samples of the last minutes? Else nothing is known of damage.
    pub(super) has_samples: bool,
    /// What runs out, the nearest end first.
    pub(super) due: Risks,
    /// GPUs and parts of the network that may fail, the most pressing first.
    pub(super) ill: Risks,
}

/// A table of risks.
pub(super) struct Risks {
    pub(super) lines: Vec<Line>,
    pub(super) view: View,
    /// How many are left out.
    pub(super) more: usize,
}

/// One thing at risk.
pub(super) struct Line {
    pub(super) what: String,
    pub(super) subject: Link,
    pub(super) owners: String,
    /// When its end is expected, or how pressing it is.
    pub(super) when: String,
    /// How full it is, or what is damaged.
    pub(super) state: String,
}

impl Outlook {
    /// As at the last minute that is judged.
    pub(super) fn of(progress: &Progress, names: &Names, chosen: &Chosen, of: Of<'_>) -> Result<Self, Problem> {
        let end = |prospect: &Prospect| prospect.at_risk().map(|left| left.likely_seconds);
        let mut due: Vec<(f64, &Prospect)> =
            progress.prospects.iter().filter_map(|p| Some((end(p).filter(|end| *end <= SOON)?, p))).collect();
        due.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ill: Vec<(Level, &Prospect)> =
            progress.prospects.iter().filter_map(|p| Some((p.damage()?.level, p))).collect();
        ill.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        let lines = |all: Vec<&Prospect>| all.into_iter().map(|prospect| line(prospect, names, chosen)).collect();
        Ok(Self {
            has_forecasts: progress.prospects.iter().any(|prospect| prospect.exhaustion().is_some()),
            has_samples: progress.last_minutes.iter().any(|interval| interval.class != Class::NoData),
            due: Risks::of(lines(due.into_iter().map(|(_, p)| p).collect()), Of { id: "due", ..of })?,
            ill: Risks::of(lines(ill.into_iter().map(|(_, p)| p).collect()), Of { id: "ill", ..of })?,
        })
    }
}

impl Risks {
    /// Of lines that come with the most pressing first.
    fn of(mut lines: Vec<Line>, of: Of<'_>) -> Result<Self, Problem> {
        let key = |line: &Line, column: &str| {
            Key::Text(match column {
                "what" => line.what.clone(),
                "where" => line.subject.text.clone(),
                "state" => line.state.clone(),
                "owners" => line.owners.clone(),
                _ => line.when.clone(),
            })
        };
        let text =
            |line: &Line| [&line.what, &line.subject.text, &line.state, &line.owners].map(String::as_str).join(" ");
        let view = of.view(&mut lines, &["when", "what", "where", "state", "owners"], key, text)?;
        let more = lines.len().saturating_sub(MAX_LINES);
        lines.truncate(MAX_LINES);
        Ok(Self { lines, view, more })
    }
}

/// What is at risk of one GPU, on its page.
pub(super) fn of_gpu(
    progress: &Progress,
    uuid: &str,
    names: &Names,
    chosen: &Chosen,
    of: Of<'_>,
) -> Result<Risks, Problem> {
    let is_of = |p: &&Prospect| p.is_risk() && gpu(p) == Some(uuid);
    Risks::of(progress.prospects.iter().filter(is_of).map(|prospect| line(prospect, names, chosen)).collect(), of)
}

fn line(prospect: &Prospect, names: &Names, chosen: &Chosen) -> Line {
    let signs = prospect.damage().map(|damage| risk_signs(damage).join("; "));
    let pressing = prospect.damage().map(|damage| match damage.level {
        Level::Act => "act before the next job",
        Level::Watch => "watch",
    });
    let end = prospect.expected_ms().map(|end| chosen.clock.show(end));
    Line {
        what: risk_title(prospect.kind),
        subject: subject(prospect, names, chosen),
        owners: prospect.owners.join(", "),
        when: end.or(pressing.map(str::to_owned)).unwrap_or_default(),
        state: signs.or_else(|| risk_outlook(prospect)).unwrap_or_default(),
    }
}

/// The UUID of the GPU that it is about.
fn gpu(prospect: &Prospect) -> Option<&str> {
    // A MIG instance is its GPU, a slash and its id.
    prospect.kind.is_of_gpu().then(|| prospect.entity.split('/').next().unwrap_or(&prospect.entity))
}

fn subject(prospect: &Prospect, names: &Names, chosen: &Chosen) -> Link {
    let Prospect { cluster, node, entity, .. } = prospect;
    let (path, name) = match gpu(prospect) {
        Some(uuid) => (link::gpu(uuid), names.on_node(node, uuid)),
        None if entity == node => (link::node(cluster.as_deref(), node), node.clone()),
        None => (link::node(cluster.as_deref(), node), format!("{entity} on {node}")),
    };
    Link::new(format!("{path}?{}", chosen.query), name)
}
