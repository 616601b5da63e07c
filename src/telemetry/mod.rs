//! Traces: what a request caused, from HTTP to the sockets of all nodes, sent to a collector by OTLP over HTTP.
//!
//! A [`Tracer`] begins spans. Each finished span goes into a bounded queue, and one task sends the queue in batches. A
//! collector that is slow or away costs spans, and never time of a request. Without `telemetry.otlp_url`, a tracer is
//! `None`, and so is each of its spans.
//!
//! The place of a span in its trace ([`TraceContext`](crate::model::TraceContext)) travels by three ways:
//!
//! - within the process, as an argument;
//! - to the node that runs the fan-out, in the row of the job;
//! - to the nodes that deliver a post, by a signal before the first hint: see `post_traces.rs`.
//!
//! | file | contents |
//! |---|---|
//! | `config.rs` | `[telemetry]` |
//! | `tracer.rs` | begins spans: sampling, trust in the callers |
//! | `span.rs`, `record.rs` | a span under way; its name, times and attributes |
//! | `post_traces.rs` | the traces of posts that nodes are delivering |
//! | `exporter.rs` | the queue, and the task that sends it |
//! | `otlp.rs` | the JSON of OTLP |

mod config;
mod exporter;
mod otlp;
mod post_traces;
mod record;
mod span;
mod tracer;

pub use config::TelemetryConfig;
pub(crate) use exporter::register;
pub(crate) use record::SpanKind;
pub(crate) use span::TraceSpan;
pub use tracer::Tracer;
pub(crate) use tracer::{NewTrace, Trust};
