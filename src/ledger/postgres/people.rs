//! Users and accounts.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::PostgresLedger;
use super::columns::{self, at, count, id_at, integer, json_text, natural_at, one, plain, texts, user};
use super::rows::readable;
use super::statements::Parameters;
use crate::ledger::people::name_terms;
use crate::ledger::{
    KnownUser, LedgerError, MAX_NAMED, NewAccount, PeopleStore, ProfileChange, Result, StoredAccount, SuggestionLimits,
    UserMatch, past,
};
use crate::model::{About, Edges, Millis, Profile, Quotable, User, UserDetails, UserId, UserOrigin};

const CREATE_ACCOUNT: &str = "\
    WITH made AS (
        INSERT INTO users (id, handle, name, created_at) VALUES ($1, $6, $2, $3) ON CONFLICT DO NOTHING RETURNING id
    )
    , found AS (
        INSERT INTO user_terms (term, owner) SELECT id, id FROM made UNION SELECT unnest($5::text[]), id FROM made
    )
    INSERT INTO accounts (\"user\", password) SELECT id, $4 FROM made RETURNING 1";

const ACCOUNT: &str = "\
    SELECT password, generation, coalesce(u.handle, u.id) FROM accounts JOIN users u ON u.id = \"user\"
    WHERE \"user\" = $1";

/// Writes nothing and takes no lock if the user exists.
const ENSURE: &str = "SELECT shown, is_account FROM feedline_ensure_user($1, $2, $3)";

const ORIGIN: &str = "\
    SELECT coalesce(handle, id), EXISTS (SELECT FROM accounts WHERE \"user\" = $1) FROM users WHERE id = $1";

const UPDATE: &str = "\
    SELECT id, name, avatar, created_at, bio, data, pinned, quotable, locked
    FROM feedline_update_profile($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

/// A scan of the terms in order. A user with two matching terms is returned once, at the lesser term.
pub(super) const SEARCH: &str = "\
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, t.term
    FROM user_terms t JOIN users u ON u.id = t.owner
    WHERE t.term < $2 AND (t.term, t.owner) > ($3, $4) AND NOT EXISTS (
        SELECT FROM user_terms other WHERE other.owner = t.owner AND other.term >= $1 AND other.term < t.term OFFSET 0)
    ORDER BY t.term, t.owner LIMIT $5";

/// Reads at most `$2` × `$3` follows of followees, the latest `$2` follows of `$1`, and one index entry for each
/// candidate.
pub(super) const SECOND_DEGREE: &str = "\
    WITH latest AS MATERIALIZED (
        SELECT followee FROM follows WHERE follower = $1 ORDER BY seq DESC LIMIT $2
    ), ranked AS MATERIALIZED (
        SELECT theirs.followee, count(*) AS mutual FROM latest CROSS JOIN LATERAL (
            SELECT followee FROM follows WHERE follower = latest.followee ORDER BY seq DESC LIMIT $3
        ) theirs
        WHERE theirs.followee <> $1 GROUP BY theirs.followee
    )
    SELECT ranked.followee, mutual FROM ranked
    LEFT JOIN LATERAL (
        SELECT true AS is_followed FROM follows WHERE follower = $1 AND followee = ranked.followee OFFSET 0
    ) mine ON true
    WHERE is_followed IS NULL ORDER BY mutual DESC, ranked.followee LIMIT $4";

const NOTIFY_OF: &str = "SELECT feedline_enable_post_alerts($1, $2, $3, $4)";

const UNNOTIFY_OF: &str = "\
    WITH gone AS (DELETE FROM post_alerts WHERE owner = $1 AND author = $2)
    DELETE FROM post_alerts_of WHERE author = $2 AND owner = $1";

const USERS: &str =
    "SELECT coalesce(handle, id), name, avatar, created_at FROM users WHERE id = ANY ($1) AND erased_at IS NULL";

/// The number of posts is the total minus the posts for audiences that exclude the viewer. No post is read: the ledger
/// counts posts by audience, and counts the rows that name this viewer up to `$3`.
pub(super) const PROFILE: &str = "\
    WITH named AS MATERIALIZED (SELECT
        (SELECT count(*) FROM (
            SELECT FROM audience_posts WHERE author = $1 AND kind = 'only_to' AND viewer = $2 ORDER BY post LIMIT $3
        ) listed) AS only_to,
        (SELECT count(*) FROM (
            SELECT FROM audience_posts WHERE author = $1 AND kind = 'not_to' AND viewer = $2
            ORDER BY post LIMIT $3::bigint + 1
        ) listed) AS not_to
    )
    SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, u.followers, u.following,
           CASE WHEN u.id = $2 THEN u.posts WHEN e.restricted_by OR e.blocking OR (u.locked AND NOT e.following) THEN 0
           ELSE u.posts
               - CASE WHEN e.following THEN 0 ELSE coalesce(a.followers, 0) END
               - CASE WHEN e.following AND e.followed_by THEN 0 ELSE coalesce(a.friends, 0) END
               - (coalesce(a.only_to, 0) - CASE WHEN e.following THEN named.only_to ELSE 0 END)
               - CASE WHEN named.not_to > $3 THEN coalesce(a.not_to, 0) ELSE named.not_to END
           END, e.following, e.followed_by, e.hiding, e.muting, e.blocking, e.notify, p.bio, p.data,
           p.pinned, p.quotable, u.locked, e.requested, e.requested_by, e.reposts_off
    FROM users u LEFT JOIN LATERAL (
        SELECT followers, friends, only_to, not_to FROM audience_counts WHERE author = u.id OFFSET 0
    ) a ON true LEFT JOIN LATERAL (
        SELECT bio, data, pinned, quotable FROM profiles WHERE owner = u.id OFFSET 0
    ) p ON true CROSS JOIN named CROSS JOIN LATERAL (SELECT
        EXISTS (SELECT FROM follows WHERE follower = $2 AND followee = $1) AS following,
        EXISTS (SELECT FROM follows WHERE follower = $1 AND followee = $2) AS followed_by,
        EXISTS (SELECT FROM restrictions WHERE maker = $2 AND kind = 'hide' AND target = $1) AS hiding,
        EXISTS (SELECT FROM restrictions WHERE maker = $2 AND kind = 'mute' AND target = $1) AS muting,
        EXISTS (SELECT FROM restrictions WHERE maker = $2 AND kind = 'block' AND target = $1) AS blocking,
        EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'hide' AND target = $2)
            OR EXISTS (SELECT FROM restrictions WHERE maker = $1 AND kind = 'block' AND target = $2) AS restricted_by,
        EXISTS (SELECT FROM post_alerts WHERE owner = $2 AND author = $1) AS notify,
        EXISTS (SELECT FROM follow_requests WHERE followee = $1 AND follower = $2) AS requested,
        EXISTS (SELECT FROM follow_requests WHERE followee = $2 AND follower = $1 AND shown_at <= $4) AS requested_by,
        EXISTS (SELECT FROM restrictions WHERE maker = $2 AND kind = 'reposts' AND target = $1) AS reposts_off
        OFFSET 0
    ) e WHERE u.id = $1 AND u.erased_at IS NULL";

#[async_trait]
impl PeopleStore for PostgresLedger {
    async fn create_account(&self, account: NewAccount) -> Result<bool> {
        let id = account.user.as_str();
        let name = plain(&account.name);
        let made = integer(account.created_at);
        let rows = self
            .pool
            .write(CREATE_ACCOUNT, &[&id, &name, &made, &account.password, &name_terms(&name), &account.user.handle()])
            .await?;
        Ok(!rows.is_empty())
    }

    async fn account(&self, user: &UserId) -> Result<Option<StoredAccount>> {
        let rows = self.pool.read(ACCOUNT, &[&user.as_str()]).await?;
        let account =
            |row| Ok(StoredAccount { password: at(row, 0)?, generation: natural_at(row, 1)?, user: id_at(row, 2)? });
        rows.first().map(account).transpose()
    }

    async fn ensure_user(&self, user: &UserId, now: Millis) -> Result<KnownUser> {
        origin(one(&self.pool.write(ENSURE, &[&user.as_str(), &user.handle(), &integer(now)]).await?)?)
    }

    async fn user_origin(&self, user: &UserId) -> Result<Option<KnownUser>> {
        self.pool.read(ORIGIN, &[&user.as_str()]).await?.first().map(origin).transpose()
    }

    async fn users(&self, ids: &[UserId]) -> Result<Vec<User>> {
        Ok(readable("users", &self.pool.read(USERS, &[&texts(ids)]).await?, user))
    }

    async fn profile(&self, user: &UserId, viewer: Option<&UserId>, now: Millis) -> Result<Option<Profile>> {
        let viewer = viewer.map(UserId::as_str);
        let rows = self.pool.read(PROFILE, &[&user.as_str(), &viewer, &count(MAX_NAMED), &integer(now)]).await?;
        rows.first().map(profile).transpose()
    }

    async fn update_user(&self, user: &UserId, change: &ProfileChange) -> Result<Option<UserDetails>> {
        let name = change.name.as_deref().map(plain);
        let terms = name.as_deref().map(name_terms);
        let moves = change.avatar.is_some();
        let avatar = change.avatar.as_ref().and_then(|avatar| avatar.as_deref().map(plain));
        let bio = change.bio.as_ref().and_then(|bio| bio.as_deref().map(plain));
        let data = change.data.as_ref().and_then(Option::as_ref).map(json_text).transpose()?;
        let sets_bio = change.bio.is_some();
        let sets_data = change.data.is_some();
        let sets_pinned = change.pinned.is_some();
        let pinned = change.pinned.as_ref().filter(|pinned| !pinned.is_empty()).map(json_text).transpose()?;
        let quotable = change.quotable.filter(|quotable| *quotable != Quotable::Everyone).map(Quotable::as_str);
        let parameters: Parameters<'_> = &[
            &user.as_str(),
            &name,
            &terms,
            &moves,
            &avatar,
            &sets_bio,
            &bio,
            &sets_data,
            &data,
            &sets_pinned,
            &pinned,
            &change.quotable.is_some(),
            &quotable,
        ];
        let rows = self.pool.write(UPDATE, parameters).await?;
        let details = |row| Ok(UserDetails { user: columns::user(row)?, about: about(row, 4)?, locked: at(row, 8)? });
        rows.first().map(details).transpose()
    }

    async fn search_users(&self, prefix: &str, after: Option<(&str, &UserId)>, limit: usize) -> Result<Vec<UserMatch>> {
        let prefix = plain(prefix);
        let Some(end) = past(&prefix) else { return Ok(Vec::new()) };
        let (term, id) = after.map_or((prefix.clone(), ""), |(term, user)| (plain(term), user.as_str()));
        let found = |row: &Row| Ok(UserMatch { user: user(row)?, term: at(row, 4)? });
        self.readable_page("users", SEARCH, &[&prefix, &end, &term, &id], limit, found).await
    }

    async fn second_degree(&self, reader: &UserId, reach: SuggestionLimits) -> Result<Vec<(UserId, u64)>> {
        let followees = count(reach.followees);
        let each = count(reach.each);
        let people = count(reach.people);
        let rows = self.pool.read(SECOND_DEGREE, &[&reader.as_str(), &followees, &each, &people]).await?;
        Ok(readable("follows", &rows, |row| Ok((id_at(row, 0)?, natural_at(row, 1)?))))
    }

    async fn enable_post_alerts(&self, user: &UserId, author: &UserId, now: Millis, most: u64) -> Result<bool> {
        let rows =
            self.pool.write(NOTIFY_OF, &[&user.as_str(), &author.as_str(), &integer(now), &integer(most)]).await?;
        at(one(&rows)?, 0)
    }

    async fn disable_post_alerts(&self, user: &UserId, author: &UserId) -> Result<()> {
        self.pool.write(UNNOTIFY_OF, &[&user.as_str(), &author.as_str()]).await.map(drop)
    }
}

/// Reads the id as first written, and whether the user has an account.
fn origin(row: &Row) -> Result<KnownUser> {
    let origin = if at(row, 1)? { UserOrigin::Account } else { UserOrigin::Application };
    Ok(KnownUser { id: id_at(row, 0)?, origin })
}

/// Reads `bio, data, pinned, quotable`, starting at a column.
fn about(row: &Row, first: usize) -> Result<About> {
    fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>> {
        let parse =
            |text| serde_json::from_str(text).map_err(|error| LedgerError::Failed(format!("a profile: {error}")));
        at::<Option<&str>>(row, column)?.map(parse).transpose()
    }
    let pinned = json(row, first + 2)?.unwrap_or_default();
    let quotable = at::<Option<&str>>(row, first + 3)?.and_then(Quotable::parse).unwrap_or_default();
    Ok(About { bio: at(row, first)?, data: json(row, first + 1)?, pinned, quotable })
}

fn profile(row: &Row) -> Result<Profile> {
    Ok(Profile {
        user: user(row)?,
        about: about(row, 13)?,
        locked: at(row, 17)?,
        followers: natural_at(row, 4)?,
        following: natural_at(row, 5)?,
        posts: natural_at(row, 6)?,
        edges: Edges {
            following: at(row, 7)?,
            followed_by: at(row, 8)?,
            requested: at(row, 18)?,
            requested_by: at(row, 19)?,
            hiding: at(row, 9)?,
            muting: at(row, 10)?,
            blocking: at(row, 11)?,
            notify: at(row, 12)?,
            reposts_off: at(row, 20)?,
        },
    })
}
