//! Traces of pages that an exporter answered on another machine, and of what a job there wrote down that its GPU did:
//! what `tests/lab/pytorch/record.py` records.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Class;
use serde::Deserialize;

use super::scrapes::Scrapes;
use super::truth::{self, Change};
use crate::trace::{self, Row};

/// How a trace is made of pages.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The GPU that the job had: `host/gpuN`.
    pub entity: String,
    /// Pages that follow an earlier one by less are left out.
    pub interval_ms: TimeMs,
    /// What `about.md` says.
    pub about: String,
}

/// A line of the recording. Other fields are not read.
#[derive(Deserialize)]
struct Page {
    ms: TimeMs,
    page: String,
}

/// Writes the trace into the folder. `pages` has an answer to a line, in JSON: `ms`, when it was asked for, in milliseconds
/// since 1970, and `page`. `log` has lines of microseconds since 1970, what the GPU did from then on, and classes that are
/// as good an answer, separated by `;`. Before its first line the GPU has no owner.
///
/// # Errors
/// When a line cannot be read, or the trace not be written.
pub fn trace(dir: &Path, pages: impl BufRead, log: &str, settings: &Settings) -> Result<()> {
    let mut scrapes = Scrapes::default();
    let mut span: Option<Range<TimeMs>> = None;
    for (number, line) in pages.lines().enumerate() {
        let line = line.context("cannot read the pages")?;
        let Page { ms, page } = serde_json::from_str(&line).with_context(|| format!("page {}", number + 1))?;
        if span.as_ref().is_some_and(|span| ms - span.end < settings.interval_ms) {
            continue;
        }
        scrapes.take(ms, &[("job", "goodput"), ("instance", "node:9400")], &page)?;
        span = Some(span.map_or(ms, |span| span.start)..ms);
    }
    let span = span.context("there is no page")?;
    let told = Log::read(log)?;
    let mut rows = truth::rows(&settings.entity, &span, truth::stretches(&span, told.changes));
    rows.extend(told.out_of_memory.iter().map(|ms| Row {
        entity: settings.entity.clone(),
        start_ms: *ms,
        end_ms: *ms,
        class: "oom",
        charged_to: Some("gpu".to_owned()),
        also: Vec::new(),
    }));
    trace::write(dir, scrapes.into_series(), &rows, &settings.about)
}

/// What the job wrote down.
#[derive(Debug, Default)]
struct Log {
    /// What the GPU did, in order of time.
    changes: Vec<Change>,
    /// When an allocation of device memory failed.
    out_of_memory: BTreeSet<TimeMs>,
}

impl Log {
    fn read(text: &str) -> Result<Self> {
        let mut log = Self::default();
        for (number, line) in text.lines().enumerate() {
            log.take(line).with_context(|| format!("line {} of the job's log: {line:?}", number + 1))?;
        }
        Ok(log)
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let mut words = line.split(' ');
        let at = words.next().and_then(|word| word.parse::<TimeMs>().ok());
        let ms = at.context("expected microseconds since 1970 first")? / 1000;
        match (words.next(), words.next(), words.next()) {
            (Some("oom"), None, None) => {
                self.out_of_memory.insert(ms);
            }
            (Some(name), also, None) => {
                let last_ms = self.changes.last().map(|(ms, ..)| *ms);
                ensure!(
                    last_ms.is_none_or(|last_ms| last_ms <= ms),
                    "expected a time not before that of the line above"
                );
                let also = also.into_iter().flat_map(|also| also.split(';')).map(class).collect::<Result<_>>()?;
                self.changes.push((ms, class(name)?, also));
            }
            _ => bail!("expected a time, a class, and classes that are as good an answer"),
        }
        Ok(())
    }
}

/// The class of this name, as the ledger calls it.
fn class(name: &str) -> Result<&'static str> {
    let class = Class::named(name).with_context(|| format!("{name:?} is no class"))?;
    Ok(class.name())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PAGES: &str = r#"{"ms": 60000, "page": "a 1\n", "took_s": 0.1}
{"ms": 62000, "page": "a 1\n"}
{"ms": 70000, "page": "a 1\n"}
{"ms": 120000, "page": "a 1\n"}
"#;

    fn made(log: &str) -> Result<(String, String)> {
        let folder = tempfile::tempdir()?;
        let settings = Settings { entity: "n/gpu0".to_owned(), interval_ms: 10_000, about: "# one\n".to_owned() };
        trace(folder.path(), PAGES.as_bytes(), log, &settings)?;
        let file = |name| fs::read_to_string(folder.path().join(name));
        Ok((file("metrics.om")?, file("truth.csv")?))
    }

    #[test]
    fn pages_become_samples_and_the_log_becomes_the_truth() {
        let log = "65000000 cold_start\n80000000 productive\n90000000 dataloader_cpu host_noise;launch_bound\n\
                   95000000 oom\n100000000 unallocated\n";
        let (metrics, truth) = made(log).unwrap();
        assert_eq!(metrics.matches("up{").count(), 3, "{metrics}");
        let expected = "entity,start,end,class,charged_to,also,note\n\
            n/gpu0,1970-01-01T00:01:00Z,1970-01-01T00:01:25Z,unallocated,,,\n\
            n/gpu0,1970-01-01T00:01:25Z,1970-01-01T00:01:40Z,cold_start,,,\n\
            n/gpu0,1970-01-01T00:01:40Z,1970-01-01T00:01:50Z,productive,,,\n\
            n/gpu0,1970-01-01T00:01:50Z,1970-01-01T00:02:00Z,dataloader_cpu,,host_noise;launch_bound,\n\
            n/gpu0,1970-01-01T00:01:35Z,1970-01-01T00:01:35Z,oom,gpu,,\n";
        assert_eq!(truth, expected);
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let of = |log| format!("{:#}", made(log).unwrap_err());
        assert!(of("5 productive\n6 sleep\n").contains("line 2 of the job's log: \"6 sleep\": \"sleep\" is no class"));
        assert!(of("soon productive\n").contains("expected microseconds since 1970 first"));
        assert!(of("9000 productive\n5000 idle_held\n").contains("line 2 of the job's log: "));
        assert!(of("5\n").contains("expected a time, a class"));
    }
}
