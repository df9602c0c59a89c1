//! The one table of settings: a field here is a flag, a key of the file and an environment variable.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::counters::CountersFile;
use super::dcgm_exporter;
use super::values::{
    AuditFormat, CatalogFormat, HostnameLabel, LogFormat, LogLevel, PodResourcesSocket, TextFormat, cgroup_pattern,
    count, directory, duration, folder_pattern, milliseconds, names, switch, telemetry_path,
};
use goodput_exposition::Devices;
use goodput_web::Address;

use crate::audit::Profile;
use crate::audit::checks::CHECKS;
use crate::collect::{Entry, nccl};
use crate::parse::relay_url::RelayUrl;
use goodput_catalog::dcgm::Names;

const PRECEDENCE: &str = "\
Every flag is also a key of --config.file (YAML, for example `web.max-requests: 20`) and an environment variable
(GOODPUT_EXPORTER_WEB_MAX_REQUESTS=20). Flags win over the environment, the environment over the file.
dcgm-exporter's flags and environment variables are understood as well; those without a meaning here say so.";

/// All settings, typed. Every field with `#[arg(long …)]` is a flag, a key of the file and an environment variable.
#[derive(Clone, Parser)]
#[command(name = "goodput-exporter", version = goodput_web::VERSION, about, after_help = PRECEDENCE)]
#[command(args_override_self = true, disable_help_subcommand = true)]
pub struct Config {
    /// What to do; `serve` when none is given.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address to listen on, HOST:PORT or :PORT for every interface. Repeatable
    #[arg(long = "web.listen-address", short_alias = 'a', alias = "address", value_name = "ADDRESS")]
    #[arg(default_value = ":9400", help_heading = "Web", global = true)]
    pub listen: Vec<Address>,

    /// Path of the metrics
    #[arg(long = "web.telemetry-path", value_name = "PATH", default_value = "/metrics", value_parser = telemetry_path)]
    #[arg(help_heading = "Web", global = true)]
    pub telemetry_path: String,

    /// TLS, client certificates and basic auth: a Prometheus web configuration file
    #[arg(long = "web.config.file", alias = "web-config-file", value_name = "FILE")]
    #[arg(help_heading = "Web", global = true)]
    pub web_config: Option<PathBuf>,

    /// Requests for metrics served at the same time; more are answered 503
    #[arg(long = "web.max-requests", value_name = "N", default_value = "40")]
    #[arg(value_parser = count, help_heading = "Web", global = true)]
    pub max_requests: u16,

    /// Serve on the sockets that systemd hands over, instead of --web.listen-address
    #[arg(long = "web.systemd-socket", alias = "web-systemd-socket", help_heading = "Web", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub systemd_socket: bool,

    /// How long a client may take to send a request, such as 30s, counted from its last one [default: 20s]
    #[arg(long = "web.read-timeout", alias = "web-read-timeout", value_name = "DURATION", value_parser = duration)]
    #[arg(help_heading = "Web", global = true)]
    pub read_timeout: Option<Duration>,

    /// Where the host's procfs is mounted
    #[arg(long = "path.procfs", value_name = "DIR", default_value = "/proc", value_parser = directory)]
    #[arg(help_heading = "Paths", global = true)]
    pub procfs: PathBuf,

    /// Where the host's sysfs is mounted
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys", value_parser = directory)]
    #[arg(help_heading = "Paths", global = true)]
    pub sysfs: PathBuf,

    /// Where the host's root file system is mounted
    #[arg(long = "path.rootfs", value_name = "DIR", default_value = "/", value_parser = directory)]
    #[arg(help_heading = "Paths", global = true)]
    pub rootfs: PathBuf,

    /// The cgroup v2 tree or the folder of v1 hierarchies [default: fs/cgroup below --path.sysfs]
    #[arg(long = "path.cgroup", value_name = "DIR", value_parser = directory, help_heading = "Paths", global = true)]
    pub cgroup: Option<PathBuf>,

    /// Folder of `ethtool` and `dcb`, which the collector ethtool and `audit` run
    #[arg(long = "path.programs", value_name = "DIR", default_value = "/usr/sbin")]
    #[arg(help_heading = "Paths", global = true)]
    pub programs: PathBuf,

    /// NVML library to load: FILE, or `auto`, which is the libnvidia-ml.so.1 that the dynamic loader finds, else that of a
    /// driver below --path.rootfs
    #[arg(long = "nvml.library", value_name = "FILE", default_value = "auto", help_heading = "GPU", global = true)]
    pub nvml_library: PathBuf,

    /// Answer /-/ready with 503 and the reason until a GPU has been read
    #[arg(long = "nvml.require", help_heading = "GPU", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub require_gpu: bool,

    /// Release the GPUs on POST /-/release or SIGUSR1, so that they can be reset, and reacquire them on POST /-/acquire
    /// or SIGUSR2
    #[arg(long = "nvml.enable-release", help_heading = "GPU", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub enable_release: bool,

    /// Spelling of the DCGM metric names
    #[arg(long = "dcgm.names", value_name = "SPELLING", default_value = "legacy", value_parser = names())]
    #[arg(help_heading = "GPU", global = true)]
    pub dcgm_names: Names,

    /// Name of the host label on DCGM metrics
    #[arg(long = "dcgm.hostname-label", value_name = "NAME", default_value = "Hostname")]
    #[arg(help_heading = "GPU", global = true)]
    pub hostname_label: HostnameLabel,

    /// Value of the host label [default: the host's name]
    #[arg(long = "dcgm.hostname", value_name = "HOST", help_heading = "GPU", global = true)]
    pub hostname: Option<String>,

    /// Leave the host label out
    #[arg(long = "dcgm.no-hostname", short_alias = 'n', alias = "no-hostname", help_heading = "GPU", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub no_hostname: bool,

    /// DCGM fields to serve, in dcgm-exporter's CSV or YAML: only these, with its types, help texts and labels. Read
    /// again on SIGHUP [default: dcgm-exporter's and some more]
    #[arg(long = "dcgm.counters", short_alias = 'f', alias = "collectors", value_name = "FILE")]
    #[arg(help_heading = "GPU", global = true)]
    pub counters_file: Option<PathBuf>,

    /// dcgm-exporter's YAML configuration (its --config-file); --dcgm.counters wins over the fields in it. Settings of
    /// this exporter are in --config.file
    #[arg(long = "dcgm.config-file", alias = "config-file", value_name = "FILE", help_heading = "GPU", global = true)]
    pub dcgm_config_file: Option<PathBuf>,

    /// A dcgm-exporter on this node: its families that this exporter has not are served too
    #[arg(long = "dcgm.relay-url", value_name = "URL", help_heading = "GPU", global = true)]
    pub relay_url: Option<RelayUrl>,

    /// GPUs whose DCGM metrics are served: f for all, g:0,2-3 for some
    #[arg(long = "dcgm.devices", short_alias = 'd', alias = "devices", value_name = "DEVICES", default_value = "f")]
    #[arg(help_heading = "GPU", global = true)]
    pub devices: Devices,

    /// Write blanks in the label modelName as dashes
    #[arg(long = "dcgm.replace-blanks-in-model-name", aliases = ["replace-blanks-in-model-name", "rbmn"])]
    #[arg(help_heading = "GPU", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub dashed_model: bool,

    /// Milliseconds that DCGM_EXP_XID_ERRORS_COUNT looks back
    #[arg(long = "dcgm.xid-count-window-size", short_alias = 'x', alias = "xid-count-window-size", value_name = "MS")]
    #[arg(default_value = "300000", value_parser = milliseconds, help_heading = "GPU", global = true)]
    pub xid_window: Duration,

    /// Milliseconds that DCGM_EXP_CLOCK_EVENTS_COUNT looks back
    #[arg(long = "dcgm.clock-events-count-window-size", alias = "clock-events-count-window-size", value_name = "MS")]
    #[arg(default_value = "300000", value_parser = milliseconds, help_heading = "GPU", global = true)]
    pub clock_events_window: Duration,

    /// Name pods as owners of GPUs [default: where the kubelet's socket is]
    #[arg(long = "kubernetes.pods", short_alias = 'k', alias = "kubernetes", help_heading = "Owners", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = switch, value_name = "BOOL")]
    pub kubernetes_pods: Option<bool>,

    /// The kubelet's pod-resources socket, for the names of pods: PATH, `off`, or `auto`, which is
    /// var/lib/kubelet/pod-resources/kubelet.sock below --path.rootfs where that is
    #[arg(long = "kubernetes.pod-resources-socket", alias = "pod-resources-kubelet-socket", value_name = "PATH")]
    #[arg(default_value = "auto", help_heading = "Owners", global = true)]
    pub pod_resources: PodResourcesSocket,

    /// Additional resources whose devices are GPUs or MIG instances, besides nvidia.com/gpu, nvidia.com/gpu.shared and
    /// nvidia.com/mig-*; `*` stands for any characters. Repeatable
    #[arg(long = "kubernetes.resource-names", alias = "nvidia-resource-names", value_name = "NAME")]
    #[arg(value_delimiter = ',', help_heading = "Owners", global = true)]
    pub resource_names: Vec<String>,

    /// dcgm-exporter's job mapping: a folder with a file per GPU, named by its index, with a job id per line
    #[arg(long = "slurm.job-mapping-dir", alias = "hpc-job-mapping-dir", value_name = "DIR")]
    #[arg(help_heading = "Owners", global = true)]
    pub job_mapping: Option<PathBuf>,

    /// Export the Slurm accounts of jobs that hold GPUs, as label account of goodput_owner_info: reads the environment
    /// of one process of each job and keeps only SLURM_JOB_ACCOUNT and SLURM_JOB_ID
    #[arg(long = "collector.owner.slurm-account", help_heading = "Owners", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub slurm_account: bool,

    /// Export the limits that MPS clients were started with: reads the environment of each process that the driver lists as
    /// an MPS client, and keeps CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT alone
    #[arg(long = "collector.owner.mps-limits", help_heading = "Owners", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub mps_limits: bool,

    /// Start from no collector: only those asked for with --collector.NAME run
    #[arg(long = "collector.disable-defaults", help_heading = "Collectors", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub disable_defaults: bool,

    /// Cgroups to read in addition to those that hold a GPU, such as /system.slice/kubelet.service; `*` stands for any
    /// characters of one folder's name. The first 16 are read, which make about 40 series each. Repeatable
    #[arg(long = "collector.cgroup.include", value_name = "PATTERN", value_delimiter = ',', value_parser = cgroup_pattern)]
    #[arg(help_heading = "Collectors", global = true)]
    pub cgroup_patterns: Vec<String>,

    /// Read files of NCCL's Inspector below this folder, such as /run/nccl/*; `*` stands for any characters of one folder's
    /// name. Nothing is changed there. Switches the collector nccl on. Repeatable
    #[arg(long = "nccl.inspector-dir", value_name = "PATTERN", value_delimiter = ',', value_parser = folder_pattern)]
    #[arg(help_heading = "Collectors", global = true)]
    pub inspector_folders: Vec<String>,

    /// Show the names that programs give NCCL's communicators, as label name of goodput_nccl_communicator_info
    #[arg(long = "nccl.comm-names", help_heading = "Collectors", global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    pub comm_names: bool,

    /// Settings in YAML, one `flag-name: value` per line
    #[arg(long = "config.file", value_name = "FILE", global = true)]
    pub config_file: Option<PathBuf>,

    /// Least severe messages to log [default: info, and error for print, catalog and audit]
    #[arg(long = "log.level", value_name = "LEVEL", help_heading = "Log", global = true)]
    pub log_level: Option<LogLevel>,

    /// Form of the messages on standard error
    #[arg(long = "log.format", alias = "log-format", value_name = "FORMAT", default_value = "text")]
    #[arg(help_heading = "Log", global = true)]
    pub log_format: LogFormat,

    /// End when this process, which must be the parent, ends
    #[arg(long = "exit-with-parent", hide = true, global = true, value_name = "PID")]
    pub parent: Option<i32>,

    /// dcgm-exporter's --debug
    #[arg(long = "debug", hide = true, global = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(value_parser = switch, hide_default_value = true, value_name = "BOOL")]
    debug: bool,

    /// The DCGM fields to serve, from --dcgm.counters or --dcgm.config-file; `None` for the default ones.
    #[arg(skip)]
    pub counters: Option<Arc<CountersFile>>,

    /// What is accepted and does not do what its author may expect, one sentence each.
    #[arg(skip)]
    pub warnings: Vec<String>,

    /// The collectors that run, from the `--collector.NAME` flags.
    #[arg(skip)]
    pub collectors: Vec<&'static Entry>,
}

/// A sub-command.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve metrics over HTTP (the default)
    Serve,
    /// Print one scrape to standard output
    Print {
        /// Text format
        #[arg(long, default_value = "text", value_name = "FORMAT")]
        format: TextFormat,
    },
    /// List every metric: name, type, unit, labels, source, collector, series
    Catalog {
        /// Form of the list
        #[arg(long, default_value = "markdown", value_name = "FORMAT")]
        format: CatalogFormat,
    },
    /// Check this node's tuning; changes nothing, exits with 1 when a check fails
    #[command(args_conflicts_with_subcommands = true)]
    Audit {
        /// Compare saved audits instead
        #[command(subcommand)]
        compare: Option<Compare>,
        /// What the node is for
        #[arg(long, default_value = "mixed")]
        profile: Profile,
        /// Form of the answer
        #[arg(long, default_value = "table", value_name = "FORMAT")]
        format: AuditFormat,
        /// Only this check. Repeatable
        #[arg(long = "check", value_name = "ID", value_parser = check_ids(), hide_possible_values = true)]
        checks: Vec<String>,
        /// Also list the checks that do not apply to this node, in the table
        #[arg(long)]
        all: bool,
    },
}

/// A sub-command of `audit`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Compare {
    /// Compare two audits saved with --format json; exits with 1 when something got worse
    Diff {
        /// The earlier audit, or that of the node to compare with
        before: PathBuf,
        /// The later audit, or that of the other node
        after: PathBuf,
        /// Form of the answer
        #[arg(long, default_value = "table", value_name = "FORMAT")]
        format: AuditFormat,
    },
}

/// The command line with one `--collector.NAME` per collector.
pub(super) fn command(registry: &[Entry]) -> clap::Command {
    let command = dcgm_exporter::extend(Config::command());
    registry.iter().fold(command, |command, entry| {
        let default = if entry.default { "on" } else { "off" };
        let help = format!("{} [default: {default}; --no-collector.{} switches it off]", entry.about, entry.name);
        let flag = Arg::new(collector_flag(entry.name)).long(collector_flag(entry.name)).value_name("BOOL");
        command.arg(
            flag.num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(switch)
                .help(help)
                .help_heading("Collectors")
                .global(true),
        )
    })
}

/// Spells `--no-collector.NAME` as `--collector.NAME=false`, so that one flag has one meaning wherever it stands.
pub(super) fn positive(command: &clap::Command, arg: OsString) -> OsString {
    let arg = dcgm_exporter::spelled(command, arg);
    match arg.to_str().and_then(|a| a.strip_prefix("--no-collector.")) {
        Some(name) => format!("--collector.{name}=false").into(),
        None => arg,
    }
}

/// Matches to settings; the matches come from [`command`] for the same registry.
pub(super) fn config(matches: &ArgMatches, registry: &'static [Entry]) -> Result<Config, clap::Error> {
    let mut config = Config::from_arg_matches(matches)?;
    config.collectors = registry
        .iter()
        .filter(|entry| {
            let asked = matches.get_one::<bool>(&collector_flag(entry.name)).copied();
            let is_named = entry.name == nccl::NAME && !config.inspector_folders.is_empty();
            asked.unwrap_or(is_named || entry.default && !config.disable_defaults)
        })
        .collect();
    if config.debug {
        config.log_level.get_or_insert(LogLevel::Debug);
    }
    config.warnings = dcgm_exporter::warnings(matches);
    if config.devices.instances {
        config.warnings.push("--dcgm.devices=i: MIG instances are always served, each with its GPU".to_owned());
    }
    Ok(config)
}

fn check_ids() -> PossibleValuesParser {
    CHECKS.iter().map(|check| check.id).into()
}

fn collector_flag(name: &str) -> String {
    format!("collector.{name}")
}
