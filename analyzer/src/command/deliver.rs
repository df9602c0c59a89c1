//! `deliver`: messages as they would be sent, and one to try a destination.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};

use super::cli::PeriodArgs;
use super::database::DatabaseArgs;
use super::{COPIED, SERVED, asked_period, print};
use crate::config::Config;
use crate::deliver::compose::{Composer, Known, Planned, send, weeks};
use crate::deliver::form::{Form, Style};
use crate::deliver::letter::Letter;
use crate::deliver::outbox::{Outcome, message_id};
use crate::deliver::recipients::{FLEET, Recipient};
use crate::deliver::target::{MailServer, Target, Way};
use crate::deliver::unsubscribe::Key;
use crate::deliver::{Settings, smtp};
use crate::report::{Period, Report, Terms, Wanted, build_by_team, stored_by_team, teams_in};
use crate::teams::Teams;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Directory, ReadVerdicts, wall_clock};
use goodput_verdict::{Message, MessageState};

/// What to do about messages.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the messages about a week as they would be sent; nothing is sent or noted
    Preview(PreviewArgs),
    /// Send one message that is marked as a test; nothing is noted
    Test {
        /// Name of the destination
        #[arg(value_name = "DESTINATION")]
        destination: String,
    },
}

/// Which messages.
#[derive(Args, Debug)]
pub struct PreviewArgs {
    /// ISO week, such as 2026-W47; the last week that is over, if nothing is given
    #[arg(long, value_name = "WEEK")]
    week: Option<String>,
    /// Name of the destination
    #[arg(long, value_name = "NAME")]
    destination: String,
    /// Only the message to this contact
    #[arg(long, value_name = "CONTACT")]
    contact: Option<String>,
    /// Folder to write .eml or .json files to, in place of a list on standard output
    #[arg(long, value_name = "DIR", conflicts_with = "to_admins_only")]
    out: Option<PathBuf>,
    /// Mail the messages to the addresses in `to` of the destination, and not to their contacts; the outbox stays as it is
    #[arg(long)]
    to_admins_only: bool,
    /// Where the verdicts are, if not in --data.dir
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Runs it.
pub async fn run(config: &Config, dir: &Path, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Preview(args) => match args.database.look().await? {
            Some(fleet) => preview(config, &fleet, COPIED, &args).await,
            None => preview(config, &Directory::new(dir), SERVED, &args).await,
        },
        Command::Test { destination } => test(config, &destination).await,
    }
}

/// The settings, and the destination of this name.
fn found<'c>(config: &'c Config, name: &str) -> anyhow::Result<(&'c Settings, &'c Target)> {
    let settings = config.report.as_ref().context("the configuration has no section report")?;
    let names: Vec<&str> = settings.by_outbox().map(|target| target.name.as_str()).collect();
    ensure!(!names.is_empty(), "report.destinations has no destination of messages");
    let target = settings.by_outbox().find(|target| target.name == name);
    let target = target.with_context(|| format!("expected one of {}, found {name:?}", names.join(", ")))?;
    Ok((settings, target))
}

/// What signs and sends.
struct Tools {
    key: Option<Key>,
    sender: Option<smtp::Sender>,
}

impl Tools {
    fn of(settings: &Settings) -> anyhow::Result<Self> {
        let key = settings.unsubscribe_key_file.as_deref().map(Key::of_file).transpose().map_err(anyhow::Error::msg)?;
        let sender = settings.mail.as_ref().map(smtp::Sender::new).transpose().map_err(anyhow::Error::msg)?;
        Ok(Self { key, sender })
    }

    fn style<'a>(&'a self, settings: &'a Settings, mark: &'a str, now: TimeMs) -> Style<'a> {
        let (server, link): (Option<&MailServer>, _) = (settings.mail.as_ref(), settings.link.as_deref());
        Style { server, link, key: self.key.as_ref(), mark, now }
    }
}

async fn preview(config: &Config, verdicts: &impl ReadVerdicts, hint: &str, args: &PreviewArgs) -> anyhow::Result<()> {
    let (settings, target) = found(config, &args.destination)?;
    let is_mail = matches!(target.way, Way::Mail(_));
    ensure!(!args.to_admins_only || is_mail, "--to-admins-only: expected a destination of kind smtp");
    let asked = PeriodArgs { week: args.week.clone(), start: None, end: None };
    let period = asked_period(&asked, &config.zone)?;
    let (terms, now) = (config.terms(), wall_clock());
    let hinted = || format!("no verdicts to tell of; {hint}");
    let teams = teams_in(verdicts, &period, &terms).await.with_context(hinted)?;
    let report = fleet(verdicts, period, &terms, &teams).await.with_context(hinted)?;
    ensure!(report.accounted.is_some(), "no data for {}", report.period.label);
    let tools = Tools::of(settings)?;
    let mut composer = Composer::new(verdicts, (&terms, &*teams), &report, settings.link.as_deref());
    let planned = planned(verdicts, (target, &report), &mut composer, (&tools.style(settings, "", now), now)).await?;
    let mut told = String::new();
    let wanted = |planned: &&Planned| args.contact.as_ref().is_none_or(|contact| *contact == planned.recipient.contact);
    for planned in planned.iter().filter(wanted) {
        let contact = &planned.recipient.contact;
        if planned.message.state != MessageState::Pending {
            told += &format!("{contact}: {}\n", planned.message.state.name());
            continue;
        }
        let mark = if args.to_admins_only { format!("[for {contact}] ") } else { String::new() };
        let form = composer.form(target, planned, tools.style(settings, &mark, now)).await?;
        told += &match (&args.out, args.to_admins_only) {
            (Some(out), _) => format!("{contact}: {}\n", write(out, target, contact, &form)?.display()),
            (None, true) => to_admins(target, settings, &tools, (planned, &mut composer), (&mark, now)).await?,
            (None, false) => {
                format!("{contact}: {} findings, {} bytes\n", planned.message.findings.len(), form.bytes().len())
            }
        };
    }
    let found = if told.is_empty() { "no message for that contact\n".to_owned() } else { told };
    print(&found)
}

async fn fleet(verdicts: &impl ReadVerdicts, period: Period, terms: &Terms, teams: &Teams) -> anyhow::Result<Report> {
    let wanted = Wanted { prices: &terms.prices, teams, team: None };
    Ok(stored_by_team(verdicts, period, wanted).await?.with_terms(terms))
}

/// The messages as if none about this week were planned.
async fn planned<V: ReadVerdicts>(
    verdicts: &V,
    (target, report): (&Target, &Report),
    composer: &mut Composer<'_, V>,
    (style, now): (&Style<'_>, TimeMs),
) -> anyhow::Result<Vec<Planned>> {
    let [first, last] = weeks(&report.period);
    let mut messages = verdicts.messages([&first, &last]).await.context("cannot read the outbox")?;
    messages.retain(|message| message.week != last);
    let unsubscribed = verdicts.unsubscribed().await.context("cannot read who unsubscribed")?;
    let known = Known { messages: &messages, unsubscribed: &unsubscribed };
    composer.planned(target, known, (1, 0), style.domain(), now).await
}

/// Writes one message to the folder.
fn write(out: &Path, target: &Target, contact: &str, form: &Form) -> anyhow::Result<PathBuf> {
    let plain: String =
        contact.chars().map(|c| if c.is_alphanumeric() || "@.-_".contains(c) { c } else { '_' }).collect();
    let path = out.join(format!("{}-{plain}.{}", target.name, form.ending()));
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    fs::write(&path, form.bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Mails the message for a contact to those who look after the destination.
async fn to_admins<V: ReadVerdicts>(
    target: &Target,
    settings: &Settings,
    tools: &Tools,
    (planned, composer): (&Planned, &mut Composer<'_, V>),
    (mark, now): (&str, TimeMs),
) -> anyhow::Result<String> {
    let Way::Mail(to) = &target.way else { bail!("expected a destination of kind smtp") };
    let mut told = String::new();
    let letter = composer.letter(&planned.recipient).await?.naming(&planned.message.findings);
    for address in to {
        let address = address.to_string();
        let id = copy_id(target, &planned.recipient.contact, &address, settings, now);
        let message = Message { message_id: id, ..planned.message.clone() };
        let style = tools.style(settings, mark, now);
        let form = Form::of(target, (&planned.recipient, &address), &message, &letter, style)?;
        told += &sent(target, &form, &message.message_id, tools, &address).await?;
    }
    Ok(told)
}

/// A copy is a message of its own.
fn copy_id(target: &Target, contact: &str, to: &str, settings: &Settings, now: TimeMs) -> String {
    let domain = settings.mail.as_ref().map_or("goodput.invalid", |server| server.from.email.domain());
    message_id(&target.name, &format!("{contact} for {to}"), &now.to_string(), domain)
}

async fn sent(target: &Target, form: &Form, id: &str, tools: &Tools, to: &str) -> anyhow::Result<String> {
    match send(target, form, id, tools.sender.as_ref(), wall_clock()).await {
        Outcome::Taken => Ok(format!("{to}: sent\n")),
        Outcome::Refused(reason) => bail!("{to}: refused: {reason}"),
        Outcome::Failed { reason, .. } => bail!("{to}: {reason}"),
    }
}

async fn test(config: &Config, name: &str) -> anyhow::Result<()> {
    let (settings, target) = found(config, name)?;
    let (tools, now) = (Tools::of(settings)?, wall_clock());
    let period = asked_period(&PeriodArgs { week: None, start: None, end: None }, &config.zone)?;
    let report = build_by_team(&[], &[], period, (&[], &Teams::default()));
    let letter = Letter::of(&report, None, settings.link.as_deref());
    let contacts = match &target.way {
        Way::Mail(to) => to.iter().map(ToString::to_string).collect(),
        _ => vec![FLEET.to_owned()],
    };
    for contact in contacts {
        let recipient = Recipient { contact: contact.clone(), teams: Vec::new(), channel: None };
        let message = Message {
            destination: target.name.clone(),
            contact: contact.clone(),
            week: report.period.label.clone(),
            version: 1,
            digest: 0,
            state: MessageState::Pending,
            attempts: 0,
            next_ms: now,
            message_id: copy_id(target, "test", &contact, settings, now),
            time_ms: now,
            findings: Vec::new(),
            reason: None,
        };
        let style = tools.style(settings, "[test] ", now);
        let form = Form::of(target, (&recipient, &contact), &message, &letter, style)?;
        print(&sent(target, &form, &message.message_id, &tools, &contact).await?)?;
    }
    Ok(())
}
