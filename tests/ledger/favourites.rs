//! Favourites, in both directions.

use std::collections::BTreeSet;
use std::sync::Arc;

use feedline::ledger::{Favourite, FavouriteOutcome, Ledger};
use feedline::model::{ObjectId, ObjectType, PostId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{NOW, conformance, delete, id, publish, users};

conformance! {
    adding_again_keeps_the_first_timestamp
    removing_affects_one_object
    favourites_of_each_type_are_limited
    favourite_posts_must_exist
    deleted_posts_leave_favourites_in_steps
    pages_are_exact_within_one_millisecond
    favourites_match_a_model
    private_favourites_are_of_their_owner_alone
}

type Any = Arc<dyn Ledger>;

const MAX_FAVOURITES: u64 = 1_000;

fn kind(text: &str) -> ObjectType {
    ObjectType::parse(text).expect("a type")
}

fn object(text: &str) -> ObjectId {
    ObjectId::parse(text).expect("an object's id")
}

async fn add(ledger: &dyn Ledger, user: &str, of: &str, text: &str, at: u64) -> FavouriteOutcome {
    ledger.add_favourite(&id(user), &kind(of), &object(text), at, MAX_FAVOURITES, false).await.expect("an answer")
}

async fn remove(ledger: &dyn Ledger, user: &str, of: &str, text: &str) -> bool {
    ledger.remove_favourite(&id(user), &kind(of), &object(text)).await.expect("an answer")
}

fn texts(favourites: &[Favourite]) -> Vec<&str> {
    favourites.iter().map(|favourite| favourite.id.as_str()).collect()
}

/// A user's favourites, in pages of `limit`.
async fn list(ledger: &dyn Ledger, user: &str, of: &str, limit: usize) -> Vec<Favourite> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = ledger.favourites(&id(user), &kind(of), before, limit).await.expect("a page");
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        before = Some(last.seq);
        all.extend(page);
    }
}

async fn holders(ledger: &dyn Ledger, of: &str, text: &str, limit: usize) -> Vec<String> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = ledger.holders(&kind(of), &object(text), before, limit).await.expect("a page");
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        before = Some(last.seq);
        all.extend(page.into_iter().map(|holder| holder.user.id.to_string()));
    }
}

async fn common(ledger: &dyn Ledger, user: &str, other: &str, of: &str, limit: usize) -> Vec<Favourite> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = ledger.common_favourites(&id(user), &id(other), &kind(of), before, limit).await.expect("a page");
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        before = Some(last.seq);
        all.extend(page);
    }
}

async fn adding_again_keeps_the_first_timestamp(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert_eq!(add(&*ledger, "ann", "video", "a", NOW).await, FavouriteOutcome::Since(NOW));
    assert_eq!(add(&*ledger, "ann", "video", "b", NOW + 1).await, FavouriteOutcome::Since(NOW + 1));
    assert_eq!(add(&*ledger, "ann", "video", "a", NOW + 2).await, FavouriteOutcome::Since(NOW));
    assert_eq!(add(&*ledger, "bo", "video", "a", NOW + 3).await, FavouriteOutcome::Since(NOW + 3));
    let list = list(&*ledger, "ann", "video", 9).await;
    assert_eq!(texts(&list), ["b", "a"]);
    assert_eq!(list[1].at, NOW);
    assert_eq!(ledger.favourites_count(&id("ann"), &kind("video")).await.unwrap(), 2);
    assert_eq!(ledger.holders_count(&kind("video"), &object("a")).await.unwrap(), 2);
    let holders = ledger.holders(&kind("video"), &object("a"), None, 9).await.unwrap();
    let who: Vec<_> = holders.iter().map(|holder| (holder.user.name.as_str(), holder.at)).collect();
    assert_eq!(who, [("Bo", NOW + 3), ("Ann", NOW)]);
    assert!(
        ledger.add_favourite(&id("nobody"), &kind("video"), &object("a"), NOW, MAX_FAVOURITES, false).await.is_err()
    );
    assert_eq!(ledger.holders_count(&kind("video"), &object("a")).await.unwrap(), 2, "nothing of it was stored");
}

async fn removing_affects_one_object(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for user in ["ann", "bo"] {
        for (of, text) in [("video", "a"), ("video", "b"), ("video", "A"), ("song", "a"), ("video", "%_")] {
            // All in the same millisecond: a deletion by time would remove all of them.
            add(&*ledger, user, of, text, NOW).await;
        }
    }
    assert!(remove(&*ledger, "ann", "video", "a").await);
    assert!(!remove(&*ledger, "ann", "video", "a").await);
    assert!(!remove(&*ledger, "ann", "film", "b").await);
    assert_eq!(texts(&list(&*ledger, "ann", "video", 9).await), ["%_", "A", "b"]);
    assert_eq!(texts(&list(&*ledger, "ann", "song", 9).await), ["a"]);
    assert_eq!(list(&*ledger, "bo", "video", 9).await.len(), 4);
    assert_eq!(ledger.favourites_count(&id("ann"), &kind("video")).await.unwrap(), 3);
    assert_eq!(ledger.holders_count(&kind("video"), &object("a")).await.unwrap(), 1);
    assert_eq!(holders(&*ledger, "video", "a", 9).await, ["bo"]);
    assert_eq!(holders(&*ledger, "song", "a", 9).await, ["bo", "ann"]);
}

async fn favourites_of_each_type_are_limited(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let add = async |of, text, most| {
        ledger.add_favourite(&id("ann"), &kind(of), &object(text), NOW, most, false).await.unwrap()
    };
    assert_eq!(add("video", "a", 2).await, FavouriteOutcome::Since(NOW));
    assert_eq!(add("video", "b", 2).await, FavouriteOutcome::Since(NOW));
    assert_eq!(add("video", "c", 2).await, FavouriteOutcome::Full);
    assert_eq!(add("video", "a", 2).await, FavouriteOutcome::Since(NOW), "it already exists");
    assert_eq!(add("song", "c", 2).await, FavouriteOutcome::Since(NOW), "another type");
    assert_eq!(texts(&list(&*ledger, "ann", "video", 9).await), ["b", "a"]);
    assert_eq!(ledger.holders_count(&kind("video"), &object("c")).await.unwrap(), 0);
    remove(&*ledger, "ann", "video", "a").await;
    assert_eq!(add("video", "c", 2).await, FavouriteOutcome::Since(NOW));
}

async fn favourite_posts_must_exist(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    publish(&*ledger, 2, "ann").await;
    delete(&*ledger, 2, "ann").await;
    assert_eq!(add(&*ledger, "ann", "post", "1", NOW).await, FavouriteOutcome::Since(NOW));
    for wrong in ["2", "3", "not-a-number"] {
        assert_eq!(add(&*ledger, "ann", "post", wrong, NOW).await, FavouriteOutcome::Absent, "{wrong}");
    }
    assert_eq!(texts(&list(&*ledger, "ann", "post", 9).await), ["1"]);
    assert_eq!(
        add(&*ledger, "ann", "video", "3", NOW).await,
        FavouriteOutcome::Since(NOW),
        "of other types nothing is known"
    );
}

async fn deleted_posts_leave_favourites_in_steps(ledger: Any) {
    let fans: Vec<String> = (0..7).map(|n| format!("fan-{n}")).collect();
    let fans: Vec<&str> = fans.iter().map(String::as_str).collect();
    users(&*ledger, &fans).await;
    publish(&*ledger, 1, "fan-0").await;
    publish(&*ledger, 2, "fan-0").await;
    for fan in &fans {
        add(&*ledger, fan, "post", "1", NOW).await;
        add(&*ledger, fan, "post", "2", NOW).await;
    }
    let favourites =
        async || ledger.counts(&[PostId(1)]).await.unwrap().first().map_or(0, |(_, counts)| counts.favourites);
    delete(&*ledger, 1, "fan-0").await;
    assert_eq!(favourites().await, 7);
    assert_eq!(ledger.forget_object(&kind("post"), &object("1"), 5).await.unwrap(), 5);
    assert_eq!(holders(&*ledger, "post", "1", 9).await.len(), 2);
    assert_eq!(favourites().await, 2);
    assert_eq!(ledger.forget_object(&kind("post"), &object("1"), 5).await.unwrap(), 2);
    assert_eq!(ledger.forget_object(&kind("post"), &object("1"), 5).await.unwrap(), 0);
    assert_eq!(ledger.holders_count(&kind("post"), &object("1")).await.unwrap(), 0);
    assert_eq!(favourites().await, 0);
    for fan in &fans {
        assert_eq!(texts(&list(&*ledger, fan, "post", 9).await), ["2"]);
        assert_eq!(ledger.favourites_count(&id(fan), &kind("post")).await.unwrap(), 1);
    }
}

async fn pages_are_exact_within_one_millisecond(ledger: Any) {
    let people = ["ann", "bo", "cy", "dee", "eve", "fay"];
    users(&*ledger, &people).await;
    for text in ["c", "a", "e", "b", "d"] {
        add(&*ledger, "ann", "video", text, NOW).await;
    }
    for user in ["cy", "bo", "dee"] {
        add(&*ledger, user, "video", "a", NOW).await;
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = ledger.favourites(&id("ann"), &kind("video"), before, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        seen.extend(page.iter().map(|favourite| favourite.id.to_string()));
        // Favourites added or removed on another device while a client pages do not shift the pages.
        add(&*ledger, "ann", "video", &format!("late-{}", seen.len()), NOW).await;
        remove(&*ledger, "ann", "video", &seen[0]).await;
    }
    assert_eq!(seen, ["d", "b", "e", "a", "c"]);
    for limit in [1, 2, 3, 4, 9] {
        assert_eq!(holders(&*ledger, "video", "a", limit).await, ["dee", "bo", "cy", "ann"]);
    }
}

async fn favourites_match_a_model(ledger: Any) {
    let people = ["ann", "bo", "cy"];
    let objects: Vec<String> = (1..=12).map(|n| n.to_string()).collect();
    users(&*ledger, &people).await;
    for number in 1..=12 {
        publish(&*ledger, number, "ann").await;
    }
    let mut random = StdRng::seed_from_u64(11);
    // Ordered by time, latest last.
    let mut model: Vec<(&str, &str, &str)> = Vec::new();
    for _ in 0..300 {
        let user = people[random.random_range(0..people.len())];
        let of = ["post", "video"][random.random_range(0..2)];
        let text = objects[random.random_range(0..objects.len())].as_str();
        let known = model.iter().position(|held| *held == (user, of, text));
        if random.random_bool(0.6) {
            add(&*ledger, user, of, text, NOW).await;
            if known.is_none() {
                model.push((user, of, text));
            }
        } else {
            assert_eq!(remove(&*ledger, user, of, text).await, known.is_some());
            known.map(|at| model.remove(at));
        }
    }
    let held = |user: &str, of: &str| -> Vec<&str> {
        model.iter().rev().filter(|held| (held.0, held.1) == (user, of)).map(|held| held.2).collect()
    };
    for of in ["post", "video"] {
        for user in people {
            let expected = held(user, of);
            assert_eq!(texts(&list(&*ledger, user, of, 5).await), expected);
            assert_eq!(ledger.favourites_count(&id(user), &kind(of)).await.unwrap(), expected.len() as u64);
            let asked: Vec<ObjectId> = objects.iter().chain(&objects).map(|text| object(text)).collect();
            let among = ledger.favourites_among(&id(user), &kind(of), &asked).await.unwrap();
            assert_eq!(among.len(), expected.len(), "each once");
            let among: BTreeSet<&str> = texts(&among).into_iter().collect();
            assert_eq!(among, expected.iter().copied().collect());
            for other in people {
                let both: Vec<&str> = expected.iter().copied().filter(|text| held(other, of).contains(text)).collect();
                assert_eq!(texts(&common(&*ledger, user, other, of, 4).await), both, "{user} and {other}");
                let count = ledger.common_favourites_count(&id(user), &id(other), &kind(of)).await.unwrap();
                assert_eq!(count, both.len() as u64);
            }
        }
        for text in &objects {
            let expected: Vec<&str> =
                model.iter().rev().filter(|held| (held.1, held.2) == (of, text)).map(|held| held.0).collect();
            assert_eq!(holders(&*ledger, of, text, 2).await, expected);
            assert_eq!(ledger.holders_count(&kind(of), &object(text)).await.unwrap(), expected.len() as u64);
            if of == "post" {
                let counts = ledger.counts(&[PostId(text.parse().unwrap())]).await.unwrap();
                let favourites = counts.first().map_or(0, |(_, counts)| counts.favourites);
                assert_eq!(favourites, expected.len() as u64);
            }
        }
    }
}

async fn private_favourites_are_of_their_owner_alone(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    publish(&*ledger, 1, "ann").await;
    let put = async |user: &str, text: &str, private| {
        ledger.add_favourite(&id(user), &kind("post"), &object(text), NOW, 9, private).await.expect("an answer")
    };
    let seen = async || {
        let (post, posts) = (object("1"), kind("post"));
        let counts = ledger.hydrate(None, &[PostId(1)], &[]).await.expect("counts").counts;
        let common = ledger.common_favourites(&id("bo"), &id("ann"), &posts, None, 9).await.expect("favourites");
        let many = ledger.common_favourites_count(&id("ann"), &id("bo"), &posts).await.expect("a count");
        assert_eq!(common.len() as u64, many);
        let holders = holders(&*ledger, "post", "1", 9).await.len() as u64;
        assert_eq!(ledger.holders_count(&posts, &post).await.expect("a count"), holders);
        assert_eq!(counts.first().map_or(0, |(_, counts)| counts.favourites), holders);
        (holders, many)
    };
    assert_eq!(put("ann", "1", false).await, FavouriteOutcome::Since(NOW));
    for (private, expected) in [(true, (1, 0)), (true, (1, 0)), (false, (2, 1)), (true, (1, 0))] {
        assert_eq!(put("bo", "1", private).await, FavouriteOutcome::Since(NOW), "the first time stays");
        assert_eq!(seen().await, expected, "bo's favourite is private: {private}");
        let own = list(&*ledger, "bo", "post", 9).await;
        assert_eq!(own.iter().map(|own| own.private).collect::<Vec<_>>(), [private]);
        assert_eq!(ledger.favourites_count(&id("bo"), &kind("post")).await.expect("a count"), 1);
    }
    let flags = ledger.hydrate(Some(&id("bo")), &[PostId(1)], &[]).await.expect("flags").flags;
    assert!(flags[0].1.favourited, "its owner sees it");
    assert!(remove(&*ledger, "bo", "post", "1").await);
    assert_eq!(seen().await, (1, 0));
    put("bo", "1", true).await;
    assert!(remove(&*ledger, "ann", "post", "1").await);
    assert_eq!(seen().await, (0, 0));
    // A deleted post leaves private favourites, too.
    assert_eq!(ledger.forget_object(&kind("post"), &object("1"), 9).await.expect("a number"), 1);
    assert!(list(&*ledger, "bo", "post", 9).await.is_empty());
    assert_eq!(seen().await, (0, 0));
}
