//! Counts of posts, and a reader's flags on them.

use std::collections::HashMap;
use std::sync::Arc;

use feedline::ledger::{Hydration, Ledger};
use feedline::model::{ObjectId, ObjectType, PostCounts, PostFlags, PostId};

use crate::support::{NOW, conformance, id, ids, publish, users};

conformance! {
    posts_are_counted_and_flagged_in_one_round_trip_each
    empty_inputs_return_nothing
}

type Any = Arc<dyn Ledger>;

async fn posts_are_counted_and_flagged_in_one_round_trip_each(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let posts = ObjectType::parse("post").unwrap();
    for number in [1, 2, 3, 77] {
        publish(&*ledger, number, "ann").await;
    }
    for (user, number) in [("ann", 1), ("bo", 1), ("cy", 1), ("bo", 77)] {
        ledger.add_favourite(&id(user), &posts, &ObjectId::from(PostId(number)), NOW, 9, false).await.unwrap();
    }
    // Objects of another type with the same ids do not affect posts.
    let videos = ObjectType::parse("video").unwrap();
    ledger.add_favourite(&id("ann"), &videos, &ObjectId::parse("2").unwrap(), NOW, 9, false).await.unwrap();

    let asked: Vec<PostId> = [1, 1, 3].into_iter().chain(10..5_000).map(PostId).collect();
    let before = ledger.round_trips();
    let counts: HashMap<_, _> = ledger.counts(&asked).await.unwrap().into_iter().collect();
    let page = ledger.hydrate(Some(&id("bo")), &asked, &ids(&["ann", "cy", "ann", "nobody"])).await.unwrap();
    assert_eq!(ledger.round_trips() - before, 2);
    assert_eq!(page.counts.into_iter().collect::<HashMap<_, _>>(), counts);
    let mut people: Vec<_> = page.people.iter().map(|user| user.id.as_str()).collect();
    people.sort_unstable();
    assert_eq!(people, ["ann", "cy"]);
    let favourites = |favourites| PostCounts { favourites, ..PostCounts::default() };
    assert_eq!(counts.get(&PostId(1)), Some(&favourites(3)));
    assert_eq!(counts.get(&PostId(77)), Some(&favourites(1)));
    assert!(counts.values().filter(|counts| **counts != PostCounts::default()).count() == 2, "{counts:?}");
    assert!(ledger.counts(&[PostId(1), PostId(1)]).await.unwrap().len() == 1, "each once");
    let favourited = PostFlags { favourited: true, ..PostFlags::default() };
    let mut flags: Vec<_> = page.flags.into_iter().filter(|(_, flags)| *flags != PostFlags::default()).collect();
    flags.sort_by_key(|(id, _)| *id);
    assert_eq!(flags, [(PostId(1), favourited), (PostId(77), favourited)]);
    let none = ledger.hydrate(Some(&id("ann")), &[PostId(2), PostId(77)], &[]).await.unwrap().flags;
    assert!(none.iter().all(|(_, flags)| *flags == PostFlags::default()), "{none:?}");
}

async fn empty_inputs_return_nothing(ledger: Any) {
    assert!(ledger.counts(&[]).await.unwrap().is_empty());
    assert_eq!(ledger.hydrate(Some(&id("ann")), &[], &[]).await.unwrap(), Hydration::default());
    let anonymous = ledger.hydrate(None, &[PostId(1)], &[]).await.unwrap();
    assert!(anonymous.flags.is_empty(), "anonymous readers have no flags");
}
