//! The JSON of OTLP: ids in hexadecimal, numbers of 64 bits as text.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::record::{AttributeValue, SpanRecord};

/// The code of a failed span.
const STATUS_ERROR: u8 = 2;

/// Attributes of this process, which all of its spans have.
#[derive(Debug)]
pub(super) struct Resource {
    attributes: [(&'static str, AttributeValue); 3],
}

impl Resource {
    /// This process; `node` is the name of the node.
    pub(super) fn of(node: &str) -> Self {
        Self {
            attributes: [
                ("service.name", "feedline".into()),
                ("service.version", env!("CARGO_PKG_VERSION").into()),
                ("service.instance.id", node.to_owned().into()),
            ],
        }
    }
}

/// Encodes the body of a request with these spans.
///
/// # Errors
/// Never in practice: all spans can be encoded.
pub(super) fn encode(resource: &Resource, spans: &[SpanRecord]) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        resource_spans: [ResourceSpans<'a>; 1],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ResourceSpans<'a> {
        resource: AttributeList<'a>,
        scope_spans: [ScopeSpans<'a>; 1],
    }
    #[derive(Serialize)]
    struct AttributeList<'a> {
        attributes: Vec<Attribute<'a>>,
    }
    #[derive(Serialize)]
    struct ScopeSpans<'a> {
        scope: InstrumentationScope,
        spans: Vec<EncodedSpan<'a>>,
    }
    #[derive(Serialize)]
    struct InstrumentationScope {
        name: &'static str,
    }
    serde_json::to_vec(&Body {
        resource_spans: [ResourceSpans {
            resource: AttributeList { attributes: attributes(&resource.attributes) },
            scope_spans: [ScopeSpans {
                scope: InstrumentationScope { name: "feedline" },
                spans: spans.iter().map(EncodedSpan::of).collect(),
            }],
        }],
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EncodedSpan<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    message: &'a str,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'static str,
    value: &'a AttributeValue,
}

impl<'a> EncodedSpan<'a> {
    fn of(span: &'a SpanRecord) -> Self {
        let nanos = |since: Duration| since.as_nanos().to_string();
        Self {
            trace_id: format!("{:032x}", span.context.trace),
            span_id: format!("{:016x}", span.context.span),
            parent_span_id: span.parent.map(|parent| format!("{parent:016x}")),
            name: &span.name,
            kind: span.kind as u8,
            start_time_unix_nano: nanos(span.begin),
            end_time_unix_nano: nanos(span.begin.saturating_add(span.took)),
            attributes: attributes(&span.attributes),
            status: span.error.as_deref().map(|message| Status { code: STATUS_ERROR, message }),
        }
    }
}

fn attributes<'a>(attributes: &'a [(&'static str, AttributeValue)]) -> Vec<Attribute<'a>> {
    attributes.iter().map(|(key, value)| Attribute { key, value }).collect()
}

impl Serialize for AttributeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Text(text) => map.serialize_entry("stringValue", text)?,
            Self::Number(number) => map.serialize_entry("intValue", &number.to_string())?,
        }
        map.end()
    }
}

/// The number of spans that a collector refused, from the body of its answer to a request that it accepted.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Answer {
        partial_success: PartialSuccess,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct PartialSuccess {
        rejected_spans: serde_json::Value,
    }
    let answer: Answer = serde_json::from_slice(answer).unwrap_or_default();
    let rejected = answer.partial_success.rejected_spans;
    rejected.as_str().and_then(|text| text.parse().ok()).or(rejected.as_u64()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::TraceContext;
    use crate::telemetry::record::SpanKind;

    #[test]
    fn spans_have_the_form_of_otlp() {
        let span = SpanRecord {
            context: TraceContext { trace: 0xa1, span: 0xb2 },
            parent: Some(0xc3),
            name: "publish inboxes".into(),
            kind: SpanKind::Producer,
            begin: Duration::from_nanos(1_700_000_000_000_000_001),
            took: Duration::from_millis(2),
            attributes: vec![("messaging.system", "redis".into()), ("feedline.sockets", 7.into())],
            error: Some("unavailable".into()),
        };
        let body: Value = serde_json::from_slice(&encode(&Resource::of("host_8000"), &[span]).unwrap()).unwrap();
        let expected = json!({ "resourceSpans": [{
            "resource": { "attributes": [
                { "key": "service.name", "value": { "stringValue": "feedline" } },
                { "key": "service.version", "value": { "stringValue": env!("CARGO_PKG_VERSION") } },
                { "key": "service.instance.id", "value": { "stringValue": "host_8000" } },
            ] },
            "scopeSpans": [{ "scope": { "name": "feedline" }, "spans": [{
                "traceId": "000000000000000000000000000000a1",
                "spanId": "00000000000000b2",
                "parentSpanId": "00000000000000c3",
                "name": "publish inboxes",
                "kind": 4,
                "startTimeUnixNano": "1700000000000000001",
                "endTimeUnixNano": "1700000000002000001",
                "attributes": [
                    { "key": "messaging.system", "value": { "stringValue": "redis" } },
                    { "key": "feedline.sockets", "value": { "intValue": "7" } },
                ],
                "status": { "code": 2, "message": "unavailable" },
            }] }],
        }] });
        assert_eq!(body, expected);
    }

    #[test]
    fn refused_spans_are_counted() {
        for (answer, expected) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedSpans":3}}"#, 3),
        ] {
            assert_eq!(rejected(answer.as_bytes()), expected, "{answer}");
        }
    }
}
