//! What an exporter serves, as text, and single series of it; and a target that serves the same page to everyone.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use goodput_catalog::own::COLLECTOR_STATE;

/// Serves this page to every request. Ends with the test's process.
///
/// # Errors
/// When there is no free port.
pub fn serve(page: &'static str) -> io::Result<SocketAddr> {
    serve_at(SocketAddr::from(([127, 0, 0, 1], 0)), page)
}

/// Serves it at this address; with port 0 at a free port.
///
/// # Errors
/// When the port is taken.
pub fn serve_at(address: SocketAddr, page: &'static str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let Ok(reader) = connection.try_clone() else { continue };
            let mut request = BufReader::new(reader).lines().map_while(Result::ok);
            while request.next().is_some_and(|line| !line.is_empty()) {}
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
            // The scraper may have gone.
            let _ = write!(connection, "{head}content-length: {}\r\n\r\n{page}", page.len());
        }
    });
    Ok(address)
}

/// One scrape.
pub struct Scrape(pub String);

impl Scrape {
    /// The lines of that name that have all of the label pairs.
    #[must_use]
    pub fn series(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&str> {
        let pairs: Vec<_> = labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
        let is = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        self.0.lines().filter(is).filter(|line| pairs.iter().all(|pair| line.contains(pair))).collect()
    }

    /// Value of the only series of that name that has all of the label pairs.
    ///
    /// # Panics
    /// Panics when there are several.
    #[must_use]
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let series = self.series(name, labels);
        assert!(series.len() < 2, "{name} {labels:?} is more than one series: {series:?}");
        series.first()?.rsplit(' ').next()?.parse().ok()
    }

    /// Number of series of that name with all of the label pairs.
    #[must_use]
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.series(name, labels).len()
    }

    /// Collectors that ended in this state.
    #[must_use]
    pub fn collectors(&self, state: &str) -> Vec<String> {
        let ended = self.series(COLLECTOR_STATE.name, &[("state", state)]);
        let ended = ended.iter().filter(|line| line.ends_with(" 1"));
        ended.filter_map(|line| Some(line.split("collector=\"").nth(1)?.split('"').next()?.to_owned())).collect()
    }

    /// Every series, without values.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let samples = self.0.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect()
    }
}
