//! The metrics of accepted pushes, read from the server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use tokio::time::sleep;

use super::http_client::HttpClient;
use super::process::ServerProcess;
use super::seed::{self, AUTHOR};
use super::server::ServerSetup;

/// The interval between two readings, and the longest time without progress.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(60);

/// The metric that counts, and the histogram of the time to acceptance.
const ACCEPTED: &str = "feedline_push_accepted_total{";
const LAG: &str = "feedline_push_lag_seconds_bucket{le=\"";

/// Reads the metrics of a server. The server closes its connection after some time without a request.
pub(super) struct PushMetrics {
    http: HttpClient,
    token: String,
}

/// The accepted pushes at some time.
#[derive(Default)]
pub(super) struct AcceptedPushes {
    /// Their number.
    pub(super) accepted: usize,
    /// The upper bounds of the time to acceptance, in seconds, and the number of pushes up to each.
    lag: Vec<(f64, f64)>,
}

impl PushMetrics {
    /// Connects.
    pub(super) async fn open(server: &ServerProcess, setup: &ServerSetup) -> Result<Self> {
        Ok(Self { http: HttpClient::open(server.addr).await?, token: seed::token(&setup.secret, AUTHOR)? })
    }

    /// The pushes that were accepted so far.
    pub(super) async fn read(&mut self) -> Result<AcceptedPushes> {
        let metrics = self.http.call(Method::GET, "/metrics", &self.token).await?;
        let mut read = AcceptedPushes::default();
        for line in String::from_utf8_lossy(&metrics).lines() {
            let value = line.rsplit(' ').next().unwrap_or_default();
            if line.starts_with(ACCEPTED) {
                read.accepted += value.parse::<usize>()?;
            } else if let Some(bound) = line.strip_prefix(LAG).and_then(|rest| rest.split('"').next()) {
                read.lag.push((bound.replace("+Inf", "inf").parse()?, value.parse()?));
            }
        }
        Ok(read)
    }

    /// Waits until this many pushes were accepted in all. Returns the rate from the first one seen to the last one, in
    /// pushes a second, and the metrics.
    pub(super) async fn until_accepted(&mut self, wanted: usize) -> Result<(f64, AcceptedPushes)> {
        let mut progress = (Instant::now(), 0);
        let mut first = None;
        loop {
            let read = self.read().await?;
            let now = Instant::now();
            if read.accepted > progress.1 {
                progress = (now, read.accepted);
                first = first.or(Some(progress));
            }
            if let Some((at, before)) = first.filter(|_| read.accepted >= wanted) {
                let rate = (read.accepted - before) as f64 / (now - at).as_secs_f64().max(0.001);
                return Ok((rate, read));
            }
            ensure!(progress.0.elapsed() < TIMEOUT, "{} of {wanted} pushes, none for {TIMEOUT:?}", progress.1);
            sleep(POLL_INTERVAL).await;
        }
    }
}

impl AcceptedPushes {
    /// The p99 of the pushes since an earlier reading, in seconds, interpolated within the bucket.
    pub(super) fn p99_since(&self, before: &Self) -> f64 {
        let counts = self.lag.iter().zip(&before.lag).map(|((bound, now), (_, before))| (*bound, now - before));
        let counts: Vec<(f64, f64)> = counts.collect();
        let wanted = counts.last().map_or(0.0, |(_, all)| all * 0.99);
        let mut below = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= wanted {
                let part = (wanted - below.1) / (count - below.1).max(1.0);
                return if bound.is_finite() { below.0 + (bound - below.0) * part } else { below.0 };
            }
            below = (bound, count);
        }
        below.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_interpolated() {
        let before = AcceptedPushes { accepted: 1, lag: vec![(0.1, 1.0), (0.2, 1.0), (f64::INFINITY, 1.0)] };
        let after = AcceptedPushes { accepted: 201, lag: vec![(0.1, 101.0), (0.2, 201.0), (f64::INFINITY, 201.0)] };
        assert!((after.p99_since(&before) - 0.198).abs() < 1e-9, "{}", after.p99_since(&before));
    }
}
