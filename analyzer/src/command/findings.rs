//! `findings`: who looks after what. Reads a data directory or database as `report` does; what is said goes to the server,
//! which alone writes.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use jiff::tz::TimeZone;
use reqwest::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use serde_json::{Value, json};

use super::cli::PeriodArgs;
use super::database::DatabaseArgs;
use super::{COPIED, SERVED, asked_period, print};
use crate::config::Config;
use crate::ownership::{Book, State, date};
use crate::report::{FindingGroup, Report, Wanted, stored_by_team, teams_in};
use goodput_engine::http;
use goodput_store::{Directory, ReadVerdicts, wall_clock};

/// What to do about findings.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the findings of a week with where they stand
    List(ListArgs),
    /// Show where a finding stands, its weeks, and what was said about it
    Show(ShowArgs),
    /// Say that it is known
    Ack(SayArgs),
    /// Leave it alone until a date, 90 days at most, or until it grows by half
    Snooze(SnoozeArgs),
    /// Leave it as it is until a review, 180 days at most; needs --comment with the reason
    Accept(AcceptArgs),
    /// Say that the fix is in place
    Claim(SayArgs),
    /// Say who looks at it
    Assign(AssignArgs),
    /// Add a remark
    Comment(SayArgs),
    /// Open it again
    Reopen(SayArgs),
}

/// What is listed.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// The time that is looked at
    #[command(flatten)]
    period: PeriodArgs,
    /// Only findings that stand there: open, acknowledged, fix_claimed, verified, not_verified, snoozed, accepted or gone
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// Only what this team and the teams that are part of it held
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
    /// Only findings that this one looks at
    #[arg(long, value_name = "NAME")]
    assignee: Option<String>,
    /// How to print it
    #[arg(long, default_value = "table")]
    format: Format,
    /// Where the verdicts are, if not in --data.dir
    #[command(flatten)]
    database: DatabaseArgs,
}

/// What is shown.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The finding, as reports and pages name it
    #[arg(value_name = "ID")]
    id: String,
    /// How to print it
    #[arg(long, default_value = "table")]
    format: Format,
    /// Where the verdicts are, if not in --data.dir
    #[command(flatten)]
    database: DatabaseArgs,
}

/// What is said, and to which server.
#[derive(Args, Debug)]
pub struct SayArgs {
    /// The finding, as reports and pages name it
    #[arg(value_name = "ID")]
    id: String,
    /// A remark, at most 4 KiB
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// A ticket: an address that begins with https:// or http://
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Who says it, where the server does not know who asks; by default the user of this machine
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<String>,
    /// The server
    #[command(flatten)]
    server: ServerArgs,
}

/// A snooze.
#[derive(Args, Debug)]
pub struct SnoozeArgs {
    /// Until then: a date, a local time or one with offset
    #[arg(long, value_name = "TIME")]
    until: String,
    /// What is said
    #[command(flatten)]
    say: SayArgs,
}

/// What is accepted.
#[derive(Args, Debug)]
pub struct AcceptArgs {
    /// When it is looked at again: a date, a local time or one with offset; by default in 180 days
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// What is said
    #[command(flatten)]
    say: SayArgs,
}

/// An assignment.
#[derive(Args, Debug)]
pub struct AssignArgs {
    /// Who looks at it; without a name it is no longer assigned
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// What is said
    #[command(flatten)]
    say: SayArgs,
}

/// The server that is told.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// Address of goodput-analyzer serve
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9401")]
    server: String,
    /// File with a bearer token that has the scope admin
    #[arg(long, value_name = "FILE")]
    bearer_token_file: Option<PathBuf>,
}

/// Form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

fn state(text: &str) -> Result<State, String> {
    let names = || State::ALL.iter().map(|state| state.name()).collect::<Vec<_>>().join(", ");
    let found = State::ALL.iter().copied().find(|state| state.name() == text);
    found.ok_or_else(|| format!("expected one of {}", names()))
}

/// Runs it.
pub async fn run(config: &Config, dir: &Path, command: Command) -> anyhow::Result<()> {
    let none = || json!({});
    match command {
        Command::List(args) => match args.database.look().await? {
            Some(fleet) => list(config, &fleet, COPIED, &args).await,
            None => list(config, &Directory::new(dir), SERVED, &args).await,
        },
        Command::Show(args) => match args.database.look().await? {
            Some(fleet) => shown(config, &fleet, &args).await,
            None => shown(config, &Directory::new(dir), &args).await,
        },
        Command::Ack(args) => say("acknowledge", none(), &args).await,
        Command::Claim(args) => say("claim", none(), &args).await,
        Command::Comment(args) => say("comment", none(), &args).await,
        Command::Reopen(args) => say("reopen", none(), &args).await,
        Command::Snooze(args) => say("snooze", json!({ "until": args.until }), &args.say).await,
        Command::Accept(args) => say("accept", json!({ "until": args.until }), &args.say).await,
        Command::Assign(args) => say("assign", json!({ "assignee": args.to }), &args.say).await,
    }
}

async fn list(config: &Config, verdicts: &impl ReadVerdicts, hint: &str, args: &ListArgs) -> anyhow::Result<()> {
    let (period, terms) = (asked_period(&args.period, &config.zone)?, config.terms());
    let teams = teams_in(verdicts, &period, &terms).await;
    let teams = teams.with_context(|| format!("no verdicts to look at; {hint}"))?;
    if let Some(name) = &args.team {
        super::teams::known(&teams, name, &period)?;
    }
    let wanted = Wanted { prices: &config.prices, teams: &teams, team: args.team.as_deref() };
    let report = stored_by_team(verdicts, period, wanted).await;
    let report = report.with_context(|| format!("no verdicts to look at; {hint}"))?.with_terms(&terms);
    let now = wall_clock();
    let report = report.with_ownership(&Book::read(verdicts, now).await?, now);
    let groups: Vec<&FindingGroup> = report.groups.iter().filter(|group| is_wanted(group, args)).collect();
    match args.format {
        Format::Json => print(&(serde_json::to_string_pretty(&groups)? + "\n")),
        Format::Table => print(&table(&report, &groups)),
    }
}

fn is_wanted(group: &FindingGroup, args: &ListArgs) -> bool {
    let standing = group.ownership.as_ref().map(|ownership| &ownership.standing);
    let stands = standing.map_or(State::Open, |standing| standing.state);
    let assignee = standing.and_then(|standing| standing.assignee.as_ref());
    args.state.is_none_or(|state| state == stands) && args.assignee.as_ref().is_none_or(|who| assignee == Some(who))
}

fn table(report: &Report, groups: &[&FindingGroup]) -> String {
    let mut shown = format!("{}: findings {}\n", report.period.label, groups.len());
    for group in groups {
        let said = if group.words().is_empty() { "open".to_owned() } else { group.words().join(", ") };
        let money = if group.lost.cost.is_empty() { String::new() } else { format!(", {}", group.lost.money()) };
        let (hours, title) = (group.lost.hours(), group.class.title());
        let _ = writeln!(shown, "  {}  {hours} GPU-hours{money}  {title}: {}  [{said}]", group.id, report.whose(group));
    }
    shown
}

async fn shown(config: &Config, verdicts: &impl ReadVerdicts, args: &ShowArgs) -> anyhow::Result<()> {
    let now = wall_clock();
    let book = Book::read(verdicts, now).await?;
    let (events, weeks) = (book.events(&args.id), book.weeks(&args.id));
    ensure!(
        !events.is_empty() || !weeks.is_empty(),
        "nothing was said about a finding {:?}, and no week that is over has it; findings list shows those of a week",
        args.id
    );
    let ownership = book.ownership(&args.id, now, (now, &config.zone));
    match args.format {
        Format::Json => {
            let all = json!({ "id": args.id, "ownership": ownership, "weeks": weeks, "events": events });
            print(&(serde_json::to_string_pretty(&all)? + "\n"))
        }
        Format::Table => print(&detail(&book, args, &ownership.words, &config.zone)),
    }
}

fn detail(book: &Book, args: &ShowArgs, words: &[String], zone: &TimeZone) -> String {
    let said = if words.is_empty() { "open".to_owned() } else { words.join(", ") };
    let mut shown = format!("{}: {said}\n", args.id);
    for week in book.weeks(&args.id) {
        let hours = crate::report::text::hours(week.lost_ms);
        let first = if week.is_first { ", large enough to be acted on" } else { "" };
        let _ = writeln!(shown, "  {}  {hours} GPU-hours{first}  {}: {}", week.week, week.class.title(), week.subject);
    }
    for event in book.events(&args.id) {
        let until = event.until_ms.map(|until| format!(" until {}", date(until, zone))).unwrap_or_default();
        let to = event.assignee.as_ref().map(|who| format!(" to {who}")).unwrap_or_default();
        let (day, actor, action) = (date(event.time_ms, zone), &event.actor, event.action.name());
        let _ = writeln!(shown, "  {day}  {actor}: {action}{until}{to}");
        for line in event.comment.iter().chain(&event.url).flat_map(|text| text.lines()) {
            let _ = writeln!(shown, "    {line}");
        }
    }
    shown
}

/// Tells the server. What was said by others since it was asked is an error.
async fn say(action: &str, mut body: Value, args: &SayArgs) -> anyhow::Result<()> {
    body["action"] = action.into();
    body["comment"] = args.comment.clone().into();
    body["url"] = args.url.clone().into();
    let user = || std::env::var("USER").ok();
    let server = args.server.server.trim_end_matches('/');
    let url = format!("{server}/api/v1/findings/{}", args.id);
    let scheme = url.split("://").next().unwrap_or_default().to_owned();
    let client = http::client(&scheme, || reqwest::Client::builder().user_agent("goodput-analyzer"));
    let client = client.map_err(anyhow::Error::msg).context("cannot set up HTTP")?;
    let token = args.server.bearer_token_file.as_ref().map(|path| {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok(text.trim().to_owned())
    });
    let token = token.transpose()?;
    if token.is_none() {
        body["actor"] = args.actor.clone().or_else(user).into();
    }
    let with =
        |request: reqwest::RequestBuilder| token.iter().fold(request, |request, token| request.bearer_auth(token));
    let found = with(client.get(&url)).send().await.with_context(|| format!("cannot reach {server}"))?;
    let tag = found.headers().get(ETAG).cloned();
    answer(found).await?;
    let tag = tag.context("the server gave no ETag: is it goodput-analyzer of this release?")?;
    let post = client.post(format!("{url}/events")).header(IF_MATCH, tag).header(CONTENT_TYPE, "application/json");
    let told = with(post.body(body.to_string())).send().await.with_context(|| format!("cannot reach {server}"))?;
    let said = answer(told).await?;
    print(&format!("{}: {}\n", args.id, said["ownership"]["state"].as_str().unwrap_or_default()))
}

/// The answer of the server; its error, where it refused.
async fn answer(response: reqwest::Response) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.text().await.context("the answer of the server broke off")?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let error = &body["error"];
    match (error["field"].as_str(), error["expected"].as_str()) {
        (Some(field), Some(expected)) => bail!("the server refused it ({status}): {field}: expected {expected}"),
        (None, Some(expected)) => bail!("the server refused it ({status}): {expected}"),
        _ => bail!("the server refused it ({status}): {}", text.trim()),
    }
}
