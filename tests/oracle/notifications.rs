//! The rules of notifications that are recorded in full: those that the application sends, and those of quotes.
//!
//! A notification is recorded for a recipient by the rules of the moment at which it is processed. It is listed by the
//! rules of the moment at which the list is read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::filters::{FilterContext, Outcome};
use crate::model::{Edge, Model, User, ViewContext};

/// A notification of the application.
#[derive(Clone, Debug)]
pub(crate) struct AppNotification {
    pub(crate) to: BTreeSet<User>,
    /// A recipient who does not exist.
    pub(crate) unknown: Option<&'static str>,
    pub(crate) kind: &'static str,
    pub(crate) key: Option<&'static str>,
    pub(crate) from: Option<User>,
    pub(crate) title: String,
    pub(crate) body: String,
}

impl AppNotification {
    pub(crate) fn as_json(&self) -> Value {
        let Self { to, unknown, kind, key, from, title, body } = self;
        let to: Vec<&str> = to.iter().copied().chain(*unknown).collect();
        let mut sent = json!({ "to": to, "kind": kind, "title": title, "body": body, "push": false });
        for (name, value) in [("key", key), ("from", from)] {
            if let Some(value) = value {
                sent[name] = json!(value);
            }
        }
        sent
    }
}

/// A group in the list of one recipient.
#[derive(Clone, Debug)]
struct Group {
    /// The last notification of the group.
    last: AppNotification,
    /// The users of the group, the latest first. The recipient stands for notifications from nobody.
    people: Vec<User>,
    is_read: bool,
}

/// What a recipient sees of a group of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedGroup {
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) people: Vec<String>,
    pub(crate) count: u64,
    pub(crate) filtered: Vec<u64>,
    pub(crate) is_read: bool,
}

/// The recorded notifications.
#[derive(Default)]
pub(crate) struct Recorded {
    /// The groups of each recipient, the latest last.
    groups: BTreeMap<User, Vec<Group>>,
    /// The quotes of which the author of the quoted post was notified.
    quotes: BTreeSet<(User, u64)>,
}

impl Model {
    /// Whether a reader is notified of the actions of a user.
    fn hears(&self, reader: User, user: User) -> bool {
        let is_quiet = self.has(Edge::Mute, reader, user) || self.is_limited_for(reader, user);
        reader == user || (self.meets(reader, user) && !is_quiet)
    }

    /// Whether somebody can be notified from a user: the sender must be able to see the recipient, too.
    fn is_notified_from(&self, reader: User, from: User) -> bool {
        self.hears(reader, from) && self.meets(from, reader)
    }

    /// Records a notification of the application.
    pub(crate) fn notify(&mut self, sent: &AppNotification) {
        for to in &sent.to {
            if sent.from.is_some_and(|from| !self.is_notified_from(to, from)) {
                continue;
            }
            let by = sent.from.unwrap_or(to);
            let groups = self.recorded.groups.entry(to).or_default();
            let is_same =
                |group: &Group| sent.key.is_some() && (group.last.kind, group.last.key) == (sent.kind, sent.key);
            let mut people = match groups.iter().position(is_same) {
                Some(at) => groups.remove(at).people,
                None => Vec::new(),
            };
            people.retain(|user| *user != by);
            people.insert(0, by);
            groups.push(Group { last: sent.clone(), people, is_read: false });
        }
    }

    /// Records that the author of a quoted post is notified of a quote, if they may see it.
    pub(crate) fn notify_of_quote(&mut self, quote: u64) {
        let post = &self.posts[&quote];
        let Some(quoted) = post.quote.and_then(|quoted| self.posts.get(&quoted)) else { return };
        let owner = quoted.author;
        if owner != post.author && self.finds(owner, quote) && self.hears(owner, post.author) {
            self.recorded.quotes.insert((owner, quote));
        }
    }

    /// Marks all notifications of a user as read.
    pub(crate) fn read_notifications(&mut self, user: User) {
        self.recorded.groups.entry(user).or_default().iter_mut().for_each(|group| group.is_read = true);
    }

    /// The groups of the application in the list of a user, the latest first.
    pub(crate) fn app_notifications(&self, reader: User) -> Vec<ListedGroup> {
        let all = self.recorded.groups.get(reader).into_iter().flatten().rev();
        all.filter_map(|group| self.listed_group(reader, group)).collect()
    }

    fn listed_group(&self, reader: User, group: &Group) -> Option<ListedGroup> {
        let Group { last, people, is_read } = group;
        let by = last.from.unwrap_or(reader);
        // A group shows the text of its last notification, and is omitted if the reader may not see the sender.
        if !self.hears(reader, by) {
            return None;
        }
        let text = format!("{} {}", last.title, last.body);
        let Outcome::Shown(filtered) = self.outcome_of_text(reader, by, &text, FilterContext::Notifications) else {
            return None;
        };
        let people = people.iter().filter(|user| **user != reader && self.hears(reader, user));
        let people: Vec<String> = people.map(|user| (*user).to_owned()).collect();
        Some(ListedGroup {
            kind: last.kind.to_owned(),
            key: last.key.map(str::to_owned),
            title: last.title.clone(),
            body: last.body.clone(),
            count: people.len() as u64,
            people,
            filtered,
            is_read: *is_read,
        })
    }

    /// The quotes in the list of a user, in the order of their ids.
    pub(crate) fn quote_notifications(&self, reader: User) -> Vec<u64> {
        let theirs = self.recorded.quotes.iter().filter(|(owner, _)| *owner == reader);
        let is_listed = |id: &u64| {
            self.posts.get(id).is_some_and(|post| {
                self.may_see(reader, post, ViewContext::Direct)
                    && self.hears(reader, post.author)
                    && !self.is_filtered(reader, post, FilterContext::Notifications)
            })
        };
        theirs.map(|(_, id)| *id).filter(is_listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::Filter;

    fn sent(to: &[User], key: Option<&'static str>, from: Option<User>, title: &str) -> AppNotification {
        let title = title.to_owned();
        let to = to.iter().copied().collect();
        AppNotification { to, unknown: None, kind: "app.x", key, from, title, body: String::new() }
    }

    fn titles(model: &Model, reader: User) -> Vec<String> {
        model.app_notifications(reader).into_iter().map(|group| group.title).collect()
    }

    #[test]
    fn groups_show_the_last_notification_of_their_key() {
        let mut model = Model::default();
        for (key, from, title) in [
            (Some("k"), Some("bo"), "one"),
            (None, Some("bo"), "two"),
            (Some("k"), None, "three"),
            (None, None, "four"),
            (Some("k"), Some("cy"), "five"),
        ] {
            model.notify(&sent(&["ann"], key, from, title));
        }
        assert_eq!(titles(&model, "ann"), ["five", "four", "two"]);
        assert_eq!(model.app_notifications("ann")[0].people, ["cy", "bo"]);
        model.set(Edge::Mute, "ann", "bo", true);
        assert_eq!(titles(&model, "ann"), ["five", "four"]);
        assert_eq!(model.app_notifications("ann")[0].count, 1);
        model.set(Edge::Mute, "ann", "cy", true);
        assert_eq!(titles(&model, "ann"), ["four"]);
    }

    #[test]
    fn nobody_is_notified_from_users_that_they_do_not_hear() {
        let mut model = Model::default();
        model.set(Edge::Block, "bo", "ann", true);
        model.set(Edge::Hide, "cy", "ann", true);
        model.set(Edge::Mute, "dee", "ann", true);
        model.set(Edge::Hide, "ann", "eve", true);
        model.suspend("flo", true);
        let all = ["ann", "bo", "cy", "dee", "eve", "flo"];
        model.notify(&sent(&all, None, Some("ann"), "from ann"));
        model.notify(&sent(&all, None, Some("flo"), "from flo"));
        for (from, to) in [("bo", "ann"), ("cy", "ann"), ("dee", "ann"), ("ann", "eve")] {
            for edge in [Edge::Block, Edge::Hide, Edge::Mute] {
                model.set(edge, from, to, false);
            }
        }
        model.suspend("flo", false);
        let counts = all.map(|user| titles(&model, user).len());
        assert_eq!(counts, [1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn filters_concern_what_users_say() {
        let mut model = Model::default();
        let contexts = [FilterContext::Notifications].into();
        let words = vec!["alpha".into()];
        let filter = Filter { owner: "ann", words, hides: true, contexts, is_whole: true, has_ended: false };
        model.filters.insert(1, filter);
        for from in [None, Some("ann"), Some("bo")] {
            model.notify(&sent(&["ann", "cy"], None, from, "an alpha"));
        }
        assert_eq!((titles(&model, "ann").len(), titles(&model, "cy").len()), (2, 3));
    }
}
