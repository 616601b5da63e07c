//! A span under way.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::exporter::SpanQueue;
use super::record::{AttributeValue, SpanKind, SpanRecord};
use crate::model::TraceContext;

/// A span under way, if its trace is recorded. [`end`](Self::end) finishes it. One that is dropped before, because its
/// client is gone or its task panicked, is recorded as failed.
#[derive(Debug, Default)]
pub(crate) struct TraceSpan(Option<Box<ActiveSpan>>);

#[derive(Debug)]
struct ActiveSpan {
    record: SpanRecord,
    begun: Instant,
    queue: SpanQueue,
}

impl TraceSpan {
    /// A span of a trace that is not recorded.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// A span that began at `begun`.
    pub(super) fn begin(
        queue: &SpanQueue,
        place: (TraceContext, Option<u64>),
        name: Cow<'static, str>,
        kind: SpanKind,
        begun: Instant,
    ) -> Self {
        let (context, parent) = place;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begin = now.saturating_sub(begun.elapsed());
        let took = Duration::ZERO;
        let record = SpanRecord { context, parent, name, kind, begin, took, attributes: Vec::new(), error: None };
        Self(Some(Box::new(ActiveSpan { record, begun, queue: queue.clone() })))
    }

    /// Whether the span is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// The parent of the spans that this one causes; `None`: they are not recorded either.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|span| span.record.context)
    }

    /// Sets an attribute. Attributes contain no ids of users and no text of theirs.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<AttributeValue>) {
        if let Some(span) = &mut self.0 {
            span.record.attributes.push((key, value.into()));
        }
    }

    /// The work has failed.
    pub(crate) fn fail(&mut self, error: impl Into<Cow<'static, str>>) {
        if let Some(span) = &mut self.0 {
            span.record.error = Some(error.into());
        }
    }

    /// The work is done: the span is queued for the collector.
    pub(crate) fn end(mut self) {
        if let Some(span) = self.0.take() {
            span.finish();
        }
    }

    /// Nothing was done: the span is not recorded.
    pub(crate) fn discard(mut self) {
        self.0 = None;
    }
}

impl ActiveSpan {
    fn finish(mut self) {
        self.record.took = self.begun.elapsed();
        self.queue.push(self.record);
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.0.take() {
            span.record.error.get_or_insert("dropped before its end".into());
            span.finish();
        }
    }
}
