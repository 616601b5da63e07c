//! Compares filters, and what recoveries of a timeline show with them.

use serde_json::{Value, json};

use crate::check::{Verdict, get, marked, quoted, same};
use crate::filters::{self, FilterContext};
use crate::model::{Model, User};
use crate::server::Server;

/// The updates of a timeline that are compared.
const MAX_UPDATES: u64 = 60;

/// Compares the filters of a user.
pub(crate) async fn filters(node: &Server, model: &Model, owner: User) -> Verdict {
    let (_, page) = get(node, owner, "/filters").await;
    let real = page["items"].as_array().ok_or_else(|| format!("the filters of {owner}: {page}"))?;
    let real: Vec<[&Value; 5]> =
        real.iter().map(|item| ["id", "words", "action", "in", "whole_word"].map(|name| &item[name])).collect();
    let expected = model.filters_of(owner).into_iter().map(|id| {
        let filter = &model.filters[&id];
        let action = filters::action(filter.hides);
        [json!(id), json!(filter.words), json!(action), filters::names(&filter.contexts), json!(filter.is_whole)]
    });
    let expected: Vec<[Value; 5]> = expected.collect();
    same(&format!("the filters of {owner}"), &real, &expected.iter().map(|filter| filter.each_ref()).collect())
}

/// Compares the last updates of a timeline, which are rendered now: they have the current filters of the reader.
pub(crate) async fn updates(node: &Server, model: &Model, reader: User) -> Verdict {
    let (status, page) = get(node, reader, "/timeline?limit=1").await;
    let position = &page["position"];
    let (Some(offset), Some(epoch)) = (position["offset"].as_u64(), position["epoch"].as_str()) else {
        return Err(format!("the timeline of {reader}: {status} {page}"));
    };
    let since = offset.saturating_sub(MAX_UPDATES);
    let (_, page) = get(node, reader, &format!("/timeline/updates?offset={since}&epoch={epoch}")).await;
    let items = page["items"].as_array().ok_or_else(|| format!("the updates of {reader}: {page}"))?;
    items.iter().try_for_each(|item| update(model, reader, &item["data"]))
}

fn update(model: &Model, reader: User, data: &Value) -> Verdict {
    let kind = data["type"].as_str().unwrap_or_default();
    let what = format!("an update of {reader}: {data}");
    let is_filtered =
        |id: u64| model.posts.get(&id).is_some_and(|post| model.is_filtered(reader, post, FilterContext::Home));
    match (kind, data["post"]["id"].as_u64().or(data["repost"].as_u64()).or(data["id"].as_u64())) {
        ("post" | "edited", Some(id)) if model.shows(reader, id) => {
            let item = &data["post"];
            let post = &model.posts[&id];
            marked(reader, item, &model.outcome(reader, post, FilterContext::Home).marks())?;
            let quoting = post.repost.map_or((item, post), |reposted| (&item["repost"], &model.posts[&reposted]));
            quoted(model, reader, quoting.0, quoting.1, Some(FilterContext::Home))
        }
        ("gone", Some(id)) if data["reason"] == "filtered" => same(&what, &is_filtered(id), &true),
        ("reposted", Some(id)) => same(&what, &is_filtered(id), &false),
        ("post" | "edited", Some(_)) => Err(format!("{what} is not for them")),
        _ => Ok(()),
    }
}
