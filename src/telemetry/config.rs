//! `[telemetry]`: traces for a collector of OpenTelemetry.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;

use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, section};

/// The path of traces below the address of a collector.
const PATH: &str = "v1/traces";

/// Headers that the exporter sets itself.
const RESERVED_HEADERS: [&str; 5] = ["connection", "content-length", "content-type", "host", "transfer-encoding"];

section! {
    /// `[telemetry]`.
    pub struct TelemetryConfig {
        /// The address that spans are sent to; `None`: there are no traces.
        pub otlp_url: Option<Url> = collector,
        /// The share of the traces beginning at this node that are recorded, from 0 to 1.
        pub sample: f64 = parse::share,
        /// Headers of the requests to the collector. Their values are secrets.
        pub headers: HeaderMap = headers,
    }
}

/// The address of a collector, with the path of traces; `None` if it is empty.
fn collector(value: &ConfigValue) -> ParseResult<Option<Url>> {
    let Some(mut url) = parse::optional_url(value, "http://collector:4318")? else { return Ok(None) };
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a user or a password: telemetry.headers has the credentials".into());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/v1/traces") {
        url.set_path(&format!("{path}/{PATH}"));
    }
    Ok(Some(url))
}

/// Headers, each as `name: value`. Errors do not repeat them.
fn headers(value: &ConfigValue) -> ParseResult<HeaderMap> {
    let expected = "expected headers such as \"authorization: Bearer …\"";
    let mut headers = HeaderMap::new();
    for header in parse::text_list(value)? {
        let (name, value) = header.split_once(':').ok_or(expected)?;
        let name: HeaderName = name.trim().parse().map_err(|_| expected)?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| expected)?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(format!("the header {name} cannot be set"));
        }
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}
