//! Opens the stores that the configuration names.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;

use crate::broker::{
    Broker, DurableQueue, Flush, InboxOptions, Journal, MemoryBroker, RedisBroker, RedisOptions, queue_backlog,
};
use crate::config::{BrokerUrl, Config, Durability, LedgerConfig, LedgerUrl};
use crate::feed::{DeploymentStatus, WorkStatus, adopt, check_pairing, ledger_kind, now};
use crate::ledger::{Ledger, LedgerError, PostgresLedger, PostgresOptions, SchemaMode, SqliteLedger, SqliteOptions};

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
            let broker = RedisBroker::connect(redis_options(config, url, inbox)).await;
            let broker = broker.with_context(|| format!("cannot use {} (broker.url)", config.broker.url))?;
            let broker = Arc::new(broker);
            (Arc::clone(&broker) as Arc<dyn Broker>, broker as Arc<dyn DurableQueue>)
        }
    })
}

pub(super) fn redis_options(config: &Config, url: &str, inbox: InboxOptions) -> RedisOptions {
    RedisOptions {
        url: url.to_owned(),
        timeout: config.broker.timeout,
        prefix: config.broker.prefix.clone(),
        inbox,
        probe_every: config.broker.probe_interval,
    }
}

/// The state of the deployment of a configuration. The memory of a process is not looked at.
pub async fn deployment_status(config: &Config) -> DeploymentStatus {
    let mut likes = None;
    let (name, state) = match &config.broker.url {
        BrokerUrl::Memory => ("memory", "ok".to_owned()),
        BrokerUrl::Redis(url) => {
            let inbox = InboxOptions { length: 1, idle: config.timeline.idle() };
            match queue_backlog(&redis_options(config, url, inbox)).await {
                Ok(backlog) => {
                    likes = Some(WorkStatus::of_likes(backlog, now()));
                    ("redis", "ok".to_owned())
                }
                Err(error) => ("redis", error.to_string()),
            }
        }
    };
    let mut stores = BTreeMap::from([(name, state)]);
    let mut config = config.clone();
    config.ledger.connections = 1;
    let ledger = match open_ledger_with(&config, SchemaMode::Check).await {
        Ok(ledger) => ledger,
        Err(error) => {
            stores.insert(ledger_kind(&config.ledger.url.to_string()), format!("{error:#}"));
            return DeploymentStatus::of_stores(stores);
        }
    };
    if stores.values().all(|state| state == "ok")
        && let Err(error) = check_stores(&config, &*ledger).await
    {
        stores.insert(name, format!("{error:#}"));
    }
    let status = DeploymentStatus::read(&*ledger, stores, likes, now()).await;
    ledger.close().await;
    status
}

/// Checks that the broker of the configuration and a ledger belong together. Changes no record of them.
///
/// # Errors
/// If they do not, or the broker cannot be used.
async fn check_stores(config: &Config, ledger: &dyn Ledger) -> anyhow::Result<()> {
    let broker: Arc<dyn Broker> = match &config.broker.url {
        BrokerUrl::Memory => Arc::new(MemoryBroker::new(InboxOptions { length: 1, idle: config.timeline.idle() })),
        BrokerUrl::Redis(_) => open_broker(config).await?.0,
    };
    Ok(check_pairing(ledger, &*broker).await?)
}

/// As [`check_stores`], with the ledger of the configuration. `false`: it cannot be opened, as one without a schema.
///
/// # Errors
/// If they do not belong together, or the broker cannot be used.
pub(super) async fn check_configured_stores(config: &Config) -> anyhow::Result<bool> {
    let mut config = config.clone();
    config.ledger.connections = 1;
    let Ok(ledger) = open_ledger_with(&config, SchemaMode::Check).await else { return Ok(false) };
    let checked = check_stores(&config, &*ledger).await;
    ledger.close().await;
    checked.map(|()| true)
}

/// Opens the configured ledger and migrates its schema.
///
/// # Errors
/// If it cannot be opened.
pub async fn open_ledger(config: &Config) -> anyhow::Result<Arc<dyn Ledger>> {
    open_ledger_with(config, SchemaMode::Migrate).await
}

async fn open_ledger_with(config: &Config, schema: SchemaMode) -> anyhow::Result<Arc<dyn Ledger>> {
    let durability = config.ledger.durability;
    let timeout = config.ledger.timeout;
    let outlet = config.outlet.is_enabled();
    let opened: Result<Arc<dyn Ledger>, LedgerError> = match &config.ledger.url {
        LedgerUrl::Sqlite(path) => {
            let options = SqliteOptions { durability, timeout, outlet, schema, ..SqliteOptions::new(path.clone()) };
            SqliteLedger::open(options).await.map(|ledger| Arc::new(ledger) as _)
        }
        LedgerUrl::Postgres(url) => {
            let LedgerConfig { connections, prepared_statements, .. } = config.ledger;
            let options = PostgresOptions::new(url.clone());
            let options =
                PostgresOptions { durability, timeout, connections, outlet, prepared_statements, schema, ..options };
            PostgresLedger::open(options).await.map(|ledger| Arc::new(ledger) as _)
        }
    };
    opened.context("cannot use the ledger (ledger.url)")
}

/// Opens the stores for a command that changes what nodes work on, and checks that they belong together. The memory of
/// a node cannot be opened: there is no broker then.
///
/// # Errors
/// If a store cannot be used, or belongs to another one.
pub async fn open_paired_stores(config: &Config) -> anyhow::Result<(Option<Arc<dyn Broker>>, Arc<dyn Ledger>)> {
    let ledger = open_ledger(config).await?;
    if matches!(config.broker.url, BrokerUrl::Memory) {
        return Ok((None, ledger));
    }
    let paired = async {
        let (broker, _) = open_broker(config).await?;
        check_pairing(&*ledger, &*broker).await?;
        Ok(broker)
    };
    match paired.await {
        Ok(broker) => Ok((Some(broker), ledger)),
        Err(error) => {
            ledger.close().await;
            Err(error)
        }
    }
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
