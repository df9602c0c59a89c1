//! Values that flags and settings share.

use std::time::Duration;

use goodput_settings::Kind;
use goodput_settings::kind::Period;

use crate::ingest::job::is_host_port;

/// A positive duration such as `15s`, `500ms` or `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    Period::read(text).ok_or(Period::EXPECTED)
}

/// `HOST:PORT`, and nothing else that a URL may have there.
pub(crate) fn host_port(text: &str) -> Result<String, String> {
    if is_host_port(text) { Ok(text.to_owned()) } else { Err("HOST:PORT such as node1:9400".into()) }
}
