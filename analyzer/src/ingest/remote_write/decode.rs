//! From a request's body to a batch. Pure.
//!
//! Messages are walked and not decoded as a whole, so that the limits hold before memory is taken: an empty series is
//! two bytes on the wire and many times that as a struct. Labels are borrowed from the body until they are in the batch.

use goodput_exposition::{Fault, Reason, excerpt};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::super::Limits;
use super::super::skipped::{Rules, Skipped};
use super::{DecodeError, Message};
use goodput_exposition::sample::{Batch, Sample};

/// What a request brings.
#[derive(Debug, Default, PartialEq)]
pub struct Decoded {
    /// Its series with samples.
    pub batch: Batch,
    /// Series that break the data model or a limit. Those of metrics that the store does not keep are in the batch without
    /// their labels, to be counted.
    pub skipped: Skipped,
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
pub fn decode(body: &[u8], message: Message, rules: &Rules<'_>) -> Result<Decoded, DecodeError> {
    within("compressed", body.len(), rules.limits.body_bytes)?;
    decompressed_len(body, rules.limits)?;
    let request = snap::raw::Decoder::new().decompress_vec(body).map_err(snappy)?;
    match message {
        Message::V1 => version_1(&request, rules),
        Message::V2 => version_2(&request, rules),
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
fn version_1(request: &[u8], rules: &Rules<'_>) -> Result<Decoded, DecodeError> {
    let wrong = |reason: String| DecodeError::Protobuf(Message::V1.name(), reason);
    let mut decoder = Decoder::new(Message::V1, rules);
    let mut labels = Vec::new();
    let (mut own, mut foreign) = (false, false);
    for field in Fields(request) {
        match field.map_err(wrong)? {
            (1, Field::Bytes(series)) => {
                own = true;
                labels.clear();
                decoder.begin();
                for field in Fields(series) {
                    match field.map_err(wrong)? {
                        (1, Field::Bytes(label)) => {
                            let (name, value) = label_1(label).map_err(wrong)?;
                            match (str::from_utf8(name), str::from_utf8(value)) {
                                (Ok(name), Ok(value)) => decoder.label(&mut labels, (name, value)),
                                _ => decoder.not_utf8(&labels, name, value),
                            }
                        }
                        (2, Field::Bytes(point)) => decoder.sample(point)?,
                        (3, Field::Bytes(_)) => decoder.decoded.passed_over.exemplars += 1,
                        (4, Field::Bytes(_)) => decoder.decoded.passed_over.histograms += 1,
                        _ => {}
                    }
                }
                decoder.end(&mut labels)?;
            }
            (3, Field::Bytes(_)) => {
                own = true;
                decoder.decoded.passed_over.metadata += 1;
            }
            (4 | 5, Field::Bytes(_)) => foreign = true,
            _ => {}
        }
    }
    decoder.finish(own, foreign, Message::V2)
}

fn label_1(label: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let (mut name, mut value) = ([].as_slice(), [].as_slice());
    for field in Fields(label) {
        match field? {
            (1, Field::Bytes(bytes)) => name = bytes,
            (2, Field::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((name, value))
}

/// `io.prometheus.write.v2.Request`: 4 symbols, 5 timeseries. A series: 1 references to the symbols of its labels,
/// 2 samples, 3 histograms, 4 exemplars, 5 metadata, 6 time of creation in the earlier drafts. Fields may come in any
/// order, so the symbols are collected first.
fn version_2(request: &[u8], rules: &Rules<'_>) -> Result<Decoded, DecodeError> {
    let wrong = |reason: String| DecodeError::Protobuf(Message::V2.name(), reason);
    let symbols = symbols(request, rules.limits).map_err(wrong)?;
    let mut decoder = Decoder::new(Message::V2, rules);
    let mut labels = Vec::new();
    let (mut own, mut foreign) = (!symbols.is_empty(), false);
    for field in Fields(request) {
        let series = match field.map_err(wrong)? {
            (5, Field::Bytes(series)) => series,
            (1 | 3, Field::Bytes(_)) => {
                foreign = true;
                continue;
            }
            _ => continue,
        };
        own = true;
        labels.clear();
        decoder.begin();
        let mut name = None;
        for field in Fields(series) {
            match field.map_err(wrong)? {
                // Packed, as every encoder writes it, or one by one, as every decoder has to take it.
                (1, Field::Bytes(mut references)) => {
                    while !references.is_empty() {
                        let reference = varint(&mut references).map_err(wrong)?;
                        decoder.reference(&symbols, reference, &mut name, &mut labels);
                    }
                }
                (1, Field::Varint(reference)) => decoder.reference(&symbols, reference, &mut name, &mut labels),
                (2, Field::Bytes(point)) => decoder.sample(point)?,
                (3, Field::Bytes(_)) => decoder.decoded.passed_over.histograms += 1,
                (4, Field::Bytes(_)) => decoder.decoded.passed_over.exemplars += 1,
                (5, Field::Bytes(_)) => decoder.decoded.passed_over.metadata += 1,
                _ => {}
            }
        }
        if let Some(name) = name {
            let detail = format!("label {:?} has no value: the references are odd in number", excerpt(name));
            decoder.broken(&labels, Fault { reason: Reason::Symbol, detail, bytes: 0 });
        }
        decoder.end(&mut labels)?;
    }
    decoder.finish(own, foreign, Message::V1)
}

/// The symbols; none in the place of one that is not UTF-8, which costs the series that refer to it.
fn symbols<'a>(request: &'a [u8], limits: &Limits) -> Result<Vec<Option<&'a str>>, String> {
    let mut symbols = Vec::new();
    for field in Fields(request) {
        let (4, Field::Bytes(symbol)) = field? else { continue };
        if symbols.len() >= limits.symbols {
            return Err(format!("more than {} symbols", limits.symbols));
        }
        symbols.push(str::from_utf8(symbol).ok());
    }
    Ok(symbols)
}

/// The part of a request that both versions share.
struct Decoder<'a> {
    message: Message,
    rules: &'a Rules<'a>,
    decoded: Decoded,
    /// Samples taken.
    taken: usize,
    /// The labels of the series come in order of name so far.
    sorted: bool,
    /// Labels that the series may have; 0 once it has a fault, so that each further label comes to `after_fault`.
    most_labels: usize,
    /// What is wrong with the series.
    fault: Option<Fault>,
    /// The metric name, where it came after the fault.
    late_metric: Option<&'a str>,
}

impl<'a> Decoder<'a> {
    fn new(message: Message, rules: &'a Rules<'a>) -> Self {
        let most_labels = rules.limits.labels;
        let (fault, late_metric) = (None, None);
        Self { message, rules, decoded: Decoded::default(), taken: 0, sorted: true, most_labels, fault, late_metric }
    }

    fn begin(&mut self) {
        self.sorted = true;
    }

    fn reference(
        &mut self,
        symbols: &[Option<&'a str>],
        reference: u64,
        name: &mut Option<&'a str>,
        labels: &mut Vec<(&'a str, &'a str)>,
    ) {
        let found = usize::try_from(reference).ok().and_then(|place| symbols.get(place));
        let symbol = found.copied().flatten().unwrap_or_else(|| {
            let fault = match found {
                Some(_) => {
                    let detail = format!("symbol {reference} is not UTF-8");
                    Fault { reason: Reason::InvalidUtf8, detail, bytes: 0 }
                }
                None => {
                    let detail = format!("reference to symbol {reference} of {}", symbols.len());
                    Fault { reason: Reason::Symbol, detail, bytes: 0 }
                }
            };
            self.broken(labels, fault);
            ""
        });
        match name.take() {
            None => *name = Some(symbol),
            Some(name) => self.label(labels, (name, symbol)),
        }
    }

    fn label(&mut self, labels: &mut Vec<(&'a str, &'a str)>, label: (&'a str, &'a str)) {
        let (name, value) = label;
        let bytes = name.len() + value.len();
        if labels.len() >= self.most_labels || name.is_empty() || bytes > self.rules.limits.label_bytes {
            return self.bad_label(labels, label);
        }
        // Senders sort them, and then the last one tells.
        self.sorted &= labels.last().is_none_or(|(last, _)| *last < name);
        if !self.sorted && labels.iter().any(|(other, _)| *other == name) {
            return self.broken(labels, Fault::twice(name));
        }
        labels.push(label);
    }

    /// A label that breaks a limit, or any label after one.
    #[cold]
    fn bad_label(&mut self, labels: &[(&'a str, &'a str)], (name, value): (&'a str, &'a str)) {
        let Limits { labels: count, label_bytes, .. } = *self.rules.limits;
        if name == METRIC {
            self.late_metric = Some(value);
        }
        if let Some(fault) = &mut self.fault {
            fault.bytes += name.len() + value.len();
        } else if labels.len() >= count {
            self.broken(labels, Fault::many_labels(count));
        } else if name.is_empty() {
            self.broken(labels, Fault::nameless(labels.len() + 1));
        } else {
            self.broken(labels, Fault::long_label(name, value, label_bytes));
        }
    }

    #[cold]
    fn not_utf8(&mut self, labels: &[(&'a str, &'a str)], name: &[u8], value: &[u8]) {
        let shown = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
        let detail = format!("label {shown:?} is not UTF-8");
        self.broken(labels, Fault { reason: Reason::InvalidUtf8, detail, bytes: name.len() + value.len() });
    }

    /// Notes the first fault of a series. The rest of it is only measured.
    #[cold]
    fn broken(&mut self, labels: &[(&'a str, &'a str)], mut fault: Fault) {
        self.most_labels = 0;
        if self.fault.is_none() {
            fault.bytes += labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            self.fault = Some(fault);
        }
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
        if self.taken >= self.rules.limits.samples {
            return Err(DecodeError::Samples(self.rules.limits.samples));
        }
        self.taken += 1;
        self.decoded.batch.add(sample);
        Ok(())
    }

    fn end(&mut self, labels: &mut [(&'a str, &'a str)]) -> Result<(), DecodeError> {
        if self.fault.is_some() || metric(labels).is_empty() {
            self.skip(labels);
            return Ok(());
        }
        self.decoded.batch.end(labels);
        // A symbol is sent once and may be referred to by every series.
        within("expanded", self.decoded.batch.label_bytes(), self.rules.limits.decompressed_bytes)
    }

    /// Leaves the series out. One of a metric that the store does not keep loses its labels only: it counts as unknown.
    #[cold]
    fn skip(&mut self, labels: &[(&'a str, &'a str)]) {
        self.most_labels = self.rules.limits.labels;
        let metric = self.late_metric.take().unwrap_or_else(|| metric(labels));
        let fault = self.fault.take().unwrap_or_else(Fault::no_metric);
        if metric.is_empty() || (self.rules.keeps)(metric) {
            let samples = self.decoded.batch.drop_open();
            self.decoded.skipped.add(metric, fault, samples);
        } else {
            self.decoded.batch.end::<&str, &str>(&mut []);
            self.decoded.skipped.mention(metric, fault);
        }
    }

    /// The end of the message, in which fields of its own were found, or only those of the other one.
    fn finish(self, own: bool, foreign: bool, other: Message) -> Result<Decoded, DecodeError> {
        if own || !foreign { Ok(self.decoded) } else { Err(DecodeError::Other(self.message.name(), other.name())) }
    }
}

const METRIC: &str = "__name__";

fn metric<'a>(labels: &[(&'a str, &'a str)]) -> &'a str {
    labels.iter().find(|(name, _)| *name == METRIC).map_or("", |(_, value)| value)
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
