//! `[[auth.issuers]]`: issuers of tokens with keys of their own, and the addresses of keys.

use std::net::IpAddr;

use axum::http::Uri;

use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, TableReader, tables};

/// The maximum number of issuers: each has a task, and its keys stay in memory.
const MAX_ISSUERS: usize = 32;

/// An issuer with keys of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerConfig {
    /// The `iss` claim of its tokens.
    pub name: String,
    /// The address of its keys, as a JWKS.
    pub jwks_url: String,
    /// The audience that the `aud` claim of its tokens must contain; `None`: any.
    pub audience: Option<String>,
}

/// Reads the list of issuers.
pub(super) fn read(value: &ConfigValue) -> ParseResult<Vec<IssuerConfig>> {
    let tables = tables(value, "auth.issuers")?;
    if tables.len() > MAX_ISSUERS {
        return Err(format!("expected at most {MAX_ISSUERS} issuers"));
    }
    let mut issuers: Vec<IssuerConfig> = Vec::new();
    for (index, (_, table)) in tables.into_iter().enumerate() {
        let mut item = TableReader::new(table, format!("issuers[{index}]"));
        let issuer = IssuerConfig {
            name: item.read("issuer", claim_value, None),
            jwks_url: item.read("jwks_url", address, None),
            audience: item.read("audience", parse::exact_text, Some(None)),
        };
        item.report_unknown();
        if let Some((_, key, message)) = item.problems.first() {
            return Err(format!("{key}: {message}"));
        }
        if issuers.iter().any(|other| other.name == issuer.name) {
            return Err(format!("there is another issuer {:?}", issuer.name));
        }
        issuers.push(issuer);
    }
    Ok(issuers)
}

/// The address of a JWKS; `None` if it is empty.
pub(super) fn optional_address(value: &ConfigValue) -> ParseResult<Option<String>> {
    let url = parse::optional_url(value, "https://id.example/jwks.json")?;
    Ok(url.map(String::from))
}

/// The address of a JWKS.
fn address(value: &ConfigValue) -> ParseResult<String> {
    optional_address(value)?.ok_or_else(|| "must not be empty".into())
}

/// A name that tokens have in a claim.
fn claim_value(value: &ConfigValue) -> ParseResult<String> {
    parse::exact_text(value)?.ok_or_else(|| "must not be empty".into())
}

/// Whether nobody on the way can replace the keys of an address: it has TLS, or is on this machine.
pub(super) fn is_protected(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    uri.scheme_str() == Some("https") || host == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        for url in ["https://id.example/keys", "http://127.0.0.1:9/", "http://[::1]:9/keys", "http://localhost/keys"] {
            assert!(is_protected(url), "{url}");
        }
        for url in ["http://id.example/", "http://10.0.0.1/", "http://localhost.example/", "http://127.0.0.1.example/"]
        {
            assert!(!is_protected(url), "{url}");
        }
    }
}
