//! A pool of a few connections, with reconnection.
//!
//! Every call is one statement in a transaction of its own, so calls share connections: a call is sent while earlier
//! calls wait for their replies, and replies arrive in order (pipelining). Idle connections are preferred, so a call
//! waits behind another only on a busy ledger; a read waits behind a write only if all connections have writes.
//!
//! After an outage, the address may lead to another server: a promoted standby, or an older state of the database.
//! Connections therefore have a generation. It grows when all connections were lost, and when a connection reaches a
//! server with another start time. Calls use the connections of a generation only after the ledger was compared with
//! the broker. This includes reads: in an older state, deleted or hidden posts may be visible again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::connection::{CallKind, ConnectionPlace, PooledConnection};
use super::endpoint::Endpoint;
use super::errors::{ClassifiedError, RetryDecision};
use super::statements::{Parameters, TransactionStatements};
use crate::backoff::Backoff;
use crate::ledger::{LedgerError, Result, metered};
use crate::store_metrics::StoreMeter;
use crate::supervisor::supervise_while_held;

/// The maximal number of calls in flight on one connection. Further calls fail as busy.
const DEPTH: usize = 256;

/// The maximal number of attempts of a call that conflicts with other transactions.
const TRIES: u32 = 5;

/// The range of delays between two attempts to connect.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(50);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(3);

/// The failure to connect, of those in a row, at which a warning says that connections are missing.
const WARNED_FAILURE: u32 = 3;

/// The age from which a connection to a server that takes no writes is replaced. Younger ones stay: if all servers take
/// no writes, replacing each connection at once would leave none for reads.
const MIN_AGE_TO_REPLACE: Duration = Duration::from_secs(3);

/// How long calls wait for the comparison, counted from the beginning of the generation. A comparison takes some
/// milliseconds if the broker responds.
const COMPARISON_PATIENCE: Duration = Duration::from_secs(1);

/// The current generation of connections, and whether it was compared with the broker.
#[derive(Clone, Copy)]
struct PoolAdmission {
    /// The number of times that the server may have been replaced.
    generation: u64,
    /// When the generation began.
    since: Instant,
    /// The latest generation that was compared with the broker.
    admitted: u64,
}

impl PoolAdmission {
    fn is_pending(&self) -> bool {
        self.admitted < self.generation
    }
}

struct PoolSlot {
    link: Mutex<Option<Arc<PooledConnection>>>,
    /// The number of the latest lost connection. Raised by the task that detects the loss; the slot's keeper waits for
    /// it.
    lost: watch::Sender<u64>,
}

/// The state that callers and keepers share.
struct PoolState {
    endpoint: Arc<Endpoint>,
    slots: Vec<PoolSlot>,
    /// The calls in flight. Closed together with the pool.
    calls: TaskTracker,
    /// Set if the settings travel with each transaction.
    transactions: Option<Arc<TransactionStatements>>,
    /// The number of statements sent.
    round_trips: AtomicU64,
    admission: watch::Sender<PoolAdmission>,
    /// Why the last attempt to connect failed; `None`: it succeeded.
    connect_error: Mutex<Option<LedgerError>>,
    /// Whether generations are compared with the broker. If not, every generation is admitted.
    compared: AtomicBool,
    /// The start time of the server of the current generation. Locked while a connection is put into its slot.
    server: Mutex<String>,
}

/// Runs calls on its connections. Without a connection, calls fail at once.
pub(super) struct Pool {
    shared: Arc<PoolState>,
    /// One task for each slot: it connects, waits until the connection is lost, and connects again.
    keepers: Mutex<Vec<AbortOnDropHandle<()>>>,
}

impl Pool {
    /// Connects. Fails if the first connection fails; the keepers establish the others, and later ones.
    pub(super) async fn open(endpoint: Endpoint, connections: usize) -> Result<Self> {
        let slot = |_| PoolSlot { link: Mutex::new(None), lost: watch::Sender::new(0) };
        let slots: Vec<PoolSlot> = (0..connections.max(1)).map(slot).collect();
        let endpoint = Arc::new(endpoint);
        let calls = TaskTracker::new();
        let transactions = TransactionStatements::of(&endpoint, &calls);
        let shared = Arc::new(PoolState {
            endpoint,
            transactions,
            slots,
            calls,
            round_trips: AtomicU64::new(0),
            admission: watch::Sender::new(PoolAdmission { generation: 0, since: Instant::now(), admitted: 0 }),
            connect_error: Mutex::default(),
            compared: AtomicBool::new(false),
            server: Mutex::default(),
        });
        PoolState::connect(&shared, 0, 1).await?;
        StoreMeter::ledger().want(shared.slots.len());
        let keep = |slot| {
            let keep = move |shared: Arc<PoolState>| async move { shared.keep(slot).await };
            supervise_while_held("ledger_connections", Arc::clone(&shared), keep)
        };
        let keepers = (0..shared.slots.len()).map(keep).collect();
        Ok(Self { shared, keepers: Mutex::new(keepers) })
    }

    #[cfg(test)]
    pub(super) fn open_connections(&self) -> usize {
        self.shared.open_connections()
    }

    #[cfg(test)]
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// The number of statements sent.
    pub(super) fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::Relaxed)
    }

    /// Runs a statement that changes nothing.
    pub(super) async fn read(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(CallKind::Read, sql, parameters).await
    }

    /// Runs a statement that writes, in a transaction of its own.
    pub(super) async fn write(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(CallKind::Write, sql, parameters).await
    }

    /// Runs a statement that identifies the server, even before the comparison with the broker.
    pub(super) async fn inspect(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(CallKind::Inspection, sql, parameters).await
    }

    /// Waits for a generation that was not compared yet.
    pub(super) async fn replaced(&self) {
        // The sender lives as long as `self` does.
        let _ = self.shared.admission.subscribe().wait_for(PoolAdmission::is_pending).await;
    }

    /// Begins a comparison and returns the generation that it applies to. After the first comparison, calls wait for
    /// the comparison of each later generation.
    pub(super) fn begin_comparison(&self) -> u64 {
        self.shared.compared.store(true, Ordering::SeqCst);
        self.shared.admission.borrow().generation
    }

    /// Admits calls to the connections of a generation. `false` if a later generation has begun.
    pub(super) fn admit(&self, generation: u64) -> bool {
        self.shared.admission.send_if_modified(|admission| {
            let is_news = generation > admission.admitted;
            admission.admitted = admission.admitted.max(generation);
            is_news
        });
        !self.shared.admission.borrow().is_pending()
    }

    /// Rejects new calls, waits for those in flight up to the time limit, and closes the connections.
    pub(super) async fn close(&self) {
        self.shared.calls.close();
        if tokio::time::timeout(self.shared.endpoint.timeout, self.shared.calls.wait()).await.is_err() {
            tracing::warn!(ledger = self.shared.endpoint.name, "calls were under way when the ledger was closed");
        }
        self.keepers.lock().clear();
        StoreMeter::ledger().want(0);
        for slot in &self.shared.slots {
            if slot.link.lock().take().is_some() {
                StoreMeter::ledger().closed();
            }
        }
    }
}

impl PoolState {
    async fn call(&self, kind: CallKind, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        metered(self.call_in_time(kind, sql, parameters)).await
    }

    async fn call_in_time(&self, kind: CallKind, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        if self.calls.is_closed() {
            return Err(LedgerError::Unreachable("it is closed".to_owned()));
        }
        let _open = self.calls.token();
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        match tokio::time::timeout(self.endpoint.timeout, self.attempts(kind, sql, parameters)).await {
            Ok(answer) => answer,
            Err(_) => {
                // A call that waited for the comparison was not sent.
                if kind == CallKind::Inspection || !self.admission.borrow().is_pending() {
                    self.retire_silent(asked);
                }
                Err(LedgerError::Unreachable(format!("no answer within {:?}", self.endpoint.timeout)))
            }
        }
    }

    async fn attempts(&self, kind: CallKind, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        let mut attempt = 1;
        loop {
            if kind != CallKind::Inspection {
                self.comparison().await?;
            }
            let link = self.link(kind)?;
            let asked = link.ask(self.transactions.as_ref(), kind, sql, parameters);
            let ClassifiedError { error, recovery } = match asked.await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            let is_old = link.opened.elapsed() >= MIN_AGE_TO_REPLACE;
            if recovery == RetryDecision::Reconnect || (recovery == RetryDecision::Replace && is_old) {
                self.retire(link.place.slot, link.place.number);
            }
            let again = match recovery {
                RetryDecision::GiveUp | RetryDecision::Replace => false,
                RetryDecision::Retry => true,
                RetryDecision::Reconnect => kind != CallKind::Write,
            };
            if !again || attempt == TRIES {
                return Err(error);
            }
            // A random delay, so that the conflicting transactions do not collide again.
            tokio::time::sleep(Duration::from_millis(rand::random_range(1..8 << attempt))).await;
            attempt += 1;
        }
    }

    /// Waits until the server was compared with the broker, for a short time only: while the broker is unreachable,
    /// calls fail at once.
    async fn comparison(&self) -> Result<()> {
        let PoolAdmission { since, .. } = match *self.admission.borrow() {
            pending if pending.is_pending() => pending,
            _ => return Ok(()),
        };
        let mut admission = self.admission.subscribe();
        let compared = admission.wait_for(|admission| !admission.is_pending());
        match tokio::time::timeout_at(since + COMPARISON_PATIENCE, compared).await {
            Ok(_) => Ok(()),
            Err(_) => Err(not_compared()),
        }
    }

    /// The connection with the fewest calls in flight.
    ///
    /// A write may wait for a row that another transaction holds, and what was sent behind it waits as well. Reads
    /// therefore prefer connections without writes, and a quarter of the connections are left to them.
    fn link(&self, kind: CallKind) -> Result<Arc<PooledConnection>> {
        let admitted = match kind {
            CallKind::Inspection => u64::MAX,
            CallKind::Read | CallKind::Write => self.admission.borrow().admitted,
        };
        let for_reads = if self.slots.len() > 1 { (self.slots.len() / 4).max(1) } else { 0 };
        let standing = self.slots.iter().filter_map(|slot| slot.link.lock().clone());
        let usable = standing.filter(|link| !link.client.is_closed() && link.place.generation <= admitted);
        let rated = usable.map(|link| {
            let is_worse = match kind {
                CallKind::Write => link.place.slot < for_reads,
                CallKind::Read | CallKind::Inspection => link.is_writing(),
            };
            ((is_worse, link.waiting()), link)
        });
        match rated.min_by_key(|(rating, _)| *rating) {
            None => Err(self.connect_error.lock().clone().unwrap_or_else(not_connected)),
            Some(((_, DEPTH..), _)) => Err(LedgerError::Busy),
            Some((_, link)) => Ok(link),
        }
    }

    fn open_connections(&self) -> usize {
        self.slots.iter().filter(|slot| slot.link.lock().is_some()).count()
    }

    /// Retires connections with calls in flight and no reply since `since`. If no connection got a reply, the server
    /// hangs: all are retired, so that further calls fail at once.
    fn retire_silent(&self, since: Instant) {
        let links: Vec<_> = self.slots.iter().filter_map(|slot| slot.link.lock().clone()).collect();
        let silent = |link: &Arc<PooledConnection>| link.heard() <= since;
        let all = links.iter().all(silent);
        for link in links.iter().filter(|link| all || (silent(link) && link.waiting() > 0)) {
            self.retire(link.place.slot, link.place.number);
        }
    }

    /// Removes a connection from its slot. Calls in flight on it still get their replies within their time limits.
    fn retire(&self, slot: usize, number: u64) {
        let slot = &self.slots[slot];
        let retired = slot.link.lock().take_if(|link| link.place.number <= number);
        slot.lost.send_if_modified(|lost| std::mem::replace(lost, number.max(*lost)) < number);
        if retired.is_some() {
            StoreMeter::ledger().closed();
        }
    }

    async fn connect(self: &Arc<Self>, slot: usize, number: u64) -> Result<()> {
        let weak = Arc::downgrade(self);
        let on_end = move || {
            if let Some(shared) = weak.upgrade() {
                shared.retire(slot, number);
            }
        };
        let client = self.endpoint.connect(on_end).await?;
        let started = self.endpoint.server_start(&client).await?;
        let gone = client.is_closed();
        let mut server = self.server.lock();
        let is_first = slot == 0 && number == 1;
        let lost_all = self.slots.iter().all(|slot| slot.link.lock().is_none());
        if !is_first && (lost_all || *server != started) {
            self.begin_generation();
        }
        *server = started;
        let place = ConnectionPlace { slot, number, generation: self.admission.borrow().generation };
        *self.slots[slot].link.lock() = Some(PooledConnection::new(client, place));
        StoreMeter::ledger().opened();
        *self.connect_error.lock() = None;
        drop(server);
        if gone || *self.slots[slot].lost.borrow() >= number {
            // The connection was lost before it was in its slot, where the loss would have been detected.
            self.retire(slot, number);
        }
        Ok(())
    }

    /// Begins a generation: the server may have been replaced. Retires the connections to the previous server.
    fn begin_generation(&self) {
        let compared = self.compared.load(Ordering::SeqCst);
        self.admission.send_modify(|admission| {
            admission.generation += 1;
            admission.since = Instant::now();
            if !compared {
                admission.admitted = admission.generation;
            }
        });
        let links: Vec<_> = self.slots.iter().filter_map(|slot| slot.link.lock().clone()).collect();
        for link in links {
            self.retire(link.place.slot, link.place.number);
        }
    }

    async fn keep(self: &Arc<Self>, slot: usize) {
        let mut lost = self.slots[slot].lost.subscribe();
        // The first slot already has its first connection, and each may have one after a restart of this task.
        let current = self.slots[slot].link.lock().as_ref().map(|link| link.place.number);
        let mut number = current.unwrap_or_else(|| *lost.borrow());
        loop {
            let before = number;
            if number > 0 {
                // The sender lives as long as `self` does.
                let _ = lost.wait_for(|lost| *lost >= number).await;
                tracing::debug!(slot, ledger = self.endpoint.name, "lost a connection to the ledger");
            }
            let mut backoff = Backoff::new(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY);
            let mut failures = 0;
            loop {
                // Each attempt has its own number: the end of a failed attempt may be detected late.
                number += 1;
                let Err(error) = self.connect(slot, number).await else { break };
                let open = self.open_connections();
                failures += 1;
                // An outage closes all connections, and is logged for all of them.
                if open > 0 && failures == WARNED_FAILURE {
                    let wanted = self.slots.len();
                    tracing::warn!(ledger = self.endpoint.name, open, wanted, %error, "cannot open all connections");
                }
                tracing::debug!(slot, %error, "cannot connect to the ledger");
                *self.connect_error.lock() = Some(error);
                tokio::time::sleep(backoff.next_delay()).await;
            }
            if before > 0 {
                tracing::debug!(slot, ledger = self.endpoint.name, "connected to the ledger again");
            }
        }
    }
}

fn not_connected() -> LedgerError {
    LedgerError::Unreachable("the connection was lost, and is being opened again".to_owned())
}

fn not_compared() -> LedgerError {
    LedgerError::Unreachable("it came back, and is not in use before it was compared with the broker".to_owned())
}
