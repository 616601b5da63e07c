//! Appends the entries of the pull log that an inbox has missed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::backfill::Backfill;
use super::list_backfill::purge_hidden;
use super::source::Source;
use crate::feed::base::Base;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::feed::visibility::{AccessContext, ViewContext};
use crate::ledger::PULLED;
use crate::model::{Entry, Epoch, GoneReason, InboxId, OwnedList, Position, Post, PostId, UserId};

/// The maximal number of entries of the pull log that are read for one inbox at once.
const MAX_ENTRIES: usize = 500;

/// Brings inboxes up to the end of the pull log.
pub(crate) struct CatchUp {
    base: Arc<Base>,
    backfill: Arc<Backfill>,
}

impl CatchUp {
    /// Catches up the inboxes in this broker with the pull log of this ledger.
    pub(crate) fn new(base: Arc<Base>, backfill: Arc<Backfill>) -> Self {
        Self { base, backfill }
    }

    /// Catches an inbox up from entry `mark` to the end of the log. `None` if the inbox has another epoch.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn run(&self, source: &Source, epoch: &Epoch, mut mark: u64) -> Result<Option<(Position, u64)>> {
        let inbox = source.inbox();
        loop {
            let (due, view) = match source {
                Source::Timeline(user) => {
                    (self.base.ledger.pulled_for(user, mark, MAX_ENTRIES).await?, ViewContext::Inbox)
                }
                Source::List(list) => {
                    (self.base.ledger.pulled_for_list(list.id, mark, MAX_ENTRIES).await?, ViewContext::List)
                }
            };
            let ids: HashSet<PostId> = due.entries.iter().filter_map(Entry::post).collect();
            let concerned: Vec<PostId> = ids.iter().copied().collect();
            let seen = match ids.is_empty() {
                true => HashMap::new(),
                false => self.base.visibility.visible_posts(Some(source.reader()), view, ids).await?,
            };
            let entries = net_entries(&due.entries, |id| seen.contains_key(id));
            self.base.lineage.note_number(PULLED, due.mark).await?;
            let appended = self.base.broker.catch_up_inbox(&inbox, epoch, &entries, due.mark).await?;
            let Some((position, written)) = appended else { return Ok(None) };
            self.base.metrics.fanout.caught_up(written);
            let arrived = entries.iter().filter_map(|entry| match entry {
                Entry::Post(id) => seen.get(id).map(|cached| (source.reader().clone(), Arc::clone(cached))),
                _ => None,
            });
            match source {
                Source::Timeline(_) => self.recheck(arrived.collect()).await?,
                // An edit may have removed the topic that the list has.
                Source::List(list) => self.recheck_list(list, concerned).await?,
            }
            mark = due.mark;
            if !due.more {
                return Ok(Some((position, mark)));
            }
        }
    }

    /// Removes posts from the inbox of a list if its owner may no longer see them, or if they are no longer by a
    /// member: their removal may have run before they were appended.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn recheck_list(&self, list: &OwnedList, mut posts: Vec<PostId>) -> Result<()> {
        if posts.is_empty() {
            return Ok(());
        }
        purge_hidden(&self.base, list, posts.clone()).await?;
        let listed = self.base.ledger.listed_among(list.id, &posts).await?;
        posts.retain(|id| !listed.contains(id));
        self.base.broker.purge_inbox(&InboxId::List(list.id), &posts, GoneReason::Unlisted).await?;
        Ok(())
    }

    /// Removes appended posts that their readers may no longer see: the purge after an unfollow, a mute or a block may
    /// have run before the post was appended.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn recheck(&self, appended: Vec<(UserId, Arc<CachedPost>)>) -> Result<()> {
        if appended.is_empty() {
            return Ok(());
        }
        let pairs: Vec<_> =
            appended.iter().map(|(reader, cached)| (reader.clone(), cached.post.author.clone())).collect();
        let relations = self.base.ledger.relations(&pairs).await?;
        let readers: Vec<&UserId> = appended.iter().map(|(reader, _)| reader).collect();
        let topics = self.base.followed_topics.of_all(readers).await?;
        for ((reader, cached), relation) in appended.iter().zip(relations) {
            let Post { id, author, .. } = &cached.post;
            let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline };
            if access.can_see_in_timeline(&cached.post, topics.get(reader).map(|topics| &**topics)) {
                continue;
            }
            let reason = if relation.follows { GoneReason::Hidden } else { GoneReason::Unfollowed };
            self.base.broker.purge_inbox(&InboxId::Timeline(reader.clone()), &[*id], reason).await?;
            // If the reader may see the post again, the merge of that change skipped it, because it was in the inbox.
            self.backfill.merge_author(reader, author).await?;
        }
        Ok(())
    }
}

/// The net effect of entries, for an inbox that receives all of them at once. Uses the current posts and visibility,
/// not those at the time of the entries.
fn net_entries(entries: &[Entry], is_seen: impl Fn(&PostId) -> bool) -> Vec<Entry> {
    let mut seen: HashSet<PostId> = HashSet::new();
    let firsts = entries.iter().filter_map(Entry::post).filter(|id| seen.insert(*id));
    let mut net = Vec::new();
    let key = |entry: &Entry| entry.post().map(|id| (id, entry.encode().0));
    let all: HashSet<_> = entries.iter().filter_map(key).collect();
    let has = |entry: &Entry| key(entry).is_some_and(|key| all.contains(&key));
    for id in firsts {
        let [deleted, hidden] = [GoneReason::Deleted, GoneReason::Hidden].map(|reason| Entry::Gone(id, reason));
        if has(&deleted) {
            net.push(deleted);
        } else if is_seen(&id) {
            // The order matters: an inbox that contains the post takes the first entry, another inbox takes the second.
            net.extend([Entry::Edited(id), Entry::Post(id)].into_iter().filter(has));
        } else if has(&hidden) {
            net.push(hidden);
        }
        let author_gone = Entry::AuthorGone(id);
        if has(&author_gone) {
            net.push(author_gone);
        }
    }
    net
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_appended_at_once_have_the_net_effect_of_all() {
        let post = |id| Entry::Post(PostId(id));
        let edited = |id| Entry::Edited(PostId(id));
        let gone = |id| Entry::Gone(PostId(id), GoneReason::Deleted);
        let hidden = |id| Entry::Gone(PostId(id), GoneReason::Hidden);
        let log = [post(1), post(2), edited(9), edited(1), gone(2), gone(8), hidden(6), post(4), edited(9), hidden(5)];
        let author_gone = Entry::AuthorGone(PostId(4));
        let last = [post(5), author_gone.clone(), author_gone.clone()];
        let net = net_entries(&[&log[..], &last].concat(), |id| ![4, 6].contains(&id.0));
        assert_eq!(net, [edited(1), post(1), gone(2), edited(9), gone(8), hidden(6), author_gone, post(5)]);
    }
}
