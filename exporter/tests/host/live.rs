use std::sync::Arc;

use goodput_exporter::collect::Done;
use goodput_exporter::context::Context;
use goodput_exporter::source::files::Roots;
use goodput_exposition::Families;

use crate::fixture::of_kernel;
use crate::support::owners_and_gpus;

/// Collectors that may say nothing although there is something of the kind: not every job has a layer of its own.
const SILENT: [&str; 1] = ["overlay"];

/// Whatever this kernel and its cgroup layout are, nothing may fail on them.
#[test]
fn the_machine_that_runs_the_tests() {
    let roots = Roots {
        proc: "/proc".into(),
        sys: "/sys".into(),
        cgroup: "/sys/fs/cgroup".into(),
        root: "/".into(),
        programs: None,
    };
    let (owners, gpus) = owners_and_gpus(&roots, &[std::process::id()]);
    assert_eq!((owners.unattributed(), owners.all().len()), (0, 1));
    let context = Context {
        roots: Arc::new(roots),
        common: Arc::default(),
        gpus: Arc::new(gpus),
        owners: Arc::new(owners),
        hostname: "here".into(),
        dcgm: Arc::default(),
        nccl: Arc::default(),
    };
    // What is off by default starts programs, which may not be installed.
    for entry in of_kernel().filter(|entry| entry.default) {
        let mut families = Families::default();
        let done = (entry.new)().collect(&context, &mut families);
        let done = done.unwrap_or_else(|error| panic!("collector {}: failed on this machine: {error}", entry.name));
        let nothing = matches!(done, Done::NotApplicable(_));
        let expected = nothing || families.samples() == 0 && SILENT.contains(&entry.name);
        assert_eq!(families.samples() == 0, expected, "collector {}: {done:?}", entry.name);
    }
}
