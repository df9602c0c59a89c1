//! Settings: which metric tells how a node or GPU is set up, and what that is called.

use goodput_catalog::{Metric, cpu as cpus, dcgm, driver, gpu, health, host, irq, kubelet, memory, mig, network};

use goodput_exposition::sample::Labels;

/// One thing that a node or a GPU is set to, by what a series says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// How a check of the exporter's audit ended.
    Check {
        /// Its id, as in `docs/reference/audit.md`.
        id: String,
        /// `pass`, `warn`, `fail`, `no_permission` or `error`.
        status: String,
    },
    /// Anything else.
    Value {
        /// What is set.
        name: String,
        /// What to.
        value: String,
    },
}

/// How a series tells.
#[derive(Debug)]
enum Told {
    /// Every one of these labels is a setting of this name; a label that is left out tells nothing.
    Labels(&'static [(&'static str, &'static str)]),
    /// The label is the value, where the sample is not zero.
    Label(&'static str, &'static str),
    /// The sample is the value, in this unit.
    Number(&'static str, &'static str),
    /// The same for each value of the label.
    Each(&'static str, &'static str),
    /// How a check ended.
    Check,
}

use Told::{Check, Each, Label, Number};

/// Every metric that tells a setting. What a metric counts that moves by itself is none.
static ROWS: &[(&Metric, Told)] = &[
    (&host::AUDIT_STATUS, Check),
    (&host::NODE_INFO, Told::Labels(&[("kernel", "kernel")])),
    (&gpu::DRIVER_INFO, Told::Labels(&[("version", "driver version")])),
    (&driver::DRIVER_INFO, Told::Labels(&[("version", "driver version"), ("module", "driver module")])),
    (&driver::DRIVER_MODULE, Each("module", "kernel module loaded:")),
    (&driver::DRIVER_PARAMETER, Each("name", "driver parameter")),
    (&driver::DRIVER_FIRMWARE, Label("firmware", "GPU firmware")),
    (&driver::DRIVER_EXCLUDED, Number("GPUs that the driver keeps from use", "")),
    (
        &memory::THP,
        Told::Labels(&[
            ("enabled", "transparent huge pages"),
            ("defrag", "transparent huge pages, defrag"),
            ("shmem", "transparent huge pages, shared memory"),
        ]),
    ),
    (&memory::KHUGEPAGED_DEFRAG, Number("khugepaged defrag", "")),
    (&memory::KHUGEPAGED_SCAN_PAGES, Number("khugepaged, pages of a scan", "")),
    (&memory::KHUGEPAGED_SLEEP, Number("khugepaged, sleep between scans", "s")),
    (&memory::COMPACTION_PROACTIVENESS, Number("compaction proactiveness", "")),
    (&memory::SWAPPINESS, Number("swappiness", "")),
    (&memory::ZSWAP_ENABLED, Number("zswap enabled", "")),
    (&host::NUMA_BALANCING, Number("NUMA balancing", "")),
    (&host::NODE_CPUS, Number("CPUs", "")),
    (&cpus::CPU_GOVERNOR, Label("governor", "CPU governor")),
    (&cpus::CPU_SMT, Number("SMT active", "")),
    (&cpus::CPU_ISOLATED, Number("isolated CPUs", "")),
    (&cpus::CPU_TICKLESS, Number("tickless CPUs", "")),
    (
        &kubelet::KUBELET_INFO,
        Told::Labels(&[
            ("topology_policy", "kubelet topology policy"),
            ("topology_scope", "kubelet topology scope"),
            ("cpu_policy", "kubelet CPU policy"),
            ("memory_policy", "kubelet memory policy"),
            ("cpu_policy_in_force", "kubelet CPU policy in force"),
            ("memory_policy_in_force", "kubelet memory policy in force"),
        ]),
    ),
    (&kubelet::KUBELET_RESERVED_CPUS, Number("kubelet reserved CPUs", "")),
    (&irq::IRQBALANCE_RUNNING, Number("irqbalance running", "")),
    (&network::RDMA_PORTS, Number("RDMA ports", "")),
    (&dcgm::POWER_LIMIT.legacy, Number("power limit", "W")),
    (&dcgm::POWER_LIMIT.current, Number("power limit", "W")),
    (&dcgm::APP_SM_CLOCK.legacy, Number("application clock of the SMs", "MHz")),
    (&dcgm::MAX_SM_CLOCK.legacy, Number("highest clock of the SMs", "MHz")),
    (&dcgm::PCIE_MAX_LINK_GEN.legacy, Number("highest PCIe generation", "")),
    (&dcgm::PCIE_MAX_LINK_WIDTH.legacy, Number("most PCIe lanes", "")),
    (&health::PCIE_DEGRADED, Each("aspect", "PCIe link below its highest")),
    (&host::GPU_LOCAL_CPUS, Number("CPUs near the GPU", "")),
    (&mig::MODE, Label("mode", "MIG mode")),
    (&mig::MIG_INFO, Label("GPU_I_PROFILE", "MIG instances")),
];

/// Every metric that tells a setting, each once.
#[must_use]
pub fn setting_metrics() -> Vec<String> {
    ROWS.iter().map(|(metric, _)| metric.name.to_owned()).collect()
}

/// What a series says with this sample; nothing where it is no metric of settings.
#[must_use]
pub fn settings(labels: &Labels, sample: f64) -> Vec<Setting> {
    let Some((_, told)) = ROWS.iter().find(|(metric, _)| metric.name == labels.metric()) else { return Vec::new() };
    told.settings(labels, sample).unwrap_or_default()
}

impl Told {
    fn settings(&self, labels: &Labels, sample: f64) -> Option<Vec<Setting>> {
        let value = |name: String, value: &str| Setting::Value { name, value: value.to_owned() };
        let is = sample > 0.0;
        Some(match self {
            Told::Labels(all) => {
                let told = |(label, name): &(&str, &str)| Some(value((*name).to_owned(), labels.get(label)?));
                all.iter().filter_map(told).collect()
            }
            Label(label, name) if is => vec![value((*name).to_owned(), labels.get(label)?)],
            Number(name, "") => vec![value((*name).to_owned(), &sample.to_string())],
            Number(name, unit) => vec![value((*name).to_owned(), &format!("{sample} {unit}"))],
            Each(label, name) => vec![value(format!("{name} {}", labels.get(label)?), &sample.to_string())],
            Check if is => {
                vec![Setting::Check { id: labels.get("check")?.to_owned(), status: labels.get("status")?.to_owned() }]
            }
            Label(..) | Check => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::is_known;

    #[test]
    fn the_store_keeps_every_metric_of_settings() {
        for metric in setting_metrics() {
            assert!(is_known(&metric), "{metric} is no row of the table of signals");
        }
    }

    #[test]
    fn a_series_tells_its_settings() {
        let told = |labels: &[(&str, &str)], sample| {
            settings(&Labels::new(labels.iter().copied()), sample)
                .into_iter()
                .map(|setting| match setting {
                    Setting::Check { id, status } => format!("check {id}: {status}"),
                    Setting::Value { name, value } => format!("{name}: {value}"),
                })
                .collect::<Vec<_>>()
        };
        let audit = [("__name__", "goodput_audit_status"), ("check", "swap_off"), ("status", "fail")];
        assert_eq!(told(&audit, 1.0), ["check swap_off: fail"]);
        assert_eq!(told(&audit, 0.0), [""; 0], "it ended so before");
        let thp = [("__name__", "goodput_thp_info"), ("enabled", "madvise"), ("defrag", "never")];
        let both = ["transparent huge pages: madvise", "transparent huge pages, defrag: never"];
        assert_eq!(told(&thp, 1.0), both, "a label that is left out is not told");
        let governor = [("__name__", "goodput_cpu_governor_policies"), ("governor", "powersave")];
        assert_eq!(told(&governor, 64.0), ["CPU governor: powersave"]);
        assert_eq!(told(&governor, 0.0), [""; 0]);
        let limit = [("__name__", "DCGM_FI_DEV_POWER_MGMT_LIMIT"), ("UUID", "GPU-1")];
        assert_eq!(told(&limit, 500.0), ["power limit: 500 W"]);
        let parameter = [("__name__", "goodput_driver_parameter"), ("name", "EnableGpuFirmware")];
        assert_eq!(told(&parameter, 0.0), ["driver parameter EnableGpuFirmware: 0"]);
        assert_eq!(told(&[("__name__", "goodput_thp_anon_bytes")], 5.0), [""; 0]);
    }
}
