//! Addresses of pages. Names of nodes, GPUs and owners may hold anything: they are escaped as a part of a path or query.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::clock::rfc3339;
use super::stretch::Stretch;

/// What RFC 3986 lets stand as it is in every part of an address.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Path of a node's page; without a cluster, of all nodes of the name.
pub(super) fn node(cluster: Option<&str>, name: &str) -> String {
    let within = cluster.map_or(String::new(), |cluster| format!("/clusters/{}", escaped(cluster)));
    format!("{within}/nodes/{}", escaped(name))
}

/// Path of a GPU's page.
pub(super) fn gpu(uuid: &str) -> String {
    format!("/gpus/{}", escaped(uuid))
}

/// Address of what a stretch's verdict rests on.
pub(super) fn evidence(uuid: &str, stretch: &Stretch<'_>) -> String {
    let (start, end) = (rfc3339(stretch.start_ms), rfc3339(stretch.end_ms));
    let owner = stretch.owner.map_or(String::new(), |owner| format!("&owner={}", escaped(owner)));
    let culprit = stretch.charged_to.map_or(String::new(), |culprit| format!("&charged_to={}", escaped(&culprit.gpu)));
    let instance = stretch.instance.map_or(String::new(), |instance| format!("&instance={}", instance.id));
    let class = stretch.class.name();
    format!("{}/evidence?class={class}&start={start}&end={end}{owner}{culprit}{instance}", gpu(uuid))
}
