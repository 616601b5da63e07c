//! Clients that like posts, each with a socket: as fast as they receive replies, or at a given rate.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use tokio::time::sleep_until;

use super::client::LoadClient;
use super::frames::{LoadEncoding, push_frame};
use super::http_load::{Latencies, LoadPace, no_latencies};

/// Likes of one user in flight while the maximum rate is measured.
const WINDOW: usize = 4;
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which an idle client checks the load.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// The distance in posts between the starts of two users, so that they do not all like the same post at the same time.
const START_STRIDE: usize = 7_919;

/// One measurement. Its posts are liked by each user in turn, then each user removes the likes in turn, and starts
/// again.
pub(super) struct LikeLoad<'a> {
    /// The posts.
    posts: &'a [u64],
    /// The counter in [`Liker::asked`] that counts these posts.
    which: usize,
    pace: LoadPace,
    start: Instant,
    /// The start of the measurement, after the warm-up.
    pub warm: Instant,
    /// No new likes are sent from this time on.
    pub until: Instant,
    /// Everything is settled, and the clients can stop.
    pub is_over: Cell<bool>,
    /// From the time a like was due until its acknowledgement, of those acknowledged during the measurement.
    pub answers: RefCell<Latencies>,
    /// From the acknowledgement until the client receives the settlement.
    pub settling: RefCell<Latencies>,
}

impl<'a> LikeLoad<'a> {
    /// Starts the load of these posts, the set number `which`.
    pub(super) fn begin(pace: LoadPace, posts: &'a [u64], which: usize, times: [Duration; 2]) -> Result<Self> {
        let [warm_up, length] = times;
        let start = Instant::now();
        Ok(Self {
            posts,
            which,
            pace,
            start,
            warm: start + warm_up,
            until: start + warm_up + length,
            is_over: Cell::new(false),
            answers: RefCell::new(no_latencies()?),
            settling: RefCell::new(no_latencies()?),
        })
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
    /// Unacknowledged commands, oldest first: when each was due, and its post.
    waiting: VecDeque<(Instant, u64)>,
    /// The acknowledgement times of unsettled likes by post, oldest first.
    unsettled: HashMap<u64, VecDeque<Instant>>,
}

impl Liker {
    /// A client of a user on a connected socket.
    pub(super) fn new(socket: LoadClient, number: usize) -> Self {
        Self { socket, number, asked: [0; 2], last: 1, waiting: VecDeque::new(), unsettled: HashMap::new() }
    }

    /// Likes until the load is over, as one of so many clients.
    async fn run(&mut self, load: &LikeLoad<'_>, people: usize) -> Result<()> {
        let mut sent = 0;
        let mut text = Vec::new();
        while !load.is_over.get() || !self.waiting.is_empty() {
            let now = Instant::now();
            ensure!(now < load.until + TIMEOUT, "not settled in {TIMEOUT:?}");
            let mut commands = String::new();
            let mut wake = now + IDLE_INTERVAL;
            while now < load.until && (matches!(load.pace, LoadPace::Rate(_)) || self.waiting.len() < WINDOW) {
                let due = load.pace.due(load.start, sent * people + self.number);
                if due > now && matches!(load.pace, LoadPace::Rate(_)) {
                    wake = due;
                    break;
                }
                self.append_command(load, due, &mut commands);
                sent += 1;
            }
            if !commands.is_empty() {
                let mut frame = Vec::new();
                push_frame(&mut frame, LoadEncoding::Json, commands.trim_end().as_bytes())?;
                self.socket.send_frames(&frame).await?;
            }
            tokio::select! {
                read = self.socket.read(|payload| text.extend_from_slice(payload)) => drop(read?),
                () = sleep_until(wake.into()) => {}
            }
            self.read_replies(load, &String::from_utf8_lossy(&text))?;
            text.clear();
        }
        // Likes without a settlement message are not counted: the server remembers only a limited number.
        self.unsettled.clear();
        Ok(())
    }

    /// Appends the next command.
    fn append_command(&mut self, load: &LikeLoad<'_>, due: Instant, commands: &mut String) {
        let asked = self.asked[load.which];
        let many = load.posts.len();
        let post = load.posts[(self.number * START_STRIDE + asked) % many];
        let method = if (asked / many).is_multiple_of(2) { "likes.add" } else { "likes.remove" };
        self.asked[load.which] += 1;
        self.last += 1;
        let id = self.last;
        *commands += &format!("{{\"id\":{id},\"rpc\":{{\"method\":\"{method}\",\"data\":{{\"post\":{post}}}}}}}\n");
        self.waiting.push_back((due, post));
    }

    /// Reads whole messages. Replies come in the order of the commands.
    fn read_replies(&mut self, load: &LikeLoad<'_>, text: &str) -> Result<()> {
        ensure!(!text.contains("\"error\":"), "the server refused a like: {text}");
        let now = Instant::now();
        for _ in text.matches("\"state\":\"accepted\"") {
            let (due, post) = self.waiting.pop_front().context("an answer that nobody asked for")?;
            self.unsettled.entry(post).or_default().push_back(now);
            if load.counts(now) {
                load.answers.borrow_mut().record((now - due).as_micros() as u64)?;
            }
        }
        for settled in text.split("\"like.settled\",\"id\":").skip(1) {
            let number = |text: &str| text.split(',').next().unwrap_or_default().parse::<u64>();
            let post = number(settled).context("not a post's id")?;
            // One message can settle several likes and unlikes of a post; `asks` is their number.
            let asks = settled.split_once("\"asks\":").map_or("", |(_, rest)| rest);
            let asks = number(asks).context("not a number of asks")? as usize;
            let Some(unsettled) = self.unsettled.get_mut(&post) else { continue };
            for since in unsettled.drain(..asks.min(unsettled.len())) {
                if load.counts(since) {
                    load.settling.borrow_mut().record((now - since).as_micros() as u64)?;
                }
            }
            if unsettled.is_empty() {
                self.unsettled.remove(&post);
            }
        }
        Ok(())
    }
}

/// Runs all clients until the load is over.
pub(super) async fn run_all(people: &mut [Liker], load: &LikeLoad<'_>) -> Result<()> {
    let many = people.len();
    try_join_all(people.iter_mut().map(|person| person.run(load, many))).await.map(drop)
}
