//! Topics by their latest activity, and read markers.

use std::collections::BTreeMap;
use std::sync::Arc;

use feedline::ledger::{Ledger, Topic, TopicCursor, fold};
use feedline::model::{PostId, Visibility};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{self, NOW, conformance, database, delete, id, open_at, post, store, updates, users};

conformance! {
    topics_are_ordered_by_activity_and_counted
    restricted_posts_create_no_topic
    topic_pages_use_the_snapshot_of_the_first
    topics_match_a_model
    topics_are_found_by_prefix
    read_markers_move_forward_only
}

type Any = Arc<dyn Ledger>;

fn received(topics: &[Topic]) -> Vec<(&str, u64, u64)> {
    topics.iter().map(|topic| (topic.name.as_str(), topic.posts, topic.last.0)).collect()
}

async fn write(ledger: &dyn Ledger, number: u64, topics: &[&str], visibility: Visibility) {
    let mut post = post(number, "ann", topics);
    post.visibility = visibility;
    store(ledger, post).await.expect("a post");
}

async fn edit(ledger: &dyn Ledger, number: u64, topics: &[&str], visibility: Visibility) {
    let mut post = post(number, "ann", topics);
    post.visibility = visibility;
    post.edited_at = Some(NOW);
    assert!(!support::edit(ledger, &post).await.is_empty());
}

async fn topics_are_found_by_prefix(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    write(&*ledger, 1, &["café", "cafe", "cafés", "rust", "größe"], Visibility::Public).await;
    write(&*ledger, 2, &["rustic", "café"], Visibility::Public).await;
    write(&*ledger, 3, &["rusty"], Visibility::Followers).await;
    edit(&*ledger, 2, &["rust_2", "café"], Visibility::Public).await;
    let search = async |prefix: &str, limit: usize| {
        let (mut all, mut last) = (Vec::new(), None::<(String, String)>);
        loop {
            let after = last.as_ref().map(|(folded, name)| (folded.as_str(), name.as_str()));
            let page = ledger.search_topics(&fold(prefix), after, limit).await.unwrap();
            let Some((folded, end)) = page.last() else { return all };
            last = Some((folded.clone(), end.name.clone()));
            all.extend(page.into_iter().map(|(_, topic)| (topic.name, topic.posts)));
        }
    };
    let found =
        |names: &[(&str, u64)]| names.iter().map(|(name, posts)| ((*name).to_owned(), *posts)).collect::<Vec<_>>();
    for limit in [1, 2, 9] {
        assert_eq!(search("CAFE", limit).await, found(&[("cafe", 1), ("café", 2), ("cafés", 1)]));
        assert_eq!(search("rust", limit).await, found(&[("rust", 1), ("rust_2", 1)]), "what is gone is not found");
    }
    write(&*ledger, 4, &["a_ﷺ", "a_ﷺb"], Visibility::Public).await;
    for limit in [1, 9] {
        assert_eq!(search("a_", limit).await, found(&[("a_ﷺ", 1), ("a_ﷺb", 1)]));
    }
    assert_eq!(search("groß", 9).await, found(&[("größe", 1)]));
    assert_eq!(search("ust", 9).await, []);
    assert_eq!(search("_", 9).await, [], "no pattern");
}

async fn topics_are_ordered_by_activity_and_counted(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    assert!(ledger.topics(None, 9).await.unwrap().is_empty());
    write(&*ledger, 1, &["rust", "feeds"], Visibility::Public).await;
    write(&*ledger, 2, &["rust"], Visibility::Public).await;
    write(&*ledger, 3, &["日本"], Visibility::Public).await;
    let all = async || ledger.topics(None, 9).await.unwrap();
    assert_eq!(received(&all().await), [("日本", 1, 3), ("rust", 2, 2), ("feeds", 1, 1)]);
    write(&*ledger, 4, &["feeds", "feeds"], Visibility::Public).await;
    assert_eq!(received(&all().await), [("feeds", 2, 4), ("日本", 1, 3), ("rust", 2, 2)]);
    // With several nodes, posts may be stored out of the order of their ids.
    write(&*ledger, 0, &["feeds"], Visibility::Public).await;
    assert_eq!(received(&all().await)[0], ("feeds", 3, 4));
    delete(&*ledger, 4, "ann").await;
    delete(&*ledger, 3, "ann").await;
    assert_eq!(received(&all().await), [("rust", 2, 2), ("feeds", 2, 1)]);
    delete(&*ledger, 1, "ann").await;
    assert_eq!(received(&all().await), [("rust", 1, 2), ("feeds", 1, 0)]);
    assert_eq!(received(&ledger.topics(None, 1).await.unwrap()), [("rust", 1, 2)]);
}

async fn restricted_posts_create_no_topic(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    let secret = || Visibility::OnlyTo(vec![id("bo")]);
    let not_public = [Visibility::Followers, Visibility::Friends, secret(), Visibility::NotTo(vec![id("bo")])];
    for (number, visibility) in (1..).zip(not_public) {
        write(&*ledger, number, &["hidden", "shown"], visibility).await;
    }
    assert!(ledger.topics(None, 9).await.unwrap().is_empty());
    write(&*ledger, 9, &["shown"], Visibility::Public).await;
    write(&*ledger, 10, &["shown"], Visibility::Followers).await;
    let all = async || ledger.topics(None, 9).await.unwrap();
    assert_eq!(received(&all().await), [("shown", 1, 9)]);
    // Edits raise and lower the count and the latest activity.
    edit(&*ledger, 1, &["shown"], Visibility::Public).await;
    assert_eq!(received(&all().await), [("shown", 2, 9)]);
    edit(&*ledger, 9, &["shown"], secret()).await;
    assert_eq!(received(&all().await), [("shown", 1, 1)]);
    edit(&*ledger, 1, &["other"], Visibility::Public).await;
    assert_eq!(received(&all().await), [("other", 1, 1)]);
    delete(&*ledger, 10, "ann").await;
    delete(&*ledger, 1, "ann").await;
    assert!(all().await.is_empty());
}

async fn read_on(ledger: &dyn Ledger, before: &[Topic], limit: usize) -> Vec<Topic> {
    let last = before.last().expect("a topic");
    let cursor = TopicCursor { begun: before[0].last, last: last.last, name: last.name.clone() };
    ledger.topics(Some(cursor), limit).await.expect("a page")
}

async fn topic_pages_use_the_snapshot_of_the_first(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    // Topics b and c share their newest post.
    for (number, topics) in [(1, &["a"][..]), (2, &["b", "c"]), (3, &["d"]), (4, &["e"]), (5, &["f"])] {
        write(&*ledger, number, topics, Visibility::Public).await;
    }
    let mut seen = ledger.topics(None, 2).await.unwrap();
    assert_eq!(received(&seen), [("f", 1, 5), ("e", 1, 4)]);
    // A listed topic, two topics that are not yet listed, and a new topic become active.
    for (number, topic) in [(6, "f"), (7, "a"), (8, "new"), (9, "c")] {
        write(&*ledger, number, &[topic], Visibility::Public).await;
    }
    loop {
        let page = read_on(&*ledger, &seen, 2).await;
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(received(&seen), [("f", 1, 5), ("e", 1, 4), ("d", 1, 3), ("c", 2, 2), ("b", 1, 2), ("a", 2, 1)]);
}

async fn topics_match_a_model(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let names = ["a", "b", "c", "d"];
    let mut random = StdRng::seed_from_u64(5);
    // Post -> its topics, if it is public.
    let mut model: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    // A few posts in each unit of time that PostgreSQL indexes.
    for number in (1..=120_u64).map(|number| number << 22) {
        let topics: Vec<&str> = names.into_iter().filter(|_| random.random_bool(0.3)).collect();
        let public = random.random_bool(0.7);
        let visibility = || if public { Visibility::Public } else { Visibility::Followers };
        let shown = || if public { topics.clone() } else { Vec::new() };
        match random.random_range(0..4) {
            0 if !model.is_empty() => {
                let which = *model.keys().nth(random.random_range(0..model.len())).unwrap();
                delete(&*ledger, which, "ann").await;
                model.remove(&which);
            }
            1 if !model.is_empty() => {
                let which = *model.keys().nth(random.random_range(0..model.len())).unwrap();
                edit(&*ledger, which, &topics, visibility()).await;
                model.insert(which, shown());
            }
            _ => {
                write(&*ledger, number, &topics, visibility()).await;
                model.insert(number, shown());
            }
        }
        let mut expected: Vec<(&str, u64, u64)> = Vec::new();
        for name in names {
            let about: Vec<u64> =
                model.iter().filter(|(_, topics)| topics.contains(&name)).map(|(number, _)| *number).collect();
            expected.extend(about.last().map(|last| (name, about.len() as u64, *last)));
        }
        expected.sort_by_key(|(name, _, last)| std::cmp::Reverse((*last, *name)));
        assert_eq!(received(&ledger.topics(None, 9).await.unwrap()), expected, "after step {number}");
    }
}

/// An update that changes no indexed column leaves the indexes as they are (HOT).
#[tokio::test]
async fn a_topic_with_many_posts_leaves_the_indexes_alone() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    // 200 posts within two seconds.
    for number in 1..=200 {
        write(&*ledger, number << 15, &["news"], Visibility::Public).await;
    }
    ledger.close().await;
    let (updates, hot) = updates(server, &name, "topics", 199).await;
    assert!(hot * 100 >= updates * 95, "{hot} of {updates} updates");
}

async fn read_markers_move_forward_only(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert_eq!(ledger.read_marker(&id("ann")).await.unwrap(), PostId::ZERO);
    for (asked, stands) in [(5, 5), (9, 9), (7, 9), (0, 9), (9, 9), (10, 10)] {
        assert_eq!(ledger.mark_read(&id("ann"), PostId(asked), None).await.unwrap(), PostId(stands));
        assert_eq!(ledger.read_marker(&id("ann")).await.unwrap(), PostId(stands));
    }
    assert_eq!(ledger.read_marker(&id("bo")).await.unwrap(), PostId::ZERO);
}
