//! A receiver of webhooks: Alertmanager's, and the analyzer's.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Answers every request and keeps its path and JSON body. Ends with the test's process.
pub struct Webhook {
    /// Where it listens.
    pub address: SocketAddr,
    received: Receiver<(String, Value)>,
}

impl Webhook {
    /// Starts listening; accepts everything.
    pub fn start() -> Result<Self> {
        Self::answering(&[])
    }

    /// Starts listening; gives these answers (the status line after the version, and further headers), then 200.
    pub fn answering(answers: &'static [&'static str]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, received) = channel();
        let answered = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (sender, answered) = (sender.clone(), Arc::clone(&answered));
                thread::spawn(move || serve(connection, &sender, || next(answers, &answered)));
            }
        });
        Ok(Self { address, received })
    }

    /// The next request, for which this waits.
    pub fn next(&self, limit: Duration) -> Result<(String, Value)> {
        self.received.recv_timeout(limit).with_context(|| format!("waited {limit:?} for a request"))
    }

    /// Has no request come that was not asked for yet?
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.received.try_recv().is_err()
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

fn next(answers: &'static [&'static str], answered: &AtomicUsize) -> &'static str {
    answers.get(answered.fetch_add(1, Ordering::SeqCst)).copied().unwrap_or("200 OK")
}

/// Answers the requests of one connection until it ends or stops making sense.
fn serve(connection: TcpStream, sender: &Sender<(String, Value)>, next: impl Fn() -> &'static str) {
    let Ok(mut answer) = connection.try_clone() else { return };
    let mut reader = BufReader::new(connection);
    while let Ok(request) = request(&mut reader) {
        let head = format!("HTTP/1.1 {}\r\ncontent-length: 0\r\n\r\n", next());
        if sender.send(request).is_err() || answer.write_all(head.as_bytes()).is_err() {
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
