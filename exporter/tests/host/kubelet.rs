use goodput_exporter::collect::{CollectError, Done};
use goodput_exporter::source::files::FileError;

use crate::support::Machine;

/// A node whose kubelet pins containers.
fn node() -> Machine {
    let machine = Machine::empty();
    let configuration = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                         topologyManagerPolicy: restricted\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0,64\"\n";
    machine.write("var/lib/kubelet/config.yaml", configuration);
    let cpu =
        r#"{"policyName":"static","defaultCpuSet":"0-63,96-127","entries":{"6f1a":{"train":"64-95"}},"checksum":1}"#;
    machine.write("var/lib/kubelet/cpu_manager_state", cpu);
    machine.write("var/lib/kubelet/memory_manager_state", r#"{"policyName":"None","machineState":{},"checksum":1}"#);
    machine
}

#[test]
fn policies_and_what_was_given_away() {
    let collected = node().collect("kubelet").ok();
    let info = "goodput_kubelet_info{topology_policy=\"restricted\",cpu_policy=\"static\",cpu_policy_in_force=\"static\",memory_policy_in_force=\"None\"}";
    for (series, expected) in [
        (info, 1.0),
        ("goodput_kubelet_unknown_policies", 0.0),
        ("goodput_kubelet_reserved_cpus", 2.0),
        ("goodput_kubelet_shared_cpus", 96.0),
        ("goodput_kubelet_exclusive_cpus", 32.0),
        ("goodput_kubelet_exclusive_cpu_containers", 1.0),
    ] {
        assert_eq!(collected.value(series), expected, "{series}");
    }
    assert_eq!(collected.count("goodput_kubelet_exclusive_memory_bytes"), 0);
}

#[test]
fn states_that_are_roots_alone_leave_the_configuration() {
    let machine = node();
    machine.deny("var/lib/kubelet/cpu_manager_state");
    let collected = machine.collect("kubelet");
    let error = collected.result.as_ref().unwrap_err();
    assert!(matches!(error, CollectError::File(FileError::Denied { .. })), "{error:?}");
    let info =
        "goodput_kubelet_info{topology_policy=\"restricted\",cpu_policy=\"static\",memory_policy_in_force=\"None\"}";
    assert_eq!(collected.value(info), 1.0);
    assert_eq!(collected.count("goodput_kubelet_exclusive_cpus"), 0, "denied is not zero");
}

#[test]
fn other_places_of_the_configuration() {
    for path in ["etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/kubelet-config.json"] {
        let machine = Machine::empty();
        machine.write(path, r#"{"kind": "KubeletConfiguration", "topologyManagerScope": "pod"}"#);
        assert_eq!(machine.collect("kubelet").ok().value("goodput_kubelet_info{topology_scope=\"pod\"}"), 1.0);
    }
}

#[test]
fn names_that_kubernetes_has_not() {
    let machine = node();
    for (policy, scope, cpu, memory, unknown) in [
        ("none", "container", "none", "None", 0.0),
        ("best-effort", "pod", "static", "Static", 0.0),
        ("single-numa-node", "pod", "static", "Static", 0.0),
        ("single_numa_node", "pod", "Static", "static", 3.0),
        ("strict", "node", "dynamic", "BestEffort", 4.0),
    ] {
        let text = format!(
            "topologyManagerPolicy: {policy}\ntopologyManagerScope: {scope}\ncpuManagerPolicy: {cpu}\n\
             memoryManagerPolicy: {memory}\n"
        );
        machine.write("var/lib/kubelet/config.yaml", &text);
        let collected = machine.collect("kubelet").ok();
        assert_eq!(collected.value("goodput_kubelet_unknown_policies"), unknown, "{text}");
        let info = format!(
            "goodput_kubelet_info{{topology_policy=\"{policy}\",topology_scope=\"{scope}\",cpu_policy=\"{cpu}\",\
             memory_policy=\"{memory}\",cpu_policy_in_force=\"static\",memory_policy_in_force=\"None\"}}"
        );
        assert_eq!(collected.value(&info), 1.0, "as the file has it");
    }
}

#[test]
fn no_kubelet() {
    assert!(matches!(Machine::empty().collect("kubelet").result, Ok(Done::NotApplicable(_))));
}
