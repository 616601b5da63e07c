//! Restrictions between users.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use super::people::user;
use super::rows::{ids_json, user_id_at};
use super::{SqliteLedger, UNLIMITED, integer, jobs, natural, readable, readable_page};
use super::{edges, events, open_requests, relations, topic_follows};
use crate::ledger::{EdgeWork, NewJob, RestrictedAuthor, RestrictedUser, RestrictionStore, Result, job_plan};
use crate::model::{Millis, Relation, Restriction, UserId};

#[async_trait]
impl RestrictionStore for SqliteLedger {
    async fn restrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
    ) -> Result<Option<Vec<NewJob>>> {
        let key = RestrictionKey::new(restriction, maker, target);
        let outlet = self.outlet;
        self.write(move |db| restrict(db, &key, now, None, outlet)).await
    }

    async fn unrestrict(
        &self,
        restriction: Restriction,
        maker: &UserId,
        target: &UserId,
        now: Millis,
    ) -> Result<Option<Vec<NewJob>>> {
        let key = RestrictionKey::new(restriction, maker, target);
        self.write(move |db| unrestrict(db, &key, now, None)).await
    }

    async fn mute(
        &self,
        maker: &UserId,
        target: &UserId,
        now: Millis,
        until: Option<Millis>,
    ) -> Result<Option<Vec<NewJob>>> {
        let key = RestrictionKey::new(Restriction::Mute, maker, target);
        let outlet = self.outlet;
        self.write(move |db| restrict(db, &key, now, until, outlet)).await
    }

    async fn due_mutes(&self, now: Millis, limit: usize) -> Result<Vec<(UserId, UserId)>> {
        self.read(move |db| {
            let sql = "SELECT maker, target FROM restrictions INDEXED BY restrictions_due \
                       WHERE until <= ?1 AND kind = 'mute' ORDER BY until";
            let due = |row: &Row<'_>| Ok((user_id_at(row, 0)?, user_id_at(row, 1)?));
            readable_page("restrictions", db.prepare_cached(sql)?.query([integer(now)])?, limit, due)
        })
        .await
    }

    async fn end_due_mute(&self, maker: &UserId, target: &UserId, now: Millis) -> Result<Option<Vec<NewJob>>> {
        let key = RestrictionKey::new(Restriction::Mute, maker, target);
        self.write(move |db| unrestrict(db, &key, now, Some(now))).await
    }

    async fn restricted(
        &self,
        restriction: Restriction,
        maker: &UserId,
        after: Option<(Millis, &UserId)>,
        limit: usize,
    ) -> Result<Vec<RestrictedUser>> {
        let maker = maker.clone();
        let (at, target) = after.map_or((i64::MAX, String::new()), |(at, target)| (integer(at), target.to_string()));
        self.read(move |db| {
            let wanted = params![maker.as_str(), restriction.as_str(), at, target, UNLIMITED];
            let found = |row: &Row<'_>| Ok(RestrictedUser { user: user(row)?, at: natural(row.get(4)?) });
            readable_page("users", db.prepare_cached(RESTRICTED)?.query(wanted)?, limit, found)
        })
        .await
    }

    async fn relations(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<Relation>> {
        let pairs = pairs.to_vec();
        self.read(move |db| relations::read(db, &pairs)).await
    }

    async fn restricted_authors(&self, authors: &[UserId]) -> Result<Vec<RestrictedAuthor>> {
        let authors = authors.to_vec();
        self.read(move |db| restricted_authors(db, &authors)).await
    }
}

/// The key of a restriction.
pub(super) struct RestrictionKey {
    restriction: Restriction,
    pub(super) maker: UserId,
    pub(super) target: UserId,
}

impl RestrictionKey {
    pub(super) fn new(restriction: Restriction, maker: &UserId, target: &UserId) -> Self {
        Self { restriction, maker: maker.clone(), target: target.clone() }
    }
}

/// Adds a restriction that ends by itself at `until` (`None`: never).
pub(super) fn restrict(
    db: &Connection,
    key: &RestrictionKey,
    now: Millis,
    until: Option<Millis>,
    outlet: bool,
) -> rusqlite::Result<Option<Vec<NewJob>>> {
    let [maker, kind, target] = [key.maker.as_str(), key.restriction.as_str(), key.target.as_str()];
    let until = until.map(integer);
    let sql = "INSERT INTO restrictions (maker, kind, target, at, until) VALUES (?1, ?2, ?3, ?4, ?5) \
               ON CONFLICT DO NOTHING";
    if db.prepare_cached(sql)?.execute(params![maker, kind, target, integer(now), until])? == 0 {
        let sql = "UPDATE restrictions SET until = ?4 WHERE maker = ?1 AND kind = ?2 AND target = ?3";
        db.prepare_cached(sql)?.execute(params![maker, kind, target, until])?;
        return Ok(None);
    }
    let event = job_plan::restriction_event(key.restriction, &key.maker, &key.target);
    events::append(db, event.as_ref(), now, outlet)?;
    let mut made = Vec::new();
    for edge in job_plan::restricted_inboxes(key.restriction, &key.maker, &key.target) {
        if job_plan::ends_follows(key.restriction) {
            open_requests::end(db, &edge, now, outlet)?;
            if edges::end(db, &edge)? {
                edges::tell_of_end(db, &edge, now, outlet)?;
            }
        }
        made.push(jobs::create(db, job_plan::edge_changed(job_plan::detachment(key.restriction), &edge), now)?);
    }
    Ok(Some(made))
}

/// Ends a restriction. `due`: only if it ends by itself, at this time at the latest.
pub(super) fn unrestrict(
    db: &Connection,
    key: &RestrictionKey,
    now: Millis,
    due: Option<Millis>,
) -> rusqlite::Result<Option<Vec<NewJob>>> {
    let sql = "DELETE FROM restrictions \
               WHERE maker = ?1 AND kind = ?2 AND target = ?3 AND (?4 IS NULL OR until <= ?4)";
    let row = params![key.maker.as_str(), key.restriction.as_str(), key.target.as_str(), due.map(integer)];
    if db.prepare_cached(sql)?.execute(row)? == 0 {
        return Ok(None);
    }
    let mut made = Vec::new();
    for edge in job_plan::restricted_inboxes(key.restriction, &key.maker, &key.target) {
        let follows = !edges::followed_among(db, &edge.reader, std::slice::from_ref(&edge.author))?.is_empty();
        let has_lists = key.restriction != Restriction::Listed && topic_follows::has_lists(db, &edge.reader)?;
        if follows || has_lists || topic_follows::has_any(db, &edge.reader)? {
            made.push(jobs::create(db, job_plan::edge_changed(EdgeWork::Follow, &edge), now)?);
        }
    }
    Ok(Some(made))
}

pub(super) const RESTRICTED: &str = "SELECT coalesce(u.handle, u.id), u.name, u.avatar, u.created_at, r.at \
    FROM restrictions r INDEXED BY restrictions_listed CROSS JOIN users u ON u.id = r.target \
    WHERE r.maker = ?1 AND r.kind = ?2 AND (r.at, r.target) < (?3, ?4) ORDER BY r.at DESC, r.target DESC LIMIT ?5";

pub(super) const WITH_RESTRICTIONS: &str = "\
    WITH author AS MATERIALIZED (SELECT DISTINCT value AS id FROM json_each(?1)) \
    SELECT id, EXISTS (SELECT 1 FROM restrictions WHERE maker = author.id AND kind IN ('hide', 'block')) \
            OR EXISTS (SELECT 1 FROM restrictions WHERE target = author.id \
                AND kind IN ('mute', 'block', 'reposts', 'listed')) AS restricted, \
        EXISTS (SELECT 1 FROM users INDEXED BY users_locked WHERE users.id = author.id AND users.locked) AS is_locked \
    FROM author WHERE restricted OR is_locked";

fn restricted_authors(db: &Connection, authors: &[UserId]) -> rusqlite::Result<Vec<RestrictedAuthor>> {
    let restricted = |row: &Row<'_>| {
        Ok(RestrictedAuthor { author: user_id_at(row, 0)?, restricted: row.get(1)?, locked: row.get(2)? })
    };
    readable("restrictions", db.prepare_cached(WITH_RESTRICTIONS)?.query([ids_json(authors)?])?, restricted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, SqliteOptions};

    #[tokio::test]
    async fn relations_are_look_ups_in_indexes() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.expect("it opens");
        for sql in [relations::RELATIONS, WITH_RESTRICTIONS] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = ledger.read(move |db| -> rusqlite::Result<Vec<String>> {
                db.prepare(&explain)?.query_map(["[]"], |row| row.get(3))?.collect()
            });
            for step in plan.await.expect("a plan") {
                let scans = step.starts_with("SCAN") && (step.contains("follows") || step.contains("restrictions"));
                assert!(!scans, "{step} in {sql}");
            }
        }
        ledger.close().await;
    }
}
