//! `migrate`: makes or upgrades the tables of a fleet in PostgreSQL, and brings the results of a data directory there.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing::info;

use super::database::DatabaseArgs;
use super::print;
use crate::report::{Names, text};
use goodput_store::postgres::{Copied, Postgres, Roles, copy, migrate};

/// What takes no longer shows no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the log says how far it is, where standard error is no terminal.
const EVERY: Duration = Duration::from_secs(10);

const MILLIJOULES_PER_KWH: f64 = 3.6e9;

/// What `migrate` does.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the tables are; its user owns them
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Copy verdicts, roll-ups, events and deliveries of this data directory, also while a server runs
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Role that may read and write results
    #[arg(long = "database.worker-role", value_name = "NAME", default_value = "goodput_worker")]
    pub worker_role: String,
    /// Role that may read results
    #[arg(long = "database.reader-role", value_name = "NAME", default_value = "goodput_reader")]
    pub reader_role: String,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let address = args.database.address()?.context("--database.url: expected the address of the database")?;
    let roles = Roles { worker: args.worker_role, reader: args.reader_role };
    migrate(&address, &roles).await?;
    match args.from {
        Some(from) => copied(&from, &Postgres::connect(&address).await?).await,
        None => print("the schema is that of this release\n"),
    }
}

async fn copied(from: &Path, to: &Postgres) -> anyhow::Result<()> {
    let mut progress = Progress::new();
    let copied = copy(from, to, &Names::metrics(), &mut |what, done, all| progress.show(what, done, all)).await;
    progress.bar.finish_and_clear();
    to.close().await;
    let copied = copied.with_context(|| format!("the results of {} are not all copied", from.display()))?;
    print(&table(&copied))?;
    let differing: Vec<_> = copied.differing().collect();
    ensure!(
        differing.is_empty(),
        "rows of {} differ from those of the directory: nothing else may write the verdicts of these nodes meanwhile; run it \
         again",
        differing.join(", ")
    );
    Ok(())
}

/// Counts and totals of both sides.
fn table(copied: &Copied) -> String {
    let mut out = format!("{:<12} {:>16} {:>16}\n", "", "directory", "PostgreSQL");
    for (name, from) in &copied.from {
        let to = copied.to.get(name).copied().unwrap_or_default();
        let mut row = |name: &str, [from, to]: [String; 2]| {
            let _ = writeln!(out, "{name:<12} {from:>16} {to:>16}");
        };
        let sides = [*from, to];
        row(name, sides.map(|side| HumanCount(side.rows.unsigned_abs()).to_string()));
        if *name == "intervals" {
            row("  GPU-hours", sides.map(|side| text::hours(side.gpu_ms)));
            row("  kWh", sides.map(|side| text::quantity(side.energy_mj as f64 / MILLIJOULES_PER_KWH)));
        }
    }
    if copied.left_out > 0 {
        let _ = writeln!(out, "{} damaged rows of the directory were left out; the log names them", copied.left_out);
    }
    out
}

/// A bar on a terminal, lines of the log elsewhere.
struct Progress {
    bar: ProgressBar,
    since: Instant,
    told: Instant,
}

impl Progress {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta} left");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let (bar, now) = (bar.with_style(style.unwrap_or(ProgressStyle::default_bar())), Instant::now());
        Self { bar, since: now, told: now }
    }

    fn show(&mut self, what: &'static str, done: u64, all: u64) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        if !std::io::stderr().is_terminal() {
            if self.told.elapsed() > EVERY {
                self.told = Instant::now();
                info!(done, all, "{what}");
            }
            return;
        }
        if self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(what);
        self.bar.set_length(all);
        self.bar.set_position(done);
    }
}
