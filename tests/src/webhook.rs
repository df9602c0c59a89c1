//! A receiver of Alertmanager's webhooks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Accepts every request and keeps its path and JSON body. Ends with the test's process.
pub struct Webhook {
    /// Where it listens.
    pub address: SocketAddr,
    received: Receiver<(String, Value)>,
}

impl Webhook {
    /// Starts listening.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, received) = channel();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                thread::spawn(move || serve(connection, &sender));
            }
        });
        Ok(Self { address, received })
    }

    /// Waits for an alert of this name and status; gives the path it came to and the alert.
    pub fn until(&self, name: &str, status: &str, limit: Duration) -> Result<(String, Value)> {
        let deadline = Instant::now() + limit;
        let mut others = Vec::new();
        while let Ok((path, body)) = self.received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            let alerts = body["alerts"].as_array().context("a notification without alerts")?;
            let wanted = alerts.iter().find(|a| a["labels"]["alertname"] == name && a["status"] == status);
            if let Some(alert) = wanted {
                return Ok((path, alert.clone()));
            }
            others.push(body);
        }
        bail!("waited {limit:?} for {name} to be {status}, got {others:?}")
    }
}

/// Answers the requests of one connection until it ends or stops making sense.
fn serve(connection: TcpStream, sender: &Sender<(String, Value)>) {
    let Ok(mut answer) = connection.try_clone() else { return };
    let mut reader = BufReader::new(connection);
    while let Ok(request) = request(&mut reader) {
        if sender.send(request).is_err() || answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Result<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).context("no path")?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((path, serde_json::from_slice(&body)?))
}
