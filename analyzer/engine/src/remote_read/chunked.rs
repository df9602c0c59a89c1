//! Gathers the frames of a streamed answer into series. Chunks stay compressed until their samples are asked for.

use std::collections::HashMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};

use super::Answer;
use super::messages::{Chunk, ChunkedReadResponse};
use crate::order::in_order;
use crate::{DecodeError, xor};

/// Encodings of native histograms: of integers, of floats.
const HISTOGRAMS: [i32; 2] = [2, 3];

/// The series of a streamed answer, compressed.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    series: Vec<PackedSeries>,
    /// Where each series is. A series goes on in the next frame when one frame cannot hold it.
    places: HashMap<Labels, usize>,
    /// Samples of all chunks, by their heads.
    samples: u64,
    histograms: u64,
}

/// A series whose samples are compressed.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedSeries {
    /// Who.
    pub labels: Labels,
    /// XOR chunks, in the order in which they came.
    chunks: Vec<Vec<u8>>,
}

impl Gathered {
    /// Adds the series of a frame; those that were there before go on.
    ///
    /// # Errors
    ///
    /// The frame answers another query than the first, a label is there twice, or a chunk has another encoding than XOR
    /// and native histograms.
    pub fn add(&mut self, frame: ChunkedReadResponse) -> Result<(), DecodeError> {
        if frame.query_index != 0 {
            let text = format!("frame for query {}; expected query 0, the only one", frame.query_index);
            return Err(DecodeError::Malformed(text));
        }
        for series in frame.chunked_series {
            let place = self.place(super::labels(&series.labels)?);
            for chunk in series.chunks {
                self.add_chunk(place, chunk)?;
            }
        }
        Ok(())
    }

    /// Number of the series with these labels.
    fn place(&mut self, labels: Labels) -> usize {
        if let Some(last) = self.series.last()
            && last.labels == labels
        {
            return self.series.len() - 1;
        }
        *self.places.entry(labels).or_insert_with_key(|labels| {
            self.series.push(PackedSeries { labels: labels.clone(), chunks: Vec::new() });
            self.series.len() - 1
        })
    }

    fn add_chunk(&mut self, place: usize, chunk: Chunk) -> Result<(), DecodeError> {
        match chunk.encoding {
            xor::ENCODING => {
                self.samples += samples_of(&chunk.data)?;
                self.series[place].chunks.push(chunk.data);
            }
            encoding if HISTOGRAMS.contains(&encoding) => self.histograms += samples_of(&chunk.data)?,
            encoding => return Err(DecodeError::UnknownEncoding(encoding)),
        }
        Ok(())
    }

    /// How many samples there are, compressed.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Series without their samples, and the number of samples of native histograms that were skipped.
    #[must_use]
    pub fn into_packed(self) -> (Vec<PackedSeries>, u64) {
        (self.series, self.histograms)
    }

    /// All series with a sample in this range, which does not include its end.
    ///
    /// # Errors
    ///
    /// A chunk is malformed or broken off.
    pub fn into_answer(self, range: &Range<TimeMs>) -> Result<Answer, DecodeError> {
        let mut series = Vec::with_capacity(self.series.len());
        for packed in self.series {
            let samples = packed.samples(range)?;
            if !samples.is_empty() {
                series.push(Series { labels: packed.labels, samples });
            }
        }
        Ok(Answer { series, histograms: self.histograms })
    }
}

impl PackedSeries {
    /// The samples of this range, which does not include its end, in order of time. Where chunks have samples of the same
    /// time, the first one is taken.
    ///
    /// # Errors
    ///
    /// A chunk is malformed or broken off.
    pub fn samples(&self, range: &Range<TimeMs>) -> Result<Vec<Sample>, DecodeError> {
        let mut samples = Vec::new();
        for chunk in &self.chunks {
            xor::decode(chunk, |sample| {
                if range.contains(&sample.time_ms) {
                    samples.push(sample);
                }
            })?;
        }
        in_order(&mut samples);
        Ok(samples)
    }

    /// Bytes of the compressed chunks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

/// Number of samples in a chunk: every encoding begins with it.
fn samples_of(chunk: &[u8]) -> Result<u64, DecodeError> {
    let count = chunk.first_chunk().map(|count| u64::from(u16::from_be_bytes(*count)));
    let text = || format!("chunk of {} bytes; expected 2 bytes with its number of samples", chunk.len());
    count.ok_or_else(|| DecodeError::BrokenOff(text()))
}

#[cfg(test)]
mod tests;
