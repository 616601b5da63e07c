//! A span: a piece of work with a begin and an end, and its place in a trace.

use std::borrow::Cow;
use std::time::Duration;

use crate::model::TraceContext;

/// The role of a span, with its number in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A request of a client.
    Server = 2,
    /// A call to a store.
    Client = 3,
    /// A message that others process later.
    Producer = 4,
    /// The processing of such a message.
    Consumer = 5,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttributeValue {
    Text(Cow<'static, str>),
    Number(i64),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A finished span.
#[derive(Debug)]
pub(super) struct SpanRecord {
    pub(super) context: TraceContext,
    /// The id of the parent; `None`: the trace begins here.
    pub(super) parent: Option<u64>,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: SpanKind,
    /// Since the Unix epoch.
    pub(super) begin: Duration,
    pub(super) took: Duration,
    pub(super) attributes: Vec<(&'static str, AttributeValue)>,
    /// Why the work failed, if it did.
    pub(super) error: Option<Cow<'static, str>>,
}
