//! The address of a client behind trusted proxies, from `X-Forwarded-For` or, if that is missing, from `Forwarded` (RFC
//! 7239).
//!
//! Each proxy appends the address of its peer at the right; clients can forge the entries further left. Therefore the
//! hops are read from the right: trusted proxies are skipped, and the first other address is the client.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::TrustedProxies;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of the client that sent a request. `peer` is the other end of the connection.
///
/// A proxy writes one of the two headers and forwards the other as the client sent it, so only one of them is reliable.
/// Nearly all proxies write `X-Forwarded-For`: if it is present, `Forwarded` is ignored.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    let peer = peer.to_canonical();
    if !trusted.contains(peer) {
        return peer;
    }
    if headers.contains_key(X_FORWARDED_FOR) {
        first_untrusted(peer, values(headers, &X_FORWARDED_FOR).flat_map(x_forwarded_for), trusted)
    } else {
        first_untrusted(peer, values(headers, &FORWARDED).flat_map(forwarded), trusted)
    }
}

/// The first untrusted hop from the right, or the last hop before an entry that is not an address.
fn first_untrusted(peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>, trusted: &TrustedProxies) -> IpAddr {
    let mut client = peer;
    for hop in hops {
        let Some(hop) = hop else { break };
        client = hop;
        if !trusted.contains(hop) {
            break;
        }
    }
    client
}

/// The values of a header, the last one first, as bytes: values from clients need not be text.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().rev().map(HeaderValue::as_bytes)
}

/// The hops of one `X-Forwarded-For` value, from right to left.
fn x_forwarded_for(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    value.rsplit(|byte| *byte == b',').map(node)
}

/// The hops of one `Forwarded` value, from right to left.
fn forwarded(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let (before, element) = rsplit_unquoted(rest?, b',');
        rest = before;
        Some(for_parameter(element))
    })
}

/// The address in the `for` parameter of an element such as `for=192.0.2.60;proto=http;by=203.0.113.43`.
fn for_parameter(element: &[u8]) -> Option<IpAddr> {
    let mut rest = Some(element);
    while let Some(pairs) = rest {
        let (before, pair) = rsplit_unquoted(pairs, b';');
        rest = before;
        let pair = pair.trim_ascii();
        if pair.len() > 4 && pair[..4].eq_ignore_ascii_case(b"for=") {
            let value = &pair[4..];
            return node(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value));
        }
    }
    None
}

/// Splits at the last separator outside of quotes. Returns the text before it (`None` without a separator) and the text
/// after it.
fn rsplit_unquoted(text: &[u8], separator: u8) -> (Option<&[u8]>, &[u8]) {
    let escaped = |at: usize| text[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    let mut quoted = false;
    for at in (0..text.len()).rev() {
        match text[at] {
            b'"' if !(quoted && escaped(at)) => quoted = !quoted,
            byte if byte == separator && !quoted => return (Some(&text[..at]), &text[at + 1..]),
            _ => {}
        }
    }
    (None, text)
}

/// Parses an address in the forms that proxies write: `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:4711`. `None` for `unknown` and for obfuscated identifiers.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let address = text.parse().ok().or_else(bracketed);
    address.or_else(|| text.parse::<SocketAddr>().ok().map(|at| at.ip())).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The name and the value of a header.
    type Header<'a> = (&'static str, &'a str);

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn trusted() -> TrustedProxies {
        TrustedProxies::parse(["10.0.0.0/8", "fd00::/8"]).expect("networks")
    }

    fn headers(pairs: &[Header<'_>]) -> HeaderMap {
        let pair = |(name, value): &Header<'_>| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
        };
        let mut headers = HeaderMap::new();
        pairs.iter().map(pair).for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    #[test]
    fn the_rightmost_untrusted_hop_is_the_client() {
        let cases: &[(&str, &[Header<'_>], &str)] = &[
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            ("::ffff:10.0.0.1", &[("x-forwarded-for", "::ffff:192.0.2.1")], "192.0.2.1"),
            ("192.0.2.9", &[("x-forwarded-for", "192.0.2.1")], "192.0.2.9"),
            ("192.0.2.9", &[("forwarded", "for=192.0.2.1")], "192.0.2.9"),
            ("10.0.0.1", &[("x-forwarded-for", "203.0.113.5, 192.0.2.1 , 10.2.0.1")], "192.0.2.1"),
            ("10.0.0.1", &[("x-forwarded-for", "203.0.113.5"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            ("10.0.0.1", &[("x-forwarded-for", "203.0.113.5,192.0.2.1"), ("x-forwarded-for", "10.3.0.1")], "192.0.2.1"),
            ("10.0.0.1", &[("x-forwarded-for", "10.0.0.9, 10.0.0.8")], "10.0.0.9"),
            ("10.0.0.1", &[("x-forwarded-for", "203.0.113.5, unknown, 10.0.0.8")], "10.0.0.8"),
            ("10.0.0.1", &[("x-forwarded-for", "203.0.113.5, ")], "10.0.0.1"),
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.1:4711")], "192.0.2.1"),
            ("fd00::1", &[("x-forwarded-for", "[2001:db8::1]:4711")], "2001:db8::1"),
            ("10.0.0.1", &[("x-forwarded-for", "2001:db8::1")], "2001:db8::1"),
            ("10.0.0.1", &[("forwarded", "for=192.0.2.1")], "192.0.2.1"),
            ("10.0.0.1", &[("forwarded", r#"For="[2001:db8::1]:4711";proto=https"#)], "2001:db8::1"),
            ("10.0.0.1", &[("forwarded", "for=203.0.113.5, by=x;FOR=192.0.2.1;proto=http, for=10.1.1.1")], "192.0.2.1"),
            ("10.0.0.1", &[("forwarded", r#"for=192.0.2.1;host="a,b;for=203.0.113.5""#)], "192.0.2.1"),
            ("10.0.0.1", &[("forwarded", r#"for="203.0.113.5, for=192.0.2.1"#)], "192.0.2.1"),
            ("10.0.0.1", &[("forwarded", "for=203.0.113.5, for=_hidden")], "10.0.0.1"),
            ("10.0.0.1", &[("forwarded", "proto=https")], "10.0.0.1"),
            ("10.0.0.1", &[("forwarded", "for=203.0.113.5"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
        ];
        for (peer, given, expected) in cases {
            assert_eq!(client_address(ip(peer), &headers(given), &trusted()), ip(expected), "{peer} {given:?}");
        }
    }

    fn any_header() -> impl Strategy<Value = Vec<u8>> {
        let odd = r#"(for=|[0-9a-f.:]{0,9}|10\.0\.0\.1|192\.0\.2\.1|[\]\[",;=\\ ]|é|unknown){0,12}"#;
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..64), odd.prop_map(String::into_bytes)]
    }

    proptest! {
        #[test]
        fn random_headers_neither_panic_nor_spoof(left in any_header(), forwarded in any::<bool>()) {
            let name = if forwarded { FORWARDED } else { X_FORWARDED_FOR };
            let given = HeaderValue::from_bytes(&left).ok();
            let mut headers = HeaderMap::new();
            headers.extend(given.map(|value| (name.clone(), value)));
            client_address(ip("10.0.0.1"), &headers, &trusted());
            prop_assert_eq!(client_address(ip("192.0.2.9"), &headers, &trusted()), ip("192.0.2.9"));
            // The rightmost address is the client's, regardless of the headers that the client sent.
            let added: &[u8] = if forwarded { b", for=198.51.100.7" } else { b", 198.51.100.7" };
            if let Ok(value) = HeaderValue::from_bytes(&[&left, added].concat()) {
                headers.insert(name, value);
                prop_assert_eq!(client_address(ip("10.0.0.1"), &headers, &trusted()), ip("198.51.100.7"));
            }
        }
    }
}
