//! Open ports and sockets.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::net::ListenAddress;

/// Connections that wait to be accepted: a whole town may come back at once after a restart.
pub(super) const BACKLOG: u32 = 16_384;

/// The address of clients of a socket: of this machine.
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An open port or socket.
#[derive(Debug)]
pub enum BoundListener {
    /// A port.
    Port(TcpListener),
    /// A socket of this machine. Its file is removed with it.
    Socket {
        /// The socket.
        listener: UnixListener,
        /// Its path.
        path: PathBuf,
        /// The file at the path: another process may put its own there.
        file: Option<(u64, u64)>,
        /// Held while this process has the socket.
        _lock: File,
    },
}

/// A connection that was accepted.
pub(super) enum AcceptedSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl BoundListener {
    /// Opens an address: each address of a name that this machine has.
    ///
    /// # Errors
    /// If one of them cannot be had.
    pub async fn bind(address: &ListenAddress) -> io::Result<Vec<Self>> {
        match address {
            ListenAddress::Port { host, port } => {
                let mut listeners = Vec::new();
                let mut missing = None;
                for found in tokio::net::lookup_host((host.as_str(), *port)).await? {
                    match bind_port(found) {
                        Ok(listener) => listeners.push(Self::Port(listener)),
                        // `localhost` is also ::1 where this machine has no IPv6.
                        Err(error) if address.is_name() && is_not_here(&error) => missing = Some(error),
                        Err(error) => return Err(error),
                    }
                }
                match missing {
                    Some(error) if listeners.is_empty() => Err(error),
                    _ => Ok(listeners),
                }
            }
            ListenAddress::Socket(path) => {
                // Of two processes that find an abandoned socket, one alone may replace it.
                let _lock = lock_beside(path)?;
                remove_abandoned(path).await?;
                let listener = UnixListener::bind(path)?;
                // For a proxy in the group of the file.
                std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
                Ok(vec![Self::Socket { listener, path: path.clone(), file: file_of(path), _lock }])
            }
        }
    }

    /// The address, with the actual port.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Port(listener) => listener.local_addr().map(ListenAddress::from),
            Self::Socket { path, .. } => Ok(ListenAddress::Socket(path.clone())),
        }
    }

    /// Accepts a connection that waits already; `None` if none does.
    pub(super) fn accept_waiting(&self) -> io::Result<Option<(AcceptedSocket, SocketAddr)>> {
        let accepted = match self {
            Self::Port(listener) => SockRef::from(listener).accept(),
            Self::Socket { listener, .. } => SockRef::from(listener).accept(),
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        socket.set_nonblocking(true)?;
        Ok(Some(match (self, peer.as_socket()) {
            (Self::Port(_), Some(peer)) => {
                let stream = TcpStream::from_std(socket.into())?;
                (AcceptedSocket::Tcp(stream), SocketAddr::new(peer.ip().to_canonical(), peer.port()))
            }
            _ => (AcceptedSocket::Unix(UnixStream::from_std(socket.into())?), LOCAL),
        }))
    }

    pub(super) async fn accept(&self) -> io::Result<(AcceptedSocket, SocketAddr)> {
        match self {
            Self::Port(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((AcceptedSocket::Tcp(stream), SocketAddr::new(peer.ip().to_canonical(), peer.port())))
            }
            Self::Socket { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((AcceptedSocket::Unix(stream), LOCAL))
            }
        }
    }
}

impl Drop for BoundListener {
    fn drop(&mut self) {
        if let Self::Socket { path, file, .. } = self
            && file.is_some()
            && file_of(path) == *file
        {
            // One that somebody else has removed is gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether this machine lacks an address, or its family.
fn is_not_here(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

/// The device and the number of a file.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn bind_port(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        // All addresses of IPv4 are another address: the same port can be listed for both.
        SockRef::from(&socket).set_only_v6(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Locks the file `<path>.lock` for this process. The system ends the lock with the process. The file stays: a process
/// that waits for a removed one could lock it together with another process that has made a new one.
fn lock_beside(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let opened = File::options().write(true).create(true).truncate(false).mode(0o600).open(&name);
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", name.display()));
    let lock = opened.map_err(explain)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process has its lock")),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the socket that a killed process has left. One on which somebody listens stays, and so does any other file.
async fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let connected = UnixStream::connect(path).await;
    let is_abandoned = connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && is_abandoned { std::fs::remove_file(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_processes_gets_an_abandoned_socket() {
        const STARTS: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        for number in 0..200 {
            let path = folder.path().join(format!("{number}.sock"));
            // As a killed server would leave it.
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let address = ListenAddress::Socket(path.clone());
            let together = std::sync::Barrier::new(STARTS);
            let bind = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                together.wait();
                let bound = runtime.block_on(BoundListener::bind(&address));
                together.wait();
                bound.map(drop).map_err(|error| error.kind())
            };
            let bound: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(bind)).collect();
                starts.into_iter().map(|start| start.join().unwrap()).collect()
            });
            let refused = bound.iter().filter(|bound| **bound == Err(io::ErrorKind::AddrInUse)).count();
            assert_eq!(refused, STARTS - 1, "{bound:?}");
            assert!(!path.exists(), "it is removed with its listener");
        }
    }
}
