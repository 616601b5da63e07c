//! The rows that belong to one user: complete, in pages of any size, and without rows of other users.

use std::sync::Arc;

use feedline::ledger::{IdempotentWrite, Ledger, LikeBatch, PersonalData, WriteLease};
use feedline::model::{Comment, CommentId, ContentId, LikeChange, ObjectId, ObjectType, PostId, Restriction};
use serde_json::{Value, json};

use crate::support::{self, NOW, conformance, delete, follow, id, publish, users};

conformance! {
    every_kind_is_exported_in_pages_of_any_size
    numbers_of_different_lengths_are_exported_once
    deleted_rows_are_not_exported
}

type Any = Arc<dyn Ledger>;

/// Rows of a kind in pages of `limit`.
async fn rows(ledger: &dyn Ledger, user: &str, data: PersonalData, limit: usize) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = ledger.personal_rows(&id(user), data, &after, limit).await.expect("a page");
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        after = last.key.clone();
        for row in page {
            let json: Value = serde_json::from_str(&row.json).expect("JSON");
            assert_eq!(row.other, json["user"].as_str().map(id), "in lower case or as first written");
            all.push(json);
        }
    }
}

pub(crate) async fn comment(ledger: &dyn Ledger, number: u64, post: u64, author: &str, parent: Option<u64>) {
    let text = Some(format!("comment {number}"));
    let comment = Comment { post: PostId(post), text, ..support::comment(number, author, parent) };
    ledger.create_comment(&comment).await.expect("an answer");
}

/// Settles likes, given as pairs of user and object.
pub(crate) async fn like(ledger: &dyn Ledger, likes: &[(&str, ContentId)]) {
    let from = ledger.like_position(1).await.expect("a position");
    let change =
        |(user, object): &(&str, ContentId)| LikeChange { user: id(user), object: *object, liked: true, at: NOW };
    let changes = likes.iter().map(change).collect();
    let to = format!("{from}.");
    let batch = LikeBatch { partition: 1, from, to, changes, noted: 500, now: NOW, ..LikeBatch::default() };
    ledger.settle_likes(batch).await.expect("an answer").expect("it is applied");
}

/// Gives ann three rows of each kind, and bo some that concern ann.
async fn fill(ledger: &dyn Ledger) {
    users(ledger, &["ann", "bo", "cy", "dee"]).await;
    for number in [1, 2, 3] {
        publish(ledger, number, "ann").await;
        publish(ledger, 10 + number, "bo").await;
        comment(ledger, 100 + number, 11, "ann", (number > 1).then_some(101)).await;
        comment(ledger, 110 + number, 1, "bo", None).await;
    }
    let liked = [11, 12, 13].map(|post| ("ann", ContentId::Post(PostId(post))));
    let liked_comments = [111, 112, 113].map(|comment| ("ann", ContentId::Comment(CommentId(comment))));
    like(ledger, &[&liked[..], &liked_comments, &[("bo", ContentId::Post(PostId(1)))]].concat()).await;
    for (user, kind, object) in
        [("ann", "book", "a-b"), ("ann", "book", "c"), ("ann", "post", "12"), ("bo", "post", "1")]
    {
        let (kind, object) = (ObjectType::parse(kind).expect("a type"), ObjectId::parse(object).expect("an id"));
        ledger.add_favourite(&id(user), &kind, &object, NOW, 9, false).await.expect("an answer");
    }
    for other in ["bo", "cy", "dee"] {
        follow(ledger, &id("ann"), &id(other)).await;
        follow(ledger, &id(other), &id("ann")).await;
        ledger.enable_post_alerts(&id("ann"), &id(other), NOW, 9).await.expect("an answer");
    }
    for (barrier, target) in [(Restriction::Hide, "cy"), (Restriction::Mute, "bo"), (Restriction::Mute, "cy")] {
        ledger.restrict(barrier, &id("ann"), &id(target), NOW).await.expect("an answer");
    }
    for (user, post) in [("ann", 2), ("ann", 11), ("ann", 13), ("bo", 2)] {
        ledger.mute_conversation(&id(user), PostId(post), NOW).await.expect("an answer");
    }
    for key in ["a key", "b", "c"] {
        let write = IdempotentWrite { user: id("ann"), key: key.into(), operation: "posts.create", input: [7; 32] };
        let turn = WriteLease { now: NOW, until: NOW + 1, since: 0 };
        ledger.begin(&write, Some(PostId(5)), turn).await.expect("an answer");
    }
}

async fn every_kind_is_exported_in_pages_of_any_size(ledger: Any) {
    fill(&*ledger).await;
    let expected = [
        (PersonalData::PostLikes, json!([11, 12, 13].map(|post| json!({ "post": post, "at": NOW })))),
        (PersonalData::CommentLikes, json!([111, 112, 113].map(|it| json!({ "comment": it, "at": NOW })))),
        (
            PersonalData::Favourites,
            json!(
                [("book", "a-b"), ("book", "c"), ("post", "12")]
                    .map(|(kind, object)| { json!({ "type": kind, "id": object, "at": NOW }) })
            ),
        ),
        (PersonalData::Following, json!(["Bo", "Cy", "Dee"].map(|user| json!({ "user": user, "at": NOW })))),
        (PersonalData::Followers, json!(["Bo", "Cy", "Dee"].map(|user| json!({ "user": user })))),
        (
            PersonalData::Restrictions,
            json!(
                [("hide", "Cy"), ("mute", "Bo"), ("mute", "Cy")]
                    .map(|(kind, user)| { json!({ "kind": kind, "user": user, "at": NOW }) })
            ),
        ),
        (PersonalData::PostAlerts, json!(["Bo", "Cy", "Dee"].map(|user| json!({ "user": user, "at": NOW })))),
        (PersonalData::MutedConversations, json!([2, 11, 13].map(|post| json!({ "post": post, "at": NOW })))),
        (
            PersonalData::IdempotencyKeys,
            json!(["a key", "b", "c"].map(|key| json!({ "key": key, "operation": "posts.create", "at": NOW }))),
        ),
    ];
    for limit in [1, 2, 100] {
        for (data, expected) in &expected {
            assert_eq!(json!(rows(&*ledger, "ann", *data, limit).await), *expected, "{data:?}, {limit} a page");
        }
        let posts = rows(&*ledger, "ann", PersonalData::Posts, limit).await;
        assert_eq!(posts.iter().map(|post| post["id"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(posts.iter().all(|post| post["author"] == "Ann" && post["text"].is_string()));
        let comments = rows(&*ledger, "ann", PersonalData::Comments, limit).await;
        let shown = |it: &Value| (it["id"].as_u64(), it["post"].as_u64(), it["reply_to"].as_u64());
        let comments: Vec<_> = comments.iter().map(shown).collect();
        let expected =
            [(101, None), (102, Some(101)), (103, Some(101))].map(|(id, parent)| (Some(id), Some(11), parent));
        assert_eq!(comments, expected);
    }
    assert!(rows(&*ledger, "nobody", PersonalData::Posts, 9).await.is_empty());
}

async fn numbers_of_different_lengths_are_exported_once(ledger: Any) {
    users(&*ledger, &["ann"]).await;
    let mut likes = Vec::new();
    for number in 1..=12 {
        let name = format!("u{number}");
        users(&*ledger, &[&name]).await;
        publish(&*ledger, number, &name).await;
        follow(&*ledger, &id("ann"), &id(&name)).await;
        likes.push(("ann", ContentId::Post(PostId(number))));
    }
    like(&*ledger, &likes).await;
    for data in [PersonalData::PostLikes, PersonalData::Following] {
        for limit in [1, 5, 100] {
            assert_eq!(rows(&*ledger, "ann", data, limit).await.len(), 12, "{data:?}, {limit} a page");
        }
    }
}

async fn deleted_rows_are_not_exported(ledger: Any) {
    fill(&*ledger).await;
    delete(&*ledger, 2, "ann").await.expect("a job");
    // Comment 101 has replies, so its row stays without text; the row of 103 is deleted.
    for comment in [101, 103] {
        ledger.delete_comment(CommentId(comment), None, 0).await.expect("an answer").expect("it was there");
    }
    let ids = async |data| {
        let rows = rows(&*ledger, "ann", data, 1).await;
        rows.iter().map(|row| row["id"].as_u64().expect("an id")).collect::<Vec<_>>()
    };
    assert_eq!(ids(PersonalData::Posts).await, [1, 3]);
    assert_eq!(ids(PersonalData::Comments).await, [102]);
}
