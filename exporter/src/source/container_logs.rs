//! The names of containers, from the links to their logs on the host and from the folders of these logs.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{self, Roots};
use crate::parse::container_log::{self, ContainerName};

/// The least digits of a container id that are taken for it: as many as runtimes print.
const SHORT_ID: usize = 12;

/// A link to a log, as far as its name goes.
struct Link {
    /// The container's id, or its beginning.
    id: String,
    name: ContainerName,
    /// UID of the pod, if the link's target tells.
    uid: Option<String>,
}

/// What the host's folders of logs say. No log is read.
pub struct Logs {
    links: Vec<Link>,
    /// Pods by UID.
    pods: BTreeMap<String, ContainerName>,
}

impl Logs {
    /// Lists both folders; `None` where neither is to be seen: there is no kubelet, or its logs are out of sight.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        let folder = roots.root.join("var/log/containers");
        let files = files::names(&folder);
        let pods = files::names(&roots.root.join("var/log/pods"));
        if files.is_none() && pods.is_none() {
            return None;
        }
        let link = |file: &String| {
            if let Some((id, name)) = container_log::parse(file) {
                return Some(Link { id: id.to_owned(), name, uid: None });
            }
            // A name that was cut; the target has all of it.
            let target = std::fs::read_link(folder.join(file)).ok()?;
            let (name, uid) = container_log::target(target.to_str()?)?;
            let (_, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
            Some(Link { id: id.to_owned(), name, uid: Some(uid.to_owned()) })
        };
        let pod = |folder: &String| container_log::pod_folder(folder).map(|(name, uid)| (uid.to_owned(), name));
        Some(Self {
            links: files.iter().flatten().filter_map(link).collect(),
            pods: pods.iter().flatten().filter_map(pod).collect(),
        })
    }

    /// The name of a container: by its link, else by the only container of its pod that has a folder.
    #[must_use]
    pub fn name(&self, roots: &Roots, id: &str, uid: Option<&str>) -> Option<ContainerName> {
        let begins = |link: &&Link| link.id.len() >= SHORT_ID && id.starts_with(&link.id);
        if let Some(link) = self.links.iter().find(begins) {
            return Some(link.name.clone());
        }
        let of_pod: BTreeSet<&ContainerName> = self
            .links
            .iter()
            .filter(|link| link.uid.is_some() && link.uid.as_deref() == uid)
            .map(|link| &link.name)
            .collect();
        if let (Some(name), 1) = (of_pod.first(), of_pod.len()) {
            return Some((*name).clone());
        }
        let pod = self.pods.get(uid?)?;
        let folder = format!("{}_{}_{}", pod.namespace, pod.pod, uid?);
        let mut containers = files::names(&roots.root.join("var/log/pods").join(folder))?;
        let container = containers.pop().filter(|_| containers.is_empty())?;
        Some(ContainerName { container, ..pod.clone() })
    }

    /// Ids of the pod's containers, or their beginnings, and UIDs that the pod has had.
    pub fn of_pod<'a>(&'a self, namespace: &'a str, pod: &'a str) -> impl Iterator<Item = &'a str> {
        let is = move |name: &ContainerName| name.namespace == namespace && name.pod == pod;
        let links = self.links.iter().filter(move |link| is(&link.name));
        let ids = links.flat_map(|link| [Some(link.id.as_str()), link.uid.as_deref()]).flatten();
        ids.chain(self.pods.iter().filter(move |(_, name)| is(name)).map(|(uid, _)| uid.as_str()))
    }
}
