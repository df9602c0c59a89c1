//! The `goodput-exporter` program.

use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use goodput_exporter::audit::checks::CHECKS;
use goodput_exporter::audit::diff::{self, Diff};
use goodput_exporter::audit::{Audit, Check, Profile, Status, render};
use goodput_exporter::config::{
    AuditFormat, CatalogFormat, Command, Compare, Config, ConfigError, LogFormat, LogLevel,
};
use goodput_exporter::context::Context;
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::scrape::{Gpus, Scraper, Setup, install_panic_hook};
use goodput_exporter::source::nvml::{Driver, Nvml};
use goodput_exporter::{attribute, describe, print, serve};
use rustix::process::{self, Signal};
use tracing::level_filters::LevelFilter;

/// How long `audit` waits for the GPUs' first reading.
const GPU_PATIENCE: Duration = Duration::from_secs(10);

/// Exit status of a wrong command line or configuration; 1 is for all other failures.
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let config = match Config::read(REGISTRY, std::env::args_os(), &variable) {
        Ok(config) => config,
        Err(ConfigError::CommandLine(answer)) => {
            // Help and version too, which go to standard output.
            let _ = answer.print();
            return if answer.use_stderr() { WRONG_USE.into() } else { ExitCode::SUCCESS };
        }
        Err(ConfigError::Mistakes(mistakes)) => return fail(&mistakes, WRONG_USE),
    };
    start_logging(&config);
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    install_panic_hook();
    match run(&config) {
        Ok(status) => status,
        Err(error) => fail(&format_args!("{error:#}"), 1),
    }
}

/// Has the kernel end this program when its parent ends; an error when that has happened already.
fn exit_with(parent: i32) -> anyhow::Result<()> {
    process::set_parent_process_death_signal(Some(Signal::TERM)).context("--exit-with-parent")?;
    anyhow::ensure!(process::getppid().is_some_and(|pid| pid.as_raw_pid() == parent), "the parent is gone");
    Ok(())
}

fn run(config: &Config) -> anyhow::Result<ExitCode> {
    config.parent.map_or(Ok(()), exit_with)?;
    match config.command.clone().unwrap_or(Command::Serve) {
        Command::Serve => {
            let (scraper, gpus, nvml) = start(config)?;
            serve::run(config, scraper, gpus, nvml)?;
        }
        Command::Print { format } => {
            let (scraper, gpus, _nvml) = start(config)?;
            print::print(&scraper, &gpus, format, &mut io::stdout().lock(), &mut io::stderr())?;
        }
        Command::Catalog { format } => {
            let text = match format {
                CatalogFormat::Markdown => describe::markdown(REGISTRY),
                CatalogFormat::Json => describe::json()?,
                CatalogFormat::Dcgm => describe::parity(),
            };
            print::write(text.as_bytes(), &mut io::stdout().lock())?;
        }
        Command::Audit { compare: Some(Compare::Diff { before, after, format }), .. } => {
            return compare(&before, &after, format);
        }
        Command::Audit { compare: None, profile, format, checks, all } => {
            return audit(config, profile, format, &checks, all);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn audit(
    config: &Config,
    profile: Profile,
    format: AuditFormat,
    ids: &[String],
    has_all: bool,
) -> anyhow::Result<ExitCode> {
    let nvml = Nvml::start(config.nvml());
    let gpus = nvml.settled(GPU_PATIENCE);
    if let Driver::Absent { reason } = &gpus.driver {
        // A note for people; where it cannot be written, the audit still can.
        let _ = writeln!(io::stderr(), "no GPU driver: {reason}");
    }
    let roots = Arc::new(config.roots());
    let owners = Arc::new(attribute::resolve(&roots, &gpus));
    let context = Context {
        roots,
        common: Arc::default(),
        gpus,
        owners,
        hostname: config.host().into(),
        dcgm: Arc::default(),
        nccl: Arc::default(),
    };
    let wanted = |check: &Check| ids.is_empty() || ids.iter().any(|id| id == check.id);
    let audit = Audit::run(&context, profile, CHECKS.iter().copied().filter(|check| wanted(check)));
    let text = match format {
        AuditFormat::Table => render::table(&audit, has_all || !ids.is_empty(), colour(&io::stdout())),
        AuditFormat::Json => render::json(&audit)?,
        AuditFormat::Markdown => render::markdown(&audit),
    };
    print::write(text.as_bytes(), &mut io::stdout().lock())?;
    Ok(if audit.count(Status::Fail) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn compare(before: &Path, after: &Path, format: AuditFormat) -> anyhow::Result<ExitCode> {
    let (before, after) = match (diff::load(before), diff::load(after)) {
        (Ok(before), Ok(after)) => (before, after),
        // As diff(1) has it: 1 is a difference, not a mistake in the command line.
        (Err(error), _) | (_, Err(error)) => return Ok(fail(&format_args!("{error:#}"), WRONG_USE)),
    };
    let diff = Diff::between(&before, &after);
    let text = match format {
        AuditFormat::Table => diff::table(&diff, colour(&io::stdout())),
        AuditFormat::Json => diff::json(&diff)?,
        AuditFormat::Markdown => diff::markdown(&diff),
    };
    print::write(text.as_bytes(), &mut io::stdout().lock())?;
    Ok(if diff.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Terminals get colours, unless their user has asked for none (no-color.org).
fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn start(config: &Config) -> anyhow::Result<(Scraper, Gpus, Arc<Nvml>)> {
    let nvml = Arc::new(Nvml::reading(config.nvml(), &config.dcgm().fields));
    nvml.follow_kernel_log(config.rootfs.join("dev/kmsg"));
    let snapshots = nvml.clone();
    let gpus: Gpus = Arc::new(move || snapshots.snapshot());
    let scraper = Scraper::start(Setup::new(config, gpus.clone()));
    Ok((scraper.context("cannot start the collectors' threads")?, gpus, nvml))
}

fn start_logging(config: &Config) {
    let level = match (config.log_level, &config.command) {
        (Some(LogLevel::Debug), _) => LevelFilter::DEBUG,
        (Some(LogLevel::Warn), _) => LevelFilter::WARN,
        (Some(LogLevel::Info), _) | (None, None | Some(Command::Serve)) => LevelFilter::INFO,
        // What the other commands have to say they say themselves.
        (Some(LogLevel::Error), _) | (None, Some(_)) => LevelFilter::ERROR,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_target(false);
    match config.log_format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

fn fail(error: &dyn std::fmt::Display, status: u8) -> ExitCode {
    // With standard error closed, no reader is left.
    let _ = writeln!(io::stderr(), "goodput-exporter: {error}");
    status.into()
}
