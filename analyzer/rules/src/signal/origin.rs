//! Where signals come from, for people: the metrics of each, and who writes them.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Signal, table};

/// A metric that gives a signal, and who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// Its name.
    pub metric: &'static str,
    /// Our own, or the one whose name it is.
    pub exporter: &'static str,
    /// Who writes it too.
    pub also: Option<&'static str>,
    /// The collector of our own exporter that writes it.
    pub collector: Option<&'static str>,
}

/// Where the signal of this name comes from, best first; empty for a name that is no signal's.
pub fn origins(name: &str) -> Vec<Origin> {
    let signal = Signal::ALL.iter().copied().find(|signal| signal.name() == name);
    let mut metrics: Vec<&'static str> =
        table::rows().filter(|row| Some(row.signal) == signal).map(|row| row.metric).collect();
    metrics.dedup();
    let origin = |metric: &'static str| match goodput_catalog::all().find(|m| m.name == metric) {
        Some(own) => {
            let also = metric.starts_with("DCGM_").then_some("dcgm-exporter");
            Origin { metric, exporter: "goodput-exporter", also, collector: Some(own.collector) }
        }
        None => Origin { metric, exporter: writer(metric), also: None, collector: None },
    };
    metrics.into_iter().map(origin).collect()
}

/// Who writes a metric that is not our own.
fn writer(metric: &str) -> &'static str {
    match metric {
        "up" => "Prometheus",
        _ if metric.starts_with("kube_") => "kube-state-metrics",
        _ if metric.starts_with("container_") => "cAdvisor",
        _ if metric.starts_with("vllm:") => "vLLM",
        _ if metric.starts_with("sglang:") => "SGLang",
        _ if metric.starts_with("trtllm_") => "TensorRT-LLM",
        _ if metric.starts_with("tgi_") => "Text Generation Inference",
        _ if metric.starts_with("llamacpp:") => "llama.cpp",
        _ if metric.starts_with("nv_inference_") => "Triton",
        _ => "node_exporter",
    }
}

/// The signals that evidence names: one, or those of a formula, in order.
#[must_use]
pub fn named_in(formula: &str) -> Vec<Signal> {
    let words = formula.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| Signal::ALL.iter().copied().find(|signal| signal.name() == word)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::metrics_of;
    use super::*;

    #[test]
    fn formulas_name_their_signals_and_signals_their_metrics() {
        let named = named_in("node_cpu_steal / (node_cpu_steal + node_cpu_busy)");
        assert_eq!(named, [Signal::NodeCpuSteal, Signal::NodeCpuSteal, Signal::NodeCpuBusy]);
        assert_eq!(named_in("job_cpu_usage / allowed CPUs"), [Signal::JobCpuUsage]);
        assert_eq!(named_in("highest rate of writing"), []);
        let mut metrics = metrics_of(&[Signal::NodeIoPressure]);
        metrics.sort();
        assert_eq!(metrics, ["goodput_pressure_waiting_seconds_total", "node_pressure_io_waiting_seconds_total"]);
    }

    #[test]
    fn an_origin_names_the_collector_or_the_other_exporter() {
        let told = |name| origins(name).into_iter().map(|o| (o.exporter, o.collector)).collect::<Vec<_>>();
        let own = told("job_io_pressure");
        assert!(own[0].0 == "goodput-exporter" && own[0].1.is_some() && own[1..] == [("cAdvisor", None)], "{own:?}");
        assert_eq!(told("node_io_pressure").last(), Some(&("node_exporter", None)));
        let heat = origins("gpu_thermal_slowdown").into_iter().map(|o| o.also).collect::<Vec<_>>();
        assert_eq!(heat, [None, Some("dcgm-exporter")], "the driver's counter of both exporters comes second");
        assert_eq!(told("no_such_signal"), []);
    }
}
