//! Refusals of Redis, as calls report them: also those within a script that goes on after an error.

use feedline::broker::{Attempt, BrokerError, FanOut, PageRecipients, Pull};
use feedline::model::PostId;

use crate::engine::{Engine, post, to, user};
use crate::outages::healed;

/// How Redis is brought to refuse, how it works again, and the reason.
const REFUSALS: [(&str, &str, &str); 4] = [
    ("ACL SETUSER default -xadd", "ACL SETUSER default +@all", "no permission"),
    ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "out of memory"),
    ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "read only"),
    ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "not ready"),
];

#[tokio::test]
async fn refusals_are_reported_by_all_writes_to_inboxes() {
    let engine = Engine::redis().await;
    let server = engine.server.as_ref().expect("a Redis");
    let ann = [user("ann")];
    engine.open_with(&ann[0], &[1]).await;
    for (n, (begin, end, reason)) in (10..).zip(REFUSALS) {
        assert_eq!(server.ask(begin), "+OK", "{begin}");
        let (attempt, entry) = (engine.attempt(n), post(n));
        let (page, author) = (PageRecipients::Users(0), user("bo"));
        let fan_out =
            FanOut { attempt: &attempt, page: &page, entry: &entry, author: &author, users: &ann, created_at: 0 };
        let pull = Pull { mark: n, entry: &entry, users: &ann, attempt: Attempt::First };
        let calls = async || {
            [
                ("append", engine.broker.append(to(&entry)).await.map(drop)),
                ("fan-out", engine.broker.fan_out(fan_out).await.map(drop)),
                ("pull", engine.broker.pull(pull).await.map(drop)),
                ("merge", engine.broker.merge_inbox(&ann[0], &[PostId(n)], PostId::ZERO).await.map(drop)),
            ]
        };
        for (call, failed) in calls().await {
            let is_refused = match &failed {
                Err(BrokerError::Refused(found, _)) => found.as_str() == reason,
                // A connection to a replica is replaced: another one may lead to another server.
                Err(BrokerError::Unreachable(_)) => reason == "read only",
                _ => false,
            };
            assert!(is_refused, "{begin}: {call}: {failed:?}");
        }
        assert_eq!(server.ask(end), "+OK", "{end}");
        healed(&engine).await;
        for (call, done) in calls().await {
            assert!(done.is_ok(), "{end}: {call}: {done:?}");
        }
    }
}
