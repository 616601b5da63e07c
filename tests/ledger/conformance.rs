//! Conformance tests of every ledger. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{FollowOutcome, Ledger, LedgerError, StoredAccount, Work};
use feedline::model::{Comment, CommentId, Edges, Location, Media, MediaKind, Post, PostId, Visibility};
use serde_json::json;

use crate::support::{
    NOW, account, backlog, conformance, delete, edit, follow, id, ids, names, post, publish, store, timeline, unfollow,
    users,
};

conformance! {
    accounts_are_created_once_and_reuse_no_id
    users_are_created_once_and_found_in_batches
    edges_are_counted_on_both_sides
    follows_have_a_limit_that_concurrent_ones_keep
    edge_pages_are_exact_within_one_millisecond
    shared_followers_are_paged_exactly
    follower_scans_are_in_byte_order
    followees_are_listed_in_order
    restricted_posts_are_flagged
    owners_are_read_without_bodies
    posts_round_trip
    the_greatest_id_is_known
    posts_require_an_author_and_a_new_id
    deleted_posts_are_removed_from_every_list
    post_lists_start_at_a_bound
    public_posts_of_all_authors_are_listed_newest_first
    timelines_merge_followees_and_own_posts
    closed_ledgers_return_an_error
}

type Any = Arc<dyn Ledger>;

async fn the_greatest_id_is_known(ledger: Any) {
    assert_eq!(ledger.greatest_id().await.unwrap(), PostId::ZERO);
    users(&*ledger, &["ann"]).await;
    for number in [7, 9, 8] {
        publish(&*ledger, number, "ann").await;
    }
    assert_eq!(ledger.greatest_id().await.unwrap(), PostId(9));
    delete(&*ledger, 9, "ann").await;
    assert_eq!(ledger.greatest_id().await.unwrap(), PostId(9), "deleted ones count");
    let comment = Comment {
        id: CommentId(12),
        post: PostId(7),
        reply_to: None,
        author: Some(id("ann")),
        text: Some("words".to_owned()),
        mentions: Vec::new(),
        created_at: NOW,
        likes: 0,
        replies: 0,
        edited_at: None,
        liked: None,
        filtered: Vec::new(),
        removed: None,
    };
    ledger.create_comment(&comment).await.unwrap();
    assert_eq!(ledger.greatest_id().await.unwrap(), PostId(12));
}

async fn accounts_are_created_once_and_reuse_no_id(ledger: Any) {
    ledger.ping().await.unwrap();
    users(&*ledger, &["token"]).await;
    assert!(ledger.create_account(account("ann")).await.unwrap());
    assert!(!ledger.create_account(account("ann")).await.unwrap());
    assert!(!ledger.create_account(account("token")).await.unwrap());
    for written in ["Ann", "ANN", "Token"] {
        assert!(!ledger.create_account(account(written)).await.unwrap(), "{written} is the same id");
    }
    let stored = StoredAccount { password: "$argon2id$…".into(), generation: 0, user: id("ann") };
    assert_eq!(ledger.account(&id("ann")).await.unwrap(), Some(stored));
    assert_eq!(ledger.account(&id("token")).await.unwrap(), None);
    assert_eq!(ledger.account(&id("nobody")).await.unwrap(), None);
    let profile = ledger.profile(&id("ann"), None, 0).await.unwrap().unwrap();
    assert_eq!((profile.user.name.as_str(), profile.user.created_at), ("Name of ann", NOW));
}

async fn owners_are_read_without_bodies(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    publish(&*ledger, 1, "ann").await;
    publish(&*ledger, 2, "bo").await;
    publish(&*ledger, 3, "bo").await;
    store(&*ledger, Post { visibility: Visibility::Followers, ..post(4, "ann", &[]) }).await.unwrap();
    delete(&*ledger, 3, "bo").await.expect("the post exists");
    let asked = [4, 9, 1, 3, 2, 1].map(PostId);
    let mut owners = ledger.post_owners(&asked).await.unwrap();
    owners.sort_by_key(|owner| owner.post);
    let owners: Vec<_> = owners.iter().map(|owner| (owner.post.0, owner.author.as_str(), owner.public)).collect();
    assert_eq!(owners, [(1, "ann", true), (2, "bo", true), (4, "ann", false)]);
    assert!(ledger.post_owners(&[]).await.unwrap().is_empty());
}

async fn users_are_created_once_and_found_in_batches(ledger: Any) {
    users(&*ledger, &["ann", "7"]).await;
    ledger.ensure_user(&id("ann"), NOW + 5).await.unwrap();
    let mut asked = ids(&["ann", "nobody", "ann", "7"]);
    asked.extend((0..5_000).map(|n| id(&format!("no-{n}"))));
    let mut found = ledger.users(&asked).await.unwrap();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    let found: Vec<_> = found.iter().map(|u| (u.id.as_str(), u.name.as_str(), u.created_at)).collect();
    assert_eq!(found, [("7", "7", NOW), ("ann", "Ann", NOW)]);
    assert!(ledger.users(&[]).await.unwrap().is_empty());
    assert_eq!(ledger.profile(&id("nobody"), None, 0).await.unwrap(), None);
}

async fn follows_have_a_limit_that_concurrent_ones_keep(ledger: Any) {
    users(&*ledger, &["ann", "a", "b", "c", "d", "e"]).await;
    let ann = id("ann");
    let follow = async |followee: &str| ledger.follow(&ann, &id(followee), NOW, 3).await.expect("an answer");
    let outcomes = futures::future::join_all(["a", "b", "c", "d", "e"].map(follow)).await;
    let full = outcomes.iter().filter(|outcome| matches!(outcome, FollowOutcome::Full)).count();
    assert_eq!((full, outcomes.into_iter().filter_map(FollowOutcome::job).count()), (2, 3));
    let followed = ledger.followees(&ann, 9).await.unwrap();
    assert_eq!(followed.len(), 3);
    for followee in &followed {
        let again = ledger.follow(&ann, followee, NOW, 3).await.unwrap();
        assert!(matches!(again, FollowOutcome::Unchanged), "{again:?}");
    }
    assert_eq!(ledger.profile(&ann, None, 0).await.unwrap().unwrap().following, 3);
}

async fn edges_are_counted_on_both_sides(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let (ann, bo) = (id("ann"), id("bo"));
    assert!(follow(&*ledger, &ann, &bo).await);
    assert!(!follow(&*ledger, &ann, &bo).await);

    let seen = ledger.profile(&bo, Some(&ann), 0).await.unwrap().unwrap();
    assert_eq!((seen.followers, seen.following), (1, 0));
    assert_eq!(seen.edges, Edges { following: true, ..Edges::default() });
    let seen = ledger.profile(&ann, Some(&bo), 0).await.unwrap().unwrap();
    assert_eq!((seen.followers, seen.following), (0, 1));
    assert_eq!(seen.edges, Edges { followed_by: true, ..Edges::default() });
    assert_eq!(ledger.profile(&bo, None, 0).await.unwrap().unwrap().edges, Edges::default());

    assert!(unfollow(&*ledger, &ann, &bo).await);
    assert!(!unfollow(&*ledger, &ann, &bo).await);
    let seen = ledger.profile(&bo, Some(&ann), 0).await.unwrap().unwrap();
    assert_eq!((seen.followers, seen.edges), (0, Edges::default()));
    assert_eq!(ledger.profile(&ann, None, 0).await.unwrap().unwrap().following, 0);
}

async fn edge_pages_are_exact_within_one_millisecond(ledger: Any) {
    let fans = ["e", "b", "d", "a", "c"];
    users(&*ledger, &fans).await;
    users(&*ledger, &["star", "late"]).await;
    for fan in fans {
        follow(&*ledger, &id(fan), &id("star")).await;
        follow(&*ledger, &id("star"), &id(fan)).await;
    }
    for lists_followers in [true, false] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = if lists_followers {
                ledger.followers(&id("star"), before, 2).await
            } else {
                ledger.following(&id("star"), before, 2).await
            };
            let page = page.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(page.items.into_iter().map(|user| user.id));
            before = page.next;
            // A new follower does not move other users between the pages that a reader loads.
            follow(&*ledger, &id("late"), &id("star")).await;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(names(&seen), ["c", "a", "d", "b", "e"]);
        unfollow(&*ledger, &id("late"), &id("star")).await;
    }
    assert_eq!(ledger.followers(&id("star"), None, 5).await.unwrap().next, None, "a full last page is the last");
    assert!(ledger.followers(&id("nobody"), None, 5).await.unwrap().items.is_empty());
}

async fn shared_followers_are_paged_exactly(ledger: Any) {
    let all = ["e", "b", "d", "a", "c"];
    users(&*ledger, &all).await;
    users(&*ledger, &["me", "star", "fan"]).await;
    for user in all {
        follow(&*ledger, &id("me"), &id(user)).await;
    }
    for user in ["fan", "b", "a", "c", "me"] {
        follow(&*ledger, &id(user), &id("star")).await;
    }
    for user in ["c", "e", "fan"] {
        follow(&*ledger, &id(user), &id("me")).await;
    }
    for (whose, expected) in [("star", &["c", "a", "b"][..]), ("me", &["c", "e"]), ("fan", &[]), ("nobody", &[])] {
        for limit in [1, 2, 3, 9] {
            let (mut seen, mut before) = (Vec::new(), None);
            loop {
                let page = ledger.shared_followers(&id("me"), &id(whose), before, limit).await.unwrap();
                assert!(page.items.len() == limit || page.next.is_none(), "{whose}");
                seen.extend(page.items.into_iter().map(|user| user.id));
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(names(&seen), expected, "{whose}, {limit} a page");
        }
    }
    unfollow(&*ledger, &id("a"), &id("star")).await;
    unfollow(&*ledger, &id("me"), &id("b")).await;
    let page = ledger.shared_followers(&id("me"), &id("star"), None, 9).await.unwrap();
    assert_eq!(page.items.len(), 1, "both edges are needed");
}

async fn follower_scans_are_in_byte_order(ledger: Any) {
    let fans = ["b", "-b", "a.", "a", "_", "10", "9", "a-"];
    users(&*ledger, &fans).await;
    users(&*ledger, &["star"]).await;
    for fan in fans {
        follow(&*ledger, &id(fan), &id("star")).await;
    }
    let (mut walked, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ledger.followers_after(&id("star"), &cursor, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        cursor = last.as_str().to_owned();
        walked.extend(page);
    }
    assert_eq!(names(&walked), ["-b", "10", "9", "_", "a", "a-", "a.", "b"]);
}

async fn followees_are_listed_in_order(ledger: Any) {
    users(&*ledger, &["me", "ann", "-b", "bo", "cy"]).await;
    for followee in ["cy", "ann", "-b"] {
        follow(&*ledger, &id("me"), &id(followee)).await;
    }
    follow(&*ledger, &id("bo"), &id("me")).await;
    assert_eq!(names(&ledger.followees(&id("me"), 9).await.unwrap()), ["-b", "ann", "cy"]);
    assert_eq!(names(&ledger.followees(&id("me"), 2).await.unwrap()), ["-b", "ann"]);
    assert!(ledger.followees(&id("nobody"), 9).await.unwrap().is_empty());
}

async fn restricted_posts_are_flagged(ledger: Any) {
    users(&*ledger, &["ann", "me"]).await;
    follow(&*ledger, &id("me"), &id("ann")).await;
    let some = || vec![id("bo")];
    let mut all = [
        Visibility::Public,
        Visibility::Followers,
        Visibility::Friends,
        Visibility::OnlyTo(some()),
        Visibility::NotTo(some()),
        Visibility::Followers,
    ]
    .into_iter()
    .zip(1..)
    .map(|(visibility, number)| Post { visibility, ..post(number, "ann", &[]) })
    .collect::<Vec<_>>();
    for post in &all {
        store(&*ledger, post.clone()).await.unwrap();
    }
    delete(&*ledger, 6, "ann").await.expect("the post existed");
    let restricted = async || {
        let timeline = [4, 3, 2, 1, 1, 2, 6, 5, 77].map(PostId);
        let mut found = ledger.restricted_in_timeline(&id("me"), &timeline).await.unwrap();
        found.sort_unstable();
        found.dedup();
        found
    };
    assert_eq!(restricted().await, [2, 3, 4, 5].map(PostId));
    // One edit makes a post visible, another hides a post.
    for (place, visibility) in [(0, Visibility::Friends), (1, Visibility::Public)] {
        all[place].visibility = visibility;
        all[place].edited_at = Some(NOW + 1);
        assert!(!edit(&*ledger, &all[place]).await.is_empty());
    }
    assert_eq!(restricted().await, [1, 3, 4, 5].map(PostId));
    let newer = ledger.restricted_in_timeline(&id("me"), &[5, 4].map(PostId)).await.unwrap();
    assert!(newer.len() == 2 && newer.contains(&PostId(4)) && newer.contains(&PostId(5)), "{newer:?}");
    assert!(ledger.restricted_in_timeline(&id("me"), &[]).await.unwrap().is_empty());
}

async fn posts_round_trip(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let mut full = post(PostId::MAX.0, "ann", &["rust", "feeds"]);
    full.media = vec![Media {
        kind: MediaKind::Video,
        url: "https://a.example/1".into(),
        width: Some(3),
        height: None,
        alt: None,
    }];
    full.location = Some(Location { lat: 48.137_154_3, lon: -11.576_124, name: Some("Somewhere".into()) });
    full.mentions = ids(&["bo"]);
    full.platform = Some("web".into());
    full.visibility = Visibility::OnlyTo(ids(&["bo", "cy"]));
    full.data = json!({"price": 12.5, "deep": [{"a": null}]}).as_object().cloned();
    full.edited_at = Some(NOW + 9);
    let job = store(&*ledger, full.clone()).await.unwrap();
    assert_eq!(job.work, Work::Post { post: PostId::MAX, author: id("ann"), trace: None });
    assert_eq!(job.created_at, full.created_at);
    publish(&*ledger, 1, "ann").await;

    let asked = [PostId::MAX, PostId(2), PostId(1), PostId(1)];
    let mut found = ledger.posts(&asked).await.unwrap();
    found.sort_by_key(|post| post.id);
    assert_eq!(found, [post(1, "ann", &[]), full]);
    let many: Vec<_> = (0..5_000).map(PostId).collect();
    assert_eq!(ledger.posts(&many).await.unwrap().len(), 1);
    assert!(ledger.posts(&[]).await.unwrap().is_empty());
}

async fn posts_require_an_author_and_a_new_id(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    users(&*ledger, &["bo"]).await;
    for wrong in [post(1, "bo", &["t"]), post(2, "nobody", &["t"])] {
        assert!(matches!(store(&*ledger, wrong).await, Err(LedgerError::Failed(_))));
    }
    assert_eq!(backlog(&*ledger).await.jobs, 1, "nothing of them was stored");
    assert_eq!(ledger.profile(&id("ann"), None, 0).await.unwrap().unwrap().posts, 1);
    assert!(ledger.topic_posts("t", PostId::MAX, 9).await.unwrap().is_empty());
}

async fn deleted_posts_are_removed_from_every_list(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    store(&*ledger, post(1, "ann", &["t", "u"])).await.unwrap();
    store(&*ledger, post(2, "ann", &["t", "t"])).await.unwrap();
    assert_eq!(delete(&*ledger, 1, "bo").await, None, "another author's");
    assert_eq!(delete(&*ledger, 3, "ann").await, None, "never existed");
    let job = delete(&*ledger, 1, "ann").await.expect("a job");
    assert!(matches!(&job.work, Work::Delete { post: PostId(1), author, .. } if *author == id("ann")));
    assert_eq!(job.created_at, NOW);
    assert_eq!(delete(&*ledger, 1, "ann").await, None, "already deleted");

    assert!(ledger.posts(&[PostId(1)]).await.unwrap().is_empty());
    assert_eq!(ledger.author_posts(&id("ann"), PostId::MAX, 9).await.unwrap(), [PostId(2)]);
    assert_eq!(ledger.topic_posts("t", PostId::MAX, 9).await.unwrap(), [PostId(2)]);
    assert!(ledger.topic_posts("u", PostId::MAX, 9).await.unwrap().is_empty());
    assert_eq!(timeline(&*ledger, &id("ann"), PostId::MAX, 9).await, [PostId(2)]);
    assert_eq!(ledger.profile(&id("ann"), None, 0).await.unwrap().unwrap().posts, 1);
    let again = ledger.create_post(&post(1, "ann", &[]), None).await.unwrap();
    assert_eq!(again, None, "a deleted id cannot be created again");
    assert!(ledger.posts(&[PostId(1)]).await.unwrap().is_empty());
}

async fn post_lists_start_at_a_bound(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for number in [30, 10, 20, 50] {
        store(&*ledger, post(number, "ann", &["t"])).await.unwrap();
    }
    store(&*ledger, post(40, "bo", &["t"])).await.unwrap();
    let ann = id("ann");
    assert_eq!(ledger.author_posts(&ann, PostId::MAX, 2).await.unwrap(), [50, 30].map(PostId));
    assert_eq!(ledger.author_posts(&ann, PostId(30), 9).await.unwrap(), [20, 10].map(PostId));
    assert_eq!(ledger.topic_posts("t", PostId::MAX, 3).await.unwrap(), [50, 40, 30].map(PostId));
    assert_eq!(ledger.topic_posts("t", PostId(30), 9).await.unwrap(), [20, 10].map(PostId));
    assert!(ledger.author_posts(&ann, PostId::ZERO, 9).await.unwrap().is_empty());
    assert!(ledger.author_posts(&ann, PostId::MAX, 0).await.unwrap().is_empty());
}

async fn public_posts_of_all_authors_are_listed_newest_first(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let kinds = [Visibility::Public, Visibility::Followers, Visibility::NotTo(ids(&["bo"])), Visibility::Public];
    let mut all: Vec<Post> = Vec::new();
    for number in 1..=12_u64 {
        let visibility = kinds[number as usize % kinds.len()].clone();
        all.push(Post { visibility, ..post(number, if number % 3 == 0 { "ann" } else { "bo" }, &[]) });
    }
    for post in all.iter().rev() {
        store(&*ledger, post.clone()).await.unwrap();
    }
    let listed = async |before: u64, limit| {
        let posts = ledger.public_posts(PostId(before), limit).await.unwrap();
        posts.into_iter().map(|post| post.0).collect::<Vec<_>>()
    };
    assert_eq!(listed(PostId::MAX.0, 99).await, [12, 11, 8, 7, 4, 3]);
    assert_eq!(listed(PostId::MAX.0, 2).await, [12, 11]);
    assert_eq!(listed(11, 2).await, [8, 7]);
    assert!(listed(3, 9).await.is_empty());
    assert!(listed(PostId::MAX.0, 0).await.is_empty());
    // A deletion removes a post, and an edit of the visibility removes one and adds another.
    delete(&*ledger, 12, "ann").await.expect("a job");
    for (place, visibility) in [(10, Visibility::Friends), (8, Visibility::Public)] {
        all[place].visibility = visibility;
        all[place].edited_at = Some(NOW + 1);
        assert!(!edit(&*ledger, &all[place]).await.is_empty());
    }
    assert_eq!(listed(PostId::MAX.0, 99).await, [9, 8, 7, 4, 3]);
}

async fn timelines_merge_followees_and_own_posts(ledger: Any) {
    users(&*ledger, &["me", "ann", "bo", "stranger"]).await;
    for followee in ["ann", "bo", "me"] {
        follow(&*ledger, &id("me"), &id(followee)).await;
    }
    for (number, author) in [(1, "ann"), (2, "me"), (3, "bo"), (4, "stranger"), (5, "ann")] {
        publish(&*ledger, number, author).await;
    }
    let me = id("me");
    assert_eq!(timeline(&*ledger, &me, PostId::MAX, 9).await, [5, 3, 2, 1].map(PostId));
    assert_eq!(timeline(&*ledger, &me, PostId(5), 2).await, [3, 2].map(PostId));
    assert!(timeline(&*ledger, &me, PostId(1), 9).await.is_empty());
    assert!(timeline(&*ledger, &me, PostId::MAX, 0).await.is_empty());
    assert!(timeline(&*ledger, &id("nobody"), PostId::MAX, 9).await.is_empty());
}

async fn closed_ledgers_return_an_error(ledger: Any) {
    ledger.close().await;
    assert!(matches!(ledger.ping().await, Err(LedgerError::Unreachable(_))));
    assert!(matches!(ledger.ensure_user(&id("ann"), NOW).await, Err(LedgerError::Unreachable(_))));
    ledger.close().await;
}
