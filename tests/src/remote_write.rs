//! A sender of Prometheus remote write 1.0.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

/// One series with its samples.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
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

/// Sends them in one request. The answer's status; an error when the receiver is gone.
pub fn send(address: SocketAddr, timeseries: Vec<TimeSeries>) -> io::Result<u16> {
    let request = WriteRequest { timeseries }.encode_to_vec();
    let body = snap::raw::Encoder::new().compress_vec(&request).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "POST /api/v1/write HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("no status line"))
}
