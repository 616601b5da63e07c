//! Which requests may become connections of clients.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::http::{Extensions, HeaderMap, StatusCode};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection_counts::{CapReached, ConnectionSlot};
use crate::denials::{Denied, deny};
use crate::gateway::connection::shared::ConnectionShared;
use crate::gateway::session::{PingKind, SessionClient};
use crate::metrics::Metrics;
use crate::net::{AllowedOrigins, ClientAddress, origin};
use crate::reloadable::Reloadable;

/// Admits requests that become connections: WebSockets and streams.
pub(crate) struct Admission {
    pub(crate) connections: Arc<ConnectionShared>,
    /// Browser origins that may connect besides the page's own host.
    pub(crate) origins: Reloadable<AllowedOrigins>,
    /// The largest message of a client, in bytes.
    pub(crate) message_bytes: usize,
    pub(crate) metrics: Arc<Metrics>,
    /// One task for each connection.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when a shutdown begins: no new connections are accepted.
    pub(crate) draining: CancellationToken,
}

/// The status and the message of a request that is not granted.
pub(crate) type ConnectionRefusal = (StatusCode, &'static str);

/// A client that may connect.
pub(crate) struct AdmittedClient {
    pub(crate) client: SessionClient,
    /// Counts the connection for as long as it lives.
    pub(crate) slot: Option<Arc<ConnectionSlot>>,
}

impl Admission {
    /// Checks that new connections are accepted, of this origin too.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), ConnectionRefusal> {
        if self.draining.is_cancelled() {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "the server is going away"));
        }
        if !origin::allowed(&self.origins.get(), headers) {
            self.metrics.refused("origin");
            deny(Denied::Origin, "not listed", &origin::shown(headers));
            return Err((StatusCode::FORBIDDEN, "this origin may not connect, see server.origins"));
        }
        Ok(())
    }

    /// Checks a request for a stream as [`check`](Self::check) does. Where cookies or a password of the browser say who
    /// a client is, the request must come from an allowed page: browsers send them with links and pictures of foreign
    /// pages too. A WebSocket without `Origin` is no browser's.
    pub(crate) fn check_stream(&self, headers: &HeaderMap) -> Result<(), ConnectionRefusal> {
        self.check(headers)?;
        if self.connections.sessions.hooks.trusts_browser(headers)
            && !origin::is_from_allowed_page(&self.origins.get(), headers)
        {
            self.metrics.refused("origin");
            deny(Denied::Origin, "not listed", &origin::shown(headers));
            return Err((
                StatusCode::FORBIDDEN,
                "with hooks that read cookies or passwords, streams need an allowed origin",
            ));
        }
        Ok(())
    }

    /// Counts the connection for its client, which is pinged so.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        extensions: &mut Extensions,
        pings: PingKind,
    ) -> Result<AdmittedClient, ConnectionRefusal> {
        let slot = extensions.remove::<Arc<ConnectionSlot>>();
        let address = extensions.remove::<ClientAddress>();
        // The client of a connection through a proxy is known only now.
        if let (Some(slot), Some(ClientAddress(client))) = (&slot, address)
            && let Err(CapReached(reason)) = slot.assign(client)
        {
            self.metrics.refused(reason);
            tracing::debug!(%client, reason, "refused a connection");
            return Err((StatusCode::SERVICE_UNAVAILABLE, "too many connections"));
        }
        let client = SessionClient {
            id: uuid::Uuid::new_v4().to_string().into(),
            address: address.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.0),
            pings,
            headers: self.connections.sessions.hooks.select(headers).map(Arc::from),
        };
        Ok(AdmittedClient { client, slot })
    }
}
