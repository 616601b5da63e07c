//! Signals: messages of a node to all nodes, itself included. They may be lost; receivers poll their stores as well.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::QueueOffset;
use super::connection_requests::{
    DisconnectRequest, NodeAnswer, NodeQuestion, RefreshRequest, ServerSubscription, UnsubscribeRequest,
};
use crate::model::{ContentId, Millis, NotificationId, PostId, Tally, TraceContext, UserId, lenient_trace};

/// A message to all nodes. It is JSON between nodes: variants and members are added, never changed, since nodes of two
/// versions run side by side during an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The pull log has a new entry.
    PullLogAppended,
    /// Jobs of this partition of fan-out wait in the ledger for its owner.
    JobsWaiting(u16),
    /// A process has given partitions of work back.
    WorkFreed,
    /// The queue of notification events has new entries.
    EventsWritten,
    /// The log of the outlet has new entries.
    OutletAppended,
    /// The ledger has begun a new incarnation: it was restored or replaced.
    LedgerReplaced,
    /// The log of revocations has a new entry.
    RevocationsAppended,
    /// A batch of likes was settled.
    LikesSettled(SettlementEvent),
    /// A backend closes connections.
    Disconnect(DisconnectRequest),
    /// A backend subscribes connections to a channel.
    Subscribe(ServerSubscription),
    /// A backend ends subscriptions.
    Unsubscribe(UnsubscribeRequest),
    /// A backend changes the expiry of connections.
    Refresh(RefreshRequest),
    /// A node asks all nodes.
    AskNodes {
        /// Identifies the answers.
        request: String,
        /// The question.
        question: NodeQuestion,
    },
    /// The answer of a node.
    NodeAnswered {
        /// The request.
        request: String,
        /// The answer.
        answer: NodeAnswer,
    },
    /// A node asks which of these items were taken live by their readers.
    ProbeSockets {
        /// Identifies the answers.
        request: String,
        /// The items.
        items: LiveItems,
    },
    /// A client sent commands to another node than that with its stream. For the latter alone.
    Emulated(EmulatedCommands),
    /// The fan-out of a post begins whose trace is recorded.
    PostTraced {
        /// The post.
        post: PostId,
        /// The span that deliveries of the post belong below.
        #[serde(deserialize_with = "lenient_trace")]
        trace: Option<TraceContext>,
    },
    /// The answer of every other node, also of one without their sockets.
    SocketsAnswered {
        /// The request.
        request: String,
        /// The items that were taken.
        items: LiveItemsTaken,
    },
}

/// Items that may have been taken live: see [`Signal::ProbeSockets`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveItems {
    /// Notifications of users.
    pub notifications: Vec<(UserId, NotificationId)>,
    /// Posts in the timelines of users.
    pub posts: Vec<(UserId, PostId)>,
}

/// Items that were taken live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveItemsTaken {
    /// Notifications, each with the state that was taken: when it last grew, in Unix milliseconds.
    pub notifications: Vec<(UserId, NotificationId, Millis)>,
    /// Posts in the timelines of users.
    pub posts: Vec<(UserId, PostId)>,
}

/// A settled batch of likes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementEvent {
    /// The partition of the queue of likes.
    pub partition: u16,
    /// Every like of the partition up to this offset is settled.
    pub through: QueueOffset,
    /// The counts of each object of the batch.
    #[serde(with = "tallies")]
    pub tallies: HashMap<ContentId, Tally>,
    /// Users and objects of likes that were reverted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<(UserId, ContentId)>,
    /// The other likes and removals of the batch: the user, the object, and whether the user likes it now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub likes: Vec<(UserId, ContentId, bool)>,
}

/// Commands of a client for its stream. They have one of the two forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmulatedCommands {
    /// The secret name of the stream.
    pub session: String,
    /// A frame of JSON.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// A frame of Protobuf, in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub binary: String,
}

impl Signal {
    /// The signal as nodes send it.
    ///
    /// # Errors
    /// Never in practice: all variants can be encoded.
    pub(super) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// The signal of another node. `None` for a signal that this version cannot read, for example one of a newer node:
    /// it is logged and ignored.
    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        /// Signals that could not be read since the process started.
        static UNREADABLE: AtomicU64 = AtomicU64::new(0);
        serde_json::from_slice(message)
            .inspect_err(|error| {
                let unreadable = UNREADABLE.fetch_add(1, Ordering::Relaxed) + 1;
                // Logs the first, the second, the fourth and so on: a newer node may send many.
                if unreadable.is_power_of_two() {
                    tracing::warn!(%error, unreadable, "ignores signals of another version");
                }
            })
            .ok()
    }
}

/// Counts as a list of object, likes, comments and version: a batch may have thousands.
mod tallies {
    use std::collections::HashMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::model::{ContentId, Tally};

    pub(super) fn serialize<S: Serializer>(
        tallies: &HashMap<ContentId, Tally>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(tallies.iter().map(|(object, it)| (object, it.likes, it.comments, it.version)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<HashMap<ContentId, Tally>, D::Error> {
        let rows = Vec::<(ContentId, u64, u64, u64)>::deserialize(deserializer)?;
        let tally = |(object, likes, comments, version)| (object, Tally { likes, comments, version });
        Ok(rows.into_iter().map(tally).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::connection_requests::ConnectionSelector;
    use crate::model::CommentId;

    #[test]
    fn signals_survive_the_way_between_nodes() {
        let ann = UserId::parse("ann.b-c_d").unwrap();
        let settled = SettlementEvent {
            partition: 3,
            through: QueueOffset { major: 7, minor: 9 },
            tallies: HashMap::from([
                (ContentId::Post(PostId(17)), Tally { likes: 5, comments: 0, version: 9 }),
                (ContentId::Comment(CommentId(18)), Tally { likes: 1, comments: 2, version: 3 }),
            ]),
            reverted: vec![(ann.clone(), ContentId::Post(PostId(19)))],
            likes: vec![(ann.clone(), ContentId::Post(PostId(17)), true)],
        };
        let connections = ConnectionSelector { user: "ann".into(), client: String::new(), session: "s".into() };
        let subscription = ServerSubscription {
            connections: connections.clone(),
            channel: "chat:1".into(),
            info: "{}".into(),
            data: "1".into(),
            recover: Some((7, "e".into())),
            expire_at: Some(1),
            replaced: Default::default(),
        };
        let disconnect = DisconnectRequest {
            connections: connections.clone(),
            whitelist: vec!["c".into()],
            code: 3000,
            reason: "\"bye\"".into(),
        };
        let signals = [
            Signal::PullLogAppended,
            Signal::JobsWaiting(17),
            Signal::WorkFreed,
            Signal::EventsWritten,
            Signal::LedgerReplaced,
            Signal::RevocationsAppended,
            Signal::LikesSettled(settled),
            Signal::Disconnect(disconnect),
            Signal::Subscribe(subscription),
            Signal::Unsubscribe(UnsubscribeRequest { connections: connections.clone(), channel: "chat:1".into() }),
            Signal::Refresh(RefreshRequest { connections, expired: true, expire_at: Some(1), info: "{}".into() }),
            Signal::AskNodes { request: "r".into(), question: NodeQuestion::Channels("chat:*".into()) },
            Signal::NodeAnswered { request: "r".into(), answer: NodeAnswer::Channels([("chat:1".into(), 2)].into()) },
            Signal::ProbeSockets {
                request: "r".into(),
                items: LiveItems {
                    notifications: vec![(ann.clone(), NotificationId(5))],
                    posts: vec![(ann.clone(), PostId(17))],
                },
            },
            Signal::SocketsAnswered {
                request: "r".into(),
                items: LiveItemsTaken {
                    notifications: vec![(ann.clone(), NotificationId(5), 9)],
                    posts: vec![(ann, PostId(17))],
                },
            },
            Signal::PostTraced { post: PostId(17), trace: Some(TraceContext { trace: 7, span: 9 }) },
            Signal::Emulated(EmulatedCommands { session: "s".into(), text: "{}\n{}".into(), binary: String::new() }),
        ];
        for signal in signals {
            assert_eq!(Signal::decode(&signal.encode().unwrap()), Some(signal));
        }
    }

    #[test]
    fn the_form_between_nodes_does_not_change() {
        let tallies = HashMap::from([(ContentId::Post(PostId(17)), Tally { likes: 5, comments: 0, version: 9 })]);
        let settled = SettlementEvent {
            partition: 3,
            through: QueueOffset { major: 7, minor: 9 },
            tallies,
            reverted: Vec::new(),
            likes: Vec::new(),
        };
        let members = r#""partition":3,"through":{"major":7,"minor":9},"tallies":[["p17",5,0,9]]"#;
        let expected = format!(r#"{{"likes_settled":{{{members}}}}}"#);
        assert_eq!(String::from_utf8(Signal::LikesSettled(settled).encode().unwrap()).unwrap(), expected);
        assert_eq!(Signal::EventsWritten.encode().unwrap(), br#""events_written""#);
    }

    #[test]
    fn signals_of_a_newer_version_are_ignored() {
        for message in ["", "\"something_new\"", "{\"something_new\":{}}", "{\"likes_settled\":{\"partition\":1}}"] {
            assert_eq!(Signal::decode(message.as_bytes()), None, "{message}");
        }
        let with_more = br#"{"disconnect":{"user":"ann","code":3000,"reason":"","something_new":1}}"#;
        assert!(matches!(Signal::decode(with_more), Some(Signal::Disconnect(_))));
    }
}
