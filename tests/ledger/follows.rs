//! Conformance tests of follows: their outcomes, and the posts that they bring into a timeline. Each case takes an
//! empty ledger.

use std::sync::Arc;

use feedline::ledger::{FollowOutcome, Ledger};
use feedline::model::{PostId, Relation, Restriction, Visibility};

use crate::support::{NOW, conformance, delete, follow, id, load_all, own_all, post, publish, store, users};

conformance! {
    a_refused_follow_says_why_and_writes_nothing
    merged_posts_are_the_newest_of_authors_who_are_followed
    removed_jobs_come_with_current_relations
}

type Any = Arc<dyn Ledger>;

async fn a_refused_follow_says_why_and_writes_nothing(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee", "eve"]).await;
    let owned = own_all(&*ledger, "w1").await;
    ledger.restrict(Restriction::Block, &id("bo"), &id("ann"), NOW).await.unwrap();
    ledger.restrict(Restriction::Block, &id("ann"), &id("cy"), NOW).await.unwrap();
    ledger.begin_erasure(&id("dee"), NOW).await.unwrap();
    let blocks = load_all(&*ledger, &owned).await.len();
    let outcome = async |followee: &str| ledger.follow(&id("ann"), &id(followee), NOW, 0).await.expect("an outcome");
    let bo = outcome("bo").await;
    assert!(matches!(bo, FollowOutcome::Blocked), "{bo:?}");
    let cy = outcome("cy").await;
    assert!(matches!(cy, FollowOutcome::Blocks), "{cy:?}");
    for unknown in ["dee", "nobody"] {
        let outcome = outcome(unknown).await;
        assert!(matches!(outcome, FollowOutcome::NoUser), "{unknown}: {outcome:?}");
    }
    let eve = outcome("eve").await;
    assert!(matches!(eve, FollowOutcome::Full), "{eve:?}");
    assert!(ledger.followees(&id("ann"), 9).await.unwrap().is_empty());
    assert_eq!(load_all(&*ledger, &owned).await.len(), blocks, "no job");
}

async fn merged_posts_are_the_newest_of_authors_who_are_followed(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for number in 1..=4 {
        publish(&*ledger, number, "bo").await;
    }
    let only_to = Visibility::OnlyTo(vec![id("ann")]);
    store(&*ledger, feedline::model::Post { visibility: only_to.clone(), ..post(5, "bo", &[]) }).await.unwrap();
    publish(&*ledger, 6, "ann").await;
    delete(&*ledger, 4, "bo").await;
    follow(&*ledger, &id("ann"), &id("bo")).await;
    let pair = |reader, author| (id(reader), id(author));
    let pairs = [pair("ann", "bo"), pair("bo", "ann"), pair("ann", "cy")];
    let sources = ledger.merge_sources(&pairs, 3).await.unwrap();
    let public = |number| (PostId(number), Visibility::Public);
    assert_eq!(sources[0].posts, [(PostId(5), only_to), public(3), public(2)]);
    assert_eq!(sources[0].relation, Relation { follows: true, ..Relation::default() });
    assert_eq!(sources[1].relation, Relation { followed: true, ..Relation::default() });
    assert!(sources[1].posts.is_empty(), "bo does not follow ann");
    assert_eq!((sources[2].relation, sources[2].posts.len()), (Relation::default(), 0));
    follow(&*ledger, &id("bo"), &id("ann")).await;
    let sources = ledger.merge_sources(&pairs[..2], 3).await.unwrap();
    assert_eq!(sources[1].posts, [public(6)]);
}

async fn removed_jobs_come_with_current_relations(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let owned = own_all(&*ledger, "w1").await;
    let job = ledger.follow(&id("ann"), &id("bo"), NOW, 9).await.unwrap().job().expect("a job").job;
    ledger.restrict(Restriction::Mute, &id("ann"), &id("bo"), NOW).await.unwrap();
    let before = load_all(&*ledger, &owned).await.len();
    let pairs = [(id("bo"), id("ann")), (id("ann"), id("bo"))];
    for _ in 0..2 {
        // A repeat removes nothing, and returns the same.
        let relations = ledger.remove_job(job.id, &pairs).await.unwrap();
        let expected = Relation { follows: true, muted: true, ..Relation::default() };
        assert_eq!(relations, [Relation { followed: true, ..Relation::default() }, expected]);
        assert_eq!(load_all(&*ledger, &owned).await.len(), before - 1);
    }
}
