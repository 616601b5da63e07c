//! The pace of a load, HTTP clients that keep it, and latencies.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use hdrhistogram::Histogram;

use super::http_client::HttpClient;

/// Latencies in microseconds.
pub(super) type Latencies = Histogram<u64>;

/// No latencies.
pub(super) fn no_latencies() -> Result<Latencies> {
    Ok(Histogram::new(3)?)
}

/// A quantile of latencies, in milliseconds.
pub(super) fn quantile(latencies: &Latencies, part: f64) -> f64 {
    latencies.value_at_quantile(part) as f64 / 1e3
}

/// The pace of a load.
#[derive(Clone, Copy)]
pub(super) enum LoadPace {
    /// As fast as the server answers.
    FlatOut,
    /// Requests a second of all clients together.
    Rate(f64),
}

impl LoadPace {
    /// When request `n` of a load that began at `start` is due.
    pub(super) fn due(self, start: Instant, n: usize) -> Instant {
        match self {
            Self::FlatOut => Instant::now(),
            Self::Rate(rate) => start + Duration::from_secs_f64(n as f64 / rate),
        }
    }
}

/// A load of HTTP clients: whichever has received its response takes the next request.
pub(super) struct HttpLoad {
    /// The pace.
    pub pace: LoadPace,
    /// The length: requests that are due later are not sent.
    pub length: Duration,
    /// The maximum number of requests.
    pub count: usize,
    /// Timers have a resolution of a millisecond. If this is set, the last millisecond is busy waiting; otherwise a
    /// latency does not include it.
    pub is_exact: bool,
}

impl HttpLoad {
    /// Sends requests with `call`, which gets their numbers from 0, and from when their latencies count. Returns the
    /// latencies, and with them the number of requests.
    pub(super) async fn run(
        &self,
        clients: &mut [HttpClient],
        call: impl AsyncFn(&mut HttpClient, usize, Instant) -> Result<()>,
    ) -> Result<Latencies> {
        let start = Instant::now();
        let next = Cell::new(0);
        let work = clients.iter_mut().map(async |client| {
            let mut latencies = no_latencies()?;
            loop {
                let n = next.get();
                let mut due = self.pace.due(start, n);
                if n == self.count || due >= start + self.length {
                    return Ok::<_, anyhow::Error>(latencies);
                }
                next.set(n + 1);
                if self.is_exact {
                    wait_exactly(due).await;
                } else if due > Instant::now() {
                    tokio::time::sleep_until(due.into()).await;
                    due = Instant::now();
                }
                call(client, n, due).await?;
                latencies.record(due.elapsed().as_micros() as u64)?;
            }
        });
        let mut all = no_latencies()?;
        for latencies in try_join_all(work).await? {
            all.add(latencies)?;
        }
        Ok(all)
    }
}

async fn wait_exactly(due: Instant) {
    let early = due - Duration::from_millis(1).min(due.saturating_duration_since(Instant::now()));
    tokio::time::sleep_until(early.into()).await;
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}
