//! The metrics of operations and of HTTP requests.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::instruments::{ByOperation, ByRoute, ByStatus, Described, OfOperation, latency};

/// The outcomes of an operation that alerts ask for. Other errors appear when they occur: all of them for all
/// operations would be two thousand samples.
const OPERATION_OUTCOMES: [&str; 3] = ["ok", "internal", "unavailable"];

/// The statuses that alerts ask for, of every route.
const FAILURES: [u16; 2] = [500, 503];

/// Metrics of operations, over HTTP and sockets, and of HTTP requests.
pub struct RequestMetrics {
    operations: Family<ByOperation, Counter>,
    operation_times: Family<OfOperation, Histogram, fn() -> Histogram>,
    requests: Family<ByStatus, Counter>,
    request_times: Family<ByRoute, Histogram, fn() -> Histogram>,
}

impl RequestMetrics {
    pub(super) fn new() -> Self {
        Self {
            operations: Family::default(),
            operation_times: Family::new_with_constructor(latency),
            requests: Family::default(),
            request_times: Family::new_with_constructor(latency),
        }
    }

    /// A process that only sends pushes has no operations and routes, and describes the families nevertheless.
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("operations", "Operations run, by name and outcome", Described(self.operations.clone()));
        let times = "Time of operations, by name";
        r.register_with_unit("operation", times, Unit::Seconds, Described(self.operation_times.clone()));
        let requests = "HTTP requests by route and status; `page` is every path that has no route";
        r.register("http_requests", requests, Described(self.requests.clone()));
        let times = "Time until an HTTP response began, by route";
        r.register_with_unit("http_request", times, Unit::Seconds, Described(self.request_times.clone()));
    }

    /// Exposes an operation. Its times appear with its first run: the buckets of all operations and routes would be ten
    /// times the rest.
    pub fn expose_operation(&self, operation: &'static str) {
        for outcome in OPERATION_OUTCOMES {
            drop(self.operations.get_or_create(&ByOperation { operation, outcome }));
        }
    }

    /// Exposes a route, with its status of success.
    pub fn expose_route(&self, route: &str, success: u16) {
        for status in [success].into_iter().chain(FAILURES) {
            drop(self.requests.get_or_create(&ByStatus { route: route.to_owned(), status: status.into() }));
        }
    }

    /// Counts an HTTP response that began this long after its request.
    pub fn http_request(&self, route: &str, status: u16, after: Duration) {
        self.requests.get_or_create(&ByStatus { route: route.to_owned(), status: status.into() }).inc();
        self.request_times.get_or_create(&ByRoute { route: route.to_owned() }).observe(after.as_secs_f64());
    }

    /// Counts an operation that took this time, by name and outcome: `ok` or the code of the error.
    pub fn operation(&self, operation: &'static str, outcome: &'static str, took: Duration) {
        self.operations.get_or_create(&ByOperation { operation, outcome }).inc();
        self.operation_times.get_or_create(&OfOperation { operation }).observe(took.as_secs_f64());
    }
}
