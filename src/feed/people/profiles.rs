//! Profiles, and the alerts that users enable for the posts of others.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::broker::Invalidation;
use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::feed::input::{Done, OneUser, checked_name, is_media_url};
use crate::feed::patch::{clearable, present, settable};
use crate::feed::runtime::now;
use crate::feed::visibility::ViewContext;
use crate::ledger::{LockOutcome, ProfileChange};
use crate::model::{NESTED_TOO_DEEP, PostId, Profile, Quotable, Standing, UserDetails, UserId, is_shallow};
use crate::net::OwnHosts;
use crate::text::is_blank;

/// The maximal number of authors for whose posts one user can have alerts. Each post costs a read of all users with
/// alerts for its author.
const MAX_POST_ALERTS: u64 = 1_000;

/// The maximal number of characters of a bio, and of bytes of a profile's data.
const MAX_BIO: usize = 500;
const MAX_DATA: usize = 1 << 10;

/// The maximal number of posts that a profile shows first.
const MAX_PINNED: usize = 5;

/// A change of the caller's profile. Absent members keep their values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileUpdate {
    /// The display name, 1 to 100 characters.
    #[serde(default)]
    name: Option<String>,
    /// The URL of the picture: `http` or `https`, or a path of the same origin; `null` or `""` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    avatar: Option<Option<String>>,
    /// A text about the user, 500 characters at most; `null` or a text with nothing to see removes it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    bio: Option<Option<String>>,
    /// Data of the application: a JSON object of 1 KiB at most; `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(transform = clearable)]
    data: Option<Option<Map<String, Value>>>,
    /// The caller's own posts that the profile shows first, 5 at most, in their order; `[]` removes them.
    #[serde(default)]
    #[schemars(with = "Vec<PostId>", transform = settable)]
    pinned: Option<Vec<PostId>>,
    /// Who may quote the caller's posts, of those who can see them.
    #[serde(default)]
    #[schemars(with = "Quotable", transform = settable)]
    quotable: Option<Quotable>,
    /// Whether the account is locked: its public posts are for followers, and followers are accepted one by one. An
    /// unlock accepts all requests.
    #[serde(default)]
    #[schemars(with = "bool", transform = settable)]
    locked: Option<bool>,
}

fn checked_avatar(url: Option<String>, hosts: &OwnHosts) -> Result<Option<String>> {
    let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
    if hosts.is_own_api(&url) {
        return Err(FeedError::invalid("avatar", "a picture cannot point to the API of this server"));
    }
    if url.len() <= 2_000 && is_media_url(&url) {
        Ok(Some(url))
    } else {
        Err(FeedError::invalid(
            "avatar",
            "the url of a picture begins with http:// or https://, or is a path of this server",
        ))
    }
}

fn checked_bio(bio: Option<String>) -> Result<Option<String>> {
    let Some(bio) = bio.map(|bio| bio.trim().to_owned()).filter(|bio| !is_blank(bio)) else { return Ok(None) };
    if bio.chars().count() > MAX_BIO {
        return Err(FeedError::LimitExceeded { field: "bio", what: "characters of a bio", most: MAX_BIO as u64 });
    }
    if bio.contains(|c: char| c.is_control() && c != '\n') {
        return Err(FeedError::invalid("bio", "a bio has no control characters but line feeds"));
    }
    Ok(Some(bio))
}

fn checked_data(data: Option<Map<String, Value>>) -> Result<Option<Map<String, Value>>> {
    let Some(data) = data else { return Ok(None) };
    if !is_shallow(&data) {
        return Err(FeedError::invalid("data", NESTED_TOO_DEEP));
    }
    let data = Value::Object(data);
    match (data.to_string().len(), data) {
        (0..=MAX_DATA, Value::Object(data)) => Ok(Some(data)),
        _ => Err(FeedError::LimitExceeded { field: "data", what: "bytes of a profile's data", most: MAX_DATA as u64 }),
    }
}

/// The profiles of users.
pub(crate) struct Profiles {
    base: Arc<Base>,
}

impl Profiles {
    /// Manages the profiles in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn get(&self, caller: Caller, user: OneUser) -> Result<Profile> {
        let viewer = caller.reader();
        if !self.base.visibility.can_see_profile(viewer, &user.id).await? {
            return Err(NO_USER);
        }
        let mut profile = self.base.ledger.profile(&user.id, viewer, now()).await?.ok_or(NO_USER)?;
        self.retain_visible(viewer, &mut profile.about.pinned).await?;
        Ok(profile)
    }

    /// Keeps the posts that the reader may see, in their order.
    async fn retain_visible(&self, reader: Option<&UserId>, pinned: &mut Vec<PostId>) -> Result<()> {
        if !pinned.is_empty() {
            let ids = pinned.iter().copied();
            let visible = self.base.visibility.visible_posts(reader, ViewContext::Direct, ids).await?;
            pinned.retain(|id| visible.contains_key(id));
        }
        Ok(())
    }

    /// Checks that these are posts of the user, each once.
    async fn checked_pinned(&self, user: &UserId, pinned: Vec<PostId>) -> Result<Vec<PostId>> {
        if pinned.len() > MAX_PINNED {
            let most = MAX_PINNED as u64;
            return Err(FeedError::LimitExceeded { field: "pinned", what: "posts that a profile shows first", most });
        }
        let posts = self.base.posts.get(pinned.iter().copied()).await?;
        let is_own = |id: &PostId| posts.get(id).is_some_and(|cached| cached.post.author == *user);
        let is_repeated = (1..pinned.len()).any(|n| pinned[..n].contains(&pinned[n]));
        if is_repeated || !pinned.iter().all(is_own) {
            return Err(FeedError::invalid("pinned", "a profile shows posts of its own user first, each once"));
        }
        Ok(pinned)
    }

    pub(crate) async fn update(&self, caller: Caller, change: ProfileUpdate) -> Result<UserDetails> {
        let user = caller.user()?;
        let locked = change.locked;
        let change = ProfileChange {
            name: change.name.as_deref().map(checked_name).transpose()?,
            avatar: change.avatar.map(|url| checked_avatar(url, &self.base.options.own_hosts)).transpose()?,
            bio: change.bio.map(checked_bio).transpose()?,
            data: change.data.map(checked_data).transpose()?,
            pinned: match change.pinned {
                Some(pinned) => Some(self.checked_pinned(user, pinned).await?),
                None => None,
            },
            quotable: change.quotable,
        };
        if let Some(locked) = locked {
            self.set_locked(user, locked).await?;
        }
        let mut details = self.base.ledger.update_user(user, &change).await?.ok_or(NO_USER)?;
        self.retain_visible(Some(user), &mut details.about.pinned).await?;
        Ok(details)
    }

    /// Locks or unlocks an account, and waits until that is in force on every node.
    async fn set_locked(&self, user: &UserId, locked: bool) -> Result<()> {
        let turn = self.base.jobs.begin_write(user).await;
        let job = match self.base.ledger.set_locked(user, locked, now()).await? {
            LockOutcome::Changed(job) => Some(job),
            LockOutcome::Unchanged => None,
            LockOutcome::NoUser => return Err(NO_USER),
        };
        // An earlier attempt may have been stored, and not announced.
        let invalidated = self.base.invalidator.announce(&[Invalidation::Locked(user.clone())]).await;
        self.base.jobs.submit(job, turn);
        self.base.invalidator.confirm(invalidated?).await;
        Ok(())
    }

    pub(crate) async fn enable_post_alerts(&self, caller: Caller, author: OneUser) -> Result<Done> {
        let user = caller.user()?;
        if *user == author.id {
            return Err(FeedError::invalid("id", "it is your own: you get no alerts about your own posts"));
        }
        if self.base.ledger.users(std::slice::from_ref(&author.id)).await?.is_empty() {
            return Err(NO_USER);
        }
        // Users that the author hides from may enable alerts, but receive none: a refusal would reveal the hide.
        let relation = self.base.relations.between(user, &author.id).await?;
        if relation.blocked || relation.standing == Standing::Suspended {
            return Err(NO_USER);
        }
        if relation.blocks {
            return Err(FeedError::Conflict { field: "id", message: "you block them" });
        }
        if self.base.ledger.enable_post_alerts(user, &author.id, now(), MAX_POST_ALERTS).await? {
            // Nodes may know that nobody had alerts for the author's posts.
            self.base.invalidator.invalidate(&[Invalidation::Relation(user.clone(), author.id)]).await?;
            Ok(Done {})
        } else {
            let most = MAX_POST_ALERTS;
            Err(FeedError::LimitExceeded { field: "id", what: "authors with alerts", most })
        }
    }

    pub(crate) async fn disable_post_alerts(&self, caller: Caller, author: OneUser) -> Result<Done> {
        self.base.ledger.disable_post_alerts(caller.user()?, &author.id).await?;
        Ok(Done {})
    }
}
