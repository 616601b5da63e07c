//! The addresses of the server: opened before anything that a failed start would have to give back.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::gateway::accept::bound_listener::BoundListener;
use crate::gateway::accept::connection_counts::{ConnectionCounts, ConnectionLimits};
use crate::gateway::accept::listener::{self, ListenerOptions, Shutdown};
use crate::gateway::accept::listener_routes::ListenerRoutes;
use crate::http::{redirect_router, starting_routes};
use crate::metrics::Metrics;
use crate::net::ListenAddress;

/// The maximum number of connections of `server.admin_listen`, for a few metrics collectors and load balancers. Their
/// files are among the reserved ones.
const ADMIN_CONNECTIONS: usize = 64;

/// The open addresses of a server.
pub(super) struct Listeners {
    public: Vec<BoundListener>,
    admin: Option<BoundListener>,
    redirecting: Vec<BoundListener>,
    pub(super) addresses: ServerAddresses,
}

/// The addresses of a server, with the actual ports.
#[derive(Clone, Debug)]
pub struct ServerAddresses {
    /// Those of `server.listen`, at least one.
    pub public: Vec<ListenAddress>,
    /// That of `server.admin_listen`.
    pub admin: Option<ListenAddress>,
}

/// How connections are served.
pub(super) struct Serving {
    pub(super) options: ListenerOptions,
    pub(super) limits: ConnectionLimits,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shutdown: Shutdown,
}

impl Listeners {
    /// Opens all addresses.
    ///
    /// # Errors
    /// Names the address that cannot be had, and its key.
    pub(super) async fn bind(server: &ServerConfig) -> anyhow::Result<Self> {
        let public = bind_all(&server.listen, "server.listen").await?;
        let admin: Vec<_> = server.admin_listen.map(ListenAddress::from).into_iter().collect();
        let admin = bind_all(&admin, "server.admin_listen").await?.pop();
        let redirecting = bind_all(&server.redirect_listen, "server.redirect_listen").await?;
        let addresses = ServerAddresses {
            public: public.iter().map(BoundListener::address).collect::<Result<_, _>>()?,
            admin: admin.as_ref().map(BoundListener::address).transpose()?,
        };
        Ok(Self { public, admin, redirecting, addresses })
    }

    /// Accepts connections. Requests wait until the routes are [started](ServedListeners::start).
    pub(super) fn serve(self, serving: Serving) -> ServedListeners {
        let Serving { options, limits, metrics, shutdown } = serving;
        let redirecting = ListenerOptions { tls: None, ..options.clone() };
        let plain = ListenerOptions { proxy_protocol: false, ..redirecting.clone() };
        let port = self.addresses.public.iter().find_map(ListenAddress::port);
        let counts = |limits| ConnectionCounts::new(limits, Arc::clone(&options.trusted_proxies));
        let serve = |listener, routes, options: &ListenerOptions, counts| {
            let (metrics, shutdown) = (Arc::clone(&metrics), shutdown.clone());
            tokio::spawn(listener::serve(listener, routes, options.clone(), counts, metrics, shutdown))
        };
        let mut tasks = Vec::new();
        let admin = self.admin.map(|listener| {
            let limits = ConnectionLimits { connections: Some(ADMIN_CONNECTIONS), per_address: None };
            let routes = ListenerRoutes::new(starting_routes());
            tasks.push(serve(listener, routes.clone(), &plain, counts(limits)));
            routes
        });
        let public = ListenerRoutes::new(if admin.is_some() { Router::new() } else { starting_routes() });
        // The limits are those of all public addresses together.
        let counts = counts(limits);
        for listener in self.redirecting {
            let routes = ListenerRoutes::new(Router::new());
            routes.start(redirect_router(port));
            tasks.push(serve(listener, routes, &redirecting, Arc::clone(&counts)));
        }
        for listener in self.public {
            tasks.push(serve(listener, public.clone(), &options, Arc::clone(&counts)));
        }
        ServedListeners { public, admin, tasks }
    }
}

/// Listeners that accept connections.
pub(super) struct ServedListeners {
    public: ListenerRoutes,
    admin: Option<ListenerRoutes>,
    tasks: Vec<JoinHandle<()>>,
}

impl ServedListeners {
    /// Whether probes and metrics have an address of their own.
    pub(super) fn has_admin(&self) -> bool {
        self.admin.is_some()
    }

    /// The server has started: requests use these routes, those of `server.admin_listen` the second ones.
    pub(super) fn start(&self, public: Router, admin: Option<Router>) {
        self.public.start(public);
        if let (Some(routes), Some(admin)) = (&self.admin, admin) {
            routes.start(admin);
        }
    }

    /// Waits until all addresses are closed, after [`Shutdown::stopping`].
    pub(super) async fn stopped(self) {
        for task in self.tasks {
            if task.await.is_err() {
                tracing::error!("the accept loop had failed");
            }
        }
    }
}

async fn bind_all(addresses: &[ListenAddress], key: &str) -> anyhow::Result<Vec<BoundListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let bound = BoundListener::bind(address).await;
        listeners.extend(bound.with_context(|| format!("cannot listen on {address} ({key})"))?);
    }
    Ok(listeners)
}
