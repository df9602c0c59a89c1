//! The audit on recorded machines, and on one that is tuned well, with one thing wrong at a time.

mod cases;
mod tuned;

use goodput_catalog::dcgm::{Call, Read};
use goodput_exporter::audit::checks::CHECKS;
use goodput_exporter::audit::{Audit, Finding, Profile, Status, render};
use goodput_exporter::source::nvml::{Absent, ComputeMode, MigMode, Values, Virtualization, fields};

use crate::support::{Machine, golden, shared};

const PROFILES: [Profile; 3] = [Profile::Training, Profile::Inference, Profile::Mixed];

fn audit(machine: &Machine, profile: Profile) -> Audit {
    Audit::run(&machine.context(), profile, CHECKS.iter().copied())
}

fn finding(machine: &Machine, profile: Profile, id: &str) -> Finding {
    let check = CHECKS.iter().copied().filter(|check| check.id == id);
    Audit::run(&machine.context(), profile, check).findings.pop().unwrap_or_else(|| panic!("no check {id}"))
}

/// What people see, for every profile; the folder of the machine differs from run to run.
#[track_caller]
fn golden_tables(name: &str, machine: &Machine) {
    let tables = PROFILES.map(|profile| render::table(&audit(machine, profile), true, false)).join("\n");
    golden(&format!("audit/{name}.txt"), &tables.replace(&machine.path("").display().to_string(), "/"));
}

#[test]
fn deep_idle_states_and_a_saving_governor() {
    golden_tables(
        "2s-icelake-powersave",
        &Machine::recorded("cpu-power-2s-icelake-powersave", &["sys/devices/system"]),
    );
}

#[test]
fn a_performance_governor() {
    golden_tables(
        "2s-turin-performance",
        &Machine::recorded("cpu-power-2s-turin-performance", &["sys/devices/system"]),
    );
}

#[test]
fn a_virtual_machine_without_swap() {
    let machine = Machine::empty();
    for file in ["proc/swaps", "proc/meminfo", "proc/sys/vm/swappiness", "sys/kernel/mm/transparent_hugepage/enabled"] {
        machine.write(file, &std::fs::read_to_string(shared(&format!("vm-thp-and-vm-sysctls/{file}"))).unwrap());
    }
    golden_tables("vm-without-swap", &machine);
}

/// Every queue of its NICs is served on the NIC's node; half of the NVMe queues are not, by design.
#[test]
fn interrupts_of_a_recorded_server() {
    let roots = ["00", "17", "85", "ae"].map(|bus| format!("sys/devices/pci0000:{bus}"));
    let mut parts = vec!["proc/interrupts", "proc/irq", "sys/bus/pci/devices", "sys/devices/system/node"];
    parts.extend(roots.iter().map(String::as_str));
    let machine = Machine::recorded("sys-2s32-i40e", &parts);
    let used = finding(&machine, Profile::Training, "irq_affinity");
    assert_eq!((used.status, used.read.as_str()), (Status::Pass, "137 interrupts on the nodes of the devices"));
    // Moved away from its device, which is on node 1, where CPUs have odd numbers.
    machine.write("proc/irq/96/effective_affinity_list", "4\n");
    let moved = finding(&machine, Profile::Training, "irq_affinity");
    assert_eq!(moved.status, Status::Warn);
    assert_eq!(moved.read, "1 of 137: 96 of nic 0000:86:00.0 on CPU 4");
}

#[test]
fn a_tuned_machine_has_nothing_to_report() {
    for profile in PROFILES {
        let audit = audit(&tuned::machine(), profile);
        for finding in &audit.findings {
            let of_training = ["dirty_limits", "read_ahead"].contains(&finding.check.id);
            let not_judged = of_training && profile == Profile::Inference || OF_PODS.contains(&finding.check.id);
            let expected = if not_judged { Status::NotApplicable } else { Status::Pass };
            assert_eq!(finding.status, expected, "{}: {}", finding.check.id, finding.read);
            assert!(finding.commands.is_empty(), "{}: {:?}", finding.check.id, finding.commands);
        }
    }
}

/// Checks that a node of Slurm jobs gives nothing to judge.
const OF_PODS: [&str; 1] = ["pod_qos"];

/// Checks that ask a program alone, which a running exporter does not start.
const OF_PROGRAMS: [&str; 1] = ["pfc_priority"];

/// A check that asks NVML alone, an answer that it should complain about, how, and what it should advise.
type OfNvml = (&'static str, fn(&mut Values), Status, &'static str, &'static str);

const OF_NVML: &[OfNvml] = &[
    (
        "power_limit",
        |v| v.set(Read::Field(fields::POWER_LIMIT_ENFORCED), Ok(500_000.0)),
        Status::Warn,
        "GPU 0 500 W of 700 W, GPU 1 500 W of 700 W",
        "nvidia-smi -i 0 --power-limit=700",
    ),
    (
        "gpu_throttle",
        |v| v.set(Read::Call(Call::ClockEventReasons), Ok(72.0)),
        Status::Fail,
        "GPU 0: hardware thermal slowdown",
        "inlet",
    ),
    (
        "gpu_ecc_errors",
        |v| v.set(Read::Field(fields::ECC_DBE_VOLATILE), Ok(1.0)),
        Status::Warn,
        "1 on GPU 0",
        "dcgmi diag",
    ),
    (
        "row_remap",
        |v| v.set(Read::Field(fields::REMAP_PENDING), Ok(1.0)),
        Status::Warn,
        "waits for a reset",
        "gpu-reset -i 0",
    ),
    (
        "row_remap",
        |v| v.set(Read::Field(fields::REMAP_FAILURE), Ok(1.0)),
        Status::Fail,
        "failed on GPU 0, 1",
        "gpu-reset",
    ),
    (
        "page_retirement",
        |v| v.set(Read::Field(fields::RETIRED_PENDING), Ok(1.0)),
        Status::Warn,
        "GPU 0, 1",
        "gpu-reset -i 0",
    ),
    (
        "ecc_mode",
        |v| v.set(Read::Field(fields::ECC_MODE_PENDING), Ok(0.0)),
        Status::Warn,
        "GPU 0 off from the next reboot on",
        "--ecc-config=1",
    ),
    (
        "mig_pending",
        |v| v.mig_mode = Ok(MigMode { current: false, pending: true }),
        Status::Warn,
        "GPU 1 on from its next reset on",
        "gpu-reset",
    ),
    (
        "compute_mode",
        |v| v.compute_mode = Ok(ComputeMode::Prohibited),
        Status::Fail,
        "GPU 0 prohibited",
        "--compute-mode=0",
    ),
    (
        "clock_limit",
        |v| v.set(Read::Call(Call::ClockEventReasons), Ok(74.0)),
        Status::Warn,
        "a setting limits GPU 0, 1",
        "nvidia-smi -i 0 --reset-gpu-clocks",
    ),
    (
        "recovery_action",
        |v| v.set(Read::Field(fields::RECOVERY_ACTION), Ok(1.0)),
        Status::Fail,
        "GPU 0: reset",
        "gpu-reset",
    ),
];

#[test]
fn wrong_answers_of_nvml() {
    for (check, spoil, status, read, command) in OF_NVML {
        let mut machine = tuned::machine();
        spoil(&mut machine.values);
        let found = finding(&machine, Profile::Mixed, check);
        assert_eq!(found.status, *status, "{check}: {}", found.read);
        assert!(found.read.contains(read), "{check}: {}", found.read);
        assert!(found.commands[0].contains(command), "{check}: {:?}", found.commands);
    }
}

#[test]
fn a_fabric_manager_among_the_nodes_processes() {
    let machine = tuned::machine();
    machine.write("proc/2/comm", "kthreadd\n");
    std::fs::remove_dir_all(machine.path("run/nvidia-fabricmanager")).unwrap();
    let found = |machine: &Machine| finding(machine, Profile::Mixed, "fabric_manager").status;
    assert_eq!(found(&machine), Status::Pass, "its pid file may be in a container");
    std::fs::remove_dir_all(machine.path("proc/60")).unwrap();
    assert_eq!(found(&machine), Status::Fail);
}

#[test]
fn a_managers_state_is_only_missed_where_the_configuration_is_silent() {
    let machine = tuned::machine();
    machine.deny("var/lib/kubelet/cpu_manager_state");
    let found = |machine: &Machine| finding(machine, Profile::Mixed, "kubelet_cpu_manager").status;
    assert_eq!(found(&machine), Status::Pass);
    machine.write("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
    assert_eq!(found(&machine), Status::NoPermission);
    std::fs::remove_file(machine.path("var/lib/kubelet/cpu_manager_state")).unwrap();
    assert_eq!(found(&machine), Status::Warn, "neither says anything: the default");
}

#[test]
fn classes_of_pods() {
    let pod = "pod7a96c459_d529_44ae_9f99_90d3798d6426";
    let container = "cri-containerd-1d3d308a7d48a27814a68bf33a44acf4441c9c02463ca0bc1cdfdc8c0b4a8496.scope";
    let machine = tuned::machine();
    for (folder, status, read) in [
        (format!("kubepods.slice/kubepods-{pod}.slice"), Status::Pass, "Guaranteed: 1 pod"),
        (
            format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{pod}.slice"),
            Status::Warn,
            "container-1d3d308a7d48 is Burstable",
        ),
    ] {
        machine.write("proc/200/cgroup", &format!("0::/{folder}/{container}\n"));
        let found = finding(&machine, Profile::Mixed, "pod_qos");
        assert_eq!((found.status, found.read.as_str()), (status, read));
    }
}

#[test]
fn an_allocator_is_judged_for_services() {
    let machine = tuned::machine();
    machine.write("proc/200/maps", "7f00-7f01 r-xp 00000000 08:01 917 /usr/lib/x86_64-linux-gnu/libc.so.6\n");
    for (profile, status) in [(Profile::Inference, Status::Warn), (Profile::Training, Status::Pass)] {
        let found = finding(&machine, profile, "allocator");
        assert_eq!((found.status, found.read.as_str()), (status, "the C library's for pid 200"));
    }
    machine.deny("proc/200/maps");
    assert_eq!(finding(&machine, Profile::Inference, "allocator").status, Status::NoPermission);
    std::fs::remove_file(machine.path("proc/200/maps")).unwrap();
    machine.write("proc/200/maps", "libc.so.6\n");
    assert_eq!(finding(&machine, Profile::Inference, "allocator").status, Status::Error);
}

/// ConnectX-8's function that reads GPUs directly needs the redirection.
#[test]
fn access_control_is_not_judged_with_data_direct() {
    let machine = tuned::machine();
    machine.write("sys/bus/pci/devices/0000:19:00.0/config", cases::REDIRECTED);
    machine.write("sys/bus/pci/devices/0000:1c:00.0/vendor", "0x15b3\n");
    for (device, status) in [("0x1023", Status::Warn), ("0x2100", Status::NotApplicable)] {
        machine.write("sys/bus/pci/devices/0000:1c:00.0/device", &format!("{device}\n"));
        assert_eq!(finding(&machine, Profile::Mixed, "acs").status, status, "{device}");
    }
}

/// A device that is software alone is on no bus, and no reason to judge the NICs of plain Ethernet.
#[test]
fn access_control_is_not_judged_for_rdma_in_software() {
    let machine = tuned::machine();
    machine.write("sys/bus/pci/devices/0000:19:01.0/config", cases::REDIRECTED);
    assert_eq!(finding(&machine, Profile::Mixed, "acs").status, Status::Warn);
    std::fs::remove_dir_all(machine.path("sys/class/infiniband")).unwrap();
    machine.write("sys/class/infiniband/rxe0/node_type", "1: CA\n");
    machine.slot("sys/class/net/eth2/device", "pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0");
    let found = finding(&machine, Profile::Mixed, "acs");
    assert_eq!((found.status, found.read.as_str()), (Status::NotApplicable, "no RDMA device"));
}

/// The metric of the audit's checks must not start programs on a scrape.
#[test]
fn a_scrape_starts_no_program() {
    let machine = tuned::machine();
    machine.write("output/dcb -j pfc show dev eth1", "");
    let series = machine.collect("audit").ok().samples().into_keys();
    assert_eq!(series.filter(|series| series.contains("pfc_priority")).count(), 0);
    assert_eq!(finding(&machine, Profile::Mixed, "pfc_priority").status, Status::Error);
}

#[test]
fn two_processes_on_a_gpu() {
    let mut machine = tuned::machine();
    machine.gpu("00000000:5F:00.0", &tuned::PIDS);
    let found = |machine: &Machine| finding(machine, Profile::Mixed, "gpu_sharing");
    assert_eq!((found(&machine).status, found(&machine).read.as_str()), (Status::Warn, "GPU 2: pids 100, 200"));
    machine.write("proc/200/comm", "nvidia-cuda-mps\n");
    assert_eq!(found(&machine).status, Status::Pass, "its server is among them");
    machine.write("proc/200/comm", "python\n");
    machine.values.mig_mode = Ok(MigMode { current: true, pending: true });
    assert_eq!(found(&machine).status, Status::NotApplicable, "instances are apart");
}

#[test]
fn everything_wrong_at_once() {
    let mut machine = tuned::machine();
    for case in cases::wrong() {
        machine.write(case.path, case.text);
    }
    machine.values.persistence_mode = Ok(false);
    machine.values.set(Read::Call(Call::PcieWidth), Ok(8.0));
    for (_, spoil, ..) in OF_NVML {
        spoil(&mut machine.values);
    }
    golden_tables("everything-wrong", &machine);
    let text = render::markdown(&audit(&machine, Profile::Training));
    golden("audit/everything-wrong.md", &text.replace(&machine.path("").display().to_string(), "/"));
}

#[test]
fn json_has_a_row_for_every_check() {
    let text = render::json(&audit(&tuned::machine(), Profile::Training)).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["profile"], &document["host"]), (&"training".into(), &"node-1".into()));
    assert_eq!(document["summary"]["pass"], CHECKS.len() - OF_PODS.len());
    let rows = document["checks"].as_array().unwrap();
    assert_eq!(rows.len(), CHECKS.len());
    for (row, check) in rows.iter().zip(CHECKS) {
        let status = if OF_PODS.contains(&check.id) { "not_applicable" } else { "pass" };
        assert_eq!((&row["id"], &row["status"]), (&check.id.into(), &status.into()));
        assert!(row["fixes"][0]["command"].is_string() && row["sources"][0]["grade"].is_string(), "{row}");
    }
}

#[test]
fn the_metric_has_one_series_per_check_until_something_changes() {
    let collected = tuned::machine().collect("audit").ok();
    assert_eq!(collected.count("goodput_audit_status"), CHECKS.len() - OF_PODS.len() - OF_PROGRAMS.len());
    assert_eq!(collected.value("goodput_audit_status{check=\"cpu_governor\",status=\"pass\"}"), 1.0);
}

#[test]
fn what_nvml_does_not_say_is_told_apart() {
    for (why, status) in [
        (Absent::NotSupported, Status::NotApplicable),
        (Absent::NotPermitted, Status::NoPermission),
        (Absent::Lost, Status::Error),
        (Absent::Failed(999), Status::Error),
    ] {
        let mut machine = tuned::machine();
        machine.values.persistence_mode = Err(why);
        machine.values.set(Read::Call(Call::PcieGenerationMax), Err(why));
        machine.values.set(Read::Call(Call::ClockEventReasons), Err(why));
        machine.values.set(Read::Field(fields::RECOVERY_ACTION), Err(why));
        for id in ["persistence_mode", "pcie_link", "gpu_throttle", "recovery_action"] {
            let found = finding(&machine, Profile::Mixed, id);
            assert_eq!(found.status, status, "{id}: {}", found.read);
        }
    }
}

/// What a guest is told about a board and a bus that are not its own makes no verdict, whatever it says.
#[test]
fn a_guest_is_not_judged_for_what_is_its_hypervisors() {
    const OF_BOARD: [&str; 4] = ["power_limit", "gpu_throttle", "clock_limit", "pcie_link"];
    const OF_BUS: [&str; 4] = ["iommu", "pcie_power_saving", "gpu_nic_affinity", "acs"];
    use Status::{NotApplicable, Warn};
    for (virtualization, of_board, of_bus) in [
        (Virtualization::None, Warn, Warn),
        (Virtualization::HostVgpu, Warn, Warn),
        (Virtualization::Passthrough, Warn, NotApplicable),
        (Virtualization::Vgpu, NotApplicable, NotApplicable),
    ] {
        let mut machine = tuned::machine();
        machine.virtualization = virtualization;
        machine.values.set(Read::Field(fields::POWER_LIMIT_ENFORCED), Ok(500_000.0));
        // Clocks that a user set, and the software's thermal slowdown.
        machine.values.set(Read::Call(Call::ClockEventReasons), Ok(34.0));
        machine.values.set(Read::Call(Call::PcieGeneration), Ok(1.0));
        machine.write("sys/bus/pci/devices/0000:1a:00.0/iommu_group/type", "DMA-FQ\n");
        machine.write("sys/module/pcie_aspm/parameters/policy", "default performance [powersave] powersupersave\n");
        machine.write("sys/class/infiniband/mlx5_1/device/numa_node", "0\n");
        machine.write("sys/bus/pci/devices/0000:19:00.0/config", cases::REDIRECTED);
        for (ids, status) in [(&OF_BOARD[..], of_board), (&OF_BUS, of_bus)] {
            for id in ids {
                let found = finding(&machine, Profile::Mixed, id);
                assert_eq!(found.status, status, "{id} of {virtualization:?}: {}", found.read);
                assert_eq!(found.read.contains("hypervisor"), status == NotApplicable, "{id}: {}", found.read);
            }
        }
    }
}

#[test]
fn a_machine_without_gpus_and_files_has_nothing_to_check() {
    let audit = audit(&Machine::empty(), Profile::Mixed);
    let other: Vec<_> = audit.findings.iter().filter(|f| f.status != Status::NotApplicable).collect();
    // No sign of a time daemon is a sign.
    assert_eq!(other.iter().map(|f| f.check.id).collect::<Vec<_>>(), ["time_sync"]);
}

#[test]
fn processes_that_cannot_be_seen_are_not_permitted() {
    let machine = tuned::machine();
    for pid in tuned::PIDS {
        std::fs::remove_dir_all(machine.path(&format!("proc/{pid}"))).unwrap();
    }
    for id in
        ["job_cpus", "allocator", "memlock", "swap_use", "open_files", "shm_size", "oom_priority", "job_memory_nodes"]
    {
        let found = finding(&machine, Profile::Mixed, id);
        assert_eq!(found.status, Status::NoPermission, "{id}: {}", found.read);
        assert!(found.commands[0].contains("pid namespace"), "{id}: {:?}", found.commands);
    }
}
