//! From a request's body to a batch. Pure.
//!
//! Messages are walked and not decoded as a whole, so that the limits hold before memory is taken: an empty series is
//! two bytes on the wire and many times that as a struct. Labels are borrowed from the body until they are in the batch.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::super::Limits;
use super::{DecodeError, Message};
use crate::sample::{Batch, Sample};

/// What a request brings.
#[derive(Debug, Default, PartialEq)]
pub struct Decoded {
    /// Its series with samples.
    pub batch: Batch,
    /// What is passed over, for nothing here uses it.
    pub passed_over: PassedOver,
}

/// Parts of requests that are counted and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Native histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Metadata: type, help and unit of a family (1.0) or series (2.0).
    pub metadata: u64,
}

/// Decodes a request body. A series may occur several times in one request, as Prometheus sends it when it catches up.
pub fn decode(body: &[u8], message: Message, limits: &Limits) -> Result<Decoded, DecodeError> {
    within("compressed", body.len(), limits.body_bytes)?;
    decompressed_len(body, limits)?;
    let request = snap::raw::Decoder::new().decompress_vec(body).map_err(snappy)?;
    match message {
        Message::V1 => version_1(&request, limits),
        Message::V2 => version_2(&request, limits),
    }
}

/// How large the body will be, by its own header; an error when that is more than the limit.
pub(super) fn decompressed_len(body: &[u8], limits: &Limits) -> Result<usize, DecodeError> {
    let length = snap::raw::decompress_len(body).map_err(snappy)?;
    within("decompressed", length, limits.decompressed_bytes)?;
    Ok(length)
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<(), DecodeError> {
    if bytes > limit { Err(DecodeError::TooLarge { what, bytes, limit }) } else { Ok(()) }
}

fn snappy(error: snap::Error) -> DecodeError {
    DecodeError::Snappy(error.to_string())
}

/// `prometheus.WriteRequest`: 1 timeseries, 3 metadata. A series: 1 labels, 2 samples, 3 exemplars, 4 histograms.
/// A label: 1 name, 2 value.
fn version_1(request: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let wrong = |reason: String| DecodeError::Protobuf(Message::V1.name(), reason);
    let mut decoder = Decoder::new(Message::V1, limits);
    let mut labels = Vec::new();
    for field in Fields(request) {
        match field.map_err(wrong)? {
            (1, Field::Bytes(series)) => {
                labels.clear();
                decoder.begin();
                for field in Fields(series) {
                    match field.map_err(wrong)? {
                        (1, Field::Bytes(label)) => {
                            let label = label_1(label).map_err(wrong)?;
                            decoder.label(&mut labels, label)?;
                        }
                        (2, Field::Bytes(point)) => decoder.sample(point)?,
                        (3, Field::Bytes(_)) => decoder.decoded.passed_over.exemplars += 1,
                        (4, Field::Bytes(_)) => decoder.decoded.passed_over.histograms += 1,
                        _ => {}
                    }
                }
                decoder.end(&mut labels)?;
            }
            (3, Field::Bytes(_)) => decoder.decoded.passed_over.metadata += 1,
            _ => {}
        }
    }
    Ok(decoder.decoded)
}

fn label_1(label: &[u8]) -> Result<(&str, &str), String> {
    let (mut name, mut value) = ("", "");
    for field in Fields(label) {
        match field? {
            (1, Field::Bytes(bytes)) => name = text("label name", bytes)?,
            (2, Field::Bytes(bytes)) => value = text("label value", bytes)?,
            _ => {}
        }
    }
    Ok((name, value))
}

/// `io.prometheus.write.v2.Request`: 4 symbols, 5 timeseries. A series: 1 references to the symbols of its labels,
/// 2 samples, 3 histograms, 4 exemplars, 5 metadata, 6 time of creation in the earlier drafts. Fields may come in any
/// order, so the symbols are collected first.
fn version_2(request: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let wrong = |reason: String| DecodeError::Protobuf(Message::V2.name(), reason);
    let symbols = symbols(request, limits).map_err(wrong)?;
    let mut decoder = Decoder::new(Message::V2, limits);
    let mut labels = Vec::new();
    for field in Fields(request) {
        let (5, Field::Bytes(series)) = field.map_err(wrong)? else { continue };
        labels.clear();
        decoder.begin();
        let mut name = None;
        for field in Fields(series) {
            match field.map_err(wrong)? {
                // Packed, as every encoder writes it, or one by one, as every decoder has to take it.
                (1, Field::Bytes(mut references)) => {
                    while !references.is_empty() {
                        let reference = varint(&mut references).map_err(wrong)?;
                        decoder.reference(&symbols, reference, &mut name, &mut labels)?;
                    }
                }
                (1, Field::Varint(reference)) => decoder.reference(&symbols, reference, &mut name, &mut labels)?,
                (2, Field::Bytes(point)) => decoder.sample(point)?,
                (3, Field::Bytes(_)) => decoder.decoded.passed_over.histograms += 1,
                (4, Field::Bytes(_)) => decoder.decoded.passed_over.exemplars += 1,
                (5, Field::Bytes(_)) => decoder.decoded.passed_over.metadata += 1,
                _ => {}
            }
        }
        if let Some(name) = name {
            return Err(
                decoder.refused(&labels, format!("label {name} has no value: the references are odd in number"))
            );
        }
        decoder.end(&mut labels)?;
    }
    Ok(decoder.decoded)
}

fn symbols<'a>(request: &'a [u8], limits: &Limits) -> Result<Vec<&'a str>, String> {
    let mut symbols = Vec::new();
    for field in Fields(request) {
        let (4, Field::Bytes(symbol)) = field? else { continue };
        let symbol = text("symbol", symbol)?;
        if symbols.is_empty() && !symbol.is_empty() {
            return Err(format!("the first symbol is {symbol:?}, expected the empty string"));
        }
        if symbols.len() >= limits.symbols {
            return Err(format!("more than {} symbols", limits.symbols));
        }
        symbols.push(symbol);
    }
    Ok(symbols)
}

/// The part of a request that both versions share.
struct Decoder<'a> {
    message: Message,
    limits: &'a Limits,
    decoded: Decoded,
    /// Series begun.
    series: usize,
    /// Samples taken.
    taken: usize,
    /// The labels of the series come in order of name so far.
    sorted: bool,
}

impl<'a> Decoder<'a> {
    fn new(message: Message, limits: &'a Limits) -> Self {
        Self { message, limits, decoded: Decoded::default(), series: 0, taken: 0, sorted: true }
    }

    fn begin(&mut self) {
        self.series += 1;
        self.sorted = true;
    }

    fn reference<'s>(
        &mut self,
        symbols: &[&'s str],
        reference: u64,
        name: &mut Option<&'s str>,
        labels: &mut Vec<(&'s str, &'s str)>,
    ) -> Result<(), DecodeError> {
        let symbol = usize::try_from(reference)
            .ok()
            .and_then(|place| symbols.get(place))
            .ok_or_else(|| self.refused(labels, format!("reference to symbol {reference} of {}", symbols.len())))?;
        match name.take() {
            None => *name = Some(symbol),
            Some(name) => self.label(labels, (name, symbol))?,
        }
        Ok(())
    }

    fn label<'s>(
        &mut self,
        labels: &mut Vec<(&'s str, &'s str)>,
        label: (&'s str, &'s str),
    ) -> Result<(), DecodeError> {
        let Limits { labels: count, label_bytes, .. } = *self.limits;
        let (name, value) = label;
        let bytes = name.len() + value.len();
        if labels.len() >= count {
            return Err(self.refused(labels, format!("more than {count} labels")));
        }
        if name.is_empty() {
            return Err(self.refused(labels, format!("label {} has no name", labels.len() + 1)));
        }
        if bytes > label_bytes {
            let start: String = name.chars().take(64).collect();
            return Err(self.refused(labels, format!("label {start} of {bytes} bytes, more than {label_bytes}")));
        }
        // Senders sort them, and then the last one tells.
        self.sorted &= labels.last().is_none_or(|(last, _)| *last < name);
        if !self.sorted && labels.iter().any(|(other, _)| *other == name) {
            return Err(self.refused(labels, format!("label {name} is there twice")));
        }
        labels.push(label);
        Ok(())
    }

    /// A sample: 1 value, 2 time, 3 the time at which the counter began in version 2, which its values tell as well.
    fn sample(&mut self, point: &[u8]) -> Result<(), DecodeError> {
        let mut sample = Sample { time_ms: 0, value: 0.0 };
        for field in Fields(point) {
            match field.map_err(|reason| DecodeError::Protobuf(self.message.name(), reason))? {
                (1, Field::Fixed(bits)) => sample.value = f64::from_bits(bits),
                (2, Field::Varint(time)) => sample.time_ms = time.cast_signed(),
                _ => {}
            }
        }
        if self.taken >= self.limits.samples {
            return Err(DecodeError::Samples(self.limits.samples));
        }
        self.taken += 1;
        self.decoded.batch.add(sample);
        Ok(())
    }

    fn end(&mut self, labels: &mut [(&str, &str)]) -> Result<(), DecodeError> {
        if metric(labels).is_empty() {
            return Err(self.refused(labels, "it has no __name__ label".to_owned()));
        }
        self.decoded.batch.end(labels);
        // A symbol is sent once and may be referred to by every series.
        within("expanded", self.decoded.batch.label_bytes(), self.limits.decompressed_bytes)
    }

    fn refused(&self, labels: &[(&str, &str)], reason: String) -> DecodeError {
        DecodeError::Series { series: self.series, metric: metric(labels).to_owned(), reason }
    }
}

fn metric<'a>(labels: &[(&'a str, &'a str)]) -> &'a str {
    labels.iter().find(|(name, _)| *name == "__name__").map_or("", |(_, value)| value)
}

/// The value of a field, as far as these messages have it.
enum Field<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message, with their numbers. Nothing is to be asked of it after an error.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.field())
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u32, Field<'a>), String> {
        let (number, wire_type) = decode_key(&mut self.0).map_err(|error| error.to_string())?;
        let field = match wire_type {
            WireType::Varint => Field::Varint(varint(&mut self.0)?),
            WireType::SixtyFourBit => {
                let (bits, rest) = self.0.split_first_chunk().ok_or_else(|| format!("field {number} is cut short"))?;
                self.0 = rest;
                Field::Fixed(u64::from_le_bytes(*bits))
            }
            WireType::LengthDelimited => {
                let length = varint(&mut self.0)?;
                let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
                let (content, rest) = split.ok_or_else(|| format!("field {number} of {length} bytes is cut short"))?;
                self.0 = rest;
                Field::Bytes(content)
            }
            other => {
                skip_field(other, number, &mut self.0, DecodeContext::default()).map_err(|error| error.to_string())?;
                Field::Other
            }
        };
        Ok((number, field))
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    decode_varint(bytes).map_err(|error| error.to_string())
}

fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, String> {
    std::str::from_utf8(bytes)
        .map_err(|_| format!("{what} {:?} is not UTF-8", String::from_utf8_lossy(&bytes[..bytes.len().min(64)])))
}
