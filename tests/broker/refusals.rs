//! Refusals of Redis, as calls report them: also those within a script that goes on after an error.

use feedline::broker::{Attempt, BrokerError, FanOut, JobAttempt, JobProgress, PageRecipients, Pull};
use feedline::model::PostId;

use crate::engine::{Engine, post, timeline, timelines, to, user};
use crate::outages::healed;

/// How Redis is made to refuse, how it works again, and the reason.
const REFUSALS: [(&str, &str, &str); 4] = [
    ("ACL SETUSER default -xadd", "ACL SETUSER default +@all", "no permission"),
    ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "out of memory"),
    ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "read only"),
    ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "not ready"),
];

#[tokio::test]
async fn refused_writes_are_reported_and_can_be_repeated() {
    let engine = Engine::redis().await;
    let server = engine.server.as_ref().expect("a Redis");
    let ann = [user("ann")];
    engine.open_with(&ann[0], &[1]).await;
    let mut expected = vec![post(1)];
    for (n, (begin, end, reason)) in (10..).zip(REFUSALS) {
        assert_eq!(server.ask(begin), "+OK", "{begin}");
        let [first, second, third] = [3 * n, 3 * n + 1, 3 * n + 2];
        let (attempt, entry, pulled) = (engine.attempt(n), post(first), post(second));
        let (page, author) = (PageRecipients::Users(0), user("bo"));
        let fan_out =
            FanOut { attempt: &attempt, page: &page, entry: &entry, author: &author, users: &ann, created_at: 0 };
        let pull = Pull { mark: n, entry: &pulled, inboxes: &timelines(&ann), attempt: Attempt::First };
        let calls = async |fan_out| {
            [
                ("append", engine.broker.append(to(&entry)).await.map(drop)),
                ("fan-out", engine.broker.fan_out(fan_out).await.map(drop)),
                ("pull", engine.broker.pull(pull).await.map(drop)),
                (
                    "merge",
                    engine.broker.merge_inbox(&timeline(&ann[0]), &[PostId(third)], PostId::ZERO).await.map(drop),
                ),
            ]
        };
        for (call, failed) in calls(fan_out).await {
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
        // The next attempt at the job knows that the page was not written.
        let next = JobAttempt { retry: 1, ..attempt.clone() };
        assert_eq!(engine.broker.begin_attempt(&next).await.unwrap(), Some(JobProgress::default()), "{begin}");
        let done = calls(FanOut { attempt: &next, ..fan_out }).await;
        assert!(done.iter().all(|(_, done)| done.is_ok()), "{end}: {done:?}");
        // Nothing was taken for written meanwhile, and nothing is written twice.
        expected.extend([first, second, third].map(post));
        assert_eq!(engine.entries(&ann[0]).await, expected, "{begin}");
    }
}

/// An entry that is in an inbox, although Redis refused to signal it, is not written again.
#[tokio::test]
async fn a_page_that_was_not_signalled_is_not_written_twice() {
    let engine = Engine::redis().await;
    let server = engine.server.as_ref().expect("a Redis");
    let users = [user("ann"), user("cy")];
    for user in &users {
        engine.open_with(user, &[1]).await;
    }
    let (attempt, entry, author, page) = (engine.attempt(10), post(10), user("bo"), PageRecipients::Users(0));
    let fan_out =
        FanOut { attempt: &attempt, page: &page, entry: &entry, author: &author, users: &users, created_at: 0 };
    assert_eq!(server.ask("ACL SETUSER default -publish"), "+OK");
    let refused = engine.broker.fan_out(fan_out).await;
    assert!(matches!(refused, Err(BrokerError::Refused(..))), "{refused:?}");
    assert_eq!(engine.entries(&users[0]).await, [post(1), post(10)], "it was written");
    assert_eq!(server.ask("ACL SETUSER default +@all"), "+OK");
    healed(&engine).await;
    let next = JobAttempt { retry: 1, ..attempt.clone() };
    let progress = engine.broker.begin_attempt(&next).await.unwrap();
    assert_eq!(progress, Some(JobProgress::default()), "the page is not done");
    engine.broker.fan_out(FanOut { attempt: &next, ..fan_out }).await.unwrap();
    for user in &users {
        assert_eq!(engine.entries(user).await, [post(1), post(10)]);
    }
}

/// A log whose expiry Redis refused to set goes on with the next offset.
#[tokio::test]
async fn a_log_without_an_expiry_goes_on() {
    let engine = Engine::redis().await;
    let server = engine.server.as_ref().expect("a Redis");
    assert_eq!(server.ask("ACL SETUSER default -pexpire"), "+OK");
    let refused = engine.broker.append(to(&post(1))).await;
    assert!(matches!(refused, Err(BrokerError::Refused(..))), "{refused:?}");
    assert_eq!(server.ask("ACL SETUSER default +@all"), "+OK");
    healed(&engine).await;
    engine.broker.append(to(&post(2))).await.unwrap();
}
