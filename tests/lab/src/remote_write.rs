//! Prometheus' remote-write 1.0, as a sender speaks it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use prost::Message;

/// The body of a request.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// What is sent.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// One series.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Its labels in order of name, `__name__` included.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Its samples in order of time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

impl TimeSeries {
    /// A series with these labels, `__name__` among them, and samples: Unix milliseconds and value.
    pub fn new(labels: &[(&str, &str)], samples: impl IntoIterator<Item = (i64, f64)>) -> Self {
        let mut labels: Vec<Label> =
            labels.iter().map(|(name, value)| Label { name: (*name).to_owned(), value: (*value).to_owned() }).collect();
        labels.sort_by(|a, b| a.name.cmp(&b.name));
        let samples = samples.into_iter().map(|(timestamp, value)| Sample { value, timestamp }).collect();
        Self { labels, samples }
    }
}

/// A label.
#[derive(Clone, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value at a time.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// The value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Unix milliseconds.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

impl WriteRequest {
    /// The request's body: snappy's block format around the protobuf message.
    ///
    /// # Errors
    /// When it is too large for snappy.
    pub fn body(&self) -> io::Result<Vec<u8>> {
        snap::raw::Encoder::new().compress_vec(&self.encode_to_vec()).map_err(io::Error::other)
    }
}

/// Posts a body; gives the answer's status.
///
/// # Errors
/// When the receiver is gone.
pub fn post(address: SocketAddr, body: &[u8]) -> io::Result<u16> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "POST /api/v1/write HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no status line"))
}

/// Sends the series in one request; gives the answer's status.
///
/// # Errors
/// When the receiver is gone.
pub fn send(address: SocketAddr, timeseries: Vec<TimeSeries>) -> io::Result<u16> {
    post(address, &WriteRequest { timeseries }.body()?)
}
