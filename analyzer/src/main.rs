//! The `goodput-analyzer` program.

use std::io::IsTerminal;
use std::process::ExitCode;

use goodput_analyzer::command;
use goodput_analyzer::command::cli::{Cli, Global, LogFormat};
use goodput_analyzer::escape::{log_fields, printable};
use mimalloc::MiMalloc;
use tracing_subscriber::EnvFilter;

/// A report over rows of many GPUs frees and takes millions of short texts: glibc's allocator costs it a third more CPU
/// and memory (`docs/internals/benchmarks.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The exit status where there is nothing to report.
const NO_DATA: u8 = 3;

#[allow(clippy::print_stderr)] // the one place where a failure is told to who started the program
fn main() -> ExitCode {
    let cli = Cli::read();
    log(&cli.global);
    match command::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("goodput-analyzer: {}", printable(&format!("{error:#}")));
            let is_empty = error.is::<command::NoData>();
            if is_empty { ExitCode::from(NO_DATA) } else { ExitCode::FAILURE }
        }
    }
}

/// Logs to standard error; standard output is for reports.
fn log(global: &Global) {
    // How long a statement took is nothing to act on: the report of a large fleet reads for more than a second.
    // sqlx writes a line of ~/.pgpass that it does not understand into the log, and the line may be a password.
    let others = if global.log_level == "error" { "error" } else { "warn,sqlx::query=error" };
    let others = format!("{others},sqlx_postgres::options::pgpass=off");
    let level = &global.log_level;
    let crates = ["goodput_analyzer", "goodput_engine", "goodput_rules", "goodput_store", "goodput_web"];
    let ours = crates.map(|name| format!("{name}={level}"));
    let filter = EnvFilter::new(format!("{others},{}", ours.join(",")));
    let colours = std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(colours).with_env_filter(filter);
    match global.log_format {
        LogFormat::Text => subscriber.with_target(false).fmt_fields(log_fields()).init(),
        LogFormat::Json => subscriber.json().init(),
    }
}
