//! The oracle: a model of the feed's rules. Random steps run on the model and on real servers, and both must agree.
//!
//! | file | contents |
//! |---|---|
//! | `model` | the visibility rules, without sockets and time |
//! | `posts`, `comment_policy` | posts, and who may see them and comment on them |
//! | `threads`, `marks` | the rules of comments; those of likes and favourites |
//! | `locks` | the rules of locked accounts |
//! | `profiles` | the rules of what users decide in their profiles |
//! | `lists`, `topic_follows` | the rules of lists and of followed topics |
//! | `filters` | the rules of filters |
//! | `reports` | the rules of reports |
//! | `notifications` | the rules of notifications |
//! | `actions`, `requests` | user actions, and their requests |
//! | `expected`, `effects` | the expected status of an action; its effect on the model |
//! | `plan`, `choices` | the random choice of the next step |
//! | `steps`, `settling`, `ends` | the execution of steps |
//! | `world` | the real servers, stores and sockets, and their failures |
//! | `check`, `comments`, `muted`, `notified` | the comparison |
//! | `matrix` | every combination of rules, instead of random steps |
//! | `deliveries` | what the matrix compares beside pages: sockets, devices, the outlet |
//!
//! Steps run one after the other. Data that is exact as soon as a request is answered is compared at once; data that
//! fan-out delivers is compared at quiet points. The seed determines the steps of a round. A failed round prints its
//! steps and the command that repeats it, as far as the timing of stores and nodes permits. Rounds run for
//! `FEEDLINE_SOAK` seconds; without that variable, a few short rounds run.

mod actions;
mod check;
mod choices;
mod comment_policy;
mod comments;
mod deliveries;
mod effects;
mod ends;
mod expected;
mod filters;
mod lists;
mod locks;
mod marks;
mod matrix;
mod model;
mod muted;
mod notifications;
mod notified;
mod plan;
mod posts;
mod profiles;
mod reports;
mod requests;
mod settling;
mod steps;
mod threads;
mod topic_follows;
mod world;

use std::time::{Duration, Instant};

use feedline_test_support::{api, client, postgres_server, random, reader, redis_server, server, webhook};
use plan::Plan;
use random::SeededRandom;
use steps::Run;
use world::Stores;

/// The number of steps per round.
const STEPS: usize = 200;

/// Prints the steps and the command that repeats them if a round fails.
struct Witness {
    test: &'static str,
    seed: u64,
    soaks: bool,
    /// `None` once the round has ended.
    run: Option<Run>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed, .. } = self;
            if let Some(run) = self.run.take() {
                let Run { world, plan, story, .. } = run;
                let how = format!("{:?}, {:?}, fanout.push_limit {}", world.stores, world.bounds, plan.push_limit);
                // The servers print their logs when they are dropped. Print the steps after them.
                drop(world);
                eprintln!("{}\n{how}", story.join("\n"));
            }
            // Only soaks have steps that take long. A soak of length 0 runs a single round.
            let rounds = if self.soaks { "FEEDLINE_SOAK=0" } else { "FEEDLINE_ROUNDS=1" };
            eprintln!("to repeat it: FEEDLINE_SEED={seed} {rounds} cargo test --test oracle {test} -- --nocapture");
        }
    }
}

/// Runs rounds with consecutive seeds until the time is over.
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
        let is_over = soak.map_or(round + 1 >= SeededRandom::rounds(1) as u64, |time| begun.elapsed() >= time);
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
