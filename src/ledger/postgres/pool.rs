//! A few connections that come back by themselves.
//!
//! Every call is one statement that commits by itself, so calls share connections: what is asked while another answer
//! is on its way goes out at once, and answers come in order (pipelining). An idle connection is preferred, so that
//! only a busy ledger has one call wait behind another.

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

use super::errors::{Mends, Trouble, sort};
use super::open::Endpoint;
use crate::ledger::{LedgerError, Result};

/// What a statement is given.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Calls on their way on one connection; one more is told that the ledger is busy.
const DEPTH: usize = 256;

/// How often a call is made that another transaction was in the way of.
const TRIES: u32 = 5;

/// The first pause between two attempts to connect; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// What may be done about a call whose answer was lost with its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It changes nothing: ask again.
    Read,
    /// It may have happened.
    Write,
    /// It asks what the server is.
    Inspection,
}

/// One connection.
struct Link {
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
}

impl Link {
    async fn ask(&self, sql: &'static str, parameters: Parameters<'_>) -> std::result::Result<Vec<Row>, Error> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Also when the caller goes away in the middle.
        let _done = Waiting(&self.waiting);
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
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Slot {
    link: Mutex<Option<Arc<Link>>>,
    /// The number of the latest connection known to be lost. Whoever notices raises it; the slot's keeper waits on it.
    lost: watch::Sender<u64>,
}

/// What callers and keepers share.
struct Shared {
    endpoint: Endpoint,
    slots: Vec<Slot>,
    /// Open calls. Closed when the pool is.
    calls: TaskTracker,
    /// Statements asked so far.
    round_trips: AtomicU64,
    /// Whether the server may have become another one, and calls wait until somebody has looked.
    held: watch::Sender<bool>,
    /// Whether somebody looks.
    watched: AtomicBool,
}

/// Answers calls. While no connection stands they fail at once.
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// One for each slot: connects, waits until the connection is lost, connects again.
    keepers: Mutex<Vec<AbortOnDropHandle<()>>>,
}

impl Pool {
    /// Connects. Fails if the first connection does: the others, and later ones, come by themselves.
    pub(super) async fn open(endpoint: Endpoint, connections: usize) -> Result<Self> {
        let slot = |_| Slot { link: Mutex::new(None), lost: watch::Sender::new(0) };
        let slots: Vec<Slot> = (0..connections.max(1)).map(slot).collect();
        let shared = Arc::new(Shared {
            endpoint,
            slots,
            calls: TaskTracker::new(),
            round_trips: AtomicU64::new(0),
            held: watch::Sender::new(false),
            watched: AtomicBool::new(false),
        });
        Shared::connect(&shared, 0, 1).await?;
        let keep = |slot| AbortOnDropHandle::new(tokio::spawn(Shared::keep(Arc::clone(&shared), slot)));
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
        self.shared.call(Kind::Read, sql, parameters).await
    }

    /// Has one statement change something. It is one transaction.
    pub(super) async fn write(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(Kind::Write, sql, parameters).await
    }

    /// Asks what the server is, also while other calls are held back.
    pub(super) async fn inspect(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.shared.call(Kind::Inspection, sql, parameters).await
    }

    /// Waits until calls are held back: all connections were lost, and one stands again.
    pub(super) async fn replaced(&self) {
        self.shared.watched.store(true, Ordering::Relaxed);
        // The sender lives as long as `self` does.
        let _ = self.shared.held.subscribe().wait_for(|held| *held).await;
    }

    /// Lets calls go on.
    pub(super) fn admit(&self) {
        self.shared.held.send_replace(false);
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

impl Shared {
    async fn call(&self, kind: Kind, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        if self.calls.is_closed() {
            return Err(LedgerError::Unreachable("it is closed".to_owned()));
        }
        let _open = self.calls.token();
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        let answer = async {
            if kind != Kind::Inspection {
                // The sender lives as long as `self` does.
                let _ = self.held.subscribe().wait_for(|held| !held).await;
            }
            self.attempts(kind, sql, parameters).await
        };
        match tokio::time::timeout(self.endpoint.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                if !*self.held.borrow() {
                    self.retire_silent(asked);
                }
                Err(LedgerError::Unreachable(format!("no answer within {:?}", self.endpoint.timeout)))
            }
        }
    }

    async fn attempts(&self, kind: Kind, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        let mut attempt = 1;
        loop {
            let link = self.link()?;
            let Trouble { error, mends } = match link.ask(sql, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(error) => sort(&error),
            };
            if mends == Mends::Reconnecting {
                self.retire(link.slot, link.number);
            }
            let again = match mends {
                Mends::Nothing => false,
                Mends::AskingAgain => true,
                Mends::Reconnecting => kind != Kind::Write,
            };
            if !again || attempt == TRIES {
                return Err(error);
            }
            // Those in each other's way should not meet again.
            tokio::time::sleep(Duration::from_millis(rand::random_range(1..8 << attempt))).await;
            attempt += 1;
        }
    }

    /// The connection with the fewest calls on their way.
    fn link(&self) -> Result<Arc<Link>> {
        let standing = self.slots.iter().filter_map(|slot| slot.link.lock().clone());
        let usable = standing.filter(|link| !link.client.is_closed());
        let counted = usable.map(|link| (link.waiting.load(Ordering::Relaxed), link));
        match counted.min_by_key(|(waiting, _)| *waiting) {
            None => Err(LedgerError::Unreachable("not connected, trying to".to_owned())),
            Some((DEPTH.., _)) => Err(LedgerError::Busy),
            Some((_, link)) => Ok(link),
        }
    }

    /// Gives up connections that somebody has waited on since then, and nothing came. If nothing came on any, none is
    /// of use: the server hangs, and nobody else should wait to find that out.
    fn retire_silent(&self, since: Instant) {
        let links: Vec<_> = self.slots.iter().filter_map(|slot| slot.link.lock().clone()).collect();
        let silent = |link: &Arc<Link>| *link.heard.lock() <= since;
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
        let link = Link {
            client,
            statements: Mutex::default(),
            waiting: AtomicUsize::new(0),
            heard: Mutex::new(Instant::now()),
            slot,
            number,
        };
        let gone = link.client.is_closed();
        // A server that was away may come back as another one: a standby in its place, or an older state of itself.
        let lost_all = number > 1 && self.slots.iter().all(|slot| slot.link.lock().is_none());
        if lost_all && self.watched.load(Ordering::Relaxed) {
            self.held.send_replace(true);
        }
        *self.slots[slot].link.lock() = Some(Arc::new(link));
        if gone || *self.slots[slot].lost.borrow() >= number {
            // It was lost before it was put where losing it is noticed.
            self.retire(slot, number);
        }
        Ok(())
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
            let mut pause = FIRST_PAUSE;
            loop {
                // Each attempt has a number of its own: the end of one that failed may be noticed late.
                number += 1;
                let Err(error) = self.connect(slot, number).await else { break };
                tracing::debug!(slot, %error, "cannot connect to the ledger");
                tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            if before > 0 {
                tracing::info!(slot, ledger = self.endpoint.name, "connected to the ledger again");
            }
        }
    }
}
