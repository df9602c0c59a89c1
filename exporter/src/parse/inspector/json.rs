//! Lines of JSON, v4.0 to v4.4.
//!
//! Up to v4.2 each line has its communicator and its process with it. From v4.3 on only the marker (`dump_stats`) that comes
//! before a communicator's records has them, and those of several communicators take turns in one file.

use std::borrow::Cow;

use serde::Deserialize;

use super::Operation;
use crate::parse::ParseError;

/// Forms whose lines are whole.
const WHOLE: [&str; 3] = ["v4.0", "v4.1", "v4.2"];
/// Forms whose records follow a marker.
const MARKED: [&str; 2] = ["v4.3", "v4.4"];

/// Longest name of a communicator that is kept, in characters: own choice, frameworks' are shorter.
const NAME: usize = 64;

/// Whole numbers that a float holds exactly are below this: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The communicator and the process of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// NCCL's id of the communicator, which is the same on all of its ranks.
    pub communicator: u64,
    /// Its name, where the program gave one.
    pub name: Option<String>,
    /// This process's rank in it.
    pub rank: u32,
    /// Its ranks.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
    /// The process, by the id that it has in its own namespace.
    pub pid: u32,
    /// When the plug-in wrote it, in microseconds since 1970; `None` where that is not told.
    pub written_us: Option<u64>,
}

/// A collective that has ended on this rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collective {
    /// Which it is.
    pub operation: Operation,
    /// Its number among the communicator's of this operation, alike on all ranks.
    pub sequence: u64,
    /// Size of the message in bytes.
    pub bytes: f64,
    /// How long it took on this rank.
    pub seconds: f64,
    /// Was the time taken on the GPU? The first releases do not say, and take it there.
    pub is_gpu_time: bool,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A collective.
    Collective(Collective),
    /// A marker; collectives of this communicator that the plug-in has overwritten so far.
    Marker(u64),
    /// Something that is not read: transfers between two ranks, and what NCCL's proxy threads did.
    Other,
}

/// Why a line is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A form that is not known here.
    Version(String),
    /// A record whose marker was not seen.
    NoMarker,
    /// No record of any form.
    Malformed(ParseError),
}

/// A file's lines, one after another.
#[derive(Clone, Debug, Default)]
pub struct Records {
    context: Option<Context>,
    /// Collectives that the marker still has coming; `None` where each line has its own context.
    left: Option<u64>,
    line: usize,
}

impl Records {
    /// Whose the last line was.
    #[must_use]
    pub fn context(&self) -> Option<&Context> {
        self.context.as_ref()
    }

    /// What follows is from another place of the file: no record belongs to the marker that was seen last.
    pub fn lose_place(&mut self) {
        self.context = None;
    }

    /// Reads the next line.
    ///
    /// # Errors
    /// When the line is of no use. It costs itself, and the context of what follows if it should have had one.
    pub fn line(&mut self, text: &[u8]) -> Result<Line, Refused> {
        self.line += 1;
        let malformed = |expected| {
            let found = String::from_utf8_lossy(text);
            Refused::Malformed(ParseError::new(self.line, expected, &found))
        };
        let raw: RawLine<'_> = serde_json::from_slice(text)
            .map_err(|_| malformed("a JSON object of NCCL's Inspector, with its fields"))?;
        if raw.metadata.is_some() || raw.header.is_some() {
            self.context = None;
            let (context, is_marked) = context(&raw)?.ok_or_else(|| malformed("header and metadata"))?;
            self.context = Some(context);
            self.left = is_marked.then(|| raw.dump_stats.as_ref().and_then(RawStats::records).unwrap_or_default());
        }
        if self.context.is_none() {
            return Err(Refused::NoMarker);
        }
        match (&raw.coll_perf, &raw.dump_stats) {
            (Some(collective), _) => {
                match &mut self.left {
                    Some(0) => return Err(Refused::NoMarker),
                    Some(left) => *left -= 1,
                    None => {}
                }
                let collective = collective.read().ok_or_else(|| malformed("a collective of NCCL and its numbers"));
                collective.map(Line::Collective)
            }
            (None, Some(stats)) => stats.overwritten().map(Line::Marker).ok_or_else(|| malformed("whole numbers")),
            (None, None) => Ok(Line::Other),
        }
    }
}

/// The context, and whether it is that of the lines that follow. `None` where a part of it is missing or makes no sense.
fn context(raw: &RawLine<'_>) -> Result<Option<(Context, bool)>, Refused> {
    let Some(metadata) = &raw.metadata else { return Ok(None) };
    let version = metadata.inspector_output_format_version.as_ref();
    let is_marked = MARKED.contains(&version);
    if !is_marked && !WHOLE.contains(&version) {
        return Err(Refused::Version(version.chars().take(16).collect()));
    }
    let read = || {
        let header = raw.header.as_ref()?;
        let digits = header.id.strip_prefix("0x")?;
        let name = header.comm_name.as_deref().filter(|name| !name.is_empty() && *name != "unknown");
        Some(Context {
            communicator: u64::from_str_radix(digits, 16).ok()?,
            name: name.map(|name| name.chars().take(NAME).collect()),
            rank: small(header.rank)?,
            ranks: small(header.n_ranks)?,
            nodes: small(header.nnodes)?,
            pid: small(metadata.pid)?,
            written_us: metadata.dump_timestamp_us.and_then(whole),
        })
    };
    let is_sensible = |context: &Context| context.rank < context.ranks && (1..=context.ranks).contains(&context.nodes);
    Ok(read().filter(is_sensible).map(|context| (context, is_marked)))
}

/// A whole number, which may be written with a fraction of 0.
fn whole(number: f64) -> Option<u64> {
    ((0.0..EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

fn small(number: f64) -> Option<u32> {
    whole(number)?.try_into().ok()
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(borrow)]
    header: Option<RawHeader<'a>>,
    #[serde(borrow)]
    metadata: Option<RawMetadata<'a>>,
    #[serde(borrow)]
    coll_perf: Option<RawCollective<'a>>,
    dump_stats: Option<RawStats>,
}

#[derive(Deserialize)]
struct RawHeader<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    comm_name: Option<Cow<'a, str>>,
    rank: f64,
    n_ranks: f64,
    nnodes: f64,
}

#[derive(Deserialize)]
struct RawMetadata<'a> {
    #[serde(borrow)]
    inspector_output_format_version: Cow<'a, str>,
    pid: f64,
    dump_timestamp_us: Option<f64>,
}

#[derive(Deserialize)]
struct RawCollective<'a> {
    #[serde(borrow)]
    coll: Cow<'a, str>,
    coll_sn: f64,
    coll_msg_size_bytes: f64,
    coll_exec_time_us: f64,
    #[serde(borrow)]
    coll_timing_source: Option<Cow<'a, str>>,
}

impl RawCollective<'_> {
    fn read(&self) -> Option<Collective> {
        let is_gpu_time = self.coll_timing_source.as_ref().is_none_or(|source| source == "kernel_gpu");
        let is_number = |number: &f64| (0.0..EXACT).contains(number);
        Some(Collective {
            operation: Operation::of(&self.coll)?,
            sequence: whole(self.coll_sn)?,
            bytes: Some(self.coll_msg_size_bytes).filter(is_number)?,
            seconds: Some(self.coll_exec_time_us).filter(is_number)? / 1e6,
            is_gpu_time,
        })
    }
}

#[derive(Deserialize)]
struct RawStats {
    coll_records: Option<f64>,
    coll_dropped_total: Option<f64>,
}

impl RawStats {
    fn records(&self) -> Option<u64> {
        whole(self.coll_records?)
    }

    fn overwritten(&self) -> Option<u64> {
        self.coll_dropped_total.map_or(Some(0), whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = r#""header":{"id":"0xab","rank":1,"n_ranks":4,"nnodes":2}"#;

    fn metadata(version: &str) -> String {
        format!(r#""metadata":{{"inspector_output_format_version":"{version}","hostname":"h","pid":7}}"#)
    }

    fn record(sequence: u64) -> String {
        format!(
            r#""coll_perf":{{"coll":"AllReduce","coll_sn":{sequence},"coll_msg_size_bytes":8,"coll_exec_time_us":9}}"#
        )
    }

    fn marker(version: &str, comm: &str, records: u64) -> String {
        let header = HEADER.replace("0xab", comm);
        format!(r#"{{{header},{},"dump_stats":{{"coll_records":{records},"proxy_records":3}}}}"#, metadata(version))
    }

    fn sequence(line: Result<Line, Refused>) -> u64 {
        match line {
            Ok(Line::Collective(collective)) => collective.sequence,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_line_has_all_that_is_known() {
        for version in WHOLE {
            let mut records = Records::default();
            let line = format!("{{{HEADER},{},{}}}", metadata(version), record(3));
            let expected = Collective {
                operation: Operation::AllReduce,
                sequence: 3,
                bytes: 8.0,
                seconds: 9e-6,
                is_gpu_time: true,
            };
            assert_eq!(records.line(line.as_bytes()), Ok(Line::Collective(expected)));
            let context = records.context().unwrap();
            let found = (context.communicator, context.rank, context.ranks, context.nodes, context.pid);
            assert_eq!(found, (0xab, 1, 4, 2, 7));
            assert_eq!(context.name, None);
        }
    }

    #[test]
    fn records_belong_to_the_marker_before_them() {
        for version in MARKED {
            let mut records = Records::default();
            let short = format!("{{{}}}", record(5));
            assert_eq!(records.line(short.as_bytes()), Err(Refused::NoMarker), "before any marker");
            for comm in [0xa, 0xb] {
                let marker = marker(version, &format!("{comm:#x}"), 2);
                assert_eq!(records.line(marker.as_bytes()), Ok(Line::Marker(0)));
                assert_eq!(sequence(records.line(short.as_bytes())), 5);
                let p2p = br#"{"p2p_perf":{"p2p":"Send","p2p_sn":1,"p2p_peer":3}}"#;
                assert_eq!(records.line(p2p), Ok(Line::Other), "takes none of the collectives");
                assert_eq!(records.line(br#"{"proxy_trace":{"steps":[{},{}]}}"#), Ok(Line::Other));
                assert_eq!(sequence(records.line(short.as_bytes())), 5);
                assert_eq!(records.context().unwrap().communicator, comm);
            }
            assert_eq!(records.line(short.as_bytes()), Err(Refused::NoMarker), "more than the marker announced");
        }
    }

    #[test]
    fn an_unknown_form_is_named_and_so_are_the_records_that_follow_it() {
        let mut records = Records::default();
        assert_eq!(records.line(marker("v4.3", "0x1", 1).as_bytes()), Ok(Line::Marker(0)));
        assert_eq!(records.line(marker("v9.0", "0x1", 1).as_bytes()), Err(Refused::Version("v9.0".into())));
        assert_eq!(records.line(format!("{{{}}}", record(1)).as_bytes()), Err(Refused::NoMarker));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = format!("{{{HEADER},{},{}}}", metadata("v4.0"), record(3));
        for (good_part, bad) in [
            (r#""coll_sn":3"#, r#""coll_sn":-3"#),
            (r#""coll_sn":3"#, r#""coll_sn":3.5"#),
            (r#""coll_sn":3"#, r#""coll_sn":18446744073709551615"#),
            (r#""coll_exec_time_us":9"#, r#""coll_exec_time_us":-9"#),
            (r#""coll_exec_time_us":9"#, r#""coll_exec_time_us":"9""#),
            (r#""coll_msg_size_bytes":8"#, r#""coll_msg_size_bytes":1e300"#),
            ("AllReduce", "AllReduces"),
            ("0xab", "ab"),
            ("0xab", "0x1ffffffffffffffff"),
            (r#""rank":1"#, r#""rank":4"#),
            (r#""nnodes":2"#, r#""nnodes":5"#),
            (r#""nnodes":2"#, r#""nnodes":0"#),
            (r#""pid":7"#, r#""pid":4294967296"#),
            (HEADER, r#""other":1"#),
            ("{", "["),
        ] {
            assert!(good.contains(good_part), "{good_part}");
            let line = good.replacen(good_part, bad, 1);
            let refused = Records::default().line(line.as_bytes());
            let Err(Refused::Malformed(error)) = refused else { panic!("{bad}: {refused:?}") };
            assert_eq!(error.line, 1);
        }
        assert!(matches!(Records::default().line(good.as_bytes()), Ok(Line::Collective(_))));
    }

    #[test]
    fn numbers_may_have_fractions_and_fields_be_unknown() {
        let line = format!("{{{HEADER},{},{},\"new\":[1,{{}}]}}", metadata("v4.2"), record(3));
        let line = line.replace("\":9", "\":9.25").replace("\":3", "\":3.0").replace("\"rank\":1", "\"rank\":1.0");
        let line = line.replace("\"coll\":", "\"coll_timing_source\":\"kernel_cpu\",\"coll\":");
        let Ok(Line::Collective(collective)) = Records::default().line(line.as_bytes()) else { panic!("{line}") };
        assert_eq!((collective.sequence, collective.seconds, collective.is_gpu_time), (3, 9.25e-6, false));
    }

    #[test]
    fn a_name_is_kept_where_there_is_one() {
        for (given, expected) in [("unknown", None), ("", None), ("DP Group 0", Some("DP Group 0"))] {
            let header = HEADER.replace("\"rank\"", &format!("\"comm_name\":\"{given}\",\"rank\""));
            let mut records = Records::default();
            records.line(format!("{{{header},{},{}}}", metadata("v4.2"), record(3)).as_bytes()).unwrap();
            assert_eq!(records.context().unwrap().name.as_deref(), expected);
        }
    }

    #[test]
    fn bytes_on_the_bus() {
        for (operation, expected) in
            [(Operation::AllReduce, 1.5), (Operation::AllGather, 3.0), (Operation::Broadcast, 1.0)]
        {
            assert_eq!(operation.bus_factor(4), expected);
        }
        assert_eq!(Operation::AllReduce.bus_factor(1), 0.0);
        assert_eq!(Operation::of("AlltoAll"), Some(Operation::AllToAll));
    }

    proptest! {
        #[test]
        fn never_panics(lines in proptest::collection::vec("(\\{|\\}|\"header\":|\"metadata\":|\"coll_perf\":|\"dump_stats\":|[0-9.e-]{1,9}|,|\\PC)*", 0..4)) {
            let mut records = Records::default();
            for line in &lines {
                let _ = records.line(line.as_bytes());
            }
        }
    }
}
