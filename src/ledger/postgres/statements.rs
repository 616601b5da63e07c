//! How a call runs on a connection: as a prepared statement, or as a transaction that brings its settings.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures::future::join3;
use parking_lot::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};
use tokio_util::task::TaskTracker;

use super::endpoint::{Endpoint, SettingsScope};
use super::errors::{ClassifiedError, RetryDecision, classify};
use crate::ledger::LedgerError;

/// The parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The statements that are prepared on one connection, by their text.
#[derive(Default)]
pub(super) struct PreparedStatements(Mutex<HashMap<&'static str, Statement>>);

impl PreparedStatements {
    /// Runs a statement, which is prepared when it is used for the first time.
    pub(super) async fn query(
        &self,
        client: &Client,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let prepared = self.0.lock().get(sql).cloned();
        let statement = match prepared {
            Some(statement) => statement,
            None => {
                let statement = client.prepare(sql).await?;
                self.0.lock().insert(sql, statement.clone());
                statement
            }
        };
        client.query(&statement, parameters).await
    }
}

/// The statements behind a pooler in transaction mode. Nothing of them stays on a connection of the server: neither
/// settings, which other clients of the pooler would inherit, nor prepared statements, which the next transaction may
/// not find.
pub(super) struct TransactionStatements {
    /// Begins a transaction and applies the settings in it.
    begin: String,
    /// The types of the parameters of each statement, as the server inferred them.
    types: Mutex<HashMap<&'static str, Arc<[Type]>>>,
    /// The connection that asks for types; `None` before its first use and after a failure.
    learner: Arc<tokio::sync::Mutex<Option<Client>>>,
    endpoint: Arc<Endpoint>,
    /// The calls in flight of the pool, which waits for them when it closes.
    calls: TaskTracker,
}

impl TransactionStatements {
    /// `None` if connections keep their settings.
    pub(super) fn of(endpoint: &Arc<Endpoint>, calls: &TaskTracker) -> Option<Arc<Self>> {
        (endpoint.scope() == SettingsScope::Transaction).then(|| {
            Arc::new(Self {
                begin: endpoint.begin(),
                types: Mutex::default(),
                learner: Default::default(),
                endpoint: Arc::clone(endpoint),
                calls: calls.clone(),
            })
        })
    }

    /// Runs a statement in a transaction with the settings, in one round trip. `sending` is the connection's.
    pub(super) async fn query(
        &self,
        client: &Client,
        sending: &Mutex<()>,
        sql: &'static str,
        parameters: Parameters<'_>,
        types: &[Type],
    ) -> Result<Vec<Row>, Error> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = parameters.iter().copied().zip(types.iter().cloned()).collect();
        let mut parts = pin!(join3(
            client.batch_execute(&self.begin),
            client.query_typed(sql, &typed),
            client.batch_execute("COMMIT"),
        ));
        // The first poll sends all parts. Those of another call must not be sent in between.
        let mut is_sent = false;
        let (begun, answer, ended) = poll_fn(|context| {
            let _sending = (!std::mem::replace(&mut is_sent, true)).then(|| sending.lock());
            parts.as_mut().poll(context)
        })
        .await;
        begun?;
        let rows = answer?;
        ended?;
        Ok(rows)
    }

    /// The types of a statement's parameters. The server is asked once for each statement, in a task that goes on if
    /// the caller is cancelled: the statement would stay prepared.
    pub(super) async fn parameter_types(self: &Arc<Self>, sql: &'static str) -> Result<Arc<[Type]>, ClassifiedError> {
        let known = || self.types.lock().get(sql).map(Arc::clone);
        if let Some(types) = known() {
            return Ok(types);
        }
        let mut learner = Arc::clone(&self.learner).lock_owned().await;
        // Another call may have asked meanwhile.
        if let Some(types) = known() {
            return Ok(types);
        }
        let this = Arc::clone(self);
        let asking = self.calls.spawn(async move { this.ask_for_types(&mut learner, sql).await });
        asking.await.unwrap_or_else(|error| Err(without_retry(LedgerError::Failed(error.to_string()))))
    }

    async fn ask_for_types(
        &self,
        learner: &mut Option<Client>,
        sql: &'static str,
    ) -> Result<Arc<[Type]>, ClassifiedError> {
        let client = match learner.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.endpoint.connect(|| ()).await.map_err(without_retry)?,
        };
        let asked = tokio::time::timeout(self.endpoint.timeout, inferred_types(&client, &self.begin, sql)).await;
        let Ok(types) = asked else {
            let why = format!("no answer within {:?}", self.endpoint.timeout);
            return Err(without_retry(LedgerError::Unreachable(why)));
        };
        let types = types.map_err(|error| classify(&error))?;
        *learner = Some(client);
        self.types.lock().insert(sql, Arc::clone(&types));
        Ok(types)
    }
}

fn without_retry(error: LedgerError) -> ClassifiedError {
    ClassifiedError { error, recovery: RetryDecision::GiveUp }
}

/// The types of a statement's parameters, as the server infers them in a transaction in which the statement is prepared
/// and closed again. The settings of the transaction make the server give up before the caller does.
async fn inferred_types(client: &Client, begin: &str, sql: &str) -> Result<Arc<[Type]>, Error> {
    client.batch_execute(begin).await?;
    let statement = client.prepare(sql).await?;
    let types = statement.params().into();
    // The server forgets the statement before the end of the transaction, which ends its hold of the connection.
    drop(statement);
    client.batch_execute("COMMIT").await?;
    Ok(types)
}
