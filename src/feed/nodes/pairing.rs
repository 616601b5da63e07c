//! Whether a ledger and a broker belong together, by their records of each other.

use crate::broker::{BrokerError, BrokerIdentity, MEMORY_PLACE};
use crate::feed::error::FeedError;
use crate::ledger::{LedgerError, LedgerIdentity, Partner, PartnerChange};

/// What to do about a store that is another one by mistake, or on purpose.
const ADVICE: &str = "correct broker.url, broker.prefix or ledger.url, or, to move the deployment on purpose, \
                      stop all nodes and run `feedline adopt`";

/// Why a node cannot use its stores.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The ledger records another broker.
    #[error("{ledger} belongs to another broker: to {recorded}, not to {configured}; {ADVICE}")]
    OtherBroker {
        /// The ledger.
        ledger: String,
        /// Where its broker was last reached.
        recorded: String,
        /// The broker of this node.
        configured: String,
    },
    /// The broker records another ledger.
    #[error("{broker} belongs to another ledger: to {recorded}, not to {configured}; {ADVICE}")]
    OtherLedger {
        /// The broker.
        broker: String,
        /// Where its ledger was last reached.
        recorded: String,
        /// The ledger of this node.
        configured: String,
    },
    /// A live node of the ledger uses another broker.
    #[error("a live node, {node}, uses {ledger} with another broker: with {used}, not with {configured}; {ADVICE}")]
    LiveBroker {
        /// The other node.
        node: String,
        /// The ledger.
        ledger: String,
        /// The broker of the other node.
        used: String,
        /// The broker of this node.
        configured: String,
    },
    /// A live node of the broker uses another ledger.
    #[error("a live node uses {broker} with another ledger: with {used}, not with {configured}; {ADVICE}")]
    LiveLedger {
        /// The broker.
        broker: String,
        /// The ledger of the other node, as the broker records it. Copies of a ledger may have the same record.
        used: String,
        /// The ledger of this node.
        configured: String,
    },
    /// A node is alive, so that nothing can be adopted.
    #[error("a node is running: {0}; stop all nodes first")]
    NodeRuns(String),
    /// Other nodes change the records again and again.
    #[error("other nodes register with these stores again and again: try later")]
    Contended,
    /// A store cannot be used now.
    #[error("a store cannot be used: {0}")]
    Store(String),
}

impl From<FeedError> for JoinError {
    fn from(error: FeedError) -> Self {
        Self::Store(error.reason())
    }
}

impl From<LedgerError> for JoinError {
    fn from(error: LedgerError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<BrokerError> for JoinError {
    fn from(error: BrokerError) -> Self {
        Self::Store(error.to_string())
    }
}

/// Both stores, as they are now.
pub(super) struct Stores {
    pub(super) ledger: LedgerIdentity,
    pub(super) ledger_place: String,
    pub(super) broker: BrokerIdentity,
    pub(super) broker_place: String,
}

/// The records of two stores that belong together.
#[derive(Clone, Debug)]
pub(super) struct Pairing {
    /// In the ledger: the record of the broker.
    pub(super) in_ledger: PartnerChange,
    /// In the broker: the record of the ledger.
    pub(super) in_broker: PartnerChange,
}

impl Stores {
    /// The records of the two stores, unless one of them is the partner of a third one.
    pub(super) fn pair(&self) -> Result<Pairing, JoinError> {
        if let Some(recorded) = self.broker.ledger.as_ref().filter(|recorded| recorded.id != self.ledger.id) {
            return Err(JoinError::OtherLedger {
                broker: self.broker_place.clone(),
                recorded: recorded.place.clone(),
                configured: self.ledger_place.clone(),
            });
        }
        if let Some(recorded) = self.ledger.broker.as_ref().filter(|recorded| !self.is_recorded(recorded)) {
            return Err(JoinError::OtherBroker {
                ledger: self.ledger_place.clone(),
                recorded: recorded.place.clone(),
                configured: self.broker_place.clone(),
            });
        }
        // An emptied broker gets its former id, which the other nodes know.
        let former = self.ledger.broker.as_ref().map(|recorded| recorded.id.clone());
        Ok(self.records(former, self.adoptions()))
    }

    /// Whether the broker is the recorded one.
    fn is_recorded(&self, recorded: &Partner) -> bool {
        match &self.broker.id {
            Some(id) if *id == recorded.id => true,
            // The memory of a process that has ended: nobody else has it.
            Some(_) if self.broker_place == MEMORY_PLACE => recorded.place == MEMORY_PLACE,
            // The ledger was restored from a time before the broker was adopted.
            Some(_) => self.broker.ledger.as_ref().is_some_and(|ledger| ledger.adoptions > recorded.adoptions),
            None => recorded.place == self.broker_place,
        }
    }

    /// The records that make these stores belong together, whatever they were before.
    pub(super) fn adopt(&self) -> Pairing {
        self.records(None, self.adoptions() + 1)
    }

    fn adoptions(&self) -> u64 {
        let of = |record: &Option<Partner>| record.as_ref().map_or(0, |recorded| recorded.adoptions);
        of(&self.ledger.broker).max(of(&self.broker.ledger))
    }

    fn records(&self, former: Option<String>, adoptions: u64) -> Pairing {
        let broker = self.broker.id.clone().or(former);
        let broker = broker.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string().split_off(12));
        let partner = |id, place: &String| Partner { id, place: place.clone(), adoptions };
        Pairing {
            in_ledger: PartnerChange {
                expected: self.ledger.broker.clone(),
                partner: partner(broker, &self.broker_place),
            },
            in_broker: PartnerChange {
                expected: self.broker.ledger.clone(),
                partner: partner(self.ledger.id.clone(), &self.ledger_place),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEDGER: &str = "sqlite:///data/feedline.db";

    fn record(id: &str, place: &str, adoptions: u64) -> Option<Partner> {
        Some(Partner { id: id.into(), place: place.into(), adoptions })
    }

    fn stores(in_ledger: Option<Partner>, broker: (&str, &str), in_broker: Option<Partner>) -> Stores {
        let (id, place) = broker;
        let id = Some(id.to_owned()).filter(|id| !id.is_empty());
        Stores {
            ledger: LedgerIdentity { id: "L".into(), broker: in_ledger, nodes: vec![] },
            ledger_place: LEDGER.into(),
            broker: BrokerIdentity { id, ledger: in_broker, nodes: vec![] },
            broker_place: place.into(),
        }
    }

    #[test]
    fn stores_that_belong_together() {
        let cases = [
            ("new ones", stores(None, ("", "redis://a"), None)),
            ("the same", stores(record("A", "redis://a", 0), ("A", "redis://a"), record("L", LEDGER, 0))),
            ("by another name", stores(record("A", "redis://a", 0), ("A", "redis://b"), record("L", "sqlite://x", 0))),
            ("emptied", stores(record("A", "redis://a", 0), ("", "redis://a"), None)),
            ("memory of a former process", stores(record("M", "memory:", 0), ("N", "memory:"), None)),
            ("a ledger from before an adoption", {
                stores(record("M", "memory:", 0), ("A", "redis://a"), record("L", LEDGER, 1))
            }),
            ("a broker from before an adoption", {
                stores(record("A", "redis://a", 2), ("A", "redis://a"), record("L", LEDGER, 1))
            }),
        ];
        for (what, stores) in cases {
            let Pairing { in_ledger, in_broker } = stores.pair().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(in_broker.partner.id, "L", "{what}");
            assert_eq!(in_ledger.partner.adoptions, in_broker.partner.adoptions, "{what}");
        }
        let emptied = stores(record("A", "redis://a", 0), ("", "redis://a"), None).pair().expect("the same");
        assert_eq!(emptied.in_ledger.partner.id, "A", "it keeps its id");
    }

    #[test]
    fn stores_of_others_are_refused_with_both_names() {
        let cases = [
            (
                "redis for memory",
                stores(record("M", "memory:", 0), ("", "redis://a"), None),
                "to memory:, not to redis://a",
            ),
            (
                "memory for redis",
                stores(record("A", "redis://a", 0), ("M", "memory:"), None),
                "to redis://a, not to memory:",
            ),
            (
                "an empty one elsewhere",
                stores(record("A", "redis://a", 0), ("", "redis://b"), None),
                "not to redis://b",
            ),
            (
                "of another ledger",
                stores(None, ("A", "redis://a"), record("K", "postgres://x/y", 0)),
                "to postgres://x/y",
            ),
            (
                "the one from before an adoption",
                { stores(record("B", "redis://b", 1), ("A", "redis://a"), record("L", LEDGER, 0)) },
                "to redis://b, not to redis://a",
            ),
        ];
        for (what, stores, named) in cases {
            let message = stores.pair().map(|pairing| panic!("{what}: {pairing:?}")).unwrap_err().to_string();
            assert!(message.contains(named) && message.contains("feedline adopt"), "{what}: {message}");
            assert!(message.contains(LEDGER), "{what}: {message}");
            let adopted = stores.adopt();
            assert!(adopted.in_ledger.partner.adoptions > 0, "{what}");
        }
    }
}
