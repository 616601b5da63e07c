//! Which URLs may be contacted. Endpoints of devices come from users, so that they could aim the server at private
//! services (SSRF). URLs are checked when they are registered and before each request, and the addresses of their
//! names each time a connection is made, because DNS may change in between. The URLs of FCM and APNs come from the
//! operator, who may use a private gateway without opening its network to users: they have a policy of their own.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use reqwest::Url;

use super::hosts::HostRules;
use crate::net::is_public;

/// The maximum length of an endpoint, in bytes.
const MAX_URL_LENGTH: usize = 2048;

/// Ports of protocols that a request of HTTP could be mistaken for: those that browsers block, without 0.
const BLOCKED_PORTS: [u16; 81] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 10080,
];

/// The last labels of names with a special use, which no server on the internet has: RFC 6761 without its names for
/// examples and `localhost`, 6762, 7686, 8375 (`home.arpa`), 9476, and `internal`. Endpoints of devices never have one,
/// not even with `push.allow_networks`.
const SPECIAL_SUFFIXES: [&str; 7] = ["alt", "arpa", "internal", "invalid", "local", "onion", "test"];

/// The last labels of other names that are never public.
const LOCAL_SUFFIXES: [&str; 6] = ["localhost", "localdomain", "intranet", "lan", "home", "corp"];

/// A valid URL of an endpoint. Its path is a credential: `Debug` shows only the origin.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    url: Url,
    origin: String,
}

/// Why an endpoint may not be contacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an absolute URL of `https` or `http`, or too long.
    #[error("is not a valid URL")]
    Invalid,
    /// The URL contains a user name, a password or a fragment.
    #[error("must not contain a user name, a password or a fragment")]
    Credentials,
    /// `http` outside of the allowed networks.
    #[error("must use https")]
    NotHttps,
    /// A port of another protocol.
    #[error("uses a blocked port")]
    BlockedPort,
    /// A name of a local network, or with a special use.
    #[error("is a local name")]
    LocalName,
    /// A host that the operator denies, or does not allow.
    #[error("has a host that is not allowed")]
    ForbiddenHost,
    /// An address that is neither public nor in the allowed networks.
    #[error("leads to an address that is not public")]
    ForbiddenAddress,
}

/// Decides which endpoints may be contacted.
#[derive(Clone, Debug, Default)]
pub struct EndpointPolicy {
    allow_networks: Vec<IpNet>,
    hosts: HostRules,
    /// The URLs come from the operator: every address is permitted, without TLS the private ones.
    is_operator: bool,
}

impl EndpointUrl {
    /// Parses an endpoint.
    ///
    /// # Errors
    /// If the form is wrong. [`EndpointPolicy::check`] decides whether the endpoint may be contacted.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        if text.len() > MAX_URL_LENGTH || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(EndpointError::Invalid);
        }
        let url = Url::parse(text).map_err(|_| EndpointError::Invalid)?;
        if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
            return Err(EndpointError::Invalid);
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(EndpointError::Credentials);
        }
        match url.port() {
            Some(0) => return Err(EndpointError::Invalid),
            Some(port) if BLOCKED_PORTS.contains(&port) => return Err(EndpointError::BlockedPort),
            _ => {}
        }
        Ok(Self { origin: url.origin().ascii_serialization(), url })
    }

    /// The URL of a path below this one.
    pub(super) fn join(&self, path: &str) -> Result<Self, EndpointError> {
        let base = self.url.as_str();
        Self::parse(&format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')))
    }

    /// Scheme, host and port, as in the `aud` of VAPID.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The name or address of the server.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The whole URL. It is a credential and must not be written to a log.
    pub fn reveal(&self) -> &str {
        self.url.as_str()
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The literal address, if the host is one. The parser has normalised forms such as `0x7f.1`.
    fn literal(&self) -> Option<IpAddr> {
        let host = self.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse().ok()
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/…", self.origin)
    }
}

impl EndpointPolicy {
    /// Allows public addresses, and the given networks, for which `http` is allowed, too.
    pub fn new(allow_networks: Vec<IpNet>) -> Self {
        Self { allow_networks, ..Self::default() }
    }

    /// The same, for hosts that these rules allow.
    #[must_use]
    pub fn with_hosts(self, hosts: HostRules) -> Self {
        Self { hosts, ..self }
    }

    /// For URLs of the configuration: allows every address, and `http` to private ones.
    pub fn of_operator() -> Self {
        Self { is_operator: true, ..Self::default() }
    }

    /// Checks an endpoint without resolving its name. Literal addresses never reach a resolver, so that this is the
    /// only check of them.
    ///
    /// # Errors
    /// If the endpoint may not be contacted.
    pub fn check(&self, endpoint: &EndpointUrl) -> Result<(), EndpointError> {
        if self.is_operator {
            let is_private = endpoint.literal().map_or_else(|| is_local(endpoint), |address| !is_public(address));
            return if is_private { Ok(()) } else { require_https(endpoint) };
        }
        if !self.hosts.permits(endpoint.host()) {
            return Err(EndpointError::ForbiddenHost);
        }
        if let Some(address) = endpoint.literal() {
            if self.in_allowed_network(address) {
                return Ok(());
            }
            let forbidden = Err(EndpointError::ForbiddenAddress);
            return if !is_public(address) { forbidden } else { require_https(endpoint) };
        }
        if SPECIAL_SUFFIXES.contains(&labels(endpoint).1.as_str()) {
            return Err(EndpointError::LocalName);
        }
        // A name may lead into an allowed network: the resolver decides, and accepts only such addresses for `http`.
        if !self.allow_networks.is_empty() {
            return Ok(());
        }
        require_https(endpoint)?;
        if is_local(endpoint) { Err(EndpointError::LocalName) } else { Ok(()) }
    }

    /// Whether a connection to an address may be made. Without TLS only to the allowed networks, or those of the
    /// operator.
    pub(super) fn permits(&self, address: IpAddr, tls: bool) -> bool {
        if self.is_operator {
            return tls || !is_public(address);
        }
        self.in_allowed_network(address) || (tls && is_public(address))
    }

    fn in_allowed_network(&self, address: IpAddr) -> bool {
        // `::ffff:10.0.0.1` leads where 10.0.0.1 does.
        let address = address.to_canonical();
        self.allow_networks.iter().any(|network| network.contains(&address))
    }
}

/// Whether the host is a name of a local network, or one with a special use.
fn is_local(endpoint: &EndpointUrl) -> bool {
    let (has_one, last) = labels(endpoint);
    has_one || LOCAL_SUFFIXES.contains(&last.as_str()) || SPECIAL_SUFFIXES.contains(&last.as_str())
}

/// Whether the name of the host has a single label, and the last one.
fn labels(endpoint: &EndpointUrl) -> (bool, String) {
    let name = endpoint.host().trim_end_matches('.').to_ascii_lowercase();
    name.rsplit_once('.').map_or_else(|| (true, name.clone()), |(_, last)| (false, last.to_owned()))
}

fn require_https(endpoint: &EndpointUrl) -> Result<(), EndpointError> {
    if endpoint.is_https() { Ok(()) } else { Err(EndpointError::NotHttps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_origin_only() {
        let endpoint = EndpointUrl::parse("https://push.example.net:8443/wpush/v2/secret?key=secret").unwrap();
        assert_eq!(format!("{endpoint:?}"), "https://push.example.net:8443/…");
        assert_eq!(endpoint.origin(), "https://push.example.net:8443");
    }

    #[test]
    fn allowed_networks_open_http_and_private_addresses() {
        let policy = EndpointPolicy::new(vec!["10.1.0.0/16".parse().unwrap()]);
        let check = |url: &str| policy.check(&EndpointUrl::parse(url).unwrap());
        for url in ["http://10.1.2.3/x", "https://10.1.2.3:8443/x", "http://[::ffff:10.1.2.3]/x"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in ["https://10.2.0.1/x", "http://127.0.0.1/x", "https://[::1]/x"] {
            assert_eq!(check(url), Err(EndpointError::ForbiddenAddress), "{url}");
        }
        assert_eq!(check("http://8.8.8.8/x"), Err(EndpointError::NotHttps));
        assert!(policy.permits("10.1.2.3".parse().unwrap(), false));
        assert!(!policy.permits("8.8.8.8".parse().unwrap(), false));
        assert!(policy.permits("8.8.8.8".parse().unwrap(), true));
    }

    #[test]
    fn names_with_a_special_use_are_no_endpoints() {
        let open = EndpointPolicy::new(vec!["0.0.0.0/0".parse().unwrap()]);
        for policy in [EndpointPolicy::default(), open] {
            let check = |host: &str| policy.check(&EndpointUrl::parse(&format!("https://{host}/x")).unwrap());
            for host in [
                "push.test",
                "push.invalid",
                "push.local",
                "printer.LOCAL.",
                "x.onion",
                "nas.home.arpa",
                "1.0.0.10.in-addr.arpa",
                "x.alt",
                "metadata.google.internal",
                "push．ｔｅｓｔ",
            ] {
                assert_eq!(check(host), Err(EndpointError::LocalName), "{host}");
            }
            for host in ["push.example", "example.com", "test.example.org", "onion.ly", "local.example.net"] {
                assert_eq!(check(host), Ok(()), "{host}");
            }
        }
    }

    #[test]
    fn urls_of_the_operator_may_be_private() {
        let policy = EndpointPolicy::of_operator();
        let check = |url: &str| policy.check(&EndpointUrl::parse(url).unwrap());
        for url in ["https://10.1.2.3/x", "http://127.0.0.1:8443/x", "https://gateway/x", "https://8.8.8.8/x"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        assert_eq!(check("http://gateway.internal/x"), Ok(()));
        for url in ["http://8.8.8.8/x", "http://push.example.org/x"] {
            assert_eq!(check(url), Err(EndpointError::NotHttps), "{url}");
        }
        let permits = |address: &str, tls| policy.permits(address.parse().unwrap(), tls);
        assert!(permits("10.1.2.3", false) && permits("10.1.2.3", true) && permits("8.8.8.8", true));
        assert!(!permits("8.8.8.8", false), "a key would cross the internet in the clear");
    }

    #[test]
    fn hosts_can_be_listed() {
        let rules = HostRules::new(&["*.push.example".into()], &["bad.push.example".into()]);
        let policy = EndpointPolicy::default().with_hosts(rules);
        let check = |url: &str| policy.check(&EndpointUrl::parse(url).unwrap());
        assert_eq!(check("https://a.push.example/x"), Ok(()));
        for url in ["https://bad.push.example/x", "https://BAD.push.example./x", "https://other.example/x"] {
            assert_eq!(check(url), Err(EndpointError::ForbiddenHost), "{url}");
        }
    }

    #[test]
    fn paths_join() {
        let base = EndpointUrl::parse("https://api.push.apple.com").unwrap();
        assert_eq!(base.join("/3/device/ab").unwrap().reveal(), "https://api.push.apple.com/3/device/ab");
        let base = EndpointUrl::parse("https://gateway.example.net/fcm/").unwrap();
        assert_eq!(base.join("v1/x").unwrap().reveal(), "https://gateway.example.net/fcm/v1/x");
    }
}
