//! The posts of lists, and the users that exclusive lists take out of the timeline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use feedline::ledger::{EdgeWork, EventConsumer, Ledger, ListChange, ListOutcome, NewJob, PersonalData, Work};
use feedline::model::{ListId, Post, PostId, Relation, Restriction, Visibility};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::lists::{add, create, remove, topic, user};
use crate::support::{
    NOW, backlog, delete, edit, follow, id, outlet_conformance, post, publish, store, timeline, users,
};

outlet_conformance! {
    posts_are_those_of_users_and_public_ones_of_topics
    posts_follow_every_change
    exclusions_follow_the_lists
    one_exclusive_list_is_enough
    lifted_exclusions_restore_followed_posts
    excluded_users_are_not_in_the_timeline
    concurrent_changes_end_with_the_right_exclusion
    exclusions_are_not_announced
}

type Any = Arc<dyn Ledger>;

async fn page(ledger: &dyn Ledger, list: ListId, before: PostId, limit: usize) -> Vec<u64> {
    let posts = ledger.list_posts(list, before, limit).await.expect("posts");
    posts.into_iter().map(|post| post.0).collect()
}

async fn posts_are_those_of_users_and_public_ones_of_topics(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    let list = create(&*ledger, "ann", "list", false).await.id;
    let other = create(&*ledger, "ann", "other", false).await.id;
    for (list, member) in [(list, user("bo")), (list, topic("a")), (list, topic("b")), (other, user("dee"))] {
        assert_eq!(add(&*ledger, list, &member).await, ListOutcome::Added);
    }
    for post in [
        post(1, "bo", &[]),
        Post { visibility: Visibility::Friends, ..post(2, "bo", &["a"]) },
        post(3, "cy", &["a", "b", "c"]),
        Post { visibility: Visibility::Followers, ..post(4, "cy", &["a"]) },
        post(5, "dee", &["c", "A"]),
        post(6, "bo", &["a", "b"]),
        post(7, "ann", &["b"]),
        Post::repost(PostId(8), &id("bo"), PostId(5), Visibility::Public),
    ] {
        store(&*ledger, post).await.expect("a post");
    }
    let posts = async |limit| page(&*ledger, list, PostId::MAX, limit).await;
    assert_eq!(posts(9).await, [8, 7, 6, 3, 2, 1]);
    for limit in 0..6 {
        assert_eq!(posts(limit).await, [8, 7, 6, 3, 2, 1][..limit], "the newest of all, each once");
    }
    assert_eq!(page(&*ledger, list, PostId(6), 2).await, [3, 2]);
    assert_eq!(page(&*ledger, list, PostId(1), 2).await, [0_u64; 0]);
    assert_eq!(page(&*ledger, other, PostId::MAX, 9).await, [5]);
    assert_eq!(page(&*ledger, ListId(other.0 + 1), PostId::MAX, 9).await, [0_u64; 0]);
    delete(&*ledger, 6, "bo").await.expect("a job");
    delete(&*ledger, 3, "cy").await.expect("a job");
    assert_eq!(posts(9).await, [8, 7, 2, 1], "deleted posts are omitted");
    assert_eq!(remove(&*ledger, list, &topic("b")).await, Some(true));
    assert_eq!(remove(&*ledger, list, &user("bo")).await, Some(true));
    assert_eq!(posts(9).await, [0_u64; 0], "the post of bo with the topic is for friends");
}

const AUTHORS: [&str; 6] = ["ann", "bo", "cy", "dee", "ed", "flo"];
const TOPICS: [&str; 4] = ["a", "b", "c", "d"];

/// The posts that exist, and the members of the list.
#[derive(Default)]
struct Model {
    posts: BTreeMap<u64, Post>,
    users: BTreeSet<&'static str>,
    topics: BTreeSet<&'static str>,
    last: u64,
}

impl Model {
    /// All posts of the list, newest first.
    fn listed(&self) -> Vec<u64> {
        let is_listed = |post: &Post| {
            let has_topic = post.topics.iter().any(|topic| self.topics.contains(topic.as_str()));
            self.users.contains(post.author.as_str()) || post.visibility == Visibility::Public && has_topic
        };
        self.posts.iter().rev().filter(|(_, post)| is_listed(post)).map(|(number, _)| *number).collect()
    }

    async fn compare(&self, ledger: &dyn Ledger, list: ListId, seed: u64) {
        let listed = self.listed();
        for limit in [1, 2, 3, 7, 20, 500] {
            let mut before = PostId::MAX;
            for expected in listed.chunks(limit) {
                assert_eq!(page(ledger, list, before, limit).await, expected, "{limit} below {before}, seed {seed}");
                before = PostId(*expected.last().expect("a chunk is not empty"));
            }
            assert_eq!(page(ledger, list, before, limit).await, [0_u64; 0], "below the last, seed {seed}");
        }
    }
}

fn some_post(rng: &mut StdRng, number: u64, author: &str) -> Post {
    let topics: BTreeSet<&str> = (0..rng.random_range(0..3)).map(|_| *TOPICS.choose(rng).expect("a topic")).collect();
    let visibility = match rng.random_range(0..4) {
        0 => Visibility::Friends,
        _ => Visibility::Public,
    };
    Post { visibility, ..post(number, author, &topics.into_iter().collect::<Vec<_>>()) }
}

async fn posts_follow_every_change(ledger: Any) {
    let seed = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = Model::default();
    users(&*ledger, &AUTHORS).await;
    let list = create(&*ledger, "ann", "list", false).await.id;
    for step in 0..240 {
        let known: Vec<u64> = model.posts.keys().copied().collect();
        match (rng.random_range(0..20), known.choose(&mut rng)) {
            (0..3, Some(number)) => {
                let gone = model.posts.remove(number).expect("the post exists");
                delete(&*ledger, *number, gone.author.as_str()).await.expect("a job");
            }
            (3..5, Some(number)) => {
                let author = model.posts[number].author.to_string();
                let changed = Post { edited_at: Some(NOW + 10_000 + step), ..some_post(&mut rng, *number, &author) };
                assert!(!edit(&*ledger, &changed).await.is_empty());
                model.posts.insert(*number, changed);
            }
            (5..8, _) => {
                let name = *AUTHORS.choose(&mut rng).expect("an author");
                if model.users.remove(name) {
                    assert_eq!(remove(&*ledger, list, &user(name)).await, Some(true));
                } else {
                    assert_eq!(add(&*ledger, list, &user(name)).await, ListOutcome::Added);
                    model.users.insert(name);
                }
            }
            (8..10, _) => {
                let name = *TOPICS.choose(&mut rng).expect("a topic");
                if model.topics.remove(name) {
                    assert_eq!(remove(&*ledger, list, &topic(name)).await, Some(true));
                } else {
                    assert_eq!(add(&*ledger, list, &topic(name)).await, ListOutcome::Added);
                    model.topics.insert(name);
                }
            }
            (kind, _) => {
                // Sometimes many by one author: a page needs more of them than of others.
                let author = *AUTHORS.choose(&mut rng).expect("an author");
                for _ in 0..if kind == 19 { 9 } else { 1 } {
                    model.last += 1;
                    let new = some_post(&mut rng, model.last, author);
                    store(&*ledger, new.clone()).await.expect("a post");
                    model.posts.insert(model.last, new);
                }
            }
        }
        if step % 20 == 19 {
            model.compare(&*ledger, list, seed).await;
        }
    }
}

/// Makes the restriction of ann against a user right. Returns whether it exists now, and the jobs.
async fn sync(ledger: &dyn Ledger, other: &str) -> Option<(bool, Vec<Work>)> {
    let synced = ledger.sync_exclusion(&id("ann"), &id(other), NOW + 1).await.expect("an answer");
    let work = |job: NewJob| {
        assert_eq!(job.job.created_at, NOW + 1);
        job.job.work
    };
    synced.map(|(listed, jobs)| (listed, jobs.into_iter().map(work).collect()))
}

async fn set_exclusive(ledger: &dyn Ledger, list: ListId, exclusive: bool) {
    let change = ListChange { exclusive: Some(exclusive), ..ListChange::default() };
    let changed = ledger.update_list(&id("ann"), list, &change).await.expect("an answer");
    assert_eq!(changed.map(|list| list.exclusive), Some(exclusive));
}

fn edge(change: EdgeWork, other: &str) -> Work {
    Work::Edge { change, reader: id("ann"), author: id(other) }
}

async fn relation(ledger: &dyn Ledger, reader: &str, author: &str) -> Relation {
    ledger.relations(&[(id(reader), id(author))]).await.expect("relations")[0]
}

/// The users that ann has in exclusive lists, in all places of the ledger.
async fn excluded(ledger: &dyn Ledger, others: &[&str]) -> Vec<String> {
    let listed = ledger.restricted(Restriction::Listed, &id("ann"), None, 99).await.expect("users");
    let mut listed: Vec<String> = listed.into_iter().map(|it| it.user.id.to_string()).collect();
    listed.sort();
    for other in others {
        let is_listed = listed.iter().any(|it| it == other);
        assert_eq!(relation(ledger, "ann", other).await.listed, is_listed, "{other}");
        assert!(!relation(ledger, other, "ann").await.listed, "{other}");
        let restricted = ledger.restricted_authors(&[id(other)]).await.expect("authors");
        assert_eq!(restricted.iter().any(|author| author.restricted), is_listed, "{other}");
    }
    listed
}

async fn exclusions_follow_the_lists(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let excluded = async || excluded(&*ledger, &["bo", "cy"]).await;
    let list = create(&*ledger, "ann", "list", false).await.id;
    add(&*ledger, list, &user("bo")).await;
    assert_eq!(sync(&*ledger, "bo").await, None, "the list is not exclusive");
    // Exclusive lists of others and topics change nothing.
    let theirs = create(&*ledger, "cy", "theirs", true).await.id;
    ledger.add_to_list(&id("cy"), theirs, &user("bo"), NOW, 9).await.expect("an answer");
    add(&*ledger, create(&*ledger, "ann", "topics", true).await.id, &topic("bo")).await;
    assert_eq!(sync(&*ledger, "bo").await, None);
    assert_eq!(excluded().await, [""; 0]);
    for _ in 0..2 {
        set_exclusive(&*ledger, list, true).await;
        let before = backlog(&*ledger).await.jobs;
        assert_eq!(sync(&*ledger, "bo").await, Some((true, vec![edge(EdgeWork::Detach, "bo")])));
        assert_eq!(backlog(&*ledger).await.jobs, before + 1, "the job is in the ledger");
        assert_eq!(sync(&*ledger, "bo").await, None, "it was so");
        assert_eq!(backlog(&*ledger).await.jobs, before + 1);
        assert_eq!(sync(&*ledger, "cy").await, None, "not in the list");
        assert_eq!(excluded().await, ["bo"]);
        set_exclusive(&*ledger, list, false).await;
        assert_eq!(sync(&*ledger, "bo").await, Some((false, vec![])));
        assert_eq!(sync(&*ledger, "bo").await, None, "it was so");
        assert_eq!(excluded().await, [""; 0]);
    }
    // The export has the lists, and other restrictions.
    set_exclusive(&*ledger, list, true).await;
    sync(&*ledger, "bo").await.expect("a change");
    ledger.restrict(Restriction::Mute, &id("ann"), &id("bo"), NOW).await.expect("an answer").expect("it is new");
    ledger.restrict(Restriction::Hide, &id("ann"), &id("bo"), NOW).await.expect("an answer").expect("it is new");
    for (after, kinds) in [("", &["hide Bo", "mute Bo"][..]), ("hide bo", &["mute Bo"])] {
        let rows = ledger.personal_rows(&id("ann"), PersonalData::Restrictions, after, 9).await.expect("rows");
        let rows = rows.into_iter().map(|row| serde_json::from_str(&row.json).expect("JSON"));
        let kind = |row: serde_json::Value| format!("{} {}", row["kind"], row["user"]).replace('"', "");
        assert_eq!(rows.map(kind).collect::<Vec<_>>(), kinds);
    }
}

async fn one_exclusive_list_is_enough(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let first = create(&*ledger, "ann", "first", true).await.id;
    let second = create(&*ledger, "ann", "second", true).await.id;
    let third = create(&*ledger, "ann", "third", false).await.id;
    for list in [first, second, third] {
        add(&*ledger, list, &user("bo")).await;
    }
    assert!(sync(&*ledger, "bo").await.expect("a change").0);
    assert_eq!(remove(&*ledger, first, &user("bo")).await, Some(true));
    assert_eq!(sync(&*ledger, "bo").await, None, "the second has bo");
    set_exclusive(&*ledger, third, true).await;
    assert!(ledger.delete_list(&id("ann"), second).await.expect("an answer"));
    assert_eq!(sync(&*ledger, "bo").await, None, "the third is exclusive now");
    assert_eq!(excluded(&*ledger, &["bo"]).await, ["bo"]);
    assert!(ledger.delete_list(&id("ann"), third).await.expect("an answer"));
    assert_eq!(sync(&*ledger, "bo").await, Some((false, vec![])));
    assert_eq!(excluded(&*ledger, &["bo"]).await, [""; 0]);
}

async fn lifted_exclusions_restore_followed_posts(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    follow(&*ledger, &id("ann"), &id("bo")).await;
    let list = create(&*ledger, "ann", "list", true).await.id;
    add(&*ledger, list, &user("bo")).await;
    assert_eq!(sync(&*ledger, "bo").await, Some((true, vec![edge(EdgeWork::Detach, "bo")])));
    let both = Relation { follows: true, listed: true, ..Relation::default() };
    assert_eq!(relation(&*ledger, "ann", "bo").await, both, "the follow stays");
    assert_eq!(relation(&*ledger, "bo", "ann").await, Relation { followed: true, ..Relation::default() });
    remove(&*ledger, list, &user("bo")).await;
    assert_eq!(sync(&*ledger, "bo").await, Some((false, vec![edge(EdgeWork::Follow, "bo")])));
}

async fn excluded_users_are_not_in_the_timeline(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for (number, author) in [(1, "bo"), (2, "cy"), (3, "ann"), (4, "bo")] {
        publish(&*ledger, number, author).await;
        follow(&*ledger, &id("ann"), &id(author)).await;
    }
    follow(&*ledger, &id("cy"), &id("bo")).await;
    let list = create(&*ledger, "ann", "list", true).await.id;
    add(&*ledger, list, &user("bo")).await;
    let read = async |reader: &str| timeline(&*ledger, &id(reader), PostId::MAX, 9).await;
    assert_eq!(read("ann").await, [4, 3, 2, 1].map(PostId), "before the list is applied");
    sync(&*ledger, "bo").await.expect("a change");
    assert_eq!(read("ann").await, [3, 2].map(PostId));
    assert_eq!(read("cy").await, [4, 2, 1].map(PostId));
    assert_eq!(page(&*ledger, list, PostId::MAX, 9).await, [4, 1]);
}

async fn concurrent_changes_end_with_the_right_exclusion(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let first = create(&*ledger, "ann", "first", true).await.id;
    let second = create(&*ledger, "ann", "second", true).await.id;
    for round in 0..20 {
        // In the second list and moved to the first, or in both and removed from both, in turn.
        let moves = round % 2 == 0;
        add(&*ledger, second, &user("bo")).await;
        if moves {
            remove(&*ledger, first, &user("bo")).await;
        } else {
            add(&*ledger, first, &user("bo")).await;
        }
        sync(&*ledger, "bo").await;
        let change = |list, adds: bool| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                if adds {
                    assert_eq!(add(&*ledger, list, &user("bo")).await, ListOutcome::Added);
                } else {
                    assert_eq!(remove(&*ledger, list, &user("bo")).await, Some(true));
                }
                sync(&*ledger, "bo").await;
            })
        };
        let (into, out) = tokio::join!(change(first, moves), change(second, false));
        into.expect("no panic");
        out.expect("no panic");
        assert_eq!(excluded(&*ledger, &["bo"]).await, if moves { vec!["bo"] } else { vec![] }, "round {round}");
    }
}

async fn exclusions_are_not_announced(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let list = create(&*ledger, "ann", "list", true).await.id;
    add(&*ledger, list, &user("bo")).await;
    sync(&*ledger, "bo").await.expect("a change");
    remove(&*ledger, list, &user("bo")).await;
    sync(&*ledger, "bo").await.expect("a change");
    ledger.restrict(Restriction::Listed, &id("ann"), &id("bo"), NOW).await.expect("an answer").expect("it is new");
    for consumer in [EventConsumer::Notifications, EventConsumer::Outlet, EventConsumer::Likes] {
        assert_eq!(ledger.pending_events(consumer, 9).await.expect("events").len(), 0, "{consumer:?}");
    }
    ledger.restrict(Restriction::Reposts, &id("ann"), &id("bo"), NOW).await.expect("an answer").expect("it is new");
    assert_eq!(ledger.pending_events(EventConsumer::Notifications, 9).await.expect("events").len(), 1);
}
