//! Readers, authors and posts: a ledger like that of an application after some time of use.

use anyhow::{Context as _, Result};
use feedline::model::{Post, PostId, UserId, Visibility};

use super::context::BenchContext;
use super::ledger;
use super::seed;

/// The number of authors.
const AUTHORS: usize = 1_000;
/// Authors that each reader follows.
pub(super) const FOLLOWEES: usize = 300;
/// Posts of each author. A reader's timeline has [`FOLLOWEES`] times as many.
const POSTS: usize = 60;
/// Characters of a post.
pub(super) const TEXT: usize = 200;
/// Milliseconds between two posts.
const POST_INTERVAL_MS: u64 = 1_000;

/// The name of an author.
pub(super) fn author(n: usize) -> String {
    format!("a{:04}", n % AUTHORS)
}

/// Fills a ledger before its server starts.
pub(super) async fn load(bench: &BenchContext, ledger: &str, readers: usize) -> Result<()> {
    let ledger = ledger::open(ledger).await?;
    let id = |name: String| UserId::parse(&name).context("a name that is no id");
    let authors: Vec<UserId> = (0..AUTHORS).map(|n| id(author(n))).collect::<Result<_>>()?;
    let people: Vec<UserId> = (0..readers).map(|n| id(seed::user(n))).collect::<Result<_>>()?;
    let now = feedline::feed::now();
    bench.bar.set_message(format!("{readers} people, {AUTHORS} authors"));
    ledger.load_users(&authors, now).await?;
    ledger.load_users(&people, now).await?;

    bench.bar.set_message(format!("{} edges", readers * FOLLOWEES));
    bench.start_progress(readers);
    for (n, person) in people.iter().enumerate() {
        // Each reader has another stride, so that no two have the same timeline.
        let followees = (0..FOLLOWEES).map(|step| authors[(n * 7 + step * 3) % AUTHORS].clone());
        let edges: Vec<(UserId, UserId)> = followees.map(|author| (person.clone(), author)).collect();
        ledger.load_follows(&edges, now).await?;
        bench.bar.inc(1);
    }

    bench.bar.set_message(format!("{} posts", AUTHORS * POSTS));
    bench.start_progress(POSTS);
    let begin = now - (AUTHORS * POSTS) as u64 * POST_INTERVAL_MS;
    for round in 0..POSTS {
        let written = authors.iter().enumerate().map(|(n, author)| {
            let at = begin + (round * AUTHORS + n) as u64 * POST_INTERVAL_MS;
            post(PostId::from_parts(at, 0, 0), author)
        });
        ledger.load_posts(&written.collect::<Vec<_>>()).await?;
        bench.bar.inc(1);
    }
    ledger.close().await;
    Ok(())
}

/// A post of an author, at the time of its id.
pub(super) fn post(id: PostId, author: &UserId) -> Post {
    Post {
        id,
        author: author.clone(),
        text: "x".repeat(TEXT),
        media: Vec::new(),
        location: None,
        topics: Vec::new(),
        mentions: Vec::new(),
        platform: None,
        visibility: Visibility::Public,
        data: None,
        created_at: id.time(),
        edited_at: None,
    }
}
