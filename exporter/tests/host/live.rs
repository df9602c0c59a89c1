use std::sync::Arc;

use goodput_exporter::collect::{Context, Done, REGISTRY};
use goodput_exporter::family::Families;
use goodput_exporter::source::files::Roots;

use crate::support::owners_and_gpus;

/// The collectors that need nothing but the kernel.
const HOST: &[&str] = &[
    "node", "numa", "irq", "swap", "thp", "pressure", "owner", "cgroup", "process", "storage", "network", "cpu",
    "memory", "driver", "kubelet",
];

/// Whatever this kernel and its cgroup layout are, nothing may fail on them.
#[test]
fn the_machine_that_runs_the_tests() {
    let roots = Roots { proc: "/proc".into(), sys: "/sys".into(), cgroup: "/sys/fs/cgroup".into(), root: "/".into() };
    let (owners, gpus) = owners_and_gpus(&roots, &[std::process::id()]);
    assert_eq!((owners.unattributed(), owners.all().len()), (0, 1));
    let context = Context {
        roots: Arc::new(roots),
        common: Arc::default(),
        gpus: Arc::new(gpus),
        owners: Arc::new(owners),
        hostname: "here".into(),
        dcgm: Arc::default(),
    };
    for entry in REGISTRY.iter().filter(|entry| HOST.contains(&entry.name)) {
        let mut families = Families::default();
        let done = (entry.new)().collect(&context, &mut families).unwrap();
        let nothing = matches!(done, Done::NotApplicable(_));
        assert_eq!(families.samples() == 0, nothing, "{}: {done:?}", entry.name);
    }
}
