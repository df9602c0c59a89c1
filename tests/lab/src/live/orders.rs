//! What the recorder tells the job to do, a JSON line each, and what the job writes down of what it did.

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// Where a batch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The data file, past the page cache.
    Direct,
    /// The data file, through the page cache.
    Cached,
    /// Memory of the worker's own, half of it written to.
    Memory,
}

/// How batches are made and used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Regime {
    /// Threads that make batches.
    pub workers: usize,
    /// Where they take them from.
    pub source: Source,
    /// Bytes of the file, or of each worker's memory, that batches are taken from.
    pub data_bytes: u64,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// Bytes read at once, at an offset by chance; whole pages.
    pub piece_bytes: usize,
    /// CPU time that a batch takes to decode, in milliseconds.
    pub decode_ms: u64,
    /// Time that the GPU works on it, in milliseconds.
    pub train_ms: u64,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Hold so much of the GPU's memory.
    Hold {
        /// Bytes.
        used_bytes: u64,
    },
    /// Read the data once from end to end, through the page cache.
    Warm,
    /// Compute a fifth of the time, as imports and compilers do.
    Prepare,
    /// Make batches and train on them.
    Work(Regime),
    /// Do nothing.
    Rest,
    /// Write so much to storage and wait until it is there, then go on as before.
    Save {
        /// Bytes; whole MiB.
        bytes: u64,
    },
}

/// What the job does from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It holds the GPU and has not worked yet.
    Prepare,
    /// The GPU works.
    Compute,
    /// The GPU waits for a batch.
    Wait,
    /// The GPU waits until the state is saved.
    Save,
    /// There is nothing to do.
    Rest,
}

impl Doing {
    const ALL: [Doing; 5] = [Doing::Prepare, Doing::Compute, Doing::Wait, Doing::Save, Doing::Rest];

    fn name(self) -> &'static str {
        match self {
            Doing::Prepare => "prepare",
            Doing::Compute => "compute",
            Doing::Wait => "wait",
            Doing::Save => "save",
            Doing::Rest => "rest",
        }
    }
}

/// A moment at which the job began to do something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Microseconds since 1970.
    pub at_us: u64,
    /// What it did from then on.
    pub doing: Doing,
}

impl Edge {
    /// The line of the job's log.
    #[must_use]
    pub fn line(self) -> String {
        format!("{} {}\n", self.at_us, self.doing.name())
    }

    /// The edges of a log, in order of time.
    ///
    /// # Errors
    /// When a line is no edge, or time goes back.
    pub fn read(log: &str) -> Result<Vec<Edge>> {
        let mut edges: Vec<Edge> = Vec::new();
        for (number, line) in log.lines().enumerate() {
            let edge = edge(line).with_context(|| format!("line {} of the job's log: {line:?}", number + 1))?;
            if edges.last().is_some_and(|last| last.at_us > edge.at_us) {
                bail!("line {} of the job's log: expected a time not before that of the line above", number + 1);
            }
            edges.push(edge);
        }
        Ok(edges)
    }
}

fn edge(line: &str) -> Result<Edge> {
    let (at, name) = line.split_once(' ').context("expected microseconds and what was done from then on")?;
    let doing = Doing::ALL.into_iter().find(|doing| doing.name() == name);
    let doing = doing.with_context(|| format!("expected one of {:?}", Doing::ALL.map(Doing::name)))?;
    Ok(Edge { at_us: at.parse().context("expected microseconds since 1970")?, doing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_read_as_they_were_written() {
        let edges = Doing::ALL.map(|doing| Edge { at_us: 1_790_000_000_000_000, doing });
        let log: String = edges.into_iter().map(Edge::line).collect();
        assert_eq!(Edge::read(&log).unwrap(), edges);
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let of = |log| format!("{:#}", Edge::read(log).unwrap_err());
        assert!(of("5 wait\n6 sleep\n").starts_with("line 2 of the job's log: \"6 sleep\": expected one of"));
        assert!(of("wait\n").contains("expected microseconds and what"));
        assert!(of("soon wait\n").contains("expected microseconds since 1970"));
        assert!(of("5 wait\n4 rest\n").starts_with("line 2 of the job's log: expected a time not before"));
    }

    #[test]
    fn orders_are_lines() {
        let order = Order::Save { bytes: 1 << 20 };
        let line = serde_json::to_string(&order).unwrap();
        assert_eq!(line, r#"{"save":{"bytes":1048576}}"#);
        assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        assert_eq!(serde_json::from_str::<Order>(r#""rest""#).unwrap(), Order::Rest);
    }
}
