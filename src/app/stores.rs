//! Opens the stores that the configuration names.

use std::sync::Arc;

use anyhow::Context as _;

use crate::broker::{Broker, DurableQueue, Flush, InboxOptions, Journal, MemoryBroker, RedisBroker, RedisOptions};
use crate::config::{BrokerUrl, Config, Durability, LedgerUrl};
use crate::feed::adopt;
use crate::ledger::{Ledger, LedgerError, PostgresLedger, PostgresOptions, SqliteLedger, SqliteOptions};

/// The broker, and the queue of deferred ledger writes. Redis serves as both; in a single process, the queue is a
/// folder of files.
///
/// # Errors
/// If one of them cannot be used.
pub async fn open_broker(config: &Config) -> anyhow::Result<(Arc<dyn Broker>, Arc<dyn DurableQueue>)> {
    let inbox = InboxOptions { length: config.timeline.length as u64, idle: config.timeline.idle() };
    Ok(match &config.broker.url {
        BrokerUrl::Memory => {
            let flush = match config.ledger.durability {
                Durability::Full => Flush::Always,
                Durability::Normal => Flush::Never,
            };
            let queue = Journal::open(config.server.data_dir.join("likes"), flush).await;
            let queue = queue.context("cannot use the queue of likes (server.data_dir)")?;
            let broker = MemoryBroker::new(inbox).with_id(queue.life().clone());
            (Arc::new(broker), Arc::new(queue))
        }
        BrokerUrl::Redis(url) => {
            let options = RedisOptions {
                url: url.clone(),
                timeout: config.broker.timeout,
                prefix: config.broker.prefix.clone(),
                inbox,
                probe_every: config.broker.probe_interval,
            };
            let broker = RedisBroker::connect(options).await;
            let broker = broker.with_context(|| format!("cannot use {} (broker.url)", config.broker.url))?;
            let broker = Arc::new(broker);
            (Arc::clone(&broker) as Arc<dyn Broker>, broker as Arc<dyn DurableQueue>)
        }
    })
}

/// Opens the configured ledger and migrates its schema.
///
/// # Errors
/// If it cannot be opened.
pub async fn open_ledger(config: &Config) -> anyhow::Result<Arc<dyn Ledger>> {
    let durability = config.ledger.durability;
    let timeout = config.ledger.timeout;
    let outlet = config.outlet.is_enabled();
    let opened: Result<Arc<dyn Ledger>, LedgerError> = match &config.ledger.url {
        LedgerUrl::Sqlite(path) => {
            let options = SqliteOptions { durability, timeout, outlet, ..SqliteOptions::new(path.clone()) };
            SqliteLedger::open(options).await.map(|ledger| Arc::new(ledger) as _)
        }
        LedgerUrl::Postgres(url) => {
            let connections = config.ledger.connections;
            let options = PostgresOptions::new(url.clone());
            let options = PostgresOptions { durability, timeout, connections, outlet, ..options };
            PostgresLedger::open(options).await.map(|ledger| Arc::new(ledger) as _)
        }
    };
    opened.context("cannot use the ledger (ledger.url)")
}

/// Records that the configured broker and ledger belong together. Returns where they are.
///
/// # Errors
/// If a node is running, or a store cannot be used.
pub async fn adopt_stores(config: &Config) -> anyhow::Result<[String; 2]> {
    // The queue of likes, which one process at a time may use, stays open.
    let (broker, _queue) = open_broker(config).await?;
    let ledger = open_ledger(config).await?;
    let adopted = adopt(&*ledger, &*broker).await;
    ledger.close().await;
    Ok(adopted?)
}
