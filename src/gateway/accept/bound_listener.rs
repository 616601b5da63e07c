//! Open ports and sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::net::ListenAddress;

/// Connections that wait to be accepted: a whole town may come back at once after a restart.
const BACKLOG: u32 = 16_384;

/// The address of clients of a socket: of this machine.
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An open port or socket.
#[derive(Debug)]
pub enum BoundListener {
    /// A port.
    Port(TcpListener),
    /// A socket of this machine, and its path. The file is removed with it.
    Socket(UnixListener, PathBuf),
}

/// A connection that was accepted.
pub(super) enum Accepted {
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
                        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                        // `localhost` is also ::1 where this machine has no IPv6.
                        Err(error) => missing = Some(error),
                    }
                }
                match missing {
                    Some(error) if listeners.is_empty() => Err(error),
                    _ => Ok(listeners),
                }
            }
            ListenAddress::Socket(path) => {
                remove_abandoned(path)?;
                Ok(vec![Self::Socket(UnixListener::bind(path)?, path.clone())])
            }
        }
    }

    /// The address, with the actual port.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Port(listener) => listener.local_addr().map(ListenAddress::from),
            Self::Socket(_, path) => Ok(ListenAddress::Socket(path.clone())),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        match self {
            Self::Port(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Accepted::Tcp(stream), SocketAddr::new(peer.ip().to_canonical(), peer.port())))
            }
            Self::Socket(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream), LOCAL))
            }
        }
    }
}

impl Drop for BoundListener {
    fn drop(&mut self) {
        if let Self::Socket(_, path) = self {
            // One that somebody else has removed is gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_port(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Removes the socket that a killed process has left. One on which somebody listens stays, and so does any other file.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;

    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let is_abandoned = std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && is_abandoned { std::fs::remove_file(path) } else { Ok(()) }
}
