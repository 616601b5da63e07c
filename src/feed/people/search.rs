//! Search for users, and suggestions of users to follow.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, Result};
use crate::feed::input::{OwnList, Search, UserPage};
use crate::feed::paging::{PageBuilder, PageCursor, decode_texts, encode_texts};
use crate::feed::visibility::ViewContext;
use crate::ledger::{SuggestionLimits, UserMatch};
use crate::model::{User, UserId};

/// The limits of suggestions: the latest 200 followees, and the latest 200 followees of each. That is at most 40,000
/// index entries, some tens of milliseconds. Clients can page through the best 500 results.
const SUGGESTION_REACH: SuggestionLimits = SuggestionLimits { followees: 200, each: 200, people: 500 };

/// The maximal number of reads for one page of a search. After that the page is short, and its cursor continues.
const MAX_READS: usize = 5;

/// A user to follow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Suggestion {
    /// The user.
    #[serde(flatten)]
    user: User,
    /// The number of the caller's followees that follow the user.
    mutual: u64,
}

/// Suggestions, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SuggestionPage {
    /// The suggestions, those with the most mutual followees first.
    items: Vec<Suggestion>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The last item of a page of a search.
#[derive(Clone)]
struct AfterTerm {
    term: String,
    user: UserId,
}

impl PageCursor for AfterTerm {
    fn decode(text: &str) -> Option<Self> {
        let (user, term) = decode_texts('u', text)?;
        Some(Self { term, user: UserId::parse(&user)? })
    }

    fn encode(&self) -> String {
        encode_texts('u', self.user.as_str(), &self.term)
    }
}

/// The last item of a page of suggestions.
#[derive(Clone)]
struct AfterMutual {
    mutual: u64,
    user: UserId,
}

impl PageCursor for AfterMutual {
    fn decode(text: &str) -> Option<Self> {
        let (mutual, user) = text.strip_prefix('m')?.split_once('-')?;
        Some(Self { mutual: mutual.parse().ok()?, user: UserId::parse(user)? })
    }

    fn encode(&self) -> String {
        format!("m{}-{}", self.mutual, self.user)
    }
}

impl AfterMutual {
    fn is_before(&self, user: &UserId, mutual: u64) -> bool {
        mutual < self.mutual || (mutual == self.mutual && *user > self.user)
    }
}

/// Finds users.
pub(crate) struct UserSearch {
    base: Arc<Base>,
}

impl UserSearch {
    /// Searches this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn search(&self, caller: Caller, search: Search) -> Result<UserPage> {
        let (limit, cursor) = search.page.decode::<AfterTerm>()?;
        let prefix = search.prefix()?;
        if cursor.as_ref().is_some_and(|after| !after.term.starts_with(&prefix)) {
            return Err(FeedError::invalid("cursor", "this cursor is not one that this list gave"));
        }
        let mut page = PageBuilder::with_max_reads(cursor, limit, MAX_READS);
        while let Some((after, count)) = page.wants() {
            let after = after.as_ref().map(|after| (after.term.as_str(), &after.user));
            let found = self.base.ledger.search_users(&prefix, after, count).await?;
            let (keys, people): (Vec<_>, Vec<_>) = found
                .into_iter()
                .map(|UserMatch { term, user }| (AfterTerm { term, user: user.id.clone() }, user))
                .unzip();
            // As on a profile, users who hide their posts from the caller are included: an omission would reveal the
            // hide.
            let visible = self.base.visibility.without_limited(caller.reader(), people).await?;
            let visible = self.base.visibility.without_blocked(caller.reader(), visible).await?;
            page.take_visible(keys, visible, |user, key| user.id == key.user);
        }
        Ok(page.finish().into())
    }

    pub(crate) async fn suggest(&self, caller: Caller, list: OwnList) -> Result<SuggestionPage> {
        let (limit, cursor) = list.page.decode::<AfterMutual>()?;
        let me = caller.user()?;
        let mut people = self.base.ledger.second_degree(me, SUGGESTION_REACH).await?;
        if let Some(after) = &cursor {
            people.retain(|(user, mutual)| after.is_before(user, *mutual));
        }
        let ids: Vec<UserId> = people.iter().map(|(user, _)| user.clone()).collect();
        let seen = self.base.visibility.visible_users(Some(me), ViewContext::Discovery, ids).await?;
        people.retain(|(user, _)| seen.contains(user));
        let mut page = PageBuilder::new(cursor, limit);
        page.take_rest(
            people.into_iter().map(|(user, mutual)| (AfterMutual { mutual, user: user.clone() }, (user, mutual))),
        );
        let (people, next) = page.finish();
        let ids: Vec<UserId> = people.iter().map(|(user, _)| user.clone()).collect();
        let users = self.base.ledger.users(&ids).await?;
        let mut users: HashMap<UserId, User> = users.into_iter().map(|user| (user.id.clone(), user)).collect();
        let suggestion = |(id, mutual)| Some(Suggestion { user: users.remove(&id)?, mutual });
        Ok(SuggestionPage {
            items: people.into_iter().filter_map(suggestion).collect(),
            next: next.map(|next| next.encode()),
        })
    }
}
