//! What each command does.

pub mod backfill;
pub mod cli;
mod connection;
pub mod database;
pub mod deliver;
pub mod evaluate;
pub mod export;
pub mod findings;
mod history;
pub mod import;
pub mod migrate;
pub mod teams;
pub mod trial;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::Config;
use crate::escape::printable;
use crate::judge::{Judge, windows};
use crate::ownership::Book;
use crate::report::{
    Period, Price, Report, Site, Wanted, csv, html, intervals, markdown, showback, stored_by_team, team_csv, teams_in,
    text,
};
use crate::{serve, why};
use cli::{Cli, Command, PeriodArgs, ReportFormat};
use goodput_exposition::sample::TimeMs;
use goodput_store::{Directory, ReadVerdicts, Store, wall_clock};
use goodput_verdict::{Class, Interval};

pub(crate) mod store;

/// Runs the command to its end.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    let variables = |name: &str| std::env::var(name).ok();
    let config = Config::load(cli.global.config_file.as_deref())?.overridden_by(&variables)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(async {
        let dir = &cli.global.data_dir;
        match cli.command {
            Command::Serve(web) => {
                let options = config.store_options(dir);
                serve::run(config, options, web).await
            }
            Command::Report { period, format, out, database, annex, team } => {
                let asked = ReportAsked { period: &period, team: team.as_deref(), format, annex, out: out.as_deref() };
                match database.look().await? {
                    Some(fleet) => report(&config, &fleet, COPIED, &asked).await,
                    None => report(&config, &Directory::new(dir), SERVED, &asked).await,
                }
            }
            Command::Deliver(command) => deliver::run(&config, dir, command).await,
            Command::Findings(command) => findings::run(&config, dir, command).await,
            Command::Teams(command) => teams::run(&config, dir, command).await,
            Command::Classify { start, end, dry_run } => {
                let period = Period::between(&start, &end, &config.zone)?;
                classify(config, dir, &period, dry_run).await
            }
            Command::Evaluate(args) => evaluate::run(&args, &config.thresholds),
            Command::Backfill(args) => backfill::run(config, dir, args).await,
            Command::Export(args) => export::run(&config, dir, args).await,
            Command::Import(args) => import::run(config, dir, args).await,
            Command::Try(args) => trial::run(config, args).await,
            Command::Store(args) => store::run(args, &config, dir).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Why(args) => print(&why::run(&args, &config.thresholds).await?),
            Command::CheckConfig { quiet } => {
                let secrets = config.report.as_ref().map_or(Ok(()), |settings| settings.check_files());
                secrets.map_err(anyhow::Error::msg)?;
                if quiet { Ok(()) } else { print(&config.to_string()) }
            }
        }
    })
}

/// There is nothing to report; the exit status is 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoData(String);

/// Where verdicts may be, if there are none.
const COPIED: &str = "has migrate --from copied any?";
const SERVED: &str = "is this the --data.dir of serve?";

/// Which report, in which form, and where to.
struct ReportAsked<'a> {
    period: &'a PeriodArgs,
    team: Option<&'a str>,
    format: ReportFormat,
    annex: bool,
    out: Option<&'a Path>,
}

async fn report(
    config: &Config,
    verdicts: &impl ReadVerdicts,
    hint: &str,
    asked: &ReportAsked<'_>,
) -> anyhow::Result<()> {
    let ReportAsked { team, format, annex, .. } = *asked;
    anyhow::ensure!(
        !annex || matches!(format, ReportFormat::Html),
        "--annex: expected only with --format html; the other forms have all of it"
    );
    let is_by_intervals = |format| matches!(format, ReportFormat::CsvAccounts | ReportFormat::CsvIntervals);
    let is_of_all = is_by_intervals(format);
    anyhow::ensure!(!is_of_all || team.is_none(), "--team: expected only with html, markdown, json or csv");
    let period = asked_period(asked.period, &config.zone)?;
    let terms = config.terms();
    let teams = teams_in(verdicts, &period, &terms).await;
    let teams = teams.with_context(|| format!("no verdicts to report; {hint}"))?;
    if let Some(name) = team {
        teams::known(&teams, name, &period)?;
    }
    let format = format.with_teams(!teams.is_empty() || team.is_some());
    let wanted = Wanted { prices: &config.prices, teams: &teams, team };
    let read = stored_by_team(verdicts, period, wanted).await;
    let report = read.with_context(|| format!("no verdicts to report; {hint}"))?;
    if report.accounted.is_none() {
        return Err(no_data(verdicts, &report.period, team).await?.into());
    }
    let now = wall_clock();
    let report = report.with_terms(&terms).with_ownership(&Book::read(verdicts, now).await?, now);
    let site = Site::file(config.report.as_ref().and_then(|settings| settings.link.as_deref())).with_annex(annex);
    let intervals = if is_by_intervals(format) { intervals(verdicts, &report.period).await? } else { Vec::new() };
    write(&form(&report, &intervals, &config.prices, format, &site)?, asked.out)
}

/// That the period has no verdicts, and where there are some.
async fn no_data(verdicts: &impl ReadVerdicts, period: &Period, team: Option<&str>) -> anyhow::Result<NoData> {
    let extent = verdicts.extent().await.context("cannot read the verdicts")?;
    let reaching = extent.map_or_else(|| "Nothing is judged yet".to_owned(), |e| period.reaching(&e));
    let of = team.map(|name| format!(" of team {name:?}")).unwrap_or_default();
    Ok(NoData(format!("no data{of} for {}. {reaching}", period.label)))
}

fn form(
    report: &Report,
    intervals: &[Interval],
    prices: &[Price],
    format: ReportFormat,
    site: &Site,
) -> anyhow::Result<String> {
    Ok(match format {
        ReportFormat::Html => html::render(report, site)?,
        ReportFormat::Markdown => markdown::render(report)?,
        ReportFormat::Json => report.json()?,
        ReportFormat::Csv => team_csv::render(report),
        ReportFormat::CsvAccounts => showback::render(&report.period, intervals, prices),
        ReportFormat::CsvIntervals => csv::render(intervals),
    })
}

/// To the file, else to standard output.
fn write(text: &str, out: Option<&Path>) -> anyhow::Result<()> {
    match out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display())),
        None => print(text),
    }
}

fn asked_period(args: &PeriodArgs, zone: &TimeZone) -> anyhow::Result<Period> {
    let period = match args {
        PeriodArgs { week: Some(week), .. } => Period::iso_week(week, zone)?,
        PeriodArgs { start: Some(start), end: Some(end), .. } => Period::between(start, end, zone)?,
        _ => Period::last_week(Timestamp::now(), zone),
    };
    Ok(period.as_of(wall_clock()))
}

async fn classify(config: Config, dir: &Path, period: &Period, dry_run: bool) -> anyhow::Result<()> {
    let store = Store::open(config.store_options(dir)).await?;
    let judge =
        Judge::new(store.clone(), config.thresholds).counting(config.application).maintaining(config.maintenance);
    let range = judgeable(&judge, period.start_ms..period.end_ms.min(wall_clock()), &config.zone)?;
    let before = by_class(&store.intervals(range.clone()).await?);
    let mut after = BTreeMap::new();
    let mut reader = judge.reader(range.end);
    let windows = windows(range.clone(), &config.zone);
    let bar = progress_bar("judging hours", windows.len() as u64);
    for window in windows {
        let judged = match dry_run {
            true => judge.verdicts(&mut reader, &window, range.end).await?,
            false => judge.judge_recut(&mut reader, &window, range.end).await?,
        };
        by_class(&judged.intervals).into_iter().for_each(|(class, ms)| *after.entry(class).or_default() += ms);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if !dry_run {
        judge.rebook_vanished(range.end, wall_clock(), &config.zone).await?;
    }
    store.close().await;
    print(&changes(&before, &after, dry_run))
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(what: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta} left");
    ProgressBar::new(length).with_style(style.unwrap_or(ProgressStyle::default_bar())).with_message(what)
}

/// The part of the range whose samples are there; the rest keeps its verdicts. An error when that is all of it.
fn judgeable(judge: &Judge<Store>, range: Range<TimeMs>, zone: &TimeZone) -> anyhow::Result<Range<TimeMs>> {
    let windows = windows(range.clone(), zone);
    let Some(refused) = windows.first().and_then(|first| judge.judgeable(first).err()) else { return Ok(range) };
    match windows.iter().find(|window| judge.judgeable(window).is_ok()) {
        None => Err(refused.into()),
        Some(window) => {
            tracing::warn!(reason = %refused, "hours at the beginning are left as they are");
            Ok(window.start..range.end)
        }
    }
}

fn by_class(intervals: &[Interval]) -> BTreeMap<Class, i64> {
    let mut sums = BTreeMap::new();
    intervals.iter().for_each(|i| *sums.entry(i.class).or_default() += i.ms);
    sums
}

fn changes(before: &BTreeMap<Class, i64>, after: &BTreeMap<Class, i64>, dry_run: bool) -> String {
    let verb = if dry_run { "would be" } else { "now" };
    let mut table = format!("{:<20} {:>14} {:>14}  (GPU-hours)\n", "class", "stored", verb);
    for class in Class::ALL.iter().filter(|class| before.contains_key(*class) || after.contains_key(*class)) {
        let hours = |sums: &BTreeMap<Class, i64>| text::hours(sums.get(class).copied().unwrap_or_default());
        let _ = writeln!(table, "{:<20} {:>14} {:>14}", class.name(), hours(before), hours(after));
    }
    table
}

/// To standard output, without control characters of labels; a reader who has seen enough is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(printable(text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
