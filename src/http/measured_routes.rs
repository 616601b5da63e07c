//! The routes as metrics name them. Their samples are exposed from the start, before the first request.

use crate::api::operations::Operations;
use crate::metrics::Metrics;

/// The path of all operations.
pub(super) const OPERATIONS: &str = "/api/v1";

/// The route of every path that has none: that of the page.
pub(super) const PAGE: &str = "page";

/// The other routes, with their status of success.
const OTHERS: [(&str, u16); 18] = [
    ("/connection/websocket", 101),
    ("/connection/uni_websocket", 101),
    ("/connection/http_stream", 200),
    ("/connection/sse", 200),
    ("/connection/uni_http_stream", 200),
    ("/connection/uni_sse", 200),
    ("/emulation", 204),
    ("/api", 200),
    ("/api/{method}", 200),
    ("/api/events", 200),
    ("/api/status", 200),
    ("/api/openapi.json", 200),
    ("/api/asyncapi.json", 200),
    ("/health", 200),
    ("/health/stores", 200),
    ("/ready", 200),
    ("/metrics", 200),
    (PAGE, 200),
];

/// Exposes all operations and routes at 0.
pub(super) fn expose(metrics: &Metrics, operations: &Operations) {
    for operation in operations.all() {
        metrics.requests.expose_operation(operation.name);
        for path in operation.paths {
            metrics.requests.expose_route(&format!("{OPERATIONS}{path}"), operation.status);
        }
    }
    for (route, success) in OTHERS {
        metrics.requests.expose_route(route, success);
    }
}
