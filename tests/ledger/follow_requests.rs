//! Conformance tests of locked accounts and of requests to follow them. Each case takes an empty ledger.

use std::sync::Arc;

use feedline::ledger::{
    EventConsumer, FollowOutcome, Ledger, LockOutcome, MAX_REQUESTS_BY, MAX_REQUESTS_TO, PersonalData, REQUEST_QUIET,
    RestrictedAuthor, TopicPost, Work,
};
use feedline::model::{DomainEvent, Edges, PostId, Restriction, UserId, Visibility};
use futures::stream::{self, StreamExt as _};

use crate::support::{NOW, conformance, edit, follow, id, ids, load_all, own_all, post, publish, store, users};

conformance! {
    a_follow_of_a_locked_account_is_a_request
    requests_are_accepted_rejected_and_withdrawn
    a_request_after_a_rejection_is_shown_a_day_later
    the_lists_of_requests_are_paged_latest_first
    open_requests_are_limited
    a_block_ends_requests_both_ways
    an_unlock_names_the_requests_that_it_accepts
    topics_do_not_count_posts_of_locked_accounts
    profiles_show_locks_and_requests
    erasures_remove_requests_both_ways
}

type Any = Arc<dyn Ledger>;

async fn lock(ledger: &dyn Ledger, user: &str, locked: bool) -> Option<u64> {
    match ledger.set_locked(&id(user), locked, NOW).await.expect("an answer") {
        LockOutcome::Changed(new) => match new.job.work {
            Work::LockChanged { author, accept_through } => {
                assert_eq!((author, accept_through.is_some()), (id(user), !locked));
                accept_through
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Asks to follow a locked account.
async fn ask(ledger: &dyn Ledger, follower: &str, user: &str, now: u64) {
    let outcome = ledger.follow(&id(follower), &id(user), now, 9).await.expect("an answer");
    assert!(matches!(outcome, FollowOutcome::Requested), "{outcome:?}");
}

async fn shown(ledger: &dyn Ledger, user: &str, now: u64) -> Vec<UserId> {
    let page = ledger.requests_to(&id(user), now, None, 9).await.expect("a page");
    page.items.into_iter().map(|user| user.id).collect()
}

async fn asked(ledger: &dyn Ledger, user: &str) -> Vec<UserId> {
    let page = ledger.requests_by(&id(user), None, 9).await.expect("a page");
    page.items.into_iter().map(|user| user.id).collect()
}

/// The events for notifications, which are taken.
async fn events(ledger: &dyn Ledger) -> Vec<DomainEvent> {
    let events = ledger.pending_events(EventConsumer::Notifications, 99).await.expect("events");
    let done: Vec<i64> = events.iter().map(|event| event.seq).collect();
    ledger.finish_events(EventConsumer::Notifications, &done).await.expect("they are finished");
    events.into_iter().map(|event| event.event.expect("an event")).collect()
}

async fn follows(ledger: &dyn Ledger, follower: &str, user: &str) -> bool {
    ledger.relations(&[(id(follower), id(user))]).await.expect("relations")[0].follows
}

async fn a_follow_of_a_locked_account_is_a_request(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    follow(&*ledger, &id("bo"), &id("ann")).await;
    assert_eq!(ledger.set_locked(&id("nobody"), true, NOW).await.expect("an answer"), LockOutcome::NoUser);
    assert_eq!(ledger.set_locked(&id("ann"), false, NOW).await.expect("an answer"), LockOutcome::Unchanged);
    assert_eq!(lock(&*ledger, "ann", true).await, None);
    assert_eq!(ledger.set_locked(&id("ann"), true, NOW).await.expect("an answer"), LockOutcome::Unchanged);
    // Followers stay, and are not asked again.
    let again = ledger.follow(&id("bo"), &id("ann"), NOW, 9).await.expect("an answer");
    assert!(matches!(again, FollowOutcome::Unchanged), "{again:?}");
    events(&*ledger).await;
    ask(&*ledger, "cy", "ann", NOW).await;
    ask(&*ledger, "cy", "ann", NOW).await;
    let requested = DomainEvent::FollowRequested { follower: id("cy"), followee: id("ann") };
    assert_eq!(events(&*ledger).await, [requested], "one event");
    assert!(!follows(&*ledger, "cy", "ann").await);
    assert_eq!((shown(&*ledger, "ann", NOW).await, asked(&*ledger, "cy").await), (ids(&["cy"]), ids(&["ann"])));
    assert_eq!(ledger.requests_among(&id("ann"), &ids(&["bo", "cy"]), NOW).await.expect("users"), ids(&["cy"]));
    // The lock is of the author, whoever reads.
    let relations = ledger.relations(&[(id("bo"), id("ann")), (id("ann"), id("bo"))]).await.expect("relations");
    assert_eq!((relations[0].locked, relations[1].locked), (true, false));
    let locked = RestrictedAuthor { author: id("ann"), restricted: false, locked: true };
    assert_eq!(ledger.restricted_authors(&ids(&["ann", "bo"])).await.expect("authors"), [locked]);
}

async fn requests_are_accepted_rejected_and_withdrawn(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    lock(&*ledger, "ann", true).await;
    for user in ["bo", "cy", "dee"] {
        ask(&*ledger, user, "ann", NOW).await;
    }
    events(&*ledger).await;
    let new = ledger.accept_request(&id("bo"), &id("ann"), NOW, Some(NOW)).await.expect("an answer").expect("a job");
    assert!(matches!(new.job.work, Work::Edge { reader, author, .. } if reader == id("bo") && author == id("ann")));
    assert!(follows(&*ledger, "bo", "ann").await);
    assert_eq!(ledger.accept_request(&id("bo"), &id("ann"), NOW, Some(NOW)).await.expect("an answer"), None);
    assert!(ledger.reject_request(&id("cy"), &id("ann"), NOW).await.expect("an answer"));
    assert!(!ledger.reject_request(&id("cy"), &id("ann"), NOW).await.expect("an answer"));
    assert_eq!(ledger.unfollow(&id("dee"), &id("ann"), NOW).await.expect("an answer"), None);
    let pair = |follower| (id(follower), id("ann"));
    let ended = |(follower, followee)| DomainEvent::FollowRequestEnded { follower, followee };
    let (follower, followee) = pair("bo");
    let expected = [DomainEvent::FollowAccepted { follower, followee }, ended(pair("cy")), ended(pair("dee"))];
    assert_eq!(events(&*ledger).await, expected);
    assert!(shown(&*ledger, "ann", NOW).await.is_empty());
    assert!(!follows(&*ledger, "cy", "ann").await && !follows(&*ledger, "dee", "ann").await);
    assert_eq!(ledger.profile(&id("ann"), None, NOW).await.unwrap().unwrap().followers, 1);
}

async fn a_request_after_a_rejection_is_shown_a_day_later(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    lock(&*ledger, "ann", true).await;
    ask(&*ledger, "bo", "ann", NOW).await;
    assert!(ledger.reject_request(&id("bo"), &id("ann"), NOW).await.expect("an answer"));
    events(&*ledger).await;
    ask(&*ledger, "bo", "ann", NOW + 1).await;
    assert_eq!(asked(&*ledger, "bo").await, ids(&["ann"]), "the one who asks sees no difference");
    let day = NOW + REQUEST_QUIET;
    assert!(shown(&*ledger, "ann", day - 1).await.is_empty() && events(&*ledger).await.is_empty());
    assert!(ledger.requests_among(&id("ann"), &ids(&["bo"]), day - 1).await.expect("users").is_empty());
    assert!(!ledger.reject_request(&id("bo"), &id("ann"), day - 1).await.expect("an answer"));
    assert_eq!(ledger.accept_request(&id("bo"), &id("ann"), NOW, Some(day - 1)).await.expect("an answer"), None);
    assert_eq!(shown(&*ledger, "ann", day).await, ids(&["bo"]));
    // Withdrawn and made again, it waits as long.
    ledger.unfollow(&id("bo"), &id("ann"), NOW).await.expect("an answer");
    ask(&*ledger, "bo", "ann", NOW + 2).await;
    assert!(shown(&*ledger, "ann", day - 1).await.is_empty());
    assert!(ledger.accept_request(&id("bo"), &id("ann"), NOW, None).await.expect("an answer").is_some());
}

async fn the_lists_of_requests_are_paged_latest_first(ledger: Any) {
    let all = ["ann", "bo", "cy", "dee", "eve"];
    users(&*ledger, &all).await;
    for user in all {
        lock(&*ledger, user, true).await;
    }
    for other in &all[1..] {
        ask(&*ledger, other, "ann", NOW).await;
        ask(&*ledger, "ann", other, NOW).await;
    }
    let (mut to, mut by) = ((Vec::new(), None), (Vec::new(), None));
    for _ in 0..2 {
        let page = ledger.requests_to(&id("ann"), NOW, to.1, 2).await.expect("a page");
        to.0.extend(page.items.into_iter().map(|user| user.id));
        to.1 = page.next;
        let page = ledger.requests_by(&id("ann"), by.1, 2).await.expect("a page");
        by.0.extend(page.items.into_iter().map(|user| user.id));
        by.1 = page.next;
    }
    let latest_first = ids(&["eve", "dee", "cy", "bo"]);
    assert_eq!(to, (latest_first.clone(), None));
    assert_eq!(by, (latest_first, None));
}

async fn open_requests_are_limited(ledger: Any) {
    let most_by = usize::try_from(MAX_REQUESTS_BY).unwrap();
    let most_to = usize::try_from(MAX_REQUESTS_TO).unwrap();
    let many: Vec<UserId> = (0..most_to).map(|n| UserId::parse(&format!("u{n}")).unwrap()).collect();
    let some_at_a_time = 16;
    let ensure = async |user: &UserId| ledger.ensure_user(user, NOW).await.map(drop).expect("a user");
    stream::iter(&many).for_each_concurrent(some_at_a_time, ensure).await;
    users(&*ledger, &["ann", "bo", "late"]).await;
    lock(&*ledger, "ann", true).await;
    lock(&*ledger, "late", true).await;
    let ask_locked = async |user: &UserId| {
        ledger.set_locked(user, true, NOW).await.expect("it is locked");
        let outcome = ledger.follow(&id("bo"), user, NOW, 9_999).await.expect("an answer");
        assert!(matches!(outcome, FollowOutcome::Requested), "{outcome:?}");
    };
    stream::iter(&many[..most_by]).for_each_concurrent(some_at_a_time, ask_locked).await;
    let outcome = ledger.follow(&id("bo"), &id("ann"), NOW, 9_999).await.expect("an answer");
    assert!(matches!(outcome, FollowOutcome::TooManyRequests), "{outcome:?}");
    let ask_ann = async |user: &UserId| {
        let outcome = ledger.follow(user, &id("ann"), NOW, 9).await.expect("an answer");
        assert!(matches!(outcome, FollowOutcome::Requested), "{outcome:?}");
    };
    stream::iter(&many).for_each_concurrent(some_at_a_time, ask_ann).await;
    let outcome = ledger.follow(&id("late"), &id("ann"), NOW, 9).await.expect("an answer");
    assert!(matches!(outcome, FollowOutcome::AskedTooOften), "{outcome:?}");
    // Nobody with all of their follows asks.
    let outcome = ledger.follow(&id("ann"), &id("late"), NOW, 0).await.expect("an answer");
    assert!(matches!(outcome, FollowOutcome::Full), "{outcome:?}");
}

async fn a_block_ends_requests_both_ways(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    lock(&*ledger, "ann", true).await;
    lock(&*ledger, "bo", true).await;
    ask(&*ledger, "ann", "bo", NOW).await;
    ask(&*ledger, "bo", "ann", NOW).await;
    ask(&*ledger, "cy", "ann", NOW).await;
    for restriction in [Restriction::Hide, Restriction::Mute] {
        ledger.restrict(restriction, &id("ann"), &id("bo"), NOW).await.expect("an answer");
    }
    assert_eq!(shown(&*ledger, "ann", NOW).await, ids(&["cy", "bo"]));
    ledger.restrict(Restriction::Block, &id("ann"), &id("bo"), NOW).await.expect("an answer");
    assert_eq!((shown(&*ledger, "ann", NOW).await, shown(&*ledger, "bo", NOW).await), (ids(&["cy"]), Vec::new()));
    ledger.unrestrict(Restriction::Block, &id("ann"), &id("bo"), NOW).await.expect("an answer");
    assert_eq!(shown(&*ledger, "ann", NOW).await, ids(&["cy"]));
}

async fn an_unlock_names_the_requests_that_it_accepts(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee", "eve"]).await;
    lock(&*ledger, "ann", true).await;
    assert_eq!(lock(&*ledger, "ann", false).await, Some(0), "there are none");
    lock(&*ledger, "ann", true).await;
    ask(&*ledger, "bo", "ann", NOW).await;
    ask(&*ledger, "cy", "ann", NOW).await;
    let through = lock(&*ledger, "ann", false).await.expect("a number");
    // What another process loads is what this one was told.
    let owned = own_all(&*ledger, "me").await;
    let last = load_all(&*ledger, &owned).await.pop().expect("a job").job.expect("it can be read");
    assert_eq!(last.work, Work::LockChanged { author: id("ann"), accept_through: Some(through) });
    assert!(through > 0);
    // The job has not begun. One of them follows again, and is a follower at once.
    events(&*ledger).await;
    let outcome = ledger.follow(&id("cy"), &id("ann"), NOW, 9).await.expect("an answer");
    assert!(matches!(outcome, FollowOutcome::New(_)), "{outcome:?}");
    let ended = DomainEvent::FollowRequestEnded { follower: id("cy"), followee: id("ann") };
    let followed = DomainEvent::Followed { follower: id("cy"), followee: id("ann") };
    assert_eq!(events(&*ledger).await, [ended, followed]);
    // Locked again: a later request is none of those.
    lock(&*ledger, "ann", true).await;
    ask(&*ledger, "dee", "ann", NOW).await;
    let oldest = ledger.oldest_requests(&id("ann"), through, 9).await.expect("requests");
    assert_eq!(oldest.into_iter().map(|request| request.follower).collect::<Vec<_>>(), ids(&["bo"]));
    let all = ledger.oldest_requests(&id("ann"), u64::MAX, 9).await.expect("requests");
    assert_eq!(all.into_iter().map(|request| request.follower).collect::<Vec<_>>(), ids(&["bo", "dee"]));
    assert_eq!(ledger.oldest_requests(&id("ann"), u64::MAX, 1).await.expect("requests").len(), 1);
}

async fn topics_do_not_count_posts_of_locked_accounts(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let counted = async || {
        let topics = ledger.topics(None, 9).await.expect("topics");
        topics.into_iter().map(|topic| (topic.name, topic.posts)).collect::<Vec<_>>()
    };
    let sync = async || {
        let mut changed = 0;
        let mut before = PostId::MAX;
        while let (posts, Some(last)) = ledger.posts_out_of_sync(&id("ann"), before, 2).await.expect("a page") {
            for post in posts {
                ledger.sync_topics(&id("ann"), &post).await.expect("it is synchronised");
                changed += 1;
            }
            before = last;
        }
        changed
    };
    for n in 10..13 {
        store(&*ledger, post(n, "ann", &["rust"])).await.expect("a post");
    }
    store(&*ledger, post(13, "bo", &["rust"])).await.expect("a post");
    publish(&*ledger, 14, "ann").await;
    let mut to_followers = post(15, "ann", &["rust"]);
    to_followers.visibility = Visibility::Followers;
    store(&*ledger, to_followers).await.expect("a post");
    assert_eq!((sync().await, counted().await), (0, vec![("rust".to_owned(), 4)]), "nothing differs");
    lock(&*ledger, "ann", true).await;
    // What is written while the account is locked is not counted at all.
    store(&*ledger, post(16, "ann", &["rust"])).await.expect("a post");
    store(&*ledger, post(17, "ann", &["music"])).await.expect("a post");
    assert_eq!((sync().await, counted().await), (3, vec![("rust".to_owned(), 1)]));
    assert_eq!(sync().await, 0, "a repeat finds nothing");
    assert_eq!(ledger.topic_posts("rust", PostId::MAX, 9).await.expect("posts").len(), 6, "readers decide");
    // An edit has the topics of the edited post.
    let before = post(16, "ann", &["rust"]);
    let mut after = post(16, "ann", &["food"]);
    after.edited_at = Some(NOW);
    edit(&*ledger, &after).await;
    assert_eq!(counted().await, [("rust".to_owned(), 1)]);
    lock(&*ledger, "ann", false).await;
    // A post that has other topics by now is left alone.
    let stale = TopicPost { post: before.id, topics: before.topics };
    ledger.sync_topics(&id("ann"), &stale).await.expect("nothing to do");
    assert_eq!(counted().await, [("rust".to_owned(), 1)]);
    assert_eq!(sync().await, 5);
    let mut counts = counted().await;
    counts.sort();
    let expected = [("food", 1), ("music", 1), ("rust", 4)];
    assert_eq!(counts, expected.map(|(name, posts)| (name.to_owned(), posts)));
}

async fn profiles_show_locks_and_requests(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for n in 10..13 {
        publish(&*ledger, n, "ann").await;
    }
    follow(&*ledger, &id("cy"), &id("ann")).await;
    lock(&*ledger, "ann", true).await;
    ask(&*ledger, "bo", "ann", NOW).await;
    let seen = async |user: &str, viewer: &str, now| {
        let profile = ledger.profile(&id(user), Some(&id(viewer)), now).await.unwrap().unwrap();
        (profile.locked, profile.posts, profile.edges)
    };
    let requested = Edges { requested: true, ..Edges::default() };
    let requested_by = Edges { requested_by: true, ..Edges::default() };
    assert_eq!(seen("ann", "bo", NOW).await, (true, 0, requested));
    assert_eq!(seen("bo", "ann", NOW).await, (false, 0, requested_by));
    assert_eq!(seen("bo", "ann", NOW - 1).await, (false, 0, Edges::default()), "it is not shown yet");
    assert_eq!(seen("ann", "cy", NOW).await, (true, 3, Edges { following: true, ..Edges::default() }));
    assert_eq!(seen("ann", "ann", NOW).await, (true, 3, Edges::default()));
    let change = feedline::ledger::ProfileChange::default();
    let details = ledger.update_user(&id("ann"), &change).await.unwrap().unwrap();
    assert!(details.locked);
}

async fn erasures_remove_requests_both_ways(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for user in ["ann", "bo"] {
        lock(&*ledger, user, true).await;
    }
    ask(&*ledger, "ann", "bo", NOW).await;
    ask(&*ledger, "bo", "ann", NOW).await;
    ask(&*ledger, "cy", "ann", NOW).await;
    ask(&*ledger, "cy", "bo", NOW).await;
    assert!(ledger.reject_request(&id("cy"), &id("ann"), NOW).await.expect("an answer"));
    let rows = ledger.personal_rows(&id("ann"), PersonalData::FollowRequests, "", 9).await.expect("rows");
    assert_eq!(rows.into_iter().map(|row| row.other).collect::<Vec<_>>(), [Some(id("bo"))]);
    ledger.begin_erasure(&id("ann"), NOW).await.expect("it begins");
    assert_eq!(ledger.erase_rest(&id("ann"), 99).await.expect("a count"), 3, "two requests and a rejection");
    assert_eq!((shown(&*ledger, "bo", NOW).await, asked(&*ledger, "bo").await), (ids(&["cy"]), Vec::new()));
    assert_eq!(ledger.set_locked(&id("ann"), false, NOW).await.expect("an answer"), LockOutcome::NoUser);
}
