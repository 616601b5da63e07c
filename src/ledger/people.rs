//! Users, and the accounts of users that sign in with a password.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::Result;
use crate::model::{Millis, PostId, Profile, Quotable, User, UserDetails, UserId, UserOrigin};
pub use crate::text::fold;

/// A new account.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// The id of the new user.
    pub user: UserId,
    /// The display name.
    pub name: String,
    /// The hash of the password: argon2id, in PHC form.
    pub password: String,
    /// The current time, in Unix milliseconds.
    pub created_at: Millis,
}

/// A user that the ledger has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownUser {
    /// The id as first written.
    pub id: UserId,
    /// The origin of the id.
    pub origin: UserOrigin,
}

/// The data that a sign-in needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAccount {
    /// The hash of the password: argon2id, in PHC form.
    pub password: String,
    /// The number of times that all sessions were ended. New sessions carry it.
    pub generation: u64,
    /// The id as first written.
    pub user: UserId,
}

/// A change of a user's profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileChange {
    /// The new display name, if it changes.
    pub name: Option<String>,
    /// The new URL of the picture, if it changes; `Some(None)` removes it.
    pub avatar: Option<Option<String>>,
    /// The new text about the user, if it changes; `Some(None)` removes it.
    pub bio: Option<Option<String>>,
    /// The new data of the application, if it changes; `Some(None)` removes it.
    pub data: Option<Option<Map<String, Value>>>,
    /// The new posts that are shown first, if they change.
    pub pinned: Option<Vec<PostId>>,
    /// The new rule who may quote the user's posts, if it changes.
    pub quotable: Option<Quotable>,
}

/// A user whose id, or a word of whose name, begins with the search term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMatch {
    /// The matched text: the id, or the name from a word on, as returned by [`fold`].
    pub term: String,
    /// The profile of the user.
    pub user: User,
}

/// The limits of a search for follow suggestions. Together they bound its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestionLimits {
    /// The number of followees to examine, the latest.
    pub followees: usize,
    /// The number of users to examine for each followee: those that it followed last.
    pub each: usize,
    /// The maximal number of results, those followed by most of the followees.
    pub people: usize,
}

/// The maximal number of words of a name that a search finds.
const MAX_SEARCHED_WORDS: usize = 8;

/// The search terms of a name: the folded name from the beginning of each of its words on.
pub(super) fn name_terms(name: &str) -> Vec<String> {
    let folded = fold(name);
    let mut terms = Vec::new();
    let mut rest = folded.as_str();
    // The first term is the whole name, whatever it begins with.
    while !rest.is_empty() && terms.len() < MAX_SEARCHED_WORDS {
        terms.push(rest.to_owned());
        if !rest.starts_with(separates_words) {
            rest = rest.trim_start_matches(|c| !separates_words(c));
        }
        rest = rest.trim_start_matches(separates_words);
    }
    terms
}

fn separates_words(c: char) -> bool {
    c.is_whitespace() || matches!(c, '-' | '.' | ',' | '(' | ')' | '"' | '·' | '・')
}

/// The least text after all texts with the prefix `prefix`, in the order of code points. `None` if there is none.
pub fn past(prefix: &str) -> Option<String> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        // The code points in between are surrogates, not characters.
        let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            rest.push(next);
            return Some(rest);
        }
    }
    None
}

/// The maximal number of posts naming the viewer that a profile counts, for each of `only_to` and `not_to`.
pub const MAX_NAMED: usize = 1_000;

/// People.
#[async_trait]
pub trait PeopleStore: Send + Sync {
    /// Creates an account and its user. Returns `false` if the account exists, or if a user with that id exists: a
    /// sign-up cannot take over an id that came from an application's token.
    async fn create_account(&self, account: NewAccount) -> Result<bool>;

    /// An account; `None` if no account has that id.
    async fn account(&self, user: &UserId) -> Result<Option<StoredAccount>>;

    /// Creates a user, for example on their first token, unless the user exists. Returns the id as first
    /// written, and its origin. If a sign-up and a first token race, one wins, and both callers get the winner's.
    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<KnownUser>;

    /// The origin of a user's id, and its spelling; `None` if the user does not exist.
    async fn user_origin(&self, user: &UserId) -> Result<Option<KnownUser>>;

    /// The existing users among `ids`, each once, in any order. Accepts any number of ids in one round trip.
    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>>;

    /// A user with counts, and the edges seen from `viewer` (`None`: anonymous). Counts the posts that the viewer can
    /// see when reading the author's posts: all of them on the viewer's own profile, none if a hide or a block
    /// separates the two, or if the account is locked and the viewer no follower. The edges are those at `now`. The
    /// count is exact unless the author names the viewer in more than [`MAX_NAMED`] posts: then it omits the other
    /// posts that `only_to` opens to the viewer, or all posts with `not_to`. The cost does not depend on the number of
    /// posts.
    async fn profile(&self, user: &UserId, viewer: Option<&UserId>, now: Millis) -> Result<Option<Profile>>;

    /// Changes the profile of a user and its search terms, in one transaction. Returns the user after the change;
    /// `None` if the user does not exist.
    async fn update_user(&self, user: &UserId, change: &ProfileChange) -> Result<Option<UserDetails>>;

    /// Users whose folded id, or whose folded name from a word on, begins with `prefix`, which the caller has folded.
    /// Each user appears once, under the least text that matches. Ordered by (term, id), by code points; begins after
    /// `after`. The cost depends on `limit`, not on the number of users.
    async fn search_users(&self, prefix: &str, after: Option<(&str, &UserId)>, limit: usize) -> Result<Vec<UserMatch>>;

    /// The users followed by the followees of `reader`, each with the number of those followees. Omits the reader and
    /// the users that the reader follows. The greatest number first, equal numbers ordered by id, byte by byte.
    async fn second_degree(&self, reader: &UserId, reach: SuggestionLimits) -> Result<Vec<(UserId, u64)>>;

    /// Enables alerts of the author's posts for `user`; both exist. Idempotent. Returns `false` if the user has such
    /// alerts for `most` other authors or more.
    async fn enable_post_alerts(&self, user: &UserId, author: &UserId, now: Millis, most: u64) -> Result<bool>;

    /// Disables such alerts. Idempotent.
    async fn disable_post_alerts(&self, user: &UserId, author: &UserId) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::past;

    #[test]
    fn the_text_past_a_prefix_is_the_next_in_order() {
        assert_eq!(past("an").as_deref(), Some("ao"));
        assert_eq!(past("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(past("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(past("\u{10FFFF}"), None);
        assert_eq!(past(""), None);
    }
}
