//! `teams`: how the teams of the configuration fit what is stored.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};

use super::cli::PeriodArgs;
use super::database::DatabaseArgs;
use super::{COPIED, SERVED, asked_period, print};
use crate::config::Config;
use crate::report::team_check::{TeamCheck, Unmapped, team_check};
use crate::report::{Amount, Period};
use crate::teams::{Mapping, PLATFORM, Teams, UNASSIGNED};
use goodput_store::{Directory, ReadVerdicts};

/// Rows of a table that are printed; JSON has all of them.
const MAX_ROWS: usize = 20;

/// What to do about teams.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Which patterns match nothing, what several teams match, how much is unassigned and what to map next
    Check(CheckArgs),
}

/// What is checked.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The time that is looked at
    #[command(flatten)]
    period: PeriodArgs,
    /// How to print it
    #[arg(long, default_value = "table")]
    format: Format,
    /// Where the verdicts are, if not in --data.dir
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Runs it.
pub async fn run(config: &Config, dir: &Path, command: Command) -> anyhow::Result<()> {
    let Command::Check(args) = command;
    match args.database.look().await? {
        Some(fleet) => check(config, &fleet, COPIED, &args).await,
        None => check(config, &Directory::new(dir), SERVED, &args).await,
    }
}

async fn check(config: &Config, verdicts: &impl ReadVerdicts, hint: &str, args: &CheckArgs) -> anyhow::Result<()> {
    let period = asked_period(&args.period, &config.zone)?;
    let checked = team_check(verdicts, &period, &config.prices, &config.teams()).await;
    let checked = checked.with_context(|| format!("no verdicts to look at; {hint}"))?;
    match args.format {
        Format::Json => print(&(serde_json::to_string_pretty(&checked)? + "\n")),
        Format::Table => print(&table(&checked)),
    }
}

/// An error where no team has this name.
pub(super) fn known(teams: &Teams, name: &str, period: &Period) -> anyhow::Result<()> {
    let mapping = Mapping::at(teams, period.start_ms);
    if mapping.place(name).is_some() || [UNASSIGNED, PLATFORM].contains(&name) {
        return Ok(());
    }
    let names: Vec<&str> = mapping.teams().iter().map(|team| team.name.as_str()).collect();
    anyhow::ensure!(
        !names.is_empty(),
        "--team: no teams are configured; see teams and teams_file of the configuration"
    );
    anyhow::bail!("--team: expected one of {}, {UNASSIGNED} and {PLATFORM}, found {name:?}", names.join(", "))
}

fn table(check: &TeamCheck) -> String {
    let mut shown = format!("{}: teams {}, held {} GPU-hours", check.period, check.teams, check.held.hours());
    let _ = writeln!(shown, ", unassigned {}", amount(&check.unassigned));
    let mut section = |title: &str, rows: Vec<String>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(shown, "\n{title}");
        rows.iter().take(MAX_ROWS).for_each(|row| shown.push_str(&format!("  {row}\n")));
        if let Some(more) = rows.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
            let _ = writeln!(shown, "  and {more} more, which --format json has");
        }
    };
    let unused = check.unused.iter().map(|one| format!("{}  {{{}: {:?}}}", one.team, one.field, one.pattern));
    section("Patterns that match nothing", unused.collect());
    let twice = check.matched_twice.iter().map(|one| {
        let (also, names) = (one.also.join(", "), one.names.join(", "));
        format!("{}  {}, also matched by {also}: {names}", amount(&one.amount), one.team)
    });
    section("Matched by several teams; the first of them has it", twice.collect());
    section("Unassigned, to map next", check.map_next.iter().map(next).collect());
    shown
}

fn next(one: &Unmapped) -> String {
    format!("{}  {{{}: {:?}}}", amount(&one.amount), one.field, one.name)
}

fn amount(amount: &Amount) -> String {
    let money = if amount.cost.is_empty() { String::new() } else { format!(", {}", amount.money()) };
    format!("{} GPU-hours ({} of held{money})", amount.hours(), amount.percent())
}
