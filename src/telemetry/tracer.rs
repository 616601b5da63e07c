//! Begins spans, and decides which traces are recorded.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use super::config::TelemetryConfig;
use super::exporter::{Exporter, SpanQueue};
use super::post_traces::PostTraces;
use super::record::SpanKind;
use super::span::TraceSpan;
use crate::model::{PostId, TraceContext, TraceParent};

/// Begins the spans of this process. Cheap to clone. The default records nothing.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<TraceRecorder>>);

#[derive(Debug)]
struct TraceRecorder {
    /// The share of traces that are recorded.
    sample: f64,
    queue: SpanQueue,
    posts: PostTraces,
    exporter: Exporter,
}

/// Whether the flag *sampled* of a caller makes this server record a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// A backend with an API key: its flag decides.
    Backend,
    /// A client. Anybody can set the flag, so the share of recorded traces applies; the id of the trace is kept.
    Client,
}

/// The begin of a trace, or of the part of a trace that this server adds.
pub(crate) struct NewTrace {
    /// The name of the first span.
    pub(crate) name: Cow<'static, str>,
    /// The span of the caller.
    pub(crate) parent: Option<TraceParent>,
    pub(crate) trust: Trust,
    /// When the request arrived.
    pub(crate) begun: Instant,
}

impl Tracer {
    /// A tracer as configured. `node` is the name of this node in its spans. Needs a runtime: it starts the exporter.
    ///
    /// # Errors
    /// If the HTTP client cannot be built.
    pub fn start(config: &TelemetryConfig, node: &str) -> anyhow::Result<Self> {
        let Some(url) = &config.otlp_url else { return Ok(Self(None)) };
        let (queue, exporter) = Exporter::start(url.clone(), config.headers.clone(), node)?;
        Ok(Self(Some(Arc::new(TraceRecorder { sample: config.sample, queue, posts: PostTraces::new(), exporter }))))
    }

    /// Whether traces may be recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a request, if its trace is to be recorded. `describe` is called only if traces may be.
    pub(crate) fn begin(&self, describe: impl FnOnce() -> NewTrace) -> TraceSpan {
        let Some(recorder) = &self.0 else { return TraceSpan::none() };
        let NewTrace { name, parent, trust, begun } = describe();
        let is_recorded = match parent {
            Some(TraceParent { is_sampled: false, .. }) => false,
            Some(_) if trust == Trust::Backend => true,
            _ => rand::random_bool(recorder.sample),
        };
        if !is_recorded {
            return TraceSpan::none();
        }
        let parent = parent.map(|parent| parent.context);
        let trace = parent.map_or_else(|| rand::random_range(1..=u128::MAX), |parent| parent.trace);
        let context = TraceContext { trace, span: new_span_id() };
        TraceSpan::begin(&recorder.queue, (context, parent.map(|parent| parent.span)), name, SpanKind::Server, begun)
    }

    /// Begins a span below another one, if that is recorded.
    pub(crate) fn child(&self, parent: Option<TraceContext>, name: &'static str, kind: SpanKind) -> TraceSpan {
        let (Some(recorder), Some(TraceContext { trace, span })) = (&self.0, parent) else { return TraceSpan::none() };
        let context = TraceContext { trace, span: new_span_id() };
        TraceSpan::begin(&recorder.queue, (context, Some(span)), name.into(), kind, Instant::now())
    }

    /// Deliveries of a post at this node belong below this span from now on.
    pub(crate) fn note_post(&self, post: PostId, context: Option<TraceContext>) {
        if let (Some(recorder), Some(context)) = (&self.0, context) {
            recorder.posts.note(post, context);
        }
    }

    /// The span that deliveries of a post belong below, if its trace is recorded.
    pub(crate) fn post(&self, post: PostId) -> Option<TraceContext> {
        self.0.as_ref()?.posts.get(post)
    }

    /// Sends what is queued, within a few seconds. Later spans are dropped.
    pub async fn stop(&self) {
        if let Some(recorder) = &self.0 {
            recorder.exporter.stop().await;
        }
    }
}

fn new_span_id() -> u64 {
    rand::random_range(1..=u64::MAX)
}
