//! Followed topics: bounded, found by user and by topic, merged into timelines, exported and erased; and the entries of
//! the pull log for their followers.

use std::collections::HashSet;
use std::sync::Arc;

use feedline::ledger::{JobId, Ledger, PersonalData, SourcesInUse};
use feedline::model::{Entry, ListMember, PostId};
use futures::future::join_all;

use crate::lists::create;
use crate::support::{NOW, conformance, follow, id, ids, users};

conformance! {
    topics_are_followed_once_and_bounded
    concurrent_follows_keep_the_bound
    followers_of_topics_are_found_among_users
    entries_for_followers_of_topics_are_due_for_them_alone
    lists_get_the_entries_of_their_members
    old_entries_leave_with_their_topics
    followed_topics_are_exported
    erasure_removes_followed_topics
}

type Any = Arc<dyn Ledger>;

async fn add(ledger: &dyn Ledger, user: &str, topic: &str) {
    assert!(ledger.follow_topic(&id(user), topic, NOW, 100).await.expect("an answer"));
}

fn names(topics: &[&str]) -> Vec<String> {
    topics.iter().map(|topic| (*topic).to_owned()).collect()
}

async fn followed(ledger: &dyn Ledger, user: &str) -> Vec<String> {
    let topics = ledger.followed_topics(&id(user)).await.expect("topics");
    topics.into_iter().map(|topic| topic.name).collect()
}

async fn topics_are_followed_once_and_bounded(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert!(!ledger.has_topic_follows().await.expect("an answer"));
    for topic in ["rust", "go", "rust"] {
        assert!(ledger.follow_topic(&id("ann"), topic, NOW, 2).await.expect("an answer"), "{topic}");
    }
    assert!(!ledger.follow_topic(&id("ann"), "c", NOW, 2).await.expect("an answer"));
    assert!(ledger.follow_topic(&id("ann"), "go", NOW + 9, 2).await.expect("an answer"), "the bound is for others");
    assert_eq!(followed(&*ledger, "ann").await, ["go", "rust"]);
    assert_eq!(ledger.followed_topics(&id("ann")).await.expect("topics")[0].at, NOW);
    assert!(ledger.unfollow_topic(&id("ann"), "go").await.expect("an answer"));
    assert!(!ledger.unfollow_topic(&id("ann"), "go").await.expect("an answer"));
    assert_eq!((followed(&*ledger, "ann").await, followed(&*ledger, "bo").await), (names(&["rust"]), vec![]));
    assert!(ledger.has_topic_follows().await.expect("an answer"));
}

async fn concurrent_follows_keep_the_bound(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let follows = (0..20).map(|n| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.follow_topic(&id("ann"), &format!("t{n}"), NOW, 7).await.expect("an answer") }
    });
    let followed_now = join_all(follows).await.into_iter().filter(|is_followed| *is_followed).count();
    assert_eq!((followed_now, followed(&*ledger, "ann").await.len()), (7, 7));
}

async fn followers_of_topics_are_found_among_users(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    for (user, topic) in [("ann", "rust"), ("ann", "go"), ("bo", "go")] {
        add(&*ledger, user, topic).await;
    }
    let list = create(&*ledger, "cy", "near", false).await;
    assert!(ledger.has_lists().await.expect("an answer"));
    for member in [ListMember::User(id("bo")), ListMember::Topic("c".to_owned())] {
        ledger.add_to_list(&id("cy"), list.id, &member, NOW, 9).await.expect("an answer");
    }
    let mut gathered =
        ledger.sources_in_use(&id("bo"), &names(&["rust", "c", "java", "go", "go"])).await.expect("an answer");
    gathered.topics.sort_unstable();
    assert_eq!(gathered, SourcesInUse { is_listed: true, topics: names(&["c", "go", "rust"]) });
    assert_eq!(ledger.sources_in_use(&id("ann"), &[]).await.expect("an answer"), SourcesInUse::default());
    let among = async |topics: &[&str], users: &[&str]| {
        let mut found = ledger.topic_followers_among(&names(topics), &ids(users)).await.expect("users");
        found.sort_unstable();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(among(&["go", "rust"], &["ann", "bo", "cy", "nobody"]).await, ["ann", "bo"]);
    assert_eq!(among(&["rust"], &["bo", "ann"]).await, ["ann"]);
    assert_eq!(among(&["c"], &["ann"]).await, [""; 0]);
    assert_eq!(among(&[], &["ann"]).await, [""; 0]);
    assert_eq!(among(&["go"], &[]).await, [""; 0]);
    let mut of = ledger.topics_of(&ids(&["cy", "ann", "bo", "ann"])).await.expect("topics");
    of.sort_unstable();
    let expected = [("ann", "go"), ("ann", "rust"), ("bo", "go")];
    assert_eq!(of, expected.map(|(user, topic)| (id(user), topic.to_owned())));
}

async fn entries_for_followers_of_topics_are_due_for_them_alone(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    follow(&*ledger, &id("cy"), &id("bo")).await;
    add(&*ledger, "ann", "rust").await;
    add(&*ledger, "ann", "go").await;
    let entry = Entry::Post(PostId(7));
    let mark = ledger.pull_by_topics(&id("bo"), &entry, &names(&["rust", "go"]), NOW).await.expect("a mark");
    let again =
        ledger.pull_by_topics(&id("bo"), &Entry::Edited(PostId(7)), &names(&["go"]), NOW).await.expect("a mark");
    assert!(again > mark);
    let due = async |reader: &str, after: u64, limit: usize| {
        let due = ledger.pulled_for(&id(reader), after, limit).await.expect("entries");
        (due.entries, due.mark, due.more)
    };
    assert_eq!(due("ann", 0, 9).await, (vec![entry.clone(), Entry::Edited(PostId(7))], again, false), "each once");
    assert_eq!(due("ann", 0, 1).await, (vec![entry.clone()], mark, true));
    assert_eq!(due("ann", mark, 9).await, (vec![Entry::Edited(PostId(7))], again, false));
    // A follower of the author, and others.
    assert_eq!(due("cy", 0, 9).await, (vec![], again, false));
    assert_eq!(due("dee", 0, 9).await, (vec![], again, false));
    assert!(!ledger.fanout_mode(&id("bo")).await.expect("a mode").pulled, "not for the followers of the author");
    let log = ledger.pulled_after(0, 9).await.expect("the log");
    let topics: Vec<_> = log.iter().map(|pulled| (pulled.topics.clone(), pulled.repeated)).collect();
    assert_eq!(topics, [(Some(names(&["rust", "go"])), true), (Some(names(&["go"])), true)]);
}

async fn lists_get_the_entries_of_their_members(ledger: Any) {
    users(&*ledger, &["ann", "bo", "cy", "dee"]).await;
    let list = create(&*ledger, "ann", "near", false).await.id;
    let other = create(&*ledger, "ann", "far", false).await.id;
    for member in [ListMember::User(id("bo")), ListMember::Topic("go".to_owned())] {
        ledger.add_to_list(&id("ann"), list, &member, NOW, 9).await.expect("an answer");
    }
    let post = |n| Entry::Post(PostId(n));
    let mut marks = Vec::new();
    for (n, author, topics) in [(1, "bo", &[][..]), (2, "cy", &["go"]), (3, "bo", &["go"]), (4, "cy", &["rust"])] {
        marks.push(ledger.pull_by_topics(&id(author), &post(n), &names(topics), NOW).await.expect("a mark"));
    }
    // An entry for the followers of the author is not for lists.
    ledger.pull(JobId(1), &id("bo"), &post(5), false, NOW).await.expect("a mark");
    let due = async |list, after: u64, limit: usize| {
        let due = ledger.pulled_for_list(list, after, limit).await.expect("entries");
        (due.entries, due.mark.min(marks[3]), due.more)
    };
    assert_eq!(due(list, 0, 9).await, (vec![post(1), post(2), post(3)], marks[3], false));
    assert_eq!(due(list, 0, 2).await, (vec![post(1), post(2)], marks[1], true));
    assert_eq!(due(list, marks[1], 2).await, (vec![post(3)], marks[3], false));
    assert_eq!(due(other, 0, 9).await, (vec![], marks[3], false));
    let among = ledger.lists_among(&[other, list], &id("bo"), &[]).await.expect("lists");
    assert_eq!(among, HashSet::from([list]));
    assert_eq!(ledger.lists_among(&[list], &id("cy"), &names(&["go"])).await.expect("lists"), HashSet::from([list]));
    assert!(ledger.lists_among(&[list], &id("cy"), &names(&["rust"])).await.expect("lists").is_empty());
}

async fn old_entries_leave_with_their_topics(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    add(&*ledger, "ann", "rust").await;
    for n in 1..=3 {
        let entry = Entry::Post(PostId(n));
        ledger.pull_by_topics(&id("bo"), &entry, &names(&["rust", "go"]), NOW + n).await.expect("a mark");
    }
    assert_eq!(ledger.forget_pulled(NOW + 3, 9).await.expect("a number"), 2);
    assert_eq!(ledger.pulled_for(&id("ann"), 0, 9).await.expect("entries").entries, [Entry::Post(PostId(3))]);
}

async fn followed_topics_are_exported(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for topic in ["rust", "go", "été"] {
        add(&*ledger, "ann", topic).await;
    }
    add(&*ledger, "bo", "c").await;
    let kind = PersonalData::FollowedTopics;
    let first = ledger.personal_rows(&id("ann"), kind, "", 2).await.expect("rows");
    let rest = ledger.personal_rows(&id("ann"), kind, &first[1].key, 9).await.expect("rows");
    let topics: Vec<String> = first
        .iter()
        .chain(&rest)
        .map(|row| {
            let row: serde_json::Value = serde_json::from_str(&row.json).expect("a row");
            assert_eq!(row["at"], NOW);
            row["topic"].as_str().expect("a topic").to_owned()
        })
        .collect();
    assert_eq!(topics, ["go", "rust", "été"]);
}

async fn erasure_removes_followed_topics(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for topic in ["rust", "go", "c", "java", "été"] {
        add(&*ledger, "ann", topic).await;
    }
    add(&*ledger, "bo", "go").await;
    assert!(ledger.begin_erasure(&id("ann"), NOW).await.expect("an answer"));
    for removed in [3, 2, 0] {
        assert_eq!(ledger.erase_rest(&id("ann"), 3).await.expect("an answer"), removed, "in bounded steps");
    }
    assert_eq!((followed(&*ledger, "ann").await, followed(&*ledger, "bo").await), (vec![], names(&["go"])));
    let among = ledger.topic_followers_among(&names(&["rust", "go"]), &ids(&["ann", "bo"])).await.expect("users");
    assert_eq!(among, ids(&["bo"]));
    assert!(ledger.has_topic_follows().await.expect("an answer"), "those of bo stay");
}
