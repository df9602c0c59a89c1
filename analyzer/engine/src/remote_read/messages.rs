//! Messages of remote read, as far as they are used. Source: `prompb/remote.proto` and `prompb/types.proto` of Prometheus.

/// A request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadRequest {
    /// What is asked for. The answer has one result for each.
    #[prost(message, repeated, tag = "1")]
    pub queries: Vec<Query>,
    /// Which answers are understood; the server takes the first that it knows. None means samples.
    #[prost(enumeration = "ResponseType", repeated, tag = "2")]
    pub accepted_response_types: Vec<i32>,
}

/// Kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub enum ResponseType {
    /// One [`ReadResponse`], compressed by snappy.
    Samples = 0,
    /// Frames of [`ChunkedReadResponse`].
    StreamedXorChunks = 1,
}

/// Series by matchers, over a range of time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Query {
    /// First time, milliseconds since the Unix epoch, inclusive.
    #[prost(int64, tag = "1")]
    pub start_timestamp_ms: i64,
    /// Last time, milliseconds since the Unix epoch, inclusive.
    #[prost(int64, tag = "2")]
    pub end_timestamp_ms: i64,
    /// All of them hold for every series of the answer.
    #[prost(message, repeated, tag = "3")]
    pub matchers: Vec<LabelMatcher>,
}

/// How a matcher compares. A regular expression matches the whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub enum MatchType {
    /// `=`
    Equal = 0,
    /// `!=`
    NotEqual = 1,
    /// `=~`
    Matches = 2,
    /// `!~`
    MatchesNot = 3,
}

/// Condition for a label's value. A missing label has an empty value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LabelMatcher {
    /// How it compares.
    #[prost(enumeration = "MatchType", tag = "1")]
    pub kind: i32,
    /// The label's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// A value or a regular expression of RE2.
    #[prost(string, tag = "3")]
    pub value: String,
}

/// An answer of samples.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadResponse {
    /// One for each query.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<QueryResult>,
}

/// The answer to one query.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryResult {
    /// The series.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// One series.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TimeSeries {
    /// Who.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// What, when.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// Native histograms: they are only counted, so their fields are not read.
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub histograms: Vec<Vec<u8>>,
}

/// A label.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value at a time.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Sample {
    /// What.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// When, milliseconds since the Unix epoch.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// The message of one frame of a streamed answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChunkedReadResponse {
    /// Series, or parts of them.
    #[prost(message, repeated, tag = "1")]
    pub chunked_series: Vec<ChunkedSeries>,
    /// Number of the query that this answers, from 0.
    #[prost(int64, tag = "2")]
    pub query_index: i64,
}

/// A series, or a part of it: the next frame may go on with more chunks of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChunkedSeries {
    /// Who.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// What, when. Chunks may reach out of the range that was asked for.
    #[prost(message, repeated, tag = "2")]
    pub chunks: Vec<Chunk>,
}

/// A compressed chunk.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Chunk {
    /// Time of its first sample, milliseconds since the Unix epoch.
    #[prost(int64, tag = "1")]
    pub min_time_ms: i64,
    /// Time of its last sample, milliseconds since the Unix epoch.
    #[prost(int64, tag = "2")]
    pub max_time_ms: i64,
    /// Encoding: 0 unknown, 1 XOR, 2 histogram, 3 histogram of floats. Newer engines may write others.
    #[prost(int32, tag = "3")]
    pub encoding: i32,
    /// The bytes, in that encoding.
    #[prost(bytes = "vec", tag = "4")]
    pub data: Vec<u8>,
}
