//! A few connections that come back by themselves.
//!
//! Every call is one statement that commits by itself, so calls share connections: what is asked while another answer
//! is on its way goes out at once, and answers come in order (pipelining). An idle connection is preferred, so that
//! only a busy ledger has one call wait behind another.
//!
//! A server that was away may come back as another one: a standby in its place, or an older state of itself. So
//! connections have a generation, which grows when all of them were lost, and when one leads to a server that was
//! started at another time. Calls use connections of a generation only after it was compared with the broker: what was
//! deleted, or hidden from somebody, may be there again in an older state, so reads are no exception.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::endpoint::Endpoint;
use super::errors::{ClassifiedError, RetryDecision, classify};
use crate::backoff::Backoff;
use crate::ledger::{LedgerError, Result};

/// What a statement is given.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Calls in flight on one connection; one more fails as busy.
const DEPTH: usize = 256;

/// How often a call is made that another transaction was in the way of.
const TRIES: u32 = 5;

/// The delays between two attempts to connect.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(50);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(3);

/// How long after a generation began calls wait for the comparison. It takes some milliseconds where the broker
/// answers.
const COMPARISON_PATIENCE: Duration = Duration::from_secs(1);

/// What may be done about a call whose answer was lost with its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallKind {
    /// It changes nothing: ask again.
    Read,
    /// It may have happened.
    Write,
    /// It asks what the server is.
    Inspection,
}

/// One connection.
struct PooledConnection {
    client: Client,
    /// What was prepared on it so far, by its text.
    statements: Mutex<HashMap<&'static str, Statement>>,
    /// Calls on their way.
    waiting: AtomicUsize,
    /// When something was last heard from the server.
    heard: Mutex<Instant>,
    slot: usize,
    /// Counts the connections of the slot.
    number: u64,
    /// The generation that it belongs to.
    generation: u64,
}

/// Which server the connections lead to, and whether it was compared with the broker.
#[derive(Clone, Copy)]
struct Admission {
    /// Counts how often the server may have become another one.
    generation: u64,
    /// When the generation began.
    since: Instant,
    /// The latest generation that was compared.
    admitted: u64,
}

impl Admission {
    fn is_pending(&self) -> bool {
        self.admitted < self.generation
    }
}

impl PooledConnection {
    async fn ask(&self, sql: &'static str, parameters: Parameters<'_>) -> std::result::Result<Vec<Row>, Error> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Also when the caller goes away in the middle.
        let _done = CallGuard(&self.waiting);
        let prepared = self.statements.lock().get(sql).cloned();
        let statement = match prepared {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare(sql).await?;
                self.statements.lock().insert(sql, statement.clone());
                statement
            }
        };
        let answer = self.client.query(&statement, parameters).await;
        *self.heard.lock() = Instant::now();
        answer
    }
}

/// Counts a call until it is dropped.
struct CallGuard<'a>(&'a AtomicUsize);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct PoolSlot {
    link: Mutex<Option<Arc<PooledConnection>>>,
    /// The number of the latest connection known to be lost. Raised by the task that notices; the slot's keeper waits
    /// on it.
    lost: watch::Sender<u64>,
}

/// What callers and keepers share.
struct PoolState {
    endpoint: Endpoint,
    slots: Vec<PoolSlot>,
    /// Open calls. Closed when the pool is.
    calls: TaskTracker,
    /// Statements asked so far.
    round_trips: AtomicU64,
    admission: watch::Sender<Admission>,
    /// Whether generations are compared with the broker. Otherwise they count as compared.
    compared: AtomicBool,
    /// When the server of the current generation was started. Held while a connection takes its slot.
    server: Mutex<String>,
}

/// Answers calls. While no connection stands they fail at once.
pub(super) struct Pool {
    shared: Arc<PoolState>,
    /// One for each slot: connects, waits until the connection is lost, connects again.
    keepers: Mutex<Vec<AbortOnDropHandle<()>>>,
}

impl Pool {
    /// Connects. Fails if the first connection does: the others, and later ones, come by themselves.
    pub(super) async fn open(endpoint: Endpoint, connections: usize) -> Result<Self> {
        let slot = |_| PoolSlot { link: Mutex::new(None), lost: watch::Sender::new(0) };
        let slots: Vec<PoolSlot> = (0..connections.max(1)).map(slot).collect();
        let shared = Arc::new(PoolState {
            endpoint,
            slots,
            calls: TaskTracker::new(),
            round_trips: AtomicU64::new(0),
            admission: watch::Sender::new(Admission { generation: 0, since: Instant::now(), admitted: 0 }),
            compared: AtomicBool::new(false),
            server: Mutex::default(),
        });
        PoolState::connect(&shared, 0, 1).await?;
        let keep = |slot| AbortOnDropHandle::new(tokio::spawn(PoolState::keep(Arc::clone(&shared), slot)));
        let keepers = (0..shared.slots.len()).map(keep).collect();
        Ok(Self { shared, keepers: Mutex::new(keepers) })
    }

    #[cfg(test)]
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// How many times something was asked.
    pub(super) fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::Relaxed)
    }

    /// Asks for what changes nothing.
    pub(super) async fn read(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(CallKind::Read, sql, parameters).await
    }

    /// Has one statement change something. It is one transaction.
    pub(super) async fn write(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(CallKind::Write, sql, parameters).await
    }

    /// Asks what the server is, also while it was not compared with the broker yet.
    pub(super) async fn inspect(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(CallKind::Inspection, sql, parameters).await
    }

    /// Waits until there is a generation that was not compared yet.
    pub(super) async fn replaced(&self) {
        // The sender lives as long as `self` does.
        let _ = self.shared.admission.subscribe().wait_for(Admission::is_pending).await;
    }

    /// Begins a comparison: the generation that it is of. From the first one on, calls wait for the comparison of later
    /// ones.
    pub(super) fn begin_comparison(&self) -> u64 {
        self.shared.compared.store(true, Ordering::SeqCst);
        self.shared.admission.borrow().generation
    }

    /// Lets calls use connections of a generation. `false` if there is a later one by now.
    pub(super) fn admit(&self, generation: u64) -> bool {
        self.shared.admission.send_if_modified(|admission| {
            let is_news = generation > admission.admitted;
            admission.admitted = admission.admitted.max(generation);
            is_news
        });
        !self.shared.admission.borrow().is_pending()
    }

    /// Takes no more calls, waits a while for those under way, and hangs up.
    pub(super) async fn close(&self) {
        self.shared.calls.close();
        if tokio::time::timeout(self.shared.endpoint.timeout, self.shared.calls.wait()).await.is_err() {
            tracing::warn!(ledger = self.shared.endpoint.name, "calls were under way when the ledger was closed");
        }
        self.keepers.lock().clear();
        for slot in &self.shared.slots {
            slot.link.lock().take();
        }
    }
}

impl PoolState {
    async fn call(&self, kind: CallKind, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        if self.calls.is_closed() {
            return Err(LedgerError::Unreachable("it is closed".to_owned()));
        }
        let _open = self.calls.token();
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        match tokio::time::timeout(self.endpoint.timeout, self.attempts(kind, sql, parameters)).await {
            Ok(answer) => answer,
            Err(_) => {
                // Who waited for the comparison asked nothing yet.
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
            let ClassifiedError { error, recovery } = match link.ask(sql, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(error) => classify(&error),
            };
            if recovery == RetryDecision::Reconnect {
                self.retire(link.slot, link.number);
            }
            let again = match recovery {
                RetryDecision::GiveUp => false,
                RetryDecision::Retry => true,
                RetryDecision::Reconnect => kind != CallKind::Write,
            };
            if !again || attempt == TRIES {
                return Err(error);
            }
            // Those in each other's way should not meet again.
            tokio::time::sleep(Duration::from_millis(rand::random_range(1..8 << attempt))).await;
            attempt += 1;
        }
    }

    /// Waits until the server was compared with the broker, but not for long: while the broker is away, calls fail at
    /// once.
    async fn comparison(&self) -> Result<()> {
        let Admission { since, .. } = match *self.admission.borrow() {
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

    /// The connection with the fewest calls on their way.
    fn link(&self, kind: CallKind) -> Result<Arc<PooledConnection>> {
        let admitted = match kind {
            CallKind::Inspection => u64::MAX,
            CallKind::Read | CallKind::Write => self.admission.borrow().admitted,
        };
        let standing = self.slots.iter().filter_map(|slot| slot.link.lock().clone());
        let usable = standing.filter(|link| !link.client.is_closed() && link.generation <= admitted);
        let counted = usable.map(|link| (link.waiting.load(Ordering::Relaxed), link));
        match counted.min_by_key(|(waiting, _)| *waiting) {
            None => Err(LedgerError::Unreachable("not connected, trying to".to_owned())),
            Some((DEPTH.., _)) => Err(LedgerError::Busy),
            Some((_, link)) => Ok(link),
        }
    }

    /// Retires connections on which calls have waited since then without any answer. If no connection had one, the
    /// server hangs: all are retired, so that other calls fail at once.
    fn retire_silent(&self, since: Instant) {
        let links: Vec<_> = self.slots.iter().filter_map(|slot| slot.link.lock().clone()).collect();
        let silent = |link: &Arc<PooledConnection>| *link.heard.lock() <= since;
        let all = links.iter().all(silent);
        for link in links.iter().filter(|link| all || (silent(link) && link.waiting.load(Ordering::Relaxed) > 0)) {
            self.retire(link.slot, link.number);
        }
    }

    /// Gives a connection up. Calls under way on it still get their answer, if one comes in time.
    fn retire(&self, slot: usize, number: u64) {
        let slot = &self.slots[slot];
        let retired = slot.link.lock().take_if(|link| link.number <= number);
        slot.lost.send_if_modified(|lost| std::mem::replace(lost, number.max(*lost)) < number);
        drop(retired);
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
        let link = PooledConnection {
            client,
            statements: Mutex::default(),
            waiting: AtomicUsize::new(0),
            heard: Mutex::new(Instant::now()),
            slot,
            number,
            generation: self.admission.borrow().generation,
        };
        *self.slots[slot].link.lock() = Some(Arc::new(link));
        drop(server);
        if gone || *self.slots[slot].lost.borrow() >= number {
            // It was lost before it was put where losing it is noticed.
            self.retire(slot, number);
        }
        Ok(())
    }

    /// The server may be another one from now on. Connections that still stand lead to the one before.
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
            self.retire(link.slot, link.number);
        }
    }

    async fn keep(self: Arc<Self>, slot: usize) {
        let mut lost = self.slots[slot].lost.subscribe();
        // The first connection of the first slot stands.
        let mut number = u64::from(slot == 0);
        loop {
            let before = number;
            if number > 0 {
                // The sender lives as long as `self` does.
                let _ = lost.wait_for(|lost| *lost >= number).await;
                tracing::warn!(slot, ledger = self.endpoint.name, "lost a connection to the ledger");
            }
            let mut backoff = Backoff::new(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY);
            loop {
                // Each attempt has a number of its own: the end of one that failed may be noticed late.
                number += 1;
                let Err(error) = self.connect(slot, number).await else { break };
                tracing::debug!(slot, %error, "cannot connect to the ledger");
                tokio::time::sleep(backoff.next_delay()).await;
            }
            if before > 0 {
                tracing::info!(slot, ledger = self.endpoint.name, "connected to the ledger again");
            }
        }
    }
}

fn not_compared() -> LedgerError {
    LedgerError::Unreachable("it came back, and is not in use before it was compared with the broker".to_owned())
}
