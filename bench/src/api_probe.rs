//! The latency of an HTTP call beside a load.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use tokio::time::{Instant, sleep_until};

use super::http_client::HttpClient;
use super::publishers::PublisherRequest;

/// The interval of calls.
const INTERVAL: Duration = Duration::from_millis(10);

/// Sends a request every [`INTERVAL`].
#[derive(Clone, Debug)]
pub(super) struct ApiProbe {
    /// The server.
    pub addr: SocketAddr,
    /// The request.
    pub request: PublisherRequest,
}

impl ApiProbe {
    /// Sends requests for `length`. Returns the 99th percentile of their latency in milliseconds, counted from when
    /// each was due.
    pub(super) async fn p99(&self, length: Duration) -> Result<f64> {
        let mut client = HttpClient::open(self.addr).await?;
        let mut micros = Histogram::<u64>::new(3)?;
        let start = Instant::now();
        let mut due = start;
        while due < start + length {
            sleep_until(due).await;
            let PublisherRequest { path, key, body } = &self.request;
            client.post(path, key, "", body.clone()).await?;
            micros.record(due.elapsed().as_micros() as u64)?;
            due += INTERVAL;
        }
        Ok(micros.value_at_quantile(0.99) as f64 / 1e3)
    }
}
