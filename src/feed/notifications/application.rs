//! Notifications of the application's own: its backend sends them to users, beside those that the feed makes.
//!
//! A request is an event of the queue before it is answered, so that no crash loses it. With an idempotency key, the
//! event and the reservation of its key change in one transaction, so that no repeat appends it again.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Notifications;
use crate::feed::call::Call;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::feed::input::is_media_url;
use crate::feed::runtime::now;
use crate::ledger::EventConsumer;
use crate::model::{AppNotification, DomainEvent, NESTED_TOO_DEEP, UserId, is_app_kind, is_shallow};
use crate::text::is_blank;

/// The recipients of a request.
const MAX_RECIPIENTS: usize = 1_000;

/// The longest title and text, in characters.
const MAX_TITLE: usize = 100;
const MAX_BODY: usize = 1_000;

/// The longest key and address, and the largest `data`, in bytes.
const MAX_KEY: usize = 200;
const MAX_URL: usize = 2_000;
const MAX_DATA: usize = 4 << 10;

/// A notification for users, as the application writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppNotificationDraft {
    /// The recipients, at most 1,000.
    #[schemars(length(min = 1, max = 1_000))]
    to: Vec<UserId>,
    /// Its kind: `app.` and a name of 1 to 60 of `a-z 0-9 _ - .`. Users choose by it which pushes they want.
    #[schemars(regex(pattern = r"^app\.[a-z0-9_.-]{1,60}$"), extend("examples" = ["app.build"]))]
    kind: String,
    /// Notifications of the same kind and key are one group, which shows the last of them. Without it, each is a group.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    key: Option<String>,
    /// The user on whose behalf. Users who blocked, muted or hid from this user get nothing.
    #[serde(default)]
    from: Option<UserId>,
    /// The title, also of the push; 100 characters at most.
    #[schemars(length(min = 1, max = 100), extend("examples" = ["The build failed"]))]
    title: String,
    /// The text, also of the push; 1,000 characters at most.
    #[schemars(length(max = 1_000), extend("examples" = ["2 of 912 tests are red."]))]
    body: String,
    /// Where it leads to: an address with http or https, or a path.
    #[serde(default)]
    url: Option<String>,
    /// Data for the application's clients, 4 KiB of JSON at most.
    #[serde(default)]
    data: Option<Map<String, Value>>,
    /// Whether devices get a push.
    #[serde(default = "is_pushed")]
    push: bool,
}

fn is_pushed() -> bool {
    true
}

/// The recipients of a request.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AppNotified {
    /// The number of recipients that exist, including those who blocked, muted or hid from `from`.
    accepted: usize,
    /// The recipients that do not exist.
    unknown: Vec<UserId>,
}

impl AppNotificationDraft {
    /// Checks the texts. Returns the recipients, each once.
    fn checked(&self) -> Result<Vec<UserId>> {
        let over = |field, what, most: usize| FeedError::LimitExceeded { field, what, most: most as u64 };
        let mut seen = HashSet::new();
        let to: Vec<UserId> = self.to.iter().filter(|user| seen.insert(*user)).cloned().collect();
        if to.is_empty() {
            return Err(FeedError::invalid("to", "at least one recipient is required"));
        }
        if self.to.len() > MAX_RECIPIENTS {
            return Err(over("to", "recipients", MAX_RECIPIENTS));
        }
        if !is_app_kind(&self.kind) {
            return Err(FeedError::invalid("kind", "a kind is `app.` and a name of 1 to 60 of a-z 0-9 _ - ."));
        }
        if is_blank(&self.title) || self.title.contains(char::is_control) {
            return Err(FeedError::invalid(
                "title",
                "a title is one line that can be seen, without control characters",
            ));
        }
        if self.body.contains(|c: char| c.is_control() && c != '\n') {
            return Err(FeedError::invalid("body", "a text has no control characters but line feeds"));
        }
        if self.title.chars().count() > MAX_TITLE {
            return Err(over("title", "characters of a title", MAX_TITLE));
        }
        if self.body.chars().count() > MAX_BODY {
            return Err(over("body", "characters of a text", MAX_BODY));
        }
        if let Some(key) = &self.key
            && (key.is_empty() || key.len() > MAX_KEY || key.contains(char::is_control))
        {
            return Err(FeedError::invalid("key", "a key has 1 to 200 bytes, and no control characters"));
        }
        if self.url.as_ref().is_some_and(|url| url.len() > MAX_URL || !is_media_url(url)) {
            let why = "a url begins with http:// or https://, or is a path, and has 2,000 bytes at most";
            return Err(FeedError::invalid("url", why));
        }
        if let Some(data) = &self.data {
            if !is_shallow(data) {
                return Err(FeedError::invalid("data", NESTED_TOO_DEEP));
            }
            if Value::Object(data.clone()).to_string().len() > MAX_DATA {
                return Err(over("data", "bytes of a notification's data", MAX_DATA));
            }
        }
        Ok(to)
    }
}

impl Notifications {
    /// Notifies users on behalf of the application. The request is durable before the answer.
    pub(crate) async fn send(&self, call: Call, draft: AppNotificationDraft) -> Result<AppNotified> {
        let to = draft.checked()?;
        let ledger = &self.base.ledger;
        let named: Vec<UserId> = to.iter().chain(&draft.from).cloned().collect();
        let known: HashSet<UserId> = ledger.users(&named).await?.into_iter().map(|user| user.id).collect();
        if draft.from.as_ref().is_some_and(|from| !known.contains(from)) {
            return Err(NO_USER);
        }
        let (to, unknown): (Vec<UserId>, Vec<UserId>) = to.into_iter().partition(|user| known.contains(user));
        let accepted = to.len();
        if accepted > 0 {
            let now = now();
            let AppNotificationDraft { kind, key, from, title, body, url, data, push, .. } = draft;
            let event = |id| {
                let notification = AppNotification { id, from, kind, key, title, body, url, data, push };
                DomainEvent::AppNotified { to, notification: Box::new(notification) }
            };
            match (&call.key, call.reserved) {
                (Some((owner, key)), Some(id)) => ledger.append_reserved((owner, key), id, now, &event(id)).await?,
                // An earlier attempt appended it.
                (Some(_), None) => {}
                (None, _) => ledger.append_events(&[(now, event(self.base.ids.next(now)?))]).await?,
            }
            self.base.events.wake(EventConsumer::Notifications);
        }
        Ok(AppNotified { accepted, unknown })
    }
}
