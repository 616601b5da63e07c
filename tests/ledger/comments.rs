//! Conformance tests of comments. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{
    CommentEditOutcome, CommentOutcome, DeletedComment, EventConsumer, Ledger, LedgerError, MAX_COMMENT_DEPTH, Tally,
    Thread,
};
use feedline::model::{Comment, CommentId, DomainEvent, PostId};

use crate::support::{POST, comment, conformance, delete, id, ids, publish, users};

conformance! {
    comments_round_trip
    comments_require_their_post_and_parent
    ancestors_are_listed_up_to_the_post
    thread_pages_start_at_a_bound
    comment_counts_follow_comments
    deleted_comments_with_replies_stay_without_text
    deleting_the_last_reply_removes_deleted_ancestors
    comments_of_a_concurrently_deleted_post_are_rejected
    reply_depth_is_limited
    comments_are_created_once
    threads_are_listed_oldest_first
    comments_of_an_author_are_listed_newest_first
    edits_of_comments_compare_and_set
}

type Any = Arc<dyn Ledger>;

async fn say(ledger: &dyn Ledger, number: u64, parent: Option<u64>) -> Tally {
    match ledger.create_comment(&comment(number, "bo", parent)).await.expect("an answer") {
        CommentOutcome::Stored(tally) => tally,
        other => panic!("{other:?} of comment {number}"),
    }
}

async fn listed(ledger: &dyn Ledger, parent: Option<u64>, before: u64, limit: usize) -> Vec<u64> {
    let thread = Thread { post: POST, reply_to: parent.map(CommentId) };
    let comments = ledger.comments_in(thread, CommentId(before), limit).await.expect("a list");
    comments.iter().map(|comment| comment.id.0).collect()
}

async fn one(ledger: &dyn Ledger, number: u64) -> Option<Comment> {
    ledger.comments(&[CommentId(number)]).await.expect("an answer").pop()
}

async fn begin(ledger: &dyn Ledger) {
    users(ledger, &["ann", "bo", "cy"]).await;
    publish(ledger, POST.0, "ann").await;
}

const ALL: u64 = CommentId::MAX.0;

async fn comments_round_trip(ledger: Any) {
    begin(&*ledger).await;
    let mut full = comment(10, "bo", None);
    full.mentions = ids(&["cy", "nobody"]);
    assert_eq!(
        ledger.create_comment(&full).await.unwrap(),
        CommentOutcome::Stored(Tally { likes: 0, comments: 1, version: 1 })
    );
    let reply = Comment { id: CommentId::MAX, created_at: CommentId::MAX.time(), ..comment(0, "cy", Some(10)) };
    ledger.create_comment(&reply).await.unwrap();
    full.replies = 1;
    let mut found = ledger.comments(&[CommentId::MAX, CommentId(11), CommentId(10), CommentId(10)]).await.unwrap();
    found.sort_by_key(|comment| comment.id);
    assert_eq!(found, [full.clone(), reply]);
    let many: Vec<_> = (0..5_000).map(CommentId).collect();
    assert_eq!(ledger.comments(&many).await.unwrap(), [full]);
    assert!(ledger.comments(&[]).await.unwrap().is_empty());
}

async fn comments_require_their_post_and_parent(ledger: Any) {
    begin(&*ledger).await;
    publish(&*ledger, 2, "ann").await;
    say(&*ledger, 10, None).await;
    let elsewhere = Comment { post: PostId(2), ..comment(11, "bo", Some(10)) };
    assert_eq!(ledger.create_comment(&elsewhere).await.unwrap(), CommentOutcome::NoParent, "it is under another post");
    let nowhere = Comment { post: PostId(3), ..comment(11, "bo", None) };
    assert_eq!(ledger.create_comment(&nowhere).await.unwrap(), CommentOutcome::NoPost);
    assert_eq!(ledger.create_comment(&comment(11, "bo", Some(9))).await.unwrap(), CommentOutcome::NoParent);
    for wrong in [comment(10, "ann", None), comment(11, "nobody", Some(10))] {
        assert!(matches!(ledger.create_comment(&wrong).await, Err(LedgerError::Failed(_))));
    }
    assert_eq!(one(&*ledger, 10).await.unwrap().replies, 0, "nothing of them was stored");
    assert_eq!(say(&*ledger, 12, None).await, Tally { likes: 0, comments: 2, version: 2 });
}

async fn ancestors_are_listed_up_to_the_post(ledger: Any) {
    begin(&*ledger).await;
    publish(&*ledger, 2, "ann").await;
    ledger.create_comment(&Comment { post: PostId(2), ..comment(9, "ann", None) }).await.unwrap();
    let said = [(10, "bo", None), (11, "cy", Some(10)), (12, "bo", Some(11)), (13, "ann", Some(11)), (14, "ann", None)];
    for (number, author, parent) in said {
        ledger.create_comment(&comment(number, author, parent)).await.unwrap();
    }
    let lines = async |asked: &[u64]| {
        let asked: Vec<_> = asked.iter().copied().map(CommentId).collect();
        let mut lines = ledger.lines(&asked).await.unwrap();
        lines.sort_unstable();
        lines.into_iter().map(|(id, author)| (id.0, author.to_string())).collect::<Vec<_>>()
    };
    let owned = |line: &[(u64, &str)]| line.iter().map(|(id, author)| (*id, (*author).to_owned())).collect::<Vec<_>>();
    assert_eq!(lines(&[10]).await, owned(&[(10, "bo")]));
    assert_eq!(lines(&[12, 12]).await, owned(&[(12, "bo"), (12, "cy")]));
    let many = lines(&[9, 11, 13, 99]).await;
    assert_eq!(many, owned(&[(9, "ann"), (11, "bo"), (11, "cy"), (13, "ann"), (13, "bo"), (13, "cy")]));
    assert!(lines(&[]).await.is_empty());
    // A deleted comment has no author and may have replies below it.
    ledger.delete_comment(CommentId(11), None, 0).await.unwrap().unwrap();
    assert_eq!(lines(&[11, 13]).await, owned(&[(11, "bo"), (13, "ann"), (13, "bo")]));
    ledger.delete_comment(CommentId(10), None, 0).await.unwrap().unwrap();
    assert_eq!(lines(&[10, 11, 13]).await, owned(&[(13, "ann")]));
}

async fn thread_pages_start_at_a_bound(ledger: Any) {
    begin(&*ledger).await;
    publish(&*ledger, 2, "ann").await;
    ledger.create_comment(&Comment { post: PostId(2), ..comment(25, "bo", None) }).await.unwrap();
    for number in [30, 10, 20, 50] {
        say(&*ledger, number, None).await;
    }
    for (number, parent) in [(31, 30), (32, 30), (33, 31), (51, 50)] {
        say(&*ledger, number, Some(parent)).await;
    }
    assert_eq!(listed(&*ledger, None, ALL, 2).await, [50, 30]);
    assert_eq!(listed(&*ledger, None, 30, 9).await, [20, 10]);
    assert_eq!(listed(&*ledger, Some(30), ALL, 9).await, [32, 31]);
    assert_eq!(listed(&*ledger, Some(30), 32, 9).await, [31]);
    assert_eq!(listed(&*ledger, Some(31), ALL, 9).await, [33]);
    assert!(listed(&*ledger, Some(33), ALL, 9).await.is_empty());
    assert!(listed(&*ledger, None, 10, 9).await.is_empty());
    assert!(listed(&*ledger, None, ALL, 0).await.is_empty());
}

async fn comment_counts_follow_comments(ledger: Any) {
    begin(&*ledger).await;
    say(&*ledger, 10, None).await;
    say(&*ledger, 11, Some(10)).await;
    say(&*ledger, 12, Some(10)).await;
    assert_eq!(say(&*ledger, 13, Some(12)).await, Tally { likes: 0, comments: 4, version: 4 }, "at any depth");
    let replies = async |number| one(&*ledger, number).await.unwrap().replies;
    assert_eq!((replies(10).await, replies(12).await), (2, 1), "direct ones only");
    let gone = ledger.delete_comment(CommentId(13), None, 0).await.unwrap().unwrap();
    assert_eq!(gone.tally, Tally { likes: 0, comments: 3, version: 5 });
    assert_eq!((replies(10).await, replies(12).await), (2, 0));
    assert_eq!(ledger.delete_comment(CommentId(13), None, 0).await.unwrap(), None, "already deleted");
    assert_eq!(ledger.delete_comment(CommentId(99), None, 0).await.unwrap(), None, "never existed");
    assert_eq!(say(&*ledger, 14, None).await, Tally { likes: 0, comments: 4, version: 6 });
}

async fn deleted_comments_with_replies_stay_without_text(ledger: Any) {
    begin(&*ledger).await;
    let named = Comment { mentions: ids(&["cy"]), ..comment(10, "bo", None) };
    ledger.create_comment(&named).await.unwrap();
    say(&*ledger, 11, Some(10)).await;
    let gone = ledger.delete_comment(CommentId(10), None, 0).await.unwrap().unwrap();
    let tally = Tally { likes: 0, comments: 1, version: 3 };
    assert_eq!(gone, DeletedComment { stays: true, along: Vec::new(), tally });
    let left = Comment { author: None, text: None, replies: 1, ..comment(10, "bo", None) };
    assert_eq!(one(&*ledger, 10).await, Some(left));
    assert_eq!(listed(&*ledger, None, ALL, 9).await, [10]);
    assert_eq!(listed(&*ledger, Some(10), ALL, 9).await, [11]);
    assert_eq!(ledger.delete_comment(CommentId(10), None, 0).await.unwrap(), None, "already deleted");
    assert_eq!(ledger.create_comment(&comment(12, "cy", Some(10))).await.unwrap(), CommentOutcome::NoParent);
    assert_eq!(one(&*ledger, 10).await.unwrap().replies, 1);
}

async fn deleting_the_last_reply_removes_deleted_ancestors(ledger: Any) {
    begin(&*ledger).await;
    for (number, parent) in [(10, None), (11, Some(10)), (12, Some(11)), (13, Some(12)), (14, Some(12))] {
        say(&*ledger, number, parent).await;
    }
    for number in [11, 12] {
        assert!(ledger.delete_comment(CommentId(number), None, 0).await.unwrap().unwrap().stays);
    }
    let gone = ledger.delete_comment(CommentId(13), None, 0).await.unwrap().unwrap();
    assert_eq!((gone.stays, gone.along.len()), (false, 0), "there is another reply");
    let gone = ledger.delete_comment(CommentId(14), None, 0).await.unwrap().unwrap();
    assert_eq!((gone.stays, gone.along), (false, vec![CommentId(12), CommentId(11)]));
    assert_eq!(gone.tally.comments, 1);
    let left = one(&*ledger, 10).await.unwrap();
    assert_eq!((left.replies, left.author), (0, Some(id("bo"))), "one that was not deleted stays");
    for number in 11..15 {
        assert_eq!(one(&*ledger, number).await, None, "{number}");
    }
    assert!(listed(&*ledger, Some(10), ALL, 9).await.is_empty());
}

async fn comments_of_a_concurrently_deleted_post_are_rejected(ledger: Any) {
    begin(&*ledger).await;
    say(&*ledger, 10, None).await;
    delete(&*ledger, POST.0, "ann").await.expect("a job");
    assert_eq!(ledger.create_comment(&comment(11, "bo", None)).await.unwrap(), CommentOutcome::NoPost);
    assert_eq!(ledger.create_comment(&comment(11, "bo", Some(10))).await.unwrap(), CommentOutcome::NoPost);
    assert!(ledger.delete_comment(CommentId(10), None, 0).await.unwrap().is_some(), "its author can still delete it");
}

async fn reply_depth_is_limited(ledger: Any) {
    begin(&*ledger).await;
    say(&*ledger, 1, None).await;
    let deepest = u64::from(MAX_COMMENT_DEPTH) + 1;
    for number in 2..=deepest {
        say(&*ledger, number, Some(number - 1)).await;
    }
    let deeper = comment(deepest + 1, "bo", Some(deepest));
    assert_eq!(ledger.create_comment(&deeper).await.unwrap(), CommentOutcome::TooDeep);
    assert_eq!(one(&*ledger, deepest).await.unwrap().replies, 0);
    assert_eq!(ledger.lines(&[CommentId(deepest)]).await.unwrap(), [(CommentId(deepest), id("bo"))]);
    for number in 1..deepest {
        assert!(ledger.delete_comment(CommentId(number), None, 0).await.unwrap().unwrap().stays);
    }
    let gone = ledger.delete_comment(CommentId(deepest), None, 0).await.unwrap().unwrap();
    assert_eq!((gone.along.len() as u64, gone.tally.comments), (deepest - 1, 0));
    assert!(listed(&*ledger, None, ALL, 9).await.is_empty());
}

async fn comments_are_created_once(ledger: Any) {
    begin(&*ledger).await;
    say(&*ledger, 10, None).await;
    say(&*ledger, 11, Some(10)).await;
    let again = async |number, parent| {
        let other = Comment { text: Some("other".into()), ..comment(number, "bo", parent) };
        ledger.create_comment(&other).await.unwrap()
    };
    assert_eq!((again(10, None).await, again(11, Some(10)).await), (CommentOutcome::Before, CommentOutcome::Before));
    let first = one(&*ledger, 10).await.unwrap();
    assert_eq!((first.text, first.replies), (comment(10, "bo", None).text, 1), "unchanged");
    // The comment is deleted but kept for its replies; then its post is deleted.
    ledger.delete_comment(CommentId(10), None, 0).await.unwrap();
    assert_eq!(again(10, None).await, CommentOutcome::Before);
    assert_eq!(one(&*ledger, 10).await.unwrap().text, None);
    delete(&*ledger, POST.0, "ann").await;
    assert_eq!(again(11, Some(10)).await, CommentOutcome::Before);
    publish(&*ledger, 2, "ann").await;
    assert_eq!(again(12, None).await, CommentOutcome::NoPost);
}

async fn threads_are_listed_oldest_first(ledger: Any) {
    begin(&*ledger).await;
    publish(&*ledger, 2, "ann").await;
    ledger.create_comment(&Comment { post: PostId(2), ..comment(25, "bo", None) }).await.unwrap();
    for (number, parent) in [(30, None), (10, None), (20, None), (31, Some(30)), (32, Some(30)), (33, Some(31))] {
        say(&*ledger, number, parent).await;
    }
    let after = async |parent: Option<u64>, after: u64, limit| {
        let thread = Thread { post: POST, reply_to: parent.map(CommentId) };
        let comments = ledger.comments_after(thread, CommentId(after), limit).await.unwrap();
        comments.iter().map(|comment| comment.id.0).collect::<Vec<_>>()
    };
    assert_eq!(after(None, 0, 2).await, [10, 20]);
    assert_eq!(after(None, 20, 9).await, [30]);
    assert_eq!(after(Some(30), 0, 9).await, [31, 32]);
    assert_eq!(after(Some(30), 31, 9).await, [32]);
    assert!(after(None, 30, 9).await.is_empty());
    assert!(after(None, 0, 0).await.is_empty());
    ledger.delete_comment(CommentId(30), None, 0).await.unwrap().expect("it was there");
    assert_eq!(after(None, 20, 9).await, [30], "a deleted comment with replies stays");
}

async fn comments_of_an_author_are_listed_newest_first(ledger: Any) {
    begin(&*ledger).await;
    for post in 2..=20 {
        publish(&*ledger, post, "ann").await;
        for (number, author) in [(100 + post, "bo"), (200 + post, "cy")] {
            ledger.create_comment(&Comment { post: PostId(post), ..comment(number, author, None) }).await.unwrap();
        }
    }
    let by = async |author: &str, before: u64, limit| {
        let comments = ledger.comments_by(&id(author), CommentId(before), limit).await.unwrap();
        comments.iter().map(|comment| comment.id.0).collect::<Vec<_>>()
    };
    let all: Vec<u64> = (102..=120).rev().collect();
    assert_eq!(by("bo", 200, 100).await, all);
    assert_eq!(by("bo", 118, 3).await, [117, 116, 115]);
    assert!(by("nobody", ALL, 9).await.is_empty());
    ledger.delete_comment(CommentId(117), None, 0).await.unwrap().expect("it was there");
    assert_eq!(by("bo", 118, 2).await, [116, 115]);
}

async fn edits_of_comments_compare_and_set(ledger: Any) {
    begin(&*ledger).await;
    say(&*ledger, 10, None).await;
    say(&*ledger, 11, Some(10)).await;
    let before = one(&*ledger, 10).await.unwrap();
    let pending = async || ledger.pending_events(EventConsumer::Notifications, 100).await.unwrap().len();
    let noted = pending().await;
    let edited = |text: &str, at: u64, mentions: &[&str]| Comment {
        text: Some(text.into()),
        mentions: ids(mentions),
        edited_at: Some(at),
        ..before.clone()
    };
    let first = edited("now \u{1F600}", 50, &["ann", "cy"]);
    let event = DomainEvent::comment_edited(&before, &first).expect("it mentions others");
    assert_eq!(ledger.edit_comment(&before, &first, Some(&event)).await.unwrap(), CommentEditOutcome::Edited);
    assert_eq!(one(&*ledger, 10).await, Some(first.clone()));
    assert_eq!(pending().await, noted + 1);
    // An edit of an older version changes nothing, and writes no event.
    let late = edited("late", 60, &["ann"]);
    assert_eq!(ledger.edit_comment(&before, &late, Some(&event)).await.unwrap(), CommentEditOutcome::Conflict);
    assert_eq!((one(&*ledger, 10).await, pending().await), (Some(first.clone()), noted + 1));
    let second = edited("again", 70, &[]);
    let taken_out = DomainEvent::comment_edited(&first, &second);
    let Some(DomainEvent::CommentEdited { mentions, unmentioned, .. }) = taken_out else { panic!("{taken_out:?}") };
    assert_eq!((mentions, unmentioned), (vec![], ids(&["ann", "cy"])));
    assert_eq!(DomainEvent::comment_edited(&second, &second), None);
    assert_eq!(ledger.edit_comment(&first, &second, None).await.unwrap(), CommentEditOutcome::Edited);
    assert_eq!(one(&*ledger, 10).await, Some(second.clone()));
    let thread = Thread { post: POST, reply_to: None };
    let listed = ledger.comments_in(thread, CommentId::MAX, 9).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&second));
    for (number, author) in [(10, "ann"), (99, "bo")] {
        let others = Comment { id: CommentId(number), author: Some(id(author)), ..second.clone() };
        assert_eq!(ledger.edit_comment(&second, &others, None).await.unwrap(), CommentEditOutcome::Missing);
    }
    ledger.delete_comment(CommentId(10), None, 0).await.unwrap().expect("it was there");
    assert_eq!(ledger.edit_comment(&second, &second, None).await.unwrap(), CommentEditOutcome::Missing);
    let left = one(&*ledger, 10).await.unwrap();
    assert_eq!((left.text, left.edited_at), (None, None));
}
