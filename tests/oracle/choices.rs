//! The random choice of the next user action. It depends only on the model.

use std::collections::BTreeSet;

use crate::actions::Act;
use crate::comment_policy::CommentPolicy;
use crate::filters::{Filter, FilterChange, FilterContext, WORDS};
use crate::lists::{List, Member};
use crate::model::{Comment, Edge, Mark, Model, Post, TOPICS, USERS, User, Visibility};
use crate::notifications::AppNotification;
use crate::profiles::{MAX_PINNED, Quotable};
use crate::random::SeededRandom;
use crate::reports::{ACTIONS, REASONS, Report, Reported};

/// The filters of a user: few, so that much is shown.
const MAX_FILTERS: usize = 3;

/// The lists of a user.
const MAX_LISTS: usize = 3;

/// Chooses the next user action.
pub(crate) fn choose(random: &mut SeededRandom, model: &Model, number: usize) -> Act {
    let by = *random.pick(&USERS);
    let chosen = match random.below(82) {
        0..2 => one_of_whom(random, model, by).map(|id| Act::Delete { by, id }),
        2 => one_of_whom(random, model, by).map(|id| {
            let visibility = (random.below(2) == 0).then(|| some_visibility(random));
            let policy = (random.below(4) == 0).then(|| *random.pick(&CommentPolicy::ALL));
            let text = some_text(random, &format!("edit {number}"));
            let text = with_mention(random, text, policy.unwrap_or(CommentPolicy::Everyone));
            Act::Edit { by, id, text, visibility, comment_policy: policy }
        }),
        3..8 => {
            // Often follow back: many rules depend on mutual follows.
            let to = other_of(random, by, &model.those_to(Edge::Follow, by));
            // Sometimes repeat the current state.
            let on = model.has(Edge::Follow, by, to) == (random.below(10) == 0);
            Some(Act::Set { edge: Edge::Follow, from: by, to, on })
        }
        8..11 => {
            // Often choose a user with whom a follow exists in either direction.
            let near = [model.those(Edge::Follow, by), model.those_to(Edge::Follow, by)].concat();
            let (to, edge) = (other_of(random, by, &near), *random.pick(&[Edge::Hide, Edge::Mute, Edge::Block]));
            // End these edges more often than they are made. Otherwise most users would soon be invisible to each
            // other.
            let on = !model.has(edge, by, to) && random.below(3) > 0;
            Some(Act::Set { edge, from: by, to, on })
        }
        20..25 => comment(random, model, by, number),
        25..27 => uncomment(random, model, by),
        27..33 => {
            let mark = *random.pick(&[Mark::Like, Mark::Favourite]);
            any_post(random, model).and_then(|id| mark_or_not(random, model, mark, by, (id, id)))
        }
        33..36 => any_comment(random, model)
            .and_then(|(id, comment)| mark_or_not(random, model, Mark::CommentLike, by, (id, comment.post))),
        36 => Some(match model.suspended.first() {
            // Mostly one at a time, and not for long.
            Some(user) if random.below(4) > 0 => Act::Suspend { user, on: false },
            _ => Act::Suspend { user: by, on: true },
        }),
        69 => Some(match model.limited.first() {
            Some(user) if random.below(3) > 0 => Act::Suspend { user, on: false },
            _ => Act::Limit { user: by },
        }),
        70 => {
            let quotes = model.posts.iter().filter_map(|(id, post)| Some((*id, model.posts.get(&post.quote?)?.author)));
            let quotes: Vec<(u64, User)> = quotes.collect();
            (!quotes.is_empty()).then(|| {
                let (id, by) = *random.pick(&quotes);
                Act::Detach { by, id }
            })
        }
        71 => {
            // Mostly of a user who quoted the other one.
            let quotes =
                model.posts.values().filter_map(|post| Some((post.author, model.posts.get(&post.quote?)?.author)));
            let quotes: Vec<(User, User)> = quotes.collect();
            let anybody = *random.pick(&USERS);
            Some(if quotes.is_empty() || random.below(4) == 0 {
                Act::DetachAll { by, user: anybody }
            } else {
                let (user, by) = *random.pick(&quotes);
                Act::DetachAll { by, user }
            })
        }
        72..75 => remove_comment(random, model),
        75..77 => {
            // Often everyone. Otherwise there would be few quotes.
            let all = [Quotable::Everyone, Quotable::Everyone, Quotable::Followers, Quotable::Nobody];
            Some(Act::SetQuotable { by, quotable: *random.pick(&all) })
        }
        77..79 => Some(pin(random, model, by)),
        79..81 => report(random, model, by),
        81 => brief(random, model, by),
        37..39 => {
            let removed: Vec<u64> = model.posts.iter().filter(|(_, post)| post.is_removed).map(|(id, _)| *id).collect();
            match one_of(random, &removed) {
                Some(id) if random.below(3) > 0 => Some(Act::Remove { id, on: false }),
                _ => any_post(random, model).map(|id| Act::Remove { id, on: true }),
            }
        }
        39 => Some(Act::Lock { user: by, on: !model.locks.locked.contains(by) }),
        40..43 => answer(random, model, by),
        43..47 => any_post(random, model).map(|id| {
            let is_narrow = random.below(5) == 0;
            Act::Repost { by, id, on: true, is_narrow }
        }),
        47 => {
            // Mostly one of the user's own.
            let mine = model.posts.iter().filter(|(_, post)| post.author == by && post.repost.is_some());
            let mine: Vec<u64> = mine.map(|(id, _)| *id).collect();
            one_of(random, &mine).or_else(|| any_post(random, model)).map(|id| Act::Repost {
                by,
                id,
                on: false,
                is_narrow: false,
            })
        }
        48 => {
            let to = other_of(random, by, &model.those(Edge::Follow, by));
            Some(Act::Set { edge: Edge::RepostsOff, from: by, to, on: !model.has(Edge::RepostsOff, by, to) })
        }
        49..51 => any_post(random, model).map(|id| {
            let visibility = some_visibility(random);
            let text = some_text(random, &format!("quote {number} by {by}"));
            let comment_policy = some_policy(random);
            let text = with_mention(random, text, comment_policy);
            Act::Publish(Post { quote: Some(id), comment_policy, ..Post::new(by, text, visibility) })
        }),
        51..56 => {
            // Mostly of a user whose timeline has posts of others.
            let readers: Vec<User> =
                USERS.into_iter().filter(|user| !model.those(Edge::Follow, user).is_empty()).collect();
            let by = if readers.is_empty() || random.below(4) == 0 { by } else { *random.pick(&readers) };
            Some(filter(random, model, by, number))
        }
        56..60 => Some(Act::Notify(notification(random, number))),
        60..66 => Some(list(random, model, by, number)),
        66..69 => {
            let topic = *random.pick(&TOPICS);
            // Sometimes repeat the current state.
            let on = model.follows_topic(by, topic) == (random.below(8) == 0);
            Some(Act::FollowTopic { by, topic, on })
        }
        _ => None,
    };
    chosen.unwrap_or_else(|| {
        let visibility = some_visibility(random);
        let topic = (random.below(3) == 0).then(|| *random.pick(&TOPICS));
        let text = some_text(random, &format!("post {number} of {by}"));
        let comment_policy = some_policy(random);
        let text = with_mention(random, text, comment_policy);
        Act::Publish(Post { topic, comment_policy, ..Post::new(by, text, visibility) })
    })
}

/// Who may comment: mostly everyone, so that threads grow.
fn some_policy(random: &mut SeededRandom) -> CommentPolicy {
    if random.below(5) == 0 { *random.pick(&CommentPolicy::ALL) } else { CommentPolicy::Everyone }
}

/// Adds a mention to a text, in most cases, if those who are mentioned may comment.
fn with_mention(random: &mut SeededRandom, text: String, policy: CommentPolicy) -> String {
    if policy == CommentPolicy::Mentioned && random.below(4) > 0 {
        format!("{text} @{}", random.pick(&USERS))
    } else {
        text
    }
}

/// Chooses the first posts of a profile; rarely not the user's own ones, or one twice.
fn pin(random: &mut SeededRandom, model: &Model, by: User) -> Act {
    let is_own = random.below(8) > 0;
    let mut from: Vec<u64> =
        model.posts.iter().filter(|(_, post)| !is_own || post.author == by).map(|(id, _)| *id).collect();
    let mut posts = Vec::new();
    for _ in 0..random.below(MAX_PINNED + 1).min(from.len()) {
        posts.push(from.swap_remove(random.below(from.len())));
    }
    if random.below(12) == 0 {
        let first = posts.first().copied();
        posts.truncate(MAX_PINNED - 1);
        posts.extend(first);
    }
    Act::Pin { by, posts }
}

/// A text, often with words that filters search.
fn some_text(random: &mut SeededRandom, text: &str) -> String {
    match random.below(8) {
        0..2 => format!("{text} alpha"),
        2 => format!("beta {text}"),
        3 => format!("beta {text} alpha"),
        4 => format!("{text} alphabet"),
        _ => text.to_owned(),
    }
}

/// A change of a user's filters. The first word of each is its own, so that it can be recognised.
fn filter(random: &mut SeededRandom, model: &Model, by: User, number: usize) -> Act {
    let mine = model.filters_of(by);
    let all: Vec<u64> = model.filters.keys().copied().collect();
    let from = if random.below(8) == 0 { all } else { mine.clone() };
    let kind = random.below(5);
    match one_of(random, &from) {
        Some(id) if kind == 0 || mine.len() >= MAX_FILTERS => Act::DeleteFilter { by, id },
        Some(id) if kind < 3 => {
            let change = match random.below(4) {
                0 => FilterChange::Words(some_words(random, number)),
                1 => FilterChange::Hides(random.below(2) == 0),
                2 => FilterChange::Whole(random.below(2) == 0),
                _ => FilterChange::Contexts(some_contexts(random)),
            };
            Act::ChangeFilter { by, id, change }
        }
        _ => {
            let words = some_words(random, number);
            let (hides, is_whole) = (random.below(3) > 0, random.below(3) > 0);
            let contexts = some_contexts(random);
            Act::CreateFilter(Filter { owner: by, words, hides, contexts, is_whole, has_ended: false })
        }
    }
}

/// Chooses an action on the lists of a user. Most of them add or remove a member.
fn list(random: &mut SeededRandom, model: &Model, by: User, number: usize) -> Act {
    let mine = model.lists_of(by);
    let all: Vec<u64> = model.lists.keys().copied().collect();
    let from = if random.below(8) == 0 { all } else { mine.clone() };
    let kind = random.below(13);
    match one_of(random, &from) {
        Some(id) if kind == 0 || mine.len() > MAX_LISTS => Act::DeleteList { by, id },
        Some(id) if kind < 3 => Act::SetExclusive { by, id, on: !model.lists[&id].is_exclusive },
        Some(id) if kind < 10 => {
            let list = &model.lists[&id];
            let (member, is_here) = if random.below(4) == 0 {
                let topic = *random.pick(&TOPICS);
                (Member::Topic(topic), list.topics.contains(topic))
            } else {
                let user = other_of(random, by, &model.those(Edge::Follow, by));
                (Member::User(user), list.users.contains(&user))
            };
            // Sometimes repeat the current state.
            Act::SetMember { by, id, member, on: is_here == (random.below(8) == 0) }
        }
        Some(id) if kind == 10 => Act::RenameList { by, id, name: format!("list {number}, renamed") },
        _ => Act::CreateList(List::new(by, format!("list {number}"), random.below(2) == 0)),
    }
}

fn some_words(random: &mut SeededRandom, number: usize) -> Vec<String> {
    let mut words: BTreeSet<&str> = [*random.pick(&WORDS)].into();
    if random.below(3) == 0 {
        words.insert(*random.pick(&WORDS));
    }
    std::iter::once(format!("word{number}")).chain(words.into_iter().map(str::to_owned)).collect()
}

fn some_contexts(random: &mut SeededRandom) -> BTreeSet<FilterContext> {
    let mut contexts: BTreeSet<_> = FilterContext::ALL.into_iter().filter(|_| random.below(2) == 0).collect();
    if contexts.is_empty() || random.below(2) == 0 {
        contexts.insert(FilterContext::Home);
    }
    contexts
}

/// Reports a user, a post or a comment, or closes a report.
fn report(random: &mut SeededRandom, model: &Model, by: User) -> Option<Act> {
    let reports: Vec<u64> = model.reports.keys().copied().collect();
    let target = match random.below(5) {
        0 => Reported::User(random.pick::<&str>(&USERS)),
        1 => any_comment(random, model).map(|(id, comment)| Reported::Comment { id, post: comment.post })?,
        2 => {
            let id = one_of(random, &reports)?;
            return Some(Act::CloseReport { id, action: random.pick::<&str>(&ACTIONS) });
        }
        _ => Reported::Post(any_post(random, model)?),
    };
    Some(Act::Report(Report::new(by, target, random.pick::<&str>(&REASONS))))
}

/// A change that ends by itself. They take long, so there are few.
fn brief(random: &mut SeededRandom, model: &Model, by: User) -> Option<Act> {
    let to = other_of(random, by, &model.those(Edge::Follow, by));
    match random.below(3) {
        0 => Some(Act::MuteBriefly { from: by, to }),
        1 => Some(Act::SuspendBriefly { user: to }),
        _ => {
            let id = one_of(random, &model.filters_of(by))?;
            Some(Act::ChangeFilter { by, id, change: FilterChange::End })
        }
    }
}

/// A notification of the application, from nobody in half of the cases.
fn notification(random: &mut SeededRandom, number: usize) -> AppNotification {
    let mut to: BTreeSet<User> = USERS.into_iter().filter(|_| random.below(3) > 0).collect();
    to.insert(*random.pick(&USERS));
    AppNotification {
        to,
        unknown: (random.below(4) == 0).then_some("ghost"),
        kind: random.pick::<&str>(&["app.x", "app.y"]),
        key: (random.below(2) == 0).then(|| *random.pick(&["one", "two"])),
        from: (random.below(2) == 0).then(|| *random.pick(&USERS)),
        title: some_text(random, &format!("note {number}")),
        body: some_text(random, "body"),
    }
}

/// Answers a request, mostly one that waits; or removes a follower.
fn answer(random: &mut SeededRandom, model: &Model, by: User) -> Option<Act> {
    let asked: Vec<User> = USERS.into_iter().filter(|user| !model.waiting(user).is_empty()).collect();
    if asked.is_empty() || random.below(6) == 0 {
        let from = other_of(random, by, &model.those_to(Edge::Follow, by));
        return Some(match random.below(3) {
            0 => Act::RemoveFollower { by, from },
            one => Act::Answer { by, from, accepts: one == 1 },
        });
    }
    let by = *random.pick(&asked);
    let from = *random.pick(&model.waiting(by));
    Some(Act::Answer { by, from, accepts: random.below(3) > 0 })
}

fn other(random: &mut SeededRandom, by: User) -> User {
    loop {
        let other = *random.pick(&USERS);
        if other != by {
            return other;
        }
    }
}

/// Chooses another user, half of the time one of `those`.
fn other_of(random: &mut SeededRandom, by: User, those: &[User]) -> User {
    if those.is_empty() || random.below(2) == 0 {
        return other(random, by);
    }
    let one: &User = random.pick(those);
    one
}

fn one_of(random: &mut SeededRandom, those: &[u64]) -> Option<u64> {
    (!those.is_empty()).then(|| *random.pick(those))
}

/// Chooses a post: mostly the user's own, sometimes any post, including deleted ones.
fn one_of_whom(random: &mut SeededRandom, model: &Model, by: User) -> Option<u64> {
    let mine: Vec<u64> = model.posts.iter().filter(|(_, post)| post.author == by).map(|(id, _)| *id).collect();
    let all: Vec<u64> = model.posts.keys().chain(&model.deleted).copied().collect();
    let from = if random.below(8) > 0 && !mine.is_empty() { mine } else { all };
    one_of(random, &from)
}

/// Chooses one of the newest posts, so that activity concentrates on a few; sometimes any post, including deleted ones.
fn any_post(random: &mut SeededRandom, model: &Model) -> Option<u64> {
    let all: Vec<u64> = match random.below(8) {
        0 => model.posts.keys().chain(&model.deleted).copied().collect(),
        _ => model.posts.keys().rev().take(10).copied().collect(),
    };
    one_of(random, &all)
}

/// Chooses one of the newest comments, sometimes any; may return a deleted comment that still has replies.
fn any_comment<'a>(random: &mut SeededRandom, model: &'a Model) -> Option<(u64, &'a Comment)> {
    let many = if random.below(8) == 0 { usize::MAX } else { 10 };
    let all: Vec<u64> = model.comments.keys().rev().take(many).copied().collect();
    one_of(random, &all).map(|id| (id, &model.comments[&id]))
}

/// Half of all comments are replies, so that threads grow.
fn comment(random: &mut SeededRandom, model: &Model, by: User, number: usize) -> Option<Act> {
    let parent = if random.below(2) == 0 { any_comment(random, model) } else { None };
    let (post, reply_to) = match parent {
        Some((id, parent)) => (parent.post, Some(id)),
        None => (any_post(random, model)?, None),
    };
    Some(Act::Comment(Comment { author: by, post, reply_to, text: some_text(random, &format!("comment {number}")) }))
}

fn uncomment(random: &mut SeededRandom, model: &Model, by: User) -> Option<Act> {
    // Half of the time choose a comment that affects others: one with replies, or a reply to a deleted comment.
    let is_bound = |id: &u64, comment: &Comment| {
        model.replies(*id) > 0 || comment.reply_to.is_some_and(|above| model.emptied.contains(&above))
    };
    let bound = model.comments.iter().filter(|(id, comment)| !model.emptied.contains(id) && is_bound(id, comment));
    let bound: Vec<u64> = bound.map(|(id, _)| *id).collect();
    let (id, comment) = match one_of(random, &bound) {
        Some(id) if random.below(2) == 0 => (id, &model.comments[&id]),
        _ => any_comment(random, model)?,
    };
    // Mostly choose one of the two users who may delete it.
    let two = [comment.author, model.posts[&comment.post].author];
    let by = if random.below(4) == 0 { by } else { *random.pick(&two) };
    Some(Act::Uncomment { by, id, post: comment.post })
}

/// Removes a comment, or restores it; sometimes restores one that is not removed.
fn remove_comment(random: &mut SeededRandom, model: &Model) -> Option<Act> {
    let removed: Vec<u64> = model.removed_comments.iter().copied().collect();
    let (id, on) = match one_of(random, &removed) {
        Some(id) if random.below(3) > 0 => (id, false),
        _ => (any_comment(random, model)?.0, random.below(6) > 0),
    };
    Some(Act::RemoveComment { id, post: model.comments[&id].post, on })
}

/// Sets a mark, or removes it if it is set; sometimes repeats the current state. In one of three cases acts on an
/// object that the user has marked already.
fn mark_or_not(random: &mut SeededRandom, model: &Model, mark: Mark, by: User, (id, post): (u64, u64)) -> Option<Act> {
    let mine = model.marked_by(mark, by);
    let (id, post) = match one_of(random, &mine) {
        Some(mine) if random.below(3) == 0 => (mine, model.comments.get(&mine).map_or(mine, |comment| comment.post)),
        _ => (id, post),
    };
    let finds = mark == Mark::Favourite || model.finds(by, post) && (id == post || model.finds_comment(by, id));
    // Likes of invisible objects are not taken back: a slow ledger accepts such a removal without a check, and the
    // removal is final.
    let on = !finds || model.marked(mark, by, id) == (random.below(6) == 0);
    // A user who can see the comment must exist, to check that the like is settled.
    let is_private = mark == Mark::Favourite && random.below(3) == 0;
    let act = Act::Mark { mark, by, id, post, on, is_private };
    (!finds || id == post || model.onlooker(id).is_some()).then_some(act)
}

fn some_visibility(random: &mut SeededRandom) -> Visibility {
    let some = |random: &mut SeededRandom| {
        let mut those: Vec<User> = USERS.into_iter().filter(|_| random.below(2) == 0).collect();
        if those.is_empty() {
            those.push(USERS[0]);
        }
        those
    };
    match random.below(12) {
        0 => Visibility::Followers,
        1 => Visibility::Friends,
        2 => Visibility::OnlyTo(some(random)),
        3 => Visibility::NotTo(some(random)),
        _ => Visibility::Public,
    }
}
