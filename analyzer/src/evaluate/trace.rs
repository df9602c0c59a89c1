//! Trace directories: `metrics.om`, `truth.csv`, and `about.md` for people (`docs/internals/evaluate.md`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use goodput_exposition::{Format, Points, TextError};
use jiff::Timestamp;

use super::EvaluateError;
use super::charged::{cause, charged_to};
use crate::ingest::Limits;
use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_verdict::Class;

const METRICS: &str = "metrics.om";
const TRUTH: &str = "truth.csv";
const COLUMNS: [&str; 7] = ["entity", "start", "end", "class", "charged_to", "also", "note"];
/// Columns that may follow these, both or none.
const CAUSE_COLUMNS: [&str; 2] = ["cause", "which"];

/// The event that forecasts are compared with; it has no GPU-time.
pub(super) const OOM: &str = "oom";
/// The same of a GPU that is damaged.
pub(super) const DAMAGE: &str = "damage";

/// A recorded trace.
#[derive(Debug)]
pub struct Trace {
    /// Its folder.
    pub path: PathBuf,
    /// The name of the folder that holds it.
    pub family: String,
    /// What was scraped.
    pub series: Vec<Series>,
    /// What was the matter, in the order of the file.
    pub truth: Vec<Row>,
    /// When memory ran out.
    pub ooms: Vec<Row>,
    /// When a GPU, or a part of the network, was damaged.
    pub damages: Vec<Row>,
    /// Does the truth have a column of causes?
    pub has_causes: bool,
}

/// What was the matter with a GPU for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Line of the file, counted from 1.
    pub line: u64,
    /// `host/gpuN`.
    pub entity: String,
    /// When.
    pub span: Range<TimeMs>,
    /// A leaf class, `oom` or `damage`.
    pub class: &'static str,
    /// Who caused it: `host`, `host/gpuN` or `host/device`; of `oom`, what ran out; of `damage`, the fault.
    pub charged_to: Option<String>,
    /// The cause's name.
    pub cause: Option<String>,
    /// Classes that are accepted in its place.
    pub also: Vec<&'static str>,
}

impl Row {
    /// Host and GPU index of the entity; both are empty of a part of the network.
    pub(super) fn host_and_index(&self) -> (&str, &str) {
        split(&self.entity).unwrap_or_default()
    }
}

/// The traces in a folder, itself or below, in order of path.
pub fn find(dir: &Path) -> Result<Vec<PathBuf>, EvaluateError> {
    let mut found = Vec::new();
    descend(dir, &mut found)?;
    if found.is_empty() {
        return Err(EvaluateError::NoTrace(dir.to_owned()));
    }
    found.sort();
    Ok(found)
}

fn descend(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), EvaluateError> {
    let error = |source| EvaluateError::Io { path: dir.to_owned(), source };
    if dir.join(TRUTH).try_exists().map_err(error)? || dir.join(METRICS).try_exists().map_err(error)? {
        found.push(dir.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(error)? {
        let entry = entry.map_err(error)?;
        if entry.file_type().map_err(error)?.is_dir() {
            descend(&entry.path(), found)?;
        }
    }
    Ok(())
}

impl Trace {
    /// Reads the folder.
    pub fn read(path: &Path) -> Result<Trace, EvaluateError> {
        let (metrics, truth) = (path.join(METRICS), path.join(TRUTH));
        let series = series(&text(&metrics)?).map_err(|(line, reason)| wrong(&metrics, line, reason))?;
        let (rows, has_causes) = rows(&text(&truth)?).map_err(|(line, reason)| wrong(&truth, line, reason))?;
        let (ooms, rows): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.class == OOM);
        let (damages, mut truth): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.class == DAMAGE);
        exclude_overlaps(&mut truth).map_err(|(line, reason)| wrong(&path.join(TRUTH), line, reason))?;
        let real = path.canonicalize().map_err(|source| EvaluateError::Io { path: path.to_owned(), source })?;
        let family = real.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let (path, family) = (path.to_owned(), family.unwrap_or_default());
        Ok(Trace { path, family, series, truth, ooms, damages, has_causes })
    }

    /// An error in the truth.
    pub(super) fn wrong(&self, line: u64, reason: String) -> EvaluateError {
        wrong(&self.path.join(TRUTH), line, reason)
    }
}

fn wrong(path: &Path, line: u64, reason: String) -> EvaluateError {
    EvaluateError::Text { path: path.to_owned(), line, reason }
}

fn text(path: &Path) -> Result<String, EvaluateError> {
    let read = fs::read(path).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("expected UTF-8: {e}")))
    });
    read.map_err(|source| EvaluateError::Io { path: path.to_owned(), source })
}

type Wrong = (u64, String);

fn wrong_line(error: TextError) -> Wrong {
    (error.line as u64, error.reason)
}

/// Series of OpenMetrics text in which every sample has its time.
fn series(text: &str) -> Result<Vec<Series>, Wrong> {
    let mut series: BTreeMap<Labels, Vec<Sample>> = BTreeMap::new();
    let limits = Limits { samples: usize::MAX, ..Limits::default() }.of_text();
    let mut points = Points::new(text, Format::OpenMetrics, limits);
    while let Some(point) = points.next() {
        let point = point.map_err(wrong_line)?;
        if let Some(fault) = point.fault {
            return Err((points.line() as u64, fault.detail));
        }
        let name = &*point.name;
        let Some(time_ms) = point.time_ms else {
            let at = text.lines().position(|l| l.starts_with(name) && fields_after_labels(l) < 2).unwrap_or_default();
            return Err((at as u64 + 1, format!("expected a timestamp in seconds after the value of {name}")));
        };
        let labels = Labels::new([("__name__".into(), name.into())].into_iter().chain(point.labels));
        series.entry(labels).or_default().push(Sample { time_ms, value: stale(point.value) });
    }
    points.finish().map_err(wrong_line)?;
    let sorted = |(labels, mut samples): (Labels, Vec<Sample>)| {
        samples.sort_by_key(|s| s.time_ms);
        samples.dedup_by_key(|s| s.time_ms);
        Series { labels, samples }
    };
    Ok(series.into_iter().map(sorted).collect())
}

/// Text has one NaN only, and dumps of series write staleness markers so.
fn stale(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(STALE_BITS) } else { value }
}

/// Words after the labels of a sample line, or after its name.
fn fields_after_labels(line: &str) -> usize {
    let rest = line.rsplit_once('}').map_or_else(|| line.split_once(' ').map_or("", |(_, r)| r), |(_, rest)| rest);
    rest.split_whitespace().count()
}

/// The rows, and whether they have a column of causes.
fn rows(text: &str) -> Result<(Vec<Row>, bool), Wrong> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let (mut rows, mut columns) = (Vec::new(), COLUMNS.to_vec());
    for (number, record) in reader.records().enumerate() {
        let record = record.map_err(|e| (e.position().map_or(0, csv::Position::line), e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let fields: Vec<&str> = record.iter().map(str::trim).collect();
        if number == 0 {
            columns.extend(CAUSE_COLUMNS.iter().filter(|_| fields.len() > COLUMNS.len()));
            if fields != columns {
                return Err((line, format!("expected the columns {}, found {}", columns.join(","), fields.join(","))));
            }
            continue;
        }
        if fields.len() != columns.len() {
            let (expected, names) = (columns.len(), columns.join(","));
            return Err((line, format!("expected {expected} fields ({names}), found {}", fields.len())));
        }
        rows.push(row(line, &fields).map_err(|reason| (line, reason))?);
    }
    if rows.is_empty() {
        return Err((1, format!("expected the columns {} and a row at least", COLUMNS.join(","))));
    }
    Ok((rows, columns.len() > COLUMNS.len()))
}

fn row(line: u64, fields: &[&str]) -> Result<Row, String> {
    let field = |name: &str| {
        let place = COLUMNS.iter().chain(&CAUSE_COLUMNS).position(|column| *column == name);
        place.and_then(|place| fields.get(place)).copied().unwrap_or_default()
    };
    let (entity, start, end, class) = (field("entity"), field("start"), field("end"), field("class"));
    let is_there = split(entity).is_some()
        || (class == DAMAGE
            && entity.split_once('/').is_some_and(|(_, part)| !part.is_empty() && !part.starts_with("gp")));
    is_there.then_some(()).ok_or_else(|| format!("entity: expected host/gpuN such as node1/gpu0, found {entity:?}"))?;
    let span = time("start", start)?..time("end", end)?;
    let class = if let Some(apart) = [OOM, DAMAGE].into_iter().find(|apart| *apart == class) {
        apart
    } else {
        leaf("class", class)?
    };
    if span.is_empty() && !(class == OOM && span.start == span.end) {
        return Err(format!("end: expected a time after start {start}, found {end}"));
    }
    let separators = |c: char| c == ';' || c == '|' || c == ',' || c.is_whitespace();
    let also = field("also").split(separators).filter(|word| !word.is_empty()).map(|word| leaf("also", word));
    Ok(Row {
        line,
        entity: entity.to_owned(),
        span,
        class,
        charged_to: charged_to(class, entity, field("charged_to"), field("which"))?,
        cause: cause(class, field("cause"))?,
        also: also.collect::<Result<_, _>>()?,
    })
}

/// `host/gpuN` as host and N.
pub(super) fn split(entity: &str) -> Option<(&str, &str)> {
    let (host, gpu) = entity.rsplit_once('/')?;
    let index = gpu.strip_prefix("gpu").filter(|i| !i.is_empty() && i.bytes().all(|b| b.is_ascii_digit()))?;
    (!host.is_empty()).then_some((host, index))
}

fn time(field: &str, text: &str) -> Result<TimeMs, String> {
    let parsed = text.parse::<Timestamp>().map(Timestamp::as_millisecond);
    parsed.map_err(|_| format!("{field}: expected a time as in RFC 3339 such as 2026-11-21T12:00:00Z, found {text:?}"))
}

fn leaf(field: &str, word: &str) -> Result<&'static str, String> {
    let known = || Class::ALL.iter().map(|class| class.name()).collect::<Vec<_>>().join(", ");
    let class = Class::named(word).ok_or_else(|| format!("{field}: expected one of {}, found {word:?}", known()))?;
    Ok(class.name())
}

/// A GPU-second has one class.
fn exclude_overlaps(rows: &mut [Row]) -> Result<(), Wrong> {
    rows.sort_by(|a, b| (&a.entity, a.span.start, a.line).cmp(&(&b.entity, b.span.start, b.line)));
    for pair in rows.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        if a.entity == b.entity && b.span.start < a.span.end {
            return Err((
                b.line,
                format!("start: expected no overlap, but {} has line {} until later", b.entity, a.line),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "entity,start,end,class,charged_to,also,note\n";

    fn problem(line: &str) -> String {
        let (at, reason) = rows(&format!("{HEADER}{line}\n")).unwrap_err();
        assert_eq!(at, 2);
        reason
    }

    #[test]
    fn a_row_is_read_whole() {
        let text = format!(
            "{HEADER}n/a/gpu12,2026-11-21T12:00:00+01:00,2026-11-21T11:00:01.5Z,straggler,n/gpu0,\
             unexplained; collective_wait,\"slow, and known\"\n"
        );
        let (rows, has_causes) = rows(&text).unwrap();
        assert!(!has_causes);
        let start = 1_795_258_800_000;
        assert_eq!((rows[0].host_and_index(), rows[0].line), (("n/a", "12"), 2));
        assert_eq!((rows[0].span.clone(), rows[0].class), (start..start + 1500, "straggler"));
        assert_eq!(rows[0].charged_to.as_deref(), Some("n/gpu0"));
        assert_eq!(rows[0].also, ["unexplained", "collective_wait"]);
    }

    #[test]
    fn causes_and_ports_may_follow_the_note() {
        let t = "2026-11-21T12:00:00Z,2026-11-21T13:00:00Z";
        let text = format!(
            "entity,start,end,class,charged_to,also,note,cause,which\n\
             n/gpu0,{t},network_slow,n1/mlx5_4/1,,,errors,mlx5_4/1\n\
             n/gpu1,{t},network_slow,n1,,,link,mlx5_4/1\n\
             n/gpu2,{t},network_slow,n1,,,rdma_unused,\n\
             n/gpu3,{t},dataloader_storage,filer,,,slow disk,/data\n\
             n/gpu4,{t},dataloader_storage,,,,,/data\n\
             n/gpu5,{t},productive,,,,,\n"
        );
        let (rows, has_causes) = rows(&text).unwrap();
        let read: Vec<_> = rows.iter().map(|row| (row.charged_to.as_deref(), row.cause.as_deref())).collect();
        assert!(has_causes);
        assert_eq!(
            read,
            [
                (Some("n1/mlx5_4/1"), Some("errors")),
                (Some("n1/mlx5_4/1"), Some("link")),
                (Some("n1"), Some("rdma_unused")),
                (Some("filer/data"), Some("slow disk")),
                (Some("n/data"), None),
                (None, None)
            ]
        );
    }

    #[test]
    fn mistakes_are_named_by_line_and_field() {
        let t = "2026-11-21T12:00:00Z,2026-11-21T13:00:00Z";
        assert_eq!(problem("x,y"), "expected 7 fields (entity,start,end,class,charged_to,also,note), found 2");
        assert!(problem(&format!("n1/mlx5_4/1,{t},productive,,,")).starts_with("entity: expected host/gpuN such as"));
        assert!(rows(&format!("{HEADER}n1/mlx5_4/1,{t},damage,rdma_port_slow,,\n")).is_ok());
        assert!(problem("n/gpu0,noon,x,productive,,,").starts_with("start: expected a time as in RFC 3339"));
        assert!(problem("n/gpu0,2026-11-21T12:00:00Z,2026-11-21T12:00:00Z,productive,,,").starts_with("end: expected"));
        assert!(problem(&format!("n/gpu0,{t},lazy,,,")).starts_with("class: expected one of productive,"));
        assert!(problem(&format!("n/gpu0,{t},productive,,lazy,")).starts_with("also: expected one of"));
        let problem_of_host = "charged_to: expected host, host/gpuN or host/device such as";
        for host in ["/gpu0", "n1/", "n1//mlx5_4", "n 1"] {
            assert!(problem(&format!("n/gpu0,{t},straggler,{host},,")).starts_with(problem_of_host), "{host}");
        }
        assert!(problem(&format!("n/gpu0,{t},oom,swap,,")).starts_with("charged_to: expected what ran out"));
        assert!(problem(&format!("n/gpu0,{t},damage,rust,,")).starts_with("charged_to: expected the fault (recovery"));
        let causes = HEADER.replace("note", "note,cause,which");
        let wrong = |line: &str| rows(&format!("{causes}{line}\n")).unwrap_err().1;
        assert!(wrong(&format!("n/gpu0,{t},productive,,,")).starts_with("expected 9 fields (entity,"));
        let known = "cause: expected one of nvlink_down, link, rdma_unused, rail_unused, errors, congested, saturated, found \"cable\"";
        assert_eq!(wrong(&format!("n/gpu0,{t},network_slow,n1,,,cable,")), known);
        let half = rows(&HEADER.replace("note", "note,cause")).unwrap_err().1;
        assert!(
            half.starts_with("expected the columns entity,start,end,class,charged_to,also,note,cause,which, found")
        );
        assert!(rows("entity,from\n").unwrap_err().1.starts_with("expected the columns entity,start"));
        assert!(rows("").is_err() && rows(HEADER).is_err());
    }

    #[test]
    fn a_second_has_one_class() {
        let row = |from: u8, to: u8| format!("n/gpu0,2026-11-21T{from}:00:00Z,2026-11-21T{to}:00:00Z,productive,,,\n");
        let (mut apart, _) = rows(&[HEADER, &row(12, 13), &row(10, 12)].concat()).unwrap();
        assert_eq!(exclude_overlaps(&mut apart), Ok(()));
        let (mut overlap, _) = rows(&[HEADER, &row(12, 14), &row(10, 13)].concat()).unwrap();
        assert_eq!(exclude_overlaps(&mut overlap).unwrap_err().0, 2);
    }

    #[test]
    fn samples_have_their_time() {
        let text = "# TYPE up gauge\nup{a=\"x y\"} 1 1000.5\nup{a=\"x y\"} 0 1000\n# EOF\n";
        let read = series(text).unwrap();
        let times: Vec<_> = read[0].samples.iter().map(|s| s.time_ms).collect();
        assert_eq!((read.len(), times), (1, vec![1_000_000, 1_000_500]));
        let (line, reason) = series("up{a=\"x y\"} 1 1000\nup{a=\"x y\"} 1\n# EOF\n").unwrap_err();
        assert_eq!((line, reason.as_str()), (2, "expected a timestamp in seconds after the value of up"));
        assert_eq!(series("up 1 1000\n").unwrap_err(), (2, "expected # EOF at the end".to_owned()));
    }
}
