//! Listening sockets, and how many descriptors there may be.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use listenfd::ListenFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, UnixListener};

use crate::{Address, Listen};

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// Of TCP.
    Tcp(TcpListener),
    /// Of this machine's processes.
    Unix(UnixListener),
}

impl Listener {
    /// Opens a listening socket of either kind.
    ///
    /// # Errors
    /// When the kernel refuses the address or the path.
    pub async fn open(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => bind(address).await.map(Self::Tcp),
            Listen::Unix(path) => bind_unix(path).map(Self::Unix),
        }
    }

    /// Where it listens: `IP:PORT`, or `unix:PATH`; `None` where the kernel does not say.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.to_string()),
            Self::Unix(listener) => {
                let address = listener.local_addr().ok()?;
                address.as_pathname().map(|path| format!("unix:{}", path.display()))
            }
        }
    }

    /// Is it out of reach of other machines?
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener.local_addr().is_ok_and(|address| address.ip().is_loopback()),
            Self::Unix(_) => true,
        }
    }
}

/// Opens a Unix socket for its owner and group. One that a program left behind when it ended is replaced; one on which a
/// program listens, and a file of another kind, is not.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    fs::set_permissions(path, Permissions::from_mode(0o660))?;
    Ok(listener)
}

fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

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
pub fn inherited() -> Result<Vec<Listener>, String> {
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
        listeners.push(Listener::Tcp(TcpListener::from_std(listener).map_err(wrong)?));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_was_left_behind_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.sock");
        let listen = Listen::Unix(path.clone());
        let open = || Listener::open(&listen);
        let first = open().await.unwrap();
        assert!(first.is_local());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(open().await.unwrap_err().kind(), io::ErrorKind::AddrInUse, "a program listens on it");
        drop(first);
        drop(open().await.unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file of its owner").unwrap();
        assert_eq!(open().await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file of its owner");
    }
}
