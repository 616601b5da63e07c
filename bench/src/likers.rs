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

/// Likes of one user in flight while the maximum rate is measured.
const WINDOW: usize = 4;
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which an idle client checks the load.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// The distance in posts between the starts of two users, so that they do not all like the same post at the same time.
const START_STRIDE: usize = 7_919;

/// The posts to like. Each user likes all of them in turn, then removes the likes in turn, and starts again.
#[derive(Clone)]
pub(super) struct LikeTargets {
    /// The posts.
    pub posts: Arc<[u64]>,
    /// The counter in [`Liker::asked`] that counts these posts.
    pub which: usize,
}

/// The pace of a load.
#[derive(Clone, Copy)]
pub(super) enum LoadPace {
    /// As fast as the server answers: each user has [`WINDOW`] likes in flight, a writer of posts one request.
    FlatOut,
    /// Likes or posts a second of all clients together.
    Rate(f64),
}

/// One measurement.
pub(super) struct LikeLoad {
    pace: LoadPace,
    aim: LikeTargets,
    people: usize,
    start: Instant,
    /// The start of the measurement, after the warm-up.
    warm: Instant,
    /// No new likes are sent from this time on.
    until: Instant,
    /// Everything is settled, and the clients can stop.
    pub over: AtomicBool,
    /// Likes acknowledged during the measurement.
    pub acknowledged: AtomicU64,
    /// Microseconds from the time a like was due until its acknowledgement.
    pub answers: Mutex<Histogram<u64>>,
    /// Microseconds from the acknowledgement until the client receives the settlement.
    pub settling: Mutex<Histogram<u64>>,
}

impl LikeLoad {
    /// Starts the load.
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

    /// Waits for the start of the measurement.
    pub(super) async fn warmed_up(&self) {
        sleep_until(self.warm).await;
    }

    /// Waits until no new likes are sent.
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
    /// The number of likes and unlikes sent for each set of posts.
    asked: [usize; 2],
    /// The id of the last command.
    last: u64,
    /// Unacknowledged commands, oldest first.
    waiting: VecDeque<SentLike>,
    /// The acknowledgement times of unsettled likes by post, oldest first.
    unsettled: HashMap<u64, VecDeque<Instant>>,
    /// The text of the current frame so far.
    text: Vec<u8>,
}

/// A like or unlike that was sent.
struct SentLike {
    due: Instant,
    post: u64,
}

impl Liker {
    /// A client of a user on a connected socket.
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
        let mut commands = String::new();
        let mut frame = Vec::new();
        loop {
            let now = Instant::now();
            if load.over.load(Ordering::Relaxed) && self.waiting.is_empty() {
                // Likes without a settlement message are not counted: the server remembers only a limited number.
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

    /// Appends the next command.
    fn append_command(&mut self, aim: &LikeTargets, due: Instant, commands: &mut String) {
        let asked = self.asked[aim.which];
        let many = aim.posts.len();
        let post = aim.posts[(self.number * START_STRIDE + asked) % many];
        let liked = (asked / many).is_multiple_of(2);
        let method = if liked { "likes.add" } else { "likes.remove" };
        self.asked[aim.which] += 1;
        self.last += 1;
        let id = self.last;
        *commands += &format!("{{\"id\":{id},\"rpc\":{{\"method\":\"{method}\",\"data\":{{\"post\":{post}}}}}}}\n");
        self.waiting.push_back(SentLike { due, post });
    }

    /// Reads the received replies, once the last one is complete. Replies come in the order of the commands.
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
            // One message can settle several likes and unlikes of a post; `asks` is their number.
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

/// Runs all clients until the load is over.
pub(super) async fn all(people: Vec<Liker>, load: &Arc<LikeLoad>) -> Result<Vec<Liker>> {
    let mut liking: JoinSet<Result<Liker>> = people.into_iter().map(|person| person.run(Arc::clone(load))).collect();
    let mut people = Vec::with_capacity(load.people);
    while let Some(person) = liking.join_next().await {
        people.push(person??);
    }
    Ok(people)
}
