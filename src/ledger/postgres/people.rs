//! Users and accounts.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::{PostgresLedger, at, id_at, integer, natural_at, plain, texts};
use crate::ledger::{NewAccount, People, Result};
use crate::model::{Edges, Millis, Profile, User, UserId};

const CREATE_ACCOUNT: &str = "\
    WITH made AS (
        INSERT INTO users (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO accounts (\"user\", password) SELECT id, $4 FROM made RETURNING 1";

const PASSWORD: &str = "SELECT password FROM accounts WHERE \"user\" = $1";

/// Writes nothing, and takes no lock, if there is one.
const ENSURE: &str = "INSERT INTO users (id, name, created_at) VALUES ($1, $1, $2) ON CONFLICT DO NOTHING";

const USERS: &str = "SELECT id, name, avatar, created_at FROM users WHERE id = ANY ($1)";

const PROFILE: &str = "\
    SELECT id, name, avatar, created_at, followers, following, posts,
           EXISTS (SELECT FROM follows WHERE follower = $2 AND followee = $1),
           EXISTS (SELECT FROM follows WHERE follower = $1 AND followee = $2),
           EXISTS (SELECT FROM barriers WHERE maker = $2 AND kind = 'hide' AND whom = $1),
           EXISTS (SELECT FROM barriers WHERE maker = $2 AND kind = 'mute' AND whom = $1),
           EXISTS (SELECT FROM barriers WHERE maker = $2 AND kind = 'block' AND whom = $1)
    FROM users WHERE id = $1";

#[async_trait]
impl People for PostgresLedger {
    async fn create_account(&self, account: NewAccount) -> Result<bool> {
        let (id, name, made) = (account.user.as_str(), plain(&account.name), integer(account.created_at));
        let rows = self.pool.write(CREATE_ACCOUNT, &[&id, &name, &made, &account.password]).await?;
        Ok(!rows.is_empty())
    }

    async fn password(&self, user: &UserId) -> Result<Option<String>> {
        let rows = self.pool.read(PASSWORD, &[&user.as_str()]).await?;
        rows.first().map(|row| at(row, 0)).transpose()
    }

    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<()> {
        self.pool.write(ENSURE, &[&user.as_str(), &integer(now)]).await.map(drop)
    }

    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>> {
        self.pool.read(USERS, &[&texts(ids)]).await?.iter().map(user).collect()
    }

    async fn profile(&self, user: &UserId, viewer: Option<&UserId>) -> Result<Option<Profile>> {
        let rows = self.pool.read(PROFILE, &[&user.as_str(), &viewer.map(UserId::as_str)]).await?;
        rows.first().map(profile).transpose()
    }
}

/// Reads `id, name, avatar, created_at` from the first four columns.
pub(super) fn user(row: &Row) -> Result<User> {
    Ok(User { id: id_at(row, 0)?, name: at(row, 1)?, avatar: at(row, 2)?, created_at: natural_at(row, 3)? })
}

fn profile(row: &Row) -> Result<Profile> {
    Ok(Profile {
        user: user(row)?,
        followers: natural_at(row, 4)?,
        following: natural_at(row, 5)?,
        posts: natural_at(row, 6)?,
        edges: Edges {
            following: at(row, 7)?,
            followed_by: at(row, 8)?,
            hiding: at(row, 9)?,
            muting: at(row, 10)?,
            blocking: at(row, 11)?,
        },
    })
}
