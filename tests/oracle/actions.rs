//! User actions. To add an operation, add a variant here, its request (`requests`), its expected status (`expected`),
//! and its effect on the model (`effects`).

use serde_json::{Value, json};

use crate::comment_policy::CommentPolicy;
use crate::filters::{Filter, FilterChange};
use crate::lists::{List, Member};
use crate::model::{Comment, Edge, Mark, Model, Post, User, Visibility};
use crate::notifications::AppNotification;
use crate::profiles::Quotable;
use crate::reports::{Report, Reported};
use crate::threads::thread;

/// A user action.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Publish(Post),
    Edit {
        by: User,
        id: u64,
        text: String,
        visibility: Option<Visibility>,
        comment_policy: Option<CommentPolicy>,
    },
    Delete {
        by: User,
        id: u64,
    },
    Set {
        edge: Edge,
        from: User,
        to: User,
        on: bool,
    },
    Comment(Comment),
    /// Deletes a comment; `post` is the post with the comment.
    Uncomment {
        by: User,
        id: u64,
        post: u64,
    },
    /// The backend removes a comment, or restores it; `post` is the post with the comment.
    RemoveComment {
        id: u64,
        post: u64,
        on: bool,
    },
    /// `post`: the post itself, or the post with the comment.
    Mark {
        mark: Mark,
        by: User,
        id: u64,
        post: u64,
        on: bool,
        /// Whether others do not see the favourite. Other marks are never private.
        is_private: bool,
    },
    /// Locks an account, or unlocks it.
    Lock {
        user: User,
        on: bool,
    },
    /// Sets who may quote the posts of a user.
    SetQuotable {
        by: User,
        quotable: Quotable,
    },
    /// Chooses the posts that a profile shows first.
    Pin {
        by: User,
        posts: Vec<u64>,
    },
    /// Answers a request of `from`.
    Answer {
        by: User,
        from: User,
        accepts: bool,
    },
    /// Removes a follower.
    RemoveFollower {
        by: User,
        from: User,
    },
    /// The backend suspends a user, or ends that.
    Suspend {
        user: User,
        on: bool,
    },
    /// The backend limits a user.
    Limit {
        user: User,
    },
    /// The backend removes a post, or restores it.
    Remove {
        id: u64,
        on: bool,
    },
    /// Reposts a post, or ends that.
    Repost {
        by: User,
        id: u64,
        on: bool,
        /// Whether only the followers of the user see the repost.
        is_narrow: bool,
    },
    /// The author of a quoted post detaches the quote.
    Detach {
        by: User,
        id: u64,
    },
    /// Detaches all quotes of the posts of `by` that `user` wrote.
    DetachAll {
        by: User,
        user: User,
    },
    CreateFilter(Filter),
    ChangeFilter {
        by: User,
        id: u64,
        change: FilterChange,
    },
    DeleteFilter {
        by: User,
        id: u64,
    },
    CreateList(List),
    /// Makes a list exclusive, or not.
    SetExclusive {
        by: User,
        id: u64,
        on: bool,
    },
    RenameList {
        by: User,
        id: u64,
        name: String,
    },
    /// Adds a member to a list, or removes it.
    SetMember {
        by: User,
        id: u64,
        member: Member,
        on: bool,
    },
    DeleteList {
        by: User,
        id: u64,
    },
    /// Follows a topic, or ends that.
    FollowTopic {
        by: User,
        topic: &'static str,
        on: bool,
    },
    /// The backend notifies users.
    Notify(AppNotification),
    Report(Report),
    /// The backend closes a report, or says that something else was done about it.
    CloseReport {
        id: u64,
        action: &'static str,
    },
    /// Mutes a user until a time.
    MuteBriefly {
        from: User,
        to: User,
    },
    /// The backend suspends a user until a time.
    SuspendBriefly {
        user: User,
    },
}

impl Act {
    /// The existing post that the action refers to.
    pub(crate) fn post(&self) -> Option<u64> {
        match self {
            Self::Edit { id, .. }
            | Self::Delete { id, .. }
            | Self::Remove { id, .. }
            | Self::Repost { id, .. }
            | Self::Detach { id, .. }
            | Self::Report(Report { target: Reported::Post(id), .. }) => Some(*id),
            Self::Comment(Comment { post, .. })
            | Self::Report(Report { target: Reported::Comment { post, .. }, .. })
            | Self::Uncomment { post, .. }
            | Self::RemoveComment { post, .. }
            | Self::Mark { post, .. } => Some(*post),
            _ => None,
        }
    }

    /// The existing comment that the action refers to.
    pub(crate) fn comment(&self) -> Option<u64> {
        match self {
            Self::Comment(comment) => comment.reply_to,
            Self::Uncomment { id, .. }
            | Self::RemoveComment { id, .. }
            | Self::Report(Report { target: Reported::Comment { id, .. }, .. })
            | Self::Mark { mark: Mark::CommentLike, id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The user who performs the action; empty: the backend.
    pub(crate) fn by(&self) -> User {
        match self {
            Self::Publish(Post { author: by, .. })
            | Self::Comment(Comment { author: by, .. })
            | Self::Report(Report { by, .. }) => by,
            Self::Set { from: by, .. }
            | Self::MuteBriefly { from: by, .. }
            | Self::Lock { user: by, .. }
            | Self::Answer { by, .. }
            | Self::RemoveFollower { by, .. } => by,
            Self::Suspend { .. }
            | Self::Limit { .. }
            | Self::Remove { .. }
            | Self::RemoveComment { .. }
            | Self::CloseReport { .. }
            | Self::SuspendBriefly { .. }
            | Self::Notify(_) => "",
            Self::CreateFilter(Filter { owner: by, .. })
            | Self::ChangeFilter { by, .. }
            | Self::DeleteFilter { by, .. }
            | Self::CreateList(List { owner: by, .. })
            | Self::SetExclusive { by, .. }
            | Self::RenameList { by, .. }
            | Self::SetMember { by, .. }
            | Self::FollowTopic { by, .. }
            | Self::DeleteList { by, .. } => by,
            Self::Edit { by, .. }
            | Self::Delete { by, .. }
            | Self::Uncomment { by, .. }
            | Self::Mark { by, .. }
            | Self::SetQuotable { by, .. }
            | Self::Pin { by, .. }
            | Self::Detach { by, .. }
            | Self::DetachAll { by, .. }
            | Self::Repost { by, .. } => by,
        }
    }

    /// The text of the post or comment that the action creates, the first word of the filter, or the name of the list.
    pub(crate) fn makes(&self) -> Option<&str> {
        match self {
            Self::Publish(Post { text, .. }) | Self::Comment(Comment { text, .. }) => Some(text),
            Self::CreateFilter(filter) => filter.words.first().map(String::as_str),
            Self::CreateList(list) => Some(&list.name),
            _ => None,
        }
    }

    /// Whether the action creates an object. A second repost of a post returns the first, and so does a second report.
    pub(crate) fn creates(&self, model: &Model) -> bool {
        match self {
            Self::Repost { by, id, on: true, .. } => model.repost_by(by, model.meant_by(*id)).is_none(),
            Self::Report(report) => model.same_report(report).is_none(),
            _ => self.makes().is_some(),
        }
    }

    /// The whole response, if it says more than the model has.
    pub(crate) fn answer(&self) -> Option<Value> {
        let Self::Notify(AppNotification { to, unknown, .. }) = self else { return None };
        Some(json!({ "accepted": to.len(), "unknown": unknown.iter().collect::<Vec<_>>() }))
    }

    /// Whether a filter of the user changes.
    pub(crate) fn is_of_filter(&self) -> bool {
        matches!(self, Self::CreateFilter(_) | Self::ChangeFilter { .. } | Self::DeleteFilter { .. })
    }

    /// Whether a list or the followed topics of the user change.
    pub(crate) fn is_of_list(&self) -> bool {
        matches!(
            self,
            Self::CreateList(_)
                | Self::SetExclusive { .. }
                | Self::RenameList { .. }
                | Self::SetMember { .. }
                | Self::DeleteList { .. }
                | Self::FollowTopic { .. }
        )
    }

    /// Whether the model records notifications of the action.
    pub(crate) fn notifies(&self) -> bool {
        matches!(self, Self::Notify(_) | Self::Publish(Post { quote: Some(_), .. }))
    }

    /// The path of the list that contains the created object.
    pub(crate) fn list(&self) -> Option<String> {
        match self {
            Self::Publish(post) => Some(format!("/users/{}/posts", post.author)),
            Self::Comment(comment) => Some(thread(comment.post, comment.reply_to)),
            Self::CreateFilter(_) => Some("/filters".into()),
            Self::CreateList(_) => Some("/lists".into()),
            _ => None,
        }
    }

    /// Returns the same action with mapped ids.
    pub(crate) fn renamed(mut self, name: impl Fn(u64) -> u64) -> Self {
        match &mut self {
            Self::Edit { id, .. }
            | Self::Delete { id, .. }
            | Self::Remove { id, .. }
            | Self::Repost { id, .. }
            | Self::Detach { id, .. }
            | Self::ChangeFilter { id, .. }
            | Self::DeleteFilter { id, .. }
            | Self::SetExclusive { id, .. }
            | Self::RenameList { id, .. }
            | Self::SetMember { id, .. }
            | Self::DeleteList { id, .. }
            | Self::CloseReport { id, .. }
            | Self::Report(Report { target: Reported::Post(id), .. }) => *id = name(*id),
            Self::Uncomment { id, post, .. }
            | Self::RemoveComment { id, post, .. }
            | Self::Mark { id, post, .. }
            | Self::Report(Report { target: Reported::Comment { id, post }, .. }) => {
                (*id, *post) = (name(*id), name(*post));
            }
            Self::Pin { posts, .. } => posts.iter_mut().for_each(|post| *post = name(*post)),
            Self::Comment(comment) => {
                comment.post = name(comment.post);
                comment.reply_to = comment.reply_to.map(name);
            }
            Self::Publish(post) => post.quote = post.quote.map(name),
            Self::Set { .. }
            | Self::Lock { .. }
            | Self::SetQuotable { .. }
            | Self::Answer { .. }
            | Self::RemoveFollower { .. }
            | Self::Suspend { .. }
            | Self::Limit { .. }
            | Self::DetachAll { .. }
            | Self::CreateFilter(_)
            | Self::CreateList(_)
            | Self::FollowTopic { .. }
            | Self::Report(_)
            | Self::MuteBriefly { .. }
            | Self::SuspendBriefly { .. }
            | Self::Notify(_) => {}
        }
        self
    }

    /// Whether the action deletes an object. A retry may then return `not_found`.
    pub(crate) fn takes_away(&self) -> bool {
        matches!(
            self,
            Self::Delete { .. } | Self::Uncomment { .. } | Self::DeleteFilter { .. } | Self::DeleteList { .. }
        )
    }
}
