//! Reports the state of the server to a service manager, by the protocol of systemd: datagrams to the socket in
//! `NOTIFY_SOCKET`.
//! Without that variable, nothing is sent.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// The service manager.
pub(super) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// How often it expects a sign of life; `None`: never.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that the environment names.
    pub(super) fn from_env() -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let socket = address.and_then(|name| {
            let connected = connect(name.as_bytes());
            connected.inspect_err(|error| tracing::warn!(%error, "NOTIFY_SOCKET cannot be used")).ok()
        });
        let is_for_us = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let micros = std::env::var("WATCHDOG_USEC").ok().filter(|_| is_for_us && socket.is_some());
        let watchdog = micros.and_then(|micros| micros.parse().ok()).map(Duration::from_micros);
        Self { socket, watchdog: watchdog.filter(|interval| !interval.is_zero()) }
    }

    /// The server serves.
    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    /// The server reads its configuration again. [`ready`](Self::ready) follows.
    pub(super) fn reloading(&self) {
        self.send("RELOADING=1");
    }

    /// The server stops.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Sends signs of life at half of the interval that the manager expects, as long as the runtime runs tasks.
    pub(super) async fn keep_alive(&self) {
        let Some(interval) = self.watchdog else { return std::future::pending().await };
        loop {
            self.send("WATCHDOG=1");
            tokio::time::sleep(interval / 2).await;
        }
    }

    fn send(&self, state: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(state.as_bytes())) {
            tracing::debug!(%error, state, "the state could not be reported to the service manager");
        }
    }
}

fn connect(name: &[u8]) -> std::io::Result<UnixDatagram> {
    // `@`: a name that is in no folder.
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(name)))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that does not read must not hold up the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_reach_the_socket_of_the_manager() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        let socket = connect(path.as_os_str().as_bytes()).expect("a connection");
        let notify = ServiceManager { socket: Some(socket), watchdog: None };
        notify.ready();
        notify.reloading();
        notify.stopping();
        let mut state = [0; 32];
        for expected in ["READY=1", "RELOADING=1", "STOPPING=1"] {
            let length = manager.recv(&mut state).expect("a datagram");
            assert_eq!(&state[..length], expected.as_bytes());
        }
        assert!(connect(b"/nowhere/at-all").is_err());
        drop(manager);
        notify.ready();
    }
}
