//! Muted conversations: kept once, flagged for their user only, exported and erased.

use std::collections::HashSet;
use std::sync::Arc;

use feedline::ledger::{Ledger, PersonalData};
use feedline::model::{PostFlags, PostId, UserId};
use serde_json::{Value, json};

use crate::support::{NOW, conformance, delete, id, publish, users};

conformance! {
    conversations_are_muted_once
    muted_conversations_are_flags_of_their_user
    muted_conversations_are_erased_with_their_user_and_post
}

type Any = Arc<dyn Ledger>;

/// Mutes as pairs of a user and a post.
async fn muted(ledger: &dyn Ledger, pairs: &[(&str, u64)]) -> HashSet<(String, u64)> {
    let pairs: Vec<(UserId, PostId)> = pairs.iter().map(|(user, post)| (id(user), PostId(*post))).collect();
    let found = ledger.muted_conversations(&pairs).await.expect("an answer");
    found.into_iter().map(|(user, post)| (user.to_string(), post.0)).collect()
}

async fn exported(ledger: &dyn Ledger, user: &str) -> Value {
    let rows = ledger.personal_rows(&id(user), PersonalData::MutedConversations, "", 9).await.expect("rows");
    rows.iter().map(|row| serde_json::from_str(&row.json).expect("JSON")).collect::<Vec<Value>>().into()
}

async fn conversations_are_muted_once(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for (user, post, at) in [("ann", 1, 0), ("ann", 1, 5), ("ann", 2, 1), ("bo", 2, 2)] {
        ledger.mute_conversation(&id(user), PostId(post), NOW + at).await.expect("an answer");
    }
    let asked = [("ann", 1), ("bo", 1), ("ann", 2), ("bo", 2), ("ann", 3), ("nobody", 1), ("ann", u64::MAX >> 1)];
    let before = ledger.round_trips();
    let expected = [("ann".to_owned(), 1), ("ann".to_owned(), 2), ("bo".to_owned(), 2)];
    assert_eq!(muted(&*ledger, &asked).await, HashSet::from(expected));
    assert_eq!(ledger.round_trips() - before, 1);
    let rows = json!([{ "post": 1, "at": NOW }, { "post": 2, "at": NOW + 1 }]);
    assert_eq!(exported(&*ledger, "ann").await, rows, "the first time is kept");
    for was_muted in [true, false] {
        assert_eq!(ledger.unmute_conversation(&id("ann"), PostId(2)).await.expect("an answer"), was_muted);
    }
    let expected = [("ann".to_owned(), 1), ("bo".to_owned(), 2)];
    assert_eq!(muted(&*ledger, &asked).await, HashSet::from(expected));
    assert!(muted(&*ledger, &[]).await.is_empty());
}

async fn muted_conversations_are_flags_of_their_user(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for number in [1, 2] {
        publish(&*ledger, number, "ann").await;
    }
    ledger.mute_conversation(&id("bo"), PostId(2), NOW).await.expect("an answer");
    let flags =
        async |user: &str| ledger.hydrate(Some(&id(user)), &[PostId(1), PostId(2)], &[]).await.expect("a page").flags;
    assert_eq!(flags("bo").await, [(PostId(2), PostFlags { muted: true, ..PostFlags::default() })]);
    assert_eq!(flags("ann").await, []);
    ledger.unmute_conversation(&id("bo"), PostId(2)).await.expect("an answer");
    assert_eq!(flags("bo").await, []);
}

async fn muted_conversations_are_erased_with_their_user_and_post(ledger: Any) {
    users(&*ledger, &["ann", "bo"]).await;
    for number in 1..=5 {
        publish(&*ledger, number, "ann").await;
        for user in ["ann", "bo"] {
            ledger.mute_conversation(&id(user), PostId(number), NOW).await.expect("an answer");
        }
    }
    assert_eq!(ledger.erase_rest(&id("bo"), 3).await.expect("an answer"), 3, "in bounded steps");
    assert_eq!(ledger.erase_rest(&id("bo"), 3).await.expect("an answer"), 2);
    assert_eq!(exported(&*ledger, "bo").await, json!([]));
    delete(&*ledger, 1, "ann").await.expect("a job");
    // The post and the mute.
    assert_eq!(ledger.erase_deleted_posts(&id("ann"), NOW, 9).await.expect("an answer"), 2);
    assert_eq!(exported(&*ledger, "ann").await.as_array().map(Vec::len), Some(4), "those of other posts stay");
}
