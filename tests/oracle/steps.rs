//! A run: what happens next is chosen at random, done to the real thing and to the model, and compared.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::acts::{Act, Has, choose};
use crate::check::{self, Verdict, get, is_passing};
use crate::dice::Dice;
use crate::model::{Mark, Model, USERS, User};
use crate::server::PATIENCE;
use crate::world::{Bounds, Stores, World};

/// How long after everything is healed readers may take: longer than nodes wait until they compare their positions with
/// the logs although nothing seems wrong.
const SETTLING: Duration = Duration::from_secs(45);

/// Somebody who reads their timeline page by page, while things happen.
struct Walk {
    reader: User,
    limit: usize,
    cursor: String,
    read: Vec<u64>,
    /// What was there when they began, and still is.
    must: BTreeSet<u64>,
}

/// A world, its model, and what happened so far.
pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) story: Vec<String>,
    model: Model,
    dice: Dice,
    has: Has,
    walks: Vec<Walk>,
    written: usize,
    /// What was ever in somebody's timeline.
    ever: BTreeSet<(User, u64)>,
    walked: usize,
    crashes: usize,
}

impl Run {
    pub(crate) async fn new(seed: u64, stores: Stores) -> Self {
        let bounds = if seed.is_multiple_of(2) { Bounds::Wide } else { Bounds::Narrow };
        let mut dice = Dice::new(seed);
        Self {
            world: World::new(stores, bounds, &mut dice).await,
            story: Vec::new(),
            model: Model::default(),
            dice,
            has: Has::look(),
            walks: Vec::new(),
            written: 0,
            ever: BTreeSet::new(),
            walked: 0,
            crashes: 0,
        }
    }

    /// What was written before anything is compared: more than a narrow inbox keeps.
    pub(crate) async fn past(&mut self) {
        let many = if self.world.bounds == Bounds::Narrow { 260 } else { 20 };
        for _ in 0..many {
            self.act().await;
        }
    }

    pub(crate) fn summary(&self) -> String {
        let sockets = self.world.readers.iter().fold((0, 0), |(recovered, anew), reader| {
            reader.look(|view| (recovered + view.recovered, anew + view.anew))
        });
        let (posts, deleted) = (self.model.posts.len(), self.model.deleted.len());
        let (walked, crashes) = (self.walked, self.crashes);
        format!(
            "{posts} posts, {deleted} deleted, {walked} walks, {crashes} crashes; sockets recovered {} times, began anew {}",
            sockets.0, sockets.1
        )
    }

    pub(crate) async fn step(&mut self) {
        match self.dice.below(100) {
            0..60 => self.act().await,
            60..68 => self.come_or_go(),
            68..86 => self.turn_a_page().await,
            86..90 => self.crash().await,
            90..94 => self.trouble_redis(),
            94..97 => self.quiet().await,
            _ => tokio::time::sleep(Duration::from_millis(self.dice.below(100) as u64)).await,
        }
        self.look().await;
    }

    fn choose(&mut self) -> Act {
        self.written += 1;
        choose(&mut self.dice, &self.model, self.has, self.written)
    }

    async fn act(&mut self) {
        let act = self.choose();
        self.wait_for_news(&act).await;
        let answer = self.world.ask(&act.call()).await;
        self.note(&act, answer).await;
    }

    /// Where another node may have done what this one did not hear of yet, somebody who does something with a post sees
    /// soon whether it is there for them.
    async fn wait_for_news(&self, act: &Act) {
        let (Some(id), true) = (act.post(), self.world.is_blurred) else { return };
        let until = Instant::now() + SETTLING;
        while let Err(difference) = check::post(self.world.home(), &self.model, act.by(), id).await {
            assert!(Instant::now() < until, "before {act:?}: {difference}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn crash(&mut self) {
        let act = self.choose();
        self.wait_for_news(&act).await;
        let after = Duration::from_micros(self.dice.below(6_000) as u64);
        self.story.push(format!("node {} is killed {after:?} after", self.world.home));
        let answer = self.world.crash(&act.call(), after).await;
        self.crashes += 1;
        self.note(&act, answer).await;
    }

    /// What was answered has happened. If nothing was, it is found out what became of it.
    async fn note(&mut self, act: &Act, (status, body): (u16, Value)) {
        self.story.push(format!("{act:?}: {status} {}", body["id"]));
        if is_passing(status) {
            self.find_out(act).await;
        } else {
            let expected = act.expected(&self.model);
            assert!(status == expected || on_trust(act, status), "{act:?}: {status} {body}, not {expected}");
            if expected < 300 {
                act.apply(&mut self.model, &body, true);
                self.settle(act).await;
                self.look_at_once(act).await;
            }
        }
        for reader in USERS {
            self.ever.extend(self.model.timeline(reader).into_iter().map(|id| (reader, id)));
        }
        for walk in &mut self.walks {
            walk.must.retain(|id| self.model.shows(walk.reader, *id));
        }
    }

    /// What a post says, and that it is gone, shows with the answer at the node that gave it.
    async fn look_at_once(&mut self, act: &Act) {
        let reader = *self.dice.pick(&USERS);
        if let (Some(id), false) = (act.post(), self.world.is_blurred) {
            let seen = check::post(self.world.home(), &self.model, reader, id).await;
            seen.unwrap_or_else(|difference| panic!("right after {act:?}: {difference}"));
        }
    }

    /// A like is acknowledged, and settled soon. The next step comes after that, or what it does would decide whether the
    /// like may be settled.
    async fn settle(&self, act: &Act) {
        let Act::Mark { mark: Mark::Like, by, id, on } = act else { return };
        let until = Instant::now() + PATIENCE;
        loop {
            let (status, post) = get(self.world.home(), by, &format!("/posts/{id}")).await;
            if post["liked"] == *on {
                return;
            }
            assert!(Instant::now() < until, "{act:?} is not settled: {status} {post}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn find_out(&mut self, act: &Act) {
        if let Some((path, text)) = act.listed() {
            if act.expected(&self.model) >= 300 {
                return;
            }
            let until = Instant::now() + self.world.stores.aftermath();
            loop {
                let theirs = check::pages(self.world.home(), act.by(), &path, 50).await.expect("what one made oneself");
                if let Some(found) = theirs.iter().find(|item| item["text"] == *text) {
                    self.story.push(format!("it happened: {}", found["id"]));
                    act.apply(&mut self.model, found, false);
                    return;
                }
                if Instant::now() >= until {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let (status, body) = self.world.ask(&act.call()).await;
            if !is_passing(status) {
                self.story.push(format!("asked again: {status}"));
                let expected = act.expected(&self.model);
                let is_gone = act.takes_away() && status == 404;
                let is_right = status == expected || is_gone || on_trust(act, status);
                assert!(is_right, "{act:?} again: {status} {body}, not {expected}");
                if expected < 300 {
                    act.apply(&mut self.model, &body, false);
                    self.settle(act).await;
                }
                return;
            }
            assert!(Instant::now() < until, "{act:?}: {status} {body} for {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn come_or_go(&mut self) {
        let user = *self.dice.pick(&USERS);
        let node = self.dice.below(self.world.nodes.len());
        let reader = self.world.reader(user);
        let leaves = reader.is_going() && self.dice.below(3) == 0;
        reader.go((!leaves).then(|| self.world.nodes[node].port()));
        self.story.push(if leaves { format!("{user} leaves") } else { format!("{user} comes to node {node}") });
        // Away for long, the inbox is let go.
        if leaves && self.dice.below(2) == 0 {
            self.world.let_inbox_go(user);
            self.story.push(format!("the inbox of {user} goes"));
        }
    }

    fn trouble_redis(&mut self) {
        if self.world.redis.is_none() {
            return;
        }
        let soaking = std::env::var_os("FEEDLINE_SOAK").is_some();
        match self.dice.below(3) {
            0 => {
                self.story.push("redis comes back empty".to_owned());
                self.world.restart_redis();
            }
            // To find out by themselves takes nodes longer than a short run has.
            told => {
                let told = told == 1 || !soaking;
                self.story.push(format!("redis is flushed, told: {told}"));
                self.world.flush(told);
            }
        }
    }

    async fn turn_a_page(&mut self) {
        if self.walks.len() < 3 {
            let (reader, limit) = (*self.dice.pick(&USERS), *self.dice.pick(&[1, 2, 5, 9]));
            let must = self.model.arrived(reader);
            self.walks.push(Walk { reader, limit, cursor: String::new(), read: Vec::new(), must });
        }
        let at = self.dice.below(self.walks.len());
        for _ in 0..1 + self.dice.below(6) {
            let walk = &mut self.walks[at];
            let (reader, limit) = (walk.reader, walk.limit);
            let path = format!("/timeline?limit={limit}{}", walk.cursor);
            let (status, page) = get(self.world.home(), reader, &path).await;
            let items = page["items"].as_array().unwrap_or_else(|| panic!("{path} for {reader}: {status} {page}"));
            let ids: Vec<u64> = items.iter().map(|item| item["id"].as_u64().expect("an id")).collect();
            self.story.push(format!("{reader} reads {ids:?} at {path}"));
            let leaked: Vec<_> = ids.iter().filter(|id| !self.model.shows(reader, **id)).collect();
            assert!(leaked.is_empty() || self.world.is_blurred, "{reader} was shown {leaked:?}");
            assert!(ids.len() <= limit, "{} items on a page of {limit}", ids.len());
            walk.read.extend(ids);
            assert!(walk.read.is_sorted_by(|a, b| a > b), "out of order, or one twice: {:?}", walk.read);
            match page["next"].as_str() {
                Some(next) => walk.cursor = format!("&cursor={next}"),
                None => {
                    let lost: Vec<_> = walk.must.iter().filter(|id| !walk.read.contains(id)).collect();
                    assert!(lost.is_empty(), "{reader} read to the end and missed {lost:?}");
                    self.walked += 1;
                    self.walks.swap_remove(at);
                    return;
                }
            }
        }
    }

    /// Looks at something that must be so at once; where another node may have done what this one did not hear of, soon.
    async fn look(&mut self) {
        let until = Instant::now() + if self.world.is_blurred { SETTLING } else { Duration::ZERO };
        loop {
            let seen = check::look(&self.world, &self.model, &mut self.dice, self.has).await;
            let Err(difference) = seen else { return };
            assert!(Instant::now() < until, "{difference}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Nothing is done for as long as it takes until everything that is under way has arrived, everywhere.
    pub(crate) async fn quiet(&mut self) {
        self.story.push("quiet".to_owned());
        let until = Instant::now() + SETTLING;
        while let Err(difference) = check::everything(&self.world, &self.model, self.has).await {
            assert!(Instant::now() < until, "{difference}, {SETTLING:?} after the last step");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for user in USERS {
            let patience = until.saturating_duration_since(Instant::now()).max(Duration::from_secs(5));
            let seen: Verdict = check::socket(&self.world, &self.model, user, &self.ever, patience).await;
            seen.unwrap_or_else(|difference| panic!("{difference}"));
        }
        self.model.all_arrived();
        self.world.is_blurred = false;
        self.world.home = self.dice.below(self.world.nodes.len());
    }
}

/// While the ledger is slow likes are taken without a look, and taken back when they are settled.
fn on_trust(act: &Act, status: u16) -> bool {
    matches!(act, Act::Mark { mark: Mark::Like, .. }) && status == 200
}
