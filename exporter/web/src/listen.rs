//! Listening sockets, and how many descriptors there may be.

use std::io;

use listenfd::ListenFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::Address;

/// Opens a listening socket. `:PORT` is every interface, by IPv6 and IPv4 where the kernel has both.
///
/// # Errors
/// When the kernel refuses the address.
pub async fn bind(address: &Address) -> io::Result<TcpListener> {
    if !address.host.is_empty() {
        return TcpListener::bind((address.host.as_str(), address.port)).await;
    }
    match TcpListener::bind(("::", address.port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", address.port)).await,
        bound => bound,
    }
}

/// The listening sockets that systemd has opened (sd_listen_fds(3)).
///
/// # Errors
/// When there are none, or they are not listening TCP sockets.
pub fn inherited() -> Result<Vec<TcpListener>, String> {
    let mut sockets = ListenFd::from_env();
    if sockets.len() == 0 {
        return Err("--web.systemd-socket: expected sockets from systemd, found none in LISTEN_FDS".to_owned());
    }
    let wrong = |error: io::Error| format!("--web.systemd-socket: expected listening TCP sockets: {error}");
    let mut listeners = Vec::new();
    for index in 0..sockets.len() {
        let listener = sockets.take_tcp_listener(index).map_err(wrong)?;
        let listener = listener.ok_or("--web.systemd-socket: a socket was taken twice")?;
        listener.set_nonblocking(true).map_err(wrong)?;
        listeners.push(TcpListener::from_std(listener).map_err(wrong)?);
    }
    Ok(listeners)
}

/// Raises the soft limit of open files (RLIMIT_NOFILE, getrlimit(2)) to the hard one, as Go's runtime does: the usual
/// 1024 are there for programs that use select(2), which this is not.
pub fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(from = current, to = maximum, "raised the limit of open files"),
        Err(error) => tracing::warn!(limit = current, %error, "cannot raise the limit of open files"),
    }
}
