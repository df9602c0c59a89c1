//! Every scenario of `tests/scenarios`: a schedule, simulated by a queue model, exported, judged, and compared with what
//! the schedule says was the matter. To add one, see `tests/scenarios/README.md`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test are test code")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use goodput_exposition::sample::{Series, TimeMs};
use goodput_lab::exporters::{Exporters, Fields, Recorder, View, uuid};
use goodput_lab::model::{Layout, Machine};
use goodput_lab::phase::Phase;
use goodput_rules::classify::{DERATES, OUTAGES, PHASES, RULES, Thresholds, judge_series};
use goodput_verdict::{Advice, Class, Culprit};
use serde::Deserialize;

#[path = "scenarios/network.rs"]
mod network;

/// Time between scrapes.
const SCRAPE_MS: i64 = 15_000;
/// Scrapes do not fall on the borders of cells.
const SCRAPE_OFFSET_MS: i64 = 4_000;
/// When every schedule begins: on a UTC hour.
const START_MS: TimeMs = 1_790_000_400_000 / 3_600_000 * 3_600_000;
const MINUTE_MS: i64 = 60_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// What it shows.
    about: String,
    exporters: Exporters,
    /// GPUs of the job; what is expected is said of the last of them.
    #[serde(default = "one")]
    gpus: usize,
    /// Free GPUs of each node.
    #[serde(default)]
    spare: usize,
    /// Are the GPUs of a model whose idle power is not known, and does dcgm-exporter tell of its usual fields alone?
    #[serde(default)]
    other_model: bool,
    /// Nodes whose GPUs all belong to the job from the start.
    #[serde(default = "one")]
    nodes: usize,
    /// Minutes after which one more node's GPUs belong to the job too.
    joined_after: Option<usize>,
    /// NUMA nodes that each of the two sockets is divided into.
    #[serde(default = "one")]
    nodes_per_socket: usize,
    phases: Vec<Phase>,
    /// What the exporters of GPUs tell that is not so.
    #[serde(default)]
    faults: Vec<Fault>,
    /// Classes that no minute may have more than [`TRACE`] of.
    #[serde(default)]
    never: Vec<String>,
}

/// Samples of GPUs that are not what was simulated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    /// How the names of the metrics begin.
    metric: String,
    /// Minutes after which it begins.
    #[serde(default)]
    from: i64,
    /// What they tell instead; their last value before it by default.
    value: Option<f64>,
}

impl Fault {
    fn spoil(&self, series: &mut [Series]) {
        let is_its = |s: &&mut Series| s.labels.metric().starts_with(&self.metric) && s.labels.get("UUID").is_some();
        assert!(series.iter_mut().any(|s| is_its(&s)), "no metric of GPUs begins with {}", self.metric);
        for series in series.iter_mut().filter(is_its) {
            let from = series.samples.partition_point(|s| s.time_ms < START_MS + self.from * MINUTE_MS);
            let (before, after) = series.samples.split_at_mut(from);
            let Some(value) = self.value.or_else(|| before.last().map(|s| s.value)) else { continue };
            after.iter_mut().for_each(|sample| sample.value = value);
        }
    }
}

fn one() -> usize {
    1
}

/// What smears over a border between phases is not a verdict.
const TRACE: f64 = 0.1;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// A node of the scenario.
struct Simulated {
    name: String,
    machine: Machine,
    recorder: Recorder,
    /// Its GPUs are free before that minute.
    held_from: usize,
    /// What the phase is like there.
    phase: Phase,
}

impl Simulated {
    fn new(scenario: &Scenario, number: usize, held_from: usize) -> Simulated {
        let (gpus, spare, nodes_per_socket) = (scenario.gpus, scenario.spare, scenario.nodes_per_socket);
        let layout = Layout { gpus, spare, nodes_per_socket, seed: number as u64, ..Layout::default() };
        let name = format!("n{}", number + 1);
        let mut recorder = Recorder::new(&name, scenario.exporters);
        if scenario.other_model {
            recorder = recorder.telling("NVIDIA L40S", Fields::Usual);
        }
        Simulated { name, machine: Machine::of(layout), recorder, held_from, phase: Phase::default() }
    }

    /// A phase begins, this number of minutes after the start.
    fn enter(&mut self, phase: &Phase, minutes: usize) {
        let phase = phase.on(&self.name);
        self.phase = Phase { job: phase.job && minutes >= self.held_from, ..phase };
        self.machine.enter(&self.phase);
        if self.phase.boots {
            self.recorder.restart(&self.machine);
        }
    }

    fn scrape(&mut self, ms: i64) {
        match self.phase.scraped {
            true => self.recorder.scrape(START_MS + ms, &View::of(&self.machine, &self.phase)),
            false => self.recorder.miss(START_MS + ms),
        }
    }
}

/// The series of all nodes, and for how many seconds of each minute the network delays the GPU that is judged.
fn simulate(scenario: &Scenario) -> (Vec<Series>, Vec<f64>) {
    let first = (0..scenario.nodes).map(|number| Simulated::new(scenario, number, 0));
    let joined = scenario.joined_after.map(|minutes| Simulated::new(scenario, scenario.nodes, minutes));
    let mut nodes: Vec<Simulated> = first.chain(joined).collect();
    let ticks_per_minute = 60 * 100;
    let (mut minutes, mut delayed) = (0, Vec::new());
    for phase in &scenario.phases {
        nodes.iter_mut().for_each(|node| node.enter(phase, minutes));
        for tick in 0..phase.minutes * ticks_per_minute {
            let ms = (minutes * ticks_per_minute + tick) as i64 * 10;
            if ms % SCRAPE_MS == SCRAPE_OFFSET_MS {
                nodes.iter_mut().for_each(|node| node.scrape(ms));
            }
            nodes.iter_mut().for_each(|node| node.machine.tick(&node.phase));
            if phase.sync && nodes.iter().filter(|node| node.phase.job).all(|node| node.machine.is_done()) {
                nodes.iter_mut().filter(|node| node.phase.job).for_each(|node| node.machine.go_on(&node.phase));
            }
            if (tick + 1) % ticks_per_minute == 0 {
                delayed.push(nodes[0].machine.counters.gpus[scenario.gpus - 1].spent.delayed);
            }
        }
        minutes += phase.minutes;
    }
    let mut before = 0.0;
    for seconds in &mut delayed {
        (before, *seconds) = (*seconds, *seconds - before);
    }
    let mut series: Vec<Series> = nodes.into_iter().flat_map(|node| node.recorder.into_series()).collect();
    scenario.faults.iter().for_each(|fault| fault.spoil(&mut series));
    (series, delayed)
}

/// Verdicts of one minute on one GPU: milliseconds by class, with confidence times them and names of the evidence, what is
/// advised, and the UUIDs of GPUs that are named.
#[derive(Debug, Default)]
struct Minute {
    ms: BTreeMap<Class, i64>,
    confidence: BTreeMap<Class, f64>,
    evidence: BTreeMap<Class, BTreeSet<String>>,
    advice: Vec<&'static str>,
    culprits: BTreeSet<String>,
    causes: BTreeSet<&'static str>,
    which: BTreeSet<String>,
    /// Milliseconds of `network_slow` by cause, and by who is named.
    network: BTreeMap<(&'static str, Option<String>), i64>,
}

impl Minute {
    /// Of some classes the one with the most milliseconds.
    fn most(&self, of: impl Fn(Class) -> bool) -> Option<Class> {
        self.ms.iter().filter(|(c, _)| of(**c)).max_by_key(|(_, ms)| **ms).map(|(c, _)| *c)
    }
}

/// An interval's milliseconds are spread evenly over it, so minutes are judged one by one.
fn minutes(series: &[Series], gpu: &str, count: usize) -> Vec<Minute> {
    let window = |i: usize| START_MS + i as i64 * MINUTE_MS..START_MS + (i as i64 + 1) * MINUTE_MS;
    let judge = |i| {
        let judged = judge_series(series, window(i), &Thresholds::default()).unwrap();
        let mut minute = Minute::default();
        for interval in judged.intervals.iter().filter(|i| i.gpu == gpu) {
            *minute.ms.entry(interval.class).or_default() += interval.ms;
            *minute.confidence.entry(interval.class).or_default() += interval.confidence * interval.ms as f64;
            let named = minute.evidence.entry(interval.class).or_default();
            named.extend(interval.evidence.iter().map(|evidence| evidence.signal.clone()));
            let which = interval.cause.as_ref().and_then(|cause| cause.which.as_ref());
            let named = |culprit: &Culprit| match (&culprit.gpu, which) {
                (Some(gpu), _) => gpu.clone(),
                (None, Some(which)) => format!("{}/{which}", culprit.node),
                (None, None) => culprit.node.clone(),
            };
            let culprit = interval.charged_to.as_ref().map(named);
            if let Some(cause) = interval.cause.as_ref().filter(|_| interval.class == Class::NetworkSlow) {
                *minute.network.entry((cause.kind.name(), culprit.clone())).or_default() += interval.ms;
            }
            minute.culprits.extend(culprit);
            minute.which.extend(which.cloned());
            minute.causes.extend(interval.cause.as_ref().map(|cause| cause.kind.name()));
        }
        minute.advice = judged.advisories.iter().filter(|a| a.gpu == gpu).map(|a| a.advice.name()).collect();
        minute
    };
    (0..count).map(judge).collect()
}

fn class(name: &str) -> Class {
    Class::named(name).unwrap_or_else(|| panic!("no class is called {name:?}"))
}

/// The UUID of a GPU that a schedule names as `host/gpuN`; a port as it is named.
fn named(culprit: &str) -> String {
    let gpu = culprit.split_once("/gpu").and_then(|(node, index)| Some(uuid(node, index.parse().ok()?)));
    gpu.unwrap_or_else(|| culprit.to_owned())
}

/// Who the phase says is named.
fn culprits(phase: &Phase) -> impl Iterator<Item = String> {
    phase.charged_to.iter().flat_map(|names| names.split_whitespace()).map(named)
}

/// The causes that the phase says there are, in order of name.
fn causes(phase: &Phase) -> impl Iterator<Item = &str> {
    let causes: BTreeSet<&str> = phase.cause.iter().flat_map(|causes| causes.split_whitespace()).collect();
    causes.into_iter()
}

/// A scenario, judged.
struct Told {
    file: PathBuf,
    scenario: Scenario,
    /// Of the samples that were judged.
    fingerprint: u64,
    minutes: Vec<Minute>,
    /// Seconds of each minute by which the network delays its exchange.
    delayed: Vec<f64>,
}

impl Told {
    fn by(file: PathBuf) -> Told {
        let text = std::fs::read_to_string(&file).unwrap();
        let scenario: Scenario =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let total = scenario.phases.iter().map(|p| p.minutes).sum();
        let is_cut = scenario.phases.iter().any(|phase| !phase.mig.is_empty());
        let (series, delayed) = simulate(&scenario);
        let minutes = minutes(&series, &uuid("n1", if is_cut { 0 } else { scenario.gpus - 1 }), total);
        Told { file, scenario, fingerprint: fingerprint(series), minutes, delayed }
    }
}

/// FNV-1a over labels, times and values.
fn fingerprint(mut series: Vec<Series>) -> u64 {
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        bytes.iter().for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    };
    for Series { labels, samples } in &series {
        add(format!("{labels:?}").as_bytes());
        for sample in samples {
            add(&sample.time_ms.to_le_bytes());
            add(&sample.value.to_bits().to_le_bytes());
        }
    }
    hash
}

/// Every scenario, in order of class and name.
static ALL: LazyLock<Vec<Told>> = LazyLock::new(|| {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|dir| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    files.sort();
    files.into_iter().map(Told::by).collect()
});

/// What is wrong with the verdicts of a scenario.
fn failures(Told { scenario, minutes, .. }: &Told) -> Vec<String> {
    let total = minutes.len();
    let mut failures = Vec::new();
    let mut first = 0;
    for phase in &scenario.phases {
        let inner = first + 1..first + phase.minutes - 1;
        first += phase.minutes;
        let culprits: BTreeSet<String> = culprits(phase).collect();
        for (i, minute) in inner.clone().zip(&minutes[inner]) {
            if minute.most(|_| true) != Some(class(&phase.expect)) {
                failures.push(format!("minute {i}: expected {}, got {minute:?}", phase.expect));
            }
            let lost_to = phase.lost_to.as_deref().map(class);
            if lost_to.is_some() && minute.most(|c| c != Class::Productive) != lost_to {
                failures.push(format!("minute {i}: expected to lose to {lost_to:?}, got {minute:?}"));
            }
            if minute.culprits != culprits {
                failures.push(format!("minute {i}: expected {culprits:?} to be named, got {minute:?}"));
            }
            if phase.cause.is_some() && !minute.causes.iter().copied().eq(causes(phase)) {
                failures.push(format!("minute {i}: expected the cause {:?}, got {minute:?}", phase.cause));
            }
            if phase.which.is_some() && !minute.which.iter().eq(phase.which.iter()) {
                failures.push(format!("minute {i}: expected the mount or disk {:?}, got {minute:?}", phase.which));
            }
            if minute.advice != phase.advise {
                failures.push(format!("minute {i}: expected the advice {:?}, got {minute:?}", phase.advise));
            }
        }
    }
    for never in scenario.never.iter().map(|n| class(n)) {
        let has = |m: &Minute| m.ms.get(&never).is_some_and(|ms| *ms as f64 > TRACE * MINUTE_MS as f64);
        let found = (0..total).filter(|i| has(&minutes[*i]));
        failures.extend(found.map(|i| format!("minute {i}: {} must not be: {:?}", never.name(), minutes[i])));
    }
    failures
}

#[test]
fn schedules_are_told_from_their_signals() {
    let mut failed = Vec::new();
    for told in ALL.iter() {
        let failures = failures(told);
        if !failures.is_empty() {
            let about = &told.scenario.about;
            failed.push(format!("{}: {about}\n  {}", told.file.display(), failures.join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{} of {} scenarios failed\n{}", failed.len(), ALL.len(), failed.join("\n"));
}

#[test]
fn every_rule_has_its_scenarios_and_its_page() {
    let pages = std::fs::read_to_string(folder().join("../../docs/reference/rules.md")).unwrap();
    let exclusive = OUTAGES.iter().map(|o| o.class).chain(PHASES.iter().map(|p| p.class));
    let shared = RULES.iter().map(|r| r.class).chain(DERATES.iter().map(|d| d.class));
    for class in exclusive.chain(shared).chain([Class::Straggler, Class::NetworkSlow]) {
        let name = class.name();
        for kind in ["positive", "negative", "near_miss"] {
            let file = folder().join(name).join(format!("{kind}.yaml"));
            assert!(file.try_exists().unwrap(), "{} is missing", file.display());
        }
        assert!(pages.contains(&format!("\n## `{name}`\n")), "docs/reference/rules.md has no section on {name}");
    }
    let advised: BTreeSet<&str> =
        ALL.iter().flat_map(|told| &told.minutes).flat_map(|minute| minute.advice.iter().copied()).collect();
    for name in Advice::ALL.iter().map(|advice| advice.name()) {
        assert!(advised.contains(name), "no scenario advises {name}");
        assert!(pages.contains(&format!("`{name}`")), "docs/reference/rules.md does not speak of {name}");
    }
}

/// Classes whose cause names a mount or a disk.
const OF_STORAGE: [&str; 3] = ["dataloader_storage", "checkpoint", "io_limited"];

/// Minutes in which the schedule says which storage it was, or that none is to be named: nine of ten have to say the same (own
/// choice). Unlike the first minute, the last is asked too, in which scrapes fall on both sides of the border.
#[test]
fn the_storage_is_named_right() {
    let (mut asked, mut right) = (0.0, 0.0);
    for told in ALL.iter() {
        let mut first = 0;
        for phase in &told.scenario.phases {
            let later = first + 1..first + phase.minutes;
            first += phase.minutes;
            if phase.cause.is_some() && OF_STORAGE.contains(&phase.expect.as_str()) {
                let named = told.minutes[later].iter().map(|minute| minute.which.iter().eq(phase.which.iter()));
                asked += (phase.minutes - 1) as f64;
                right += named.filter(|is_right| *is_right).count() as f64;
            }
        }
    }
    assert!(asked > 0.0 && right >= 0.9 * asked, "{right} of {asked} minutes");
}

/// What a class's rules say of one of its own scenarios.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    /// GPU-seconds of the class, phase by phase.
    seconds: String,
    /// Mean over them, in percent.
    confidence: String,
    evidence: String,
}

/// A line of `verdicts.csv`.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    class: String,
    scenario: String,
    version: u32,
    fingerprint: String,
    verdict: Verdict,
}

const HEADER: &str = "class,scenario,version,samples,gpu_seconds_by_phase,confidence_percent,evidence";

impl Line {
    fn of(told: &Told) -> Line {
        let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let folder = name(told.file.parent().unwrap());
        let of = class(&folder);
        let ms = |minutes: &[Minute]| minutes.iter().filter_map(|minute| minute.ms.get(&of)).sum::<i64>();
        let (mut rest, mut seconds) = (&told.minutes[..], Vec::new());
        for phase in &told.scenario.phases {
            let (minutes, later) = rest.split_at(phase.minutes);
            seconds.push((ms(minutes) as f64 / 1000.0).round().to_string());
            rest = later;
        }
        let sure = told.minutes.iter().filter_map(|minute| minute.confidence.get(&of)).sum::<f64>();
        let share = if ms(&told.minutes) > 0 { sure / ms(&told.minutes) as f64 } else { 0.0 };
        let evidence: BTreeSet<&str> =
            told.minutes.iter().filter_map(|m| m.evidence.get(&of)).flatten().map(String::as_str).collect();
        let evidence = evidence.into_iter().collect::<Vec<_>>().join("; ");
        assert!(!evidence.contains(','), "{evidence:?} would need quotes");
        Line {
            class: folder,
            scenario: name(&told.file),
            version: of.version(),
            fingerprint: format!("{:016x}", told.fingerprint),
            verdict: Verdict { seconds: seconds.join(" "), confidence: format!("{:.1}", 100.0 * share), evidence },
        }
    }

    fn read(line: &str) -> Line {
        let fields: Vec<&str> = line.split(',').collect();
        let [class, scenario, version, fingerprint, seconds, confidence, evidence] = fields[..] else {
            panic!("verdicts.csv: {line:?}: expected {HEADER}")
        };
        let [class, scenario, fingerprint, seconds, confidence, evidence] =
            [class, scenario, fingerprint, seconds, confidence, evidence].map(str::to_owned);
        let version = version.parse().unwrap_or_else(|_| panic!("verdicts.csv: {line:?}: expected a version"));
        Line { class, scenario, version, fingerprint, verdict: Verdict { seconds, confidence, evidence } }
    }

    fn text(&self) -> String {
        let Line { class, scenario, version, fingerprint, verdict } = self;
        let Verdict { seconds, confidence, evidence } = verdict;
        format!("{class},{scenario},{version},{fingerprint},{seconds},{confidence},{evidence}\n")
    }

    /// What is wrong with it, after what was recorded.
    fn problem(&self, recorded: &Line) -> Option<String> {
        let Line { class, scenario, version, .. } = self;
        if *version < recorded.version {
            return Some(format!("{class}: its version was {}, and {version} is lower", recorded.version));
        }
        let says_else = self.fingerprint == recorded.fingerprint && self.verdict != recorded.verdict;
        (says_else && *version == recorded.version).then(|| {
            format!(
                "{class}: of the same samples ({scenario}) version {version} said\n  {:?}\nand says now\n  {:?}\n\
                 raise VERSION of the class, for stored verdicts are not like these (docs/reference/rules.md)",
                recorded.verdict, self.verdict
            )
        })
    }
}

/// `UPDATE_GOLDEN=1` records what has changed; a verdict on the same samples only with a version that is raised.
#[test]
fn a_rule_whose_verdicts_change_has_its_version_raised() {
    let path = folder().join("verdicts.csv");
    let recorded = std::fs::read_to_string(&path).unwrap_or_else(|_| format!("{HEADER}\n"));
    let before: Vec<Line> = recorded.lines().skip(1).map(Line::read).collect();
    let lines: Vec<Line> = ALL.iter().map(Line::of).collect();
    let like = |line: &Line| before.iter().find(|old| (&old.class, &old.scenario) == (&line.class, &line.scenario));
    let problems: Vec<String> = lines.iter().filter_map(|line| line.problem(like(line)?)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let told: BTreeSet<&str> = lines.iter().map(|line| line.class.as_str()).collect();
    assert_eq!(told, Class::ALL.iter().map(|class| class.name()).collect(), "classes with scenarios");
    let text = format!("{HEADER}\n{}", lines.iter().map(Line::text).collect::<String>());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    let differs = recorded.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(recorded == text, "verdicts.csv: {differs:?}; UPDATE_GOLDEN=1 records scenarios and versions anew");
}
