//! The deliveries of one batch of rooms: their latency, and one span for each post whose trace is recorded.

use smallvec::SmallVec;

use super::broadcaster::Broadcaster;
use super::log_tracker::WaitingEntries;
use crate::feed::now;
use crate::model::{Entry, PostId};
use crate::telemetry::{SpanKind, TraceSpan, Tracer};

/// Deliveries under way.
pub(super) struct Deliveries<'a> {
    pub(super) broadcaster: &'a Broadcaster,
    spans: SmallVec<[PostSpan; 1]>,
}

struct PostSpan {
    post: PostId,
    span: TraceSpan,
    /// The sockets that receive the post.
    sockets: u64,
}

impl<'a> Deliveries<'a> {
    /// Begins the deliveries of these entries.
    pub(super) fn begin<'w>(
        broadcaster: &'a Broadcaster,
        tracer: &Tracer,
        waiting: impl Iterator<Item = &'w WaitingEntries>,
    ) -> Self {
        let mut deliveries = Self { broadcaster, spans: SmallVec::new() };
        if tracer.is_on() {
            deliveries.begin_spans(tracer, waiting);
        }
        deliveries
    }

    fn begin_spans<'w>(&mut self, tracer: &Tracer, waiting: impl Iterator<Item = &'w WaitingEntries>) {
        let posts = waiting.flat_map(|waiting| &waiting.entries).filter_map(|(_, entry)| match entry {
            Entry::Post(post) => Some(*post),
            _ => None,
        });
        // Most rooms of a batch wait for the same post.
        let mut last = None;
        for post in posts {
            if last.replace(post) == Some(post) || self.spans.iter().any(|known| known.post == post) {
                continue;
            }
            let span = tracer.child(tracer.post(post), "deliver post", SpanKind::Consumer);
            if span.is_recorded() {
                self.spans.push(PostSpan { post, span, sockets: 0 });
            }
        }
    }

    /// An entry was put into the send queues of so many sockets.
    pub(super) fn delivered(&mut self, entry: &Entry, sockets: u64) {
        self.broadcaster.record_latency(entry, now());
        if let Entry::Post(post) = entry
            && let Some(known) = self.spans.iter_mut().find(|known| known.post == *post)
        {
            known.sockets += sockets;
        }
    }

    /// All rooms were served. Posts that no socket received have no span.
    pub(super) fn end(self) {
        for PostSpan { mut span, sockets, .. } in self.spans {
            if sockets == 0 {
                span.discard();
                continue;
            }
            span.set("messaging.operation.type", "process");
            span.set("feedline.sockets", sockets);
            span.end();
        }
    }
}
