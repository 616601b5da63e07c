//! The hosts and base paths under which clients reach this server, and URLs of its own API at them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;
use axum::http::header::HOST;
use parking_lot::RwLock;
use percent_encoding::percent_decode_str;
use reqwest::Url;

use super::BasePath;

/// The maximal number of hosts that are learned from requests, and the longest name.
const MAX_SEEN: usize = 32;
const MAX_NAME: usize = 253;

/// The maximal number of base paths that are learned from requests. Only proxies can name them.
const MAX_BASE_PATHS: usize = 16;

/// The first segments of paths that change something, or return data of one client.
const API: [&str; 3] = ["api", "connection", "emulation"];

/// The most times that a path is percent-decoded. Each proxy may do so once.
const MAX_DECODED: usize = 4;

/// The hosts of this server: loopback, those of the configuration, and those that requests name. A client may name any
/// host, so the one that was named least is forgotten first.
#[derive(Debug, Default)]
pub struct OwnHosts {
    configured: RwLock<Vec<String>>,
    seen: RwLock<Vec<SeenHost>>,
    /// The base paths other than the root.
    base_paths: RwLock<Vec<BasePath>>,
}

#[derive(Debug)]
struct SeenHost {
    name: String,
    requests: AtomicU64,
}

impl OwnHosts {
    /// Begins with the hosts of these addresses and origins, such as `10.0.0.1:8000` and `https://feed.example.org`.
    pub fn new<'a>(configured: impl IntoIterator<Item = &'a str>) -> Self {
        let hosts = Self::default();
        hosts.add(configured);
        hosts
    }

    /// Adds the hosts of these addresses and origins.
    pub fn add<'a>(&self, configured: impl IntoIterator<Item = &'a str>) {
        let names = configured.into_iter().map(|text| text.rsplit_once("//").map_or(text, |(_, host)| host));
        let mut known = self.configured.write();
        for name in names.map(canonical) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }

    /// Notes the base path of a request.
    pub fn note_base_path(&self, base: &BasePath) {
        let is_known = |known: &[BasePath]| base.is_root() || known.contains(base) || known.len() == MAX_BASE_PATHS;
        if is_known(&self.base_paths.read()) {
            return;
        }
        let mut known = self.base_paths.write();
        if !is_known(&known) {
            known.push(base.clone());
        }
    }

    /// Notes the host that a request names.
    pub fn note(&self, headers: &HeaderMap) {
        let Some(name) = headers.get(HOST).and_then(|host| host.to_str().ok()).map(bare_host) else { return };
        if self.seen.read().iter().any(|seen| seen.count_if_named(name)) || !(1..=MAX_NAME).contains(&name.len()) {
            return;
        }
        let name = canonical(name);
        let mut seen = self.seen.write();
        if seen.iter().any(|seen| seen.count_if_named(&name)) {
            return;
        }
        if seen.len() == MAX_SEEN {
            let rarest = seen.iter().enumerate().min_by_key(|(_, seen)| seen.requests.load(Ordering::Relaxed));
            if let Some((rarest, _)) = rarest {
                seen.swap_remove(rarest);
            }
        }
        seen.push(SeenHost { name, requests: AtomicU64::new(1) });
    }

    /// Whether a browser that loads the URL would send a request to the API of this server, however the URL is written.
    /// `url` is absolute, or a path of this server.
    pub fn is_own_api(&self, url: &str) -> bool {
        let Ok(url) = Url::parse("http://localhost/").and_then(|page| page.join(url)) else { return false };
        let host = canonical(url.host_str().unwrap_or_default());
        let is_loopback = match host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback() || address.to_canonical().is_unspecified(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        };
        let is_own = is_loopback
            || self.configured.read().contains(&host)
            || self.seen.read().iter().any(|seen| seen.name == host);
        is_own && is_api_path(url.path(), &self.base_paths.read())
    }
}

impl SeenHost {
    /// Whether a request names this host; counts it.
    fn count_if_named(&self, name: &str) -> bool {
        let is_same = self.name.eq_ignore_ascii_case(name);
        if is_same {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        is_same
    }
}

/// The host of an authority, in the form in which hosts are compared.
fn canonical(authority: &str) -> String {
    let host = bare_host(authority).to_ascii_lowercase();
    host.parse::<IpAddr>().map_or(host, |address| address.to_canonical().to_string())
}

/// The host of an authority, without brackets and a dot at the end.
fn bare_host(authority: &str) -> &str {
    without_port(authority).trim_matches(['[', ']']).trim_end_matches('.')
}

fn without_port(authority: &str) -> &str {
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    match authority.rsplit_once(':') {
        // The colons of an IPv6 address without brackets are its own.
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => host,
        _ => authority,
    }
}

/// Whether a path is below one of [`API`], at the root or a base path, as this server or a proxy before it may read it.
fn is_api_path(path: &str, base_paths: &[BasePath]) -> bool {
    let mut path = path.to_owned();
    for _ in 0..MAX_DECODED {
        let mut segments: Vec<&str> = Vec::new();
        for segment in path.split(['/', '\\']) {
            let segment = segment.split(';').next().unwrap_or_default();
            match segment.trim_matches(|c: char| c.is_control() || c.is_whitespace()) {
                "" | "." => {}
                ".." => _ = segments.pop(),
                segment => segments.push(segment),
            }
        }
        let is_api = |segments: &[&str]| {
            segments.first().is_some_and(|first| API.iter().any(|api| first.eq_ignore_ascii_case(api)))
        };
        let is_below = |base: &BasePath| {
            let base: Vec<&str> = base.as_str().split('/').skip(1).collect();
            let (above, below) = segments.split_at(base.len().min(segments.len()));
            above.iter().zip(&base).all(|(one, other)| one.eq_ignore_ascii_case(other)) && is_api(below)
        };
        if is_api(&segments) || base_paths.iter().any(is_below) {
            return true;
        }
        let decoded = percent_decode_str(&path).decode_utf8_lossy();
        if decoded == path {
            return false;
        }
        path = decoded.into_owned();
    }
    // Nobody writes a path so.
    true
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn named(host: &str) -> HeaderMap {
        HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())])
    }

    #[test]
    fn urls_of_the_own_api_are_recognised_in_any_disguise() {
        let hosts = OwnHosts::new(["10.1.2.3:8000", "https://app.example.org:8443"]);
        hosts.note(&named("Feed.Example.org:443"));
        for url in [
            "/api",
            "/api/",
            "/api/v1/posts",
            "/API/v1",
            "/emulation",
            "/connection/sse?cf_connect=x",
            "/api?x",
            "/api#x",
            "/x/../api",
            "/./api",
            "/x/%2e%2e/api",
            "/%61pi/v1",
            "/%2561pi",
            "/%25252525252561",
            "/api;x=1/v1",
            "/%5capi",
            "/a/..%2fapi",
            "/%2f/api",
            "/api%00",
            "/%09api",
            "//localhost/api",
            "http://127.0.0.1/api",
            "http://127.1:8000/api",
            "http://0x7f000001/api",
            "http://[::1]:9/api",
            "http://0.0.0.0/api",
            "http://[::ffff:127.0.0.1]/api",
            "http://localhost:1/api",
            "http://a.localhost/api",
            "https://10.1.2.3/api",
            "https://feed.example.org/api",
            "http://FEED.example.org:80/api",
            "https://feed.example.org./api",
            "https://cdn.example@feed.example.org/api",
            "https://user:key@feed.example.org/x/../api",
            "https:\\\\feed.example.org\\api",
            "https:/feed.example.org/api",
            "https://feed%2eexample.org/api",
            "https://\u{ff46}eed.example.org/api",
            "https://app.example.org/connection/uni_sse",
        ] {
            assert!(hosts.is_own_api(url), "{url}");
        }
        for url in [
            "/demo/1.svg",
            "/apis/x",
            "/pictures/api/1.jpg",
            "/api.png",
            "/x/api",
            "https://cdn.example/api/v1/1.jpg",
            "https://feed.example.org@cdn.example/api",
            "https://feed.example.org.evil.example/api",
            "https://feed.example.org/pictures/1.jpg",
            "https://cdn.example/?u=https://feed.example.org/api",
            "/50%",
        ] {
            assert!(!hosts.is_own_api(url), "{url}");
        }
    }

    #[test]
    fn the_own_api_is_below_each_base_path() {
        let hosts = OwnHosts::default();
        assert!(!hosts.is_own_api("/my/feed/api/v1/posts"));
        hosts.note_base_path(&BasePath::default());
        hosts.note_base_path(&BasePath::parse("/my/feed").unwrap());
        for url in
            ["/api", "/my/feed/api/v1/posts", "http://localhost/My/feed/api", "/my/%66eed/connection", "/my//feed/api"]
        {
            assert!(hosts.is_own_api(url), "{url}");
        }
        for url in ["/my/feed/demo/1.svg", "/my/api", "/my/feed", "/feed/api", "/other/feed/api", "/my/feeds/api"] {
            assert!(!hosts.is_own_api(url), "{url}");
        }
        for number in 0..1_000 {
            hosts.note_base_path(&BasePath::parse(&format!("/{number}")).unwrap());
        }
        assert_eq!(hosts.base_paths.read().len(), MAX_BASE_PATHS);
    }

    #[test]
    fn a_client_that_invents_hosts_hides_none() {
        let hosts = OwnHosts::default();
        for _ in 0..3 {
            hosts.note(&named("feed.example.org"));
        }
        for number in 0..1_000 {
            hosts.note(&named(&format!("invented-{number}.example")));
        }
        hosts.note(&named(&"x".repeat(254)));
        assert!(hosts.is_own_api("https://feed.example.org/api"));
        assert_eq!(hosts.seen.read().len(), MAX_SEEN);
    }
}
