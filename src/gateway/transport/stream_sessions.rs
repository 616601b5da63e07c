//! The streams of this node, by the secret names under which their clients send commands.

use std::sync::Arc;

use dashmap::DashMap;

use super::stream_inbox::StreamInbox;
use crate::protocol::EmulatedData;

/// The streams of this node.
#[derive(Debug, Default)]
pub(crate) struct StreamSessions {
    by_name: DashMap<Arc<str>, RegisteredStream>,
}

#[derive(Debug)]
struct RegisteredStream {
    client: Arc<str>,
    /// `None` for a unidirectional stream: its client sends no commands.
    inbox: Option<Arc<StreamInbox>>,
}

/// What a client must know of its stream to send commands.
#[derive(Clone, Debug)]
pub(crate) struct StreamName {
    /// A secret: anyone who knows it can send commands as the client.
    pub(crate) session: Arc<str>,
    /// The node with the stream.
    pub(crate) node: Arc<str>,
}

/// Registers a stream until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamSession {
    sessions: Arc<StreamSessions>,
    name: StreamName,
    inbox: Arc<StreamInbox>,
}

impl StreamSessions {
    /// Registers the stream of a client on this node. Its name has 122 random bits of the operating system.
    pub(crate) fn open(
        self: &Arc<Self>,
        client: &Arc<str>,
        node: &Arc<str>,
        inbox: StreamInbox,
        accepts_commands: bool,
    ) -> StreamSession {
        let session: Arc<str> = uuid::Uuid::new_v4().to_string().into();
        let inbox = Arc::new(inbox);
        let registered = accepts_commands.then(|| Arc::clone(&inbox));
        let stream = RegisteredStream { client: Arc::clone(client), inbox: registered };
        self.by_name.insert(Arc::clone(&session), stream);
        let name = StreamName { session, node: Arc::clone(node) };
        StreamSession { sessions: Arc::clone(self), name, inbox }
    }

    /// Passes commands to a stream. Returns `false` if there is none of this name, or none that accepts commands.
    pub(crate) fn deliver(&self, session: &str, data: EmulatedData) -> bool {
        let Some(inbox) = self.by_name.get(session).and_then(|stream| stream.inbox.clone()) else { return false };
        inbox.push(data);
        true
    }

    /// The client of a stream.
    pub(crate) fn client(&self, session: &str) -> Option<Arc<str>> {
        self.by_name.get(session).map(|stream| Arc::clone(&stream.client))
    }
}

impl StreamSession {
    /// The name of the stream.
    pub(crate) fn name(&self) -> &StreamName {
        &self.name
    }

    /// The commands that arrive for the stream.
    pub(crate) fn inbox(&self) -> &Arc<StreamInbox> {
        &self.inbox
    }
}

impl Drop for StreamSession {
    fn drop(&mut self) {
        self.sessions.by_name.remove(&self.name.session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_until_they_end() {
        let sessions = Arc::new(StreamSessions::default());
        let client = Arc::from("client");
        let node = Arc::from("node");
        let open = |accepts| sessions.open(&client, &node, StreamInbox::new(100), accepts);
        let data = || EmulatedData::Text("{}".into());
        let stream = open(true);
        let silent = open(false);
        assert_ne!(stream.name().session, silent.name().session);
        assert!(sessions.deliver(&stream.name().session, data()));
        assert!(!sessions.deliver(&silent.name().session, data()), "it accepts no commands");
        assert!(!sessions.deliver("client", data()), "the id of the client is no secret");
        let session = Arc::clone(&stream.name().session);
        assert_eq!(sessions.client(&session).as_deref(), Some("client"));
        drop((stream, silent));
        assert!(!sessions.deliver(&session, data()) && sessions.by_name.is_empty());
    }
}
