//! Users, and the accounts of those who sign in here.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, Profile, User, UserId, UserOrigin};

/// An account to be made.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// Its id.
    pub user: UserId,
    /// What to call them.
    pub name: String,
    /// argon2id, in PHC form.
    pub password: String,
    /// Now.
    pub created_at: Millis,
}

/// What signing in needs of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAccount {
    /// argon2id, in PHC form.
    pub password: String,
    /// How often all sessions were ended: a session opened now carries it.
    pub generation: u64,
}

/// What a user changes of what others see of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileChange {
    /// What to call them, if that changes.
    pub name: Option<String>,
    /// Where their picture is (`Some(None)`: nowhere any more), if that changes.
    pub avatar: Option<Option<String>>,
}

/// Somebody found by the beginning of their id or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMatch {
    /// What they were found by: the id or the name, as [`fold`] makes it.
    pub term: String,
    /// Who.
    pub user: User,
}

/// How far a look at those whom one's followees follow goes. Together they bound what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestionLimits {
    /// How many followees, the latest.
    pub followees: usize,
    /// How many that each of them follows, the latest.
    pub each: usize,
    /// The maximal number of results, those followed by most.
    pub people: usize,
}

/// A text as people are found by it: in lower case, of whatever script.
pub fn fold(text: &str) -> String {
    text.to_lowercase()
}

/// The least text after all those that begin with `prefix`, in the order of code points. `None` if there is none.
pub fn past(prefix: &str) -> Option<String> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        // What lies between the two is no character: surrogates.
        let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            rest.push(next);
            return Some(rest);
        }
    }
    None
}

/// How many posts of an author that name a viewer a profile counts, of `only_to` and of `not_to` each.
pub const MAX_NAMED: usize = 1_000;

/// People.
#[async_trait]
pub trait PeopleStore: Send + Sync {
    /// Makes an account and its user. `false` if the account exists (or a user with that id does: an id that an
    /// application's token brought cannot be taken over by signing up).
    async fn create_account(&self, account: NewAccount) -> Result<bool>;

    /// An account; `None` if there is none with that id.
    async fn account(&self, user: &UserId) -> Result<Option<StoredAccount>>;

    /// Makes sure that a user exists, as one does whose first token just came, and answers where the id comes from.
    /// Changes nothing if the user exists. Of a sign-up and a first visit at the same time, one wins and both callers
    /// learn which.
    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<UserOrigin>;

    /// Where a user's id comes from; `None` if there is no such user.
    async fn user_origin(&self, user: &UserId) -> Result<Option<UserOrigin>>;

    /// Those of `ids` that exist, each once, in any order. Any number of ids, one round trip.
    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>>;

    /// A user with counts, and the edges seen from `viewer` (`None`: anonymous). The posts counted are those
    /// that the viewer may see where they ask for them: all of them if it is their own profile, none where a hide or
    /// a block stands between the two. The count is exact unless the author names the viewer in more than
    /// [`MAX_NAMED`] posts: then it leaves out the other posts that `only_to` opens to the viewer, or all posts with
    /// `not_to`. The cost does not depend on how many posts there are.
    async fn profile(&self, user: &UserId, viewer: Option<&UserId>) -> Result<Option<Profile>>;

    /// Changes what is said of a user, and what they are found by, in one transaction; the user as they are then.
    /// `None` if there is no such user.
    async fn update_user(&self, user: &UserId, change: &ProfileChange) -> Result<Option<User>>;

    /// People whose id or name, folded, begins with `prefix`, which the caller has folded: each once, by the lesser of
    /// the two where both do, in the order of (term, id) by code points, after `after`. The cost depends on `limit`,
    /// not on how many people there are.
    async fn search_users(&self, prefix: &str, after: Option<(&str, &UserId)>, limit: usize) -> Result<Vec<UserMatch>>;

    /// Whom those follow whom `reader` follows, with how many of them do: neither the reader nor anybody whom the
    /// reader follows. The most first, equals in the order of their ids, byte by byte.
    async fn second_degree(&self, reader: &UserId, reach: SuggestionLimits) -> Result<Vec<(UserId, u64)>>;

    /// Enables notifications of the author's posts for `user`; both exist. Idempotent. `false` if the
    /// user asked for that of `most` others or more.
    async fn enable_post_alerts(&self, user: &UserId, author: &UserId, now: Millis, most: u64) -> Result<bool>;

    /// Disables them. Idempotent.
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
