//! A merged timeline against a model that sorts everything.

use std::collections::{BTreeMap, BTreeSet};

use feedline::ledger::Ledger;
use feedline::model::PostId;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::support::{delete, follow, id, postgres, publish, sqlite, timeline, unfollow, users};

const PEOPLE: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug)]
enum Step {
    Follow(usize, usize),
    Unfollow(usize, usize),
    /// A post with any id: an id assigned earlier may be stored later.
    Post(usize, u64),
    /// Many posts in a row, so that chunks are used up.
    Burst(usize, u64, u64),
    Delete(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let person = || 0..PEOPLE.len();
    prop_oneof![
        4 => (person(), person()).prop_map(|(from, to)| Step::Follow(from, to)),
        1 => (person(), person()).prop_map(|(from, to)| Step::Unfollow(from, to)),
        6 => (person(), 1..500_u64).prop_map(|(author, id)| Step::Post(author, id)),
        1 => (person(), 1..500_u64, 1..60_u64).prop_map(|(author, first, many)| Step::Burst(author, first, many)),
        2 => (1..560_u64).prop_map(Step::Delete),
    ]
}

/// The expected contents of the ledger.
#[derive(Default)]
struct Model {
    follows: BTreeSet<(usize, usize)>,
    /// Every id ever used: the author, and whether the post still exists.
    posts: BTreeMap<u64, (usize, bool)>,
}

impl Model {
    fn timeline(&self, reader: usize) -> Vec<PostId> {
        let shown = |author| author == reader || self.follows.contains(&(reader, author));
        let newest_first = self.posts.iter().rev();
        newest_first.filter(|(_, (author, there))| *there && shown(*author)).map(|(id, _)| PostId(*id)).collect()
    }

    async fn take(&mut self, ledger: &dyn Ledger, step: &Step) {
        match *step {
            Step::Follow(from, to) => {
                let made = follow(ledger, &id(PEOPLE[from]), &id(PEOPLE[to])).await;
                assert_eq!(made, self.follows.insert((from, to)));
            }
            Step::Unfollow(from, to) => {
                let ended = unfollow(ledger, &id(PEOPLE[from]), &id(PEOPLE[to])).await;
                assert_eq!(ended, self.follows.remove(&(from, to)));
            }
            Step::Post(author, number) => self.post(ledger, author, number).await,
            Step::Burst(author, first, many) => {
                for number in first..first + many {
                    self.post(ledger, author, number).await;
                }
            }
            Step::Delete(number) => {
                if let Some((author, there)) = self.posts.get_mut(&number) {
                    assert_eq!(delete(ledger, number, PEOPLE[*author]).await.is_some(), *there);
                    *there = false;
                }
            }
        }
    }

    async fn post(&mut self, ledger: &dyn Ledger, author: usize, number: u64) {
        if let std::collections::btree_map::Entry::Vacant(free) = self.posts.entry(number) {
            publish(ledger, number, PEOPLE[author]).await;
            free.insert((author, true));
        }
    }
}

async fn pages(ledger: &dyn Ledger, reader: usize, limit: usize) -> Vec<PostId> {
    let (mut all, mut before) = (Vec::new(), PostId::MAX);
    loop {
        let page = timeline(ledger, &id(PEOPLE[reader]), before, limit).await;
        assert!(page.len() <= limit);
        all.extend(&page);
        match page.last() {
            Some(last) if page.len() == limit => before = *last,
            _ => return all,
        }
    }
}

async fn agrees(ledger: &dyn Ledger, steps: &[Step], limits: [usize; 3]) -> TestCaseResult {
    users(ledger, &PEOPLE).await;
    let mut model = Model::default();
    for step in steps {
        model.take(ledger, step).await;
    }
    for reader in 0..PEOPLE.len() {
        let expected = model.timeline(reader);
        for limit in limits {
            prop_assert_eq!(&pages(ledger, reader, limit).await, &expected, "reader {}, limit {}", reader, limit);
        }
    }
    ledger.close().await;
    Ok(())
}

fn run(test: impl Future<Output = TestCaseResult>) -> TestCaseResult {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn timeline_pages_hold_every_post_once_in_order(
        steps in prop::collection::vec(step(), 1..120),
        limits in [1..4_usize, 4..30_usize, 30..200_usize],
    ) {
        run(async {
            let (ledger, _folder) = sqlite().await;
            agrees(&*ledger, &steps, limits).await
        })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn timeline_pages_hold_every_post_once_in_order_on_postgres(
        steps in prop::collection::vec(step(), 1..120),
        limits in [1..4_usize, 4..30_usize, 30..200_usize],
    ) {
        run(async { agrees(&*postgres().await, &steps, limits).await })?;
    }
}
