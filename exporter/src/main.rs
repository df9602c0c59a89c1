//! The `goodput-exporter` program.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use goodput_exporter::collect::REGISTRY;
use goodput_exporter::config::{CatalogFormat, Command, Config, ConfigError, LogFormat, LogLevel};
use goodput_exporter::scrape::{Gpus, REUSE, Scraper, Setup, install_panic_hook};
use goodput_exporter::source::nvml::Nvml;
use goodput_exporter::{attribute, describe, print, serve};
use tracing::level_filters::LevelFilter;

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
    install_panic_hook();
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format_args!("{error:#}"), 1),
    }
}

fn run(config: &Config) -> anyhow::Result<()> {
    match config.command.clone().unwrap_or(Command::Serve) {
        Command::Serve => {
            let (scraper, gpus) = start(config)?;
            serve::run(config, scraper, gpus)
        }
        Command::Print { format } => {
            let (scraper, gpus) = start(config)?;
            print::print(&scraper, &gpus, format, &mut io::stdout().lock(), &mut io::stderr())
        }
        Command::Catalog { format } => {
            let text = match format {
                CatalogFormat::Markdown => describe::markdown(REGISTRY),
                CatalogFormat::Json => describe::json()?,
            };
            print::write(&text, &mut io::stdout().lock())
        }
    }
}

fn start(config: &Config) -> anyhow::Result<(Scraper, Gpus)> {
    let nvml = Nvml::start(config.nvml_library.clone());
    let gpus: Gpus = Arc::new(move || nvml.snapshot());
    let scraper = Scraper::start(Setup {
        collectors: config.collectors.clone(),
        roots: Arc::new(config.roots()),
        gpus: gpus.clone(),
        resolve: attribute::resolve,
        hostname: config.host().into(),
        host_label: config.host_label(),
        reuse: REUSE,
    });
    Ok((scraper.context("cannot start the collectors' threads")?, gpus))
}

fn start_logging(config: &Config) {
    let level = match (config.log_level, &config.command) {
        (Some(LogLevel::Debug), _) => LevelFilter::DEBUG,
        (Some(LogLevel::Warn), _) => LevelFilter::WARN,
        (Some(LogLevel::Info), _) | (None, None | Some(Command::Serve)) => LevelFilter::INFO,
        // What `print` has to say it says itself.
        (Some(LogLevel::Error), _) | (None, Some(_)) => LevelFilter::ERROR,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_target(false);
    match config.log_format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

fn fail(error: &dyn std::fmt::Display, status: u8) -> ExitCode {
    // With standard error closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "goodput-exporter: {error}");
    status.into()
}
