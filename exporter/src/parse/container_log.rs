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

    proptest! {
        #[test]
        fn never_panics(file in "(_|-|[0-9a-f]{60,64}|\\.log|\\PC)*") {
            let _ = parse(&file);
        }
    }
}
