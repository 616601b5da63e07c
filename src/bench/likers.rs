//! Clients that like posts, each with a socket: as fast as they receive replies, or at a given rate.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::LoadClient;
use super::frames::push_text;

/// Likes that one person asks for before the first is answered, where the top rate is measured.
const WINDOW: usize = 4;
/// After how long without an answer a run has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often somebody with nothing to say looks up.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// Two people begin so many posts apart, so that they do not all like the same one at the same time.
const START_STRIDE: usize = 7_919;

/// What is liked: all people like all of it in turn, take it back in turn, and begin again.
#[derive(Clone)]
pub(super) struct LikeTargets {
    /// The posts.
    pub posts: Arc<[u64]>,
    /// Which of the counters of [`Liker::asked`] counts.
    pub which: usize,
}

/// How fast.
#[derive(Clone, Copy)]
pub(super) enum LoadPace {
    /// [`WINDOW`] likes of each person are always under way.
    FlatOut,
    /// So many likes a second, of all people together, whether or not earlier ones are answered.
    Rate(f64),
}

/// One measurement.
pub(super) struct LikeLoad {
    pace: LoadPace,
    aim: LikeTargets,
    people: usize,
    start: Instant,
    /// From when it counts.
    warm: Instant,
    /// When nothing new is asked for any more.
    until: Instant,
    /// Everything is settled: nobody has to listen any more.
    pub over: AtomicBool,
    /// Acknowledged while it counts.
    pub acknowledged: AtomicU64,
    /// Microseconds from when a like was due until it was acknowledged.
    pub answers: Mutex<Histogram<u64>>,
    /// Microseconds from there until its person was told that it is settled.
    pub settling: Mutex<Histogram<u64>>,
}

impl LikeLoad {
    /// Begins now.
    pub(super) fn begin(
        pace: LoadPace,
        aim: LikeTargets,
        people: usize,
        warm_up: Duration,
        length: Duration,
    ) -> Result<Arc<Self>> {
        let start = Instant::now();
        Ok(Arc::new(Self {
            pace,
            aim,
            people,
            start,
            warm: start + warm_up,
            until: start + warm_up + length,
            over: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            answers: Mutex::new(Histogram::new(3)?),
            settling: Mutex::new(Histogram::new(3)?),
        }))
    }

    /// Waits until it counts.
    pub(super) async fn warmed_up(&self) {
        sleep_until(self.warm).await;
    }

    /// Waits until nothing new is asked for.
    pub(super) async fn asked(&self) {
        sleep_until(self.until).await;
    }

    fn counts(&self, now: Instant) -> bool {
        (self.warm..self.until).contains(&now)
    }
}

/// A client that likes posts.
pub(super) struct Liker {
    socket: LoadClient,
    number: usize,
    /// How many likes, and takings back, were asked for of each aim.
    asked: [usize; 2],
    /// The id of the last command.
    last: u64,
    /// What is not acknowledged yet, oldest first.
    waiting: VecDeque<SentLike>,
    /// What was acknowledged and is not settled yet, by post, oldest first: since when.
    unsettled: HashMap<u64, VecDeque<Instant>>,
    /// What was heard of the frame under way.
    text: Vec<u8>,
}

/// A like that was asked for, or a taking back.
struct SentLike {
    due: Instant,
    post: u64,
}

impl Liker {
    /// Somebody who is connected.
    pub(super) fn new(socket: LoadClient, number: usize) -> Self {
        Self {
            socket,
            number,
            asked: [0; 2],
            last: 1,
            waiting: VecDeque::new(),
            unsettled: HashMap::new(),
            text: Vec::new(),
        }
    }

    /// Likes until the load is over.
    async fn run(mut self, load: Arc<LikeLoad>) -> Result<Self> {
        let mut sent = 0;
        let (mut commands, mut frame) = (String::new(), Vec::new());
        loop {
            let now = Instant::now();
            if load.over.load(Ordering::Relaxed) && self.waiting.is_empty() {
                // What nobody was told of does not count; see the bounds of what the server remembers.
                self.unsettled.clear();
                return Ok(self);
            }
            let later = now + IDLE_INTERVAL;
            let wake = loop {
                let due = match load.pace {
                    _ if now >= load.until => break later,
                    LoadPace::FlatOut if self.waiting.len() == WINDOW => break later,
                    LoadPace::FlatOut => now,
                    LoadPace::Rate(rate) => {
                        let place = sent * load.people + self.number;
                        load.start + Duration::from_secs_f64(place as f64 / rate)
                    }
                };
                if due > now {
                    break due;
                }
                self.append_command(&load.aim, due, &mut commands);
                sent += 1;
            };
            if !commands.is_empty() {
                frame.clear();
                push_text(&mut frame, commands.trim_end().as_bytes());
                commands.clear();
                self.socket.send_frames(&frame).await?;
            }
            let Self { socket, text, .. } = &mut self;
            tokio::select! {
                seen = socket.read_with(|segment| text.extend_from_slice(segment)) => {
                    seen?;
                    self.read_replies(&load)?;
                }
                () = sleep_until(wake) => ensure!(now < load.until + TIMEOUT, "not settled in {TIMEOUT:?}"),
            }
        }
    }

    /// Writes a command down.
    fn append_command(&mut self, aim: &LikeTargets, due: Instant, commands: &mut String) {
        let (asked, many) = (self.asked[aim.which], aim.posts.len());
        let post = aim.posts[(self.number * START_STRIDE + asked) % many];
        let liked = (asked / many).is_multiple_of(2);
        let method = if liked { "likes.add" } else { "likes.remove" };
        self.asked[aim.which] += 1;
        self.last += 1;
        let id = self.last;
        *commands += &format!("{{\"id\":{id},\"rpc\":{{\"method\":\"{method}\",\"data\":{{\"id\":{post}}}}}}}\n");
        self.waiting.push_back(SentLike { due, post });
    }

    /// Reads what has come, once it is whole. Answers come in the order of the commands.
    fn read_replies(&mut self, load: &LikeLoad) -> Result<()> {
        if !self.socket.is_between_frames() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.text);
        ensure!(!text.contains("\"error\":"), "the server refused a like: {text}");
        let now = Instant::now();
        for _ in text.matches("\"state\":\"accepted\"") {
            let SentLike { due, post } = self.waiting.pop_front().context("an answer that nobody asked for")?;
            self.unsettled.entry(post).or_default().push_back(now);
            if load.counts(now) {
                load.acknowledged.fetch_add(1, Ordering::Relaxed);
                load.answers.lock().record((now - due).as_micros() as u64)?;
            }
        }
        for settled in text.split("\"like.settled\",\"id\":").skip(1) {
            let (digits, rest) = settled.split_once(',').unwrap_or_default();
            let post = digits.parse().with_context(|| format!("not a post's id: {digits}"))?;
            // One word may be of several likes and takings back in turn; it says of how many.
            let asks = rest.split_once("\"asks\":").map_or("", |(_, rest)| rest);
            let asks: usize = asks.split(',').next().unwrap_or_default().parse().context("not a number of asks")?;
            let Some(unsettled) = self.unsettled.get_mut(&post) else { continue };
            for since in unsettled.drain(..asks.min(unsettled.len())) {
                if load.counts(since) {
                    load.settling.lock().record((now - since).as_micros() as u64)?;
                }
            }
            if unsettled.is_empty() {
                self.unsettled.remove(&post);
            }
        }
        self.text.clear();
        Ok(())
    }
}

/// Has everybody like until the load is over.
pub(super) async fn all(people: Vec<Liker>, load: &Arc<LikeLoad>) -> Result<Vec<Liker>> {
    let mut liking: JoinSet<Result<Liker>> = people.into_iter().map(|person| person.run(Arc::clone(load))).collect();
    let mut people = Vec::with_capacity(load.people);
    while let Some(person) = liking.join_next().await {
        people.push(person??);
    }
    Ok(people)
}
