//! What a segment says of itself, so that the index can be made again from segments alone: key-value pairs of the
//! Parquet metadata.
//!
//! `goodput.about`: JSON of [`About`], the time range and the row groups. `goodput.series`: base64 of zstd of, per series
//! in order of id: the id as the difference from the one before, the number of bytes of its labels, its labels
//! ([`LabelsRef::key`](goodput_exposition::sample::LabelsRef::key)). Numbers are LEB128. `goodput.checksum`, the last of all: CRC-32
//! of the whole file as if its own eight hexadecimal digits were zeros.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polars::prelude::{FileMetadata, ParquetReader, SerReader as _};
use serde::{Deserialize, Serialize};

use super::{FORMAT, FORMAT_KEY, RowGroup, caught, format, said};
use crate::catalogue::SeriesId;
use crate::varint::{put, take};
use goodput_exposition::sample::{Labels, TimeMs};

const ABOUT_KEY: &str = "goodput.about";
const SERIES_KEY: &str = "goodput.series";
const CHECKSUM_KEY: &str = "goodput.checksum";

/// Digits of the checksum.
const DIGITS: usize = 8;

/// zstd's fastest level of the usual ones: labels are repetitive, and a flush holds up commits.
const LEVEL: i32 = 1;

/// Where a segment belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// The data directory that it was written in.
    pub(crate) directory: String,
    /// How often that directory had been opened by then.
    pub(crate) generation: i64,
    pub(crate) id: i64,
    pub(crate) seq: i64,
    /// A flush wrote it from the write-ahead rows after this one, up to `seq`; none for a merge.
    pub(crate) after: Option<i64>,
    /// A merge wrote it from these segments, and perhaps others from them too.
    pub(crate) inputs: Vec<i64>,
    /// The inputs, and all segments that these were merged from.
    pub(crate) replaces: Vec<i64>,
}

#[derive(Serialize, Deserialize)]
struct Text {
    #[serde(flatten)]
    about: About,
    first_ms: Option<TimeMs>,
    last_ms: Option<TimeMs>,
    groups: Vec<RowGroup>,
}

/// All that a segment says of itself.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) about: About,
    pub(crate) groups: Vec<RowGroup>,
    pub(crate) series: Vec<(SeriesId, Labels)>,
}

/// The pairs to write.
pub(super) fn pairs(
    about: &About,
    groups: &[RowGroup],
    series: impl Iterator<Item = (SeriesId, Labels)>,
) -> Result<Vec<(String, String)>, String> {
    let text = Text {
        about: about.clone(),
        first_ms: groups.iter().map(|group| group.first_ms).min(),
        last_ms: groups.iter().map(|group| group.last_ms).max(),
        groups: groups.to_vec(),
    };
    let pair = |key: &str, value: String| (key.to_owned(), value);
    Ok(vec![
        pair(FORMAT_KEY, FORMAT.to_owned()),
        pair(ABOUT_KEY, serde_json::to_string(&text).map_err(said)?),
        pair(SERIES_KEY, pack(series)?),
        pair(CHECKSUM_KEY, "0".repeat(DIGITS)),
    ])
}

fn pack(series: impl Iterator<Item = (SeriesId, Labels)>) -> Result<String, String> {
    let (mut plain, mut last) = (Vec::new(), 0);
    for (id, labels) in series {
        let key = labels.as_ref().key();
        put(&mut plain, u64::from(id.0 - last));
        put(&mut plain, key.len() as u64);
        plain.extend_from_slice(key.as_bytes());
        last = id.0;
    }
    Ok(STANDARD.encode(zstd::bulk::compress(&plain, LEVEL).map_err(said)?))
}

fn unpack(text: &str) -> Result<Vec<(SeriesId, Labels)>, String> {
    let packed = STANDARD.decode(text).map_err(said)?;
    let plain = zstd::stream::decode_all(packed.as_slice()).map_err(said)?;
    let (mut rest, mut last, mut series) = (plain.as_slice(), 0_u64, Vec::new());
    while !rest.is_empty() {
        last = last.saturating_add(take(&mut rest)?);
        let id = u32::try_from(last).map_err(|_| format!("series id {last} out of range"))?;
        let length = usize::try_from(take(&mut rest)?).map_err(said)?;
        let (key, after) = rest.split_at_checked(length).ok_or("cut short within labels")?;
        rest = after;
        let labels = std::str::from_utf8(key).ok().and_then(Labels::from_key);
        series
            .push((SeriesId(id), labels.ok_or_else(|| format!("labels of series {id} are not as they were packed"))?));
    }
    Ok(series)
}

/// Where the checksum's digits are.
fn digits(bytes: &[u8]) -> Result<std::ops::Range<usize>, String> {
    let key = CHECKSUM_KEY.as_bytes();
    let found = bytes.windows(key.len()).rposition(|window| window == key).ok_or("no checksum of its own")?;
    // The value follows its key, the tag of its field and its length.
    let start = found + key.len() + 2;
    let digits = start..start + DIGITS;
    if bytes.len() < digits.end { Err("cut short within its checksum".to_owned()) } else { Ok(digits) }
}

fn checksum(bytes: &[u8], digits: &std::ops::Range<usize>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..digits.start]);
    hasher.update(&[b'0'; DIGITS]);
    hasher.update(&bytes[digits.end..]);
    format!("{:08x}", hasher.finalize())
}

/// Puts the checksum into a file that has zeros in its place.
pub(super) fn sign(bytes: &mut [u8]) -> Result<(), String> {
    let digits = digits(bytes)?;
    let sum = checksum(bytes, &digits);
    bytes[digits].copy_from_slice(sum.as_bytes());
    Ok(())
}

/// What a file says of itself, if its bytes are those that were written. Needs no index.
pub(crate) fn describe(bytes: &[u8]) -> Result<Described, String> {
    caught(|| {
        let metadata = metadata(bytes)?;
        match format(&metadata) {
            Some(FORMAT) => {}
            Some("2") | None => return Err(format!("format {}, which does not name its series", shown(&metadata))),
            Some(other) => return Err(format!("format {other}, expected at most {FORMAT}")),
        }
        let digits = digits(bytes)?;
        let (found, written) = (checksum(bytes, &digits), String::from_utf8_lossy(&bytes[digits]).into_owned());
        if found != written {
            return Err(format!("checksum {found} of {} bytes, {written} was written", bytes.len()));
        }
        let text = text(&metadata)?;
        let series = unpack(value(&metadata, SERIES_KEY).ok_or("no series are named")?)?;
        Ok(Described { about: text.about, groups: text.groups, series })
    })
}

/// Is it a file of a format that does not name its series?
pub(crate) fn is_old(bytes: &[u8]) -> bool {
    caught(|| metadata(bytes)).is_ok_and(|metadata| matches!(format(&metadata), Some("2") | None))
}

/// Where the segment of these bytes belongs; none for formats that do not say it.
pub(crate) fn about(bytes: &[u8]) -> Option<About> {
    let read = || {
        let metadata = metadata(bytes)?;
        text(&metadata)
    };
    caught(read).ok().map(|text| text.about)
}

fn metadata(bytes: &[u8]) -> Result<std::sync::Arc<FileMetadata>, String> {
    ParquetReader::new(std::io::Cursor::new(bytes)).get_metadata().cloned().map_err(said)
}

fn shown(metadata: &FileMetadata) -> &str {
    format(metadata).unwrap_or("1")
}

fn text(metadata: &FileMetadata) -> Result<Text, String> {
    serde_json::from_str(value(metadata, ABOUT_KEY).ok_or("no description")?).map_err(said)
}

fn value<'a>(metadata: &'a FileMetadata, key: &str) -> Option<&'a str> {
    super::value(metadata, key)
}
