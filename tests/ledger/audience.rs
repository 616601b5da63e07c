//! Visible posts of an author per viewer: counts and lists, compared with a check of every single post.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use feedline::ledger::{BulkLoad, Ledger, MAX_HIDDEN, MAX_NAMED};
use feedline::model::{Post, PostId, Restriction, UserId, Visibility};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::{NOW, conformance, delete, edit, follow, id, ids, post, store, unfollow, users};

conformance! {
    audience_counts_follow_every_change
    scans_past_hidden_posts_stop_and_continue
    counts_of_many_restricted_posts_are_lower_bounds
}

const AUTHORS: [&str; 2] = ["ann", "bo"];
/// Some ids equal the name of a visibility.
const PEOPLE: [&str; 5] = ["ann", "bo", "cy", "only_to", "friends"];

/// The expected contents of the ledger.
#[derive(Default)]
struct Model {
    posts: BTreeMap<u64, Post>,
    follows: BTreeSet<(UserId, UserId)>,
    /// Pairs of the hiding user and the target.
    hides: BTreeSet<(UserId, UserId)>,
    last: u64,
}

impl Model {
    fn sees(&self, viewer: Option<&UserId>, post: &Post) -> bool {
        let author = &post.author;
        let Some(viewer) = viewer else {
            return matches!(post.visibility, Visibility::Public | Visibility::NotTo(_));
        };
        let follows = self.follows.contains(&(viewer.clone(), author.clone()));
        let is_followed = self.follows.contains(&(author.clone(), viewer.clone()));
        let may = match &post.visibility {
            Visibility::Public => true,
            Visibility::Followers => follows,
            Visibility::Friends => follows && is_followed,
            Visibility::OnlyTo(names) => follows && names.contains(viewer),
            Visibility::NotTo(names) => !names.contains(viewer),
        };
        viewer == author || (may && !self.hides.contains(&(author.clone(), viewer.clone())))
    }

    /// Compares the results for every pair of users.
    async fn compare(&self, ledger: &dyn Ledger, rng: &mut StdRng, seed: u64) {
        for author in AUTHORS.map(id) {
            for viewer in PEOPLE.map(|viewer| Some(id(viewer))).into_iter().chain([None]) {
                let seen = self.posts.values().rev().filter(|it| it.author == author && self.sees(viewer.as_ref(), it));
                let seen: Vec<PostId> = seen.map(|it| it.id).collect();
                let profile = ledger.profile(&author, viewer.as_ref(), 0).await.unwrap().expect("a user");
                assert_eq!(profile.posts, seen.len() as u64, "of {author} for {viewer:?}, seed {seed}");
                let limit = rng.random_range(1..9);
                assert_eq!(
                    pages(ledger, &author, viewer.as_ref(), limit).await,
                    seen,
                    "{author} {viewer:?}, seed {seed}"
                );
            }
        }
    }
}

/// An author's posts that are visible to a viewer, from all pages.
async fn pages(ledger: &dyn Ledger, author: &UserId, viewer: Option<&UserId>, limit: usize) -> Vec<PostId> {
    let (mut all, mut before) = (Vec::new(), PostId::MAX);
    loop {
        let page = ledger.visible_posts(author, viewer, before, limit).await.expect("a page");
        let (Some(last), true) = (page.posts.last(), page.posts.len() == limit || page.stopped_at.is_some()) else {
            assert!(page.posts.len() < limit);
            all.extend(page.posts);
            return all;
        };
        before = page.stopped_at.unwrap_or(*last);
        all.extend(page.posts);
    }
}

fn some_visibility(rng: &mut StdRng) -> Visibility {
    let count = rng.random_range(1..4);
    let mut named: Vec<UserId> = PEOPLE.sample(rng, count).map(|name| id(name)).collect();
    // The rows are correct even if a post lists a user twice.
    named.extend(named.first().cloned().filter(|_| count == 3));
    match rng.random_range(0..5) {
        0 => Visibility::Public,
        1 => Visibility::Followers,
        2 => Visibility::Friends,
        3 => Visibility::OnlyTo(named),
        _ => Visibility::NotTo(named),
    }
}

async fn audience_counts_follow_every_change<L: BulkLoad + 'static>(ledger: Arc<L>) {
    let seed = rand::random();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = Model::default();
    users(&*ledger, &PEOPLE).await;
    for step in 0..160 {
        let author = id(AUTHORS.choose(&mut rng).expect("an author"));
        let other = id(PEOPLE.choose(&mut rng).expect("one"));
        let known: Vec<u64> = model.posts.keys().copied().collect();
        match (rng.random_range(0..20), known.choose(&mut rng)) {
            (0..3, Some(number)) => {
                let gone = model.posts.remove(number).expect("the post exists");
                delete(&*ledger, *number, gone.author.as_str()).await.expect("a job");
            }
            (3..9, Some(number)) => {
                let changed = model.posts.get_mut(number).expect("the post exists");
                changed.visibility = some_visibility(&mut rng);
                changed.edited_at = Some(NOW + 10_000 + step);
                assert!(!edit(&*ledger, changed).await.is_empty());
            }
            (9..11, _) if author != other => {
                let edge = (other, author);
                if model.follows.remove(&edge) {
                    assert!(unfollow(&*ledger, &edge.0, &edge.1).await);
                } else {
                    assert!(follow(&*ledger, &edge.0, &edge.1).await);
                    model.follows.insert(edge);
                }
            }
            (11, _) if author != other => {
                let pair = (author, other);
                if model.hides.remove(&pair) {
                    ledger
                        .unrestrict(Restriction::Hide, &pair.0, &pair.1, NOW)
                        .await
                        .unwrap()
                        .expect("the post existed");
                } else {
                    ledger
                        .restrict(Restriction::Hide, &pair.0, &pair.1, NOW)
                        .await
                        .unwrap()
                        .expect("the restriction is new");
                    model.hides.insert(pair);
                }
            }
            (12, _) => {
                let mut batch = Vec::new();
                for _ in 0..9 {
                    model.last += 1;
                    let author = AUTHORS.choose(&mut rng).expect("one");
                    batch.push(Post { visibility: some_visibility(&mut rng), ..post(model.last, author, &[]) });
                }
                ledger.load_posts(&batch).await.expect("a load");
                model.posts.extend(batch.into_iter().map(|it| (it.id.0, it)));
            }
            _ => {
                model.last += 1;
                let new = Post { visibility: some_visibility(&mut rng), ..post(model.last, author.as_str(), &[]) };
                store(&*ledger, new.clone()).await.expect("a job");
                // Repeating the call changes nothing.
                assert!(ledger.create_post(&new, None).await.unwrap().is_none());
                model.posts.insert(model.last, new);
            }
        }
        if step % 10 == 9 {
            model.compare(&*ledger, &mut rng, seed).await;
        }
    }
    // One author is erased, in the steps of the job; the posts of the other stay unchanged.
    ledger.begin_erasure(&id("bo"), NOW).await.expect("a tombstone");
    for gone in ledger.author_posts(&id("bo"), PostId::MAX, 9_999).await.unwrap() {
        delete(&*ledger, gone.0, "bo").await.expect("a job");
    }
    while ledger.erase_deleted_posts(&id("bo"), NOW + 99_999, 9).await.unwrap() > 0 {}
    assert!(pages(&*ledger, &id("bo"), Some(&id("cy")), 5).await.is_empty());
    for viewer in ["cy", "only_to"].map(id) {
        let seen = model.posts.values().filter(|it| it.author == id("ann") && model.sees(Some(&viewer), it)).count();
        assert_eq!(pages(&*ledger, &id("ann"), Some(&viewer), 5).await.len(), seen, "seed {seed}");
    }
}

async fn scans_past_hidden_posts_stop_and_continue<L: BulkLoad + 'static>(ledger: Arc<L>) {
    users(&*ledger, &["ann", "bo"]).await;
    let not_to_bo = Visibility::NotTo(ids(&["bo"]));
    // From the newest: a public post, many posts hidden from bo, a post hidden from cy only, and a public post.
    let hidden = MAX_HIDDEN as u64 + 200;
    let of = |number: u64| match number {
        1 | 5_000 => Visibility::Public,
        2 => Visibility::NotTo(ids(&["cy"])),
        _ => not_to_bo.clone(),
    };
    let numbers = [1, 2].into_iter().chain(1_000..1_000 + hidden).chain([5_000]);
    let posts: Vec<Post> = numbers.map(|number| Post { visibility: of(number), ..post(number, "ann", &[]) }).collect();
    ledger.load_posts(&posts).await.expect("a load");
    let look = async |before| ledger.visible_posts(&id("ann"), Some(&id("bo")), before, 9).await.expect("a page");
    let first = look(PostId::MAX).await;
    assert_eq!(first.posts, [PostId(5_000)]);
    let stop = first.stopped_at.expect("the scan stops");
    assert_eq!(stop, PostId(1_200), "{MAX_HIDDEN} were passed");
    let rest = look(stop).await;
    assert_eq!((rest.posts, rest.stopped_at), (vec![PostId(2), PostId(1)], None));
    let own = ledger.visible_posts(&id("ann"), Some(&id("ann")), PostId::MAX, 3).await.unwrap();
    assert_eq!(own.posts, [5_000, 2_199, 2_198].map(PostId), "authors see all of their posts");
    // A page that fills up before the scan limit is complete.
    let page = ledger.visible_posts(&id("ann"), Some(&id("bo")), PostId::MAX, 1).await.unwrap();
    assert_eq!((page.posts, page.stopped_at), (vec![PostId(5_000)], None));
}

async fn counts_of_many_restricted_posts_are_lower_bounds<L: BulkLoad + 'static>(ledger: Arc<L>) {
    users(&*ledger, &["ann", "bo", "cy"]).await;
    follow(&*ledger, &id("bo"), &id("ann")).await;
    let most = MAX_NAMED as u64;
    let of = |number: u64| match number {
        0 => Visibility::Public,
        n if n <= most => Visibility::OnlyTo(ids(&["bo"])),
        n if n <= 2 * most => Visibility::NotTo(ids(&["bo"])),
        _ => Visibility::NotTo(ids(&["cy"])),
    };
    let made = |number: u64| Post { visibility: of(number), ..post(number + 1, "ann", &[]) };
    let posts: Vec<Post> = (0..=2 * most + 5).map(made).collect();
    ledger.load_posts(&posts).await.expect("a load");
    let count = async || ledger.profile(&id("ann"), Some(&id("bo")), 0).await.unwrap().expect("ann").posts;
    assert_eq!(count().await, 1 + most + 5, "exact up to the limit");
    let also = |number: u64, visibility| Post { visibility, ..post(number, "ann", &[]) };
    ledger.load_posts(&[also(9_001, Visibility::OnlyTo(ids(&["bo"])))]).await.expect("a load");
    assert_eq!(count().await, 1 + most + 5);
    ledger.load_posts(&[also(9_002, Visibility::NotTo(ids(&["bo"])))]).await.expect("a load");
    assert_eq!(count().await, 1 + most);
    let profile = ledger.profile(&id("ann"), Some(&id("cy")), 0).await.unwrap().expect("ann");
    assert_eq!(profile.posts, 1 + most + 1, "other viewers are not affected");
}

/// Creates posts of every audience, and checks the profile count for each other user.
async fn every_audience<L: BulkLoad + 'static>(ledger: &L) {
    users(ledger, &PEOPLE).await;
    for fan in ["cy", "only_to"] {
        follow(ledger, &id(fan), &id("ann")).await;
    }
    let names = || ids(&["cy", "friends"]);
    let kinds = [Visibility::Public, Visibility::Followers, Visibility::Friends];
    let named = [Visibility::OnlyTo(names()), Visibility::NotTo(names()), Visibility::NotTo(names())];
    for (number, visibility) in (1..).zip(kinds.into_iter().chain(named)) {
        store(ledger, Post { visibility, ..post(number, "ann", &[]) }).await.expect("a job");
    }
    delete(ledger, 6, "ann").await.expect("a job");
}

async fn counted<L: Ledger>(ledger: &L) -> [u64; 4] {
    let mut counted = [0; 4];
    for (place, viewer) in counted.iter_mut().zip(["bo", "cy", "only_to", "friends"].map(id)) {
        *place = ledger.profile(&id("ann"), Some(&viewer), 0).await.unwrap().expect("ann").posts;
        let listed = pages(ledger, &id("ann"), Some(&viewer), 2).await;
        assert_eq!(listed.len() as u64, *place, "{viewer}");
    }
    counted
}

const COUNTED: [u64; 4] = [2, 3, 3, 1];

async fn audiences_are_counted_and_deleted_with_posts<L: BulkLoad + 'static>(ledger: &L) {
    every_audience(ledger).await;
    assert_eq!(counted(ledger).await, COUNTED);
    for number in 1..=5 {
        delete(ledger, number, "ann").await.expect("a job");
    }
}

const AUDIENCE_ROWS: &str = "SELECT (SELECT count(*) FROM audience_posts) + (SELECT count(*) FROM audience_counts)";

#[tokio::test]
async fn audience_rows_are_deleted_with_posts_on_sqlite() {
    let (ledger, folder) = crate::support::sqlite().await;
    audiences_are_counted_and_deleted_with_posts(&*ledger).await;
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    assert_eq!(raw.query_row(AUDIENCE_ROWS, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    ledger.close().await;
}

#[tokio::test]
async fn audience_rows_are_deleted_with_posts_on_postgres() {
    let (server, name) = crate::support::database().await;
    let ledger = crate::support::open_at(server, &name).await;
    // A visibility that cannot be decoded matches no user, and the post can be deleted.
    server
        .ask(&name, "INSERT INTO posts (id, author, topics, visibility, body) VALUES (99, 'bo', '{}', '{broken', '')")
        .await;
    audiences_are_counted_and_deleted_with_posts(&*ledger).await;
    server.ask(&name, "DELETE FROM posts WHERE id = 99").await;
    let rows: i64 = server.client(&name).await.query_one(AUDIENCE_ROWS, &[]).await.unwrap().get(0);
    assert_eq!(rows, 0);
    ledger.close().await;
}
