//! NVLinks of the GPUs of a node, compared with each other.

/// Links of a GPU at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Links {
    /// Those that are up.
    pub(crate) up: f64,
    /// All that it has. GPUs of one node that have as many are of one model.
    pub(crate) all: f64,
}

/// With fewer peers nothing is usual.
const LEAST_PEERS: usize = 2;

/// How many links more than half of the other GPUs of its node have up, of those that have as many in all.
pub(crate) fn usual(own: Links, others: impl Iterator<Item = Links>) -> Option<f64> {
    let peers: Vec<f64> = others.filter(|other| other.all == own.all).map(|other| other.up).collect();
    let is_usual = |up: &&f64| 2 * peers.iter().filter(|other| other == up).count() > peers.len();
    peers.iter().find(is_usual).copied().filter(|_| peers.len() >= LEAST_PEERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_is_what_more_than_half_of_the_peers_have() {
        let links = |up: f64, all: f64| Links { up, all };
        let of = |others: &[(f64, f64)]| usual(links(0.0, 12.0), others.iter().map(|(up, all)| links(*up, *all)));
        assert_eq!(of(&[(12.0, 12.0), (12.0, 12.0), (0.0, 12.0)]), Some(12.0));
        assert_eq!(of(&[(12.0, 12.0), (0.0, 12.0)]), None, "as many have none");
        assert_eq!(of(&[(12.0, 12.0)]), None, "one peer");
        assert_eq!(of(&[(4.0, 4.0), (4.0, 4.0), (12.0, 12.0)]), None, "two are of another model");
    }
}
