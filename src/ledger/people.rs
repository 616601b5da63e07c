//! Users, and the accounts of those who sign in here.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, Profile, User, UserId};

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

/// People.
#[async_trait]
pub trait People: Send + Sync {
    /// Makes an account and its user. `false` if the account exists (or a user with that id does: an id that an
    /// application's token brought cannot be taken over by signing up).
    async fn create_account(&self, account: NewAccount) -> Result<bool>;

    /// The stored password of an account, argon2id in PHC form.
    async fn password(&self, user: &UserId) -> Result<Option<String>>;

    /// Makes sure that a user exists, as one does whose first token just came. Changes nothing if so.
    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<()>;

    /// Those of `ids` that exist, each once, in any order. Any number of ids, one round trip.
    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>>;

    /// A user with counts, and the edges seen from `viewer`.
    async fn profile(&self, user: &UserId, viewer: Option<&UserId>) -> Result<Option<Profile>>;
}
