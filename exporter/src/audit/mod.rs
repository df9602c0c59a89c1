//! `audit`: is this node tuned for the work it does? Reads, compares and advises; changes nothing.
//!
//! A [`Check`] is one row: what is read from where, what it should be, why, how to fix it, and who says so. Its `run`
//! reads plain values through [`crate::source`] and hands them to a pure function of its file, which judges.

pub mod checks;
pub(crate) mod collector;
pub mod diff;
mod jobs;
pub mod reference;
pub mod render;
mod text;

use clap::ValueEnum;
use goodput_catalog::Metric;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::source::files::FileError;
use crate::source::left_out;
use crate::source::nvml::Absent;

goodput_catalog::named! {
    /// What the node is for: several settings are right for one kind of work and wrong for another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
    pub enum Profile {
        /// Long jobs: throughput counts
        Training = "training",
        /// Services: the slowest answers count
        Inference = "inference",
        /// Both, or not known: what harms neither
        Mixed = "mixed",
    }
}

goodput_catalog::named! {
    /// How a check ended, in the order in which a reader wants to know.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Status {
        /// It costs GPU time, or will break a job.
        Fail = "fail",
        /// It can cost under some load; an administrator should decide.
        Warn = "warn",
        /// This process may not read it.
        NoPermission = "no_permission",
        /// It could not be read, or made no sense.
        Error = "error",
        /// As it should be.
        Pass = "pass",
        /// This machine, driver or profile has nothing of the kind.
        NotApplicable = "not_applicable",
    }
}

impl Status {
    /// For people.
    fn words(self) -> String {
        self.name().replace('_', " ")
    }
}

/// One row of the audit.
pub struct Check {
    /// Name in `--check ID` and in the metric's label.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// The files and NVML calls it reads.
    pub reads: &'static str,
    /// Our own metrics with the facts that it judges, where there are any. Those of DCGM are not listed.
    pub families: &'static [&'static Metric],
    /// What should be found.
    pub expected: Expected,
    /// Why it matters to a GPU.
    pub why: &'static str,
    /// What fixes it, the preferred way first; empty when nothing can be done from the operating system.
    pub fixes: &'static [Fix],
    /// Who says so.
    pub sources: &'static [Source],
    /// Reads and judges.
    pub run: fn(&Context, Profile) -> Result<Verdict, Unread>,
}

/// What should be found, by profile.
pub struct Expected {
    /// For [`Profile::Training`].
    pub training: &'static str,
    /// For [`Profile::Inference`].
    pub inference: &'static str,
    /// For [`Profile::Mixed`].
    pub mixed: &'static str,
}

impl Expected {
    /// The same for every profile.
    const fn always(text: &'static str) -> Self {
        Self { training: text, inference: text, mixed: text }
    }

    /// For one profile.
    #[must_use]
    pub fn of(&self, profile: Profile) -> &'static str {
        match profile {
            Profile::Training => self.training,
            Profile::Inference => self.inference,
            Profile::Mixed => self.mixed,
        }
    }
}

/// One way to fix a finding.
#[derive(Serialize)]
pub struct Fix {
    /// The command or setting; words in capitals stand for what differs from node to node.
    pub command: &'static str,
    /// How it survives a reboot, where the command does not.
    pub lasting: Option<&'static str>,
    /// What stops and starts again.
    pub restarts: &'static str,
    /// Who may do it.
    pub who: Who,
    /// What can go wrong.
    pub risk: &'static str,
    /// What to expect from it, with the source of the figure; `None` when no source has a figure worth repeating.
    pub gain: Option<&'static str>,
}

impl Fix {
    /// What most are: root does it, nothing restarts, and it lasts.
    const USUAL: Self =
        Self { command: "", lasting: None, restarts: "nothing", who: Who::Root, risk: "none known", gain: None };
}

goodput_catalog::named! {
    /// Who may do it.
    #[derive(Clone, Copy, Debug, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Who {
        /// Root on the node.
        Root = "root",
        /// The administrator who configures and restarts the kubelet or Slurm.
        ClusterAdmin = "cluster admin",
        /// The user who starts the job.
        User = "the job's user",
        /// An administrator with access to the firmware, the hypervisor or the hardware.
        Hardware = "firmware, hypervisor or hardware",
    }
}

/// Where a claim comes from.
#[derive(Serialize)]
pub struct Source {
    /// How far to trust it.
    pub grade: Grade,
    /// What it is.
    pub what: &'static str,
    /// Where it can be read; empty for a book and for our own judgement.
    pub url: &'static str,
}

goodput_catalog::named! {
    /// How far to trust a source, best first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Grade {
        /// The kernel's own documentation or source.
        Kernel = "kernel",
        /// The maker of the part says so.
        Vendor = "vendor",
        /// Widely used practice.
        Practice = "practice",
        /// A handbook that gives no measurement.
        Book = "book",
        /// Our own judgement.
        Own = "own judgement",
    }
}

/// What a check's judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Pass, warn, fail or not applicable.
    pub status: Status,
    /// What was found.
    pub read: String,
    /// The first fix of the row with this node's own names and numbers; empty when the row's text is exact already.
    pub commands: Vec<String>,
}

impl Verdict {
    fn new(status: Status, read: impl Into<String>) -> Self {
        Self { status, read: read.into(), commands: Vec::new() }
    }

    /// Names what is wrong; where nothing is, it passes.
    fn listing(status: Status, wrong: Vec<String>, right: impl Into<String>) -> Self {
        match wrong.is_empty() {
            true => Self::new(Status::Pass, right),
            false => Self::new(status, text::list(&wrong)),
        }
    }

    fn with(self, commands: Vec<String>) -> Self {
        Self { commands, ..self }
    }
}

/// Why nothing could be judged.
#[derive(Debug)]
pub enum Unread {
    /// There is nothing of the kind here.
    Absent(String),
    /// It is there and this process may not read it.
    Denied {
        /// What it is.
        what: String,
        /// What would allow it.
        permit: &'static str,
    },
    /// Any other failure.
    Failed(String),
}

const AS_ROOT: &str = "run the audit as root";
const SEE_PROCESSES: &str = "run the audit as root in the host's pid namespace; where /proc is mounted with hidepid, \
    CAP_SYS_PTRACE or the group of its gid= option also do";

impl From<FileError> for Unread {
    fn from(error: FileError) -> Self {
        match &error {
            FileError::Missing { .. } => Self::Absent(error.to_string()),
            FileError::Denied { path } => {
                let of_process = path.iter().any(|part| part.to_str().is_some_and(|p| p.parse::<u32>().is_ok()));
                Self::Denied { what: error.to_string(), permit: if of_process { SEE_PROCESSES } else { AS_ROOT } }
            }
            FileError::Io { .. } | FileError::Malformed { .. } => Self::Failed(error.to_string()),
        }
    }
}

impl Unread {
    /// There has to be something to judge; otherwise this is why there is not.
    fn unless(is_there: bool, absent: &str) -> Result<(), Self> {
        is_there.then_some(()).ok_or_else(|| Self::Absent(absent.to_owned()))
    }

    /// NVML's reason for giving no value.
    fn nvml(what: &str, why: Absent) -> Self {
        match why {
            Absent::NotSupported => Self::Absent(format!("{what}: this GPU or driver does not say")),
            Absent::NotPermitted => Self::Denied { what: format!("{what}: not permitted by NVML"), permit: AS_ROOT },
            Absent::Lost => Self::Failed(format!("{what}: the GPU is lost")),
            Absent::Failed(code) => Self::Failed(format!("{what}: NVML error {code}")),
        }
    }
}

/// A check and how it ended.
pub struct Finding {
    /// The row.
    pub check: &'static Check,
    /// How it ended.
    pub status: Status,
    /// What was found, or why nothing was.
    pub read: String,
    /// What should be found under the audit's profile.
    pub expected: &'static str,
    /// What to type: the commands that fix it, or that would allow the check. Empty when no action is needed.
    pub commands: Vec<String>,
}

/// One audit of one node.
pub struct Audit {
    /// The node's name.
    pub host: String,
    /// The kernel's release, where it says.
    pub kernel: Option<String>,
    /// What the node was judged for.
    pub profile: Profile,
    /// In the order of the checks.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Runs the checks.
    pub fn run(context: &Context, profile: Profile, checks: impl IntoIterator<Item = &'static Check>) -> Self {
        let kernel = crate::source::files::read(&context.roots.proc.join("sys/kernel/osrelease"));
        Self {
            host: context.hostname.to_string(),
            kernel: kernel.ok().map(|text| text.trim().to_owned()),
            profile,
            findings: checks.into_iter().map(|check| finding(check, context, profile)).collect(),
        }
    }

    /// How many checks ended so.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }
}

fn finding(check: &'static Check, context: &Context, profile: Profile) -> Finding {
    let before = left_out::take();
    let found = match ((check.run)(context, profile), left_out::take().errors.into_iter().next()) {
        // What could not be read is neither as it should be nor not there.
        (Ok(Verdict { status: Status::Pass | Status::NotApplicable, .. }) | Err(Unread::Absent(_)), Some(error)) => {
            Err(error.into())
        }
        (found, _) => found,
    };
    left_out::put_back(before);
    let (status, read, commands) = match found {
        Ok(Verdict { status: status @ (Status::Warn | Status::Fail), read, commands }) => {
            let general = || check.fixes.first().map(|fix| fix.command.to_owned()).into_iter().collect();
            (status, read, if commands.is_empty() { general() } else { commands })
        }
        Ok(Verdict { status, read, .. }) => (status, read, Vec::new()),
        Err(Unread::Absent(why)) => (Status::NotApplicable, why, Vec::new()),
        Err(Unread::Denied { what, permit }) => (Status::NoPermission, what, vec![permit.to_owned()]),
        Err(Unread::Failed(why)) => (Status::Error, why, Vec::new()),
    };
    Finding { check, status, read, expected: check.expected.of(profile), commands }
}
