//! Compares the data under a post: threads, likes and favourites.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::check::{Verdict, get, ids, listed, marked, names, not_found, pages, same};
use crate::filters::FilterContext;
use crate::model::{Mark, Model, User};
use crate::server::Server;
use crate::threads::{self, REMOVAL_REASON};

/// Compares all threads, likes and favourites of a post.
pub(crate) async fn under(node: &Server, model: &Model, reader: User, id: u64, limit: usize) -> Verdict {
    let (likes, holders) = (format!("/posts/{id}/likes"), format!("/objects/post/{id}/favourites"));
    thread(node, model, reader, (id, None), limit).await?;
    if !model.finds(reader, id) {
        not_found(node, reader, &likes).await?;
        return not_found(node, reader, &holders).await;
    }
    for (path, mark) in [(&likes, Mark::Like), (&holders, Mark::Favourite)] {
        let items = pages(node, reader, path, limit).await?;
        same(&format!("{path} for {reader}"), &names(&items), &model.markers_of(reader, mark, id))?;
    }
    let (_, page) = get(node, reader, &holders).await;
    let count = json!(model.how_many(Mark::Favourite, id));
    same(&format!("the count of {holders}"), &page["count"], &count)?;
    let replied =
        model.comments.iter().filter(|(_, comment)| comment.post == id).filter_map(|(_, comment)| comment.reply_to);
    for parent in replied.collect::<BTreeSet<_>>() {
        thread(node, model, reader, (id, Some(parent)), limit).await?;
    }
    Ok(())
}

/// Compares a comment, and the thread that contains it, if the comment exists.
pub(crate) async fn around(node: &Server, model: &Model, reader: User, id: u64) -> Verdict {
    let Some(comment) = model.comments.get(&id) else { return Ok(()) };
    by_id(node, model, reader, id).await?;
    thread(node, model, reader, (comment.post, comment.reply_to), 50).await
}

/// Compares a comment that is requested by its id. Filters do not apply.
async fn by_id(node: &Server, model: &Model, reader: User, id: u64) -> Verdict {
    let path = format!("/comments/{id}");
    if !model.finds_thread(reader, id) {
        return not_found(node, reader, &path).await;
    }
    let (status, item) = get(node, reader, &path).await;
    same(&format!("{path} for {reader}"), &status, &200)?;
    said(model, reader, &item)?;
    same(&format!("the filters of comment {id} by its id"), &item["filtered"], &Value::Null)
}

/// Compares the comments on a post, or the replies to one of them.
async fn thread(
    node: &Server,
    model: &Model,
    reader: User,
    (post, parent): (u64, Option<u64>),
    limit: usize,
) -> Verdict {
    let path = threads::thread(post, parent);
    if !model.finds(reader, post) || parent.is_some_and(|id| !model.finds_thread(reader, id)) {
        return not_found(node, reader, &path).await;
    }
    let items = pages(node, reader, &path, limit).await?;
    listed(&format!("{path} for {reader}"), &ids(&items), &model.thread(reader, post, parent))?;
    items.iter().try_for_each(|item| {
        let id = item["id"].as_u64().expect("an id");
        marked(reader, item, &model.outcome_of_comment(reader, id, FilterContext::Comments).marks())?;
        said(model, reader, item)
    })
}

/// Compares a comment with the model: text (unless deleted, or removed and not by the reader), position and counts.
fn said(model: &Model, reader: User, item: &Value) -> Verdict {
    let id = item["id"].as_u64().expect("an id");
    let comment = &model.comments[&id];
    let is_removed_own = model.is_removed_own(reader, id);
    let is_empty = model.emptied.contains(&id) && !is_removed_own;
    let words = [json!(comment.author), json!(comment.text)].map(|word| if is_empty { Value::Null } else { word });
    same(&format!("comment {id} for {reader}"), &[&item["author"], &item["text"]], &words.each_ref())?;
    let reason = if is_removed_own { json!(REMOVAL_REASON) } else { Value::Null };
    same(&format!("why comment {id} was removed, for {reader}"), &item["removed"]["reason"], &reason)?;
    same(
        &format!("where comment {id} stands"),
        &[&item["post"], &item["reply_to"]],
        &[&json!(comment.post), &json!(comment.reply_to)],
    )?;
    let came = [model.how_many(Mark::CommentLike, id), model.replies(id)].map(|count| json!(count));
    same(&format!("the likes and replies of comment {id}"), &[&item["likes"], &item["replies"]], &came.each_ref())
}
