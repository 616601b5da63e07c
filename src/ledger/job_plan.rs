//! The jobs that writes submit, and the events of moderation. All stores share these decisions.

use super::edges::Edge;
use super::jobs::{EdgeWork, VisibilityChange, Work};
use super::reposts::NewestRepost;
use super::standings::StandingChange;
use crate::model::{DomainEvent, Post, PostId, Report, Restriction, Standing, TraceContext, UserId, Visibility};

/// The job of a new post, as a part of a trace.
pub(super) fn post_created(post: &Post, trace: Option<TraceContext>) -> Work {
    Work::Post { post: post.id, author: post.author.clone(), trace }
}

/// The jobs of an edit, in order. If the visibility changed, the post leaves some inboxes and enters others.
pub(super) fn post_edited(before: &Post, after: &Post) -> Vec<Work> {
    let post = before.id;
    let author = before.author.clone();
    let topics = before.topics.clone();
    let visibility = before.visibility.clone();
    let mut jobs = vec![Work::Edit { post, author: author.clone(), topics, visibility }];
    if before.visibility != after.visibility {
        let change = VisibilityChange { before: before.visibility.clone(), after: after.visibility.clone() };
        jobs.push(Work::RevokeVisibility { post, author: author.clone(), change: Some(change.clone()) });
        jobs.push(Work::GrantVisibility { post, author, change: Some(change) });
    }
    jobs
}

/// The job of a deleted post. If `content` is `None`, the post cannot be decoded, and the removal goes to all inboxes
/// that may contain it.
pub(super) fn post_deleted(post: PostId, author: &UserId, content: Option<(Vec<String>, Visibility)>) -> Work {
    let (topics, visibility) = content.unwrap_or((Vec::new(), Visibility::Public));
    Work::Delete { post, author: author.clone(), topics, visibility }
}

/// The job of an inbox whose owner has another relation to an author.
pub(super) fn edge_changed(change: EdgeWork, edge: &Edge) -> Work {
    Work::Edge { change, reader: edge.reader.clone(), author: edge.author.clone() }
}

/// The inboxes that a restriction affects, each with the author whose posts leave it.
pub(super) fn restricted_inboxes(restriction: Restriction, maker: &UserId, target: &UserId) -> Vec<Edge> {
    let of_maker = Edge { reader: maker.clone(), author: target.clone() };
    let of_other = Edge { reader: target.clone(), author: maker.clone() };
    match restriction {
        Restriction::Mute | Restriction::Reposts | Restriction::Listed => vec![of_maker],
        Restriction::Hide => vec![of_other],
        Restriction::Block => vec![of_maker, of_other],
    }
}

/// What a restriction does to the inboxes that it affects.
pub(super) fn detachment(restriction: Restriction) -> EdgeWork {
    match restriction {
        Restriction::Mute | Restriction::Hide | Restriction::Block | Restriction::Listed => EdgeWork::Detach,
        Restriction::Reposts => EdgeWork::DetachReposts,
    }
}

/// Whether a restriction ends the follows between the two users.
pub(super) fn ends_follows(restriction: Restriction) -> bool {
    restriction == Restriction::Block
}

/// The event of a new restriction. `None`: it concerns only the timeline of the maker. Nobody learns of lists, and no
/// notification ends.
pub(super) fn restriction_event(restriction: Restriction, maker: &UserId, target: &UserId) -> Option<DomainEvent> {
    let is_event = restriction != Restriction::Listed;
    is_event.then(|| DomainEvent::Restricted { maker: maker.clone(), target: target.clone() })
}

/// The job that removes the posts of a suspended author from open timelines. `post` is any post of the author.
pub(super) fn author_hidden(post: PostId, author: &UserId) -> Work {
    Work::HideAuthor { post, author: author.clone() }
}

/// The job that removes a repost from the open timelines of readers who may no longer see the reposted post.
pub(super) fn repost_hidden(repost: &NewestRepost) -> Work {
    Work::HideRepost { repost: repost.repost, author: repost.author.clone() }
}

/// The job of an account that was locked or unlocked. `accept_through`: the last request that the unlock accepts.
pub(super) fn lock_changed(author: &UserId, accept_through: Option<u64>) -> Work {
    Work::LockChanged { author: author.clone(), accept_through }
}

/// The event of a change of standing; `None`: the user became active.
pub(super) fn standing_event(change: &StandingChange) -> Option<DomainEvent> {
    let StandingChange { user, standing, until, .. } = change;
    let is_event = *standing != Standing::Active;
    is_event.then(|| DomainEvent::UserSuspended { user: user.clone(), level: *standing, until: *until })
}

/// The event of a new report.
pub(super) fn report_event(report: &Report) -> DomainEvent {
    DomainEvent::ReportCreated {
        reporter: report.reporter.clone(),
        report: report.id,
        target: report.target.clone(),
        reason: report.reason,
    }
}
