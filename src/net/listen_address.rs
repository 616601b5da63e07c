//! Where the server listens: `server.listen`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A port of an address, or of all addresses of a name.
    Port {
        /// The address without brackets, or the name.
        host: String,
        /// 0: a free one.
        port: u16,
    },
    /// The path of a socket of this machine.
    Socket(PathBuf),
}

impl ListenAddress {
    /// Parses `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000` or `unix:/run/feedline.sock`. `None`: another form.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            return (!path.is_empty() && !path.ends_with('/')).then(|| Self::Socket(path.into()));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self::from(address));
        }
        let (host, port) = text.rsplit_once(':')?;
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            // An address that was mistyped is no name.
            && !host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_name.then_some(Self::Port { host: host.to_owned(), port: port.parse().ok()? })
    }

    /// Whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Port { host, .. } => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
            }
            Self::Socket(_) => true,
        }
    }

    /// Whether it is a name, which may have several addresses.
    pub fn is_name(&self) -> bool {
        matches!(self, Self::Port { host, .. } if host.parse::<IpAddr>().is_err())
    }

    /// The port; `None` for a socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Port { port, .. } => Some(*port),
            Self::Socket(_) => None,
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Port { host: address.ip().to_string(), port: address.port() }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Port { host, port } => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_names_and_sockets_are_parsed() {
        for (text, shown, is_local) in [
            ("127.0.0.1:8000", "127.0.0.1:8000", true),
            ("0.0.0.0:80", "0.0.0.0:80", false),
            ("[::1]:8000", "[::1]:8000", true),
            ("localhost:0", "localhost:0", true),
            ("feed.internal:8000", "feed.internal:8000", false),
            ("unix:/run/feedline.sock", "unix:/run/feedline.sock", true),
            ("unix:///run/feedline.sock", "unix:/run/feedline.sock", true),
            ("unix:feedline.sock", "unix:feedline.sock", true),
        ] {
            let address = ListenAddress::parse(text).expect(text);
            assert_eq!((address.to_string().as_str(), address.is_local()), (shown, is_local));
        }
        for text in
            ["", "8000", ":8000", "127.0.0.1", "127.0.0:80", "localhost:", "a:b", "::1:80", "unix:", "unix:/run/"]
        {
            assert_eq!(ListenAddress::parse(text), None, "{text}");
        }
    }
}
