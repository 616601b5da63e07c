//! One connection of the pool, and the calls in flight on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::{Client, Row};

use super::errors::{ClassifiedError, classify};
use super::statements::{Parameters, PreparedStatements, TransactionStatements};

/// The kind of a call. It determines whether the call can be repeated after its connection was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Changes nothing, so it can be repeated.
    Read,
    /// May have been committed, so it is not repeated.
    Write,
    /// Identifies the server. Allowed before the comparison.
    Inspection,
}

/// The place of a connection in the pool.
#[derive(Clone, Copy)]
pub(super) struct ConnectionPlace {
    pub(super) slot: usize,
    /// The number of the connection within its slot.
    pub(super) number: u64,
    pub(super) generation: u64,
}

/// One connection.
pub(super) struct PooledConnection {
    pub(super) client: Client,
    pub(super) place: ConnectionPlace,
    pub(super) opened: Instant,
    prepared: PreparedStatements,
    /// Locked while the parts of a transaction are sent, so that they arrive beside each other.
    sending: Mutex<()>,
    /// The number of calls in flight.
    waiting: AtomicUsize,
    /// Those of them that write.
    writing: AtomicUsize,
    /// When the last reply arrived.
    heard: Mutex<Instant>,
}

impl PooledConnection {
    pub(super) fn new(client: Client, place: ConnectionPlace) -> Arc<Self> {
        Arc::new(Self {
            client,
            place,
            opened: Instant::now(),
            prepared: PreparedStatements::default(),
            sending: Mutex::default(),
            waiting: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            heard: Mutex::new(Instant::now()),
        })
    }

    /// The number of calls in flight.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether some of them write.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed) > 0
    }

    /// When the last reply arrived.
    pub(super) fn heard(&self) -> Instant {
        *self.heard.lock()
    }

    /// Runs a statement: prepared, or as a transaction with its settings if `transactions` are given.
    pub(super) async fn ask(
        &self,
        transactions: Option<&Arc<TransactionStatements>>,
        kind: CallKind,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, ClassifiedError> {
        // Asked on a connection of its own, so that this one does not count as silent meanwhile.
        let types = match transactions {
            None => None,
            Some(transactions) => Some((transactions, transactions.parameter_types(sql).await?)),
        };
        // Counts down also when the caller is cancelled.
        let _done = CallGuard::new(self, kind);
        let answer = match types {
            None => self.prepared.query(&self.client, sql, parameters).await,
            Some((transactions, types)) => {
                transactions.query(&self.client, &self.sending, sql, parameters, &types).await
            }
        };
        *self.heard.lock() = Instant::now();
        answer.map_err(|error| classify(&error))
    }
}

/// Counts a call as in flight until it is dropped.
struct CallGuard<'a> {
    link: &'a PooledConnection,
    writes: usize,
}

impl<'a> CallGuard<'a> {
    fn new(link: &'a PooledConnection, kind: CallKind) -> Self {
        let writes = usize::from(kind == CallKind::Write);
        link.waiting.fetch_add(1, Ordering::Relaxed);
        link.writing.fetch_add(writes, Ordering::Relaxed);
        Self { link, writes }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.link.waiting.fetch_sub(1, Ordering::Relaxed);
        self.link.writing.fetch_sub(self.writes, Ordering::Relaxed);
    }
}
