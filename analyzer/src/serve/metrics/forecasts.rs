//! What is to be expected, as at the last minute that is judged.

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Ratio;
use crate::forecast::{Kind, Prospect, Sort};

/// Whose it is.
type Labels = Vec<(&'static str, String)>;

/// The gauges of one sort of what runs out.
struct Named {
    sort: Sort,
    used: (&'static str, &'static str),
    left: [(&'static str, &'static str); 3],
}

const LIKELY: &str = "if it goes on growing as it does; absent where it is not at risk";
const SOONEST: &str = "Predicted time until the limit, at the steepest slope of the 90 % interval";
const LATEST: &str =
    "Predicted time until the limit, at the flattest slope of the 90 % interval; absent beyond the horizon";

const RUNS_OUT: &[Named] = &[
    Named {
        sort: Sort::Memory,
        used: (
            "memory_used_ratio",
            "Memory in use of its limit at the latest peak of five minutes. Memory gpu: of what the driver does not \
             reserve; cgroup: the working set of memory.max; host: what is not available of the node's",
        ),
        left: [
            ("oom_risk_seconds", "Time until memory reaches its limit"),
            ("oom_risk_soonest_seconds", SOONEST),
            ("oom_risk_latest_seconds", LATEST),
        ],
    },
    Named {
        sort: Sort::Disk,
        used: (
            "disk_used_ratio",
            "Space (room bytes) or inodes of a file system in use at the latest peak of five minutes, root's reserve \
             with them",
        ),
        left: [
            ("disk_full_risk_seconds", "Time until a file system is full"),
            ("disk_full_risk_soonest_seconds", SOONEST),
            ("disk_full_risk_latest_seconds", LATEST),
        ],
    },
    Named {
        sort: Sort::Eviction,
        used: (
            "eviction_used_ratio",
            "Share in use, at the latest peak of five minutes, of what may be before the kubelet evicts pods by the \
             signal; of nodes where pods hold GPUs",
        ),
        left: [
            ("eviction_risk_seconds", "Time until the kubelet evicts pods"),
            ("eviction_risk_soonest_seconds", SOONEST),
            ("eviction_risk_latest_seconds", LATEST),
        ],
    },
];

pub(super) fn register(registry: &mut Registry, prospects: &[Prospect]) {
    for named in RUNS_OUT {
        runs_out(registry, named, prospects.iter().filter(|p| p.kind.sort() == named.sort));
    }
    let hardware = Family::<Labels, Ratio>::default();
    for prospect in prospects {
        if let Some(damage) = prospect.damage() {
            let mut labels = labels(prospect);
            labels.push(("level", damage.level.name().to_owned()));
            hardware.get_or_create(&labels).set(1.0);
        }
    }
    registry.register(
        "hardware_risk",
        "1 for what tells that a GPU may fail. Level watch: nothing has failed; act: something is to be done before the \
         next job",
        hardware,
    );
}

fn runs_out<'a>(registry: &mut Registry, named: &Named, prospects: impl Iterator<Item = &'a Prospect>) {
    let [used, likely, soonest, latest] = [(); 4].map(|()| Family::<Labels, Ratio>::default());
    for prospect in prospects {
        let labels = labels(prospect);
        let Some(exhaustion) = prospect.exhaustion() else { continue };
        used.get_or_create(&labels).set(exhaustion.used / exhaustion.limit);
        let Some(limit) = exhaustion.at_risk else { continue };
        likely.get_or_create(&labels).set(limit.likely_seconds);
        soonest.get_or_create(&labels).set(limit.soonest_seconds);
        if let Some(seconds) = limit.latest_seconds {
            latest.get_or_create(&labels).set(seconds);
        }
    }
    let [(name, help), early, late] = named.left;
    registry.register(named.used.0, named.used.1, used);
    registry.register(name, format!("{help} {LIKELY}"), likely);
    registry.register(early.0, early.1, soonest);
    registry.register(late.0, late.1, latest);
}

fn labels(prospect: &Prospect) -> Labels {
    let which = prospect.kind.which().to_owned();
    let entity = prospect.entity.clone();
    let what = match prospect.kind {
        Kind::Memory(_) => vec![("memory", which), ("entity", entity)],
        Kind::Disk(_) => vec![("room", which), ("mountpoint", entity)],
        Kind::Eviction(_) => vec![("signal", which)],
        Kind::Hardware(_) => vec![("gpu", entity), ("fault", which)],
    };
    let cluster = prospect.cluster.clone().map(|cluster| ("cluster", cluster));
    cluster.into_iter().chain([("node", prospect.node.clone())]).chain(what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_two_clusters_call_alike_have_series_of_their_own() {
        let risks = crate::store::examples().risks;
        let east = &risks[0].last;
        let names = |prospect: &Prospect| labels(prospect).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let (west, nowhere) = (Some("west".to_owned()), None);
        let [west, nowhere] = [west, nowhere].map(|cluster| Prospect { cluster, ..east.clone() });
        assert_eq!(names(east)[..2], ["cluster", "node"]);
        assert_ne!(labels(east), labels(&west));
        assert_eq!(names(&nowhere)[0], "node", "no label stands for none");
    }
}
