//! Reposts and quotes.

use std::sync::Arc;

use feedline::ledger::{Ledger, NamingOutcome, Work};
use feedline::model::{Post, PostId, VersionedCounts, Visibility};

use crate::support::{NOW, conformance, delete, id, post, publish, store, users};

type Any = Arc<dyn Ledger>;

conformance! {
    a_user_reposts_a_post_once
    quotes_are_listed_until_they_are_detached
    the_newest_reposts_are_known
    rows_of_erased_posts_go
}

fn repost(number: u64, author: &str, of: u64) -> Post {
    Post::repost(PostId(number), &id(author), PostId(of), Visibility::Public)
}

fn quote(number: u64, author: &str, of: u64) -> Post {
    Post { quote: Some(PostId(of)), ..post(number, author, &[]) }
}

async fn create(ledger: &dyn Ledger, post: &Post) -> NamingOutcome {
    ledger.create_naming_post(post, None).await.expect("an answer")
}

/// The numbers of reposts and quotes of a post, and whether its version grew.
async fn counts(ledger: &dyn Ledger, post: u64) -> (u64, u64, u64) {
    let VersionedCounts { counts, version } = ledger.versioned_counts(PostId(post)).await.expect("counts");
    let shown = ledger.counts(&[PostId(post)]).await.expect("counts");
    assert_eq!(shown.first().map(|(_, counts)| *counts).unwrap_or_default(), counts, "what pages show");
    (counts.reposts, counts.quotes, version)
}

async fn a_user_reposts_a_post_once(ledger: Any) {
    let ledger = &*ledger;
    users(ledger, &["ann", "bo", "cy"]).await;
    publish(ledger, 1, "ann").await;
    let first = repost(2, "bo", 1);
    let NamingOutcome::Stored(new) = create(ledger, &first).await else { panic!("it is new") };
    assert_eq!(new.job.work, Work::Post { post: PostId(2), author: id("bo"), trace: None });
    assert_eq!(create(ledger, &first).await, NamingOutcome::Before, "a repeat");
    assert_eq!(create(ledger, &repost(3, "bo", 1)).await, NamingOutcome::Reposted(PostId(2)));
    assert!(matches!(create(ledger, &repost(4, "cy", 1)).await, NamingOutcome::Stored(_)));
    assert_eq!(create(ledger, &repost(5, "cy", 99)).await, NamingOutcome::NoPost);
    assert_eq!(ledger.posts(&[PostId(2), PostId(3)]).await.expect("posts"), [first], "nothing else was stored");
    let before = counts(ledger, 1).await;
    assert_eq!((before.0, before.1), (2, 0));
    assert_eq!(ledger.repost_by(&id("bo"), PostId(1)).await.expect("an answer"), Some(PostId(2)));
    let pairs = [(PostId(1), id("bo")), (PostId(1), id("ann")), (PostId(2), id("cy")), (PostId(1), id("cy"))];
    let mut found = ledger.reposted_among(&pairs).await.expect("pairs");
    found.sort();
    assert_eq!(found, [((PostId(1), id("bo")), PostId(2)), ((PostId(1), id("cy")), PostId(4))]);
    let reposters = async |before: u64, limit| {
        let listed = ledger.reposts_of(PostId(1), PostId(before), limit).await.expect("reposts");
        listed.into_iter().map(|it| (it.repost.0, it.user.id.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(reposters(99, 9).await, [(4, "cy".to_owned()), (2, "bo".to_owned())]);
    assert_eq!(reposters(99, 1).await.len(), 1);
    assert_eq!(reposters(4, 9).await, [(2, "bo".to_owned())]);
    assert!(delete(ledger, 2, "bo").await.is_some());
    let after = counts(ledger, 1).await;
    assert!((after.0, after.1) == (1, 0) && after.2 > before.2, "{after:?}, {before:?}");
    assert_eq!(ledger.repost_by(&id("bo"), PostId(1)).await.expect("an answer"), None);
    assert!(matches!(create(ledger, &repost(6, "bo", 1)).await, NamingOutcome::Stored(_)), "again");
    let profile = ledger.profile(&id("bo"), None, NOW).await.expect("an answer").expect("a profile");
    assert_eq!(profile.posts, 1);
}

async fn quotes_are_listed_until_they_are_detached(ledger: Any) {
    let ledger = &*ledger;
    users(ledger, &["ann", "bo", "cy"]).await;
    publish(ledger, 1, "ann").await;
    publish(ledger, 2, "cy").await;
    for (number, author, of) in [(3, "bo", 1), (4, "cy", 1), (5, "bo", 1), (6, "bo", 2), (7, "bo", 1)] {
        let outcome = create(ledger, &quote(number, author, of)).await;
        assert!(matches!(outcome, NamingOutcome::Stored(_)), "{outcome:?}");
    }
    let quotes = async |before| ledger.quotes_of(PostId(1), PostId(before), 9).await.expect("quotes");
    assert_eq!(quotes(99).await, [7, 5, 4, 3].map(PostId));
    assert_eq!(quotes(5).await, [4, 3].map(PostId));
    assert_eq!(ledger.quoted_by(PostId(3)).await.expect("an answer"), Some((PostId(1), id("ann"))));
    assert_eq!(ledger.quoted_by(PostId(1)).await.expect("an answer"), None);
    assert!(!ledger.detach_quote(&id("cy"), PostId(3)).await.expect("an answer"), "not theirs");
    assert!(ledger.detach_quote(&id("ann"), PostId(3)).await.expect("an answer"));
    assert!(!ledger.detach_quote(&id("ann"), PostId(3)).await.expect("an answer"), "once");
    assert_eq!(quotes(99).await, [7, 5, 4].map(PostId));
    assert_eq!(ledger.detached_among(&[PostId(3), PostId(4), PostId(1)]).await.expect("quotes"), [PostId(3)]);
    assert_eq!(counts(ledger, 1).await.1, 3);
    // A detached quote that is deleted counts no more than before.
    delete(ledger, 3, "bo").await;
    assert_eq!(counts(ledger, 1).await.1, 3);
    delete(ledger, 7, "bo").await;
    assert_eq!(counts(ledger, 1).await.1, 2);
    let all = ledger.detach_quotes_by(&id("ann"), &id("bo"), 9).await.expect("quotes");
    assert_eq!(all, [PostId(5)], "of ann's posts alone");
    assert_eq!((counts(ledger, 1).await.1, counts(ledger, 2).await.1), (1, 1));
    assert!(ledger.detach_quotes_by(&id("ann"), &id("bo"), 9).await.expect("quotes").is_empty());
}

async fn the_newest_reposts_are_known(ledger: Any) {
    let ledger = &*ledger;
    users(ledger, &["ann", "bo", "cy", "dee"]).await;
    publish(ledger, 1, "ann").await;
    publish(ledger, 2, "ann").await;
    for (number, author, of) in [(11, "bo", 1), (12, "cy", 1), (13, "dee", 1), (14, "bo", 2)] {
        create(ledger, &repost(number, author, of)).await;
    }
    let newest = async |each| {
        let mut newest = ledger.newest_reposts(&[1, 2, 3].map(PostId), each).await.expect("reposts");
        newest.sort();
        newest.into_iter().map(|it| (it.post.0, it.repost.0)).collect::<Vec<_>>()
    };
    assert_eq!(newest(9).await, [(1, 11), (1, 12), (1, 13), (2, 14)]);
    assert_eq!(newest(2).await, [(1, 12), (1, 13), (2, 14)]);
    let mut reposts = ledger.newest_reposts(&[PostId(1)], 2).await.expect("reposts");
    reposts.sort();
    let jobs = ledger.hide_reposts(&reposts, NOW).await.expect("jobs");
    let work = |repost, author| Work::HideRepost { repost: PostId(repost), author: id(author) };
    assert_eq!(jobs.into_iter().map(|new| new.job.work).collect::<Vec<_>>(), [work(12, "cy"), work(13, "dee")]);
    assert!(ledger.hide_reposts(&[], NOW).await.expect("jobs").is_empty());
}

async fn rows_of_erased_posts_go(ledger: Any) {
    let ledger = &*ledger;
    users(ledger, &["ann", "bo"]).await;
    store(ledger, post(1, "ann", &[])).await.expect("a post");
    create(ledger, &repost(2, "bo", 1)).await;
    create(ledger, &quote(3, "bo", 1)).await;
    ledger.begin_erasure(&id("ann"), NOW).await.expect("an erasure");
    delete(ledger, 1, "ann").await;
    while ledger.erase_deleted_posts(&id("ann"), NOW + 1, 2).await.expect("an answer") > 0 {}
    assert!(ledger.newest_reposts(&[PostId(1)], 9).await.expect("reposts").is_empty());
    assert_eq!(ledger.quoted_by(PostId(3)).await.expect("an answer"), None);
    assert_eq!(ledger.counts(&[PostId(1)]).await.expect("counts"), []);
}
