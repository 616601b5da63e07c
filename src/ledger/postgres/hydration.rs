//! What pages of posts show besides the posts, for many readers in one statement.
//!
//! A statement for one page costs PostgreSQL more for its start, with the partitions of three tables, than for the rows
//! of the page. So while [`MAX_RUNNING`] statements are under way, further pages wait, and the next statement serves
//! all that wait. A page alone does not wait. A statement starts after the calls that it serves, so each sees the
//! writes that were committed before it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_postgres::Row;

use super::columns::{at, counts, integer, natural_at, user};
use super::pool::Pool;
use crate::ledger::{Hydration, LedgerError, Result};
use crate::model::{PostCounts, PostFlags, PostId, User, UserId};

/// Statements under way at once.
const MAX_RUNNING: usize = 2;

/// The most pages of one statement.
const MAX_PAGES: usize = 16;

/// Users, counts and flags in rows of one shape: a user, a post, or the place of a flag; the kind of row; counts;
/// flags. `$1` and `$2` are the readers and posts whose flags are wanted, `$3` the posts to count, `$4` the users.
/// Favourites name a post by its id as text.
pub(super) const HYDRATE: &str = "\
    SELECT coalesce(handle, id), name, avatar, created_at, 'person', 0::bigint, 0::bigint, 0::bigint, 0::bigint,
        0::bigint, false, false, false
    FROM users WHERE id = ANY ($4) AND erased_at IS NULL
    UNION ALL
    SELECT '', '', NULL, c.post, 'counts', c.likes, c.comments, c.favourites, c.reposts, c.quotes,
        false, false, false
    FROM unnest($3::bigint[]) AS wanted (post)
    CROSS JOIN LATERAL (SELECT * FROM post_counts WHERE post_counts.post = wanted.post OFFSET 0) c
    UNION ALL
    SELECT '', '', NULL, done.place - 1, 'flags', 0, 0, 0, 0, 0, done.liked, done.favourited, done.muted
    FROM (
        SELECT wanted.place,
               EXISTS (SELECT FROM likes WHERE likes.post = wanted.post AND owner = wanted.reader OFFSET 0) AS liked,
               EXISTS (
                   SELECT FROM favourites
                   WHERE owner = wanted.reader AND type = 'post' AND object = wanted.post::text OFFSET 0
               ) AS favourited,
               EXISTS (
                   SELECT FROM muted_conversations m WHERE m.owner = wanted.reader AND m.post = wanted.post OFFSET 0
               ) AS muted
        FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS wanted (reader, post, place)
    ) done WHERE done.liked OR done.favourited OR done.muted";

/// What one page needs of the ledger.
pub(super) struct HydrationRequest {
    pub(super) reader: Option<UserId>,
    pub(super) posts: Vec<PostId>,
    pub(super) people: Vec<UserId>,
}

/// A page that waits for its statement.
struct WaitingPage {
    content: HydrationRequest,
    result: oneshot::Sender<Result<Hydration>>,
}

/// Combines pages into statements.
#[derive(Default)]
pub(super) struct Hydrator {
    queue: Mutex<PageQueue>,
}

#[derive(Default)]
struct PageQueue {
    waiting: Vec<WaitingPage>,
    /// Statements under way.
    running: usize,
}

impl Hydrator {
    /// Loads what a page shows.
    ///
    /// # Errors
    /// If the statement that serves the page fails.
    pub(super) async fn load(self: &Arc<Self>, pool: &Arc<Pool>, content: HydrationRequest) -> Result<Hydration> {
        let (result, loaded) = oneshot::channel();
        if let Some(mut turn) = self.enqueue(WaitingPage { content, result }) {
            let pool = Arc::clone(pool);
            // A task of its own: the caller may be cancelled, and others wait for the statement.
            tokio::spawn(async move {
                while let Some(pages) = turn.next_pages() {
                    serve(&pool, pages).await;
                }
            });
        }
        loaded.await.map_err(|_| LedgerError::Failed("a page was dropped".to_owned()))?
    }

    /// Adds a page. Returns a turn if a further statement may start.
    fn enqueue(self: &Arc<Self>, page: WaitingPage) -> Option<StatementLoop> {
        let mut queue = self.queue.lock();
        queue.waiting.push(page);
        (queue.running < MAX_RUNNING).then(|| {
            queue.running += 1;
            StatementLoop { hydrator: Arc::clone(self), has_ended: false }
        })
    }
}

/// The right to run statements, one after the other, until no page waits.
struct StatementLoop {
    hydrator: Arc<Hydrator>,
    has_ended: bool,
}

impl StatementLoop {
    /// The pages of the next statement; `None` ends the turn, and a page that comes later starts another.
    fn next_pages(&mut self) -> Option<Vec<WaitingPage>> {
        let mut queue = self.hydrator.queue.lock();
        let count = queue.waiting.len().min(MAX_PAGES);
        if count == 0 {
            queue.running -= 1;
            self.has_ended = true;
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for StatementLoop {
    /// After a panic, or if the runtime stops.
    fn drop(&mut self) {
        if !self.has_ended {
            self.hydrator.queue.lock().running -= 1;
        }
    }
}

/// Runs the statement of some pages.
async fn serve(pool: &Pool, pages: Vec<WaitingPage>) {
    // Callers that gave up wait for nothing.
    let pages: Vec<WaitingPage> = pages.into_iter().filter(|page| !page.result.is_closed()).collect();
    if pages.is_empty() {
        return;
    }
    match load_all(pool, &pages).await {
        Ok(hydrations) => pages.into_iter().zip(hydrations).for_each(|(page, loaded)| _ = page.result.send(Ok(loaded))),
        Err(error) => pages.into_iter().for_each(|page| _ = page.result.send(Err(error.clone()))),
    }
}

async fn load_all(pool: &Pool, pages: &[WaitingPage]) -> Result<Vec<Hydration>> {
    let contents = || pages.iter().map(|page| &page.content);
    let posts: HashSet<PostId> = contents().flat_map(|content| content.posts.iter().copied()).collect();
    let people: HashSet<&UserId> = contents().flat_map(|content| &content.people).collect();
    let mut readers = Vec::new();
    let mut flagged = Vec::new();
    let mut places = Vec::new();
    for (page, content) in contents().enumerate() {
        let Some(reader) = &content.reader else { continue };
        for post in &content.posts {
            readers.push(reader.as_str());
            flagged.push(integer(post.0));
            places.push((page, *post));
        }
    }
    let posts: Vec<i64> = posts.into_iter().map(|post| integer(post.0)).collect();
    let people: Vec<&str> = people.into_iter().map(UserId::as_str).collect();
    let rows = pool.read(HYDRATE, &[&readers, &flagged, &posts, &people]).await?;
    let mut loaded = Loaded::default();
    let mut flags: Vec<Vec<(PostId, PostFlags)>> = vec![Vec::new(); pages.len()];
    for row in &rows {
        if let Some((place, shown)) = loaded.add(row)? {
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let Some((page, post)) = places.get(place) else {
                return Err(LedgerError::Failed(format!("flags at place {place}")));
            };
            flags[*page].push((*post, shown));
        }
    }
    Ok(contents().zip(flags).map(|(content, flags)| loaded.page(content, flags)).collect())
}

/// The rows of a statement.
#[derive(Default)]
struct Loaded {
    people: HashMap<UserId, User>,
    counts: HashMap<PostId, PostCounts>,
}

impl Loaded {
    /// Adds a row. Returns flags with their place.
    fn add(&mut self, row: &Row) -> Result<Option<(u64, PostFlags)>> {
        match at(row, 4)? {
            "person" => {
                let user = user(row)?;
                self.people.insert(user.id.clone(), user);
            }
            "counts" => {
                self.counts.insert(PostId(natural_at(row, 3)?), counts(row, 5)?);
            }
            "flags" => {
                let flags =
                    PostFlags { liked: at(row, 10)?, favourited: at(row, 11)?, muted: at(row, 12)?, can_comment: true };
                return Ok(Some((natural_at(row, 3)?, flags)));
            }
            other => return Err(LedgerError::Failed(format!("a page with {other}"))),
        }
        Ok(None)
    }

    /// The part of one page: each post and user once.
    fn page(&self, content: &HydrationRequest, flags: Vec<(PostId, PostFlags)>) -> Hydration {
        let posts: HashSet<PostId> = content.posts.iter().copied().collect();
        let people: HashSet<&UserId> = content.people.iter().collect();
        Hydration {
            counts: posts.into_iter().filter_map(|post| Some((post, *self.counts.get(&post)?))).collect(),
            flags: flags.into_iter().collect::<HashMap<_, _>>().into_iter().collect(),
            people: people.into_iter().filter_map(|user| self.people.get(user).cloned()).collect(),
        }
    }
}
