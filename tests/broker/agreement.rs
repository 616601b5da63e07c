//! Whatever is done to an inbox, both brokers make the same of it.

use feedline::model::{Entry, GoneReason, PostId};
use proptest::prelude::*;

use crate::engine::{Engine, ids, post, user};

/// Something done to an inbox; ids are small so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Fan(Entry),
    /// Posts, and the least floor.
    Merge(Vec<u64>, u64),
    Purge(Vec<u64>),
    Fill(Vec<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || prop::collection::btree_set(1..120_u64, 0..20).prop_map(|ids| ids.into_iter().collect::<Vec<_>>());
    let step = prop_oneof![
        12 => (1..120_u64).prop_map(|id| Step::Fan(post(id))),
        6 => (60..4000_u64).prop_map(|id| Step::Fan(post(id))),
        2 => (1..120_u64).prop_map(|id| Step::Fan(Entry::Edited(PostId(id)))),
        2 => (1..120_u64).prop_map(|id| Step::Fan(Entry::Gone(PostId(id), GoneReason::Deleted))),
        2 => (1..120_u64).prop_map(|id| Step::Fan(Entry::Gone(PostId(id), GoneReason::Hidden))),
        3 => (some(), prop_oneof![2 => Just(0), 1 => 1..120_u64]).prop_map(|(some, floor)| Step::Merge(some, floor)),
        1 => some().prop_map(Step::Purge),
        1 => some().prop_map(Step::Fill),
    ];
    prop::collection::vec(step, 1..300)
}

/// Does the steps to a new inbox and tells all that came of them.
async fn do_all(engine: &Engine, name: &str, steps: &[Step]) -> Vec<String> {
    let ann = user(name);
    let epoch = engine.open_unfilled(&ann).await;
    let mut came = Vec::new();
    for step in steps {
        came.push(match step {
            Step::Fan(entry) => format!("{:?}", engine.fan(&ann, entry.clone()).await),
            Step::Merge(some, floor) => {
                format!("{:?}", engine.broker.merge_inbox(&ann, &ids(some), PostId(*floor)).await)
            }
            Step::Purge(some) => format!("{:?}", engine.broker.purge_inbox(&ann, &ids(some), GoneReason::Hidden).await),
            Step::Fill(some) => format!("{:?}", engine.fill(&ann, &epoch, some, 5).await.map(|it| it.offset)),
        });
        let inbox = engine.broker.read_inbox(&ann).await.unwrap();
        came.push(format!("{:?}", inbox.map(|it| (it.top.offset, it.floor, it.entries))));
    }
    came
}

/// Two engines that share no line of code do the same, whatever is done to an inbox.
///
/// The seed is another one each time; what fails is told with the fewest steps that make it fail.
#[test]
fn both_brokers_agree_on_inboxes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let redis = runtime.block_on(Engine::redis());
    let memory = Engine::memory();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 48,
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let agreed = runner.run(&steps(), |steps| {
        let name = format!("u{}", rand::random::<u64>());
        let theirs = runtime.block_on(do_all(&redis, &name, &steps));
        let ours = runtime.block_on(do_all(&memory, &name, &steps));
        for (at, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
            prop_assert_eq!(theirs, ours, "after {:?}", steps[at / 2]);
        }
        Ok(())
    });
    agreed.unwrap();
}
