//! A run: applies each step of the plan to the real servers and to the model, and compares the results.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::actions::Act;
use crate::check::{self, Verdict, get, is_passing};
use crate::ends::LASTING;
use crate::filters::FilterContext;
use crate::model::{Mark, Model, Post, USERS, User};
use crate::plan::{Deed, How, Plan, Step};
use crate::random::SeededRandom;
use crate::reader::Arrival;
use crate::requests::Call;
use crate::world::{Stores, World};

/// The longest time until readers are up to date after all failures are repaired. It is longer than the interval at
/// which nodes compare their positions with the logs.
pub(crate) const SETTLING: Duration = Duration::from_secs(45);

/// The longest time until another node applies an invalidation. Without invalidations, a node would use its cache for
/// 30 s.
const INVALIDATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A user who reads their timeline page by page during writes.
struct PagedRead {
    reader: User,
    limit: usize,
    cursor: String,
    read: Vec<u64>,
    /// The posts that were in the timeline at the start of the read and have not left it.
    must: BTreeSet<u64>,
}

/// A write with an idempotency key, and its response.
struct Named {
    call: Call,
    status: u16,
    body: Value,
}

/// The servers, their model, and the state of the run.
pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) plan: Plan,
    pub(crate) story: Vec<String>,
    pub(crate) model: Model,
    /// The real ids of the objects that the plan numbers from 1.
    ids: Vec<u64>,
    named: Vec<Named>,
    walks: Vec<PagedRead>,
    /// All posts that were in a user's timeline at any time.
    ever: BTreeSet<(User, u64)>,
    /// Reposts that a user's timeline did not show at some time. Nobody pushes what they become.
    hidden_once: BTreeSet<(User, u64)>,
    /// The posts that belong in timelines, each with whether the reader's filters hide it.
    filtered: BTreeMap<(User, u64), bool>,
    filtered_once: BTreeSet<(User, u64)>,
    /// Posts that filters hid or showed at some time because of a change elsewhere: of what they name, or of their
    /// text, if it has no word any more. Pages have them as they are, and nobody pushes it.
    untold: BTreeSet<(User, u64)>,
    /// When a post left a user's timeline.
    lost: BTreeMap<(User, u64), Instant>,
    /// Whether a node may have missed an invalidation because Redis was down.
    is_deaf: bool,
    walked: usize,
    crashes: usize,
    quiets: usize,
}

impl Run {
    pub(crate) async fn new(plan: Plan, stores: Stores) -> Self {
        Self {
            world: World::new(stores, plan.bounds, plan.push_limit).await,
            plan,
            story: Vec::new(),
            model: Model::default(),
            ids: Vec::new(),
            named: Vec::new(),
            walks: Vec::new(),
            ever: BTreeSet::new(),
            hidden_once: BTreeSet::new(),
            filtered: BTreeMap::new(),
            filtered_once: BTreeSet::new(),
            untold: BTreeSet::new(),
            lost: BTreeMap::new(),
            is_deaf: false,
            walked: 0,
            crashes: 0,
            quiets: 0,
        }
    }

    /// Runs the steps that precede the first comparison.
    pub(crate) async fn past(&mut self) {
        for step in self.plan.past() {
            // Immediate effects are checked by different users.
            let mut looks = SeededRandom::new(self.story.len() as u64);
            self.take(step, &mut looks).await;
        }
    }

    pub(crate) async fn step(&mut self) {
        let (step, mut looks) = self.plan.next();
        self.take(step, &mut looks).await;
        self.look(&mut looks).await;
    }

    pub(crate) fn summary(&self) -> String {
        let sockets = self.world.readers.iter().fold((0, 0), |(recovered, anew), reader| {
            reader.look(|view| (recovered + view.recovered, anew + view.anew))
        });
        let (posts, deleted) = (self.model.posts.len(), self.model.deleted.len());
        let (walked, crashes) = (self.walked, self.crashes);
        let reposts = self.model.posts.values().filter(|post| post.repost.is_some()).count();
        let hidden = self.hidden_once.len();
        let filtered = self.filtered_once.len();
        let filters = self.model.filters.len();
        let notified: usize = USERS.iter().map(|user| self.model.app_notifications(user).len()).sum();
        format!(
            "{posts} posts with {reposts} reposts ({hidden} hidden once), {deleted} deleted, {filters} filters \
             ({filtered} posts hidden from readers), {notified} notified, {walked} walks, {crashes} crashes; \
             sockets recovered {} times, began anew {}",
            sockets.0, sockets.1
        )
    }

    async fn take(&mut self, step: Step, looks: &mut SeededRandom) {
        self.look_at_what_was_brought();
        self.story.push(format!("{step:?}"));
        self.is_deaf |= matches!(step, Step::LoseRedis { .. }) && self.world.redis.is_some();
        match step {
            Step::Do(deed) => self.act(deed, looks).await,
            Step::Repeat { write, node } => self.repeat(write, node).await,
            Step::Misuse { write, text } => self.misuse(write, &text).await,
            Step::Go { user, node, lets_inbox_go } => {
                self.world.reader(user).go(node.map(|node| self.world.nodes[node].port()));
                if lets_inbox_go {
                    self.world.let_inbox_go(user);
                }
            }
            Step::Read => self.next_page(looks).await,
            Step::LoseRedis { restart: true, .. } => self.world.restart_redis(),
            Step::LoseRedis { received, .. } => self.world.flush(received),
            Step::Quiet { home } => {
                self.quiet().await;
                self.world.home = home;
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
        }
    }

    async fn act(&mut self, deed: Deed, looks: &mut SeededRandom) {
        let Deed { act, key, how } = deed;
        let is_named = key.is_some();
        let act = act.renamed(|number| self.ids[usize::try_from(number).expect("a small number") - 1]);
        self.wait_for_update(&act).await;
        if let Act::Suspend { user, on: true } | Act::SuspendBriefly { user } = act {
            self.world.reader(user).go(None);
        }
        let begun = Instant::now();
        let call = act.call(key);
        let (status, body) = match how {
            How::Once => self.world.ask(&call).await,
            How::AlsoAt(node) => self.ask_two(&call, node).await,
            How::Killed(moment, after) => {
                self.crashes += 1;
                self.world.crash(&call, moment, after).await
            }
        };
        self.story.push(format!("    {status} {}", body["id"]));
        let expected = act.expected(&self.model);
        let is_first = !is_passing(status, &body);
        let (status, body) = if is_first { (status, body) } else { self.ask_again(&act, &call, expected).await };
        let is_gone = !is_first && (status == if is_named { 200 } else { 404 }) && act.takes_away();
        let is_right = status == expected || is_gone || on_trust(&act, status);
        assert!(is_right, "{act:?}: {status} {body}, not {expected}");
        if expected < 300 {
            let answer = act.answer();
            assert!(answer.is_none_or(|answer| body == answer), "{act:?}: {body}");
            let made = act.creates(&self.model).then(|| body["id"].as_u64().expect("an id"));
            self.ids.extend(made);
            act.apply(&mut self.model, made, is_first);
            self.settle(&act).await;
            if let Act::Suspend { on: false, .. } | Act::Limit { .. } = act {
                self.world.reload_readers(&USERS).await;
            }
            if act.is_of_filter() {
                // Clients reload the timeline after `filters.changed`.
                self.world.reload_readers(&[act.by()]).await;
            }
            if act.has_end() {
                self.look_before_the_end(&act, begun, looks).await;
                self.remember(&act);
                self.outlast(&act).await;
            }
            self.look_at_once(&act, looks).await;
        }
        if is_named {
            self.named.push(Named { call, status, body });
        }
        self.remember(&act);
    }

    /// Records which posts are in timelines now, and which have left.
    fn remember(&mut self, act: &Act) {
        self.remember_filtered(act);
        let shown = self.filtered.iter().filter(|(_, is_hidden)| !**is_hidden);
        self.ever.extend(shown.map(|(of, _)| *of));
        for reader in USERS {
            self.hidden_once.extend(self.model.hidden_reposts(reader).map(|id| (reader, id)));
        }
        let (model, now) = (&self.model, Instant::now());
        self.lost.retain(|(reader, id), _| !model.shows(reader, *id));
        for (reader, id) in self.ever.iter().filter(|(reader, id)| !model.shows(reader, *id)) {
            self.lost.entry((reader, *id)).or_insert(now);
        }
        for walk in &mut self.walks {
            walk.must.retain(|id| self.model.shows(walk.reader, *id));
        }
    }

    /// Records the posts that filters hide in timelines, and the changes of that which are not pushed.
    fn remember_filtered(&mut self, act: &Act) {
        let model = &self.model;
        let is_hidden = |reader: User, post: &Post| model.is_filtered(reader, post, FilterContext::Home);
        let mut now = BTreeMap::new();
        for reader in USERS {
            let here = model.posts.iter().filter(|(id, _)| model.belongs(reader, **id));
            now.extend(here.map(|(id, post)| ((reader, *id), is_hidden(reader, post))));
        }
        // An edit takes a post away whose text has a word now. A change of filters lets the client reload.
        let is_told = |(reader, id): &(User, u64), hides: bool| {
            let is_edit = matches!(act, Act::Edit { id: edited, .. } if edited == id);
            (hides && is_edit) || (act.is_of_filter() && act.by() == *reader)
        };
        let changed = now.iter().filter(|(of, hides)| self.filtered.get(*of).is_some_and(|before| before != *hides));
        let untold = changed.filter(|(of, hides)| !is_told(of, **hides)).map(|(of, _)| *of);
        self.untold.extend(untold);
        if act.is_of_filter() {
            self.untold.retain(|(reader, _)| *reader != act.by());
        }
        self.filtered_once.extend(now.iter().filter(|(_, is_hidden)| **is_hidden).map(|(of, _)| *of));
        self.filtered = now;
    }

    /// Checks that recovered posts were visible to the reader when the recovery was requested.
    fn look_at_what_was_brought(&self) {
        for user in USERS {
            let arrivals = self.world.reader(user).look(|view| std::mem::take(&mut view.arrivals));
            for Arrival { asked, post } in arrivals {
                let since = self.lost.get(&(user, post)).filter(|since| asked.into_std() > **since);
                let is_right = since.is_none() || self.world.is_blurred || self.is_deaf;
                assert!(
                    is_right,
                    "{user} received {post} {:?} after it was not for them any more",
                    since.map(Instant::elapsed)
                );
            }
        }
    }

    /// Sends one write to the home node and to `node` at the same time. Both must give the same answer.
    async fn ask_two(&mut self, call: &Call, node: usize) -> (u16, Value) {
        let (one, other) = tokio::join!(self.world.ask(call), self.world.ask_at(node, call));
        // The other node may have done the write.
        self.world.is_blurred |= node != self.world.home;
        if is_passing(one.0, &one.1) {
            return other;
        }
        assert!(is_passing(other.0, &other.1) || one == other, "{call:?} at two nodes at once: {one:?} and {other:?}");
        one
    }

    /// Repeats a write with its idempotency key. The response must be the same.
    async fn repeat(&mut self, write: usize, node: usize) {
        let Named { call, status, body } = &self.named[write];
        let (again, received) = self.world.ask_at(node, call).await;
        let is_suspended = self.model.suspended.contains(call.user);
        let same = if is_suspended { again == 403 } else { (again, &received) == (*status, body) };
        assert!(same || is_passing(again, &received), "{call:?} again: {again} {received}, not {status} {body}");
    }

    /// Reuses the idempotency key of an earlier write for a different one. The server must refuse it.
    async fn misuse(&mut self, write: usize, text: &str) {
        let Named { call, .. } = &self.named[write];
        let mut call = call.clone();
        if call.user.is_empty() {
            call.body["title"] = json!(text);
        } else {
            call = Call { method: "POST", path: "/posts".into(), body: json!({ "text": text }), ..call };
        }
        let (status, received) = self.world.ask(&call).await;
        let is_suspended = self.model.suspended.contains(call.user);
        let is_conflict = (status, &received["error"]["code"]) == (422, &json!("idempotency_conflict"));
        let is_refused = if is_suspended { status == 403 } else { is_conflict };
        assert!(is_refused || is_passing(status, &received), "{call:?}: {status} {received}");
    }

    /// Compares while a change is in force that ends by itself. `begun`: when it was requested first.
    async fn look_before_the_end(&self, act: &Act, begun: Instant, looks: &mut SeededRandom) {
        if self.world.is_blurred {
            return;
        }
        let reader = *looks.pick(&USERS);
        let seen = check::about(self.world.home(), &self.model, act, reader).await;
        // It may have ended during the comparison, on a slow machine.
        if begun.elapsed() < LASTING {
            seen.unwrap_or_else(|difference| panic!("during {act:?}: {difference}"));
        }
    }

    /// Checks that changes of posts and edges are visible at once at the answering node, and at another node within
    /// [`INVALIDATION_TIMEOUT`], before its cache entries expire.
    async fn look_at_once(&self, act: &Act, looks: &mut SeededRandom) {
        let reader = *looks.pick(&USERS);
        if !self.world.is_blurred {
            let seen = check::about(self.world.home(), &self.model, act, reader).await;
            seen.unwrap_or_else(|difference| panic!("right after {act:?}: {difference}"));
        }
        // Other changes may arrive later; filters are in force on every node.
        let patience = if act.is_of_filter() && !self.world.is_blurred { Duration::ZERO } else { INVALIDATION_TIMEOUT };
        let (elsewhere, until) = (self.world.elsewhere(), Instant::now() + patience);
        while let (Some(node), false) = (elsewhere, self.is_deaf) {
            let Err(difference) = check::about(node, &self.model, act, reader).await else { return };
            assert!(Instant::now() < until, "at another node after {act:?}: {difference}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn next_page(&mut self, looks: &mut SeededRandom) {
        if self.walks.len() < 3 {
            let (reader, limit) = (*looks.pick(&USERS), *looks.pick(&[1, 2, 5, 9]));
            let must = self.model.arrived(reader);
            self.walks.push(PagedRead { reader, limit, cursor: String::new(), read: Vec::new(), must });
        }
        let at = looks.below(self.walks.len());
        for _ in 0..1 + looks.below(6) {
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

    /// Makes one random comparison. It must match at once, or within [`SETTLING`] if the home node may not have applied
    /// another node's changes.
    async fn look(&self, looks: &mut SeededRandom) {
        let until = Instant::now() + if self.world.is_blurred { SETTLING } else { Duration::ZERO };
        loop {
            let seen = check::look(&self.world, &self.model, looks).await;
            let Err(difference) = seen else { return };
            assert!(Instant::now() < until, "{difference}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until all deliveries are complete at all nodes and sockets.
    pub(crate) async fn quiet(&mut self) {
        let until = Instant::now() + SETTLING;
        while let Err(difference) = check::everything(&self.world, &self.model, self.quiets).await {
            assert!(Instant::now() < until, "{difference}, {SETTLING:?} after the last step");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for user in USERS {
            let patience = until.saturating_duration_since(Instant::now()).max(Duration::from_secs(5));
            let untold = &self.hidden_once | &self.untold;
            let seen: Verdict = check::socket(&self.world, &self.model, user, (&self.ever, &untold), patience).await;
            seen.unwrap_or_else(|difference| panic!("{difference}"));
        }
        self.quiets += 1;
        self.model.all_arrived();
        self.read_notifications().await;
        self.look_at_what_was_brought();
        self.world.is_blurred = false;
        self.is_deaf = false;
    }
}

/// A slow ledger accepts likes without a check; invalid likes are reverted when they are settled.
fn on_trust(act: &Act, status: u16) -> bool {
    matches!(act, Act::Mark { mark: Mark::Like | Mark::CommentLike, .. }) && status == 200
}
