//! The addresses of the two stores.

use std::fmt;
use std::path::{Path, PathBuf};

use hyper::Uri;

use super::layers::Value;
use super::value::{Read, text};
use crate::ledger::PostgresUrl;

/// Where the broker is.
#[derive(Clone, PartialEq, Eq)]
pub enum BrokerUrl {
    /// In this process.
    Memory,
    /// On a Redis: the whole URL, which may hold a password. Displayed without it.
    Redis(String),
}

impl BrokerUrl {
    /// Reads `memory:`, `redis://…` or `rediss://…`. The URL is never repeated in an error: it may hold a password.
    pub(super) fn read(value: &Value) -> Read<Self> {
        let url = text(value)?;
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        let wrong = || "expected memory:, redis://HOST[:PORT][/DB] or rediss://HOST[:PORT][/DB]".to_owned();
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let scheme = matches!(uri.scheme_str(), Some("redis" | "rediss"));
        let host = uri.host().is_some_and(|host| !host.is_empty());
        // A port that is no port leaves the URI valid and without one.
        let port = uri.port_u16().is_some_and(|port| port != 0) || !has_port(&uri);
        let database = uri.path().trim_start_matches('/');
        let database = database.is_empty() || database.parse::<u32>().is_ok();
        (scheme && host && port && database).then_some(Self::Redis(url)).ok_or_else(wrong)
    }
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

/// Where the ledger is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerUrl {
    /// In this SQLite file.
    Sqlite(PathBuf),
    /// In this PostgreSQL database. Displayed without user and password.
    Postgres(PostgresUrl),
}

impl LedgerUrl {
    /// Reads `sqlite://PATH`, `postgres://…`, or nothing, which means the usual file among Feedline's data.
    pub(super) fn read(value: &Value, data_dir: &Path) -> Read<Self> {
        let url = text(value)?;
        if url.is_empty() {
            return Ok(Self::Sqlite(data_dir.join("feedline.db")));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return PostgresUrl::parse(&url).map(Self::Postgres);
        }
        let path = url.strip_prefix("sqlite://").filter(|path| !path.is_empty() && !path.ends_with('/'));
        path.map(|path| Self::Sqlite(path.into())).ok_or_else(|| "expected sqlite://PATH or postgres://…".into())
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
