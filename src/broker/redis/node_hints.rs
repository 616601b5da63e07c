//! One hint for many inboxes: all inboxes of a page whose hints only one connection receives.
//!
//! A node subscribes to the channel of each of its readers' inboxes, and each of its pub/sub connections also to a
//! channel of its own. When a node opens an inbox to which it has subscribed, the script (`open.lua`, `positions.lua`)
//! records the connection in the inbox if it is the only subscriber, and removes the record otherwise. The scripts that
//! write a page (`fan_out.lua`, `pull.lua`) send each recorded connection one message, in the order of their other
//! hints, before Redis runs any other command.
//!
//! A record may be wrong. No hint is lost by that, because:
//!
//! - **A second node subscribes**: it opens the inbox next, which removes the record. Hints in between reach only the
//!   first node, but the second one reads its position after them. The same holds if both subscribe at once.
//! - **A node unsubscribes, another one subscribes**: when the second one opens the inbox, the script records its
//!   connection, or removes the record while the first is still subscribed. If the record of the first one is written
//!   late, the first one receives hints for a channel that it has removed; it removes the record and publishes them on
//!   the channel of the inbox. A connection is only recorded for a channel that Redis has confirmed, and a channel is
//!   removed before the command to unsubscribe is sent.
//! - **The connection is lost**: the message has no receiver, so the same script removes the records and publishes each
//!   hint on the channel of its inbox. The next connection has another id. Where Redis still counts the old one as
//!   connected, the node compares positions with the logs once it is connected again, which removes the records.
//! - **Redis restarts, evicts or drops the inbox**: records are lost with it, or name connections that are gone.
//! - **A node is paused**: the hints wait in its connection, as those of its own channels do. A client that moves to
//!   another node is the first case.
//!
//! Should a hint be lost in spite of this, with a connection or a command, the room finds the gap from the offset of
//! the next one or by its regular comparison, which also renews the record.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::command_connections::Commands;
use super::keys::Keys;
use super::scripts::SCRIPTS;
use crate::model::{ChannelKind, Entry, Position, PositionRef};
use crate::supervisor::supervise_while_held;

/// The maximal number of messages that wait to be redirected. Further ones are dropped: rooms find the gap.
const MAX_WAITING: usize = 256;

/// A message: an entry, and for each inbox its user and the position in its log.
pub(super) struct NodeHint<'a> {
    pub(super) entry: Entry,
    /// The entry as in the message.
    encoded: &'a str,
    inboxes: &'a str,
}

impl<'a> NodeHint<'a> {
    /// `None` if this version does not know it.
    pub(super) fn decode(payload: &'a Bytes) -> Option<Self> {
        let (encoded, inboxes) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
        let kind = *encoded.as_bytes().first()?;
        let entry = Entry::decode(kind, payload.slice_ref(encoded.get(1..)?.as_bytes()))?;
        entry.post().is_some().then_some(Self { entry, encoded, inboxes })
    }

    /// The channels of the users with their positions; ends where the text is malformed. `names` keeps the names of
    /// all channels: a message has hundreds.
    pub(super) fn inboxes<'n>(&self, names: &'n mut String) -> impl Iterator<Item = (&'n str, PositionRef<'a>)> {
        let mut words = self.inboxes.split(' ');
        let parsed = std::iter::from_fn(|| {
            let user = words.next()?;
            let offset = words.next()?;
            let epoch = words.next()?;
            Some((user, PositionRef { offset: offset.parse().ok()?, epoch }))
        });
        let parsed: Vec<(&str, PositionRef<'_>)> = parsed.collect();
        names.reserve(self.inboxes.len());
        for (user, _) in &parsed {
            names.push_str(ChannelKind::Timeline.prefix());
            names.push_str(user);
        }
        let mut rest = &**names;
        parsed.into_iter().map(move |(user, position)| {
            let (name, others) = rest.split_at(ChannelKind::Timeline.prefix().len() + user.len());
            rest = others;
            (name, position)
        })
    }
}

/// Hints that reached a connection which is not subscribed to the channels of their inboxes.
struct MisroutedHints {
    connection: Arc<str>,
    entry: String,
    inboxes: Vec<(String, Position)>,
}

/// Sends waiting hints on.
struct RedirectTask {
    keys: Keys,
    commands: Arc<Commands>,
    misrouted: Mutex<mpsc::Receiver<MisroutedHints>>,
}

impl RedirectTask {
    async fn run(&self) {
        let mut misrouted = self.misrouted.lock().await;
        while let Some(hints) = misrouted.recv().await {
            let mut call = SCRIPTS.redirect.call(2 * hints.inboxes.len());
            hints.inboxes.iter().for_each(|(channel, _)| _ = call.arg(&self.keys.log(channel)[..]));
            call.arg(&*hints.connection).arg(hints.entry);
            hints.inboxes.iter().for_each(|(_, at)| _ = call.arg(at.offset).arg(&*at.epoch));
            if let Err(error) = self.commands.send(&call).await {
                tracing::debug!(%error, "hints could not be redirected");
            }
        }
        // All redirectors are gone, and soon this task.
        std::future::pending::<()>().await;
    }
}

/// Sends hints on.
#[derive(Clone)]
pub(super) struct Redirector(mpsc::Sender<MisroutedHints>);

impl Redirector {
    /// A redirector and its task.
    pub(super) fn start(keys: Keys, commands: Arc<Commands>) -> (Self, AbortOnDropHandle<()>) {
        let (waiting, misrouted) = mpsc::channel(MAX_WAITING);
        let task = Arc::new(RedirectTask { keys, commands, misrouted: Mutex::new(misrouted) });
        (Self(waiting), supervise_while_held("redis_hints", task, |task| async move { task.run().await }))
    }

    /// Removes the record of these inboxes, if it names this connection, and publishes the hints on their channels.
    pub(super) fn redirect(&self, connection: &Arc<str>, hint: &NodeHint<'_>, inboxes: &[(&str, PositionRef<'_>)]) {
        let inboxes = inboxes.iter().map(|(channel, at)| ((*channel).to_owned(), at.to_position())).collect();
        let misrouted = MisroutedHints { connection: Arc::clone(connection), entry: hint.encoded.to_owned(), inboxes };
        if self.0.try_send(misrouted).is_err() {
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
        let payload = Bytes::from_static(b"p7 ann 12 abc bo 3 def");
        let hint = NodeHint::decode(&payload).expect("a hint");
        assert_eq!((&hint.entry, hint.encoded), (&Entry::Post(PostId(7)), "p7"));
        let at = |offset, epoch| PositionRef { offset, epoch };
        let inboxes = [("timeline:ann", at(12, "abc")), ("timeline:bo", at(3, "def"))];
        assert_eq!(hint.inboxes(&mut String::new()).collect::<Vec<_>>(), inboxes);
        for nonsense in ["", "p7", "? a 1 e", "d{} a 1 e", "p a 1 e", "p7x a 1 e"] {
            assert!(NodeHint::decode(&Bytes::from_static(nonsense.as_bytes())).is_none(), "{nonsense:?}");
        }
        for (payload, inboxes) in [("p7 ", 0), ("p7 a 1", 0), ("p7 a x e", 0), ("p7 a 1 e b", 1), ("p7 a 1 e b x e", 1)]
        {
            let hint = NodeHint::decode(&Bytes::from_static(payload.as_bytes()))
                .map(|hint| hint.inboxes(&mut String::new()).count());
            assert_eq!(hint, Some(inboxes), "{payload:?}");
        }
    }
}
