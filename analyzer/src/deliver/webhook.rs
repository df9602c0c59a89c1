//! Posting the message, and what the receiver's answer means for the next attempt.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url, redirect};
use serde_json::Value;

use super::{Address, NotTaken};
use goodput_engine::http;
use goodput_exposition::sample::TimeMs;

/// How long a post may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Wait after the first failure; doubled after each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait of our own.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// The longest wait that a receiver may ask for; one that asks for more is asked again then.
const LONGEST_ASKED: Duration = Duration::from_secs(60 * 60);
/// How much of a refusal is logged.
const SHOWN: usize = 200;

/// The address to post to. Errors do not show it.
pub fn resolve(address: &Address) -> Result<Url, String> {
    match address {
        Address::Plain(url) => parse(url).ok_or_else(|| EXPECTED.into()),
        Address::File(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            parse(text.trim()).ok_or_else(|| format!("{}: expected {EXPECTED}", path.display()))
        }
    }
}

/// What an address must be.
pub const EXPECTED: &str = "an http or https URL such as https://hooks.slack.com/services/…";

/// An http or https URL.
#[must_use]
pub fn parse(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Posts the message; `Ok` says that the receiver answered 2xx. Its id, where it has one, is the same for every attempt.
///
/// No redirects, for a redirected POST becomes a GET; proxies as the environment says, because chat services are outside.
pub async fn post(url: Url, message: &Value, id: Option<&str>, now: TimeMs) -> Result<(), NotTaken> {
    let failed = |reason| NotTaken::Failed { reason, wait: None };
    let builder = || Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none());
    let client = http::client(url.scheme(), builder).map_err(failed)?;
    let secret = url.to_string();
    let request = client.post(url).header(CONTENT_TYPE, "application/json").body(message.to_string());
    let request = id.into_iter().fold(request, |request, id| request.header("Idempotency-Key", id));
    let mut response = request.send().await.map_err(|error| failed(http::causes(&error.without_url())))?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    if can_mend(status) {
        let wait = retry_after(response.headers(), now);
        return Err(NotTaken::Failed { reason: format!("the webhook answered with status {}", status.as_u16()), wait });
    }
    // What the receiver says is only read to be logged; without it, the status must do.
    let answer = response.chunk().await.ok().flatten().unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer).replace(&secret, "(address)");
    Err(NotTaken::Refused { status: status.as_u16(), answer: answer.chars().take(SHOWN).collect() })
}

/// Time heals these.
fn can_mend(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// What the receiver asks for, in seconds or as a date (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap, now: TimeMs) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let date = || {
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
        u64::try_from(at.as_millisecond() - now).ok().map(Duration::from_millis)
    };
    let asked = value.parse().ok().map(Duration::from_secs).or_else(date)?;
    Some(asked.min(LONGEST_ASKED))
}

/// How long to wait after this many failures in a row.
#[must_use]
pub fn backoff(failures: u32, asked: Option<Duration>) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled.min(LONGEST_WAIT).max(asked.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_quarter_of_an_hour_and_no_less_than_asked() {
        let seconds = |failures, asked: Option<u64>| backoff(failures, asked.map(Duration::from_secs)).as_secs();
        let waits = [1, 2, 3, 10, 11, 32, 33, u32::MAX].map(|failures| seconds(failures, None));
        assert_eq!(waits, [1, 2, 4, 512, 900, 900, 900, 900]);
        assert_eq!([seconds(1, Some(30)), seconds(6, Some(30)), seconds(1, Some(3600))], [30, 32, 3600]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2026-11-23T06:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let asked = |value: &str| {
            let headers = [(RETRY_AFTER, value.parse().unwrap())].into_iter().collect();
            retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(asked("30"), Some(30));
        assert_eq!(asked("86400"), Some(3600), "bounded");
        assert_eq!(asked("Mon, 23 Nov 2026 06:01:30 GMT"), Some(90));
        assert_eq!(asked("Mon, 23 Nov 2026 05:00:00 GMT"), None, "past");
        assert_eq!(asked("soon"), None);
    }

    #[test]
    fn a_file_without_an_address_is_named_and_its_content_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("url");
        let error = resolve(&Address::File(path.clone())).unwrap_err();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        std::fs::write(&path, "hooks.example/secret\n").unwrap();
        let error = resolve(&Address::File(path.clone())).unwrap_err();
        assert!(error.contains(EXPECTED) && !error.contains("secret"), "{error}");
        std::fs::write(&path, "https://hooks.example/secret\n").unwrap();
        assert_eq!(resolve(&Address::File(path)).unwrap().as_str(), "https://hooks.example/secret");
    }
}
