//! The kubelet's configuration file, and the files in which its managers record their allocations.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ParseError, cpus};

/// Policies of the topology manager, as of Kubernetes 1.34; the first is the default.
pub const TOPOLOGY_POLICIES: &[&str] = &["none", "best-effort", "restricted", "single-numa-node"];

/// What the topology manager aligns; the first is the default.
pub const TOPOLOGY_SCOPES: &[&str] = &["container", "pod"];

/// Policies of the CPU manager; the first is the default.
pub const CPU_POLICIES: &[&str] = &["none", "static"];

/// Policies of the memory manager on Linux; the first is the default. `BestEffort` is for Windows alone.
pub const MEMORY_POLICIES: &[&str] = &["None", "Static"];

/// The parts of `KubeletConfiguration` that place jobs. A part that is left out has the kubelet's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// One of [`TOPOLOGY_POLICIES`], or a name that is not known here; so with those below.
    pub topology_manager_policy: Option<String>,
    /// One of [`TOPOLOGY_SCOPES`].
    pub topology_manager_scope: Option<String>,
    /// One of [`CPU_POLICIES`].
    pub cpu_manager_policy: Option<String>,
    /// One of [`MEMORY_POLICIES`].
    pub memory_manager_policy: Option<String>,
    /// CPUs that no pod gets, as a list.
    #[serde(rename = "reservedSystemCPUs")]
    reserved_system_cpus: Option<String>,
    /// How many those are.
    #[serde(skip)]
    pub reserved_cpus: Option<u64>,
}

/// Parses the file, which is YAML or JSON.
pub fn configuration(text: &str) -> Result<Configuration, ParseError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed: Result<Option<Configuration>, _> = serde_saphyr::from_str_with_options(text, options);
    let mut found = parsed.map(Option::unwrap_or_default).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line() as usize);
        at(text, line, "a kubelet configuration")
    })?;
    for name in [
        &mut found.topology_manager_policy,
        &mut found.topology_manager_scope,
        &mut found.cpu_manager_policy,
        &mut found.memory_manager_policy,
    ] {
        // Empty means left out.
        *name = name.take().filter(|name| !name.is_empty());
    }
    found.reserved_cpus = found.reserved_system_cpus.as_deref().map(count).transpose()?;
    Ok(found)
}

/// How many CPUs a list names.
fn count(list: &str) -> Result<u64, ParseError> {
    cpus::ranges(list).map(|ranges| cpus::count(&ranges))
}

/// What the CPU manager gave away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuManager {
    /// The policy in force.
    pub policy: String,
    /// CPUs that containers share; `None` when the manager gives none away.
    pub shared: Option<u64>,
    /// CPUs that belong to single containers.
    pub exclusive: u64,
    /// Containers with CPUs of their own.
    pub containers: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CpuState {
    policy_name: String,
    #[serde(default)]
    default_cpu_set: String,
    #[serde(default)]
    entries: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

/// Parses `cpu_manager_state`.
pub fn cpu_manager(text: &str) -> Result<CpuManager, ParseError> {
    let state: CpuState = json(text, "the state of the CPU manager")?;
    let mut manager = CpuManager { policy: state.policy_name, ..CpuManager::default() };
    if !state.default_cpu_set.is_empty() {
        manager.shared = Some(count(&state.default_cpu_set)?);
    }
    for list in state.entries.unwrap_or_default().values().flat_map(BTreeMap::values) {
        manager.containers += 1;
        manager.exclusive += count(list)?;
    }
    Ok(manager)
}

/// What the memory manager gave away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryManager {
    /// The policy in force.
    pub policy: String,
    /// Bytes of memory that belong to single containers, by the NUMA nodes that they are on, as in `0` or `0,1`.
    pub bytes: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryState {
    policy_name: String,
    #[serde(default)]
    entries: Option<BTreeMap<String, BTreeMap<String, Vec<MemoryBlock>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryBlock {
    numa_affinity: Vec<u32>,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
}

/// Parses `memory_manager_state`. Huge pages have types of their own and are left out.
pub fn memory_manager(text: &str) -> Result<MemoryManager, ParseError> {
    let state: MemoryState = json(text, "the state of the memory manager")?;
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    let blocks = state.entries.iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values).flatten();
    for block in blocks.filter(|block| block.kind == "memory") {
        let nodes: Vec<String> = block.numa_affinity.iter().map(u32::to_string).collect();
        let sum = bytes.entry(nodes.join(",")).or_default();
        *sum = sum.saturating_add(block.size);
    }
    Ok(MemoryManager { policy: state.policy_name, bytes })
}

fn json<'a, T: Deserialize<'a>>(text: &'a str, expected: &'static str) -> Result<T, ParseError> {
    serde_json::from_str(text).map_err(|error| at(text, error.line().max(1), expected))
}

fn at(text: &str, line: usize, expected: &'static str) -> ParseError {
    ParseError::new(line, expected, text.lines().nth(line.saturating_sub(1)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn yaml_and_json() {
        let yaml = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication:\n  webhook:\n    cacheTTL: 0s\ntopologyManagerPolicy: single-numa-node\ncpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n";
        let found = configuration(yaml).unwrap();
        assert_eq!(found.topology_manager_policy.as_deref(), Some("single-numa-node"));
        assert_eq!(found.reserved_cpus, Some(2));
        assert!(configuration("reservedSystemCPUs: all\n").is_err());
        assert_eq!(found.memory_manager_policy, None);
        let json = "{\"kind\": \"KubeletConfiguration\", \"topologyManagerScope\": \"pod\"}";
        assert_eq!(configuration(json).unwrap().topology_manager_scope.as_deref(), Some("pod"));
        assert_eq!(configuration(""), Ok(Configuration::default()));
        assert_eq!(configuration("cpuManagerPolicy: \"\"\n"), Ok(Configuration::default()));
        let error = configuration("kind: x\ncpuManagerPolicy: [static]\n").unwrap_err();
        assert_eq!((error.line, error.expected), (2, "a kubelet configuration"));
    }

    #[test]
    fn cpus_given_away() {
        let text = r#"{"policyName":"static","defaultCpuSet":"0-1,16-31","entries":{"uid":{"a":"2-9","b":"10,12"}},"checksum":7}"#;
        let expected = CpuManager { policy: "static".to_owned(), shared: Some(18), exclusive: 10, containers: 2 };
        assert_eq!(cpu_manager(text), Ok(expected));
        let none = CpuManager { policy: "none".to_owned(), ..CpuManager::default() };
        assert_eq!(cpu_manager(r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#), Ok(none));
        assert_eq!(cpu_manager("{\"policyName\":\n5}").unwrap_err().line, 2);
        assert!(cpu_manager(r#"{"policyName":"static","defaultCpuSet":"all"}"#).is_err());
    }

    #[test]
    fn memory_given_away() {
        let text = r#"{"policyName":"Static","machineState":{},"entries":{"uid":{"a":[
            {"numaAffinity":[0],"type":"memory","size":100},{"numaAffinity":[0],"type":"hugepages-2Mi","size":9}],
            "b":[{"numaAffinity":[0,1],"type":"memory","size":50}]}},"checksum":1}"#;
        let found = memory_manager(text).unwrap();
        assert_eq!(found.bytes, [("0".to_owned(), 100), ("0,1".to_owned(), 50)].into());
        assert_eq!(memory_manager(r#"{"policyName":"None","machineState":{}}"#).unwrap().policy, "None");
        assert!(memory_manager("{}").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\{|\\}|\"policyName\":|\"entries\":|\"a\"|[0-9]{1,21}|,|: |\n|\\PC)*") {
            let _ = (configuration(&text), cpu_manager(&text), memory_manager(&text));
        }
    }
}
