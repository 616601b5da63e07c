//! Previews: the newest likers and comments of many posts in one call.

use std::sync::Arc;

use feedline::ledger::{Ledger, LikeBatch, PreviewLimits, PreviewRows, Thread};
use feedline::model::{Comment, CommentId, ContentId, LikeChange, PostId};

use crate::support::{NOW, conformance, id, publish, users};

conformance! {
    previews_hold_the_newest_up_to_the_limit
    previews_treat_deletions_like_lists
    previews_of_nothing_are_empty
}

type Any = Arc<dyn Ledger>;

async fn comment(ledger: &dyn Ledger, number: u64, post: u64, parent: Option<u64>) {
    let comment = Comment {
        id: CommentId(number),
        post: PostId(post),
        reply_to: parent.map(CommentId),
        author: Some(id("ann")),
        text: Some(format!("comment {number}")),
        mentions: vec![id("bo")],
        created_at: CommentId(number).time(),
        likes: 0,
        replies: 0,
        edited_at: None,
        liked: None,
        filtered: Vec::new(),
        removed: None,
    };
    ledger.create_comment(&comment).await.expect("it is stored");
}

/// Settles these likes in this order; `from` and `to` are positions in the queue.
async fn like(ledger: &dyn Ledger, from: &str, to: &str, likes: &[(u64, u64)], liked: bool) {
    let change = |(user, post): &(u64, u64)| LikeChange {
        user: id(&format!("u{user}")),
        object: ContentId::Post(PostId(*post)),
        liked,
        at: NOW,
    };
    let changes = likes.iter().map(change).collect();
    let batch = LikeBatch {
        partition: 3,
        from: from.into(),
        to: to.into(),
        changes,
        noted: 500,
        now: NOW,
        ..LikeBatch::default()
    };
    ledger.settle_likes(batch).await.expect("an answer").expect("it is applied");
}

/// The first items of the lists of likers and comments of each post.
async fn listed(ledger: &dyn Ledger, posts: &[PostId], most: PreviewLimits) -> PreviewRows {
    let mut listed = PreviewRows::default();
    for post in posts {
        let likers = ledger.likers(*post, None, most.likers).await.unwrap().items;
        listed.likers.extend(likers.into_iter().map(|user| (*post, user.id)));
        let thread = Thread { post: *post, reply_to: None };
        listed.comments.extend(ledger.comments_in(thread, CommentId::MAX, most.comments).await.unwrap());
    }
    listed
}

/// Sorts the rows by post; the rows of one post keep their order.
fn by_post(mut newest: PreviewRows) -> PreviewRows {
    newest.likers.sort_by_key(|(post, _)| *post);
    newest.comments.sort_by_key(|comment| comment.post);
    newest
}

/// The ids as they are written, which are equal ignoring case.
fn spellings(rows: &PreviewRows) -> Vec<String> {
    let authors = rows.comments.iter().filter_map(|comment| comment.author.as_ref());
    rows.likers.iter().map(|(_, user)| user).chain(authors).map(|user| user.shown().to_owned()).collect()
}

async fn previews_hold_the_newest_up_to_the_limit(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let posts: Vec<PostId> = (1..=40).map(PostId).collect();
    let mut likes = Vec::new();
    for post in 1..=40 {
        publish(&*ledger, post, "ann").await;
        // Post 1 has no likes and no comments; posts 10 to 40 have 9 likes, 9 comments and 9 replies each.
        for nth in 0..post.min(10) - 1 {
            likes.push((nth, post));
            comment(&*ledger, 1_000 * (nth + 1) + post, post, None).await;
            comment(&*ledger, 100_000 + 1_000 * nth + post, post, Some(1_000 * (nth + 1) + post)).await;
        }
    }
    // A mixed order, so that the likes of one post are not adjacent.
    likes.sort_unstable_by_key(|(user, post)| (user * 7 % 10, post * 3 % 41));
    like(&*ledger, "", "1", &likes, true).await;
    for (likers, comments) in [(8, 3), (1, 1), (0, 3), (8, 0), (0, 0), (100, 100)] {
        let most = PreviewLimits { likers, comments };
        let before = ledger.round_trips();
        let newest = ledger.newest_previews(&posts, most).await.unwrap();
        assert_eq!(ledger.round_trips() - before, 1);
        let newest = by_post(newest);
        let wanted = listed(&*ledger, &posts, most).await;
        assert_eq!(spellings(&newest), spellings(&wanted), "{most:?}");
        assert_eq!(newest, wanted, "{most:?}");
    }
    // Each post once, and no rows of other posts.
    let most = PreviewLimits { likers: 2, comments: 2 };
    let some = [PostId(7), PostId(3), PostId(7), PostId(999)];
    let newest = ledger.newest_previews(&some, most).await.unwrap();
    assert_eq!(by_post(newest), listed(&*ledger, &[PostId(3), PostId(7)], most).await);
}

async fn previews_treat_deletions_like_lists(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    for number in 10..15 {
        comment(&*ledger, number, 1, None).await;
    }
    comment(&*ledger, 20, 1, Some(13)).await;
    for number in [13, 14] {
        ledger.delete_comment(CommentId(number), None, 0).await.unwrap().expect("it was there");
    }
    like(&*ledger, "", "1", &[(1, 1), (2, 1), (3, 1), (4, 1)], true).await;
    like(&*ledger, "1", "2", &[(4, 1), (2, 1)], false).await;
    let most = PreviewLimits { likers: 2, comments: 2 };
    let newest = ledger.newest_previews(&[PostId(1)], most).await.unwrap();
    assert_eq!(newest.likers, [(PostId(1), id("u3")), (PostId(1), id("u1"))]);
    let comments: Vec<_> = newest.comments.iter().map(|comment| (comment.id.0, comment.author.is_some())).collect();
    assert_eq!(comments, [(13, false), (12, true)], "one stays for its reply, without its author");
    assert_eq!(newest, listed(&*ledger, &[PostId(1)], most).await);
}

async fn previews_of_nothing_are_empty(ledger: Any) {
    let most = PreviewLimits { likers: 9, comments: 9 };
    assert_eq!(ledger.newest_previews(&[], most).await.unwrap(), PreviewRows::default());
    assert_eq!(ledger.newest_previews(&[PostId(5)], most).await.unwrap(), PreviewRows::default());
}
