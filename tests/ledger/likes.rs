//! Likes: each batch is applied once, in order, and the counts match the rows.

use std::collections::HashMap;
use std::sync::Arc;

use feedline::ledger::{EventConsumer, Ledger, LikeBatch, RevertReason, Reverted, SettledLikes};
use feedline::model::{CommentId, ContentId, DomainEvent, LikeChange, NewLikes, PostFlags, PostId, Tally, UserId};

use crate::support::{NOW, comment, conformance, delete, id, ids, publish, users};

conformance! {
    batches_apply_once_at_the_last_offset
    like_counts_match_the_rows
    reverted_likes_have_events
    liker_pages_are_exact_latest_first
    one_of_two_concurrent_settlers_wins
    comment_likes_equal_post_likes
    viewers_get_their_own_likes
    new_likes_are_events_in_the_same_transaction
    liked_posts_are_listed_newest_post_first
    comment_likers_are_listed_latest_first
}

type Any = Arc<dyn Ledger>;

fn post(number: u64) -> ContentId {
    ContentId::Post(PostId(number))
}

fn change(user: &str, object: ContentId, liked: bool) -> LikeChange {
    LikeChange { user: id(user), object, liked, at: NOW }
}

fn batch(from: &str, to: &str, changes: Vec<LikeChange>) -> LikeBatch {
    LikeBatch { partition: 3, from: from.into(), to: to.into(), changes, noted: 500, now: NOW, ..LikeBatch::default() }
}

fn tally(likes: u64, version: u64) -> Tally {
    Tally { likes, comments: 0, version }
}

fn tallies(settled: &SettledLikes) -> HashMap<ContentId, Tally> {
    settled.tallies.iter().copied().collect()
}

async fn likers(ledger: &Any, number: u64) -> Vec<String> {
    let listed = ledger.likers(PostId(number), None, 100).await.unwrap();
    assert_eq!(listed.next, None);
    listed.items.iter().map(|user| user.id.to_string()).collect()
}

async fn batches_apply_once_at_the_last_offset(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    assert_eq!(ledger.like_position(3).await.unwrap(), "");
    let first = batch("", "a 1", vec![change("bo", post(1), true)]);
    let settled = ledger.settle_likes(first.clone()).await.unwrap().expect("it is applied");
    let added = vec![(id("bo"), post(1))];
    assert_eq!(settled, SettledLikes { tallies: vec![(post(1), tally(1, 1))], added, reverted: Vec::new() });
    assert_eq!(ledger.like_position(3).await.unwrap(), "a 1");
    // bo removes the like. Then a settler that missed the replies sends both batches again.
    let second = batch("a 1", "a 2", vec![change("bo", post(1), false)]);
    assert!(ledger.settle_likes(second.clone()).await.unwrap().is_some());
    for again in [first, second] {
        assert_eq!(ledger.settle_likes(again).await.unwrap(), None);
    }
    assert!(likers(&ledger, 1).await.is_empty());
    assert_eq!(ledger.like_tallies(&[post(1)]).await.unwrap(), [(post(1), tally(0, 2))]);
    assert_eq!(ledger.like_position(3).await.unwrap(), "a 2");
    // The positions of the partitions are independent.
    let other = LikeBatch { partition: 4, ..batch("", "b 1", vec![change("cy", post(1), true)]) };
    assert!(ledger.settle_likes(other).await.unwrap().is_some());
    assert_eq!(ledger.like_position(3).await.unwrap(), "a 2");
}

async fn like_counts_match_the_rows(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    publish(&*ledger, 2, "ann").await;
    let many = vec![
        change("bo", post(1), true),
        change("cy", post(2), true),
        change("dee", post(1), true),
        change("eve", post(2), false),
    ];
    let settled = ledger.settle_likes(batch("", "1", many)).await.unwrap().expect("it is applied");
    assert_eq!(tallies(&settled), HashMap::from([(post(1), tally(2, 1)), (post(2), tally(1, 1))]));
    // A repeated like, and the removal of a like that does not exist: neither the count nor the version changes.
    let nothing = vec![change("bo", post(1), true), change("eve", post(1), false)];
    let settled = ledger.settle_likes(batch("1", "2", nothing)).await.unwrap().expect("it is applied");
    assert_eq!((tallies(&settled), &settled.added[..]), (HashMap::from([(post(1), tally(2, 1))]), &[][..]));
    let swap = vec![change("bo", post(1), false), change("fay", post(1), true), change("gil", post(1), true)];
    let settled = ledger.settle_likes(batch("2", "3", swap)).await.unwrap().expect("it is applied");
    assert_eq!(tallies(&settled), HashMap::from([(post(1), tally(3, 2))]));
    assert_eq!(likers(&ledger, 1).await, ["gil", "fay", "dee"]);
    // Unknown users are created by their first like.
    assert_eq!(ledger.users(&[id("gil")]).await.unwrap()[0].created_at, NOW);
    let asked = [post(9), post(2)];
    let mut found = ledger.like_tallies(&asked).await.unwrap();
    found.sort_unstable_by_key(|(object, _)| *object);
    assert_eq!(found, [(post(2), tally(1, 1)), (post(9), tally(0, 0))]);
}

async fn reverted_likes_have_events(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    publish(&*ledger, 2, "ann").await;
    delete(&*ledger, 1, "ann").await;
    let changes = vec![
        change("bo", post(1), true),
        change("cy", post(1), false),
        change("bo", post(2), true),
        change("dee", post(77), true),
    ];
    let settled = ledger.settle_likes(batch("", "1", changes)).await.unwrap().expect("it is applied");
    let received = |reverted: &[Reverted]| {
        let what = |it: &Reverted| (it.user.to_string(), it.object, it.reason);
        reverted.iter().map(what).collect::<Vec<_>>()
    };
    let expected = [("bo".to_owned(), post(1), RevertReason::Gone), ("dee".to_owned(), post(77), RevertReason::Gone)];
    assert_eq!(received(&settled.reverted), expected);
    // Hidden and missing objects are reported with different reasons.
    let unseen = vec![change("eve", post(2), true), change("eve", post(77), true)];
    let hidden = LikeBatch { unseen, ..batch("1", "2", Vec::new()) };
    let hidden = ledger.settle_likes(hidden).await.unwrap().expect("it is applied");
    let why = [("eve".to_owned(), post(2), RevertReason::Hidden), ("eve".to_owned(), post(77), RevertReason::Gone)];
    assert_eq!(received(&hidden.reverted), why);
    assert_eq!(tallies(&hidden), HashMap::from([(post(2), tally(1, 1)), (post(77), tally(0, 0))]));
    assert_eq!(
        tallies(&settled),
        HashMap::from([(post(1), tally(0, 0)), (post(2), tally(1, 1)), (post(77), tally(0, 0))])
    );
    // Each has an event, even if the node that settled it stops.
    assert_eq!(reverts(&*ledger).await, [settled.reverted, hidden.reverted].concat());
    assert_eq!(ledger.pending_events(EventConsumer::Likes, 9).await.unwrap().len(), 2, "a like, and one taken back");
}

/// The reverted likes that wait for their event to be processed.
async fn reverts(ledger: &dyn Ledger) -> Vec<Reverted> {
    let waiting = ledger.pending_events(EventConsumer::Notifications, 99).await.unwrap();
    let reverted = waiting.into_iter().filter_map(|waiting| match waiting.event {
        Ok(DomainEvent::LikeReverted { user, object, reason }) => Some(Reverted { user, object, reason }),
        _ => None,
    });
    reverted.collect()
}

async fn liker_pages_are_exact_latest_first(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    let changes = (0..25).map(|n| change(&format!("u{n}"), post(1), true)).collect();
    ledger.settle_likes(batch("", "1", changes)).await.unwrap();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let listed = ledger.likers(PostId(1), before, 10).await.unwrap();
        seen.extend(listed.items.iter().map(|user| user.id.to_string()));
        if seen.len() == 10 {
            // Between two pages one user adds a like, one removes a like, and one repeats a like.
            let changes = vec![change("new", post(1), true), change("u3", post(1), false), change("u0", post(1), true)];
            ledger.settle_likes(batch("1", "2", changes)).await.unwrap();
        }
        before = listed.next;
        if before.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..25).rev().filter(|n| *n != 3).map(|n| format!("u{n}")).collect();
    assert_eq!(seen, expected);
    assert!(ledger.likers(PostId(9), None, 10).await.unwrap().items.is_empty());
}

async fn one_of_two_concurrent_settlers_wins(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    for round in 0..20_u32 {
        let from = ledger.like_position(3).await.unwrap();
        let settle = |who: &str| {
            let batch = batch(&from, &format!("{who} {round}"), vec![change(&format!("{who}{round}"), post(1), true)]);
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move { ledger.settle_likes(batch).await.unwrap().is_some() })
        };
        let (one, other) = (settle("one"), settle("other"));
        assert_eq!(u8::from(one.await.unwrap()) + u8::from(other.await.unwrap()), 1);
    }
    assert_eq!(likers(&ledger, 1).await.len(), 20);
    assert_eq!(ledger.like_tallies(&[post(1)]).await.unwrap(), [(post(1), tally(20, 20))]);
}

async fn comment_likes_equal_post_likes(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    for number in [5, 6] {
        ledger.create_comment(&comment(number, "ann", None)).await.unwrap();
    }
    let [liked, deleted, never] = [5, 6, 7].map(|number| ContentId::Comment(CommentId(number)));
    ledger.delete_comment(CommentId(6), None, 0).await.unwrap().expect("it was there");
    let changes = vec![
        change("bo", liked, true),
        change("cy", liked, true),
        change("dee", liked, false),
        change("bo", deleted, true),
        change("bo", never, true),
        change("bo", post(1), true),
    ];
    let settled = ledger.settle_likes(batch("", "1", changes)).await.unwrap().expect("it is applied");
    assert_eq!(tallies(&settled)[&liked], tally(2, 1));
    assert_eq!(settled.reverted.iter().map(|it| it.object).collect::<Vec<_>>(), [deleted, never]);
    assert_eq!(reverts(&*ledger).await, settled.reverted);
    assert_eq!(ledger.comments(&[CommentId(5)]).await.unwrap()[0].likes, 2);
    let back = vec![change("bo", liked, false), change("bo", liked, false)];
    ledger.settle_likes(batch("1", "2", back)).await.unwrap().expect("it is applied");
    let received: HashMap<_, _> = ledger.like_tallies(&[liked, never]).await.unwrap().into_iter().collect();
    assert_eq!(received, HashMap::from([(liked, tally(1, 2)), (never, tally(0, 0))]));
    // Comments are deleted with their post; later likes of them are reverted.
    delete(&*ledger, 1, "ann").await;
    let late = ledger.settle_likes(batch("2", "3", vec![change("eve", liked, true)])).await.unwrap().expect("applied");
    assert_eq!((late.reverted.len(), tallies(&late)[&liked]), (1, tally(1, 2)));
}

async fn viewers_get_their_own_likes(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    for number in 1..=3 {
        publish(&*ledger, number, "ann").await;
    }
    let changes = vec![change("bo", post(1), true), change("bo", post(3), true), change("cy", post(2), true)];
    ledger.settle_likes(batch("", "1", changes)).await.unwrap();
    let asked = [1, 2, 3, 3, 4].map(PostId);
    let mut flags = ledger.hydrate(Some(&id("bo")), &asked, &[]).await.unwrap().flags;
    flags.sort_unstable_by_key(|(post, _)| *post);
    let liked = PostFlags { liked: true, ..PostFlags::default() };
    assert_eq!(flags, [(PostId(1), liked), (PostId(3), liked)]);
    assert_eq!(ledger.counts(&asked).await.unwrap().len(), 3);
}

async fn new_likes_are_events_in_the_same_transaction(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    for number in 1..=3 {
        publish(&*ledger, number, "ann").await;
    }
    let pending = async || {
        let waiting = ledger.pending_events(EventConsumer::Likes, 100).await.unwrap();
        let events = waiting.into_iter().map(|queued| (queued.seq, queued.event.expect("an event")));
        events.collect::<Vec<(i64, DomainEvent)>>()
    };
    let of = |number: u64, by: &[&str]| NewLikes { object: post(number), by: ids(by) };
    let changes = vec![
        change("bo", post(1), true),
        change("cy", post(2), true),
        change("dee", post(1), true),
        change("eve", post(1), true),
        change("fay", post(9), true),
        change("gil", post(3), false),
    ];
    let few = LikeBatch { noted: 2, ..batch("", "1", changes) };
    ledger.settle_likes(few.clone()).await.unwrap().expect("it is applied");
    assert_eq!(ledger.settle_likes(few).await.unwrap(), None);
    let found = pending().await;
    let [(seq, DomainEvent::Liked { likes }), (last, unliked)] = &found[..] else { panic!("two events: {found:?}") };
    assert_eq!(unliked, &DomainEvent::Unliked { likes: vec![of(3, &["gil"])] }, "though it changes nothing");
    let mut likes = likes.clone();
    likes.sort_unstable_by_key(|likes| likes.object);
    assert_eq!(
        likes,
        [of(1, &["bo", "dee"]), of(2, &["cy"])],
        "of each object the first two, and none of what is gone"
    );
    let gone = Reverted { user: id("fay"), object: post(9), reason: RevertReason::Gone };
    assert_eq!(reverts(&*ledger).await, [gone]);
    assert_eq!(
        ledger.pending_events(EventConsumer::Notifications, 100).await.unwrap().len(),
        1,
        "likes have their own"
    );
    ledger.finish_events(EventConsumer::Likes, &[*seq, *last]).await.unwrap();
    assert_eq!(pending().await, []);
    // A repeated like writes no event, and with a limit of 0 (`noted`) no like does.
    ledger.settle_likes(batch("1", "2", vec![change("bo", post(1), true)])).await.unwrap().expect("it is applied");
    let none = LikeBatch { noted: 0, ..batch("2", "3", vec![change("hal", post(1), true)]) };
    ledger.settle_likes(none).await.unwrap().expect("it is applied");
    assert_eq!(pending().await, []);
    // Many likes are grouped into few events.
    let many: Vec<String> = (0..600).map(|n| format!("fan-{n:03}")).collect();
    let changes = many.iter().map(|user| change(user, post(3), true)).collect();
    ledger.settle_likes(batch("3", "4", changes)).await.unwrap().expect("it is applied");
    let found = pending().await;
    assert_eq!(found.iter().map(|(_, event)| event.recipients()).collect::<Vec<_>>(), [256, 244]);
}

async fn liked_posts_are_listed_newest_post_first(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    for number in 1..=30 {
        publish(&*ledger, number, "ann").await;
    }
    let mut position = String::new();
    let mut settle = async |changes: Vec<LikeChange>| {
        let to = format!("{position}x");
        ledger.settle_likes(batch(&position, &to, changes)).await.unwrap().expect("it is applied");
        position = to;
    };
    // Each like in a batch of its own, in another order than the posts.
    let order: Vec<u64> = (1..=30).map(|n| n * 7 % 31).collect();
    for number in &order {
        settle(vec![change("bo", post(*number), true), change("cy", post(31 - number), true)]).await;
    }
    let mut expected: Vec<u64> = (1..=30).rev().collect();
    let (mut seen, mut before) = (Vec::new(), PostId::MAX);
    loop {
        let page = ledger.likes_by(&id("bo"), before, 10).await.unwrap();
        let Some(last) = page.last() else { break };
        before = *last;
        seen.extend(page.iter().map(|post| post.0));
        if seen.len() == 10 {
            settle(vec![change("bo", post(expected[25]), true), change("bo", post(expected[12]), false)]).await;
        }
    }
    expected.remove(12);
    assert_eq!(seen, expected);
    assert!(ledger.likes_by(&id("nobody"), PostId::MAX, 9).await.unwrap().is_empty());
}

async fn comment_likers_are_listed_latest_first(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    for number in [5, 6, 7] {
        ledger.create_comment(&comment(number, "ann", None)).await.unwrap();
    }
    let [liked, other] = [5, 6].map(|number| ContentId::Comment(CommentId(number)));
    // Two likes in each moment.
    let by = |user: &str, object, at| LikeChange { at, ..change(user, object, true) };
    let mut changes: Vec<_> = (0..8).map(|n| by(&format!("u{n}"), liked, NOW + n / 2)).collect();
    changes.push(by("u3", other, NOW));
    ledger.settle_likes(batch("", "1", changes)).await.unwrap().expect("it is applied");
    let (mut seen, mut last) = (Vec::new(), None::<(u64, UserId)>);
    loop {
        let after = last.as_ref().map(|(at, user)| (*at, user));
        let page = ledger.comment_likers(CommentId(5), after, 3).await.unwrap();
        seen.extend(page.iter().map(|(_, user)| user.id.to_string()));
        let Some((at, user)) = page.last() else { break };
        last = Some((*at, user.id.clone()));
    }
    assert_eq!(seen, ["u7", "u6", "u5", "u4", "u3", "u2", "u1", "u0"]);
    let all = [5, 6, 7, 5, 99].map(CommentId);
    let mut of_u3 = ledger.liked_comments(&id("u3"), &all).await.unwrap();
    of_u3.sort_unstable();
    assert_eq!(of_u3, [5, 6].map(CommentId));
    assert_eq!(ledger.liked_comments(&id("u0"), &all).await.unwrap(), [CommentId(5)]);
    assert!(ledger.liked_comments(&id("nobody"), &all).await.unwrap().is_empty());
}
