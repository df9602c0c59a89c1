//! Samples, one a row: `metric`, `labels` (a JSON object), `timestamp`, `value`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use polars::prelude::{
    Column, DataFrame, DataType, ParallelStrategy, ParquetReader, PolarsResult, SerReader, StringChunked, TimeUnit,
};

use super::{ParquetError, bad, times};
use goodput_exposition::sample::{Batch, Labels, Sample, Series};

/// Rows of a row group.
const GROUP_ROWS: usize = 64 * 1024;
/// Rows that are read at once: about 100 MiB.
const READ_ROWS: usize = 1 << 20;

/// The rows of these series in the form of the file, in pieces of a row group each.
pub fn sample_frames(series: &[Series]) -> impl Iterator<Item = PolarsResult<DataFrame>> {
    let texts: Vec<(&str, String)> =
        series.iter().map(|series| (series.labels.metric(), json(&series.labels))).collect();
    let rows = series.iter().enumerate().flat_map(|(place, series)| series.samples.iter().map(move |s| (place, *s)));
    let mut rows = rows.peekable();
    std::iter::from_fn(move || {
        rows.peek()?;
        let chunk: Vec<(usize, Sample)> = rows.by_ref().take(GROUP_ROWS).collect();
        Some(frame(&chunk, &texts))
    })
}

/// The columns of a file of samples, without rows.
pub fn no_samples() -> PolarsResult<DataFrame> {
    frame(&[], &[])
}

fn frame(rows: &[(usize, Sample)], texts: &[(&str, String)]) -> PolarsResult<DataFrame> {
    let metrics: Vec<&str> = rows.iter().map(|(place, _)| texts[*place].0).collect();
    let labels: Vec<&str> = rows.iter().map(|(place, _)| texts[*place].1.as_str()).collect();
    let values: Vec<f64> = rows.iter().map(|(_, sample)| sample.value).collect();
    let columns = vec![
        Column::new("metric".into(), metrics),
        Column::new("labels".into(), labels),
        times("timestamp", rows.iter().map(|(_, sample)| sample.time_ms).collect())?,
        Column::new("value".into(), values),
    ];
    DataFrame::new(rows.len(), columns)
}

/// The labels but the name.
fn json(labels: &Labels) -> String {
    let pairs: BTreeMap<&str, &str> = labels.iter().filter(|(name, _)| *name != "__name__").collect();
    serde_json::json!(pairs).to_string()
}

/// Reads a file piece by piece; `taken` gets each piece, and which part of the file has been read with it (0 to 1), and says
/// whether to go on. `admitted` gives the labels to store a series by, or why it is left out. Rows that cannot be read, and those of series that are not admitted, go to `bad_row` with their number.
pub fn read_samples(
    path: &Path,
    admitted: &dyn Fn(Labels) -> Result<Labels, String>,
    bad_row: &mut dyn FnMut(usize, &str),
    mut taken: impl FnMut(Batch, f64) -> bool,
) -> Result<(), ParquetError> {
    let open = || File::open(path).map_err(|error| ParquetError::Io { path: path.to_owned(), error });
    let content = |reason: String| ParquetError::Content { path: path.to_owned(), reason };
    let mut reader = ParquetReader::new(open()?);
    let schema = reader.schema().map_err(|error| bad(path, &error))?;
    for (column, _) in COLUMNS {
        if !schema.contains(column) {
            let found: Vec<&str> = schema.iter_names().map(|name| name.as_str()).collect();
            return Err(content(format!("expected a column {column}; the file has {}", found.join(", "))));
        }
    }
    let rows = reader.num_rows().map_err(|error| bad(path, &error))?;
    for first in (0..rows).step_by(READ_ROWS) {
        let frame = ParquetReader::new(open()?)
            .with_columns(Some(COLUMNS.map(|(column, _)| column.to_owned()).to_vec()))
            .with_slice(Some((first, READ_ROWS)))
            .read_parallel(ParallelStrategy::None)
            .finish()
            .map_err(|error| bad(path, &error))?;
        let batch = batch(&frame, first, admitted, bad_row).map_err(content)?;
        if !taken(batch, (first + frame.height()) as f64 / rows as f64) {
            break;
        }
    }
    Ok(())
}

/// Every column and what it holds.
const COLUMNS: [(&str, &str); 4] = [
    ("metric", "text"),
    ("labels", "text, a JSON object"),
    ("timestamp", "timestamps, or whole milliseconds since 1970"),
    ("value", "64-bit floats"),
];

fn batch(
    frame: &DataFrame,
    first: usize,
    admitted: &dyn Fn(Labels) -> Result<Labels, String>,
    bad_row: &mut dyn FnMut(usize, &str),
) -> Result<Batch, String> {
    let (metrics, labels) = (texts(frame, "metric")?, texts(frame, "labels")?);
    let timestamps = milliseconds(frame)?;
    let values = column(frame, "value")?;
    let values = values.f64().map_err(|_| expected("value", values))?;
    // Where the samples of a series are, or what is wrong with it.
    let mut places: HashMap<(&str, &str), Result<usize, String>> = HashMap::new();
    let mut series: Vec<Series> = Vec::new();
    let rows =
        metrics.iter().zip(labels.iter()).zip(timestamps.i64().map_err(|e| e.to_string())?.iter().zip(values.iter()));
    for (row, ((metric, labels), (time_ms, value))) in (first + 1..).zip(rows) {
        let (Some(metric), Some(labels), Some(time_ms), Some(value)) = (metric, labels, time_ms, value) else {
            bad_row(row, &format!("expected a value in each of {}", COLUMNS.map(|(c, _)| c).join(", ")));
            continue;
        };
        let place = places.entry((metric, labels)).or_insert_with(|| {
            let labels = admitted(series_labels(metric, labels)?)?;
            series.push(Series { labels, samples: Vec::new() });
            Ok(series.len() - 1)
        });
        match place {
            Ok(place) => series[*place].samples.push(Sample { time_ms, value }),
            Err(reason) => bad_row(row, reason),
        }
    }
    Ok(series.into_iter().collect())
}

fn series_labels(metric: &str, labels: &str) -> Result<Labels, String> {
    let pairs: BTreeMap<String, String> = serde_json::from_str(labels)
        .map_err(|error| format!("labels: expected a JSON object of texts, found {:?}: {error}", shown(labels)))?;
    if metric.is_empty() {
        return Err("metric: expected a name, found an empty text".to_owned());
    }
    let name = ("__name__".to_owned(), metric.to_owned());
    Ok(Labels::new(pairs.into_iter().filter(|(name, _)| name != "__name__").chain([name])))
}

/// The beginning of a text that may be long.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

fn column<'a>(frame: &'a DataFrame, name: &str) -> Result<&'a Column, String> {
    frame.column(name).map_err(|error| error.to_string())
}

fn texts<'a>(frame: &'a DataFrame, name: &str) -> Result<&'a StringChunked, String> {
    let column = column(frame, name)?;
    column.str().map_err(|_| expected(name, column))
}

fn milliseconds(frame: &DataFrame) -> Result<Column, String> {
    let column = column(frame, "timestamp")?;
    let in_ms = match column.dtype() {
        DataType::Int64 => Ok(column.clone()),
        DataType::Datetime(_, zone) => column
            .cast(&DataType::Datetime(TimeUnit::Milliseconds, zone.clone()))
            .and_then(|column| column.cast(&DataType::Int64)),
        _ => return Err(expected("timestamp", column)),
    };
    in_ms.map_err(|error| error.to_string())
}

fn expected(name: &str, column: &Column) -> String {
    let what = COLUMNS.iter().find(|(column, _)| *column == name).map_or("", |(_, what)| what);
    format!("expected a column {name} of {what}, found {}", column.dtype())
}
