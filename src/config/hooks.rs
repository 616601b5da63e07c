//! `[hooks]`: questions to the application's backend.

use std::time::Duration;

use super::layers::SectionReader;
use super::parse::{self, ParseResult};
use super::value::ConfigValue;
use crate::net::AllowedOrigins;

/// `[hooks]`. An endpoint that is `None` is not asked.
#[derive(Clone, Debug, PartialEq)]
pub struct HooksConfig {
    /// Asked who a client without a token is.
    pub connect: Option<String>,
    /// Asked when a connection without a token expires.
    pub refresh: Option<String>,
    /// Asked whether a client without a subscription token may subscribe.
    pub subscribe: Option<String>,
    /// Asked whether a client may publish.
    pub publish: Option<String>,
    /// Asked when a subscription that the subscribe hook granted expires.
    pub sub_refresh: Option<String>,
    /// Asked for methods that are not operations of Feedline.
    pub rpc: Option<String>,
    /// The namespaces whose channels `subscribe` and `publish` are asked for; empty: all.
    pub namespaces: Vec<String>,
    /// The headers of clients that are passed on, in lower case.
    pub headers: Vec<String>,
    /// The time for one answer.
    pub timeout: Duration,
    /// The maximum number of concurrent questions.
    pub concurrency: usize,
}

impl HooksConfig {
    pub(super) fn read(mut section: SectionReader<'_>, origins: &AllowedOrigins) -> Self {
        let hooks = Self {
            connect: section.read("connect", endpoint),
            refresh: section.read("refresh", endpoint),
            subscribe: section.read("subscribe", endpoint),
            publish: section.read("publish", endpoint),
            sub_refresh: section.read("sub_refresh", endpoint),
            rpc: section.read("rpc", endpoint),
            namespaces: section.read("namespaces", namespace_names),
            headers: section.read("headers", header_names),
            timeout: section.read("timeout", parse::duration("10ms"..="30s")),
            concurrency: section.read("concurrency", parse::integer(1..=10_000)),
        };
        if *origins == AllowedOrigins::Any && hooks.headers.iter().any(|name| name == "cookie") {
            section.problem(
                &["headers"],
                "with \"cookie\", every page could act as its visitor: server.origins cannot be \"*\"",
            );
        }
        hooks
    }
}

/// An `http` or `https` address; `None` if it is empty.
fn endpoint(value: &ConfigValue) -> ParseResult<Option<String>> {
    let Some(text) = parse::optional_text(value)? else { return Ok(None) };
    let expected = || "expected an address such as https://backend.example/connect".to_owned();
    let uri: axum::http::Uri = text.parse().map_err(|_| expected())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty());
    if is_http { Ok(Some(text)) } else { Err(expected()) }
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

/// Names of headers, in lower case. Those of the transport and of the question itself cannot be passed on.
fn header_names(value: &ConfigValue) -> ParseResult<Vec<String>> {
    const RESERVED: [&str; 8] =
        ["host", "connection", "content-length", "content-type", "transfer-encoding", "upgrade", "te", "trailer"];
    let name = |text: String| {
        let name =
            text.parse::<axum::http::HeaderName>().map_err(|_| format!("{text:?} is not the name of a header"))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("the header {text:?} cannot be passed on"));
        }
        Ok(name.as_str().to_owned())
    };
    parse::text_list(value)?.into_iter().map(name).collect()
}
