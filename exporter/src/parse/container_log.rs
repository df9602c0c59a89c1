//! Names in `/var/log/containers`, where the kubelet links the log of each container of a pod.

/// A container of a pod, by the names that its user knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerName {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container within the pod.
    pub container: String,
}

/// Digits of a container id.
const ID: usize = 64;

/// Container id and names out of `POD_NAMESPACE_CONTAINER-ID.log`; `None` for any other file. None of the three names
/// can hold a `_` (they are DNS labels).
#[must_use]
pub fn parse(file: &str) -> Option<(&str, ContainerName)> {
    let (names, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
    let is_id = id.len() == ID && id.bytes().all(|b| b.is_ascii_hexdigit());
    let mut names = names.split('_').filter(|name| !name.is_empty()).map(str::to_owned);
    let (pod, namespace, container) = (names.next()?, names.next()?, names.next()?);
    (is_id && names.next().is_none()).then_some((id, ContainerName { namespace, pod, container }))
}

/// Names out of the folder of a pod's logs and the container's folder in it, `NAMESPACE_POD_UID/CONTAINER`, wherever the link
/// to a log leads: the kubelet cuts the name of the link itself at 255 bytes, and with it the names or the id.
#[must_use]
pub fn target(path: &str) -> Option<(ContainerName, &str)> {
    let mut folders = path.rsplit('/').skip(1);
    let (container, pod) = (folders.next()?, folders.next()?);
    let (name, uid) = pod_folder(pod)?;
    (!container.is_empty()).then(|| (ContainerName { container: container.to_owned(), ..name }, uid))
}

/// Namespace and name of the pod, without a container, and its UID, out of the folder of its logs.
#[must_use]
pub fn pod_folder(folder: &str) -> Option<(ContainerName, &str)> {
    let mut parts = folder.split('_').filter(|part| !part.is_empty());
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let name = ContainerName { namespace: namespace.to_owned(), pod: pod.to_owned(), container: String::new() };
    parts.next().is_none().then_some((name, uid))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_id() {
        let id = "1d3d308a7d4800c1".repeat(4);
        let file = format!("train-0_ml-team_main-loop-{id}.log");
        let name = ContainerName { namespace: "ml-team".into(), pod: "train-0".into(), container: "main-loop".into() };
        assert_eq!(parse(&file), Some((id.as_str(), name)));
        for other in [
            format!("train-0_ml_main-{id}"),
            format!("train-0_ml-{id}.log"),
            format!("a_b_c_d-{id}.log"),
            "train-0_ml_main-1d3d.log".to_owned(),
            "kubelet.log".to_owned(),
        ] {
            assert_eq!(parse(&other), None, "{other}");
        }
    }

    #[test]
    fn names_that_the_link_has_no_room_for() {
        let name = ContainerName { namespace: "ml".into(), pod: "train-0".into(), container: "main".into() };
        let uid = "7a96c459-d529-4e21-9d3a-5a0a3a0e0a11";
        assert_eq!(target(&format!("/var/log/pods/ml_train-0_{uid}/main/0.log")), Some((name, uid)));
        for other in ["/var/log/pods/ml_train-0/main/0.log", "0.log", "", "/a_b_c_d/main/0.log"] {
            assert_eq!(target(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(file in "(_|-|/|[0-9a-f]{60,64}|\\.log|\\PC)*") {
            let _ = (parse(&file), target(&file));
        }
    }
}
