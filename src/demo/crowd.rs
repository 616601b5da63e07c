//! The people of a running demonstration: they post, like and comment at a humane pace.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::content::Content;
use super::seed::{NOT_FOLLOWED, SeedError};
use crate::net::ListenAddress;

/// The pause between two actions. Every third action is a post, so there is one at least every 8.4 seconds.
const PAUSE: std::ops::Range<f64> = 1.4..2.8;

/// The time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Posts that are liked and commented: the last ones.
const RECENT: usize = 8;

/// Simulated people, who use the HTTP API as a backend does for its users.
pub struct Crowd {
    client: Client,
    api: String,
    key: String,
    /// The user ids of the crowd: followees of the viewer.
    people: Vec<String>,
    /// Authors and texts.
    posts: Vec<(String, String)>,
    comments: Vec<String>,
    /// The ids of posts, the newest last.
    recent: VecDeque<u64>,
}

impl Crowd {
    /// A crowd of the viewer's followees. It calls the server at this address with this API key.
    ///
    /// # Errors
    /// If the content of the binary is not valid, or no HTTP client can be created.
    pub fn new(server: &ListenAddress, key: &str, viewer: &str) -> Result<Self, SeedError> {
        let content = Content::load().map_err(|error| SeedError::Content(error.to_string()))?;
        let ids = content.people.into_iter().map(|(id, ..)| id);
        let people = ids.filter(|id| id != viewer && !NOT_FOLLOWED.contains(&id.as_str())).collect();
        let client = Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build();
        let client = client.map_err(|error| SeedError::Content(error.to_string()))?;
        let api = format!("http://{server}/api/v1");
        let recent = VecDeque::new();
        let key = key.to_owned();
        Ok(Self { client, api, key, people, posts: content.live.posts, comments: content.live.comments, recent })
    }

    /// Acts for ever. What fails is not repeated.
    pub async fn run(mut self) {
        loop {
            self.posts.shuffle(&mut rand::rng());
            for (author, text) in self.posts.clone() {
                self.post(&author, &text).await;
                self.pause().await;
                self.like().await;
                self.pause().await;
                if rand::rng().random_bool(0.5) {
                    self.comment().await;
                } else {
                    self.like().await;
                }
                self.pause().await;
            }
        }
    }

    async fn pause(&self) {
        tokio::time::sleep(Duration::from_secs_f64(rand::rng().random_range(PAUSE))).await;
    }

    async fn post(&mut self, author: &str, text: &str) {
        let Some(answer) = self.call(author, Method::POST, "/posts", json!({ "text": text })).await else { return };
        self.recent.extend(answer["id"].as_u64());
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    async fn like(&self) {
        let Some((person, post)) = self.anyone().zip(self.recent_post()) else { return };
        self.call(person, Method::PUT, &format!("/posts/{post}/like"), json!({})).await;
    }

    async fn comment(&self) {
        let Some((person, post)) = self.anyone().zip(self.recent_post()) else { return };
        let text = self.comments.choose(&mut rand::rng());
        self.call(person, Method::POST, &format!("/posts/{post}/comments"), json!({ "text": text })).await;
    }

    fn anyone(&self) -> Option<&str> {
        self.people.choose(&mut rand::rng()).map(String::as_str)
    }

    fn recent_post(&self) -> Option<u64> {
        (!self.recent.is_empty()).then(|| self.recent[rand::rng().random_range(0..self.recent.len())])
    }

    /// Calls an operation for a person. Returns its answer if it succeeds.
    async fn call(&self, person: &str, method: Method, path: &str, body: Value) -> Option<Value> {
        let request = self.client.request(method, format!("{}{path}", self.api)).json(&body);
        let request =
            request.header("x-api-key", &self.key).header("x-user", person).header("x-user-origin", "account");
        let answer = async { request.send().await?.error_for_status()?.json().await };
        answer.await.inspect_err(|error| tracing::debug!(%error, path, "the demonstration goes on")).ok()
    }
}
