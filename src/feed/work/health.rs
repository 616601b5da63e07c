//! What work waits for, for operators: `/ready` shows it.

use std::sync::Arc;

use super::quarantine::QuarantinePolicy;
use crate::broker::Broker;
use crate::ledger::Ledger;

/// The longest reason that is shown, in characters.
const MAX_REASON: usize = 300;

/// The state of the stores, and of the work that needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// For each store, why it does not work; `None`: it does.
    pub stores: [(&'static str, Option<String>); 2],
    /// For each kind of work, why it waits; `None`: it goes on.
    pub work: Vec<(&'static str, Option<String>)>,
}

/// The kinds of work of this process, with the policies that know what each waits for.
pub(crate) type WorkKinds = Vec<(&'static str, Arc<QuarantinePolicy>)>;

impl StoreHealth {
    /// Whether both stores work.
    pub fn is_well(&self) -> bool {
        self.stores.iter().all(|(_, trouble)| trouble.is_none())
    }

    /// Asks both stores, and collects what work waits for.
    pub(crate) async fn read(kinds: &WorkKinds, ledger: &dyn Ledger, broker: &dyn Broker) -> Self {
        let (ledger, broker) = tokio::join!(ledger.ping(), broker.ping());
        let ledger = ledger.err().map(|error| shorten(&error.to_string()));
        let broker = broker.err().map(|error| shorten(&error.to_string()));
        let work = kinds.iter().map(|(kind, policy)| (*kind, policy.waits_for().as_deref().map(shorten)));
        Self { stores: [("ledger", ledger), ("broker", broker)], work: work.collect() }
    }
}

fn shorten(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}
