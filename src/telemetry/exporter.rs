//! The queue of finished spans, and the task that sends it to the collector.
//!
//! A batch that the collector does not accept is dropped, and the next one waits for a moment. Meanwhile the queue may
//! fill up; further spans are dropped. Spans are never worth more than that: nothing is repeated, and nobody waits.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use parking_lot::Mutex as SyncMutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::otlp::{Resource, encode, rejected};
use super::record::SpanRecord;
use crate::backoff::Backoff;
use crate::store_outage::OutageLog;
use crate::supervisor::supervise;

/// Finished spans that wait, at some hundred bytes each.
const MAX_QUEUED: usize = 2_048;

/// The spans of one request.
const MAX_BATCH: usize = 512;

/// How long a batch gathers spans, from its first one on.
const GATHER_TIME: Duration = Duration::from_secs(1);

/// The time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The time to send what is queued when the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The first pause after a failed request; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The part of an answer that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// What became of a span.
#[derive(Clone, Copy)]
enum SpanOutcome {
    Sent,
    /// The queue was full.
    Dropped,
    /// The collector was not reached, or refused it.
    Failed,
}

impl SpanOutcome {
    const ALL: [Self; 3] = [Self::Sent, Self::Dropped, Self::Failed];

    fn count(self, spans: u64) {
        let outcome = match self {
            Self::Sent => "sent",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        };
        SPANS.get_or_create(&SpanLabels { outcome }).inc_by(spans);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SpanLabels {
    outcome: &'static str,
}

/// The spans of this process.
static SPANS: LazyLock<Family<SpanLabels, Counter>> = LazyLock::new(Family::default);

/// Registers the counter.
pub(crate) fn register(r: &mut Registry) {
    SpanOutcome::ALL.into_iter().for_each(|outcome| outcome.count(0));
    let meaning = "Spans of recorded traces, by outcome: `sent` to the collector; `dropped`, because the queue was \
                   full; `failed`, because the collector was not reached or refused them";
    r.register("spans", meaning, SPANS.clone());
}

/// The sending end of the queue.
#[derive(Clone, Debug)]
pub(super) struct SpanQueue(mpsc::Sender<SpanRecord>);

impl SpanQueue {
    /// Queues a span, or drops it if the queue is full.
    pub(super) fn push(&self, span: SpanRecord) {
        if self.0.try_send(span).is_err() {
            SpanOutcome::Dropped.count(1);
        }
    }
}

/// The task that sends the queue.
#[derive(Debug)]
pub(super) struct Exporter {
    stopping: CancellationToken,
    task: SyncMutex<Option<AbortOnDropHandle<()>>>,
}

impl Exporter {
    /// Starts the task. Returns the queue, too.
    ///
    /// # Errors
    /// If the HTTP client cannot be built.
    pub(super) fn start(url: Url, headers: HeaderMap, node: &str) -> anyhow::Result<(SpanQueue, Self)> {
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .default_headers(headers)
            .pool_max_idle_per_host(1)
            .build()
            .context("the spans cannot be sent (telemetry.otlp_url)")?;
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let stopping = CancellationToken::new();
        let task = Arc::new(ExportTask {
            collector: Collector { client, url, resource: Resource::of(node) },
            queue: Mutex::new(receiver),
            outage: OutageLog::new("collector", "the collector of traces", &[]),
            stopping: stopping.clone(),
        });
        let stop = stopping.clone();
        let handle = tokio::spawn(async move {
            supervise("span_export", &stop, task, |task| async move { task.run().await }).await;
        });
        Ok((SpanQueue(sender), Self { stopping, task: SyncMutex::new(Some(AbortOnDropHandle::new(handle))) }))
    }

    /// Sends what is queued, as far as the time allows, and ends the task.
    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        let task = self.task.lock().take();
        if let Some(task) = task
            && tokio::time::timeout(STOP_TIMEOUT, task).await.is_err()
        {
            tracing::warn!("spans of the last moments were not sent: the collector of traces is slow");
        }
    }
}

/// The state of the task, which outlives its restarts.
struct ExportTask {
    collector: Collector,
    queue: Mutex<mpsc::Receiver<SpanRecord>>,
    /// The log lines of a collector that is away.
    outage: OutageLog,
    stopping: CancellationToken,
}

impl ExportTask {
    async fn run(&self) {
        let mut queue = self.queue.lock().await;
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while self.stopping.run_until_cancelled(gather(&mut queue, &mut batch)).await.is_some() {
            if self.send(&mut batch).await {
                backoff.reset();
            } else if self.stopping.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await.is_none() {
                break;
            }
        }
        self.flush(&mut queue, &mut batch).await;
    }

    /// Sends all that is queued, until a request fails.
    async fn flush(&self, queue: &mut mpsc::Receiver<SpanRecord>, batch: &mut Vec<SpanRecord>) {
        loop {
            while batch.len() < MAX_BATCH
                && let Ok(span) = queue.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            if !self.send(batch).await {
                break;
            }
        }
        queue.close();
        while !matches!(queue.try_recv(), Err(TryRecvError::Empty | TryRecvError::Disconnected)) {
            SpanOutcome::Dropped.count(1);
        }
    }

    /// Sends a batch, and empties it. Returns whether the collector has answered.
    async fn send(&self, batch: &mut Vec<SpanRecord>) -> bool {
        let spans = batch.len() as u64;
        let sent = self.collector.send(batch).await;
        batch.clear();
        match sent {
            Ok(refused) => {
                let refused = refused.min(spans);
                SpanOutcome::Sent.count(spans - refused);
                SpanOutcome::Failed.count(refused);
                self.outage.answered(Instant::now());
                true
            }
            Err(error) => {
                SpanOutcome::Failed.count(spans);
                self.outage.failed(&format_args!("{error:#}"), false, Instant::now());
                false
            }
        }
    }
}

/// Waits for the first span, and then until the batch is full or its time is over. Spans stay in the batch if the
/// future is dropped.
async fn gather(queue: &mut mpsc::Receiver<SpanRecord>, batch: &mut Vec<SpanRecord>) {
    if batch.is_empty() && queue.recv_many(batch, MAX_BATCH).await == 0 {
        // All tracers and spans are gone, and soon this task.
        return std::future::pending().await;
    }
    let deadline = tokio::time::Instant::now() + GATHER_TIME;
    while batch.len() < MAX_BATCH {
        let room = MAX_BATCH - batch.len();
        if !timeout_at(deadline, queue.recv_many(batch, room)).await.is_ok_and(|received| received > 0) {
            return;
        }
    }
}

/// The collector.
struct Collector {
    client: Client,
    url: Url,
    resource: Resource,
}

impl Collector {
    /// Sends spans. Returns the number of those that the collector refused.
    async fn send(&self, spans: &[SpanRecord]) -> anyhow::Result<u64> {
        let body = encode(&self.resource, spans)?;
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
        let status = response.status();
        anyhow::ensure!(status.is_success(), "it answered with status {status}");
        let mut answer = Vec::new();
        while let Some(part) = response.chunk().await.map_err(reqwest::Error::without_url)? {
            anyhow::ensure!(answer.len() + part.len() <= MAX_ANSWER, "its answer is too long");
            answer.extend_from_slice(&part);
        }
        Ok(rejected(&answer))
    }
}
