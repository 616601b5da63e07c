//! A reader as in an app: a socket that reconnects automatically, and a view built only from received messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::task::AbortOnDropHandle;

use crate::api::entry;
use crate::server::token;

/// Posts per page: few, so that a timeline takes several pages.
const LIMIT: u64 = 7;

/// A reader of one timeline.
pub struct Reader {
    /// The user's id.
    pub user: String,
    shared: Arc<Shared>,
    /// The port to connect to; `None`: disconnected.
    wish: watch::Sender<Option<u16>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Shared {
    view: Mutex<View>,
    changed: Notify,
}

/// The state of a reader and the anomalies it noticed.
#[derive(Default)]
pub struct View {
    epoch: String,
    /// The last received offset.
    offset: u64,
    /// The pushes received in this epoch of the log: offset, type, post.
    pub received: Vec<(u64, String, u64)>,
    /// The posts that recoveries delivered.
    pub arrivals: Vec<Arrival>,
    /// When the last connection sent its connect command.
    asked: Option<Instant>,
    /// The authors of all posts that were pushed or read.
    authors: BTreeMap<u64, String>,
    /// The reposts that were pushed or read, each with the post that it passes on.
    reposts: BTreeMap<u64, u64>,
    /// The pages read so far, each with the offset at which it was read.
    pages: Vec<(u64, Vec<u64>)>,
    /// Whether the pages reach the end of the timeline.
    is_complete: bool,
    is_connected: bool,
    /// The close codes of its connections (1006: broken without a close frame).
    pub closes: Vec<u16>,
    /// Violations of the protocol's guarantees. Must stay empty.
    pub wrong: Vec<String>,
    /// Connections that recovered all missed publications.
    pub recovered: usize,
    /// Connections that could not recover and started from a new position.
    pub anew: usize,
    /// The replies that refused recovery although the epoch was unchanged. Allowed only if the log was trimmed.
    pub unrecovered: Vec<String>,
}

/// A post that a recovery delivered. The server decided on its visibility after the connect command was sent.
pub struct Arrival {
    /// When the connection sent its connect command.
    pub asked: Instant,
    /// The id of the post.
    pub post: u64,
}

impl Reader {
    /// Creates a reader that is not connected; see [`go`](Self::go).
    pub fn new(user: &str) -> Self {
        let (wish, wished) = watch::channel(None);
        let shared = Arc::new(Shared::default());
        let task = tokio::spawn(run(user.to_owned(), wished, Arc::clone(&shared)));
        Self { user: user.to_owned(), shared, wish, _task: AbortOnDropHandle::new(task) }
    }

    /// Drops the connection without a close frame, and connects to `port` if that is given.
    pub fn go(&self, port: Option<u16>) {
        self.wish.send_replace(port);
    }

    /// The port that the reader is connected to, or tries to connect to.
    pub fn port(&self) -> Option<u16> {
        *self.wish.borrow()
    }

    /// Whether the reader is connected or tries to connect.
    pub fn is_going(&self) -> bool {
        self.wish.borrow().is_some()
    }

    /// Reads or changes the reader's view.
    pub fn look<T>(&self, at: impl FnOnce(&mut View) -> T) -> T {
        at(&mut self.shared.view.lock())
    }

    /// Waits until the reader is connected and its view has exactly these posts. On a timeout, the error describes its
    /// view.
    pub async fn sees(&self, expected: &BTreeSet<u64>, patience: Duration) -> Result<(), String> {
        self.sees_but(expected, &BTreeSet::new(), patience).await
    }

    /// The same, whether or not the view has the posts of `uncertain`.
    ///
    /// # Errors
    /// A description of the view, if it does not agree in time.
    pub async fn sees_but(
        &self,
        expected: &BTreeSet<u64>,
        uncertain: &BTreeSet<u64>,
        patience: Duration,
    ) -> Result<(), String> {
        let without = |posts: BTreeSet<u64>| &posts - uncertain;
        let expected = &without(expected.clone());
        let seen = timeout(patience, async {
            loop {
                let changed = self.shared.changed.notified();
                if self.look(|view| view.is_connected && view.is_complete && without(view.posts()) == *expected) {
                    return;
                }
                changed.await;
            }
        });
        seen.await.map_err(|_| {
            self.look(|view| {
                let posts = without(view.posts());
                let missing: Vec<_> = expected.difference(&posts).collect();
                let surplus: Vec<_> = posts.difference(expected).collect();
                let state = (view.is_connected, view.is_complete, &view.epoch, view.offset);
                let pages: Vec<_> = view.pages.iter().map(|(offset, ids)| (offset, ids.len())).collect();
                format!(
                    "{}: misses {missing:?}, has {surplus:?} besides; (connected, complete, epoch, offset) {state:?}, \
                     pages {pages:?}, received {:?}",
                    self.user, view.received
                )
            })
        })
    }
}

async fn run(user: String, mut wished: watch::Receiver<Option<u16>>, shared: Arc<Shared>) {
    loop {
        let wish = *wished.borrow_and_update();
        let Some(port) = wish else {
            if wished.changed().await.is_err() {
                return;
            }
            continue;
        };
        let ended = tokio::select! {
            closed = connection(&user, port, &shared) => closed,
            _ = wished.changed() => None,
        };
        shared.view.lock().leave(ended);
        sleep(Duration::from_millis(30)).await;
    }
}

/// Runs one connection to its end. Returns the close code (1006 if the connection broke) if the server had accepted it.
async fn connection(user: &str, port: u16, shared: &Shared) -> Option<u16> {
    let patience = Duration::from_secs(3);
    let stream = timeout(patience, TcpStream::connect(("127.0.0.1", port))).await.ok()?.ok()?;
    let url = format!("ws://127.0.0.1:{port}/connection/websocket");
    let (mut socket, _) = timeout(patience, client_async(url, stream)).await.ok()?.ok()?;
    let connect = shared.view.lock().connect(user);
    socket.send(Message::text(connect.to_string())).await.ok()?;
    let mut again = None;
    loop {
        let pause = async {
            match again {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let answers = tokio::select! {
            () = pause => {
                again = None;
                shared.view.lock().pages.clear();
                vec![read_page(&Value::Null)]
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let (answers, failed) = shared.view.lock().all_pushes(user, &text)?;
                    if failed {
                        again = Some(Instant::now() + Duration::from_millis(100));
                    }
                    shared.changed.notify_one();
                    answers
                }
                Some(Ok(Message::Close(frame))) => {
                    let code = frame.map_or(1005, |frame| frame.code.into());
                    return shared.view.lock().is_connected.then_some(code);
                }
                Some(Ok(_)) => Vec::new(),
                Some(Err(_)) | None => return shared.view.lock().is_connected.then_some(1006),
            },
        };
        for answer in answers {
            socket.send(Message::text(answer.to_string())).await.ok()?;
        }
    }
}

/// The reaction to a line.
enum Answer {
    Nothing,
    Say(Value),
    /// Read the timeline from the start, after a short delay.
    Again,
    /// The server refused the connection.
    Leave,
}

fn read_page(cursor: &Value) -> Value {
    let mut data = json!({ "limit": LIMIT });
    if !cursor.is_null() {
        data["cursor"] = cursor.clone();
    }
    json!({ "id": 2, "rpc": { "method": "timeline.read", "data": data } })
}

impl View {
    fn connect(&mut self, user: &str) -> Value {
        self.asked = Some(Instant::now());
        let mut connect = json!({ "id": 1, "connect": { "token": token(user) } });
        if !self.epoch.is_empty() {
            let position = json!({ "recover": true, "epoch": self.epoch, "offset": self.offset });
            connect["connect"]["subs"] = json!({ format!("timeline:{user}"): position });
        }
        connect
    }

    fn leave(&mut self, closed: Option<u16>) {
        self.is_connected = false;
        self.closes.extend(closed);
    }

    /// Processes a frame. Returns the commands to send and whether to read the timeline again; `None` if the server
    /// refused the connection.
    fn all_pushes(&mut self, user: &str, frame: &str) -> Option<(Vec<Value>, bool)> {
        let (mut answers, mut again) = (Vec::new(), false);
        for line in frame.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON from the server");
            match self.hear(user, &line) {
                Answer::Nothing => {}
                Answer::Say(command) => answers.push(command),
                Answer::Again => again = true,
                Answer::Leave => return None,
            }
        }
        Some((answers, again))
    }

    fn hear(&mut self, user: &str, line: &Value) -> Answer {
        let channel = format!("timeline:{user}");
        if line.as_object().is_some_and(serde_json::Map::is_empty) {
            return Answer::Say(json!({}));
        }
        if line["id"] == 1 {
            return if line.get("error").is_some() {
                Answer::Leave
            } else {
                self.enter(&line["connect"]["subs"][channel])
            };
        }
        if line["id"] == 2 {
            return if line.get("error").is_some() { Answer::Again } else { self.take_page(&line["rpc"]["data"]) };
        }
        if line["push"]["channel"] == *channel && line["push"].get("pub").is_some() {
            self.take(&line["push"]["pub"]);
        }
        Answer::Nothing
    }

    fn enter(&mut self, timeline: &Value) -> Answer {
        let offset = timeline["offset"].as_u64().unwrap_or(0);
        self.is_connected = true;
        if timeline["recovered"] == true {
            self.recovered += 1;
            for publication in timeline["publications"].as_array().unwrap_or(&Vec::new()) {
                let (_, kind, post) = entry(publication);
                let asked = self.asked.filter(|_| kind == "post");
                self.arrivals.extend(asked.map(|asked| Arrival { asked, post }));
                self.take(publication);
            }
        } else {
            if !self.epoch.is_empty() && timeline["epoch"] == *self.epoch {
                self.unrecovered.push(format!("from {}: {timeline}", self.offset));
            }
            self.anew += 1;
            self.is_complete = false;
            self.received.clear();
            self.epoch = timeline["epoch"].as_str().unwrap_or_default().to_owned();
            self.offset = offset;
        }
        if self.is_complete {
            return Answer::Nothing;
        }
        self.pages.clear();
        Answer::Say(read_page(&Value::Null))
    }

    /// Applies a live or recovered publication.
    fn take(&mut self, publication: &Value) {
        let (offset, kind, post) = entry(publication);
        if offset != self.offset + 1 {
            self.wrong.push(format!("offset {offset} after {} in {}: {publication}", self.offset, self.epoch));
        }
        if kind == "post" && self.holds_at(post, offset) {
            self.wrong.push(format!("post {post} again at {offset} in {}", self.epoch));
        }
        self.offset = offset;
        self.note_author(&publication["data"]["post"]);
        if let (Some(repost), Some(post)) = (publication["data"]["repost"].as_u64(), publication["data"]["id"].as_u64())
        {
            self.reposts.insert(repost, post);
        }
        if let Some(author) = publication["data"]["author"].as_str() {
            let theirs = self.authors.iter().filter(|(_, by)| *by == author);
            self.received.extend(theirs.map(|(id, _)| (offset, kind.clone(), *id)));
            return;
        }
        self.received.push((offset, kind, post));
    }

    fn note_author(&mut self, post: &Value) {
        if let (Some(id), Some(author)) = (post["id"].as_u64(), post["author"].as_str()) {
            self.authors.insert(id, author.to_owned());
        }
        if let (Some(id), Some(reposted)) = (post["id"].as_u64(), post["repost"]["id"].as_u64()) {
            self.reposts.insert(id, reposted);
        }
    }

    /// Forgets everything, as after a reload of the app: the next connection begins anew.
    pub fn forget(&mut self) {
        self.epoch.clear();
        self.offset = 0;
        self.received.clear();
        self.pages.clear();
        self.is_complete = false;
    }

    /// Whether the latest entry about a post before an offset says that the post is in the timeline.
    fn holds_at(&self, post: u64, before: u64) -> bool {
        // An edit does not prove that the post is in the timeline: it may also be sent to readers without the post.
        match self.received.iter().rev().find(|(_, kind, received)| *received == post && kind != "edited") {
            Some((_, kind, _)) => kind != "gone",
            None => self.pages.iter().any(|(offset, ids)| *offset < before && ids.contains(&post)),
        }
    }

    fn take_page(&mut self, page: &Value) -> Answer {
        let position = &page["position"];
        if position["epoch"] != *self.epoch {
            // The log has a new epoch; the server is about to announce it.
            self.pages.clear();
            return Answer::Again;
        }
        page["items"].as_array().into_iter().flatten().for_each(|post| self.note_author(post));
        let ids: Vec<u64> =
            page["items"].as_array().expect("items").iter().filter_map(|item| item["id"].as_u64()).collect();
        let last = self.pages.last().and_then(|(_, ids)| ids.last().copied()).unwrap_or(u64::MAX);
        if !ids.is_sorted_by(|a, b| a > b) || ids.first().is_some_and(|first| *first >= last) {
            self.wrong.push(format!("a page out of order: {ids:?} after {last}"));
        }
        self.pages.push((position["offset"].as_u64().expect("an offset"), ids));
        match page.get("next") {
            Some(cursor) => Answer::Say(read_page(cursor)),
            None => {
                self.is_complete = true;
                Answer::Nothing
            }
        }
    }

    /// The visible posts. For each post the latest entry counts, from a page or from the log.
    fn posts(&self) -> BTreeSet<u64> {
        let mut words: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        let paged = self.pages.iter().flat_map(|(offset, ids)| ids.iter().map(|id| (*id, *offset, true)));
        let received = self.received.iter().filter(|(_, kind, _)| kind != "edited");
        let received = received.map(|(offset, kind, id)| (*id, *offset, kind != "gone"));
        for (id, offset, is_there) in paged.chain(received) {
            let word = words.entry(id).or_insert((offset, is_there));
            if offset >= word.0 {
                *word = (offset, is_there);
            }
        }
        let there: BTreeSet<u64> = words.into_iter().filter(|(_, (_, is_there))| *is_there).map(|(id, _)| id).collect();
        // A timeline shows a post once.
        let mut shown = there.clone();
        shown.retain(|id| {
            let Some(post) = self.reposts.get(id) else { return true };
            let mut sources = there.range(..id);
            !sources.any(|source| source == post || self.reposts.get(source) == Some(post))
        });
        shown
    }
}
