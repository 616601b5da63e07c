//! Parses the URL of a PostgreSQL server strictly.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The expected form of a URL. Errors never repeat the URL, because it may contain a password.
const SHAPE: &str = "expected postgres://USER[:PASSWORD]@HOST[:PORT][,HOST…]/DATABASE[?PARAMETER=VALUE&…], or for a \
                     socket postgres:///DATABASE?host=/FOLDER&user=USER";

/// What a port must be.
const BAD_PORT: &str = "port must be a number from 1 to 65535";

/// The parameters that a URL may have.
const PARAMETERS: &str = "sslmode, sslrootcert, application_name, options, target_session_attrs, host, port, user, \
                          connect_timeout";

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
    /// client uses the first one that answers and accepts writes. A host that begins with a slash is the folder of a
    /// socket. `sslmode=require` verifies the certificate as `verify-full` does: encryption without verification is not
    /// supported.
    ///
    /// # Errors
    ///
    /// Describes the expected form, or names the parameter at fault. Contains no other part of the URL.
    pub fn parse(url: &str) -> Result<Self, String> {
        let wrong = || SHAPE.to_owned();
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")).ok_or_else(wrong)?;
        // The parameters are after the last `@`: an encoded password contains no `@`, and a password that is not
        // encoded may contain `?`.
        let place = rest.rfind('@').unwrap_or(0);
        let (place, query) = match rest[place..].find('?') {
            Some(at) => (&rest[..place + at], &rest[place + at + 1..]),
            None => (rest, ""),
        };
        let parameters = Parameters::parse(query)?;
        let place = parameters.with_port(place)?;
        let mut config: Config = format!("postgres://{place}").parse().map_err(|_| wrong())?;
        let tls = parameters.tls()?;
        parameters.apply(&mut config)?;
        let user = config.get_user().is_some_and(|user| !user.is_empty());
        let database = config.get_dbname().is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let plain = |host: &Host| match host {
            Host::Tcp(name) => !name.is_empty() && !name.contains(['@', '/']),
            #[cfg(unix)]
            Host::Unix(folder) => folder.is_absolute(),
        };
        let hosts = !config.get_hosts().is_empty() && config.get_hosts().iter().all(plain);
        // One port is for all hosts; otherwise each host has its own.
        let has_its_ports = [0, 1, config.get_hosts().len()].contains(&config.get_ports().len());
        let ports = has_its_ports && config.get_ports().iter().all(|port| *port != 0);
        if !(user && database && hosts && ports) {
            return Err(wrong());
        }
        let is_network = |host: &Host| matches!(host, Host::Tcp(_));
        if tls != Tls::Off && !config.get_hosts().iter().all(is_network) {
            return Err("a socket of this machine is not encrypted: remove sslmode".to_owned());
        }
        config.ssl_mode(if tls == Tls::Off { SslMode::Disable } else { SslMode::Require });
        if config.get_application_name().is_none() {
            config.application_name("feedline");
        }
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
            format!("{name}:{}", ports.get(at).or(ports.first()).copied().unwrap_or(5432))
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(host).collect();
        format!("{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

/// The parameters of a URL, decoded.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn parse(query: &str) -> Result<Self, String> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !PARAMETERS.split(", ").any(|known| known == name) {
                // What is no name may be a part of a password.
                let is_name = name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
                let unknown =
                    if is_name { format!("there is no parameter {name:?}") } else { "unknown parameter".into() };
                return Err(format!("{unknown}: expected some of {PARAMETERS}"));
            }
            if parameters.iter().any(|(earlier, _)| earlier == name) {
                return Err(format!("{name} is there twice"));
            }
            let value = percent_decode_str(value).decode_utf8().map_err(|_| format!("{name} is not in UTF-8"))?;
            if value.is_empty() {
                return Err(format!("{name} has no value"));
            }
            parameters.push((name.to_owned(), value.into_owned()));
        }
        Ok(Self(parameters))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn tls(&self) -> Result<Tls, String> {
        let roots = self.get("sslrootcert").map(|path| Path::new(path).to_owned());
        match (self.get("sslmode"), roots) {
            (None | Some("disable"), None) => Ok(Tls::Off),
            (None | Some("disable"), Some(_)) => Err("sslrootcert needs sslmode=verify-full".to_owned()),
            (Some("require" | "verify-full"), roots) => Ok(Tls::Verified(roots)),
            (Some(_), _) => Err("sslmode must be disable, require or verify-full".to_owned()),
        }
    }

    /// The part of a URL before its parameters, with the parameter `port` behind its hosts: the client takes a host
    /// without a port for one with the usual port.
    fn with_port(&self, place: &str) -> Result<String, String> {
        let start = place.rfind('@').map_or(0, |at| at + 1);
        let end = place[start..].find('/').map_or(place.len(), |slash| start + slash);
        let hosts = &place[start..end];
        let Some(port) = self.get("port").filter(|_| !hosts.is_empty()) else { return Ok(place.to_owned()) };
        let has_port = |host: &str| host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
        if hosts.split(',').any(has_port) {
            return Err("the port is there twice".to_owned());
        }
        port.parse::<u16>().map_err(|_| BAD_PORT.to_owned())?;
        let hosts: Vec<String> = hosts.split(',').map(|host| format!("{host}:{port}")).collect();
        Ok(format!("{}{}{}", &place[..start], hosts.join(","), &place[end..]))
    }

    /// Applies all parameters but those of encryption.
    fn apply(&self, config: &mut Config) -> Result<(), String> {
        let once = |name: &str, is_given: bool| if is_given { Err(format!("{name} is there twice")) } else { Ok(()) };
        if let Some(hosts) = self.get("host") {
            once("the host", !config.get_hosts().is_empty())?;
            for host in hosts.split(',') {
                config.host(host);
            }
        }
        if let Some(ports) = self.get("port").filter(|_| config.get_ports().is_empty()) {
            for port in ports.split(',') {
                config.port(port.parse().map_err(|_| BAD_PORT.to_owned())?);
            }
        }
        if let Some(user) = self.get("user") {
            once("the user", config.get_user().is_some_and(|user| !user.is_empty()))?;
            config.user(user);
        }
        config.target_session_attrs(match self.get("target_session_attrs") {
            None | Some("read-write") => TargetSessionAttrs::ReadWrite,
            Some("any") => TargetSessionAttrs::Any,
            Some(_) => return Err("target_session_attrs must be read-write or any".to_owned()),
        });
        if let Some(seconds) = self.get("connect_timeout") {
            let seconds: u64 = seconds.parse().map_err(|_| "connect_timeout must be a number of seconds".to_owned())?;
            if seconds == 0 {
                return Err("connect_timeout must be at least 1 second".to_owned());
            }
            config.connect_timeout(Duration::from_secs(seconds));
        }
        if let Some(name) = self.get("application_name") {
            config.application_name(name);
        }
        if let Some(options) = self.get("options") {
            config.options(options);
        }
        Ok(())
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
    fn sockets_and_parameters_are_read() {
        for socket in [
            "postgres:///feed?host=/run/pg&port=7&user=ann",
            "postgres://ann@%2Frun%2Fpg:7/feed",
            "postgres://ann@/feed?host=%2Frun%2Fpg&port=7",
        ] {
            let url = PostgresUrl::parse(socket).expect(socket);
            assert_eq!(url.config().get_hosts(), [Host::Unix("/run/pg".into())], "{socket}");
            assert_eq!(
                (url.to_string().as_str(), url.config().get_user()),
                ("postgres:///run/pg:7/feed", Some("ann")),
                "{socket}"
            );
        }
        let given =
            "application_name=two%20words&options=-c%20work_mem%3D8MB&target_session_attrs=any&connect_timeout=3";
        let config = PostgresUrl::parse(&format!("postgres://ann@a,b/feed?{given}&port=7")).expect("a URL");
        assert_eq!(config.to_string(), "postgres://a:7,b:7/feed");
        let config = config.config();
        assert_eq!(config.get_application_name(), Some("two words"));
        assert_eq!(config.get_options(), Some("-c work_mem=8MB"));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::Any);
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        let unknown = PostgresUrl::parse("postgres://ann@h/feed?fallback=x").expect_err("an unknown parameter");
        assert!(unknown.contains("\"fallback\""), "{unknown}");
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
            "postgres:///feed?user=ann",
            "postgres:///feed?host=hunter2/run&user=ann",
            "postgres://ann:hunter2@h/feed?host=/run",
            "postgres://ann:hunter2@h/feed?user=bo",
            "postgres://ann:hunter2@h:1/feed?port=2",
            "postgres:///feed?host=/run&port=0&user=ann",
            "postgres:///feed?host=/run&port=1,2&user=ann",
            "postgres:///feed?host=/run&user=ann&sslmode=require",
            "postgres://ann:hunter2@h/feed?connect_timeout=soon",
            "postgres://ann:hunter2@h/feed?connect_timeout=0",
            "postgres://ann:hunter2@h/feed?target_session_attrs=standby",
            "postgres://ann:hunter2@h/feed?options=",
            "postgres://ann:hunter2@h/feed?options=%ff",
            "postgres://ann:hunter2@h/feed?sslmode=disable&sslmode=require",
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
