//! systemd: readiness, status and watchdog. Without systemd every call does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The program serves.
pub fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The program is ending.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// The program is alive.
pub fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// How often systemd wants to hear that: half its limit, as its documentation advises.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("cannot notify systemd: {error}");
    }
}
