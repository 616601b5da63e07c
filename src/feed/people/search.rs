//! Search for users, and suggestions of users to follow.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;

use crate::feed::call::Caller;
use crate::feed::error::{FeedError, Result};
use crate::feed::input::{Cursor, OwnList, Search, UserPage};
use crate::feed::visibility::{ViewContext, VisibilityPolicy};
use crate::ledger::{Found, Ledger, Reach, fold};
use crate::model::{User, UserId};

/// The reach of suggestions: the latest 200 followees, and the latest 200 followees of each. That is at most 40,000 steps of an
/// index, some tens of milliseconds. The best 500 can be paged through.
const SUGGESTION_REACH: Reach = Reach { followees: 200, each: 200, people: 500 };

/// Pages that a search reads if users are left out. After that the page is short, and its cursor continues.
const MAX_READS: usize = 5;

/// A user to follow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Suggestion {
    /// The user.
    #[serde(flatten)]
    user: User,
    /// How many of the caller's followees follow the user.
    mutual: u64,
}

/// Suggestions, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SuggestionPage {
    /// The most mutual first.
    items: Vec<Suggestion>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The last item of a page of a search.
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

/// The last item of a page of suggestions.
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

/// Finds users.
pub(crate) struct UserSearch {
    ledger: Arc<dyn Ledger>,
    visibility: Arc<VisibilityPolicy>,
}

impl UserSearch {
    /// A search in this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, visibility: Arc<VisibilityPolicy>) -> Self {
        Self { ledger, visibility }
    }

    pub(crate) async fn search(&self, caller: Caller, search: Search) -> Result<UserPage> {
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
        for _ in 0..MAX_READS {
            // One more than requested shows whether there is a next page.
            let wanted = limit - page.items.len() + 1;
            let from = after.as_ref().map(|(term, user)| (term.as_str(), user));
            let mut found = self.ledger.search_users(&prefix, from, wanted).await?;
            let more = found.len() == wanted;
            found.truncate(wanted - 1);
            let Some(last) = found.last() else { return Ok(page) };
            page.next = more.then(|| AfterTerm::text(last));
            after = Some((last.term.clone(), last.user.id.clone()));
            // As on a profile, users hidden from the caller stay: nobody can find out who hides from them.
            let people = found.into_iter().map(|found| found.user).collect();
            page.items.extend(self.visibility.without_blocked(caller.reader(), people).await?);
            if !more || page.items.len() == limit {
                break;
            }
        }
        Ok(page)
    }

    pub(crate) async fn suggest(&self, caller: Caller, list: OwnList) -> Result<SuggestionPage> {
        let (limit, cursor) = (list.limit()?, list.cursor::<AfterMutual>()?);
        let me = caller.user()?;
        let mut people = self.ledger.second_degree(me, SUGGESTION_REACH).await?;
        if let Some(after) = cursor {
            people.retain(|(user, mutual)| after.is_before(user, *mutual));
        }
        let ids: Vec<UserId> = people.iter().map(|(user, _)| user.clone()).collect();
        let seen = self.visibility.visible_users(Some(me), ViewContext::Unrequested, ids).await?;
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
}
