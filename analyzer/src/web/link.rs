//! Addresses of pages. Names of nodes, GPUs and owners may hold anything: they are escaped as a part of a path or query.

use super::chosen::Chosen;
use super::clock::rfc3339;
use super::stretch::Stretch;
use crate::report::site::escaped;
pub(super) use crate::report::site::{gpu, node, run, team};
use goodput_verdict::Interval;

/// The page of the run that held a GPU, over a period.
pub(super) fn run_of(interval: &Interval, chosen: &Chosen) -> Option<String> {
    Some(format!("{}?{}", run(interval.cluster.as_deref(), interval.holder()?), chosen.query))
}

/// Address of what a stretch's verdict rests on.
pub(super) fn evidence(uuid: &str, stretch: &Stretch<'_>) -> String {
    let (start, end) = (rfc3339(stretch.start_ms), rfc3339(stretch.end_ms));
    let owner = stretch.owner.map_or(String::new(), |owner| format!("&owner={}", escaped(owner)));
    let culprit = stretch.charged_to.and_then(|culprit| culprit.gpu.as_ref());
    let culprit = culprit.map_or(String::new(), |gpu| format!("&charged_to={}", escaped(gpu)));
    let instance = stretch.instance.map_or(String::new(), |instance| format!("&instance={}", instance.id));
    let class = stretch.class.name();
    format!("{}/evidence?class={class}&start={start}&end={end}{owner}{culprit}{}{instance}", gpu(uuid), cause(stretch))
}

/// The cause of a stretch, and the port that has it.
fn cause(stretch: &Stretch<'_>) -> String {
    let Some(cause) = stretch.cause else { return String::new() };
    let field =
        |name: &str, value: Option<&String>| value.map_or(String::new(), |value| format!("&{name}={}", escaped(value)));
    let node = field("charged_node", stretch.charged_to.map(|culprit| &culprit.node));
    format!("&cause={}{node}{}", cause.kind.name(), field("which", cause.which.as_ref()))
}
