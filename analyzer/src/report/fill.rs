//! Commands as they are typed: words in capitals stand for a node, GPU or job, and are filled in here.

use goodput_verdict::Remedy;

/// What stands between a command and one for another scheduler.
const OR: &str = "   # or: ";

/// What a command is about. What is not known is not there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) node: Option<&'a str>,
    /// The UUID.
    pub(crate) gpu: Option<&'a str>,
    /// Who holds it.
    pub(crate) owner: Option<&'a str>,
    /// Where a disk or a network file system is mounted, or the disk itself.
    pub(crate) mount: Option<&'a str>,
    /// RDMA port (`device/port`) or network interface.
    pub(crate) port: Option<&'a str>,
}

/// The commands of these remedies, in their order; none where there is none, or what it is about is not known.
pub(crate) fn filled(remedies: &[Remedy], about: &About<'_>) -> Vec<Option<String>> {
    remedies.iter().map(|remedy| command(remedy.command?, about)).collect()
}

/// The first of the alternatives whose words are all known.
pub(super) fn command(text: &str, about: &About<'_>) -> Option<String> {
    text.split(OR).find_map(|one| fill(one, about))
}

/// Words in capitals, and what each stands for.
fn fill(text: &str, about: &About<'_>) -> Option<String> {
    let values: [(&str, &dyn Fn() -> Option<String>); 11] = [
        ("NODE", &|| plain(about.node?)),
        ("GPU", &|| plain(about.gpu?)),
        ("JOBID", &|| plain(job(about.owner?)?)),
        ("NAMESPACE", &|| plain(object(about.owner?)?.0)),
        ("OBJECT", &|| plain(&object(about.owner?)?.1)),
        ("CGROUP", &|| cgroup(about.owner?)),
        ("UNIT", &|| plain(unit(about.owner?)?)),
        ("CONTAINER", &|| plain(about.owner?.strip_prefix("container-")?)),
        ("MOUNTPOINT", &|| about.mount.map(quoted)),
        ("DISK", &|| plain(about.mount.filter(|disk| !disk.starts_with('/'))?)),
        ("DEVICE", &|| plain(about.port?.split('/').next()?)),
    ];
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let (before, from) = rest.split_at(at);
        let length = from.find(|c: char| !is_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(length);
        let is_whole = !before.chars().next_back().is_some_and(is_word) && !shown_ends_in_word(&shown, before);
        shown += before;
        match values.iter().find(|(name, _)| is_whole && *name == word) {
            Some((_, value)) => shown += &value()?,
            None => shown += word,
        }
        rest = after;
    }
    Some(shown + rest)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn shown_ends_in_word(shown: &str, before: &str) -> bool {
    before.is_empty() && shown.chars().next_back().is_some_and(is_word)
}

/// A name that a shell takes as it is. Names come from jobs: one that is not plain is none that a scheduler gave.
fn plain(name: &str) -> Option<String> {
    (is_plain(name) && !name.starts_with('-')).then(|| name.to_owned())
}

fn is_plain(name: &str) -> bool {
    let may_be = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@');
    !name.is_empty() && name.chars().all(may_be)
}

/// A path, as a shell takes it.
fn quoted(path: &str) -> String {
    if is_plain(path) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// The id of a Slurm job.
fn job(owner: &str) -> Option<&str> {
    let id = ["slurm-", "slurm/", "job/"].iter().find_map(|prefix| owner.strip_prefix(prefix))?;
    id.bytes().all(|b| b.is_ascii_digit() || b == b'_').then_some(id).filter(|id| !id.is_empty())
}

/// Namespace and name of a pod (`namespace/pod`, `namespace/pod/container`).
fn pod(owner: &str) -> Option<(&str, &str)> {
    if job(owner).is_some() {
        return None;
    }
    let mut levels = owner.split('/');
    let (namespace, name) = (levels.next()?, levels.next()?);
    (is_name(namespace) && is_name(name)).then_some((namespace, name))
}

/// As Kubernetes takes names of pods and namespaces.
fn is_name(name: &str) -> bool {
    let may_be = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    name.bytes().all(may_be) && name.starts_with(|c: char| c != '-' && c != '.')
}

/// Names of kinds begin with a capital, which those of pods have not.
fn is_kind(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Namespace, and what kubectl calls the pod or the run (`namespace/Kind/name`).
fn object(owner: &str) -> Option<(&str, String)> {
    let of_run = || {
        let (namespace, object) = owner.split_once('/')?;
        let (kind, name) = object.split_once('/')?;
        (is_kind(kind) && is_name(namespace) && is_name(name)).then(|| (namespace, object.to_owned()))
    };
    pod(owner).map(|(namespace, name)| (namespace, format!("pod/{name}"))).or_else(of_run)
}

/// The systemd unit.
fn unit(owner: &str) -> Option<&str> {
    let name = owner.rsplit('/').next().filter(|name| is_plain(name))?;
    (name.ends_with(".service") || name.ends_with(".scope") || name.ends_with(".slice")).then_some(name)
}

/// The folder of the owner's cgroup, as a shell finds it on the node.
fn cgroup(owner: &str) -> Option<String> {
    if owner.starts_with('/') {
        return Some(quoted(&format!("/sys/fs/cgroup{owner}")));
    }
    let found = |name: &str| format!("$(find /sys/fs/cgroup -type d -name '{name}' | head -n1)");
    if let Some(id) = job(owner) {
        return Some(found(&format!("job_{id}")));
    }
    if let Some(id) = owner.strip_prefix("container-").filter(|id| is_plain(id)) {
        return Some(found(&format!("*{id}*")));
    }
    if let Some(uid) = owner.strip_prefix("pod-").filter(|uid| is_plain(uid)) {
        // The systemd driver writes underscores.
        return Some(found(&format!("*pod{}*", uid.replace('-', "?"))));
    }
    if let Some(unit) = unit(owner) {
        return Some(found(unit));
    }
    let (namespace, pod) = pod(owner)?;
    let id = format!("$(crictl pods -q --namespace {namespace} --name {pod} | head -n1)");
    Some(format!("$(find /sys/fs/cgroup -type d -name \"*$(crictl ps -q --pod {id} | head -n1)*\" | head -n1)"))
}

#[cfg(test)]
mod tests {
    use super::super::{advice_remedies, risk_remedies};
    use super::*;
    use goodput_verdict::{Advice, CauseKind, Class, Eviction, Fault, Kind, Memory, Room};

    const GPU: &str = "GPU-e4c2e8ed-ac36-4aca-8712-3654b9e73432";

    fn about(owner: &str) -> About<'_> {
        let (mount, port) = (Some("/scratch"), Some("mlx5_4/1"));
        About { node: Some("gpu-01"), gpu: Some(GPU), owner: Some(owner), mount, port }
    }

    #[test]
    fn jobs_pods_and_runs_are_named_as_their_schedulers_name_them() {
        let end = |owner| filled(Class::IdleHeld.info().remedies, &about(owner)).remove(0);
        for (owner, shown) in [
            ("slurm-4711", Some("scancel 4711")),
            ("slurm/4211", Some("scancel 4211")),
            ("ml/train-0", Some("kubectl delete --namespace ml pod/train-0")),
            ("ml/train-0/main", Some("kubectl delete --namespace ml pod/train-0")),
            ("ml/PyTorchJob/llm", Some("kubectl delete --namespace ml PyTorchJob/llm")),
            ("ml/$(reboot);x", None),
            ("ml/it's", None),
            ("-A/--all", None),
            ("ml/PyTorchJob/--all", None),
            ("container-38f8447a46ed", None),
        ] {
            assert_eq!(end(owner).as_deref(), shown, "{owner}");
        }
    }

    #[test]
    fn a_cgroup_is_found_by_what_is_known_of_its_owner() {
        let look = |owner| command("cat CGROUP/memory.peak", &about(owner));
        let find =
            |name: &str| Some(format!("cat $(find /sys/fs/cgroup -type d -name '{name}' | head -n1)/memory.peak"));
        assert_eq!(look("slurm-4711"), find("job_4711"));
        assert_eq!(look("container-38f8447a46ed"), find("*38f8447a46ed*"));
        assert_eq!(look("pod-7a96c459-12ab"), find("*pod7a96c459?12ab*"));
        assert_eq!(look("jupyter.service"), find("jupyter.service"));
        assert_eq!(look("/user.slice/x y"), Some("cat '/sys/fs/cgroup/user.slice/x y'/memory.peak".to_owned()));
        assert!(look("ml/train-0").unwrap().contains("crictl pods -q --namespace ml --name train-0"));
        assert_eq!(look("ml/PyTorchJob/llm"), None);
    }

    /// Every command there is, for every kind of owner: capitals that are left are words of the command's own.
    #[test]
    fn no_word_in_capitals_is_left_to_be_replaced() {
        const OWN: [&str; 32] = [
            "CPUQuota",
            "AllowedCPUs",
            "MemoryMax",
            "CUDA_CACHE_PATH",
            "TORCHINDUCTOR_CACHE_DIR",
            "PCIE",
            "TEMPERATURE",
            "PERFORMANCE",
            "CLOCK",
            "NVRM",
            "PENDING",
            "ECC",
            "ROW_REMAPPER",
            "PAGE_RETIREMENT",
            "L1",
            "A",
            "E",
            "H",
            "C",
            "PYTORCH_CUDA_ALLOC_CONF",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
            "IRQBALANCE_BANNED_CPULIST",
            "KEDA",
            "NCCL_",
            "NCCL_DEBUG",
            "NCCL_DEBUG_SUBSYS",
            "NCCL_IB_QPS_PER_CONNECTION",
            "INFO",
            "INIT",
            "NET",
            "IB",
            "HYBRID_SHARD",
        ];
        let kinds =
            Memory::ALL.iter().map(|one| Kind::Memory(*one)).chain(Room::ALL.iter().map(|one| Kind::Disk(*one)));
        let kinds = kinds.chain(Eviction::ALL.iter().map(|one| Kind::Eviction(*one)));
        let kinds = kinds.chain(Fault::ALL.iter().map(|one| Kind::Hardware(*one)));
        let classes = Class::ALL.iter().map(|class| class.info().remedies);
        let causes = CauseKind::ALL.iter().map(|cause| cause.remedies());
        let all = classes
            .chain(causes)
            .chain(kinds.map(risk_remedies))
            .chain(Advice::ALL.iter().map(|advice| advice_remedies(*advice, None)));
        let mut seen = 0;
        for remedies in all {
            for owner in ["slurm-4711", "ml/train-0", "ml/PyTorchJob/llm", "container-38f8447a46ed", "x.service"] {
                for command in filled(remedies, &about(owner)).into_iter().flatten() {
                    let bare = command.replace(GPU, "").replace("PyTorchJob", "");
                    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
                    let is_capital = |word: &&str| !is_number(word) && !word.chars().any(|c| c.is_ascii_lowercase());
                    let words = bare
                        .split(|c: char| !is_word(c))
                        .filter(|word| word.contains(|c: char| c.is_ascii_uppercase()));
                    let left: Vec<&str> = words.filter(is_capital).filter(|word| !OWN.contains(word)).collect();
                    assert!(left.is_empty(), "{left:?} in {command}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 200, "{seen}");
        for (name, owner) in [
            ("NODE", "x"),
            ("GPU", "x"),
            ("JOBID", "slurm-1"),
            ("UNIT", "x.scope"),
            ("MOUNTPOINT", "x"),
            ("DEVICE", "x"),
        ] {
            assert!(!command(name, &about(owner)).unwrap().contains(name) || name == "GPU", "{name}");
            assert_eq!(command(name, &About::default()), None, "{name}");
        }
        assert_eq!(command("DISK", &About { mount: Some("nvme0n1"), ..about("x") }), Some("nvme0n1".to_owned()));
        assert_eq!(command("DISK", &about("x")), None, "a mount is no disk");
    }
}
