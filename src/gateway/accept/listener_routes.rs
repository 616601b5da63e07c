//! The routes of a listener, before and after the start of the server.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use tokio::sync::SetOnce;
use tower_service::Service as _;

/// The routes of a listener. While the server starts, its probes are answered and all other requests wait: load
/// balancers use other nodes meanwhile, and requests that arrive anyway do not fail.
#[derive(Clone)]
pub struct ListenerRoutes {
    starting: Router,
    started: Arc<SetOnce<Router>>,
}

impl ListenerRoutes {
    /// Routes of a server that starts. `probes` are those that are answered meanwhile.
    pub fn new(probes: Router) -> Self {
        let started: Arc<SetOnce<Router>> = Arc::default();
        let waited_for = Arc::clone(&started);
        let wait = move |request: Request| {
            let started = Arc::clone(&waited_for);
            async move { started.wait().await.clone().call(request).await }
        };
        Self { starting: probes.fallback(wait), started }
    }

    /// The server has started: all requests use these routes.
    pub fn start(&self, routes: Router) {
        let is_first = self.started.set(routes).is_ok();
        debug_assert!(is_first, "a server starts once");
    }

    pub(super) fn current(&self) -> Router {
        self.started.get().unwrap_or(&self.starting).clone()
    }
}
