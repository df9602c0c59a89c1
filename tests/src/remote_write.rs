//! A sender of Prometheus remote write 1.0.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::Result;
use prost::Message;

/// `prometheus.WriteRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// The series.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// `prometheus.TimeSeries`.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// In order of name, `__name__` among them.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// In order of time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// `prometheus.Label`.
#[derive(Clone, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `prometheus.Sample`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    /// Its value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

impl WriteRequest {
    /// The request's body.
    ///
    /// # Errors
    /// When it is too large for snappy, 4 GiB.
    pub fn body(&self) -> Result<Vec<u8>> {
        Ok(snap::raw::Encoder::new().compress_vec(&self.encode_to_vec())?)
    }
}

/// Posts a body; returns the answer's status.
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
