//! The members of a room that asked for deltas, and the publication that their next delta is against.

use std::collections::HashMap;

use super::broadcaster::Broadcaster;
use super::recipients::PushRecipients;
use crate::protocol::{Push, PushEvent, PushPosition, SplitMembers, patch, split_members};

/// The members of one room that asked for deltas.
#[derive(Debug, Default)]
pub(super) struct DeltaReaders {
    /// By the key of the member: whether it has received the last publication.
    readers: HashMap<usize, bool>,
    /// The data of the last publication, since the first of the readers joined.
    previous: Option<String>,
}

impl DeltaReaders {
    /// Adds a member. Its first publication is a whole one.
    pub(super) fn add(&mut self, key: usize) {
        self.readers.insert(key, false);
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, key: usize) {
        self.readers.remove(&key);
    }

    /// Whether no member is left.
    pub(super) fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Sends a publication to all members of the room. The patch is computed once, if a member can use it. Returns the
    /// number of members.
    pub(super) fn send(
        &mut self,
        recipients: PushRecipients<'_>,
        channel: &str,
        publication: (&[u8], PushPosition<'_>),
        broadcaster: &Broadcaster,
    ) -> u64 {
        let (encoded, position) = publication;
        let Some(SplitMembers { data, rest }) = split_members(encoded) else {
            tracing::error!("a publication has no data");
            return 0;
        };
        let is_base = |key: &usize| self.readers.get(key) == Some(&true);
        let previous = self.previous.as_ref().filter(|_| self.readers.values().any(|has_base| *has_base));
        let patched = previous.and_then(|previous| patch(previous, data));
        let push = |event| Push { channel, event };

        let plain = recipients.select(|key, _| !self.readers.contains_key(&key));
        let mut sent = broadcaster.send(plain, push(PushEvent::Publication { members: encoded, position }));
        let whole =
            recipients.select(|key, _| self.readers.contains_key(&key) && (patched.is_none() || !is_base(&key)));
        sent += broadcaster.send(whole, push(PushEvent::Text { text: data, is_patch: false, rest, position }));
        if let Some(text) = &patched {
            let with_base = recipients.select(|key, _| is_base(&key));
            sent += broadcaster.send(with_base, push(PushEvent::Text { text, is_patch: true, rest, position }));
        }

        self.previous = Some(data.to_owned());
        self.readers.values_mut().for_each(|has_base| *has_base = true);
        sent
    }
}
