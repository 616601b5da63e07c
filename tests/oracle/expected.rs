//! The expected status of each user action.

use crate::actions::Act;
use crate::lists::Member;
use crate::model::{Comment, Edge, Mark, Model, Post, User, ViewContext, Visibility};

impl Act {
    /// Whether a user may name a post: repost it, or quote it.
    fn expected_naming(model: &Model, by: User, id: u64, is_repost: bool) -> u16 {
        let meant = model.meant_by(id);
        if !model.finds(by, id) {
            return 404;
        }
        let post = &model.posts[&meant];
        let is_for_all = matches!(post.visibility, Visibility::Public | Visibility::NotTo(_));
        let is_open = is_for_all && !model.locks.locked.contains(post.author);
        // A user who mutes the author, or does not follow a limited one, would not see the repost.
        let is_heard = !model.has(Edge::Mute, by, post.author) && !model.is_limited_for(by, post.author);
        // The first repost stays.
        let is_repostable = post.author == by || (is_open && is_heard) || model.repost_by(by, meant).is_some();
        let is_admitted = if is_repost { is_repostable } else { model.may_quote(by, post.author) };
        let is_refused = post.is_removed || !is_admitted;
        if is_refused { 403 } else { 200 }
    }

    /// The expected status if no server or store fails.
    pub(crate) fn expected(&self, model: &Model) -> u16 {
        match self {
            _ if model.suspended.contains(self.by()) => 403,
            Self::Suspend { .. }
            | Self::SuspendBriefly { .. }
            | Self::Limit { .. }
            | Self::Detach { .. }
            | Self::DetachAll { .. } => 200,
            Self::Report(report) => model.expected_report(report),
            Self::CloseReport { id, .. } if !model.reports.contains_key(id) => 404,
            Self::CloseReport { .. } | Self::MuteBriefly { .. } => 200,
            Self::Remove { id, .. } => {
                if model.posts.contains_key(id) {
                    200
                } else {
                    404
                }
            }
            Self::RemoveComment { id, .. } => {
                // A deleted comment that remains can neither be removed nor restored.
                let is_deleted = model.emptied.contains(id) && !model.removed_comments.contains(id);
                if model.comments.contains_key(id) && !is_deleted { 200 } else { 404 }
            }
            Self::Pin { by, posts } => {
                if model.may_pin(by, posts) {
                    200
                } else {
                    400
                }
            }
            Self::Publish(Post { author, quote: Some(quoted), .. }) => {
                match Self::expected_naming(model, author, *quoted, false) {
                    200 => 201,
                    refused => refused,
                }
            }
            Self::Publish(_) | Self::CreateFilter(_) | Self::CreateList(_) => 201,
            Self::Notify(_) => 202,
            Self::ChangeFilter { by, id, .. } | Self::DeleteFilter { by, id } => {
                let is_theirs = model.filters.get(id).is_some_and(|filter| filter.owner == *by);
                if is_theirs { 200 } else { 404 }
            }
            Self::SetMember { by, member: Member::User(user), on: true, .. } if !model.may_read_user(by, user) => 404,
            Self::SetMember { by, id, .. }
            | Self::SetExclusive { by, id, .. }
            | Self::RenameList { by, id, .. }
            | Self::DeleteList { by, id } => {
                if model.owns_list(by, *id) {
                    200
                } else {
                    404
                }
            }
            Self::Repost { on: false, .. } => 200,
            Self::Repost { by, id, .. } => Self::expected_naming(model, by, *id, true),
            // A follower blocked by the followee gets 404; a follower who blocks the followee gets 409.
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.has(Edge::Block, to, from) => 404,
            Self::Set { edge: Edge::Follow, to, on: true, .. } if model.suspended.contains(to) => 404,
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.has(Edge::Block, from, to) => 409,
            Self::Answer { from, accepts: true, .. } if model.suspended.contains(from) => 404,
            Self::Answer { by, from, accepts: true } => {
                let is_there = model.locks.is_shown(from, by) || model.has(Edge::Follow, from, by);
                if is_there { 200 } else { 404 }
            }
            Self::Set { .. }
            | Self::Lock { .. }
            | Self::SetQuotable { .. }
            | Self::Answer { .. }
            | Self::RemoveFollower { .. }
            | Self::FollowTopic { .. } => 200,
            // Applies to the reposted post.
            Self::Edit { by, id, .. }
                if model.posts.get(id).is_some_and(|it| it.author == *by && it.repost.is_some()) =>
            {
                if model.finds(by, *id) { 400 } else { 404 }
            }
            Self::Comment(Comment { author: by, post: id, .. })
            | Self::Mark { mark: Mark::Like, by, id, .. }
            | Self::Mark { mark: Mark::Favourite, by, id, on: true, .. }
                if model.finds(by, *id) && model.meant_by(*id) != *id =>
            {
                400
            }
            Self::Edit { by, id, .. } if model.posts.get(id).is_some_and(|it| it.author == *by && it.is_removed) => 403,
            Self::Edit { by, id, .. } | Self::Delete { by, id } => match model.posts.get(id) {
                Some(post) if post.author == *by => 200,
                // Existence is not revealed to users who cannot see it.
                Some(post) if model.may_see(by, post, ViewContext::Direct) => 403,
                _ => 404,
            },
            Self::Comment(comment) => {
                let Comment { author, post, reply_to, .. } = comment;
                let is_there = |parent| model.finds_comment(author, parent);
                match model.posts.get(post).filter(|_| model.finds(author, *post)) {
                    None => 404,
                    Some(post) if !model.may_comment(author, post) => 403,
                    Some(_) if reply_to.is_none_or(is_there) => 201,
                    Some(_) => 404,
                }
            }
            Self::Uncomment { by, id, post } => match model.comments.get(id) {
                _ if model.emptied.contains(id) => 404,
                Some(comment) if comment.author == *by => 200,
                Some(_) if !model.finds(by, *post) => 404,
                Some(_) if model.posts.get(post).is_some_and(|post| post.author == *by) => 200,
                Some(_) if model.finds_comment(by, *id) => 403,
                _ => 404,
            },
            // A user can always remove their own favourites.
            Self::Mark { mark: Mark::Favourite, on: false, .. } => 200,
            Self::Mark { mark, by, id, .. } => {
                let finds =
                    if *mark == Mark::CommentLike { model.finds_comment(by, *id) } else { model.finds(by, *id) };
                if finds { 200 } else { 404 }
            }
        }
    }
}
