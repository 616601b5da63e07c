//! One hint for many inboxes: the readers of one page that one connection alone hears.
//!
//! A node subscribes to the hints of each of its readers' inboxes, and each of its pub/sub connections also to a
//! channel of its own. A script that is called after the node began to hear an inbox (`open.lua`, `positions.lua`) records the
//! connection with the inbox if nobody else hears it, and removes the record otherwise. The scripts that write a page
//! (`fan_out.lua`, `pull.lua`) send each recorded connection one message, in the order of their other hints, before any
//! other command of Redis runs.
//!
//! A record may be wrong. No hint is lost by that, because:
//!
//! - **A second node begins to hear an inbox**: it opens the inbox next, which removes the record. Hints in between
//!   reach only the first node, but the second one gets its position after them. The same holds if both begin at once.
//! - **A node leaves, another one joins**: the opening of the second one records its own connection, or removes the
//!   record while the first is still subscribed. If the first one's record comes late, after the second's, the first
//!   one receives hints for a channel that it has removed; it removes the record and publishes them to all that hear
//!   the inbox. A record is only made for a channel that Redis has confirmed, and a channel is removed before Redis
//!   is told.
//! - **The connection is lost**: the message reaches nobody, so the same script removes the records and publishes each
//!   hint. The next connection has another id. Where Redis still counts the old one as connected, the node compares
//!   positions with the logs once it is connected again, which removes the records.
//! - **Redis restarts, evicts or drops the inbox**: records are lost with it, or name connections that are gone.
//! - **A node is paused**: what only it hears waits for it. A client that moves to another node is the first case.
//!
//! Should a hint be lost in spite of this, with a connection or a command, the room finds the gap from the offset of
//! the next one or by its regular comparison, which also renews the record.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::commands::Commands;
use super::keys::Keys;
use super::scripts::SCRIPTS;
use crate::model::{ChannelKind, Entry, Position};

/// Messages that wait for being redirected. Those beyond are dropped: rooms find the gap.
const MAX_WAITING: usize = 256;

/// A message: an entry, and for each inbox its user and the position in its log.
pub(super) struct NodeHint<'a> {
    pub(super) entry: Entry,
    /// The entry as in the message.
    encoded: &'a str,
    inboxes: &'a str,
}

impl<'a> NodeHint<'a> {
    /// `None` if it is nothing this version knows.
    pub(super) fn decode(said: &'a Bytes) -> Option<Self> {
        let (encoded, inboxes) = std::str::from_utf8(said).ok()?.split_once(' ')?;
        let kind = *encoded.as_bytes().first()?;
        let entry = Entry::decode(kind, said.slice_ref(encoded.get(1..)?.as_bytes()))?;
        entry.post().is_some().then_some(Self { entry, encoded, inboxes })
    }

    /// The channels of the users with their positions; ends where the text is malformed.
    pub(super) fn inboxes(&self) -> impl Iterator<Item = (String, Position)> {
        let mut words = self.inboxes.split(' ');
        std::iter::from_fn(move || {
            let (user, offset, epoch) = (words.next()?, words.next()?, words.next()?);
            let position = Position { offset: offset.parse().ok()?, epoch: epoch.into() };
            Some(([ChannelKind::Timeline.prefix(), user].concat(), position))
        })
    }
}

/// Hints that reached a connection which does not hear their inboxes.
struct Astray {
    connection: Arc<str>,
    entry: String,
    inboxes: Vec<(String, Position)>,
}

/// Sends hints on.
#[derive(Clone)]
pub(super) struct Redirector(mpsc::Sender<Astray>);

impl Redirector {
    /// A redirector and its task.
    pub(super) fn start(keys: Keys, commands: Arc<Commands>) -> (Self, AbortOnDropHandle<()>) {
        let (waiting, mut astray) = mpsc::channel::<Astray>(MAX_WAITING);
        let task = tokio::spawn(async move {
            while let Some(hints) = astray.recv().await {
                let mut call = SCRIPTS.redirect.call(2 * hints.inboxes.len());
                hints.inboxes.iter().for_each(|(channel, _)| _ = call.arg(&keys.log(channel)[..]));
                call.arg(&*hints.connection).arg(hints.entry);
                hints.inboxes.iter().for_each(|(_, at)| _ = call.arg(at.offset).arg(&*at.epoch));
                if let Err(error) = commands.send(&call).await {
                    tracing::debug!(%error, "hints could not be redirected");
                }
            }
        });
        (Self(waiting), AbortOnDropHandle::new(task))
    }

    /// Removes the record of these inboxes, if it is this connection, and publishes the hints to all that hear them.
    pub(super) fn redirect(&self, connection: &Arc<str>, hint: &NodeHint<'_>, inboxes: Vec<(String, Position)>) {
        let astray = Astray { connection: Arc::clone(connection), entry: hint.encoded.to_owned(), inboxes };
        if self.0.try_send(astray).is_err() {
            tracing::debug!("too many hints to redirect");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    #[test]
    fn messages_are_decoded() {
        let said = Bytes::from_static(b"p7 ann 12 abc bo 3 def");
        let hint = NodeHint::decode(&said).expect("a hint");
        assert_eq!((&hint.entry, hint.encoded), (&Entry::Post(PostId(7)), "p7"));
        let at = |offset, epoch: &str| Position { offset, epoch: epoch.into() };
        let inboxes = [("timeline:ann".to_owned(), at(12, "abc")), ("timeline:bo".to_owned(), at(3, "def"))];
        assert_eq!(hint.inboxes().collect::<Vec<_>>(), inboxes);
        for nonsense in ["", "p7", "? a 1 e", "d{} a 1 e", "p a 1 e", "p7x a 1 e"] {
            assert!(NodeHint::decode(&Bytes::from_static(nonsense.as_bytes())).is_none(), "{nonsense:?}");
        }
        for (said, inboxes) in [("p7 ", 0), ("p7 a 1", 0), ("p7 a x e", 0), ("p7 a 1 e b", 1), ("p7 a 1 e b x e", 1)] {
            let hint = NodeHint::decode(&Bytes::from_static(said.as_bytes())).map(|hint| hint.inboxes().count());
            assert_eq!(hint, Some(inboxes), "{said:?}");
        }
    }
}
