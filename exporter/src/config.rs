//! Flags, config file and environment in one typed, wholly validated value.

mod counters;
mod dcgm_exporter;
mod flags;
mod layers;
mod values;

use std::error::Error as _;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use goodput_web::masked;

use crate::attribute::Settings as OwnerSettings;
use crate::collect::{Entry, owner};
use crate::context::{Dcgm, Nccl};
use crate::source::files::Roots;
use crate::source::nvml::Search;
use crate::source::{hostname, pod_resources};
pub use counters::CountersFile;
pub use flags::{Command, Compare, Config};
use goodput_exposition::Style;
pub use goodput_web::Address;
use layers::{Origin, Setting};
pub use values::{AuditFormat, CatalogFormat, HostnameLabel, LogFormat, LogLevel, PodResourcesSocket, TextFormat};

const CONFIG_FILE: &str = "config.file";

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The command line is wrong, or asked for help or the version.
    CommandLine(clap::Error),
    /// The environment or the file is wrong.
    Mistakes(Mistakes),
}

/// Everything that is wrong with the settings outside the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistakes {
    file: Option<PathBuf>,
    list: Vec<String>,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.list.len();
        write!(f, "{count} mistake{} in the configuration", if count == 1 { "" } else { "s" })?;
        if let Some(file) = &self.file {
            write!(f, " (lines are those of {})", file.display())?;
        }
        self.list.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

impl Config {
    /// Reads the settings: `args` (program name first) win over the environment, the environment over the file.
    ///
    /// # Errors
    /// A wrong command line is one error; every mistake in the environment and the file is listed.
    pub fn read(
        registry: &'static [Entry],
        args: impl IntoIterator<Item = OsString>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let command = flags::command(registry);
        let args: Vec<OsString> = args.into_iter().map(|arg| flags::positive(&command, arg)).collect();
        let matched = matches(&command, &args).map_err(ConfigError::CommandLine)?;
        let settings = Settings::read(&command, &matched, variable).map_err(ConfigError::Mistakes)?;

        let typed = |key: &str| {
            let flag = flag(&command, key).map(|arg| arg.get_id().as_str());
            flag.and_then(|id| matched.value_source(id)) == Some(ValueSource::CommandLine)
        };
        let (program, typed_args) = args.split_at(args.len().min(1));
        let untyped_args = settings.effective().filter(|s| !typed(&s.key)).flat_map(as_args);
        let merged: Vec<_> = program.iter().cloned().chain(untyped_args).chain(typed_args.iter().cloned()).collect();
        let matched = matches(&command, &merged).map_err(ConfigError::CommandLine)?;
        let mut config = flags::config(&matched, registry).map_err(ConfigError::CommandLine)?;
        let mistakes = |error| ConfigError::Mistakes(Mistakes { file: None, list: vec![error] });
        config.read_counters().map_err(mistakes)?;
        Ok(config)
    }

    /// Reads the list of DCGM fields, if there is one.
    fn read_counters(&mut self) -> Result<(), String> {
        let Some(path) = self.counters_file.as_ref().or(self.dcgm_config_file.as_ref()) else { return Ok(()) };
        let hint = match self.counters_file {
            Some(_) => "",
            None => " (--dcgm.config-file is for dcgm-exporter's configuration, --config.file for this exporter's)",
        };
        let (file, remarks) = CountersFile::load(path).map_err(|error| error + hint)?;
        self.counters = file.map(Arc::new);
        self.warnings.extend(remarks);
        Ok(())
    }

    /// How dcgm-exporter's families are written, but for the counters file, which may change.
    #[must_use]
    pub fn style(&self) -> Style {
        Style {
            host_label: self.host_label(),
            dashed_model: self.dashed_model,
            devices: self.devices.clone(),
            ..Style::default()
        }
    }

    /// Where the kernel's files are.
    #[must_use]
    pub fn roots(&self) -> Roots {
        Roots {
            proc: self.procfs.clone(),
            sys: self.sysfs.clone(),
            cgroup: self.cgroup.clone().unwrap_or_else(|| self.sysfs.join("fs/cgroup")),
            root: self.rootfs.clone(),
            programs: Some(self.programs.clone()),
        }
    }

    /// The command line with the flags of these collectors.
    #[must_use]
    pub fn command_line(registry: &[Entry]) -> clap::Command {
        flags::command(registry)
    }

    /// Which NVML library is loaded.
    #[must_use]
    pub fn nvml(&self) -> Search {
        match &self.nvml_library {
            auto if auto.as_os_str() == "auto" => Search::Auto(self.rootfs.clone()),
            file => Search::File(file.clone()),
        }
    }

    /// What owners are found by.
    #[must_use]
    pub fn owner_settings(&self) -> OwnerSettings {
        let owner = self.collectors.iter().any(|entry| entry.name == owner::NAME);
        OwnerSettings {
            kubelet: self.pod_resources_socket(),
            resources: self.resource_names.clone(),
            job_map: self.job_mapping.clone(),
            cgroup_patterns: self.cgroup_patterns.clone(),
            // Without the collector that exports them nothing is read for these.
            slurm_accounts: self.slurm_account && owner,
            mps_limits: self.mps_limits && owner,
        }
    }

    /// The kubelet's pod-resources socket; `None` when it is not to be asked.
    fn pod_resources_socket(&self) -> Option<PathBuf> {
        match &self.pod_resources {
            _ if self.kubernetes_pods == Some(false) => None,
            PodResourcesSocket::Auto => Some(self.rootfs.join(pod_resources::SOCKET)),
            PodResourcesSocket::Off => None,
            PodResourcesSocket::Path(path) => Some(path.clone()),
        }
    }

    /// Name of the host label; `None` leaves it out.
    #[must_use]
    pub fn host_label(&self) -> Option<&'static str> {
        (!self.no_hostname).then(|| self.hostname_label.name())
    }

    /// Which of dcgm-exporter's series are written, and how.
    #[must_use]
    pub fn dcgm(&self) -> Dcgm {
        let counters = self.counters.as_ref().map(|file| file.current().selection());
        Dcgm {
            names: self.dcgm_names,
            fields: counters.unwrap_or_default(),
            xid_window: self.xid_window,
            clock_events_window: self.clock_events_window,
        }
    }

    /// What is read of NCCL's Inspector.
    #[must_use]
    pub fn nccl(&self) -> Nccl {
        Nccl { folders: self.inspector_folders.clone(), has_names: self.comm_names }
    }

    /// Value of the host label: as configured, else the host's name, else empty.
    #[must_use]
    pub fn host(&self) -> String {
        let own = || hostname::read(&self.roots()).unwrap_or_default();
        self.hostname.clone().unwrap_or_else(own)
    }
}

/// The settings outside the command line, each known to be right by itself.
struct Settings {
    environment: Vec<Setting>,
    file: Vec<Setting>,
}

impl Settings {
    fn read(
        command: &clap::Command,
        typed: &ArgMatches,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Mistakes> {
        let flags = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, is_list(arg))));
        let environment = layers::environment(flags, variable);
        let path = typed.get_one::<PathBuf>("config_file").cloned().or_else(|| {
            let setting = environment.iter().find(|s| s.key == CONFIG_FILE)?;
            setting.values.first().map(PathBuf::from)
        });
        let file = match path.as_deref().map(layers::file).transpose() {
            Ok(file) => file.unwrap_or_default(),
            Err(error) => return Err(Mistakes { file: path, list: vec![error] }),
        };
        let list: Vec<_> = environment.iter().chain(&file).filter_map(|s| mistake(command, s)).collect();
        match list.is_empty() {
            true => Ok(Self { environment, file }),
            false => Err(Mistakes { file: path, list }),
        }
    }

    /// Those of the environment, and those of the file that the environment does not set.
    fn effective(&self) -> impl Iterator<Item = &Setting> {
        let shadowed = |key: &str| self.environment.iter().any(|s| s.key == key);
        self.environment.iter().chain(self.file.iter().filter(move |s| !shadowed(&s.key)))
    }
}

fn matches(command: &clap::Command, args: &[OsString]) -> Result<ArgMatches, clap::Error> {
    command.clone().try_get_matches_from(args).map_err(|mut error| {
        if let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidValue) {
            let found = masked(found).into_owned();
            error.insert(ContextKind::InvalidValue, ContextValue::String(found));
        }
        error
    })
}

fn flag<'a>(command: &'a clap::Command, key: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(key))
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn as_args(setting: &Setting) -> impl Iterator<Item = OsString> {
    setting.values.iter().map(|value| format!("--{}={value}", setting.key).into())
}

/// What is wrong with a setting, if anything.
fn mistake(command: &clap::Command, setting: &Setting) -> Option<String> {
    let Setting { key, values, origin } = setting;
    let in_file = matches!(origin, Origin::File { .. });
    let Some(arg) = flag(command, key).filter(|_| !(in_file && key == CONFIG_FILE)) else {
        let hint = match key.as_str() {
            "version" | "metrics" | "collection" | "collections" => {
                ", which is dcgm-exporter's: its configuration goes to --dcgm.config-file".to_owned()
            }
            _ => similar(command, key),
        };
        return Some(format!("{origin}: unknown key {key:?}{hint}"));
    };
    if values.is_empty() || (values.len() > 1 && !is_list(arg)) {
        let expected = if is_list(arg) { "a value or a list of values" } else { "one value" };
        return Some(format!("{origin}: {key}: expected {expected}"));
    }
    let args: Vec<_> = std::iter::once(OsString::new()).chain(as_args(setting)).collect();
    let error = matches(command, &args).err()?;
    Some(format!("{origin}: {key}: {}", reason(&error)))
}

fn similar(command: &clap::Command, key: &str) -> String {
    let args = [OsString::new(), format!("--{key}").into()];
    match matches(command, &args).map_err(|error| error.get(ContextKind::SuggestedArg).cloned()) {
        Err(Some(ContextValue::String(flag))) => format!(", did you mean {:?}", flag.trim_start_matches('-')),
        _ => String::new(),
    }
}

/// clap's error about one value, without its usage text.
fn reason(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let found = masked(text(ContextKind::InvalidValue));
    match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(valid)), _) if !valid.is_empty() => {
            format!("expected one of {}, found {found:?}", valid.join(", "))
        }
        (_, Some(source)) => format!("{source}, found {found:?}"),
        _ => format!("expected a value, found {found:?}"),
    }
}

#[cfg(test)]
mod tests;
