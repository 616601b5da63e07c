//! The oracle: a model of the feed's rules, and random steps done to it and to the real thing, which must agree.
//!
//! | file | what is in it |
//! |---|---|
//! | `model` | the rules: who is shown what. No sockets, no time |
//! | `threads` | the rules of comments |
//! | `actions` | what users do: what it does to the model, how it is asked for |
//! | `plan`, `choices` | the random choice of what happens next |
//! | `steps` | doing it |
//! | `world` | the real thing: processes, stores, sockets, and what goes wrong with them |
//! | `check`, `under` | the comparison |
//!
//! Steps are done one after the other. What is exact the moment it is answered is compared then; what is carried by
//! fan-out is compared at quiet points. What a round does is a function of its seed: a round that fails prints its
//! steps and the command that does the same again, as far as the timing of stores and nodes lets it. Rounds follow each
//! other for `FEEDLINE_SOAK` seconds; without that there are a few short ones.

mod actions;
mod check;
mod choices;
mod comments;
mod model;
mod plan;
mod steps;
mod threads;
mod world;

use std::time::{Duration, Instant};

use feedline_test_support::{api, postgres_server, random, reader, redis_server, server};
use plan::Plan;
use random::SeededRandom;
use steps::Run;
use world::Stores;

/// Steps of a round.
const STEPS: usize = 200;

/// Tells what happened when a round fails.
struct Witness {
    test: &'static str,
    seed: u64,
    soaks: bool,
    /// `None` when it is over.
    run: Option<Run>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed, .. } = self;
            if let Some(run) = self.run.take() {
                let Run { world, plan, story, .. } = run;
                let how = format!("{:?}, {:?}, fanout.push_limit {}", world.stores, world.bounds, plan.push_limit);
                // The servers tell their logs when they go: what matters comes after that.
                drop(world);
                eprintln!("{}\n{how}", story.join("\n"));
            }
            // A soak has steps that a short run has no time for; one of no length has a single round.
            let rounds = if self.soaks { "FEEDLINE_SOAK=0" } else { "FEEDLINE_ROUNDS=1" };
            eprintln!("to repeat it: FEEDLINE_SEED={seed} {rounds} cargo test --test oracle {test} -- --nocapture");
        }
    }
}

/// Rounds with one seed after the other, until the time is over.
async fn agree(test: &'static str, stores: Stores) {
    let soak = std::env::var("FEEDLINE_SOAK").ok();
    let soak = soak.map(|seconds| Duration::from_secs(seconds.parse().expect("FEEDLINE_SOAK is in seconds")));
    let (begun, first, soaks) = (Instant::now(), SeededRandom::seed(), soak.is_some());
    for round in 0.. {
        let seed = first.wrapping_add(round);
        let run = Run::new(Plan::new(seed, stores, soaks), stores).await;
        let mut witness = Witness { test, seed, soaks, run: Some(run) };
        let run = witness.run.as_mut().expect("it has just begun");
        run.past().await;
        for _ in 0..STEPS {
            run.step().await;
        }
        run.quiet().await;
        eprintln!("{stores:?}, seed {seed}: {}, after {:?}", run.summary(), begun.elapsed());
        let is_over = soak.map_or(round + 1 >= SeededRandom::rounds(2) as u64, |time| begun.elapsed() >= time);
        if is_over {
            return;
        }
    }
}

macro_rules! tests {
    ($($test:ident: $stores:ident;)*) => {
        $(#[tokio::test]
        async fn $test() {
            agree(stringify!($test), Stores::$stores).await;
        })*
    };
}

tests! {
    a_node_alone_agrees_with_the_model: Embedded;
    two_nodes_on_one_redis_agree_with_the_model: RedisAndSqlite;
    a_node_alone_on_postgres_agrees_with_the_model: Postgres;
    two_nodes_on_one_redis_and_one_postgres_agree_with_the_model: RedisAndPostgres;
}
