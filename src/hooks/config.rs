//! `[hooks]`: questions to the application's backend.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;

use crate::net::{AllowedOrigins, is_public};
use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, SectionReader, nearest, section};

/// Headers of clients that a browser adds by itself, also to requests that a foreign page causes: cookies, and the name
/// and password of HTTP authentication.
const AMBIENT_HEADERS: [&str; 2] = ["cookie", "authorization"];

/// Headers of the transport, and of the question itself, which cannot be passed on.
const RESERVED_HEADERS: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

section! {
    /// `[hooks]`. An endpoint that is `None` is not asked.
    pub struct HooksConfig {
        /// Asked who a client without a token is.
        pub connect: Option<String> = endpoint,
        /// Asked when a connection without a token expires.
        pub refresh: Option<String> = endpoint,
        /// Asked whether a client without a subscription token may subscribe.
        pub subscribe: Option<String> = endpoint,
        /// Asked whether a client may publish.
        pub publish: Option<String> = endpoint,
        /// Asked when a subscription that the subscribe hook granted expires.
        pub sub_refresh: Option<String> = endpoint,
        /// Asked for methods that are not operations of Feedline.
        pub rpc: Option<String> = endpoint,
        /// The namespaces whose channels `subscribe` and `publish` are asked for; empty: all.
        pub namespaces: Vec<String> = namespace_names,
        /// The headers of clients that are passed on, in lower case.
        pub headers: Vec<String> = header_names,
        /// The time for one answer.
        pub timeout: Duration = parse::duration("10ms"..="30s"),
        /// The maximum number of concurrent questions.
        pub concurrency: usize = parse::integer(1..=10_000),
        /// Whether endpoints may be `http` beyond private networks.
        pub allow_insecure: bool = parse::boolean,
    }
}

impl HooksConfig {
    pub(crate) fn read(mut section: SectionReader<'_>, origins: &AllowedOrigins, namespaces: &[&str]) -> Self {
        let hooks = Self::read_keys(&mut section);
        hooks.check_headers(&mut section, origins);
        hooks.check_endpoints(&mut section);
        hooks.check_namespaces(&mut section, namespaces);
        hooks
    }

    /// Reports headers by which every page could act as its visitor.
    fn check_headers(&self, section: &mut SectionReader<'_>, origins: &AllowedOrigins) {
        let ambient = AMBIENT_HEADERS.into_iter().find(|ambient| self.headers.iter().any(|name| name == ambient));
        if let Some(name) = ambient.filter(|_| *origins == AllowedOrigins::Any) {
            let problem = "every page could act as its visitor: server.origins cannot be \"*\"; list the origins of \
                           your pages (clients that are no browsers need none)";
            section.problem(&["headers"], &format!("with {name:?}, {problem}"));
        }
    }

    /// Reports endpoints that are asked about nothing, or that everybody on the way can answer for.
    fn check_endpoints(&self, section: &mut SectionReader<'_>) {
        for (key, hook, granting_key, granting) in [
            ("refresh", &self.refresh, "connect", &self.connect),
            ("sub_refresh", &self.sub_refresh, "subscribe", &self.subscribe),
        ] {
            if hook.is_some() && granting.is_none() {
                let message = format!("is asked about what hooks.{granting_key} granted only: set that, too");
                section.problem(&[key], &message);
            }
        }
        for (key, hook) in [
            ("connect", &self.connect),
            ("refresh", &self.refresh),
            ("subscribe", &self.subscribe),
            ("publish", &self.publish),
            ("sub_refresh", &self.sub_refresh),
            ("rpc", &self.rpc),
        ] {
            if !self.allow_insecure && hook.as_deref().is_some_and(is_exposed) {
                let message = "expected https, or http to a private address or a name without dots \
                               (hooks.allow_insecure = true accepts http elsewhere)";
                section.problem(&[key], message);
            }
        }
    }

    /// Reports namespaces that do not exist: `subscribe` and `publish` would not be asked for those that are meant.
    fn check_namespaces(&self, section: &mut SectionReader<'_>, namespaces: &[&str]) {
        let names = || namespaces.iter().copied();
        for unknown in self.namespaces.iter().filter(|name| !names().any(|known| known == *name)) {
            let hint =
                nearest(unknown, names()).map(|known| format!("; did you mean {known:?}?")).unwrap_or_else(|| {
                    let known: Vec<String> = names().map(|name| format!("{name:?}")).collect();
                    if known.is_empty() { ": there are none".into() } else { format!(", only {}", known.join(", ")) }
                });
            section.problem(&["namespaces"], &format!("there is no namespace {unknown:?}{hint}"));
        }
    }
}

/// An `http` or `https` address; `None` if it is empty.
fn endpoint(value: &ConfigValue) -> ParseResult<Option<String>> {
    let url = parse::optional_url(value, "https://backend.example/connect")?;
    Ok(url.map(String::from))
}

/// Whether questions and answers cross networks of others in the clear: cookies, and who a client is.
fn is_exposed(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_beyond = address.map_or_else(|_| host.contains('.'), |address| is_public(address.to_canonical()));
    url.scheme() == "http" && is_beyond
}

/// Names of namespaces.
fn namespace_names(value: &ConfigValue) -> ParseResult<Vec<String>> {
    let is_plain = |name: &String| {
        name.len() <= 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
    };
    let name = |name: String| match is_plain(&name) {
        true => Ok(name),
        false => Err(format!("{name:?} is not the name of a namespace: a-z 0-9 _ -")),
    };
    parse::text_list(value)?.into_iter().map(name).collect()
}

/// Names of headers, in lower case.
fn header_names(value: &ConfigValue) -> ParseResult<Vec<String>> {
    let name = |text: String| {
        let name =
            text.parse::<axum::http::HeaderName>().map_err(|_| format!("{text:?} is not the name of a header"))?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(format!("the header {text:?} cannot be passed on"));
        }
        Ok(name.as_str().to_owned())
    };
    parse::text_list(value)?.into_iter().map(name).collect()
}
