//! dcgm-exporter's command line, so that one written for it starts this exporter unchanged: its variables that set a
//! flag of ours, and its flags that mean nothing here. Flags that mean the same are aliases in `flags.rs`.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::values::switch;

/// Its environment variables that mean something here, and the flag that each one sets.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("DCGM_EXPORTER_LISTEN", "web.listen-address"),
    ("DCGM_EXPORTER_WEB_CONFIG_FILE", "web.config.file"),
    ("DCGM_EXPORTER_NO_HOSTNAME", "dcgm.no-hostname"),
    ("DCGM_EXPORTER_LOG_FORMAT", "log.format"),
    ("NODE_NAME", "dcgm.hostname"),
    ("DCGM_EXPORTER_COLLECTORS", "dcgm.counters"),
    ("DCGM_EXPORTER_CONFIG_FILE", "dcgm.config-file"),
    ("DCGM_EXPORTER_DEVICES_STR", "dcgm.devices"),
    ("DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME", "dcgm.replace-blanks-in-model-name"),
    ("DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", "dcgm.xid-count-window-size"),
    ("DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", "dcgm.clock-events-count-window-size"),
    ("DCGM_EXPORTER_USE_OLD_NAMESPACE", "use-old-namespace"),
    ("DCGM_EXPORTER_DEBUG", "debug"),
    ("DCGM_EXPORTER_SYSTEMD_SOCKET", "web.systemd-socket"),
    ("DCGM_EXPORTER_WEB_READ_TIMEOUT", "web.read-timeout"),
    ("DCGM_EXPORTER_KUBERNETES", "kubernetes.pods"),
    ("DCGM_POD_RESOURCES_KUBELET_SOCKET", "kubernetes.pod-resources-socket"),
    ("NVIDIA_RESOURCE_NAMES", "kubernetes.resource-names"),
    ("DCGM_HPC_JOB_MAPPING_DIR", "slurm.job-mapping-dir"),
];

/// Why intervals are not taken over.
pub(super) const CADENCE: &str =
    "a scrape shows the newest readings, seconds old at most; goodput_gpu_reading_age_seconds says how old";

const RELAY: &str = "this exporter reads GPUs; --dcgm.relay-url adds what a dcgm-exporter reads";
const NO_DUMPS: &str = "`print` and `catalog` show what is collected, `--log.level=debug` why";
const NO_DCGM: &str = "there is no DCGM to log; use --log.level";
const KUBE_STATE_METRICS: &str =
    "this exporter asks no API server; join kube_pod_labels of kube-state-metrics on namespace and pod";
const REBIND: &str = "GPUs that come and go are always noticed";

/// A flag of dcgm-exporter that means nothing here.
struct Inert {
    flag: &'static str,
    short: Option<char>,
    variable: &'static str,
    /// The value that asks for nothing; a switch has `false`.
    neutral: &'static str,
    /// What to do instead, or why nothing is to be done.
    advice: &'static str,
}

const fn inert(
    flag: &'static str,
    short: Option<char>,
    variable: &'static str,
    neutral: &'static str,
    advice: &'static str,
) -> Inert {
    Inert { flag, short, variable, neutral, advice }
}

#[rustfmt::skip]
static INERT: &[Inert] = &[
    inert("collect-interval", Some('c'), "DCGM_EXPORTER_INTERVAL", "", CADENCE),
    inert("configmap-data", Some('m'), "DCGM_EXPORTER_CONFIGMAP_DATA", "none", "mount the ConfigMap and name its file with --dcgm.counters"),
    inert("remote-hostengine-info", Some('r'), "DCGM_REMOTE_HOSTENGINE_INFO", "", "GPUs are read through NVML, without a hostengine"),
    inert("switch-devices", Some('s'), "DCGM_EXPORTER_OTHER_DEVICES_STR", "f", RELAY),
    inert("cpu-devices", Some('p'), "DCGM_EXPORTER_CPU_DEVICES_STR", "f", RELAY),
    inert("fake-gpus", None, "DCGM_EXPORTER_USE_FAKE_GPUS", "false", "--nvml.library can name a simulated NVML"),
    inert("enable-dcgm-log", None, "DCGM_EXPORTER_ENABLE_DCGM_LOG", "false", NO_DCGM),
    inert("dcgm-log-level", None, "DCGM_EXPORTER_DCGM_LOG_LEVEL", "NONE", NO_DCGM),
    inert("kubernetes-enable-pod-labels", None, "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "false", KUBE_STATE_METRICS),
    inert("kubernetes-pod-label-allowlist-regex", None, "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", "", KUBE_STATE_METRICS),
    inert("kubernetes-enable-pod-uid", None, "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", "false", "goodput_owner_info has the UIDs of pods at work"),
    inert("kubernetes-gpu-id-type", None, "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "uid", "GPUs are found by UUID, index and device name alike"),
    inert("kubernetes-virtual-gpus", None, "KUBERNETES_VIRTUAL_GPUS", "false", "no series is repeated per pod; goodput_gpu_owner_info lists all pods of a GPU"),
    inert("kubernetes-enable-dra", None, "KUBERNETES_ENABLE_DRA", "false", "claims of dynamic resource allocation are always followed"),
    inert("container-labels", None, "DCGM_EXPORTER_CONTAINER_LABELS", "false", "goodput_gpu_owner_info names the container that holds a GPU"),
    inert("container-runtime-socket", None, "DCGM_CONTAINER_RUNTIME_SOCKET", "", "containers are found by their cgroups, without a runtime"),
    inert("dump-enabled", None, "DCGM_EXPORTER_DUMP_ENABLED", "false", NO_DUMPS),
    inert("dump-directory", None, "DCGM_EXPORTER_DUMP_DIRECTORY", "", NO_DUMPS),
    inert("dump-retention", None, "DCGM_EXPORTER_DUMP_RETENTION", "", NO_DUMPS),
    inert("dump-compression", None, "DCGM_EXPORTER_DUMP_COMPRESSION", "false", NO_DUMPS),
    inert("disable-startup-validate", None, "DISABLE_STARTUP_VALIDATE", "false", "nothing is validated at the start: without a driver the host's metrics are served"),
    inert("enable-gpu-bind-unbind-watch", None, "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", "false", REBIND),
    inert("gpu-bind-unbind-poll-interval", None, "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", "", REBIND),
    inert("enable-pprof", None, "DCGM_EXPORTER_ENABLE_PPROF", "false", "this is no Go program; attach perf to it"),
    inert("enable-exporter-metrics", None, "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS", "false", "goodput_exporter_ and process_ metrics are always served"),
    inert("web-write-timeout", None, "DCGM_EXPORTER_WEB_WRITE_TIMEOUT", "", "a connection is cut after 130 s at the latest"),
];

/// Adds the flags that mean nothing here; they are in no help text.
pub(super) fn extend(command: Command) -> Command {
    let refused = Arg::new("use-old-namespace").long("use-old-namespace").short('o').value_parser(new_names_only);
    let command = command.arg(optional(refused));
    INERT.iter().fold(command, |command, inert| {
        let arg = Arg::new(inert.flag).long(inert.flag).hide(true).global(true);
        let arg = inert.short.into_iter().fold(arg, Arg::short);
        command.arg(if inert.neutral == "false" { optional(arg) } else { arg.num_args(1) })
    })
}

/// A switch: `--flag` or `--flag=BOOL`.
fn optional(arg: Arg) -> Arg {
    arg.num_args(0..=1).require_equals(true).default_missing_value("true").hide(true).global(true)
}

fn new_names_only(text: &str) -> Result<bool, String> {
    match switch(text)? {
        false => Ok(false),
        true => {
            Err("labels of dcgm-exporter 1.x (uuid, pod_name, pod_namespace, container_name) are not served; leave \
                     this out and rename them in Prometheus with metric_relabel_configs"
                .to_owned())
        }
    }
}

/// The variables, and the flag that each one sets.
pub(super) fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    VARIABLES.iter().copied().chain(INERT.iter().map(|inert| (inert.variable, inert.flag)))
}

/// One sentence for each flag that was given and means nothing here.
pub(super) fn warnings(matches: &ArgMatches) -> Vec<String> {
    let given = |inert: &&Inert| {
        let typed = matches.value_source(inert.flag) == Some(ValueSource::CommandLine);
        let value = matches.get_one::<String>(inert.flag).map(String::as_str).unwrap_or_default();
        typed && !value.eq_ignore_ascii_case(inert.neutral) && !(inert.neutral == "false" && switch(value) == Ok(false))
    };
    let sentence = |inert: &Inert| format!("--{} of dcgm-exporter has no effect: {}", inert.flag, inert.advice);
    INERT.iter().filter(given).map(sentence).collect()
}

/// Spells a long flag behind one dash with two, as Go programs allow.
pub(super) fn spelled(command: &Command, arg: OsString) -> OsString {
    let name = arg.to_str().and_then(|arg| arg.strip_prefix('-')).and_then(|arg| arg.split('=').next());
    let named =
        |arg: &Arg, name| arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|a| a.contains(&name));
    match name.is_some_and(|name| name.len() > 1 && command.get_arguments().any(|arg| named(arg, name))) {
        true => [OsString::from("-"), arg].into_iter().collect(),
        false => arg,
    }
}
