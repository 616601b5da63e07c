//! The place of a span in a trace, in the form of W3C Trace Context.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The length of a `traceparent` of version 00, in bytes.
const LENGTH: usize = 55;

/// A span that is recorded, as the parent of others. Stores and nodes exchange it as a `traceparent` with the flag
/// *sampled*: spans that are not recorded have no children to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The id of the trace, not 0.
    pub trace: u128,
    /// The id of the span, not 0.
    pub span: u64,
}

/// The header `traceparent` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The span of the caller.
    pub context: TraceContext,
    /// Whether the caller records the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses a header. `None` if it is malformed: the standard has it ignored then.
    pub fn parse(text: &str) -> Option<Self> {
        let is_later = !text.starts_with("00-");
        // Later versions may append members.
        let (text, rest) = text.split_at_checked(LENGTH)?;
        if !(rest.is_empty() || is_later && rest.starts_with('-')) {
            return None;
        }
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace = hex(parts.next()?, 32)?;
        let span = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        let is_valid = version != 0xff && trace != 0 && span != 0 && parts.next().is_none();
        is_valid.then_some(Self { context: TraceContext { trace, span }, is_sampled: flags & 1 == 1 })
    }
}

/// A number of this many hexadecimal digits in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_plain = text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if is_plain { u128::from_str_radix(text, 16).ok() } else { None }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the context of a job or signal. One that is malformed or of a later version is absent: the job runs without
/// spans.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TraceContext>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| TraceParent::parse(&text)).map(|parent| parent.context))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn headers_round_trip() {
        let parent = TraceParent::parse(HEADER).unwrap();
        assert!(parent.is_sampled);
        assert_eq!(parent.context.to_string(), HEADER);
        let not_sampled = TraceParent::parse(&HEADER.replace("-01", "-00")).unwrap();
        assert_eq!((not_sampled.is_sampled, not_sampled.context), (false, parent.context));
        let later = HEADER.replacen("00", "cc", 1) + "-more";
        assert_eq!(TraceParent::parse(&later), Some(parent), "a later version");
    }

    #[test]
    fn malformed_headers_are_ignored() {
        let with = |from: &str, to: &str| HEADER.replacen(from, to, 1);
        for malformed in [
            String::new(),
            "00".to_owned(),
            HEADER[..54].to_owned(),
            format!("{HEADER}-more"),
            format!("{HEADER} "),
            with("00-", "ff-"),
            with("00-", "0x-"),
            with("4bf9", "4BF9"),
            with("4bf9", "+bf9"),
            with("-00f0", "_00f0"),
            with("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            with("00f067aa0ba902b7", "0000000000000000"),
            with("-01", "-0g"),
            with("4bf9", "4bf\u{e9}"),
        ] {
            assert_eq!(TraceParent::parse(&malformed), None, "{malformed:?}");
        }
    }
}
