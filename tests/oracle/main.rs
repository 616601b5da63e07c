//! The oracle: a model of the feed's rules, and random steps done to it and to the real thing, which must agree.
//!
//! | file | what is in it |
//! |---|---|
//! | `model` | the rules: who is shown what. No sockets, no time |
//! | `acts` | what users do: what it does to the model, how it is asked for |
//! | `steps` | the random choice of what happens next |
//! | `world` | the real thing: processes, stores, sockets, and what goes wrong with them |
//! | `check` | the comparison |
//!
//! Steps are done one after the other. What is exact the moment it is answered is compared then; what is carried by
//! fan-out is compared at quiet points. A round that fails prints its steps and its seed; `FEEDLINE_SEED` repeats it as far
//! as timing lets it. Rounds follow each other for `FEEDLINE_SOAK` seconds; without that there are a few short ones.

mod acts;
#[path = "../support/api.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod api;
mod check;
#[path = "../support/dice.rs"]
mod dice;
mod model;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/postgres.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod postgres_server;
#[path = "../support/reader.rs"]
mod reader;
#[path = "../support/redis.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod redis_server;
#[path = "../support/server.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod server;
mod steps;
mod world;

use std::time::{Duration, Instant};

use dice::Dice;
use steps::Run;
use world::Stores;

/// Steps of a round.
const STEPS: usize = 200;

/// Tells what happened when a round fails.
struct Witness {
    seed: u64,
    run: Run,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, world) = (self.seed, &self.run.world);
            eprintln!("{}", self.run.story.join("\n"));
            eprintln!(
                "FEEDLINE_SEED={seed} repeats it ({:?}, {:?}, fanout.push_limit {})",
                world.stores, world.bounds, world.push_limit
            );
        }
    }
}

/// Rounds with one seed after the other, until the time is over.
async fn agree(stores: Stores) {
    let soak = std::env::var("FEEDLINE_SOAK").ok();
    let soak = soak.map(|seconds| Duration::from_secs(seconds.parse().expect("FEEDLINE_SOAK is in seconds")));
    let (begun, first) = (Instant::now(), Dice::seed());
    for round in 0.. {
        let seed = first.wrapping_add(round);
        let mut witness = Witness { seed, run: Run::new(seed, stores).await };
        witness.run.past().await;
        for _ in 0..STEPS {
            witness.run.step().await;
        }
        witness.run.quiet().await;
        eprintln!("{stores:?}, seed {seed}: {}, after {:?}", witness.run.summary(), begun.elapsed());
        let is_over = soak.map_or(round + 1 >= Dice::rounds(2) as u64, |time| begun.elapsed() >= time);
        if is_over {
            return;
        }
    }
}

#[tokio::test]
async fn a_node_alone_agrees_with_the_model() {
    agree(Stores::Embedded).await;
}

#[tokio::test]
async fn two_nodes_on_one_redis_agree_with_the_model() {
    agree(Stores::RedisAndSqlite).await;
}

#[tokio::test]
async fn a_node_alone_on_postgres_agrees_with_the_model() {
    agree(Stores::Postgres).await;
}

#[tokio::test]
async fn two_nodes_on_one_redis_and_one_postgres_agree_with_the_model() {
    agree(Stores::RedisAndPostgres).await;
}
