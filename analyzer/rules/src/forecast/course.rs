//! Something that is followed over time, and how its forecast is made at any of its moments.

use super::disk::FileSystem;
use super::network::{self, Network};
use super::{Forecast, Kind, Prospect, disk, eviction, hardware, memory};
use crate::classify::Thresholds;
use crate::frame::{Levels, named};
use crate::signal::Entity;
use goodput_exposition::sample::TimeMs;

type Look<'a> = dyn Fn(TimeMs, &Thresholds) -> Option<Forecast> + Sync + 'a;

/// What is followed, whose it is, and how to look at it.
pub(super) struct Course<'a> {
    pub(super) kind: Kind,
    pub(super) cluster: &'a str,
    pub(super) node: &'a str,
    pub(super) entity: String,
    /// Those whose holders it hits.
    pub(super) gpus: Vec<&'a Levels<'a>>,
    /// `None` where there is nothing to tell, or too little is known.
    pub(super) look: Box<Look<'a>>,
}

impl<'a> Course<'a> {
    /// All that is known of.
    pub(super) fn all(
        levels: &'a [Levels<'a>],
        disks: &'a [FileSystem],
        network: &'a Network,
        t: &Thresholds,
    ) -> Vec<Course<'a>> {
        let each = levels.iter().flat_map(|l| memory::course(l).into_iter().chain(hardware::courses(l)));
        let links = network.courses(levels).into_iter().chain(network::nvlink_courses(levels));
        let disks = disks.iter().flat_map(disk::courses).chain(eviction::courses(levels, disks, t));
        each.chain(disks).chain(links).collect()
    }

    pub(super) fn prospect(&self, now: TimeMs, t: &Thresholds) -> Option<Prospect> {
        (self.look)(now, t).map(|forecast| self.tell(now, forecast))
    }

    /// The same where there is anything to be feared.
    pub(super) fn risk(&self, now: TimeMs, t: &Thresholds) -> Option<Prospect> {
        (self.look)(now, t).filter(Forecast::is_risk).map(|forecast| self.tell(now, forecast))
    }

    fn tell(&self, now: TimeMs, forecast: Forecast) -> Prospect {
        let mut owners: Vec<String> = self.gpus.iter().flat_map(|levels| levels.holders(now)).collect();
        owners.sort();
        owners.dedup();
        let (cluster, node, entity) = (named(self.cluster), self.node.to_owned(), self.entity.clone());
        Prospect { cluster, node, entity, owners, made_ms: now, kind: self.kind, forecast }
    }
}

/// The name of the GPU, instance, owner, container or node.
pub(super) fn entity_of(levels: &Levels<'_>) -> String {
    match levels.entity {
        Entity::Gpu(id) | Entity::Job(id) => id.to_owned(),
        Entity::MigInstance(gpu, id) => format!("{gpu}/{id}"),
        Entity::Node | Entity::Server => levels.container.as_ref().unwrap_or(&levels.node).clone(),
    }
}
