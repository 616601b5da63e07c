//! Topics by their latest activity, and read markers.

use std::collections::BTreeMap;
use std::sync::Arc;

use feedline::ledger::{Ledger, Topic, TopicCursor};
use feedline::model::{PostId, Visibility};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{self, NOW, conformance, delete, id, post, store, users};

conformance! {
    the_latest_active_topic_is_first_and_counts_its_posts
    what_is_not_public_makes_no_topic
    a_list_is_told_as_it_stood_when_it_was_begun
    whatever_is_done_topics_agree_with_a_model
    a_read_marker_moves_forward_only
}

type Any = Arc<dyn Ledger>;

fn told(topics: &[Topic]) -> Vec<(&str, u64, u64)> {
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

async fn the_latest_active_topic_is_first_and_counts_its_posts(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    assert!(ledger.topics(None, 9).await.unwrap().is_empty());
    write(&*ledger, 1, &["rust", "feeds"], Visibility::Public).await;
    write(&*ledger, 2, &["rust"], Visibility::Public).await;
    write(&*ledger, 3, &["日本"], Visibility::Public).await;
    let all = async || ledger.topics(None, 9).await.unwrap();
    assert_eq!(told(&all().await), [("日本", 1, 3), ("rust", 2, 2), ("feeds", 1, 1)]);
    write(&*ledger, 4, &["feeds", "feeds"], Visibility::Public).await;
    assert_eq!(told(&all().await), [("feeds", 2, 4), ("日本", 1, 3), ("rust", 2, 2)]);
    // Ids of several nodes may come out of order.
    write(&*ledger, 0, &["feeds"], Visibility::Public).await;
    assert_eq!(told(&all().await)[0], ("feeds", 3, 4));
    delete(&*ledger, 4, "ann").await;
    delete(&*ledger, 3, "ann").await;
    assert_eq!(told(&all().await), [("rust", 2, 2), ("feeds", 2, 1)]);
    delete(&*ledger, 1, "ann").await;
    assert_eq!(told(&all().await), [("rust", 1, 2), ("feeds", 1, 0)]);
    assert_eq!(told(&ledger.topics(None, 1).await.unwrap()), [("rust", 1, 2)]);
}

async fn what_is_not_public_makes_no_topic(ledger: Any) {
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
    assert_eq!(told(&all().await), [("shown", 1, 9)]);
    // An edit lowers and raises.
    edit(&*ledger, 1, &["shown"], Visibility::Public).await;
    assert_eq!(told(&all().await), [("shown", 2, 9)]);
    edit(&*ledger, 9, &["shown"], secret()).await;
    assert_eq!(told(&all().await), [("shown", 1, 1)]);
    edit(&*ledger, 1, &["other"], Visibility::Public).await;
    assert_eq!(told(&all().await), [("other", 1, 1)]);
    delete(&*ledger, 10, "ann").await;
    delete(&*ledger, 1, "ann").await;
    assert!(all().await.is_empty());
}

async fn read_on(ledger: &dyn Ledger, before: &[Topic], limit: usize) -> Vec<Topic> {
    let last = before.last().expect("a topic");
    let cursor = TopicCursor { begun: before[0].last, last: last.last, name: last.name.clone() };
    ledger.topics(Some(cursor), limit).await.expect("a page")
}

async fn a_list_is_told_as_it_stood_when_it_was_begun(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    // Two of them share their newest post.
    for (number, topics) in [(1, &["a"][..]), (2, &["b", "c"]), (3, &["d"]), (4, &["e"]), (5, &["f"])] {
        write(&*ledger, number, topics, Visibility::Public).await;
    }
    let mut seen = ledger.topics(None, 2).await.unwrap();
    assert_eq!(told(&seen), [("f", 1, 5), ("e", 1, 4)]);
    // What was told, what was not yet, and what is new become active.
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
    assert_eq!(told(&seen), [("f", 1, 5), ("e", 1, 4), ("d", 1, 3), ("c", 2, 2), ("b", 1, 2), ("a", 2, 1)]);
}

async fn whatever_is_done_topics_agree_with_a_model(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let names = ["a", "b", "c", "d"];
    let mut dice = StdRng::seed_from_u64(5);
    // Post -> its topics, if it is public.
    let mut model: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for number in 1..=120_u64 {
        let topics: Vec<&str> = names.into_iter().filter(|_| dice.random_bool(0.3)).collect();
        let public = dice.random_bool(0.7);
        let visibility = || if public { Visibility::Public } else { Visibility::Followers };
        let shown = || if public { topics.clone() } else { Vec::new() };
        match dice.random_range(0..4) {
            0 if !model.is_empty() => {
                let which = *model.keys().nth(dice.random_range(0..model.len())).unwrap();
                delete(&*ledger, which, "ann").await;
                model.remove(&which);
            }
            1 if !model.is_empty() => {
                let which = *model.keys().nth(dice.random_range(0..model.len())).unwrap();
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
        assert_eq!(told(&ledger.topics(None, 9).await.unwrap()), expected, "after step {number}");
    }
}

async fn a_read_marker_moves_forward_only(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    assert_eq!(ledger.read_marker(&id("ann")).await.unwrap(), PostId::ZERO);
    for (asked, stands) in [(5, 5), (9, 9), (7, 9), (0, 9), (9, 9), (10, 10)] {
        assert_eq!(ledger.mark_read(&id("ann"), PostId(asked)).await.unwrap(), PostId(stands));
        assert_eq!(ledger.read_marker(&id("ann")).await.unwrap(), PostId(stands));
    }
    assert_eq!(ledger.read_marker(&id("bo")).await.unwrap(), PostId::ZERO);
}
