//! Compares lists of notifications.

use serde_json::{Value, json};

use crate::check::{MAX_COUNTED, Verdict, get, pages, same};
use crate::filters::{FilterContext, Outcome};
use crate::model::{Model, User};
use crate::notifications::ListedGroup;
use crate::server::Server;

/// The groups per page: so many that a page is full although most groups have nothing that their owner may see.
const LIMIT: usize = 50;

/// Compares the notifications of a reader: those of the application and of quotes, and the filters of all.
pub(crate) async fn notifications(node: &Server, model: &Model, reader: User) -> Verdict {
    let items = pages(node, reader, "/notifications", LIMIT).await?;
    let real: Vec<ListedGroup> = items.iter().filter_map(of_application).collect();
    same(&format!("what the application notified {reader} of"), &real, &model.app_notifications(reader))?;
    let quotes = items.iter().filter(|item| item["kind"] == "quote");
    let mut quotes: Vec<u64> = quotes.filter_map(|item| item["object"]["id"].as_u64()).collect();
    quotes.sort_unstable();
    same(&format!("the quotes that {reader} is notified of"), &quotes, &model.quote_notifications(reader))?;
    items.iter().filter(|item| item.get("object").is_some()).try_for_each(|item| filtered(model, reader, item))
}

/// Compares the number of unread notifications with their list.
pub(crate) async fn unread_notifications(node: &Server, reader: User) -> Verdict {
    let items = pages(node, reader, "/notifications", LIMIT).await?;
    let (_, page) = get(node, reader, "/notifications?limit=1").await;
    let unread = items.iter().filter(|item| item["read"] == false).count();
    same(&format!("the unread notifications of {reader}"), &page["unread"], &json!(unread.min(MAX_COUNTED)))
}

fn of_application(item: &Value) -> Option<ListedGroup> {
    let text = |name: &str| item[name].as_str().map(str::to_owned);
    let people = item["people"].as_array().into_iter().flatten();
    let filtered = item["filtered"].as_array().into_iter().flatten();
    Some(ListedGroup {
        kind: text("kind").filter(|kind| kind.starts_with("app."))?,
        key: text("key"),
        title: text("title").unwrap_or_default(),
        body: text("body").unwrap_or_default(),
        people: people.filter_map(|person| person["id"].as_str().map(str::to_owned)).collect(),
        count: item["count"].as_u64().unwrap_or(u64::MAX),
        filtered: filtered.filter_map(Value::as_u64).collect(),
        is_read: item["read"] == true,
    })
}

/// Checks that filters do not hide what a notification is about, and the marks of one with a single person. In others,
/// comments that are not named have marks, too.
fn filtered(model: &Model, reader: User, item: &Value) -> Verdict {
    let context = FilterContext::Notifications;
    let outcome_of = |kind: &Value, id: Option<u64>| match (kind.as_str(), id) {
        (Some("post"), Some(id)) => model.posts.get(&id).map(|post| model.outcome(reader, post, context)),
        (Some("comment"), Some(id)) if model.comments.contains_key(&id) => {
            Some(model.outcome_of_comment(reader, id, context))
        }
        _ => None,
    };
    let object = &item["object"];
    let comment = item["comment"].as_u64();
    let mut outcomes = vec![(object["type"].clone(), object["id"].as_u64())];
    outcomes.extend(comment.map(|id| (json!("comment"), Some(id))));
    let mut marks = Vec::new();
    for (kind, id) in outcomes {
        match outcome_of(&kind, id) {
            Some(Outcome::Shown(filters)) => marks.extend(filters),
            other => return Err(format!("{reader} is notified of {kind} {id:?}, which is {other:?}: {item}")),
        }
    }
    marks.sort_unstable();
    marks.dedup();
    let real: Vec<u64> = item["filtered"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let is_alone = item["count"] == 1;
    if is_alone || marks.iter().any(|mark| !real.contains(mark)) {
        same(&format!("the marks for {reader} of {item}"), &real, &marks)?;
    }
    Ok(())
}
