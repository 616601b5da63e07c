//! The effect of each user action on the model.

use crate::actions::Act;
use crate::model::{Edge, Mark, Model, Post, Visibility};

impl Act {
    /// Applies the action to the model. `made`: the id of the created object. `received`: whether the first attempt got
    /// an answer.
    pub(crate) fn apply(&self, model: &mut Model, made: Option<u64>, received: bool) {
        match self {
            Self::Publish(post) => {
                let quote = post.quote.map(|id| model.meant_by(id));
                let made = made.expect("an id");
                model.publish(made, Post { quote, ..post.clone() });
                model.notify_of_quote(made);
            }
            Self::Repost { by, id, on: true, is_narrow } => {
                let meant = model.meant_by(*id);
                if let Some(made) = made {
                    let post = &model.posts[&meant];
                    // One's own post is never shown to more than it was.
                    let visibility = match &post.visibility {
                        narrower if post.author == *by && *narrower != Visibility::Public => narrower.clone(),
                        _ if *is_narrow => Visibility::Followers,
                        _ => Visibility::Public,
                    };
                    let repost = Post { repost: Some(meant), ..Post::new(by, String::new(), visibility) };
                    model.publish(made, repost);
                }
            }
            Self::Detach { id, .. } => model.detach(*id),
            Self::DetachAll { by, user } => model.detach_all(by, user),
            Self::Repost { by, id, on: false, .. } => {
                if let Some(repost) = model.repost_by(by, model.meant_by(*id)) {
                    model.delete(repost);
                }
            }
            Self::Edit { by, id, text, visibility, comment_policy } => {
                if model.posts.get(id).is_some_and(|post| post.author == *by) {
                    model.edit(*id, text, visibility.as_ref(), *comment_policy);
                }
            }
            Self::Delete { by, id } => {
                if model.posts.get(id).is_some_and(|post| post.author == *by) {
                    model.delete(*id);
                }
            }
            Self::Set { edge: Edge::Follow, from, to, on: true } if model.is_locked_for(from, to) => {
                model.follow(from, to);
            }
            Self::Set { edge: Edge::Follow, from, to, on: false } if model.locks.is_open(from, to) => {
                model.locks.end(from, to);
            }
            Self::Lock { user, on } => model.lock(user, *on),
            Self::Answer { by, from, accepts: true } => {
                if model.locks.is_shown(from, by) {
                    model.accept(from, by);
                    if received {
                        model.brought_in(from, by);
                    }
                }
            }
            Self::Answer { by, from, accepts: false } => model.reject(from, by),
            Self::RemoveFollower { by, from } => {
                model.locks.end(from, by);
                if model.has(Edge::Follow, from, by) {
                    model.set(Edge::Follow, from, by, false);
                }
            }
            Self::Set { edge, from, to, on } => {
                let was = model.has(*edge, from, to);
                if was != *on {
                    model.set(*edge, from, to, *on);
                    if received && *edge == Edge::Follow && *on {
                        model.brought_in(from, to);
                    }
                }
            }
            Self::Comment(comment) => model.comment(made.expect("an id"), comment.clone()),
            Self::Uncomment { id, .. } => model.uncomment(*id),
            Self::RemoveComment { id, on, .. } => model.remove_comment(*id, *on),
            Self::Mark { mark, by, id, on, is_private, .. } => {
                model.mark(*mark, by, *id, *on);
                if *mark == Mark::Favourite {
                    model.set_private(by, *id, *on && *is_private);
                }
            }
            Self::SetQuotable { by, quotable } => model.profiles.set_quotable(by, *quotable),
            Self::Pin { by, posts } => model.profiles.pin(by, posts),
            Self::Suspend { user, on } => model.suspend(user, *on),
            Self::Limit { user } => model.limit(user),
            Self::Remove { id, on } => model.remove(*id, *on),
            Self::CreateFilter(filter) => drop(model.filters.insert(made.expect("an id"), filter.clone())),
            Self::ChangeFilter { id, change, .. } => model.filters.get_mut(id).expect("a filter").change(change),
            Self::DeleteFilter { id, .. } => drop(model.filters.remove(id)),
            Self::CreateList(list) => drop(model.lists.insert(made.expect("an id"), list.clone())),
            Self::SetExclusive { id, on, .. } => model.set_exclusive(*id, *on),
            Self::RenameList { id, name, .. } => model.rename_list(*id, name),
            Self::SetMember { id, member, on, .. } => model.set_member(*id, *member, *on),
            Self::DeleteList { id, .. } => model.delete_list(*id),
            Self::FollowTopic { by, topic, on } => model.follow_topic(by, topic, *on, received),
            Self::Notify(sent) => model.notify(sent),
            Self::Report(report) => {
                if let Some(made) = made {
                    model.reports.insert(made, report.clone());
                }
            }
            Self::CloseReport { id, action } => model.reports.get_mut(id).expect("a report").action = Some(action),
            Self::MuteBriefly { from, to } => model.set(Edge::Mute, from, to, true),
            Self::SuspendBriefly { user } => model.suspend(user, true),
        }
    }
}
