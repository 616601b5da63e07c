//! Parses the URL of a PostgreSQL server strictly.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The expected form of a URL. Errors never repeat the URL, because it may contain a password.
const SHAPE: &str = "expected postgres://USER[:PASSWORD]@HOST[:PORT][,HOST…]/DATABASE\
                     [?sslmode=disable|require|verify-full][&sslrootcert=PATH]";

/// The address of a PostgreSQL database, with user and password. `Display` omits both.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// The parsed configuration of the client. Boxed, because it is large.
    config: Box<Config>,
    tls: Tls,
}

/// Whether the connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// Not encrypted.
    Off,
    /// Encrypted and verified: the server's certificate must match the host and be signed by one of these authorities:
    /// those of the PEM file, or those of the system.
    Verified(Option<PathBuf>),
}

impl PostgresUrl {
    /// Parses `postgres://` or `postgresql://`, with percent encoding where needed. If the URL has several hosts, the
    /// client uses the one that accepts writes. `sslmode=require` verifies the certificate as `verify-full` does:
    /// encryption without verification is not supported.
    ///
    /// # Errors
    ///
    /// Describes the expected form. Contains no part of the URL.
    pub fn parse(url: &str) -> Result<Self, String> {
        let wrong = || SHAPE.to_owned();
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")).ok_or_else(wrong)?;
        // The part after the last `@`: an encoded password contains no `@`, and a password that is not encoded may
        // contain `?`.
        let place = rest.rfind('@').ok_or_else(wrong)?;
        let (place, query) = match rest[place..].find('?') {
            Some(at) => (&rest[..place + at], &rest[place + at + 1..]),
            None => (rest, ""),
        };
        let mut config: Config = format!("postgres://{place}").parse().map_err(|_| wrong())?;
        let user = config.get_user().is_some_and(|user| !user.is_empty());
        let database = config.get_dbname().is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let plain = |host: &Host| matches!(host, Host::Tcp(name) if !name.is_empty() && !name.contains('@'));
        let hosts = !config.get_hosts().is_empty() && config.get_hosts().iter().all(plain);
        let ports = config.get_ports().iter().all(|port| *port != 0);
        if !(user && database && hosts && ports) {
            return Err(wrong());
        }
        let tls = tls(query)?;
        config.ssl_mode(if tls == Tls::Off { SslMode::Disable } else { SslMode::Require });
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.application_name("feedline");
        Ok(Self { config: Box::new(config), tls })
    }

    /// The configuration for the client.
    pub(super) fn config(&self) -> Config {
        Config::clone(&self.config)
    }

    /// The TLS mode.
    pub(super) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// `HOST:PORT/DATABASE`.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let host = |(at, host): (usize, &Host)| {
            let name = match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
                Host::Tcp(name) => name.clone(),
                #[cfg(unix)]
                Host::Unix(path) => path.display().to_string(),
            };
            format!("{name}:{}", ports.get(at).copied().unwrap_or(5432))
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(host).collect();
        format!("{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

fn tls(query: &str) -> Result<Tls, String> {
    let mut encrypt = false;
    let mut roots = None;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", "disable")) => encrypt = false,
            Some(("sslmode", "require" | "verify-full")) => encrypt = true,
            Some(("sslmode", _)) => return Err("sslmode must be disable, require or verify-full".to_owned()),
            Some(("sslrootcert", path)) if !path.is_empty() => roots = Some(Path::new(path).to_owned()),
            _ => return Err("sslmode=… and sslrootcert=PATH are the parameters there are".to_owned()),
        }
    }
    match (encrypt, roots) {
        (false, Some(_)) => Err("sslrootcert needs sslmode=verify-full".to_owned()),
        (false, None) => Ok(Tls::Off),
        (true, roots) => Ok(Tls::Verified(roots)),
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}", self.place())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_strictly() {
        let url = PostgresUrl::parse("postgres://ann:p%40ss@db.example/feed").expect("a URL");
        assert_eq!(url.config().get_password(), Some(&b"p@ss"[..]));
        assert_eq!((url.to_string().as_str(), url.tls()), ("postgres://db.example:5432/feed", &Tls::Off));
        let url = PostgresUrl::parse("postgresql://ann@[::1]:7,b:8/feed?sslmode=verify-full&sslrootcert=a/b.pem");
        let url = url.expect("a URL");
        assert_eq!(url.to_string(), "postgres://[::1]:7,b:8/feed");
        assert_eq!(url.tls(), &Tls::Verified(Some("a/b.pem".into())));
        let required = PostgresUrl::parse("postgres://ann@h/feed?sslmode=require").expect("a URL");
        assert_eq!(required.tls(), &Tls::Verified(None));
    }

    #[test]
    fn errors_do_not_contain_the_password() {
        let wrong = [
            "postgres://ann:hunter2@/feed",
            "postgres://ann:hunter2@h",
            "postgres://ann:hunter2@h/",
            "postgres://ann:hunter2@h:no/feed",
            "postgres://ann:hunter2@h:0/feed",
            "postgres://ann:hunter2@h:99999/feed",
            "postgres://ann:hunter2@x@h/feed",
            "postgres://:hunter2@h/feed",
            "postgres://h/feed",
            "mysql://ann:hunter2@h/feed",
            "postgres://ann:hunter2@h/feed?sslmode=prefer",
            "postgres://ann:hunter2@h/feed?sslrootcert=a.pem",
            "postgres://ann:hunter2@h/feed?hunter2=1",
        ];
        for url in wrong {
            let said = PostgresUrl::parse(url).expect_err(url);
            assert!(!said.contains("hunter2"), "{url}: {said}");
        }
    }
}
