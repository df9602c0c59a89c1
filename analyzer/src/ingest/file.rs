//! Files of samples with timestamps: OpenMetrics text, plain or compressed, and Parquet. They are read piece by piece, for
//! they may be larger than memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use goodput_exposition::{Fault, Format, LineByLine, TextError, excerpt};
use indicatif::ProgressBar;
use tokio::sync::mpsc::Sender;

use super::skipped::Rules;
use goodput_exposition::sample::{Batch, Labels, Sample, Series};
use goodput_store::parquet::{ParquetError, read_samples};

/// Samples of a batch: enough that storing it costs little per sample.
const BATCH: usize = 100_000;
/// A longer line is no sample: 64 labels of 5 KiB, and room to spare.
const LINE_BYTES: usize = 1 << 20;

/// Bad lines of a file that are kept to be shown.
const SHOWN: usize = 5;

/// Lines of a text, or rows of a table, that were passed over.
#[derive(Debug, Default)]
pub struct BadLines {
    /// How many.
    pub count: u64,
    /// Number and reason of the first of them.
    pub first: Vec<String>,
}

impl BadLines {
    fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(what());
        }
    }
}

/// Why a file cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system, or a compressed stream that is broken.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        error: io::Error,
    },
    /// Not Parquet, or other columns.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// Parquet begins at its end.
    #[error("standard input: expected OpenMetrics text, found Parquet, which is read from a file only")]
    ParquetStream,
}

/// A file that is open.
pub struct Source {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    /// Its size on disk, where it is a file.
    pub bytes: Option<u64>,
}

impl Source {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        if path == Path::new("-") {
            return Ok(Self { path: "standard input".into(), reader: Box::new(io::stdin()), bytes: None });
        }
        let failed = |error| FileError::Io { path: path.to_owned(), error };
        let bytes = fs::metadata(path).map_err(failed)?.len();
        let reader = Box::new(File::open(path).map_err(failed)?);
        Ok(Self { path: path.to_owned(), reader, bytes: Some(bytes) })
    }
}

/// Reads a file to its end and passes its samples on; ends early without error when nothing takes them. The first
/// bytes of the file decide what it is. Lines that cannot be read, and series that break a limit though the store keeps their
/// metric, are passed over and listed. Blocks.
pub fn read(
    source: Source,
    rules: &Rules<'_>,
    bar: &ProgressBar,
    batches: &Sender<Batch>,
) -> Result<BadLines, FileError> {
    let Source { path, reader, bytes } = source;
    let failed = |error| FileError::Io { path: path.clone(), error };
    let mut reader = BufReader::new(reader);
    // As many bytes as the longest of the marks, however they arrive.
    let mut start = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut start).map_err(failed)?;
    let rest = bar.wrap_read(io::Cursor::new(start.clone()).chain(reader));
    match start.as_slice() {
        b"PAR1" if bytes.is_none() => Err(FileError::ParquetStream),
        b"PAR1" => {
            let total = bytes.unwrap_or_default();
            let mut bad = BadLines::default();
            let admitted = |labels: Labels| admitted(labels, rules);
            let mut bad_row = |row: usize, reason: &str| bad.add(|| format!("row {row}: {reason}"));
            read_samples(&path, &admitted, &mut bad_row, |batch, part| {
                bar.set_position((total as f64 * part) as u64);
                batches.blocking_send(batch).is_ok()
            })?;
            Ok(bad)
        }
        [0x1f, 0x8b, ..] => lines(flate2::read::MultiGzDecoder::new(rest), rules, batches).map_err(failed),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let decoder = zstd::Decoder::new(rest).map_err(failed)?;
            lines(decoder, rules, batches).map_err(failed)
        }
        _ => lines(rest, rules, batches).map_err(failed),
    }
}

fn lines(reader: impl Read, rules: &Rules<'_>, batches: &Sender<Batch>) -> io::Result<BadLines> {
    let (mut parser, mut batch) = (LineByLine::new(Format::OpenMetrics, rules.limits.of_text()), Building::default());
    let mut bad = BadLines::default();
    let mut reader = BufReader::with_capacity(1 << 20, reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LINE_BYTES as u64 + 1).read_until(b'\n', &mut line) {
            Err(error) => {
                // An error here says that nothing takes the samples any more, and why is known there.
                let _ = batches.blocking_send(batch.take());
                return Err(error);
            }
            Ok(0) => break,
            Ok(_) => {}
        }
        let is_too_long = line.len() > LINE_BYTES && line.last() != Some(&b'\n');
        if is_too_long {
            parser.pass();
            bad.add(|| parser.error(format!("expected a line of at most {LINE_BYTES} bytes")).to_string());
            skip_line(&mut reader)?;
        } else if let Err(error) = one(&mut parser, &line, rules.keeps, &mut batch) {
            bad.add(|| error.to_string());
        }
        if batch.samples >= BATCH && batches.blocking_send(batch.take()).is_err() {
            return Ok(bad);
        }
    }
    let _ = batches.blocking_send(batch.take());
    if let Err(error) = parser.finish() {
        bad.add(|| error.to_string());
    }
    Ok(bad)
}

/// The labels of a series of a table: none where it has a fault and the store does not keep its metric.
fn admitted(labels: Labels, rules: &Rules<'_>) -> Result<Labels, String> {
    let Some(Fault { detail, .. }) = rules.fault(labels.as_ref()) else { return Ok(labels) };
    let metric = labels.metric();
    if metric.is_empty() || (rules.keeps)(metric) {
        Err(format!("series of metric {:?} skipped: {detail}", excerpt(metric)))
    } else {
        Ok(Labels::new::<&str, &str>([]))
    }
}

/// Reads on to the end of a line, which is not kept.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let held = reader.fill_buf()?;
        let end = held.iter().position(|byte| *byte == b'\n');
        let (length, is_over) = (end.map_or(held.len(), |end| end + 1), end.is_some() || held.is_empty());
        reader.consume(length);
        if is_over {
            return Ok(());
        }
    }
}

fn one(
    parser: &mut LineByLine,
    line: &[u8],
    keeps: &dyn Fn(&str) -> bool,
    batch: &mut Building,
) -> Result<(), TextError> {
    let (line, has_line_feed) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
    let Ok(text) = str::from_utf8(line) else {
        parser.pass();
        return Err(parser.error("expected UTF-8"));
    };
    let Some(point) = parser.point(text, has_line_feed)? else { return Ok(()) };
    let Some(time_ms) = point.time_ms else {
        return Err(parser.error("expected a timestamp in seconds after the value: history has to say when it was"));
    };
    let sample = Sample { time_ms, value: point.value };
    match point.fault {
        // Without labels, the sample is counted as unknown.
        Some(_) if !point.name.is_empty() && !keeps(&point.name) => {
            batch.add(Labels::new::<&str, &str>([]), sample);
            Ok(())
        }
        Some(fault) => {
            let metric = excerpt(&point.name).to_owned();
            Err(parser.error(format!("series of metric {metric:?} skipped: {}", fault.detail)))
        }
        None => {
            let name = iter::once((Cow::Borrowed("__name__"), point.name));
            batch.add(Labels::new(name.chain(point.labels)), sample);
            Ok(())
        }
    }
}

/// A batch that grows.
#[derive(Default)]
struct Building {
    series: HashMap<Labels, Vec<Sample>>,
    samples: usize,
}

impl Building {
    fn add(&mut self, labels: Labels, sample: Sample) {
        self.series.entry(labels).or_default().push(sample);
        self.samples += 1;
    }

    fn take(&mut self) -> Batch {
        self.samples = 0;
        let series = std::mem::take(&mut self.series).into_iter();
        series.map(|(labels, samples)| Series { labels, samples }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::Limits;
    use super::*;

    fn rules() -> Rules<'static> {
        static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);
        Rules { limits: &LIMITS, keeps: &|metric| metric != "foreign" }
    }

    /// The metrics and times that a file brings, and its bad lines.
    fn read_text(text: &[u8]) -> (Vec<(String, i64)>, Vec<String>, u64) {
        let (batches, mut arriving) = tokio::sync::mpsc::channel(100);
        let bad = lines(text, &rules(), &batches).unwrap();
        drop(batches);
        let mut read = Vec::new();
        while let Some(batch) = arriving.blocking_recv() {
            let all = batch.into_iter().flat_map(|series| {
                let metric = series.labels.metric().to_owned();
                series.samples.into_iter().map(move |sample| (metric.clone(), sample.time_ms))
            });
            read.extend(all);
        }
        read.sort();
        (read, bad.first, bad.count)
    }

    #[test]
    fn reading_goes_on_after_a_bad_line() {
        let long = "x".repeat(6000);
        let huge = "y".repeat(3 << 20);
        let text = [
            b"a 1 1\nb x 1\nc{d=\"\xff\"} 1 1\ne 1\n".as_slice(),
            format!("f{{g=\"{long}\"}} 1 1\nforeign{{g=\"{long}\"}} 1 2\n{huge}\nh{{p=\"C:\\dir\"}} 1 3\n# EOF")
                .as_bytes(),
        ]
        .concat();
        let (read, bad, count) = read_text(&text);
        assert_eq!(read, [(String::new(), 2000), ("a".to_owned(), 1000), ("h".to_owned(), 3000)]);
        let expected = [
            "line 2: expected a number, found \"x\"",
            "line 3: expected UTF-8",
            "line 4: expected a timestamp in seconds after the value: history has to say when it was",
            "line 5: series of metric \"f\" skipped: label \"g\" of 6001 bytes, more than 5120",
            "line 7: expected a line of at most 1048576 bytes",
        ];
        assert_eq!((bad, count), (expected.map(str::to_owned).to_vec(), 5));
    }

    #[test]
    fn a_bad_row_of_a_table_costs_itself() {
        use polars::prelude::{Column, DataFrame};
        let long = format!("{{\"x\": \"{}\"}}", "y".repeat(6000));
        let rows = [
            ("a", "{}"),
            ("b", long.as_str()),
            ("foreign", long.as_str()),
            ("c", "{"),
            ("", "{}"),
            ("d", "{\"\": \"1\"}"),
            ("e", "{}"),
        ];
        let columns = vec![
            Column::new("metric".into(), rows.map(|(metric, _)| metric).to_vec()),
            Column::new("labels".into(), rows.map(|(_, labels)| labels).to_vec()),
            Column::new("timestamp".into(), (1..=rows.len() as i64).collect::<Vec<_>>()),
            Column::new("value".into(), vec![1.0; rows.len()]),
        ];
        let frame = DataFrame::new(rows.len(), columns).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        goodput_store::parquet::Table::create(&path, &frame).unwrap().finish().unwrap();
        let (batches, mut arriving) = tokio::sync::mpsc::channel(100);
        let source = Source::open(&path).unwrap();
        let bad = read(source, &rules(), &ProgressBar::hidden(), &batches).unwrap();
        drop(batches);
        let mut metrics = Vec::new();
        while let Some(batch) = arriving.blocking_recv() {
            metrics.extend(batch.series().map(|series| series.labels.metric().to_owned()).collect::<Vec<_>>());
        }
        assert_eq!(metrics, ["a", "", "e"]);
        assert_eq!(bad.count, 4, "{bad:?}");
        assert!(
            bad.first[0].starts_with("row 2: series of metric \"b\" skipped: label \"x\" of 6001 bytes"),
            "{bad:?}"
        );
        assert!(bad.first[1].starts_with("row 4: labels: expected a JSON object of texts"), "{bad:?}");
    }

    #[test]
    fn a_file_that_is_cut_gives_what_it_has_and_says_so() {
        let cases = [
            ("a 1 1\na 1 2\n", 2, "line 3: expected # EOF at the end"),
            ("a 1 1\na 1 17", 1, "line 2: expected a line feed"),
        ];
        for (text, samples, expected) in cases {
            let (read, bad, _) = read_text(text.as_bytes());
            assert!(read.len() == samples && bad[0].starts_with(expected), "{read:?} {bad:?}");
        }
        let many = "bad\n".repeat(100) + "# EOF\n";
        let (read, bad, count) = read_text(many.as_bytes());
        assert_eq!((read.len(), bad.len(), count), (0, SHOWN, 100));
    }
}
