//! Compares the real servers with the model.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::actions::Act;
use crate::api::attempt;
use crate::comment_policy::policy;
use crate::comments::{around, under};
use crate::filters::FilterContext;
use crate::lists::{lists, logs, strangers};
use crate::marks::favourites;
use crate::model::{Edge, Mark, Model, Post, TOPICS, USERS, User, ViewContext};
use crate::muted::{filters, updates};
use crate::notified::{notifications, unread_notifications};
use crate::profiles::decided;
use crate::random::SeededRandom;
use crate::reports::reports;
use crate::server::{PATIENCE, Server};
use crate::threads::REMOVAL_REASON;
use crate::topic_follows::{brought, followed};
use crate::world::{Bounds, World};

/// The result of a comparison; an error describes the difference.
pub(crate) type Verdict = Result<(), String>;

/// How strictly a timeline must match the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exactness {
    /// The timeline is exactly the model's.
    All,
    /// The timeline has no surplus posts, and contains all posts that have arrived. Other posts may be missing.
    Arrived,
}

/// The largest number of unread posts or notifications that the server counts.
pub(crate) const MAX_COUNTED: usize = 100;

/// Sends a GET request. Retries temporary failures.
pub(crate) async fn get(node: &Server, user: User, path: &str) -> (u16, Value) {
    let until = Instant::now() + PATIENCE;
    loop {
        let (status, body) = attempt(node, user, "GET", path, &Value::Null).await;
        if !is_passing(status, &body) || Instant::now() > until {
            return (status, body);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a response is temporary: a store did not answer, another attempt is in progress, or there was no response.
pub(crate) fn is_passing(status: u16, body: &Value) -> bool {
    matches!(status, 0 | 429 | 503) || body["error"]["code"] == "in_progress"
}

/// Reads all pages of a list with its cursors. Every page but the last must have the requested length. The path may
/// have other query parameters.
pub(crate) async fn pages(node: &Server, user: User, path: &str, limit: usize) -> Result<Vec<Value>, String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    let and = if path.contains('?') { '&' } else { '?' };
    loop {
        let (status, mut page) = get(node, user, &format!("{path}{and}limit={limit}{cursor}")).await;
        let Value::Array(items) = page["items"].take() else {
            return Err(format!("{path} for {user}: {status} {page}"));
        };
        let (many, next) = (items.len(), page["next"].as_str());
        all.extend(items);
        match next {
            Some(_) if many != limit => return Err(format!("{path} for {user}: a page of {many}, not {limit}")),
            Some(next) => cursor = format!("&cursor={next}"),
            None if many > limit => return Err(format!("{path} for {user}: a page of {many}, not {limit}")),
            None => return Ok(all),
        }
    }
}

pub(crate) fn ids(items: &[Value]) -> Vec<u64> {
    items.iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, real: &T, model: &T) -> Verdict {
    if real == model { Ok(()) } else { Err(format!("{what} is {real:?}, not {model:?}")) }
}

/// Compares two lists. Reports only the differences, since lists of posts are long.
pub(crate) fn listed(what: &str, real: &[u64], model: &[u64]) -> Verdict {
    if real == model {
        return Ok(());
    }
    let without =
        |some: &[u64], others: &[u64]| -> Vec<u64> { some.iter().copied().filter(|id| !others.contains(id)).collect() };
    let (surplus, missing) = (without(real, model), without(model, real));
    Err(format!("{what}: {} items, not {}; has {surplus:?} besides, lacks {missing:?}", real.len(), model.len()))
}

/// Checks that a path returns 404 to a reader, because its user blocks them or its post is invisible to them.
pub(crate) async fn not_found(node: &Server, reader: User, path: &str) -> Verdict {
    same(&format!("{path} for {reader}"), &get(node, reader, path).await.0, &404)
}

/// Checks that a path is refused to a reader, because its user's account is locked.
async fn locked(node: &Server, reader: User, path: &str) -> Verdict {
    let (status, body) = get(node, reader, path).await;
    same(&format!("{path} for {reader}"), &(status, &body["error"]["code"]), &(403, &json!("locked")))
}

/// Compares an author's posts.
pub(crate) async fn profile(node: &Server, model: &Model, reader: User, author: User, limit: usize) -> Verdict {
    let path = format!("/users/{author}/posts");
    if model.may_read_user(reader, author) && model.is_locked_for(reader, author) {
        return locked(node, reader, &path).await;
    }
    if model.may_read_user(reader, author) {
        posts(node, model, reader, (&path, None), limit, &model.profile(reader, author)).await
    } else {
        not_found(node, reader, &path).await
    }
}

/// Compares a list of posts: the ids, their order, and the current content of each post. `context`: what filters of the
/// reader apply; `None`: none of them.
pub(crate) async fn posts(
    node: &Server,
    model: &Model,
    reader: User,
    (path, context): (&str, Option<FilterContext>),
    limit: usize,
    expected: &[u64],
) -> Verdict {
    let items = pages(node, reader, path, limit).await?;
    listed(&format!("{path} for {reader}"), &ids(&items), expected)?;
    items.iter().try_for_each(|item| as_listed(model, reader, item, context))
}

/// Compares the posts of a topic, or all public posts.
pub(crate) async fn discovery(
    node: &Server,
    model: &Model,
    reader: User,
    topic: Option<&str>,
    limit: usize,
) -> Verdict {
    let path = topic.map_or("/posts/explore".to_owned(), |topic| format!("/topics/{topic}/posts"));
    let expected = topic.map_or_else(|| model.explore(reader), |topic| model.topic(reader, topic));
    posts(node, model, reader, (&path, Some(FilterContext::Topics)), limit, &expected).await
}

/// Compares a post of a list with the model: what the reader sees of it, and the marks of filters.
pub(crate) fn as_listed(model: &Model, reader: User, item: &Value, context: Option<FilterContext>) -> Verdict {
    as_it_is(model, reader, item, context)?;
    let post = &model.posts[&item["id"].as_u64().expect("an id")];
    brought(model, reader, item, context)?;
    let marks = context.map(|context| model.outcome(reader, post, context).marks());
    marked(reader, item, &marks.unwrap_or_default())
}

/// Compares the filters that mark an item.
pub(crate) fn marked(reader: User, item: &Value, expected: &[u64]) -> Verdict {
    let marks = if expected.is_empty() { Value::Null } else { json!(expected) };
    same(&format!("the marks of {} for {reader}", item["id"]), &item["filtered"], &marks)
}

/// Compares a post with the model as this reader sees it: content, counts and flags.
fn as_it_is(model: &Model, reader: User, item: &Value, context: Option<FilterContext>) -> Verdict {
    let id = item["id"].as_u64().expect("an id");
    let Some(post) = model.posts.get(&id) else { return Err(format!("{id} does not exist")) };
    same(&format!("post {id}"), &(&item["text"], &item["author"]), &(&json!(post.text), &json!(post.author)))?;
    let counts = ["likes", "comments", "favourites"].map(|of| item[of].as_u64().and_then(|n| usize::try_from(n).ok()));
    same(&format!("the likes, comments and favourites of {id}"), &counts, &model.counts(id).map(Some))?;
    let counts = ["reposts", "quotes"].map(|of| item[of].as_u64().and_then(|n| usize::try_from(n).ok()));
    same(&format!("the reposts and quotes of {id}"), &counts, &model.named_counts(id).map(Some))?;
    let reason = (post.is_removed && post.author == reader).then_some(REMOVAL_REASON);
    same(&format!("why {id} was removed, for {reader}"), &item["removed"]["reason"].as_str(), &reason)?;
    named(model, reader, item, post, context)?;
    policy(model, reader, item, post)?;
    let flags = ["liked", "favourited"].map(|flag| &item[flag]);
    let expected = [Mark::Like, Mark::Favourite].map(|mark| json!(model.marked(mark, reader, id)));
    same(&format!("what {reader} made of {id}"), &flags, &expected.each_ref())
}

/// Compares the posts that a post names.
fn named(model: &Model, reader: User, item: &Value, post: &Post, context: Option<FilterContext>) -> Verdict {
    let id = &item["id"];
    let repost = item["repost"]["id"].as_u64();
    same(&format!("what {id} reposts"), &repost, &post.repost)?;
    if repost.is_some() {
        as_it_is(model, reader, &item["repost"], context)?;
        marked(reader, &item["repost"], &[])?;
    }
    quoted(model, reader, item, post, context)
}

/// Compares the post that a post quotes.
pub(crate) fn quoted(
    model: &Model,
    reader: User,
    item: &Value,
    post: &Post,
    context: Option<FilterContext>,
) -> Verdict {
    let id = &item["id"];
    let is_shown = |quoted: &Post| {
        model.may_see(reader, quoted, ViewContext::Listed) && !model.hides_quoted(reader, quoted, context)
    };
    let is_seen = |quoted: &u64| model.posts.get(quoted).is_some_and(is_shown);
    let state = post.quote.map(|quoted| match quoted {
        _ if post.is_detached => "detached",
        quoted if is_seen(&quoted) => "shown",
        _ => "unavailable",
    });
    let quote = (item["quote"]["id"].as_u64(), item["quote"]["state"].as_str());
    same(&format!("what {id} quotes, for {reader}"), &quote, &(post.quote, state))?;
    let shown = item["quote"]["post"]["id"].as_u64();
    same(&format!("the quoted post of {id}"), &shown, &post.attached().filter(is_seen))
}

/// The ids of the items of a list.
pub(crate) fn names(items: &[Value]) -> Vec<&str> {
    items.iter().filter_map(|item| item["id"].as_str()).collect()
}

pub(crate) async fn timeline(node: &Server, model: &Model, reader: User, limit: usize, exact: Exactness) -> Verdict {
    let shown = model.timeline(reader);
    if exact == Exactness::All {
        return posts(node, model, reader, ("/timeline", Some(FilterContext::Home)), limit, &shown).await;
    }
    let items = pages(node, reader, "/timeline", limit).await?;
    let read = ids(&items);
    if !read.is_sorted_by(|a, b| a > b) {
        return Err(format!("the timeline of {reader} is out of order, or has one twice: {read:?}"));
    }
    let leaked: Vec<_> = read.iter().filter(|id| !shown.contains(id)).collect();
    let lost: Vec<_> = model.arrived(reader).into_iter().filter(|id| !read.contains(id)).collect();
    if !leaked.is_empty() || !lost.is_empty() {
        return Err(format!("the timeline of {reader}: must not show {leaked:?}, lacks {lost:?}"));
    }
    items.iter().try_for_each(|item| as_listed(model, reader, item, Some(FilterContext::Home)))
}

/// Compares the number of unread posts, of a reader who has marked none.
async fn unread(node: &Server, model: &Model, reader: User) -> Verdict {
    let (_, page) = get(node, reader, "/timeline?limit=1").await;
    let others = model.timeline(reader).into_iter().filter(|id| model.posts[id].author != reader).count();
    same(&format!("the unread posts of {reader}"), &page["read"]["unread"], &json!(others.min(MAX_COUNTED)))
}

pub(crate) async fn post(node: &Server, model: &Model, reader: User, id: u64) -> Verdict {
    let (status, body) = get(node, reader, &format!("/posts/{id}")).await;
    match model.finds(reader, id) {
        true if status == 200 => as_listed(model, reader, &body, None),
        false if status == 404 => Ok(()),
        finds => Err(format!("post {id} for {reader}: {status} {body}; is it for them: {finds}")),
    }
}

/// Compares a profile's counts and its relation to the reader.
pub(crate) async fn person(node: &Server, model: &Model, reader: User, user: User) -> Verdict {
    let path = format!("/users/{user}");
    if !model.may_read_user(reader, user) {
        return not_found(node, reader, &path).await;
    }
    let (status, body) = get(node, reader, &path).await;
    let (following, followers) = (model.those(Edge::Follow, user).len(), model.those_to(Edge::Follow, user).len());
    let real = (status, &body["following"], &body["followers"]);
    same(&format!("{user} for {reader}"), &real, &(200, &json!(following), &json!(followers)))?;
    let edges = (&body["edges"]["following"], &body["edges"]["followed_by"]);
    let expected = [(reader, user), (user, reader)].map(|(from, to)| json!(model.has(Edge::Follow, from, to)));
    same(&format!("what is between {reader} and {user}"), &edges, &(&expected[0], &expected[1]))?;
    decided(model, reader, user, &body)?;
    let locks = &model.locks;
    same(&format!("the lock of {user}"), &body["locked"], &json!(locks.locked.contains(user)))?;
    let edges = (&body["edges"]["requested"], &body["edges"]["requested_by"]);
    let expected = (&json!(locks.is_open(reader, user)), &json!(locks.is_shown(user, reader)));
    same(&format!("what {reader} and {user} ask of each other"), &edges, &expected)?;
    if reader != user {
        let edges = ["hiding", "muting", "blocking", "reposts_off"].map(|name| &body["edges"][name]);
        let expected =
            [Edge::Hide, Edge::Mute, Edge::Block, Edge::RepostsOff].map(|edge| json!(model.has(edge, reader, user)));
        same(&format!("what {reader} put between them and {user}"), &edges, &expected.each_ref())?;
    }
    same(&format!("the posts of {user}"), &body["posts"], &json!(model.written(reader, user)))
}

/// Compares a user's followers or followees, latest first.
async fn people(node: &Server, model: &Model, reader: User, user: User, list: &str, limit: usize) -> Verdict {
    let path = format!("/users/{user}/{list}");
    if !model.may_read_user(reader, user) {
        return not_found(node, reader, &path).await;
    }
    if model.is_locked_for(reader, user) {
        return locked(node, reader, &path).await;
    }
    let all = if list == "followers" { model.those_to(Edge::Follow, user) } else { model.those(Edge::Follow, user) };
    let items = pages(node, reader, &path, limit).await?;
    let real: Vec<&str> = items.iter().filter_map(|item| item["id"].as_str()).collect();
    same(&format!("{path} for {reader}"), &real, &model.without_blocked(reader, all))
}

/// Compares the requests to a user, and those by the user.
async fn requests(node: &Server, model: &Model, user: User, limit: usize) -> Verdict {
    for (list, all) in [("requests", model.locks.shown_to(user)), ("requested", model.locks.asked_by(user))] {
        let path = format!("/users/me/{list}");
        let items = pages(node, user, &path, limit).await?;
        same(&format!("{path} for {user}"), &names(&items), &model.without_blocked(user, all))?;
    }
    Ok(())
}

/// Makes one random comparison of data that must be consistent as soon as a write is acknowledged.
pub(crate) async fn look(world: &World, model: &Model, random: &mut SeededRandom) -> Verdict {
    let (node, reader, user) = (world.home(), *random.pick(&USERS), *random.pick(&USERS));
    let limit = *random.pick(&[1, 3, 7, 20, 50]);
    match random.below(20) {
        17 => lists(node, model, reader, limit.max(7)).await,
        19 => followed(node, model, reader).await,
        18 => strangers(node, model, reader).await,
        13 => notifications(node, model, reader).await,
        14 => filters(node, model, reader).await,
        15 => updates(node, model, reader).await,
        16 => discovery(node, model, reader, None, limit.max(7)).await,
        12 => requests(node, model, reader, limit).await,
        8..11 => {
            let all: Vec<u64> = model.posts.keys().rev().take(12).copied().collect();
            if all.is_empty() { Ok(()) } else { under(node, model, reader, *random.pick(&all), limit).await }
        }
        11 => favourites(node, model, reader, limit).await,
        0..3 => timeline(node, model, reader, limit.max(7), Exactness::Arrived).await,
        3 => profile(node, model, reader, user, limit).await,
        4 => {
            let topic = *random.pick(&TOPICS);
            discovery(node, model, reader, Some(topic), limit).await
        }
        5 => person(node, model, reader, user).await,
        6 => people(node, model, reader, user, ["followers", "following"][random.below(2)], limit).await,
        _ => {
            let all: Vec<u64> = model.posts.keys().chain(&model.deleted).copied().collect();
            if all.is_empty() { Ok(()) } else { post(node, model, reader, *random.pick(&all)).await }
        }
    }
}

/// Compares the data that an action changes immediately: its post, or the profiles of both users and the actor's
/// timeline.
pub(crate) async fn about(node: &Server, model: &Model, act: &Act, reader: User) -> Verdict {
    if let Act::Set { from, to, .. } | Act::MuteBriefly { from, to } = act {
        profile(node, model, to, from, 20).await?;
        profile(node, model, from, to, 20).await?;
        return timeline(node, model, from, 20, Exactness::Arrived).await;
    }
    if let Act::Answer { by, from, .. } | Act::RemoveFollower { by, from } = act {
        profile(node, model, from, by, 20).await?;
        person(node, model, from, by).await?;
        return timeline(node, model, from, 20, Exactness::Arrived).await;
    }
    if let Act::Report(_) | Act::CloseReport { .. } = act {
        return reports(node, model).await;
    }
    if let Act::Suspend { user, .. } | Act::SuspendBriefly { user } | Act::Limit { user } | Act::Lock { user, .. } = act
    {
        profile(node, model, reader, user, 20).await?;
        return timeline(node, model, reader, 20, Exactness::Arrived).await;
    }
    if let Act::SetQuotable { by, .. } | Act::Pin { by, .. } = act {
        return person(node, model, reader, by).await;
    }
    if let Act::DetachAll { user, .. } = act {
        return profile(node, model, reader, user, 20).await;
    }
    if act.is_of_filter() {
        return about_filters(node, model, act.by()).await;
    }
    if act.is_of_list() {
        lists(node, model, act.by(), 20).await?;
        followed(node, model, act.by()).await?;
        return timeline(node, model, act.by(), 20, Exactness::Arrived).await;
    }
    if let Act::Notify(sent) = act {
        for reader in &sent.to {
            notifications(node, model, reader).await?;
        }
    }
    if let Act::Repost { by, .. } = act {
        profile(node, model, reader, by, 20).await?;
        timeline(node, model, by, 20, Exactness::Arrived).await?;
    }
    if let Act::RemoveComment { id, .. } = act {
        around(node, model, reader, *id).await?;
    }
    match act.post() {
        Some(id) => post(node, model, reader, id).await,
        None => Ok(()),
    }
}

/// Compares what the filters of a user change.
async fn about_filters(node: &Server, model: &Model, reader: User) -> Verdict {
    filters(node, model, reader).await?;
    timeline(node, model, reader, 20, Exactness::Arrived).await?;
    updates(node, model, reader).await?;
    for topic in TOPICS.map(Some).into_iter().chain([None]) {
        discovery(node, model, reader, topic, 20).await?;
    }
    notifications(node, model, reader).await
}

/// Compares all data at every node. The readers vary with `time`.
pub(crate) async fn everything(world: &World, model: &Model, time: usize) -> Verdict {
    let somebody = |number: usize| USERS[(number + time) % USERS.len()];
    for node in &world.nodes {
        reports(node, model).await?;
        for reader in USERS {
            timeline(node, model, reader, 17, Exactness::All).await?;
            person(node, model, somebody(0), reader).await?;
            requests(node, model, reader, 2).await?;
            filters(node, model, reader).await?;
            lists(node, model, reader, 17).await?;
            followed(node, model, reader).await?;
            updates(node, model, reader).await?;
            notifications(node, model, reader).await?;
            unread_notifications(node, reader).await?;
            if world.bounds == Bounds::Wide {
                // They are of the inbox alone.
                unread(node, model, reader).await?;
                logs(node, model, reader).await?;
            }
            profile(node, model, somebody(1), reader, 17).await?;
            for list in ["followers", "following"] {
                people(node, model, reader, reader, list, 2).await?;
                people(node, model, somebody(4), reader, list, 2).await?;
            }
        }
        for topic in TOPICS {
            discovery(node, model, somebody(2), Some(topic), 17).await?;
        }
        discovery(node, model, somebody(5), None, 17).await?;
        for id in &model.deleted {
            post(node, model, somebody(3), *id).await?;
        }
        for user in USERS {
            favourites(node, model, user, 5).await?;
        }
        for (number, id) in model.posts.keys().filter(|id| model.has_under(**id)).enumerate() {
            under(node, model, somebody(number), *id, 2).await?;
        }
    }
    Ok(())
}

/// Ids of posts, each with the user whose socket or timeline they concern.
type PostsOfUsers = BTreeSet<(User, u64)>;

/// Compares the pushes of a reader's socket, and the view built from them, with the model. Of reposts that were hidden
/// once, and posts that filters hide or show since a change of another post, only pages say what they are.
pub(crate) async fn socket(
    world: &World,
    model: &Model,
    user: User,
    (ever, untold): (&PostsOfUsers, &PostsOfUsers),
    patience: Duration,
) -> Verdict {
    let reader = world.reader(user);
    if reader.is_going() && world.bounds == Bounds::Wide {
        let uncertain = untold.iter().filter(|(by, _)| *by == user).map(|(_, id)| *id).collect();
        reader.sees_but(&model.timeline(user).into_iter().collect(), &uncertain, patience).await?;
    }
    let (wrong, received) = reader.look(|view| (std::mem::take(&mut view.wrong), view.received.clone()));
    same(&format!("what went wrong at the socket of {user}"), &wrong, &Vec::new())?;
    let never = received.iter().filter(|(_, kind, id)| kind == "post" && !ever.contains(&(user, *id)));
    let never: Vec<_> = never.collect();
    same(&format!("what {user} received and must never get"), &never, &Vec::new())
}
