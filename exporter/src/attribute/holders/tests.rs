use super::*;

const GPU: &str = "GPU-0";

fn name(pod: &str, container: &str) -> ContainerName {
    ContainerName { namespace: "ml".into(), pod: pod.into(), container: container.into() }
}

/// An owner as its cgroup tells: a container of Kubernetes, or a job where the id is `slurm-…`.
fn owner(id: &str) -> Arc<Owner> {
    let job = id.strip_prefix("slurm-").map(str::to_owned);
    let of_pod = |value: String| Some(value).filter(|_| job.is_none());
    Arc::new(Owner {
        id: id.into(),
        cgroup: format!("/{id}"),
        pod_uid: of_pod(format!("uid-of-{id}")),
        container_id: of_pod(format!("full-{id}")),
        slurm_job: job.clone(),
        sluid: None,
        unit: None,
        pids: Vec::new(),
        places: Vec::new(),
    })
}

fn used(by: &[(&str, &[&str])]) -> Holders {
    let holder = |id: &&str| Holder::of_processes(owner(id), Part::Whole, 2);
    by.iter().map(|(gpu, ids)| ((*gpu).to_owned(), ids.iter().map(holder).collect())).collect()
}

fn claims(list: &[(&str, Claimant, Part)]) -> Claims {
    let mut claims = Claims::new();
    for (gpu, claimant, part) in list {
        let here = claims.entry((*gpu).to_owned()).or_default();
        *here.entry((claimant.clone(), *part)).or_default() += 1;
    }
    claims
}

fn pod(pod: &str, container: &str) -> Claimant {
    Claimant::Container(name(pod, container))
}

/// Owner, pod, part, processes and devices of every holder of the GPU.
type Row = (String, Option<String>, Part, Option<usize>, Option<usize>);

fn rows(holders: &Holders, gpu: &str) -> Vec<Row> {
    let row = |h: &Holder| {
        let pod = h.container.as_ref().map(|name| format!("{}/{}", name.pod, name.container));
        (h.owner.clone(), pod, h.part, h.processes, h.allocated)
    };
    holders.get(gpu).map_or(Vec::new(), |holders| holders.iter().map(row).collect())
}

fn labels(holders: &Holders, device: Part) -> (String, String) {
    let labels = DeviceLabels::of(&holders[GPU], device);
    (format!("{}/{}/{}", labels.namespace, labels.pod, labels.container), labels.hpc_job.to_owned())
}

const NOBODY: (&str, &str) = ("//", "");

fn text(pair: (&str, &str)) -> (String, String) {
    (pair.0.to_owned(), pair.1.to_owned())
}

#[test]
fn a_promised_gpu_without_processes_has_an_owner() {
    let mut holders = used(&[(GPU, &[])]);
    join(&mut holders, &BTreeMap::new(), &claims(&[(GPU, pod("a", "main"), Part::Whole)]), true);
    assert_eq!(rows(&holders, GPU), [("ml/a".into(), Some("a/main".into()), Part::Whole, Some(0), Some(1))]);
    assert_eq!(labels(&holders, Part::Whole), text(("ml/a/main", "")));
}

#[test]
fn processes_that_are_not_known_are_not_none() {
    let mut holders = Holders::new();
    join(&mut holders, &BTreeMap::new(), &claims(&[(GPU, pod("a", "main"), Part::Whole)]), true);
    assert_eq!(rows(&holders, GPU)[0].3, None);
}

#[test]
fn the_only_container_at_work_is_the_one_that_was_promised_the_gpu() {
    let mut holders = used(&[(GPU, &["c1"]), ("GPU-1", &["c1"])]);
    join(&mut holders, &BTreeMap::new(), &claims(&[(GPU, pod("a", "main"), Part::Whole)]), true);
    let c1 = |allocated| ("ml/a".to_owned(), Some("a/main".to_owned()), Part::Whole, Some(2), Some(allocated));
    assert_eq!(rows(&holders, GPU), [c1(1)]);
    assert_eq!(rows(&holders, "GPU-1"), [c1(0)], "it uses a GPU that it was not promised");
}

#[test]
fn exclusion_that_contradicts_itself_names_nobody() {
    let two_names = claims(&[(GPU, pod("a", "main"), Part::Whole), ("GPU-1", pod("b", "main"), Part::Whole)]);
    let one_name = claims(&[(GPU, pod("a", "main"), Part::Whole), ("GPU-1", pod("a", "main"), Part::Whole)]);
    for (processes, claims) in [(["c1", "c1"], two_names), (["c1", "c2"], one_name)] {
        let mut holders = used(&[(GPU, &processes[..1]), ("GPU-1", &processes[1..])]);
        join(&mut holders, &BTreeMap::new(), &claims, true);
        assert_eq!(holders[GPU].len(), 2, "{holders:?}");
        assert!(holders[GPU].iter().any(|h| h.owner == "c1" && h.container.is_none() && h.allocated == Some(0)));
    }
}

#[test]
fn names_by_container_id_join_a_shared_gpu() {
    let names = BTreeMap::from([("full-c1".to_owned(), name("a", "main")), ("full-c2".to_owned(), name("b", "main"))]);
    let mut holders = used(&[(GPU, &["c1", "c2"])]);
    let shared = [(GPU, pod("a", "main"), Part::Whole), (GPU, pod("b", "main"), Part::Whole)];
    join(&mut holders, &names, &claims(&shared), true);
    let row = |id: &str, pod: &str| (id.to_owned(), Some(pod.to_owned()), Part::Whole, Some(2), Some(1));
    assert_eq!(rows(&holders, GPU), [row("ml/a", "a/main"), row("ml/b", "b/main")]);
    assert_eq!(labels(&holders, Part::Whole), text(NOBODY), "two owners");
}

#[test]
fn without_a_scheduler_nothing_is_said_of_promises() {
    let names = BTreeMap::from([("full-c1".to_owned(), name("a", "main"))]);
    let mut holders = used(&[(GPU, &["c1"])]);
    join(&mut holders, &names, &Claims::new(), false);
    assert_eq!(rows(&holders, GPU), [("ml/a".into(), Some("a/main".into()), Part::Whole, Some(2), None)]);
    assert_eq!(labels(&holders, Part::Whole), text(("ml/a/main", "")));
}

#[test]
fn who_is_promised_a_gpu_goes_before_who_only_uses_it() {
    let names = BTreeMap::from([("full-dcgm".to_owned(), name("dcgm-x", "dcgm"))]);
    let mut holders = used(&[(GPU, &["dcgm"])]);
    join(&mut holders, &names, &claims(&[(GPU, pod("a", "main"), Part::Whole)]), true);
    assert_eq!(holders[GPU].len(), 2);
    assert_eq!(labels(&holders, Part::Whole), text(("ml/a/main", "")));
}

#[test]
fn instances_have_owners_of_their_own() {
    let parts = [
        (GPU, pod("a", "main"), Part::Instance(3)),
        (GPU, pod("b", "main"), Part::Instance(4)),
        (GPU, pod("b", "main"), Part::Instance(5)),
    ];
    let mut holders = used(&[(GPU, &[])]);
    join(&mut holders, &BTreeMap::new(), &claims(&parts), true);
    assert_eq!(labels(&holders, Part::Instance(3)), text(("ml/a/main", "")));
    assert_eq!(labels(&holders, Part::Instance(5)), text(("ml/b/main", "")));
    assert_eq!(labels(&holders, Part::Instance(6)), text(NOBODY));
    assert_eq!(labels(&holders, Part::Whole), text(NOBODY));
    let mut one = used(&[(GPU, &[])]);
    join(&mut one, &BTreeMap::new(), &claims(&parts[..1]), true);
    assert_eq!(labels(&one, Part::Whole), text(NOBODY), "a seventh is not the whole");
}

#[test]
fn processes_of_several_instances_are_not_given_out() {
    let names = BTreeMap::from([("full-c1".to_owned(), name("b", "main"))]);
    let parts = [(GPU, pod("b", "main"), Part::Instance(4)), (GPU, pod("b", "main"), Part::Instance(5))];
    let mut holders = used(&[(GPU, &["c1"])]);
    join(&mut holders, &names, &claims(&parts), true);
    let row = |part| ("ml/b".to_owned(), Some("b/main".to_owned()), part, None, Some(1));
    assert_eq!(rows(&holders, GPU), [row(Part::Instance(4)), row(Part::Instance(5))]);
}

#[test]
fn a_mapped_job_is_the_job_of_the_cgroup() {
    let job = |id: &str| (GPU, Claimant::Job(id.into()), Part::Whole);
    let mut holders = used(&[(GPU, &["slurm-42"])]);
    join(&mut holders, &BTreeMap::new(), &claims(&[job("42")]), true);
    assert_eq!(rows(&holders, GPU), [("slurm-42".into(), None, Part::Whole, Some(2), Some(1))]);
    assert_eq!(labels(&holders, Part::Whole), text(("//", "42")));
    let mut shared = used(&[(GPU, &["slurm-42"])]);
    join(&mut shared, &BTreeMap::new(), &claims(&[job("42"), job("43")]), true);
    assert_eq!((shared[GPU].len(), labels(&shared, Part::Whole)), (2, text(NOBODY)));
}

/// The owners of all GPUs, in order.
fn owners(holders: &Holders) -> Vec<&str> {
    holders.values().flatten().map(|holder| holder.owner.as_str()).collect()
}

#[test]
fn a_container_is_called_the_same_before_and_while_it_works() {
    let one = claims(&[(GPU, pod("a", "main"), Part::Whole)]);
    let two = claims(&[(GPU, pod("a", "main"), Part::Whole), ("GPU-1", pod("a", "eval"), Part::Whole)]);
    let names = BTreeMap::from([("full-c1".to_owned(), name("a", "main")), ("full-c2".to_owned(), name("a", "eval"))]);
    for (claims, expected) in [(one, vec!["ml/a"]), (two, vec!["ml/a/main", "ml/a/eval"])] {
        let (mut idle, mut busy) = (used(&[(GPU, &[])]), used(&[(GPU, &["c1"])]));
        join(&mut idle, &BTreeMap::new(), &claims, true);
        let renamed = join(&mut busy, &names, &claims, true);
        assert_eq!((owners(&idle), owners(&busy)), (expected.clone(), expected.clone()));
        assert_eq!(renamed, BTreeMap::from([("c1".to_owned(), expected[0].to_owned())]));
        assert_eq!(busy[GPU][0].of_processes.as_ref().unwrap().id, expected[0]);
    }
    // A second container of the pod works next to the only promised one, which keeps its id.
    let mut both = used(&[(GPU, &["c1", "c2"])]);
    join(&mut both, &names, &claims(&[(GPU, pod("a", "main"), Part::Whole)]), true);
    assert_eq!(owners(&both), ["ml/a", "ml/a/eval"]);
}

#[test]
fn a_container_that_was_started_again_shares_no_id_with_its_past() {
    let names = ["full-c1", "full-c2"].map(|id| (id.to_owned(), name("a", "main")));
    let mut holders = used(&[(GPU, &["c1"]), ("GPU-1", &["c2"])]);
    let renamed = join(&mut holders, &BTreeMap::from(names), &Claims::new(), false);
    assert_eq!((owners(&holders), renamed.len()), (vec!["c1", "ml/a"], 1));
}
