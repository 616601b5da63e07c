//! New posts in the inboxes of their authors.

use std::time::{SystemTime, UNIX_EPOCH};

use feedline::broker::{FanOut, FannedOut, PageRecipients, Receipt};
use feedline::model::{PostId, UserId};

use crate::engine::{Engine, ids, post, posts, timeline, user};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Fans a post out to one user, as a job that was created now.
async fn fan_now(engine: &Engine, job: u64, author: &UserId, reader: &UserId, id: u64) -> FannedOut {
    let created_at = now();
    let (attempt, entry, users) = (engine.attempt(job), post(id), std::slice::from_ref(reader));
    let page = FanOut { attempt: &attempt, page: &PageRecipients::Users(0), entry: &entry, author, users, created_at };
    engine.broker.fan_out(page).await.unwrap()
}

pub(crate) async fn own_posts_are_added_once(mut engine: Engine) {
    let ann = user("ann");
    assert_eq!(engine.broker.add_own_post(&ann, PostId(5)).await.unwrap(), 0, "there is no inbox");
    let epoch = engine.open_unfilled(&ann).await;
    assert_eq!(engine.broker.add_own_post(&ann, PostId(30)).await.unwrap(), 1);
    assert_eq!(engine.broker.add_own_post(&ann, PostId(30)).await.unwrap(), 0);
    engine.fill(&ann, &epoch, &[20, 30], 10).await.unwrap();
    engine.broker.subscribe("timeline:ann").await.unwrap();
    let unchanged = FannedOut::Written(vec![Receipt::Unchanged]);
    let written = FannedOut::Written(vec![Receipt::Written(1)]);
    assert_eq!(fan_now(&engine, 1, &ann, &ann, 30).await, unchanged, "it was added before the fill");
    assert_eq!(engine.broker.add_own_post(&ann, PostId(20)).await.unwrap(), 0, "the fill added it");
    assert_eq!(engine.broker.add_own_post(&ann, PostId(5)).await.unwrap(), 0, "it is below the floor");
    assert_eq!(engine.broker.add_own_post(&ann, PostId(40)).await.unwrap(), 1);
    assert_eq!(fan_now(&engine, 2, &ann, &ann, 40).await, unchanged);
    // A job that came first, and two posts in the opposite order.
    assert_eq!(fan_now(&engine, 3, &ann, &ann, 50).await, written);
    assert_eq!(engine.broker.add_own_post(&ann, PostId(50)).await.unwrap(), 0);
    assert_eq!(engine.broker.add_own_post(&ann, PostId(70)).await.unwrap(), 1);
    assert_eq!(engine.broker.add_own_post(&ann, PostId(60)).await.unwrap(), 1);
    assert_eq!(fan_now(&engine, 4, &ann, &ann, 60).await, unchanged);
    assert_eq!(fan_now(&engine, 5, &ann, &ann, 70).await, unchanged);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[40, 60]), PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.entries(&ann).await, posts(&[20, 30, 40, 50, 70, 60]));
    assert_eq!(engine.all_pushes().await.len(), 4);
}

/// Posts of others that are still being fanned out are older than the reader's own new post.
#[tokio::test]
async fn own_posts_do_not_cause_searches_in_redis() {
    let mut engine = Engine::redis().await;
    let (ann, bo) = (user("ann"), user("bo"));
    engine.open(&ann).await;
    engine.server().ask("CONFIG RESETSTAT");
    for id in (100..1_000).step_by(100) {
        assert_eq!(engine.broker.add_own_post(&ann, PostId(id + 50)).await.unwrap(), 1);
        let written = FannedOut::Written(vec![Receipt::Written(0)]);
        assert_eq!(fan_now(&engine, id, &bo, &ann, id).await, written);
    }
    let server = engine.server();
    assert_eq!((server.calls("xadd"), server.calls("xrevrange"), server.calls("xrange")), (18, 0, 0));
}
