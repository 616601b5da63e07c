//! The addresses of the two stores.

use std::fmt;
use std::path::{Path, PathBuf};

use hyper::Uri;

use crate::ledger::PostgresUrl;
use crate::settings::ConfigValue;
use crate::settings::parse::{ParseResult, text};

/// The address of the broker.
#[derive(Clone, PartialEq, Eq)]
pub enum BrokerUrl {
    /// The broker in this process.
    Memory,
    /// Redis: the whole URL, which may contain a password. `Display` omits user and password.
    Redis(String),
}

impl BrokerUrl {
    /// Parses `memory:`, `redis://…`, `rediss://…` or `unix://…`. Errors do not contain the URL, which may contain a
    /// password.
    pub(super) fn parse(value: &ConfigValue) -> ParseResult<Self> {
        let url = text(value)?;
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        let wrong = || "expected memory:, redis[s]://HOST[:PORT][/DB] or unix:///PATH[?db=N]".to_owned();
        if ["memory", "memory:/", "memory://"].contains(&url.as_str()) {
            return Err(format!("{}; did you mean \"memory:\"?", wrong()));
        }
        if let Some(socket) = url.strip_prefix("unix://") {
            let (path, query) = socket.split_once('?').unwrap_or((socket, ""));
            let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains('#');
            return match query.strip_prefix("db=").map(str::parse::<u32>) {
                _ if !is_path => Err(wrong()),
                None if query.is_empty() => Ok(Self::Redis(url)),
                None => Err(format!("{}: {}", unknown_parameter(&url).unwrap_or_default(), wrong())),
                Some(Ok(_)) => Ok(Self::Redis(url)),
                Some(Err(_)) => Err(format!("db is no number: {}", wrong())),
            };
        }
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let scheme = matches!(uri.scheme_str(), Some("redis" | "rediss"));
        let host = uri.host().is_some_and(|host| !host.is_empty());
        // With an invalid port, the URI is valid but has no port.
        let port = uri.port_u16().is_some_and(|port| port != 0) || !has_port(&uri);
        let database = uri.path().trim_start_matches('/');
        let database = database.is_empty() || database.parse::<u32>().is_ok();
        if !(scheme && host && port && database) {
            return Err(wrong());
        }
        match unknown_parameter(&url) {
            Some(problem) => Err(format!("{problem}: {}", wrong())),
            None => Ok(Self::Redis(url)),
        }
    }
}

/// What a URL has behind its path, which would have no effect. The problem names a parameter, unless the text may be
/// the part of a password that should have been encoded.
fn unknown_parameter(url: &str) -> Option<String> {
    let (_, rest) = url.split_once(['?', '#'])?;
    let name = rest.split(['=', '&']).next().unwrap_or_default();
    let is_name = url.contains('?') && !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    let is_password = rest.contains('@');
    Some(match is_name && !is_password {
        true => format!("there is no parameter {name:?}"),
        false => "there are no parameters".to_owned(),
    })
}

fn has_port(uri: &Uri) -> bool {
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.rsplit(']').next().unwrap_or_default().contains(':')
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Redis(url) if url.starts_with("unix://") => f.write_str(url),
            Self::Redis(url) => match (url.split_once("://"), url.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => write!(f, "{scheme}://{host}"),
                _ => f.write_str(url),
            },
        }
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The address of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerUrl {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database. `Display` omits user and password.
    Postgres(PostgresUrl),
}

impl LedgerUrl {
    /// Parses `sqlite://PATH` or `postgres://…`. An empty text means `feedline.db` in the data folder.
    pub(super) fn parse(value: &ConfigValue, data_dir: &Path) -> ParseResult<Self> {
        let url = text(value)?;
        if url.is_empty() {
            return Ok(Self::Sqlite(data_dir.join("feedline.db")));
        }
        if url.trim() != url {
            return Err("has spaces or a line end around it, which would be a part of it: remove them".into());
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return PostgresUrl::parse(&url).map(Self::Postgres);
        }
        let wrong = || "expected sqlite://PATH or postgres://…".to_owned();
        let path = url.strip_prefix("sqlite://").filter(|path| !path.is_empty() && !path.ends_with('/'));
        let path = path.ok_or_else(wrong)?;
        if path.starts_with(":memory:") {
            return Err(format!("{}: the ledger is a file", wrong()));
        }
        match unknown_parameter(path) {
            Some(problem) => Err(format!("{problem}: {}", wrong())),
            None => Ok(Self::Sqlite(path.into())),
        }
    }
}

impl fmt::Display for LedgerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}
