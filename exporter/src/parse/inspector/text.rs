//! The text form, in files of one GPU: v4, a line per collective, and v5.1, a mean per size of message.

use std::collections::BTreeMap;

use goodput_exposition::{Format, Limits, Point, Points};

use super::Operation;
use crate::parse::{LeftOut, ParseError, Parsed};

/// Longest size of messages that is kept, in characters; the plug-in writes `512.00MB` and `512-513MB`.
const SIZE: usize = 24;

/// Combinations of operation, size and nodes that are kept: own choice, which leaves the series of a GPU within 112.
pub const KINDS: usize = 48;

/// What a mean is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The operation, by NCCL's name; `Send` and `Recv` too.
    pub operation: &'static str,
    /// Size of the message, in the plug-in's words.
    pub size: String,
    /// Nodes of the communicator.
    pub nodes: u32,
}

/// Means over the lines of a file that are of one kind. Lines say nothing of how many collectives they are of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mean {
    /// Bandwidth on the bus in bytes per second.
    pub bandwidth: Option<f64>,
    /// How long a collective took.
    pub seconds: Option<f64>,
}

/// Mean of some numbers.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

/// Reads a file. Lines of unknown forms are left out, and what is beyond [`KINDS`] is.
#[must_use]
pub fn means(text: &[u8]) -> Parsed<BTreeMap<Kind, Mean>> {
    let mut sums: BTreeMap<Kind, [Sum; 2]> = BTreeMap::new();
    let mut left_out = LeftOut::default();
    let mut points = Points::new(text, Format::Text, Limits::NONE);
    while let Some(point) = points.next() {
        let line = points.line();
        let error = |expected, found: &str| ParseError::new(line, expected, found);
        let read = match &point {
            Ok(point) => read(point).map_err(|expected| error(expected, &point.name)),
            Err(fault) => Err(error("a sample of the text format", &fault.reason)),
        };
        let Some(Some((kind, which, value))) = left_out.keep(read) else { continue };
        if sums.len() < KINDS || sums.contains_key(&kind) {
            sums.entry(kind).or_default()[which].add(value);
        } else {
            left_out.add(error("at most 48 kinds of operation, size and nodes", &kind.size));
        }
    }
    let mean = |[bandwidth, seconds]: [Sum; 2]| Mean { bandwidth: bandwidth.mean(), seconds: seconds.mean() };
    left_out.with(sums.into_iter().map(|(kind, sums)| (kind, mean(sums))).collect())
}

/// What a sample says: its kind, which of the two means it is of, and the value in its unit. `None` for what is not read.
fn read(point: &Point<'_>) -> Result<Option<(Kind, usize, f64)>, &'static str> {
    // Gigabytes are of 10^9 bytes.
    let (which, unit) = match &*point.name {
        "nccl_bus_bandwidth_gbs" | "nccl_p2p_bus_bandwidth_gbs" => (0, 1e9),
        "nccl_collective_exec_time_microseconds" | "nccl_p2p_exec_time_microseconds" => (1, 1e-6),
        _ => return Ok(None),
    };
    let label = |name: &str| point.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &**value);
    // v4 has no version, but numbers its lines.
    if label("version").map_or(label("coll_sn").is_none(), |version| version != "v5.1") {
        return Err("NCCL Inspector's text v4 or v5.1");
    }
    let operation = match (label("collective"), label("p2p_operation")) {
        (Some(name), _) => Operation::of(name).map(Operation::name),
        (None, Some("Send")) => Some("Send"),
        (None, Some("Recv")) => Some("Recv"),
        (None, _) => None,
    };
    let is_size = |size: &&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
        !size.is_empty() && size.len() <= SIZE && size.chars().all(is_part)
    };
    let kind = Kind {
        operation: operation.ok_or("an operation of NCCL")?,
        size: label("message_size").filter(is_size).ok_or("a size of messages such as 4-5GB")?.to_owned(),
        nodes: label("n_nodes").and_then(|nodes| nodes.parse().ok()).ok_or("a number of nodes")?,
    };
    let value = point.value * unit;
    // 10 TB/s, and a day: own choice, beyond what any GPU or collective has.
    let most = if which == 0 { super::MOST_BANDWIDTH } else { 86_400.0 };
    if !(0.0..=most).contains(&value) {
        return Err("a bandwidth or a time that can be");
    }
    Ok(Some((kind, which, value)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V5: &str = r#"nccl_bus_bandwidth_gbs{version="v5.1",gpu="GPU0",n_nodes="1",collective="AllReduce",message_size="4-5GB"} 600"#;

    fn kind(operation: &'static str, size: &str) -> Kind {
        Kind { operation, size: size.to_owned(), nodes: 1 }
    }

    #[test]
    fn a_kind_has_the_mean_of_its_lines() {
        let text = format!("{V5}\n{}\n", V5.replace("600", "200").replace("gpu", "comm_name=\"b\",gpu"));
        let expected = Mean { bandwidth: Some(4e11), seconds: None };
        assert_eq!(means(text.as_bytes()).value, BTreeMap::from([(kind("AllReduce", "4-5GB"), expected)]));
    }

    #[test]
    fn numbered_lines_need_no_version() {
        let line = |name: &str, sequence: u32, value: u32| {
            format!(
                "{name}{{comm_id=\"0x1\",n_nodes=\"1\",collective=\"AllGather\",coll_sn=\"{sequence}\",timestamp=\"t\",message_size=\"512.00MB\"}} {value}\n"
            )
        };
        let time = "nccl_collective_exec_time_microseconds";
        let text = line(time, 1, 500_000) + &line(time, 2, 1_500_000) + &line("nccl_algorithm_bandwidth_gbs", 2, 9);
        let expected = Mean { bandwidth: None, seconds: Some(1.0) };
        assert_eq!(means(text.as_bytes()).value, BTreeMap::from([(kind("AllGather", "512.00MB"), expected)]));
    }

    #[test]
    fn a_line_that_makes_no_sense_costs_itself() {
        for (good, bad) in [
            ("v5.1", "v5.2"),
            ("version=\"v5.1\",", ""),
            ("AllReduce", "AllSorts"),
            ("4-5GB", "4 GB"),
            ("4-5GB", "4-5GB-4-5GB-4-5GB-4-5GB-4-5GB"),
            ("n_nodes=\"1\"", "n_nodes=\"one\""),
            ("} 600", "} 60000"),
            ("} 600", "} -1"),
            ("} 600", "} NaN"),
            ("} 600", "} x"),
        ] {
            let text = format!("{}\n{V5}\n", V5.replace(good, bad));
            let parsed = means(text.as_bytes());
            assert_eq!((parsed.value.len(), parsed.left_out.count), (1, 1), "{bad}");
            assert_eq!(parsed.left_out.first.unwrap().line, 1, "{bad}");
        }
    }

    #[test]
    fn kinds_are_bounded() {
        let text: String = (0..100).map(|size| V5.replace("4-5GB", &format!("{size}MB")) + "\n").collect();
        let parsed = means(text.as_bytes());
        assert_eq!((parsed.value.len(), parsed.left_out.count), (KINDS, 52));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(nccl_bus_bandwidth_gbs|\\{|version=|\"v5.1\"|message_size=|\"|\\}| [0-9]{1,9}|\n|\\PC)*") {
            let _ = means(text.as_bytes());
        }
    }
}
