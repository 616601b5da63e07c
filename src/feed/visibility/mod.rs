//! Visibility: one policy for all ways to read content.
//!
//! | file | contents |
//! |---|---|
//! | `visibility_rules.rs` | the rules, as pure functions of relation, visibility and context |
//! | `policy.rs` | the rules applied to posts and users, with the stores |
//! | `relations.rs`, `pair_cache.rs`, `followees.rs` | the relations between readers and authors, cached |
//! | `followed_topics.rs` | the topics that readers follow, cached |
//! | `list_usage.rs` | whether lists and topics have readers for the posts of an author |
//! | `follower_cache.rs` | the followers of authors who have few, cached |
//! | `profile_access.rs` | who may read the lists of a profile |
//! | `recipients.rs` | the recipients of a fan-out |
//! | `pending_access_checks.rs` | users whose open subscriptions must be checked again |
//! | `repeats.rs` | reposts that repeat what a timeline has already |
//! | `named_posts.rs` | the posts that others name, as far as their reader may see them |
//! | `comment_policy.rs` | who may comment on a post |
//! | `comment_context.rs` | the post, the author and the ancestors of comments, cached |

mod blocked_reposts;
mod comment_context;
mod comment_policy;
mod followed_topics;
mod followees;
mod follower_cache;
mod list_usage;
mod named_posts;
mod pair_cache;
mod pending_access_checks;
mod policy;
mod profile_access;
mod recipients;
mod relations;
mod repeats;
mod visibility_rules;

pub(crate) use comment_context::{CommentContext, CommentContexts};
pub(crate) use comment_policy::{closed_to_comments, may_comment};
pub(crate) use followed_topics::{FollowedTopics, TopicsByReader};
pub(crate) use followees::UserIdSet;
pub(crate) use follower_cache::FollowerCache;
pub(crate) use list_usage::ListUsage;
pub(crate) use named_posts::visible_named_posts;
pub(crate) use pending_access_checks::AccessChecks;
pub(crate) use policy::VisibilityPolicy;
pub(crate) use profile_access::{check_lists, check_profile, shows_content};
pub(crate) use recipients::{Recipients, list_receives, recipients_by_topic};
pub(crate) use relations::{RelationCache, RelationMap};
pub(crate) use repeats::{ListMemberSet, ListSource, PostGathering, PostSources, TimelinePolicy};
pub(crate) use visibility_rules::{AccessContext, ViewContext};
