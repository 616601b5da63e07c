//! People: what is said of oneself, finding others, whom one may want to follow, and whose posts to be told of.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::audience::Surface;
use super::graph::NO_USER;
use super::input::{Cursor, Done, OneUser, OwnList, Search, UserPage};
use super::{Caller, Feed, FeedError, Result, now};
use crate::ledger::{Found, ProfileChange, Reach, fold};
use crate::model::{User, UserId};

/// How far a suggestion looks: the latest 200 whom one follows, the latest 200 whom each of them follows. That is 40,000
/// steps of an index at most, some tens of milliseconds. The best 500 can be paged through.
const REACH: Reach = Reach { followees: 200, each: 200, people: 500 };

/// Of how many others' posts one may ask to be told: each post costs a look at everybody who asked.
const NOTICES: u64 = 1_000;

/// How many pages of people that may not be seen a search reads on through before it answers with what it has.
const ROUNDS: usize = 5;

/// What one changes of oneself; what is not there stays.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// What to call them, 1 to 100 characters.
    #[serde(default)]
    name: Option<String>,
    /// Where their picture is, `http` or `https`; `null` or `""` takes it away.
    #[serde(default, deserialize_with = "said")]
    avatar: Option<Option<String>>,
}

/// Tells `null` from nothing.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Somebody whom one may want to follow.
#[derive(Serialize, JsonSchema)]
pub(super) struct Suggestion {
    /// Who.
    #[serde(flatten)]
    user: User,
    /// How many of those whom I follow follow them.
    mutual: u64,
}

/// Suggestions, as a page.
#[derive(Serialize, JsonSchema)]
pub(super) struct SuggestionPage {
    /// Followed by the most first.
    items: Vec<Suggestion>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The last one of a page of a search.
struct AfterTerm {
    term: String,
    user: UserId,
}

impl Cursor for AfterTerm {
    fn read(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix('u')?).ok()?;
        let (user, term) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
        Some(Self { term: term.to_owned(), user: UserId::parse(user)? })
    }
}

impl AfterTerm {
    fn text(last: &Found) -> String {
        format!("u{}", BASE64_URL_SAFE_NO_PAD.encode(format!("{} {}", last.user.id, last.term)))
    }
}

/// The last one of a page of suggestions.
struct AfterMutual {
    mutual: u64,
    user: UserId,
}

impl Cursor for AfterMutual {
    fn read(text: &str) -> Option<Self> {
        let (mutual, user) = text.strip_prefix('m')?.split_once('-')?;
        Some(Self { mutual: mutual.parse().ok()?, user: UserId::parse(user)? })
    }
}

impl AfterMutual {
    fn is_before(&self, user: &UserId, mutual: u64) -> bool {
        mutual < self.mutual || (mutual == self.mutual && *user > self.user)
    }
}

/// A name as it is kept.
///
/// # Errors
/// If it is none.
pub(super) fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    if (1..=100).contains(&name.chars().count()) && !name.contains(char::is_control) {
        Ok(name.to_owned())
    } else {
        Err(FeedError::invalid("name", "a name has 1 to 100 characters, none of them a control character"))
    }
}

fn checked_avatar(url: Option<String>) -> Result<Option<String>> {
    let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
    let plain = url.len() <= 2_000 && !url.contains(|c: char| c.is_whitespace() || c.is_control());
    if plain && (url.starts_with("https://") || url.starts_with("http://")) {
        Ok(Some(url))
    } else {
        Err(FeedError::invalid("avatar", "the url of a picture begins with http:// or https://"))
    }
}

impl Feed {
    pub(super) async fn update_me(&self, caller: Caller, change: Change) -> Result<User> {
        let me = caller.user()?;
        let change = ProfileChange {
            name: change.name.as_deref().map(checked_name).transpose()?,
            avatar: change.avatar.map(checked_avatar).transpose()?,
        };
        self.welcome(me).await?;
        self.ledger.update_user(me, &change).await?.ok_or(NO_USER)
    }

    pub(super) async fn search_users(&self, caller: Caller, search: Search) -> Result<UserPage> {
        let (limit, cursor) = (search.limit()?, search.cursor::<AfterTerm>()?);
        let prefix = fold(search.q.trim());
        if !(1..=100).contains(&prefix.chars().count()) {
            return Err(FeedError::invalid("q", "what to search for has 1 to 100 characters"));
        }
        if cursor.as_ref().is_some_and(|after| !after.term.starts_with(&prefix)) {
            return Err(FeedError::invalid("cursor", "this cursor is not one that this list gave"));
        }
        let mut after = cursor.map(|after| (after.term, after.user));
        let mut page = UserPage { items: Vec::new(), next: None };
        for _ in 0..ROUNDS {
            // One more than fits tells whether there is a next page.
            let wanted = limit - page.items.len() + 1;
            let from = after.as_ref().map(|(term, user)| (term.as_str(), user));
            let mut found = self.ledger.search_users(&prefix, from, wanted).await?;
            let more = found.len() == wanted;
            found.truncate(wanted - 1);
            let Some(last) = found.last() else { return Ok(page) };
            page.next = more.then(|| AfterTerm::text(last));
            after = Some((last.term.clone(), last.user.id.clone()));
            // As on a profile: nobody learns by not finding somebody that they are hidden from.
            let people = found.into_iter().map(|found| found.user).collect();
            page.items.extend(self.without_blocked(caller.reader(), people).await?);
            if !more || page.items.len() == limit {
                break;
            }
        }
        Ok(page)
    }

    pub(super) async fn suggest_users(&self, caller: Caller, list: OwnList) -> Result<SuggestionPage> {
        let (limit, cursor) = (list.limit()?, list.cursor::<AfterMutual>()?);
        let me = caller.user()?;
        let mut people = self.ledger.second_degree(me, REACH).await?;
        if let Some(after) = cursor {
            people.retain(|(user, mutual)| after.is_before(user, *mutual));
        }
        let ids: Vec<UserId> = people.iter().map(|(user, _)| user.clone()).collect();
        let seen = self.people_seen_by(Some(me), Surface::Brought, ids).await?;
        people.retain(|(user, _)| seen.contains(user));
        let more = people.len() > limit;
        people.truncate(limit);
        let next = people.last().filter(|_| more).map(|(user, mutual)| format!("m{mutual}-{user}"));
        let ids: Vec<UserId> = people.iter().map(|(user, _)| user.clone()).collect();
        let users = self.ledger.users(&ids).await?;
        let mut users: HashMap<UserId, User> = users.into_iter().map(|user| (user.id.clone(), user)).collect();
        let suggestion = |(id, mutual)| Some(Suggestion { user: users.remove(&id)?, mutual });
        Ok(SuggestionPage { items: people.into_iter().filter_map(suggestion).collect(), next })
    }

    pub(super) async fn tell_me_of(&self, caller: Caller, author: OneUser) -> Result<Done> {
        let me = caller.user()?;
        if *me == author.id {
            return Err(FeedError::invalid("id", "nobody is told of their own posts"));
        }
        self.welcome(me).await?;
        if self.ledger.users(std::slice::from_ref(&author.id)).await?.is_empty() {
            return Err(NO_USER);
        }
        // Who is hidden from may ask, as anybody may, and is told of nothing.
        let relation = self.relations.one(me, &author.id).await?;
        if relation.blocked {
            return Err(NO_USER);
        }
        if relation.blocks {
            return Err(FeedError::Conflict { field: "id", message: "you block them" });
        }
        if self.ledger.notify_of(me, &author.id, now(), NOTICES).await? {
            Ok(Done {})
        } else {
            Err(FeedError::LimitExceeded { field: "id", what: "people whose posts one is told of", most: NOTICES })
        }
    }

    pub(super) async fn tell_me_no_more_of(&self, caller: Caller, author: OneUser) -> Result<Done> {
        self.ledger.unnotify_of(caller.user()?, &author.id).await?;
        Ok(Done {})
    }
}
