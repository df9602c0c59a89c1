//! `goodput-demo`: a simulated node of eight GPUs with a scripted week behind it, under the real programs.

use std::io::{self, IsTerminal, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use goodput_lab::demo::check;
use goodput_lab::demo::history::{History, STEP};
use goodput_lab::demo::machine::Machine;
use goodput_lab::demo::programs::{JOB, Programs};
use goodput_lab::demo::script::{Fault, Script};
use goodput_lab::demo::sections::Report;
use goodput_lab::demo::send::Sender;
use goodput_lab::demo::stop::Stop;
use goodput_lab::process::Running;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const HOUR: Duration = Duration::from_secs(3600);
const WEEK_HOURS: u32 = 168;

/// The analyzer judges a minute when its samples have had another to arrive.
const SETTLED: Duration = Duration::from_secs(180);

/// How long the analyzer may take to judge everything. A round begins once a minute.
const JUDGE_LIMIT: Duration = Duration::from_secs(600);

/// How often the live machine moves.
const TICK: Duration = Duration::from_secs(1);

/// Scrapes that may wait to be sent.
const AHEAD: usize = 32;

/// Lines of progress where there is no terminal.
const LINES: u64 = 10;

/// Shows a simulated node: eight GPUs, two sockets, a week of jobs and faults, and what Goodput makes of it
#[derive(Parser, Debug)]
#[command(name = "goodput-demo", version)]
struct Options {
    /// An empty folder for the machine, the logs and, unless told otherwise, the data
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// An empty folder for the analyzer's data and the reports
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the exporter listens
    #[arg(long, default_value = "127.0.0.1:9400", value_name = "ADDRESS")]
    exporter: SocketAddr,
    /// Where the analyzer listens
    #[arg(long, default_value = "127.0.0.1:9401", value_name = "ADDRESS")]
    analyzer: SocketAddr,
    /// End after the report
    #[arg(long)]
    once: bool,
    /// Compare the report with the script; fail when a fault is not named, a class that is not scripted takes more than
    /// 0.5 % of capacity, or more than 5 % is unexplained
    #[arg(long)]
    check: bool,
    /// Only these hours of the week, such as 19..24; a part that ends before the week does ends after its report
    #[arg(long, value_name = "FROM..TO", value_parser = hours, default_value = "0..168")]
    hours: (u32, u32),
}

fn hours(text: &str) -> Result<(u32, u32), String> {
    let parse = || {
        let (from, to) = text.split_once("..")?;
        Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?))
    };
    let within = parse().filter(|(from, to)| from < to && *to <= WEEK_HOURS);
    within.ok_or_else(|| format!("expected hours of the week such as 19..24, at most {WEEK_HOURS}"))
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(status) => status,
        Err(error) => {
            // With standard error closed, no reader is left.
            let _ = writeln!(io::stderr(), "goodput-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a line for the user who watches; a reader that has closed the pipe is no error.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn run(options: &Options) -> Result<ExitCode> {
    std::fs::create_dir_all(&options.dir)?;
    let dir = options.dir.canonicalize()?;
    show_gpus(&dir)?;
    let data = options.data_dir.clone().unwrap_or_else(|| dir.join("data"));
    ensure!(is_empty(&data)?, "{} is not empty; a week of history needs a store of its own", data.display());
    let stop = Stop::watch()?;
    let programs = Programs::beside(&dir, &data, options.exporter, options.analyzer)?;
    let begun = Instant::now();
    let week = Script::week(full_hour(SystemTime::now() - SETTLED)?);
    let part = Part::of(&week, options);

    say("starting the analyzer; the week's history goes into it as from a Prometheus");
    let analyzer = programs.start_analyzer(false)?;
    let (mut past, uuids) = make(&programs, &week, &part, &stop)?;
    let made = begun.elapsed();
    judged(&programs, part.to, &stop)?;
    let judged = begun.elapsed();
    let said = programs.acknowledge(part.from, part.to)?;
    write_reports(&programs, &part)?;
    say(&format!(
        "history in {:.0} s, judged after {:.0} s, reported after {:.0} s",
        made.as_secs_f64(),
        judged.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    ));
    let is_said = std::fs::read_to_string(programs.data.join("report.md"))?.contains(said);
    ensure!(!options.check || is_said, "the report does not say {said:?}");
    let all_named = !options.check || check_faults(&programs, &week, &part, &uuids)?;
    if !part.is_live || !all_named {
        analyzer.terminate()?;
        return Ok(if all_named { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    past.catch_up(&stop)?;
    live(past.history.end()?, &programs, analyzer, &stop)?;
    Ok(ExitCode::SUCCESS)
}

/// A process finds the GPUs through its environment, which this one gets by executing itself again.
#[allow(clippy::disallowed_methods, reason = "becomes this very program with the GPUs in its environment")]
fn show_gpus(dir: &Path) -> Result<()> {
    let log = dir.join("gpus.jsonl");
    if std::env::var_os("FAKE_NVML").as_deref() == Some(log.as_os_str()) {
        return Ok(());
    }
    let program = std::env::current_exe()?;
    let failed = Command::new(&program).args(std::env::args_os().skip(1)).env("FAKE_NVML", log).exec();
    Err(failed).with_context(|| format!("cannot start {}", program.display()))
}

fn is_empty(dir: &Path) -> Result<bool> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", dir.display())),
    }
}

fn full_hour(time: SystemTime) -> Result<SystemTime> {
    let seconds = time.duration_since(UNIX_EPOCH)?.as_secs();
    Ok(UNIX_EPOCH + Duration::from_secs(seconds / 3600 * 3600))
}

/// The part of the week that is made.
struct Part {
    from: SystemTime,
    to: SystemTime,
    /// Goes on until now and beyond.
    is_live: bool,
}

impl Part {
    fn of(week: &Script, options: &Options) -> Self {
        let (from, to) = options.hours;
        let is_live = to == WEEK_HOURS && !options.once;
        Self { from: week.start() + HOUR * from, to: week.start() + HOUR * to, is_live }
    }

    /// Where history ends. The clock has gone on when it gets there.
    fn end(&self) -> SystemTime {
        if self.is_live { SystemTime::now() } else { self.to }
    }
}

/// What has been made, and what makes more.
struct Past {
    history: History,
    sender: Sender,
    /// The next moment to scrape.
    next: SystemTime,
}

impl Past {
    /// What the wall clock has gone on by meanwhile.
    fn catch_up(&mut self, stop: &Stop) -> Result<()> {
        while self.next <= SystemTime::now() {
            stop.check()?;
            self.sender.add(&self.history.scrape(self.next)?, self.next)?;
            self.next += STEP;
        }
        self.sender.flush()
    }
}

/// Makes the history and sends it at the same time. Gives the GPUs' UUIDs too.
fn make(programs: &Programs, week: &Script, part: &Part, stop: &Stop) -> Result<(Past, Vec<String>)> {
    let machine = Machine::new(&programs.dir, week.clone())?;
    let mut history = History::begin(machine, &programs.library(), part.from)?;
    let mut sender = Sender::new(programs.analyzer, JOB, programs.exporter);
    let progress = Progress::new(part);
    let (texts, inbox) = mpsc::sync_channel::<(String, SystemTime)>(AHEAD);
    let (next, last, sender) = thread::scope(|scope| {
        let sending = scope.spawn(move || {
            for (text, at) in inbox {
                sender.add(&text, at)?;
            }
            sender.flush()?;
            Ok::<_, anyhow::Error>(sender)
        });
        let made = scrape_all(&mut history, part, stop, &progress, texts);
        // If the sender no longer takes the texts, its own failure is the reason.
        let sender = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let (next, last) = made?;
        Ok::<_, anyhow::Error>((next, last, sender))
    })?;
    progress.done(sender.sent);
    let lost = programs.metric("goodput_analyzer_received_samples_total{outcome=\"out_of_bounds\"}")?;
    ensure!(lost.unwrap_or(0.0) == 0.0, "the analyzer took {lost:?} samples for too old or too new");
    Ok((Past { history, sender, next }, uuids(&last)))
}

type Texts = mpsc::SyncSender<(String, SystemTime)>;

/// The next moment, and the text of the last one.
fn scrape_all(
    history: &mut History,
    part: &Part,
    stop: &Stop,
    progress: &Progress,
    texts: Texts,
) -> Result<(SystemTime, String)> {
    let (mut at, mut last) = (part.from, String::new());
    while at <= part.end() {
        stop.check()?;
        last = history.scrape(at)?;
        if texts.send((last.clone(), at)).is_err() {
            break;
        }
        at += STEP;
        progress.step();
    }
    Ok((at, last))
}

/// The GPUs' UUIDs by index, as the exporter shows them.
fn uuids(text: &str) -> Vec<String> {
    let label = |line: &str, name: &str| Some(line.split_once(&format!("{name}=\""))?.1.split_once('"')?.0.to_owned());
    let gpus = text.lines().filter(|line| line.starts_with(&format!("{}{{", goodput_catalog::gpu::INFO.name)));
    let mut gpus: Vec<(usize, String)> =
        gpus.filter_map(|line| Some((label(line, "gpu")?.parse().ok()?, label(line, "UUID")?))).collect();
    gpus.sort();
    gpus.into_iter().map(|(_, uuid)| uuid).collect()
}

fn judged(programs: &Programs, until: SystemTime, stop: &Stop) -> Result<()> {
    let until = until.duration_since(UNIX_EPOCH)?.as_secs_f64();
    stop.until("the analyzer's verdicts", JUDGE_LIMIT, || {
        let judged = programs.metric("goodput_analyzer_judged_timestamp_seconds")?;
        Ok(judged.filter(|judged| *judged >= until).map(|_| ()))
    })
}

fn write_reports(programs: &Programs, part: &Part) -> Result<()> {
    let file = |name: &str| programs.data.join(name);
    programs.report(part.from, part.to, "html", &file("report.html"))?;
    programs.report(part.from, part.to, "markdown", &file("report.md"))?;
    let text = std::fs::read_to_string(file("report.md"))?;
    say("");
    text.lines().take_while(|line| !line.starts_with("## Findings")).for_each(say);
    let findings = text.lines().filter_map(|line| line.strip_prefix("### "));
    findings.take(10).for_each(say);
    say(&format!("\nreport: {0}/report.html, {0}/report.md", programs.data.display()));
    Ok(())
}

fn check_faults(programs: &Programs, week: &Script, part: &Part, uuids: &[String]) -> Result<bool> {
    let intervals = programs.intervals(part.from, part.to)?;
    let covered = |from: SystemTime, to: SystemTime| part.from <= from && to <= part.to;
    let mut faults: Vec<_> = week.faults().iter().filter(|fault| covered(fault.from, fault.to)).collect();
    faults.sort_by_key(|fault| fault.from);
    ensure!(!faults.is_empty(), "no fault lies within these hours: there is nothing to check");
    say(&format!("\n{}", check::HEADING));
    let mut all_named = true;
    for finding in faults.iter().flat_map(|fault| check::look_up(fault, uuids, &intervals)) {
        say(&finding.to_string());
        all_named &= finding.is_named();
    }
    all_named &= all_have_sections(programs, part, &faults, uuids)?;
    let strays = check::stray(week, uuids, &intervals);
    if !strays.is_empty() {
        say("\nbeyond the script:");
    }
    strays.iter().for_each(|stray| say(&stray.to_string()));
    Ok(all_named && !strays.iter().any(check::Stray::is_too_much))
}

/// Does the report have a section for each fault?
fn all_have_sections(programs: &Programs, part: &Part, faults: &[&Fault], uuids: &[String]) -> Result<bool> {
    let file = programs.data.join("report.json");
    programs.report(part.from, part.to, "json", &file)?;
    let report = Report::parse(&std::fs::read_to_string(file)?)?;
    let mut all = true;
    for fault in faults {
        let without = |uuid: &&String| report.section(fault, uuid).is_none();
        for uuid in fault.gpus.iter().filter_map(|gpu| uuids.get(*gpu)).filter(without) {
            say(&format!("{} on {uuid} has NO SECTION in the report", fault.class));
            all = false;
        }
    }
    Ok(all)
}

/// Goes on with the wall clock: the real exporter over the same machine, scraped by the analyzer.
fn live(mut machine: Machine, programs: &Programs, analyzer: Running, stop: &Stop) -> Result<()> {
    analyzer.terminate()?;
    machine.move_to(SystemTime::now())?;
    let exporter = programs.start_exporter(machine.roots())?;
    let analyzer = programs.start_analyzer(true)?;
    say(&format!(
        "\nThe node is live; its jobs and faults go on.\n  \
         metrics of the node      http://{}/metrics\n  \
         the analyzer             http://{}/\n  \
         the report               http://{}/report\n\nCtrl-C stops everything.",
        programs.exporter, programs.analyzer, programs.analyzer
    ));
    while !stop.asked() {
        thread::sleep(TICK);
        machine.move_to(SystemTime::now())?;
    }
    exporter.terminate()?;
    analyzer.terminate()?;
    Ok(())
}

/// A bar, or lines where there is no terminal.
struct Progress {
    bar: ProgressBar,
    lines: bool,
    steps: u64,
    begun: Instant,
}

impl Progress {
    fn new(part: &Part) -> Self {
        let steps = part.end().duration_since(part.from).unwrap_or_default().as_secs() / STEP.as_secs() + 1;
        let lines = !io::stderr().is_terminal();
        let target = if lines { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = "making history {wide_bar} {pos} of {len} minutes, {per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, lines, steps, begun: Instant::now() }
    }

    fn step(&self) {
        self.bar.inc(1);
        let done = self.bar.position();
        if self.lines && (done * LINES) / self.steps != ((done - 1) * LINES) / self.steps {
            let seconds = self.begun.elapsed().as_secs_f64();
            let _ = writeln!(io::stderr(), "history: {done} of {} minutes in {seconds:.0} s", self.steps);
        }
    }

    fn done(&self, samples: u64) {
        let (steps, seconds) = (self.bar.position(), self.begun.elapsed().as_secs_f64());
        self.bar.finish_and_clear();
        say(&format!("{steps} scrapes a minute apart, {samples} samples, made and sent in {seconds:.0} s"));
    }
}
