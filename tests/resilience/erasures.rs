//! Erasures whose process ends meanwhile.

use std::time::{Duration, Instant};

use feedline::model::PostId;

use crate::cluster::{done, post, until};
use crate::likers::Field;
use crate::server::Server;

/// Posts of the user: three pages, with pauses between them.
const POSTS: usize = 120;

/// Longer than the lease of a process, two passes, and the pause between them.
const FINISHED: Duration = Duration::from_secs(60);

/// A node is killed, or stopped, within a pass. The other one finishes the erasure.
async fn another_node_finishes(mut field: Field, end: impl AsyncFnOnce(&mut Server)) {
    let mut posts = Vec::new();
    for n in 0..POSTS {
        posts.push(PostId(post(&field.nodes[0], "ann", &format!("post {n}")).await));
    }
    done(&field.nodes[1], "ann", "DELETE", "/accounts").await;
    let ledger = field.ledger.clone();
    let left = async || ledger.posts(&posts).await.expect("the posts").len();
    until("it is under way", async || left().await < POSTS).await;
    let owner = field.owner("erasure").await.expect("an owner");
    end(&mut field.nodes[owner]).await;
    assert!(left().await > 0, "the pass ended before the node");
    let begun = Instant::now();
    while !ledger.due_erasures(u64::MAX >> 1, 9).await.expect("the erasures").is_empty() {
        assert!(begun.elapsed() < FINISHED, "it is not finished\n{}", field.nodes[1 - owner].log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(left().await, 0);
    field.nodes[1 - owner].metric_is("feedline_erasures_total", 1.0).await;
}

#[tokio::test]
async fn another_node_finishes_when_one_is_killed() {
    another_node_finishes(Field::redis(2, &[]).await, async |owner| owner.kill()).await;
}

/// The partition is given back at once: the lease would end after the test.
#[tokio::test]
async fn another_node_finishes_when_one_is_stopped_on_postgres() {
    let field = Field::postgres(2, &[("fanout.lease", "2m")]).await;
    another_node_finishes(field, async |owner| _ = owner.stop().await).await;
}
